// SPDX-License-Identifier: Apache-2.0
// A call that is one op is submitted to the shard's runner, and no thread waits for it. The thread
// that performs the commit delivers the answer. So a waiting receive costs a few hundred bytes, and
// a commit that answers a hundred calls wakes no thread.
#include "local/async_runner.h"

#include "base/check.h"
#include "base/memory.h"
#include "local/async_pool.h"
#include "local/deliver.h"
#include "local/multi_receive.h"
#include "wire/wire.h"

#include <string.h>

// A submitted call: what is needed when the answer comes.
struct async_work {
    struct runner_async at_runner; // first
    int holds;                     // references to it; under the handle's lock
    struct multi_receive *multi;   // a receive over several shards, kept until the end; under the
                                   // handle's lock. at_runner is not used then
    struct sluice *handle;
    struct open_queue *queue; // with a hold
    struct shard_runner *runner;
    struct async_call *async;
    uint32_t shard;
    uint16_t kind;
    size_t len;
    bool has_id; // receive: it has a request id, so the claim may have been made before
    bool named;  // receive: the caller may repeat the request id
    bool again;  // settle: this is the second attempt
    struct buf payload;
    struct buf copy; // send: the messages, if they may have to be sent again
    uint64_t number; // send: its place among the blocked sends (pool_number)
    enum err err;    // receive: the claim's, while a thread reads the bodies
    struct runner_answer answer;
};

static struct async_work *work_new(struct sluice *s, struct open_queue *q, struct async_call *l)
{
    struct async_work *e = NEW(struct async_work);
    e->handle = s;
    e->queue = q;
    e->holds = 1;
    e->async = l;
    buf_init(&e->payload, JOURNAL_OP_MAX);
    buf_init(&e->copy, SIZE_MAX);
    (void)pthread_mutex_lock(&s->lock);
    l->inside = e;
    l->at_runner = true;
    (void)pthread_mutex_unlock(&s->lock);
    return e;
}

// Drops `holds` holds. Any call to a runner may run callbacks of other calls, so the handle's lock
// is never held during such a call.
static void work_release(struct async_work *e, int holds)
{
    (void)pthread_mutex_lock(&e->handle->lock);
    e->holds -= holds;
    bool last = e->holds == 0;
    (void)pthread_mutex_unlock(&e->handle->lock);
    if (!last) return;
    if (e->multi) multi_receive_release(e->multi);
    queue_let_go(&e->queue);
    buf_done(&e->payload);
    buf_done(&e->copy);
    memory_free(e);
}

// The call cannot go to a runner: undoes work_new. Returns false.
static bool work_drop(struct async_work *e)
{
    (void)pthread_mutex_lock(&e->handle->lock);
    e->async->inside = NULL;
    e->async->at_runner = false;
    (void)pthread_mutex_unlock(&e->handle->lock);
    work_release(e, 1);
    return false;
}

// Answers the call. From here on it cannot be cancelled.
static void finish(struct async_work *e, const struct async_answer *a)
{
    struct async_call *l = e->async;
    (void)pthread_mutex_lock(&e->handle->lock);
    l->inside = NULL;
    (void)pthread_mutex_unlock(&e->handle->lock);
    work_release(e, 1);
    l->done(l, a);
}

static void sent(struct runner_async *at_runner, enum err err, struct runner_answer *answer)
{
    struct async_work *e = (struct async_work *)at_runner;
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
        async_send_blocked(e->handle, e->queue->row.name, &e->copy, &request, e->number, rows,
                           &error, e->async);
        work_release(e, 1);
        return;
    }
    struct async_answer a = {.code = error.code, .error = &error, .sent = rows, .len = len};
    finish(e, &a);
    memory_free(rows);
}

static void read_backpressure(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    *(bool *)ctx = machine_config(m)->backpressure == BACKPRESSURE_BLOCK;
}

bool async_runner_send(struct sluice *s, const char *queue, const struct sluice_send *messages,
                       size_t len, const struct sluice_request *request, struct async_call *l)
{
    struct shard_runner *const *runners;
    bool blocks = false;
    struct open_queue *q = queue_if_open(s, queue, &runners);
    if (!q) return false;
    struct async_work *e = work_new(s, q, l);
    e->len = len;
    e->at_runner.then = sent;
    if (!send_as_one_op(q, messages, len, request, &e->payload, &e->shard)) return work_drop(e);
    runner_inspect(runners[e->shard], read_backpressure, &blocks);
    if (blocks) {
        wire_put_sends(&e->copy, messages, len);
        e->number = pool_number(s);
    }
    runner_do_async(runners[e->shard], (struct op){OP_SEND, buf_bytes(&e->payload)}, &e->at_runner);
    return true;
}

static void settled(struct runner_async *at_runner, enum err err, struct runner_answer *answer)
{
    struct async_work *e = (struct async_work *)at_runner;
    if (err == ERR_UNKNOWN && !e->again) { // with the same request id it cannot be applied twice
        e->again = true;
        runner_do_async(e->runner, (struct op){e->kind, buf_bytes(&e->payload)}, &e->at_runner);
        return;
    }
    if (e->again && answer->body.len == 0) err = ERR_UNKNOWN; // the first try may be applied
    struct sluice_error error = {.code = SLUICE_OK};
    size_t len = e->len;
    struct sluice_outcome *rows = memory_zeroed(len, sizeof *rows);
    error.code = settle_concluded(e->queue, e->kind, len, err, answer, rows, &error);
    struct async_answer a = {.code = error.code, .error = &error, .outcomes = rows, .len = len};
    finish(e, &a);
    memory_free(rows);
}

