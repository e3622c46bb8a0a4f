// SPDX-License-Identifier: Apache-2.0
// Receiving, with or without waiting. A client that has disconnected gets no messages. Messages
// that were claimed for it before the disconnect was noticed are released at once, and the attempt
// does not count. If the client gave a request id, they stay locked: a repeated request must get
// the same valid locks.
#include "base/memory.h"
#include "base/text.h"
#include "ops/served.h"
#include "os/lock.h"
#include "protocol/wire.h"
#include "queues/bodies.h"
#include "server/inside.h"
#include "server/presence.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct answer_release {
    struct async_call async;
    struct server *server;
};

static void given_back(struct async_call *async, const struct async_answer *a)
{
    struct answer_release *g = (struct answer_release *)async;
    struct server *s = g->server;
    for (size_t i = 0; i < a->len; i++)
        METRICS_ADD(&s->metrics, given_back, a->outcomes[i].code == SLUICE_OK);
    memory_free(g);
    call_end(s);
}

static void give_back(struct exchange *x)
{
    CLEANUP(memory_let_go) const char **tokens = memory_zeroed(x->tokens_len, sizeof *tokens);
    for (size_t i = 0; i < x->tokens_len; i++)
        tokens[i] = x->tokens[i];
    struct answer_release *g = NEW(struct answer_release);
    g->server = x->server;
    g->async.done = given_back;
    struct settle what = {.kind = SETTLE_RELEASE, .tokens = tokens, .len = x->tokens_len};
    call_begin(x->server);
    async_settle(x->server->engine, x->queue, &what, &g->async);
}

// Returns whether the client may repeat the request and must then get the same locks.
static bool may_repeat(const struct exchange *x)
{
    return x->has_request;
}

void receive_over(struct exchange *x, bool delivered)
{
    if (!delivered && x->tokens_len > 0 && !may_repeat(x)) give_back(x);
    if (!delivered && x->served && !x->served_lost) served_lost(x->served);
    if (x->served) served_free(x->served);
}

static void keep_tokens(struct exchange *x, const struct sluice_batch *b)
{
    x->tokens = memory_zeroed(b->len, sizeof *x->tokens);
    for (size_t i = 0; i < b->len; i++)
        memcpy(x->tokens[i], b->messages[i].token, sizeof *x->tokens);
    x->tokens_len = b->len;
}

static void cancel(struct exchange *x);

// A receive that lost its place to another client ends as if its wait were over.
static void end_lost(struct exchange *lost)
{
    struct httpd_request *http = lost->http;
    cancel(lost);
    httpd_drop(http);
}

bool wait_begin(struct exchange *x, const char *worker)
{
    struct server *s = x->server;
    struct share *taken_from = NULL;
    (void)text_copy(x->worker, sizeof x->worker, worker ? worker : "");
    (void)pthread_mutex_lock(&s->lock);
    x->begun = x->unwanted = false; // a stream waits several times
    x->waits =
        !atomic_load(&s->stopping) && share_take(&s->waiters, &x->waiting, x->client, &taken_from);
    if (x->waits) {
        list_add_first(&s->waiting, &x->link);
        s->waiting_len++;
    }
    struct exchange *lost =
        taken_from ? (struct exchange *)((char *)taken_from - offsetof(struct exchange, waiting))
                   : NULL;
    if (lost) httpd_keep(lost->http); // so that an answer meanwhile does not free it
    (void)pthread_mutex_unlock(&s->lock);
    if (lost) end_lost(lost);
    return x->waits;
}

// An owner lists what other processes pass on to it, too.
static bool is_relayed(const struct exchange *x)
{
    return x->route->row == &route_table[ROUTE_SHARDS];
}

// A receive without a name has that of the node, as its locks do.
static const char *present_name(const struct exchange *x, char name[WORKER_NAME_MAX + 1])
{
    if (*x->worker) return x->worker;
    worker_default(name);
    return name;
}

static struct present_key present_key(const struct exchange *x, char name[WORKER_NAME_MAX + 1])
{
    const char *worker = present_name(x, name);
    bool joined = x->joined.instance != 0 && strcmp(x->joined.name, worker) == 0;
    return (struct present_key){.queue = x->queue,
                                .worker = worker,
                                .instance = joined ? x->joined.instance : 0,
                                .relayed = is_relayed(x)};
}

