// SPDX-License-Identifier: Apache-2.0
// A call for another process (STEP_SERVED in call/step.h). Its parts are an op, a claim, both, or
// one await for each shard. Their replies stay in the slots of the call until served_free.
#include "ops/served.h"

#include "base/check.h"
#include "base/memory.h"
#include "ops/announcements.h"
#include "ops/call.h"
#include "ops/deliver.h"
#include "ops/ops.h"
#include "ops/settle.h"
#include "os/clock.h"
#include "queue/codec/result.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

struct served_call {
    struct local_call call;   // first
    struct async_call caller; // its budget is for the messages of the answer
    struct shard_ask ask;
    void (*done)(struct served_call *g, void *ctx);
    void *ctx;
    bool remembered; // as in struct shard_part
};
static_assert(sizeof(struct served_call) <= CALL_BYTES_MAX, "malloc has it at hand");

static struct served_call *served_of(struct local_call *c)
{
    return (struct served_call *)c;
}

static bool is_await(const struct served_call *g)
{
    return g->ask.kind == SHARD_AWAIT;
}

static bool is_listen(const struct served_call *g)
{
    return g->ask.kind == SHARD_LISTEN;
}

static bool has_op(const struct served_call *g)
{
    return g->ask.kind == SHARD_SUBMIT || g->ask.kind == SHARD_SUBMIT_CLAIM;
}

static bool has_claim(const struct served_call *g)
{
    return g->ask.kind == SHARD_CLAIM || g->ask.kind == SHARD_SUBMIT_CLAIM;
}

static uint32_t parts_of(const struct served_call *g)
{
    if (is_await(g)) return g->ask.shards_len;
    return g->ask.kind == SHARD_SUBMIT_CLAIM ? 2 : 1;
}

static uint32_t shard_of(const struct served_call *g, uint32_t part)
{
    return is_await(g) ? shard_ask_await(&g->ask, part) : g->ask.shard;
}

// The reply to the op. NULL: it was not submitted.
static struct call_slot *op_slot(const struct served_call *g)
{
    struct call_slot *slot = call_slot_of(&g->call, STEP_SUBMIT, 0);
    return slot ? slot : call_slot_of(&g->call, STEP_SUBMIT_JOINED, 0);
}

// The reply to a part. NULL: it has none.
static struct call_slot *part_slot(const struct served_call *g, uint32_t part)
{
    if (is_await(g) || is_listen(g)) return call_slot_of(&g->call, STEP_AWAIT, part);
    bool op = has_op(g) && part == 0;
    return op ? op_slot(g) : call_slot_of(&g->call, STEP_CLAIM, 0);
}

size_t served_deliveries(const struct served_call *g)
{
    const struct call_slot *claim = call_slot_of(&g->call, STEP_CLAIM, 0);
    return claim ? claim->async.answer.deliveries_len : 0;
}

// Opens the result of the op. Returns false if the fold gave none.
static bool op_result(const struct served_call *g, struct result *out)
{
    const struct call_slot *slot = has_op(g) ? op_slot(g) : NULL;
    const struct buf *body = slot ? &slot->async.answer.body : NULL;
    return body && body->len > 0 && !result_open(buf_bytes(body), g->ask.op.kind, out);
}

size_t served_sent(const struct served_call *g)
{
    struct result result;
    struct send_row row;
    size_t len = 0;
    if (g->ask.op.kind != OP_SEND || !op_result(g, &result)) return 0;
    while (send_row_next(&result, &row))
        len += reason_err(row.reason) == ERR_OK;
    return len;
}

struct sluice_outcome *served_outcomes(const struct served_call *g, size_t *len)
{
    struct result result;
    struct outcome_row row;
    *len = 0;
    if (!op_is_outcome(g->ask.op.kind) || !op_result(g, &result) || result.count == 0) return NULL;
    struct sluice_outcome *out = memory_zeroed(result.count, sizeof *out);
    while (*len < result.count && outcome_row_next(&result, &row))
        outcome_fill(g->ask.op.kind, &row, &out[(*len)++]);
    return out;
}

static void check_memory(void *ctx, const struct machine *m, int64_t now)
{
    struct served_call *g = ctx;
    struct op_result result;
    LOCAL(buf, text, SIZE_MAX);
    (void)now;
    g->remembered = machine_recall(m, &g->ask.op, &result, &text);
}

// Only the last part of an answer has signals.
static void drop_signals(struct served_call *g)
{
    for (uint32_t i = 0; !is_await(g) && i + 1 < parts_of(g); i++) {
        struct call_slot *slot = part_slot(g, i);
        if (!slot) continue;
        memory_free(slot->async.answer.signals);
        slot->async.answer.signals = NULL;
    }
}

