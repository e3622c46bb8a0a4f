// SPDX-License-Identifier: Apache-2.0
// Clients by way of a node: a server in this process over the bench's store, and for every client a
// handle of its own that knows no more than http://127.0.0.1:port. What a node does not offer (the
// registry of workers, dispatch, ownership) is done at runners beside it, as another process would.
#include "api/handle.h"
#include "inside.h"
#include "ops/upkeep.h"

#include "base/memory.h"
#include "client/client.h"
#include "protocol/wire.h"
#include "queues/owner.h"
#include "server/server.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS_MAX 10000

struct node {
    struct sluice *store;
    struct server *server;
    struct owner_identity *self; // taken from a node that is not to own
    char url[64];
    pthread_mutex_t carrying;
};

struct remote_client {
    struct sluice *api;
    struct open_queue queue; // its row alone: what ids and tokens are made of
    struct outcome_row last; // of the last outcome
    struct event *near;      // events as the runner saw them
    size_t near_len;
};

#define FINE(call)                                                                                 \
    do {                                                                                           \
        struct sluice_error error = {.code = SLUICE_OK};                                           \
        if (call) fail_msg("%s: %s", #call, error.message);                                        \
    } while (0)

static const char *queue_of(const struct client *w)
{
    return w->remote->queue.row.name;
}

// Dead letters move when the test says so: between two spec_move the upkeep rests.
static void upkeep_rest(struct sluice *s)
{
    upkeep_stop(s->engine);
    (void)pthread_mutex_lock(&s->engine->lock);
    s->engine->closing = false;
    (void)pthread_mutex_unlock(&s->engine->lock);
}

static void upkeep_work(struct sluice *s)
{
    assert_int_equal(upkeep_start(s->engine), ERR_OK);
}

void drivers_begin(struct bench *b)
{
    if (b->node) return;
    struct node *n = b->node = NEW(struct node);
    struct server_config config = {
        .listen = "127.0.0.1:0", .node = "spec", .store = "spec", .streams_max = 1000};
    (void)pthread_mutex_init(&n->carrying, NULL);
    FINE(handle_open_take(b->store, "spec", NULL, &n->store, &error));
    upkeep_rest(n->store);
    n->store->engine->no_courtesy = true;
    FINE(server_start(&config, n->store, &n->server, &error));
    (void)snprintf(n->url, sizeof n->url, "http://%s", server_address(n->server));
    if (!b->node_owns) n->self = atomic_exchange(&n->store->engine->self, NULL);
}

void drivers_end(struct bench *b)
{
    struct node *n = b->node;
    if (!n) {
        store_free(b->store);
        return;
    }
    if (n->self) atomic_store(&n->store->engine->self, n->self);
    assert_true(server_stop(n->server, 10000));
    upkeep_work(n->store);
    sluice_close(n->store); // and the bench's store
    (void)pthread_mutex_destroy(&n->carrying);
    memory_free(n);
}

// The ids of queues are their names, as at the runners. The second client finds the queue there.
static void ensure_queue(struct bench *b, const struct catalog_row *row)
{
    struct store_answer answer;
    store_answer_init(&answer);
    enum err err = catalog_create(b->store, row, &answer);
    assert_true(err == ERR_OK || err == ERR_CONFLICT);
    store_answer_done(&answer);
}

void spec_join(struct client *w, const struct runner_config *config)
{
    struct remote_client *f = w->remote = NEW(struct remote_client);
    struct catalog_row *row = &f->queue.row;
    row->birth = config->birth;
    (void)snprintf(row->name, sizeof row->name, "%s", config->queue);
    memcpy(row->id.bytes, config->id.queue, sizeof row->id.bytes);
    ensure_queue(w->bench, row);
    FINE(sluice_open(w->bench->node->url, NULL, &f->api, &error));
}

void spec_leave(struct client *w)
{
    sluice_close(w->remote->api);
    memory_free(w->remote->near);
    memory_free(w->remote);
}

// The node hears of the time when it next asks the store; that is now.
void drivers_look(struct bench *b)
{
    for (size_t i = 0; i < b->workers_len; i++) {
        struct sluice_stats stats;
        struct client *w = b->workers[i];
        bool first = true;
        for (size_t k = 0; k < i; k++)
            first = first && strcmp(queue_of(b->workers[k]), queue_of(w)) != 0;
        if (first) FINE(sluice_stats(w->remote->api, queue_of(w), &stats, &error));
    }
}

static enum reason reason_of(const char *name)
{
    for (int r = 0; r < REASON_COUNT; r++)
        if (strcmp(reason_name((enum reason)r), name) == 0) return (enum reason)r;
    fail_msg("\"%s\" is not a reason", name);
    return REASON_NONE;
}

// A worker's own words are no reason of ours.
static enum reason reason_told(const struct sluice_event *e)
{
    bool words = strcmp(e->type, "message-outcome") == 0 && strcmp(e->reason, "lock-expired") != 0;
    return words || !*e->reason ? REASON_NONE : reason_of(e->reason);
}

static enum outcome_status status_of(const char *name)
{
    for (int s = OUTCOME_PROCESSED; s < OUTCOME_STATUS_COUNT; s++)
        if (strcmp(outcome_status_name((enum outcome_status)s), name) == 0)
            return (enum outcome_status)s;
    return OUTCOME_NONE;
}

static enum event_kind kind_of(const char *type)
{
    for (int k = 0; k < EVENT_COUNT; k++)
        if (strcmp(event_name((enum event_kind)k), type) == 0) return (enum event_kind)k;
    fail_msg("\"%s\" is not a type of event", type);
    return EVENT_COUNT;
}

static uint64_t number_of(const struct client *w, const char *id)
{
    uint32_t shard;
    uint64_t seq = 0;
    if (*id) FINE(id_parse(queue_ref(&w->remote->queue), id, &shard, &seq, &error));
    return seq;
}

static struct sluice_request request_of(const struct request_id *id)
{
    struct sluice_request request;
    memcpy(request.bytes, id->bytes, sizeof request.bytes);
    return request;
}

static void put_text(char out[BENCH_TEXT_MAX], struct bytes text)
{
    (void)snprintf(out, BENCH_TEXT_MAX, "%.*s", (int)text.len, (const char *)text.data);
}

struct send_row spec_send_message(struct client *w, const struct message *m,
                                  const struct request_id *id)
{
    char group[BENCH_TEXT_MAX], dedup[BENCH_TEXT_MAX];
    struct sluice_error error = {.code = SLUICE_OK};
    struct sluice_sent sent;
    struct sluice_request request = id ? request_of(id) : (struct sluice_request){{0}};
    put_text(group, m->group);
    put_text(dedup, m->dedup);
    struct sluice_send one = {.body = m->body.data,
                              .body_len = m->body.len,
                              .group = group,
                              .dedup = dedup,
                              .priority = m->priority,
                              .delay_ms = m->when == WHEN_DELAY ? m->when_ms : 0,
                              .due = m->when == WHEN_DUE ? m->when_ms : 0};
    if (sluice_send(w->remote->api, queue_of(w), &one, 1, id ? &request : NULL, &sent, &error))
        return (struct send_row){.reason = reason_of(error.reason)};
    return (struct send_row){.seq = number_of(w, sent.id),
                             .reason = sent.duplicate ? REASON_DUPLICATE : REASON_NONE};
}

void spec_send_numbers(struct client *w, uint64_t first, uint32_t count)
{
    assert_true(count <= NUMBERS_MAX);
    struct sluice_send *all = memory_zeroed(count, sizeof *all);
    char(*bodies)[BENCH_TEXT_MAX] = memory_zeroed(count, sizeof *bodies);
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(bodies[i], sizeof bodies[i], "%-190" PRIu64, first + i);
        all[i] = (struct sluice_send){.body = bodies[i], .body_len = strlen(bodies[i])};
    }
    FINE(sluice_send(w->remote->api, queue_of(w), all, count, NULL, NULL, &error));
    memory_free(all);
    memory_free(bodies);
}