bool async_runner_settle(struct sluice *s, const char *queue, const struct settle *what,
                         struct async_call *l)
{
    struct shard_runner *const *runners;
    struct op op;
    struct open_queue *q = queue_if_open(s, queue, &runners);
    if (!q) return false;
    struct async_work *e = work_new(s, q, l);
    e->at_runner.then = settled;
    if (!settle_as_one_op(q, what, runners, &e->shard, &op, &e->payload)) return work_drop(e);
    e->runner = runners[e->shard];
    e->kind = op.kind;
    e->len = what->len;
    runner_do_async(e->runner, op, &e->at_runner);
    return true;
}

static void conclude_receive(struct async_work *e, enum err err, struct runner_answer *answer)
{
    struct sluice_error error = {.code = SLUICE_OK};
    struct sluice_batch *batch = NULL;
    error.code = receive_concluded(e->queue, e->shard, e->runner, e->named, e->async->budget, err,
                                   answer, &batch, &error);
    struct async_answer a = {.code = error.code, .error = &error, .batch = batch};
    finish(e, &a);
}

static void read_bodies(void *ctx)
{
    struct async_work *e = ctx;
    struct runner_answer answer = e->answer;
    conclude_receive(e, e->err, &answer);
    runner_answer_done(&answer);
}

static void claimed(struct async_work *e, enum err err, struct runner_answer *answer)
{
    if (!err && e->has_id) deliver_drop_stale(e->runner, answer); // it may be an old answer
    if (err ||
        !batch_delivery_blocks(answer->deliveries, answer->deliveries_len, e->async->budget)) {
        conclude_receive(e, err, answer);
        return;
    }
    e->err = err;
    e->answer = *answer; // taken
    runner_answer_init(answer);
    async_run(e->handle, e->queue->row.name, read_bodies, e);
}

static void received(struct runner_async *at_runner, enum err err, struct runner_answer *answer)
{
    claimed((struct async_work *)at_runner, err, answer);
}

static void multi_receive_ended(void *ctx, enum err err, uint32_t shard,
                                struct runner_answer *answer)
{
    struct async_work *e = ctx;
    e->shard = shard;
    e->runner = e->queue->runners[shard];
    claimed(e, err, answer);
}

static struct sluice_receive bounded(const struct async_work *e, const struct sluice_receive *o)
{
    struct sluice_receive some = *o;
    if (!e->named) some.max = batch_claim_max(e->queue, o->max, e->async->budget);
    return some;
}

// The receive may end before e->multi is set, so it has a hold of its own until then.
static bool begin_multi_receive(struct async_work *e, struct shard_runner *const *runners,
                                const struct sluice_receive *options)
{
    (void)pthread_mutex_lock(&e->handle->lock);
    e->holds++;
    (void)pthread_mutex_unlock(&e->handle->lock);
    struct multi_receive *multi =
        receive_begin_multi(e->queue, runners, options, multi_receive_ended, e);
    (void)pthread_mutex_lock(&e->handle->lock);
    e->multi = multi;
    (void)pthread_mutex_unlock(&e->handle->lock);
    work_release(e, 1);
    return multi;
}

bool async_runner_receive(struct sluice *s, const char *queue, const struct sluice_receive *options,
                          struct async_call *l)
{
    struct shard_runner *const *runners;
    struct open_queue *q = queue_if_open(s, queue, &runners);
    if (!q) return false;
    struct async_work *e = work_new(s, q, l);
    e->has_id = options->request;
    e->named = e->has_id && !l->unnamed;
    e->runner = runners[0];
    e->at_runner.then = received;
    struct sluice_receive some = bounded(e, options);
    bool begun = q->row.birth.shards == 1 ? receive_begin(runners[0], &some, &e->at_runner)
                                          : begin_multi_receive(e, runners, &some);
    return begun || work_drop(e);
}

bool async_runner_both(struct sluice *s, const char *queue, const struct settle *acks,
                       struct async_call *acked, const struct sluice_receive *options,
                       struct async_call *l)
{
    struct shard_runner *const *runners;
    struct op op;
    struct open_queue *q = queue_if_open(s, queue, &runners);
    if (!q) return false;
    struct async_work *first = work_new(s, q, acked);
    first->at_runner.then = settled;
    bool one = q->row.birth.shards == 1 &&
               settle_as_one_op(q, acks, runners, &first->shard, &op, &first->payload);
    if (!one) return work_drop(first);
    first->runner = runners[0];
    first->kind = op.kind;
    first->len = acks->len;
    queue_hold(q);
    struct async_work *e = work_new(s, q, l);
    e->has_id = options->request;
    e->named = e->has_id && !l->unnamed;
    e->runner = runners[0];
    e->at_runner.then = received;
    struct sluice_receive some = bounded(e, options);
    if (receive_begin_after(runners[0], op, &first->at_runner, &some, &e->at_runner)) return true;
    (void)work_drop(e);
    return work_drop(first);
}

bool async_runner_cancel(struct sluice *s, struct async_call *l)
{
    (void)pthread_mutex_lock(&s->lock);
    struct async_work *e = l->at_runner ? l->inside : NULL;
    if (e) e->holds++;
    struct multi_receive *multi = e ? e->multi : NULL;
    (void)pthread_mutex_unlock(&s->lock);
    if (!e) return false;
    bool cancelled = false;
    if (multi)
        cancelled = multi_receive_cancel(multi);
    else if (e->at_runner.then == received && e->queue->row.birth.shards == 1)
        cancelled = runner_cancel(e->runner, &e->at_runner);
    (void)pthread_mutex_lock(&s->lock);
    if (cancelled) l->inside = NULL;
    (void)pthread_mutex_unlock(&s->lock);
    work_release(e, cancelled ? 2 : 1);
    return cancelled;
}