// If there is no memory for the messages, the process that asks claims them itself, with the same
// request id.
static void reserve(struct served_call *g, struct call_slot *slot)
{
    struct kept_reply *a = &slot->async.answer;
    struct answer_budget *budget = g->caller.budget;
    deliver_drop_stale(slot->async.runner, a); // the request id may be a repeated one
    size_t bytes = shard_answer_weight(a);
    if (bytes == 0 || !budget || budget->take(budget, bytes, false)) return;
    kept_reply_done(a);
    kept_reply_init(a);
    slot->err = ERR_UNKNOWN;
}

static void ended(struct local_call *c)
{
    struct served_call *g = served_of(c);
    struct call_slot *last = is_await(g) ? NULL : part_slot(g, parts_of(g) - 1);
    const struct call_slot *op = has_op(g) ? op_slot(g) : NULL;
    drop_signals(g);
    if (last && last != op) reserve(g, last);
    if (op && g->ask.flags & SHARD_ASK_TELLS) runner_inspect(op->async.runner, check_memory, g);
    if (op && g->ask.op.kind == OP_FAIL) engine_wake(c->engine);
}

static void done(struct async_call *caller, const struct async_answer *a)
{
    struct served_call *g =
        (struct served_call *)((char *)caller - offsetof(struct served_call, caller));
    (void)a; // the slots have it
    g->done(g, g->ctx);
}

// Opens the shards that are asked for. False: that would block.
static bool open_shards(struct served_call *g, bool may_block)
{
    struct local_call *c = &g->call;
    struct shard_runner *const *runners;
    struct shard_runner *r;
    if (!may_block) {
        c->queue = queue_if_open(c->engine, c->name, &runners);
        return c->queue;
    }
    bool open = !queue_get(c->engine, c->name, &c->queue, NULL);
    for (uint32_t i = 0; open && i < parts_of(g); i++)
        open = shard_of(g, i) < c->queue->row.birth.shards &&
               !queue_work_runner(c->queue, shard_of(g, i), &r, NULL);
    return true; // `owns` finds what is not open
}

// Returns whether this node owns all shards that are asked for. all_open: the queue's runners are.
static bool owns(const struct served_call *g, bool all_open)
{
    struct open_queue *q = g->call.queue;
    struct runner_owner o;
    if (!q || memcmp(q->row.id.bytes, g->ask.queue.bytes, sizeof q->row.id.bytes) != 0)
        return false;
    for (uint32_t i = 0; i < (is_await(g) ? parts_of(g) : 1); i++) {
        uint32_t shard = shard_of(g, i);
        if (shard >= q->row.birth.shards) return false;
        struct shard_runner *r = all_open ? q->runners[shard] : runner_if_open(q, shard);
        if (!r) return false;
        runner_owner(r, &o);
        if (!o.mine) return false;
    }
    return true;
}

static enum call_built build(struct local_call *c, bool may_block, struct call_plan *plan)
{
    struct served_call *g = served_of(c);
    if (!open_shards(g, may_block)) return CALL_BLOCKS;
    if (!owns(g, !may_block)) return CALL_MOVED;
    bool awaits = is_await(g) || is_listen(g);
    *plan = (struct call_plan){.ops = has_op(g),
                               .at_once = 1,
                               .joined = g->ask.kind == SHARD_SUBMIT_CLAIM,
                               .awaits_only = awaits,
                               .shared = is_listen(g),
                               .shards = awaits ? parts_of(g) : has_claim(g)};
    return CALL_BUILT;
}

// An open runner stays open as long as its queue.
static struct shard_runner *runner(struct local_call *c, uint32_t part)
{
    return c->queue->runners[shard_of(served_of(c), part)];
}

static struct shard_runner *op(struct local_call *c, uint32_t index, struct op *out,
                               uint32_t *shard)
{
    CHECK(index == 0);
    *out = served_of(c)->ask.op;
    *shard = served_of(c)->ask.shard;
    return runner(c, 0);
}

static enum call_op_end op_end(struct local_call *c, const struct call_slot *slot)
{
    (void)c;
    return slot->err == ERR_UNKNOWN ? STEP_OP_UNKNOWN : STEP_OP_DONE;
}

const struct op_claim *served_claim(struct local_call *c)
{
    return &served_of(c)->ask.claim;
}

static void listen(struct served_call *g, struct call_slot *slot)
{
    const struct shard_ask *ask = &g->ask;
    CLEANUP(memory_let_go) struct listen_ask *asks = memory_zeroed(ask->tokens_len, sizeof *asks);
    for (uint32_t i = 0; i < ask->tokens_len; i++)
        asks[i] = shard_ask_token(ask, i);
    struct shard_listen what = {.asks = asks, .len = ask->tokens_len, .as_owner = true};
    what.signal = ask->signal;
    what.seq = ask->seq;
    runner_listen_async(runner(&g->call, 0), &what, receive_left_ms(&g->call), &slot->async);
}