static void hold(struct client *w, const struct sluice_message *from, struct held_message *m)
{
    struct lock_name lock;
    FINE(token_parse(queue_ref(&w->remote->queue), from->token, &lock, &error));
    *m = (struct held_message){.seq = lock.ref.seq,
                               .token = lock.ref.token,
                               .fence = from->fence,
                               .deadline = from->deadline,
                               .deliveries = from->attempt,
                               .retries = from->retries};
    put_text(m->body, bytes_of(from->body, from->body_len));
    for (size_t i = 0; i < from->headers_len && m->headers_len < 8; i++) {
        put_text(m->headers[m->headers_len][0], bytes_str(from->headers[i].name));
        put_text(m->headers[m->headers_len++][1], bytes_str(from->headers[i].value));
    }
}

static size_t receive(struct client *w, const struct sluice_receive *what, struct held_message *out)
{
    struct sluice_batch *batch = NULL;
    FINE(sluice_receive(w->remote->api, queue_of(w), what, &batch, &error));
    size_t len = batch->len;
    for (size_t i = 0; i < len; i++)
        hold(w, &batch->messages[i], &out[i]);
    sluice_batch_free(batch);
    return len;
}

size_t spec_claim_as(struct client *w, const struct request_id *id, struct held_message *out,
                     size_t max)
{
    struct sluice_request request = request_of(id);
    struct sluice_receive what = {.worker = w->name, .max = (uint32_t)max, .request = &request};
    size_t len = receive(w, &what, out);
    for (size_t i = 0; i < len; i++) // a client is not told which of its locks were tickets
        out[i].order = bench_look(w, out[i].seq).view.order;
    return len;
}

