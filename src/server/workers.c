// SPDX-License-Identifier: Apache-2.0
// The workers of a queue, and those that wait in a receive at this node. A worker may wait at any
// node, so the node that is asked asks the other members of its cluster, with the client's token.
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "member/member.h"
#include "os/clock.h"
#include "os/parallel.h"
#include "queues/waiting_workers.h"
#include "server/inside.h"
#include "server/presence.h"

#include <string.h>

#define SHOWN_MAX 10000
#define FRESH_MS  2000 // how long the answers of the other nodes count, for statistics

// A node to ask.
struct other_node {
    char name[COORD_NAME_MAX + 1];
    char url[COORD_URL_MAX + 1];
    bool answered;
    struct waiting_list list;
};

struct round {
    struct server *server;
    const char *token;
    const char *queue;
    struct other_node *others;
    size_t len;
};

static void add_other(struct round *r, const char *name, const char *url)
{
    for (size_t i = 0; i < r->len; i++)
        if (strcmp(r->others[i].url, url) == 0) return;
    r->others = memory_resize(r->others, (r->len + 1) * sizeof *r->others);
    struct other_node *o = &r->others[r->len++];
    *o = (struct other_node){.answered = false};
    (void)text_copy(o->name, sizeof o->name, name);
    (void)text_copy(o->url, sizeof o->url, url);
}

static void find_others(struct round *r)
{
    struct membership_status status;
    if (!r->server->member) return;
    membership_status(r->server->member, &status);
    for (size_t i = 0; i < status.members_len; i++) {
        const struct membership_row *m = &status.members[i];
        if (!m->self && m->life != LIFE_GONE) add_other(r, m->name, m->url);
    }
    membership_status_done(&status);
}

static void ask_other(void *ctx, size_t i)
{
    struct round *r = ctx;
    struct other_node *o = &r->others[i];
    o->answered =
        owner_ask_member(r->server->engine, o->url, o->name, r->token, r->queue, &o->list);
}

// Adds what the other nodes list. `missing`, if not NULL: the names of those that did not answer.
static void ask_others(struct exchange *x, const char *queue, struct waiting_list *out,
                       struct json *missing)
{
    struct round r = {.server = x->server,
                      .token = auth_asks_tokens(x->server) ? auth_secret(x) : NULL,
                      .queue = queue};
    find_others(&r);
    parallel_for(x->server->engine->parallel, 0, r.len, ask_other, &r);
    for (size_t i = 0; i < r.len; i++) {
        for (size_t k = 0; k < r.others[i].list.len; k++)
            waiting_list_add(out, &r.others[i].list.rows[k]);
        waiting_list_done(&r.others[i].list);
        if (missing && !r.others[i].answered) json_list_text(missing, r.others[i].name);
    }
    memory_free(r.others);
}

void workers_at_other_nodes(struct exchange *x, struct waiting_list *out)
{
    ask_others(x, x->queue, out, NULL);
}

static struct json *row_json(const struct waiting_row *row)
{
    struct json *o = json_new();
    json_text(o, "queue", row->queue);
    json_text(o, "name", row->name);
    json_text(o, "node", row->node);
    json_number(o, "receives", row->receives);
    json_number(o, "since", row->since);
    json_number(o, "seenAt", row->seen_at);
    json_number(o, "agoMs", row->ago_ms);
    if (row->capacity > 0) json_number(o, "capacity", row->capacity);
    if (row->relayed) json_bool(o, "relayed", true);
    return o;
}

void handle_waiting(struct exchange *x)
{
    struct waiting_in in = {0};
    struct server *s = x->server;
    struct waiting_list list = {0};
    if (!read_request(x, &in)) return;
    const char *queue = in.queue && *in.queue ? in.queue : NULL;
    if (queue && !queue_name_ok(queue)) {
        (void)refuse_request(x, SLUICE_INVALID, "", "queue", "\"%.80s\" is not the name of a queue",
                             queue);
        return;
    }
    struct json *o = json_new(), *rows = json_list_new(), *missing = json_list_new();
    presence_list(s->presence, queue, s->node, &list);
    if (in.all) ask_others(x, queue, &list, missing);
    if (in.all) waiting_list_tidy(&list);
    for (size_t i = 0; i < list.len; i++)
        if (auth_may(x, SCOPE_READ, list.rows[i].queue))
            json_list_take(rows, row_json(&list.rows[i]));
    waiting_list_done(&list);
    json_text(o, "node", s->node);
    json_take(o, "workers", rows);
    json_take(o, "missing", missing);
    answer_json(x, 200, o);
}