void served_await(struct local_call *c, struct call_slot *slot)
{
    struct served_call *g = served_of(c);
    if (is_listen(g))
        listen(g, slot);
    else
        runner_await_async(runner(c, slot->index), g->ask.worker, receive_left_ms(c), &slot->async);
}

void served_notify(struct local_call *c, uint32_t part)
{
    announcements_add(c->engine->ops->announcements, c->queue, shard_of(served_of(c), part));
}

static void release(struct local_call *c)
{
    memory_free(served_of(c));
}

static const struct call_type served_type = {.kind = STEP_SERVED,
                                             .held = true,
                                             .build = build,
                                             .op = op,
                                             .op_end = op_end,
                                             .ended = ended,
                                             .runner = runner,
                                             .release = release};

struct served_call *served_new(struct engine *e, const char *queue, const struct shard_ask *ask,
                               struct answer_budget *budget,
                               void (*then)(struct served_call *g, void *ctx), void *ctx)
{
    struct served_call *g = NEW(struct served_call);
    g->caller = (struct async_call){.done = done, .budget = budget};
    g->ask = *ask;
    g->done = then;
    g->ctx = ctx;
    call_prepare(&g->call, &served_type, e, queue, &g->caller);
    g->call.until = clock_boot_ms() + ask->wait_ms;
    return g;
}

void served_start(struct served_call *g)
{
    call_start(&g->call);
}

void served_cancel(struct served_call *g)
{
    call_note_cancel(&g->call);
}

void served_free(struct served_call *g)
{
    if (g) call_release(&g->call);
}

// What has no result is not done, or another shard of the await has something.
static enum err part_err(const struct served_call *g, uint32_t part, const struct call_slot *slot)
{
    CHECK(slot || g->call.state.undone || is_await(g));
    bool op = has_op(g) && part == 0;
    bool nothing = !slot || (!op && receive_found(slot) == STEP_NOTHING);
    if (nothing && g->call.state.undone) return ERR_UNAVAILABLE;
    return slot ? slot->err : ERR_NOT_FOUND;
}

static void answer_awaits(struct served_call *g, struct buf *out)
{
    CLEANUP(memory_let_go) struct shard_await_row *rows = memory_zeroed(parts_of(g), sizeof *rows);
    size_t len = 0;
    for (uint32_t i = 0; !g->call.state.moved && i < parts_of(g); i++) {
        const struct call_slot *slot = part_slot(g, i);
        enum err err = part_err(g, i, slot);
        if (err != ERR_NOT_FOUND || (slot && slot->async.answer.body.len > 0))
            rows[len++] = (struct shard_await_row){shard_of(g, i), err};
    }
    shard_awaited_put(out, g->call.state.moved, rows, len);
}

void served_answer(struct served_call *g, struct buf *out)
{
    bool moved = g->call.state.moved;
    if (is_await(g)) {
        answer_awaits(g, out);
        return;
    }
    LOCAL(kept_reply, none);
    shard_answer_begin(out, moved, moved ? 0 : (uint8_t)parts_of(g));
    for (uint32_t i = 0; !moved && i < parts_of(g); i++) {
        const struct call_slot *slot = part_slot(g, i);
        shard_answer_put(out, part_err(g, i, slot), i == 0 && g->remembered,
                         slot ? &slot->async.answer : &none);
    }
}

struct release_job {
    struct open_queue *queue; // with a hold
    struct lock_name *locks;
    size_t len;
};

static void give_back(void *ctx)
{
    struct release_job *b = ctx;
    settle_locks(b->queue, OP_RELEASE, "", b->locks, b->len);
    queue_let_go(&b->queue);
    memory_free(b->locks);
    memory_free(b);
}

static void release_locks(struct served_call *g, const struct kept_reply *a)
{
    struct release_job *b = NEW(struct release_job);
    b->queue = g->call.queue;
    b->locks = memory_zeroed(a->deliveries_len, sizeof *b->locks);
    for (size_t i = 0; i < a->deliveries_len; i++) {
        const struct grant *grant = &a->deliveries[i].grant;
        b->locks[b->len++] = (struct lock_name){.shard = g->ask.shard,
                                                .ref = {.seq = grant->seq, .token = grant->token}};
    }
    queue_hold(b->queue);
    engine_run(g->call.engine, g->call.name, give_back, b);
}

void served_lost(struct served_call *g)
{
    const struct call_slot *claim = call_slot_of(&g->call, STEP_CLAIM, 0);
    bool locks = claim && claim->async.answer.deliveries_len > 0;
    if (locks && !(g->ask.flags & SHARD_ASK_REPEATS)) release_locks(g, &claim->async.answer);
    for (uint32_t i = 0; is_await(g) && i < parts_of(g); i++) {
        const struct call_slot *slot = part_slot(g, i);
        if (slot && !slot->err) runner_notify_next(slot->async.runner);
    }
}