static size_t waiting(struct client *w)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct shard_runner *r;
    FINE(queue_get(w->bench->node->store->engine, queue_of(w), &q, &error));
    FINE(queue_runner(q, 0, &r, &error));
    return runner_waiting(r);
}

static void *receive_waiting(void *arg)
{
    struct receiver *r = arg;
    struct sluice_receive what = {.worker = r->name, .max = 1, .wait_ms = RECEIVE_WAIT_MS};
    r->count = receive(r->client, &what, &r->got);
    return NULL;
}

void receiver_start(struct receiver *r, struct client *w, const char *name)
{
    *r = (struct receiver){.client = w, .name = name};
    size_t before = waiting(w);
    assert_int_equal(pthread_create(&r->thread, NULL, receive_waiting, r), 0);
    while (waiting(w) <= before)
        (void)sched_yield();
}

void receiver_end(struct receiver *r)
{
    assert_int_equal(pthread_join(r->thread, NULL), 0);
}

// The library makes a request id for every outcome; a test that has one of its own asks the node
// itself.
static void ack_as(struct client *w, const struct request_id *id, const char *token,
                   struct sluice_outcome *out)
{
    CLEANUP(http_call_done) struct http_call call;
    CLEANUP(buf_done) struct buf body;
    struct sluice_error why = {.code = SLUICE_OK};
    struct node_client *r = w->remote->api->client;
    struct sluice_request request = request_of(id);
    http_call_init(&call, "POST", NULL);
    buf_init(&body, 4096);
    wire_put_settle(&body, &(struct settle_in){.tokens = {&token, 1}}, NULL, NULL);
    struct ask ask = {.call = ROUTE_ACK,
                      .queue = queue_of(w),
                      .wire = true,
                      .body = buf_bytes(&body),
                      .request = &request,
                      .until = client_until(r)};
    FINE(client_ask(r, &ask, &call, NULL, &error));
    assert_true(wire_read_outcomes(buf_bytes(&call.body_in), out, 1, &why));
}

