// SPDX-License-Identifier: Apache-2.0
// A call that is one op is handed to the shard and forgotten; whoever performs the commit brings
// the answer. So a receive that waits costs a few hundred bytes, and a commit that answers a
// hundred calls wakes nobody.
#include "api/later_desk.h"

#include "api/inside.h"
#include "base/memory.h"

#include <string.h>

// What has to be known when the answer comes.
struct errand {
    struct desk_later at_desk; // first
    struct sluice *handle;
    struct open_queue *queue;
    struct desk *desk;
    struct later *later;
    uint32_t shard;
    uint16_t kind;
    size_t len;
    bool named; // receive: the request id is the caller's
    bool again; // settle: asked for the second time
    struct buf payload;
    enum err err; // receive: while a thread reads the bodies
    struct desk_answer answer;
};

static struct errand *errand_new(struct sluice *s, struct open_queue *q, struct desk *d,
                                 struct later *l)
{
    struct errand *e = NEW(struct errand);
    e->handle = s;
    e->queue = q;
    e->desk = d;
    e->later = l;
    buf_init(&e->payload, JOURNAL_OP_MAX);
    l->inside = e;
    l->at_desk = true;
    return e;
}

static void errand_free(struct errand *e)
{
    buf_done(&e->payload);
    memory_free(e);
}

// It cannot go this way.
static bool errand_drop(struct errand *e)
{
    e->later->inside = NULL;
    e->later->at_desk = false;
    errand_free(e);
    return false;
}

// From here on it cannot be cancelled.
static void finish(struct errand *e, const struct later_answer *a)
{
    struct later *l = e->later;
    (void)pthread_mutex_lock(&e->handle->lock);
    l->inside = NULL;
    (void)pthread_mutex_unlock(&e->handle->lock);
    errand_free(e);
    l->done(l, a);
}

// ---- send

static void sent(struct desk_later *at_desk, enum err err, struct desk_answer *answer)
{
    struct errand *e = (struct errand *)at_desk;
    struct sluice_error error = {.code = SLUICE_OK};
    size_t len = e->len;
    struct sluice_sent *rows = memory_zeroed(len, sizeof *rows);
    error.code = send_concluded(e->queue, e->shard, len, err, answer, rows, &error);
    struct later_answer a = {.code = error.code, .error = &error, .sent = rows, .len = len};
    finish(e, &a);
    memory_free(rows);
}

// A full queue may have to be waited for, which is a thread's business.
static void look_for_room(void *ctx, const struct machine *m, int64_t now)
{
    const struct queue_config *c = machine_config(m);
    struct machine_stats stats;
    *(bool *)ctx = c->backpressure == BACKPRESSURE_REJECT;
    if (*(bool *)ctx) return;
    machine_stats(m, now, &stats);
    uint64_t held = stats.counts[STATE_READY] + stats.counts[STATE_DELAYED] +
                    stats.counts[STATE_LOCKED] + stats.counts[STATE_DEAD];
    *(bool *)ctx = held < c->capacity / 2;
}

bool desk_way_send(struct sluice *s, const char *queue, const struct sluice_send *messages,
                   size_t len, const struct sluice_request *request, struct later *l)
{
    struct desk *d;
    bool room = false;
    struct open_queue *q = queue_if_open(s, queue, 0, &d);
    if (!q || q->row.birth.shards != 1) return false;
    desk_look(d, look_for_room, &room);
    if (!room) return false;
    struct errand *e = errand_new(s, q, d, l);
    e->len = len;
    e->at_desk.then = sent;
    if (!send_as_one_op(q, messages, len, request, &e->payload, &e->shard)) return errand_drop(e);
    desk_do_later(d, (struct op){OP_SEND, buf_bytes(&e->payload)}, &e->at_desk);
    return true;
}

// ---- ack, fail, release, renew

static void settled(struct desk_later *at_desk, enum err err, struct desk_answer *answer)
{
    struct errand *e = (struct errand *)at_desk;
    if (err == ERR_UNKNOWN && !e->again) { // the same request id cannot do it twice
        e->again = true;
        desk_do_later(e->desk, (struct op){e->kind, buf_bytes(&e->payload)}, &e->at_desk);
        return;
    }
    struct sluice_error error = {.code = SLUICE_OK};
    size_t len = e->len;
    struct sluice_outcome *rows = memory_zeroed(len, sizeof *rows);
    error.code = settle_concluded(e->queue, e->kind, len, err, answer, rows, &error);
    struct later_answer a = {.code = error.code, .error = &error, .outcomes = rows, .len = len};
    finish(e, &a);
    memory_free(rows);
}

bool desk_way_settle(struct sluice *s, const char *queue, const struct later_settle *what,
                     struct later *l)
{
    struct desk *d;
    struct op op;
    struct open_queue *q = queue_if_open(s, queue, 0, &d);
    if (!q || q->row.birth.shards != 1) return false;
    struct errand *e = errand_new(s, q, d, l);
    e->at_desk.then = settled;
    if (!settle_as_one_op(q, what, d, 0, &op, &e->payload)) return errand_drop(e);
    e->kind = op.kind;
    e->len = what->len;
    desk_do_later(d, op, &e->at_desk);
    return true;
}

// ---- receive

static void conclude(struct errand *e, enum err err, struct desk_answer *answer)
{
    struct sluice_error error = {.code = SLUICE_OK};
    struct sluice_batch *batch = NULL;
    error.code = receive_concluded(e->queue, e->desk, e->named, err, answer, &batch, &error);
    struct later_answer a = {.code = error.code, .error = &error, .batch = batch};
    finish(e, &a);
}

static void read_bodies(void *ctx)
{
    struct errand *e = ctx;
    struct desk_answer answer = e->answer;
    conclude(e, e->err, &answer);
    desk_answer_done(&answer);
}

static void received(struct desk_later *at_desk, enum err err, struct desk_answer *answer)
{
    struct errand *e = (struct errand *)at_desk;
    if (err || !receive_needs_store(answer)) {
        conclude(e, err, answer);
        return;
    }
    e->err = err;
    e->answer = *answer; // taken
    desk_answer_init(answer);
    later_run(e->handle, read_bodies, e);
}

bool desk_way_receive(struct sluice *s, const char *queue, const struct sluice_receive *options,
                      struct later *l)
{
    struct desk *d;
    struct open_queue *q = queue_if_open(s, queue, 0, &d);
    if (!q || q->row.birth.shards != 1) return false;
    struct errand *e = errand_new(s, q, d, l);
    e->named = options->request;
    e->at_desk.then = received;
    return receive_begin(q, d, options, &e->at_desk) || errand_drop(e);
}

bool desk_way_cancel(struct sluice *s, struct later *l)
{
    (void)pthread_mutex_lock(&s->lock);
    struct errand *e = l->inside;
    bool cancelled = e && e->at_desk.then == received && desk_cancel(e->desk, &e->at_desk);
    if (cancelled) l->inside = NULL;
    (void)pthread_mutex_unlock(&s->lock);
    if (cancelled) errand_free(e);
    return cancelled;
}