void handle_workers(struct exchange *x)
{
    struct server *s = x->server;
    struct sluice_error error;
    size_t len = 0;
    if (!read_request(x, NULL)) return;
    struct sluice_worker *workers = memory_zeroed(SHOWN_MAX, sizeof *workers);
    enum sluice_code code = sluice_workers(s->store, x->queue, workers, SHOWN_MAX, &len, &error);
    if (!answer_unless(x, code, &error)) {
        memory_free(workers);
        return;
    }
    struct json *o = json_new(), *list = json_list_new(), *missing = json_list_new();
    struct waiting_list waiting = {0};
    presence_list(s->presence, x->queue, s->node, &waiting);
    ask_others(x, x->queue, &waiting, missing);
    waiting_list_tidy(&waiting);
    len = workers_add_waiting(workers, len, SHOWN_MAX, &waiting, x->queue);
    waiting_list_done(&waiting);
    for (size_t i = 0; i < len; i++)
        json_list_take(list, fields_json(&worker_answer, &workers[i]));
    memory_free(workers);
    json_take(o, "workers", list);
    json_take(o, "waiting", receive_waiting(s, x->queue));
    json_take(o, "missing", missing);
    answer_json(x, 200, o);
}

// The waiting workers of all queues, for statistics. Many queues are read one after another, so the
// answers of the other nodes are kept for a moment, for the client that asked. One thread at a time
// asks, for all requests that wait for it.
struct waiting_metrics_cache {
    pthread_mutex_t asks; // held while the other nodes are asked
    pthread_mutex_t lock;
    int64_t at_ms; // clock_boot_ms; 0: nothing is kept
    uint64_t client;
    struct waiting_list list;
    struct list waiting; // requests for statistics
    bool runs;           // a thread answers them
};

struct waiting_metrics_cache *waiting_shown_new(void)
{
    struct waiting_metrics_cache *w = NEW(struct waiting_metrics_cache);
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_mutex_init(&w->asks, NULL);
    return w;
}

void waiting_shown_free(struct waiting_metrics_cache *w)
{
    if (!w) return;
    waiting_list_done(&w->list);
    (void)pthread_mutex_destroy(&w->lock);
    (void)pthread_mutex_destroy(&w->asks);
    memory_free(w);
}

static uint64_t client_of(struct exchange *x)
{
    const char *secret = auth_asks_tokens(x->server) ? auth_secret(x) : NULL;
    return hash64_of(bytes_str(secret ? secret : ""), x->server->seed);
}

// False: the answers of the other nodes are too old, or another client's.
static bool count_waiting(struct exchange *x, const char *queue, struct sluice_stats *v)
{
    struct server *s = x->server;
    struct waiting_metrics_cache *w = s->waiting_shown;
    struct waiting_list list = {0};
    uint64_t client = client_of(x);
    (void)pthread_mutex_lock(&w->lock);
    bool fresh = w->at_ms != 0 && w->client == client && clock_boot_ms() - w->at_ms < FRESH_MS;
    for (size_t i = 0; fresh && i < w->list.len; i++)
        if (strcmp(w->list.rows[i].queue, queue) == 0) waiting_list_add(&list, &w->list.rows[i]);
    (void)pthread_mutex_unlock(&w->lock);
    if (!fresh) return false;
    presence_list(s->presence, queue, s->node, &list);
    waiting_list_tidy(&list);
    v->waiting = list.len;
    waiting_list_done(&list);
    return true;
}

void stats_add_waiting(struct exchange *x, const char *queue, struct sluice_stats *v)
{
    struct waiting_metrics_cache *w = x->server->waiting_shown;
    struct waiting_list list = {0};
    if (count_waiting(x, queue, v)) return;
    (void)pthread_mutex_lock(&w->asks);
    if (!count_waiting(x, queue, v)) {
        ask_others(x, NULL, &list, NULL);
        (void)pthread_mutex_lock(&w->lock);
        waiting_list_done(&w->list);
        w->list = list;
        w->at_ms = clock_boot_ms();
        w->client = client_of(x);
        (void)pthread_mutex_unlock(&w->lock);
        (void)count_waiting(x, queue, v);
    }
    (void)pthread_mutex_unlock(&w->asks);
}

static void answer_counted(struct exchange *x)
{
    answer_json(x, 200, stats_json(x->queue, x->result));
}

static void answer_waiting(void *ctx)
{
    struct server *s = ctx;
    struct waiting_metrics_cache *w = s->waiting_shown;
    for (bool more = true; more;) {
        (void)pthread_mutex_lock(&w->lock);
        struct list all = {0};
        list_move(&all, &w->waiting);
        w->runs = more = all.first;
        (void)pthread_mutex_unlock(&w->lock);
        LIST_EACH(x, &all, struct exchange, link) {
            list_remove(&all, &x->link);
            stats_add_waiting(x, x->queue, x->result);
            answer_counted(x);
            call_end(s);
        }
    }
}

void answer_stats(struct exchange *x, const struct async_answer *a)
{
    struct server *s = x->server;
    struct waiting_metrics_cache *w = s->waiting_shown;
    if (!answer_unless(x, a->code, a->error)) return;
    if (count_waiting(x, x->queue, x->result)) {
        answer_counted(x);
        return;
    }
    call_begin(s);
    (void)pthread_mutex_lock(&w->lock);
    list_add(&w->waiting, &x->link);
    bool runs = w->runs;
    w->runs = true;
    (void)pthread_mutex_unlock(&w->lock);
    if (!runs && !parallel_begin(s->engine->parallel, 0, answer_waiting, s)) answer_waiting(s);
}