enum reason spec_settle(struct client *w, const struct settle_step *s, const struct held_message *m)
{
    struct sluice *api = w->remote->api;
    struct lock_name lock = {.ref = {.seq = m->seq, .token = m->token}};
    char text[SLUICE_TOKEN_MAX];
    const char *token = text, *queue = queue_of(w);
    struct sluice_outcome out = {.status = ""};
    token_print(queue_ref(&w->remote->queue), &lock, text);
    if (s->request)
        ack_as(w, s->request, token, &out);
    else if (s->kind == OP_ACK)
        (void)sluice_ack(api, queue, &token, 1, &out, NULL);
    else if (s->kind == OP_FAIL)
        (void)sluice_fail(api, queue, &token, 1, s->why, &out, NULL);
    else if (s->kind == OP_RELEASE)
        (void)sluice_release(api, queue, &token, 1, s->wait_ms, &out, NULL);
    else
        (void)sluice_renew(api, queue, &token, 1, s->wait_ms, &out, NULL);
    if (out.code) assert_string_not_equal(out.reason, "");
    w->remote->last = (struct outcome_row){.reason = out.code ? reason_of(out.reason) : REASON_NONE,
                                           .status = status_of(out.status),
                                           .until = out.until};
    return w->remote->last.reason;
}

enum outcome_status spec_status(struct client *w)
{
    return w->remote->last.status;
}

int64_t spec_until(struct client *w)
{
    return w->remote->last.until;
}

void spec_pause(struct client *w)
{
    FINE(sluice_queue_pause(w->remote->api, queue_of(w), &error));
}

void spec_resume(struct client *w)
{
    FINE(sluice_queue_resume(w->remote->api, queue_of(w), &error));
}

uint64_t spec_purge(struct client *w, bool dead)
{
    uint64_t purged = 0;
    FINE(sluice_queue_purge(w->remote->api, queue_of(w), dead, &purged, &error));
    return purged;
}

// Those that died here, and no letters that came here.
uint64_t spec_redrive(struct client *w, uint32_t max)
{
    uint64_t redriven = 0, dead = spec_stats(w).counts[STATE_DEAD];
    size_t before = spec_events(w, EVENT_MESSAGE_ENQUEUED, NULL, 0);
    if (max > dead) max = (uint32_t)dead;
    assert_true(max > 0);
    FINE(sluice_redrive(w->remote->api, queue_of(w), NULL, max, &redriven, &error));
    assert_int_equal(redriven, max);
    struct event *e = memory_zeroed(before + 1, sizeof *e);
    assert_int_equal(spec_events(w, EVENT_MESSAGE_ENQUEUED, e, before + 1), before + max);
    uint64_t seq = e[before].seq;
    memory_free(e);
    return seq;
}

size_t spec_carry(struct client *w, struct client *to)
{
    struct node *n = w->bench->node;
    (void)to;
    uint64_t before = spec_stats(w).counts[STATE_MOVED];
    (void)pthread_mutex_lock(&n->carrying);
    upkeep_work(n->store);
    upkeep_rest(n->store);
    (void)pthread_mutex_unlock(&n->carrying);
    return spec_stats(w).counts[STATE_MOVED] - before;
}

// What the node answers; the rest, which only the shard knows, is read at the runner.
struct machine_stats spec_stats(struct client *w)
{
    struct sluice_stats v;
    FINE(sluice_stats(w->remote->api, queue_of(w), &v, &error));
    struct machine_stats out = bench_look(w, 0).stats;
    out.sent = v.sent;
    out.duplicates = v.duplicates;
    out.counts[STATE_READY] = v.ready;
    out.counts[STATE_DELAYED] = v.delayed;
    out.counts[STATE_LOCKED] = v.locked;
    out.counts[STATE_PROCESSED] = v.processed;
    out.counts[STATE_DEAD] = v.dead;
    out.counts[STATE_OUTBOUND] = v.outbound;
    out.counts[STATE_MOVED] = v.moved;
    out.counts[STATE_REDRIVEN] = v.redriven;
    out.counts[STATE_PURGED] = v.purged;
    return out;
}

