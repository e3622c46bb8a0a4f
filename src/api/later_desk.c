// SPDX-License-Identifier: Apache-2.0
// A call that is one op is handed to the shard and forgotten; whoever performs the commit brings
// the answer. So a receive that waits costs a few hundred bytes, and a commit that answers a
// hundred calls wakes nobody.
#include "api/later_desk.h"

#include "api/hand_out.h"
#include "api/later_pool.h"
#include "api/quest.h"
#include "api/wire.h"
#include "base/check.h"
#include "base/memory.h"

#include <string.h>

// What has to be known when the answer comes.
struct errand {
    struct desk_later at_desk; // first
    int holds;                 // whoever may still look at it; under the handle's lock, as is ...
    struct quest *quest;       // ... a receive over several shards, instead; kept until the end
    struct sluice *handle;
    struct open_queue *queue; // held
    struct desk *desk;
    struct later *later;
    uint32_t shard;
    uint16_t kind;
    size_t len;
    bool has_id; // receive: the claim may have been made before
    bool named;  // ... and the id is the caller's, who may repeat it
    bool again;  // settle: asked for the second time
    struct buf payload;
    struct buf copy; // send: the messages, if they may have to be sent again
    uint64_t number; // ... and in which order
    enum err err;    // receive: while a thread reads the bodies
    struct desk_answer answer;
};

static struct errand *errand_new(struct sluice *s, struct open_queue *q, struct later *l)
{
    struct errand *e = NEW(struct errand);
    e->handle = s;
    e->queue = q;
    e->holds = 1;
    e->later = l;
    buf_init(&e->payload, JOURNAL_OP_MAX);
    buf_init(&e->copy, SIZE_MAX);
    (void)pthread_mutex_lock(&s->lock);
    l->inside = e;
    l->at_desk = true;
    (void)pthread_mutex_unlock(&s->lock);
    return e;
}

// Drops so many holds. The rest of the world may call us back from any call to a desk: the handle's
// lock is not held during one.
static void errand_leave(struct errand *e, int holds)
{
    (void)pthread_mutex_lock(&e->handle->lock);
    e->holds -= holds;
    bool last = e->holds == 0;
    (void)pthread_mutex_unlock(&e->handle->lock);
    if (!last) return;
    if (e->quest) quest_release(e->quest);
    queue_let_go(&e->queue);
    buf_done(&e->payload);
    buf_done(&e->copy);
    memory_free(e);
}

// It cannot go this way.
static bool errand_drop(struct errand *e)
{
    (void)pthread_mutex_lock(&e->handle->lock);
    e->later->inside = NULL;
    e->later->at_desk = false;
    (void)pthread_mutex_unlock(&e->handle->lock);
    errand_leave(e, 1);
    return false;
}

// From here on it cannot be cancelled.
static void finish(struct errand *e, const struct later_answer *a)
{
    struct later *l = e->later;
    (void)pthread_mutex_lock(&e->handle->lock);
    l->inside = NULL;
    (void)pthread_mutex_unlock(&e->handle->lock);
    errand_leave(e, 1);
    l->done(l, a);
}

// ---- send

static void sent(struct desk_later *at_desk, enum err err, struct desk_answer *answer)
{
    struct errand *e = (struct errand *)at_desk;
    struct sluice_error error = {.code = SLUICE_OK};
    size_t len = e->len;
    struct sluice_sent *rows = memory_zeroed(len, sizeof *rows);
    error.code =
        send_concluded(e->queue, e->shard, buf_bytes(&e->payload), len, err, answer, rows, &error);
    if (error.code == SLUICE_LIMIT && e->copy.len > 0) {
        struct op op = {OP_SEND, buf_bytes(&e->payload)};
        struct request_id id;
        struct sluice_request request;
        CHECK(op_request(&op, &id));
        memcpy(request.bytes, id.bytes, sizeof request.bytes);
        later_send_blocked(e->handle, e->queue->row.name, &e->copy, &request, e->number, rows,
                           &error, e->later);
        errand_leave(e, 1);
        return;
    }
    struct later_answer a = {.code = error.code, .error = &error, .sent = rows, .len = len};
    finish(e, &a);
    memory_free(rows);
}

static void look_at_pressure(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    *(bool *)ctx = machine_config(m)->backpressure == BACKPRESSURE_BLOCK;
}

bool desk_way_send(struct sluice *s, const char *queue, const struct sluice_send *messages,
                   size_t len, const struct sluice_request *request, struct later *l)
{
    struct desk *const *desks;
    bool blocks = false;
    struct open_queue *q = queue_if_open(s, queue, &desks);
    if (!q) return false;
    struct errand *e = errand_new(s, q, l);
    e->len = len;
    e->at_desk.then = sent;
    if (!send_as_one_op(q, messages, len, request, &e->payload, &e->shard)) return errand_drop(e);
    desk_look(desks[e->shard], look_at_pressure, &blocks);
    if (blocks) {
        wire_put_sends(&e->copy, messages, len);
        e->number = pool_number(s);
    }
    desk_do_later(desks[e->shard], (struct op){OP_SEND, buf_bytes(&e->payload)}, &e->at_desk);
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
    if (e->again && answer->body.len == 0) err = ERR_UNKNOWN; // the first may have been applied
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
    struct desk *const *desks;
    struct op op;
    struct open_queue *q = queue_if_open(s, queue, &desks);
    if (!q) return false;
    struct errand *e = errand_new(s, q, l);
    e->at_desk.then = settled;
    if (!settle_as_one_op(q, what, desks, &e->shard, &op, &e->payload)) return errand_drop(e);
    e->desk = desks[e->shard];
    e->kind = op.kind;
    e->len = what->len;
    desk_do_later(e->desk, op, &e->at_desk);
    return true;
}