void present_begin(struct exchange *x, const char *worker)
{
    char name[WORKER_NAME_MAX + 1];
    (void)text_copy(x->worker, sizeof x->worker, worker ? worker : "");
    struct present_key key = present_key(x, name);
    presence_begin(x->server->presence, &key);
    x->present = true;
}

static void present_end(struct exchange *x)
{
    char name[WORKER_NAME_MAX + 1];
    if (!x->present) return;
    x->present = false;
    struct present_key key = present_key(x, name);
    presence_end(x->server->presence, &key, x->left);
}

void present_note(struct exchange *x)
{
    if (x->joined.instance == 0) return;
    struct present_key key = {
        .queue = x->queue, .worker = x->joined.name, .instance = x->joined.instance};
    presence_note(x->server->presence, &key, 0);
}

void wait_end(struct exchange *x)
{
    struct server *s = x->server;
    present_end(x);
    if (!x->waits) return;
    LOCKED(&s->lock);
    list_remove(&s->waiting, &x->link);
    s->waiting_len--;
    share_give(&s->waiters, &x->waiting);
}

typedef char worker_name[WORKER_NAME_MAX + 1];

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

// Copies the names under the lock and counts them without it, because thousands may wait.
struct json *receive_waiting(struct server *s, const char *queue)
{
    (void)pthread_mutex_lock(&s->lock);
    CLEANUP(memory_let_go) worker_name *names = memory_zeroed(s->waiting_len + 1, sizeof *names);
    size_t len = 0;
    LIST_EACH(x, &s->waiting, struct exchange, link)
        if (strcmp(x->queue, queue) == 0) memcpy(names[len++], x->worker, sizeof *names);
    (void)pthread_mutex_unlock(&s->lock);
    qsort(names, len, sizeof *names, compare_names);
    struct json *list = json_list_new();
    for (size_t i = 0, same; i < len; i += same) {
        for (same = 1; i + same < len && strcmp(names[i], names[i + same]) == 0;)
            same++;
        struct json *row = json_new();
        json_text(row, "name", names[i]);
        json_number(row, "receives", (int64_t)same);
        json_list_take(list, row);
    }
    return list;
}

static void cancel(struct exchange *x)
{
    struct server *s = x->server;
    (void)pthread_mutex_lock(&s->lock);
    bool begun = x->begun;
    x->unwanted = true;
    (void)pthread_mutex_unlock(&s->lock);
    if (!begun) return;
    if (x->served)
        served_cancel(x->served);
    else
        async_cancel(s->engine, &x->async);
}

void wait_begun(struct exchange *x)
{
    struct server *s = x->server;
    (void)pthread_mutex_lock(&s->lock);
    x->begun = true;
    bool unwanted = x->unwanted;
    (void)pthread_mutex_unlock(&s->lock);
    if (unwanted) cancel(x);
}

void receive_client_gone(void *mine)
{
    struct exchange *x = mine;
    METRICS_ADD(&x->server->metrics, waits_gone, 1);
    x->left = true;
    cancel(x);
}

void receive_end_all(struct server *s)
{
    (void)pthread_mutex_lock(&s->lock);
    size_t len = 0, max = s->waiting_len;
    struct exchange **all = memory_zeroed(max + 1, sizeof(struct exchange *));
    LIST_EACH(x, &s->waiting, struct exchange, link) {
        httpd_keep(x->http); // so that an answer meanwhile does not free it
        all[len++] = x;
    }
    (void)pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < len; i++) {
        struct httpd_request *http = all[i]->http;
        cancel(all[i]);
        httpd_drop(http);
    }
    memory_free(all);
}

struct sluice_error receive_too_many(const struct server *s)
{
    return error_of(SLUICE_LIMIT, "too-many-waiting", "wait",
                    "%u receives wait at this node already (limits.waiting), and this client "
                    "has its share; try again later",
                    s->config.waiting_max);
}

// Returns OK if the acks were decided, even if refused. UNKNOWN: they may have been applied.
static enum sluice_code acks_end(const struct async_answer *a)
{
    enum sluice_code end = SLUICE_UNAVAILABLE;
    for (size_t i = 0; i < a->len; i++) {
        const struct sluice_outcome *o = &a->outcomes[i];
        if (*o->status || *o->reason) return SLUICE_OK;
        if (o->code == SLUICE_UNKNOWN) end = SLUICE_UNKNOWN;
    }
    return end;
}