enum message_state spec_state(struct client *w, uint64_t seq, enum err *err)
{
    char id[SLUICE_ID_MAX];
    struct sluice_batch *batch = NULL;
    int state = 0;
    id_print(queue_ref(&w->remote->queue), 0, seq, id);
    enum sluice_code code = sluice_show(w->remote->api, queue_of(w), id, &batch, NULL);
    if (!code) {
        const char *name = batch->messages[0].state;
        while (state < STATE_COUNT &&
               strcmp(message_state_name((enum message_state)state), name) != 0)
            state++;
        if (state == STATE_COUNT) code = SLUICE_CONFLICT; // finished
        sluice_batch_free(batch);
    }
    if (err) *err = (enum err)code;
    return code ? STATE_READY : (enum message_state)state;
}

bool spec_end(struct client *w, uint64_t seq, struct spec_end *out)
{
    char id[SLUICE_ID_MAX];
    struct sluice_batch *batch = NULL;
    id_print(queue_ref(&w->remote->queue), 0, seq, id);
    FINE(sluice_show(w->remote->api, queue_of(w), id, &batch, &error));
    const struct sluice_message *m = &batch->messages[0];
    *out = (struct spec_end){.at = m->finished_at, .attempts = m->attempts};
    (void)snprintf(out->outcome, sizeof out->outcome, "%s", m->state);
    (void)snprintf(out->worker, sizeof out->worker, "%s", m->worker);
    bool known = m->finished_at != 0;
    if (!known && m->body_len == 0 && m->sent_at == 0) assert_string_equal(m->state, "finished");
    sluice_batch_free(batch);
    return known;
}

static void keep_near(void *ctx, const struct events *list, const struct event *e)
{
    (void)list;
    struct remote_client *f = ctx;
    f->near = memory_resize(f->near, (f->near_len + 1) * sizeof *f->near);
    f->near[f->near_len++] = *e;
}

// A client is not told a ticket's place in the order, nor which message a redriven one continues.
static void add_near(const struct remote_client *f, struct event *e)
{
    for (size_t i = 0; i < f->near_len; i++) {
        const struct event *n = &f->near[i];
        if (n->slot != e->slot || n->kind != e->kind || n->seq != e->seq) continue;
        e->order = n->order;
        e->from = n->from;
        return;
    }
}

static void keep_event(struct client *w, const struct sluice_event *e)
{
    struct event one = {.slot = e->position,
                        .kind = kind_of(e->type),
                        .status = *e->status ? status_of(e->status) : OUTCOME_NONE,
                        .reason = reason_told(e),
                        .at = e->time,
                        .seq = number_of(w, e->message),
                        .deliveries = e->attempt,
                        .fence = e->fence,
                        .until = e->until,
                        .count = e->count};
    if (one.kind == EVENT_MESSAGE_ENQUEUED || one.kind == EVENT_TICKETS_PUBLISHED)
        add_near(w->remote, &one);
    w->events = memory_resize(w->events, (w->events_len + 1) * sizeof *w->events);
    w->events[w->events_len++] = one;
}

// From where the last look ended, up to the end. A stream is told its end once, so each look opens
// one of its own.
static void read_events(struct client *w)
{
    struct sluice_events *stream = NULL;
    struct sluice_event e;
    struct sluice_error error = {.code = SLUICE_OK};
    uint64_t from = w->events_len > 0 ? w->events[w->events_len - 1].slot + 1 : 0;
    spec_look(w);
    runner_events(w->runner, keep_near, w->remote);
    if (sluice_events_open(w->remote->api, queue_of(w), from, &stream, &error))
        fail_msg("%s", error.message);
    enum sluice_code code;
    while ((code = sluice_events_next(stream, 0, &e, &error)) == SLUICE_OK)
        keep_event(w, &e);
    if (code != SLUICE_NOT_FOUND) fail_msg("%s", error.message);
    sluice_events_close(stream);
}

size_t spec_events(struct client *w, enum event_kind kind, struct event *out, size_t max)
{
    read_events(w);
    size_t count = 0;
    for (size_t i = 0; i < w->events_len; i++) {
        if (w->events[i].kind != kind) continue;
        if (count < max) out[count] = w->events[i];
        count++;
    }
    return count;
}