// ---- receive

static void conclude(struct errand *e, enum err err, struct desk_answer *answer)
{
    struct sluice_error error = {.code = SLUICE_OK};
    struct sluice_batch *batch = NULL;
    error.code = receive_concluded(e->queue, e->shard, e->desk, e->named, e->later->room, err,
                                   answer, &batch, &error);
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

static void claimed(struct errand *e, enum err err, struct desk_answer *answer)
{
    if (!err && e->has_id) hand_out_good(e->desk, answer); // some may have gone back since
    if (err || !haul_blocks(answer->deliveries, answer->deliveries_len, e->later->room)) {
        conclude(e, err, answer);
        return;
    }
    e->err = err;
    e->answer = *answer; // taken
    desk_answer_init(answer);
    later_run(e->handle, e->queue->row.name, read_bodies, e);
}

static void received(struct desk_later *at_desk, enum err err, struct desk_answer *answer)
{
    claimed((struct errand *)at_desk, err, answer);
}

static void quest_ended(void *ctx, enum err err, uint32_t shard, struct desk_answer *answer)
{
    struct errand *e = ctx;
    e->shard = shard;
    e->desk = e->queue->desks[shard];
    claimed(e, err, answer);
}

static struct sluice_receive bounded(const struct errand *e, const struct sluice_receive *o)
{
    struct sluice_receive some = *o;
    if (!e->named) some.max = haul_bound(e->queue, o->max, e->later->room);
    return some;
}

// The quest may end before it is known what it is called.
static bool begin_quest(struct errand *e, struct desk *const *desks,
                        const struct sluice_receive *options)
{
    (void)pthread_mutex_lock(&e->handle->lock);
    e->holds++;
    (void)pthread_mutex_unlock(&e->handle->lock);
    struct quest *quest = receive_begin_quest(e->queue, desks, options, quest_ended, e);
    (void)pthread_mutex_lock(&e->handle->lock);
    e->quest = quest;
    (void)pthread_mutex_unlock(&e->handle->lock);
    errand_leave(e, 1);
    return quest;
}

bool desk_way_receive(struct sluice *s, const char *queue, const struct sluice_receive *options,
                      struct later *l)
{
    struct desk *const *desks;
    struct open_queue *q = queue_if_open(s, queue, &desks);
    if (!q) return false;
    struct errand *e = errand_new(s, q, l);
    e->has_id = options->request;
    e->named = e->has_id && !l->unnamed;
    e->desk = desks[0];
    e->at_desk.then = received;
    struct sluice_receive some = bounded(e, options);
    bool begun = q->row.birth.shards == 1 ? receive_begin(desks[0], &some, &e->at_desk)
                                          : begin_quest(e, desks, &some);
    return begun || errand_drop(e);
}

// ---- acks, and a receive behind them

bool desk_way_both(struct sluice *s, const char *queue, const struct later_settle *acks,
                   struct later *acked, const struct sluice_receive *options, struct later *l)
{
    struct desk *const *desks;
    struct op op;
    struct open_queue *q = queue_if_open(s, queue, &desks);
    if (!q) return false;
    struct errand *first = errand_new(s, q, acked);
    first->at_desk.then = settled;
    bool one = q->row.birth.shards == 1 &&
               settle_as_one_op(q, acks, desks, &first->shard, &op, &first->payload);
    if (!one) return errand_drop(first);
    first->desk = desks[0];
    first->kind = op.kind;
    first->len = acks->len;
    queue_hold(q);
    struct errand *e = errand_new(s, q, l);
    e->has_id = options->request;
    e->named = e->has_id && !l->unnamed;
    e->desk = desks[0];
    e->at_desk.then = received;
    struct sluice_receive some = bounded(e, options);
    if (receive_begin_after(desks[0], op, &first->at_desk, &some, &e->at_desk)) return true;
    (void)errand_drop(e);
    return errand_drop(first);
}

bool desk_way_cancel(struct sluice *s, struct later *l)
{
    (void)pthread_mutex_lock(&s->lock);
    struct errand *e = l->at_desk ? l->inside : NULL;
    if (e) e->holds++;
    struct quest *quest = e ? e->quest : NULL;
    (void)pthread_mutex_unlock(&s->lock);
    if (!e) return false;
    bool cancelled = false;
    if (quest)
        cancelled = quest_cancel(quest);
    else if (e->at_desk.then == received && e->queue->row.birth.shards == 1)
        cancelled = desk_cancel(e->desk, &e->at_desk);
    (void)pthread_mutex_lock(&s->lock);
    if (cancelled) l->inside = NULL;
    (void)pthread_mutex_unlock(&s->lock);
    errand_leave(e, cancelled ? 2 : 1);
    return cancelled;
}