// Answers a receive that failed, or that had no place to wait in. Acks that were decided are
// reported all the same.
static void answer_failure(struct exchange *x, const struct async_answer *a)
{
    struct async_answer refused = *a;
    struct sluice_error error = a->code ? *a->error : receive_too_many(x->server);
    enum sluice_code acks = acks_end(a);
    if (acks == SLUICE_UNKNOWN) error.code = SLUICE_UNKNOWN;
    refused.code = error.code;
    refused.error = &error;
    if (acks == SLUICE_OK)
        answer_acked(x, &(struct sluice_batch){0}, &refused);
    else
        answer_error(x, &error);
}

static void received(struct async_call *async, const struct async_answer *a)
{
    struct exchange *x = (struct exchange *)async;
    struct server *s = x->server;
    wait_end(x);
    if (x->acks) {
        x->outcome = SETTLE_ACK;
        metrics_settled(x, a);
    }
    if (a->code || (x->crowded && a->batch->len == 0)) {
        answer_failure(x, a);
        sluice_batch_free(a->batch);
        call_end(s);
        return;
    }
    static const struct sluice_batch nothing = {0};
    bool gone = a->batch->len > 0 && !may_repeat(x) && httpd_gone(x->http);
    METRICS_ADD(&s->metrics, received, a->batch_forwarded ? 0 : a->batch->len);
    if (a->batch->len > 0 && !may_repeat(x)) keep_tokens(x, a->batch); // for a release
    if (gone) { // release now, because the answer cannot arrive
        give_back(x);
        x->tokens_len = 0;
    }
    const struct sluice_batch *given = gone ? &nothing : a->batch;
    answer_messages(x, given, a->batch, x->acks ? a : NULL);
    call_end(s);
}

// Returns false if the request was answered.
static bool may_wait(struct exchange *x, struct sluice_receive *ask)
{
    if (ask->wait_ms <= 0 || wait_begin(x, ask->worker)) return true;
    ask->wait_ms = 0;
    if (atomic_load(&x->server->stopping)) return true;
    x->crowded = x->acks; // the acks are done all the same
    if (x->crowded) return true;
    struct sluice_error e = receive_too_many(x->server);
    answer_error(x, &e);
    return false;
}

// results: of the acks; NULL: none
static void receive(struct exchange *x, const struct receive_in *in,
                    const struct sluice_ack *results)
{
    struct sluice_receive ask = {.worker = in->worker && *in->worker ? in->worker : NULL,
                                 .max = in->max,
                                 .wait_ms = in->wait,
                                 .visibility_ms = in->visibility,
                                 .request = x->has_request ? &x->request : NULL,
                                 .acks = in->acks.rows,
                                 .acks_len = in->acks.len,
                                 .results = results};
    struct server *s = x->server;
    x->async.done = received;
    x->async.budget = answer_budget_of(x);
    x->async.token = auth_secret(x);
    x->acks = ask.acks_len > 0;
    if (!x->acks && !budget_left(&s->budget)) { // claim nothing that cannot be sent
        struct sluice_error e;
        (void)refuse_budget(&e);
        answer_error(x, &e);
        return;
    }
    if (!may_wait(x, &ask)) return;
    present_begin(x, ask.worker);
    METRICS_ADD(&s->metrics, waits, x->waits);
    struct httpd_request *http = x->http;
    httpd_keep(http); // the call may answer before it returns
    bool waits = x->waits;
    if (waits) httpd_watch(http, receive_client_gone);
    call_begin(s);
    async_receive(s->engine, x->queue, &ask, &x->async);
    if (waits) wait_begun(x);
    httpd_drop(http);
}

static void receive_wire(struct exchange *x)
{
    struct receive_in in;
    struct settle_lists carried;
    if (!read_query(x, &no_fields, NULL)) return;
    if (!wire_read_receive(httpd_body(x->http), &in, &carried)) {
        (void)refuse_request(x, SLUICE_INVALID, "malformed", "body",
                             "the body is not a receive in the encoding %s", WIRE_TYPE);
        return;
    }
    if (check_fields(x, &in)) receive(x, &in, carried.acks);
    compact_texts_done(&in.acks);
    wire_carried_done(&carried);
}

void handle_receive(struct exchange *x)
{
    struct receive_in in = {0};
    if (x->wire_in)
        receive_wire(x);
    else if (read_request(x, &in))
        receive(x, &in, NULL);
}
