// SPDX-License-Identifier: Apache-2.0
#include "ops/asks.h"
#include "ops/ops.h"

#include "base/check.h"
#include "ops/awaits.h"
#include "ops/forward.h"
#include "ops/listen.h"
#include "ops/served.h"
#include "ops/waiting_receives.h"

#include <stddef.h>

// A slot for the effect. That of an earlier one of the same kind is used again.
static struct call_slot *slot_take(struct local_call *c, const struct call_effect *e)
{
    struct call_slot *slot = call_slot_of(c, e->kind, e->index);
    if (slot) call_slot_free(slot);
    for (size_t i = 0; !slot && i < c->slots_len; i++)
        if (!c->slots[i].busy) slot = &c->slots[i];
    CHECK(slot);
    *slot = (struct call_slot){
        .call = c, .effect = e->kind, .index = e->index, .busy = true, .here = e->here};
    return slot;
}

static bool is_served(const struct local_call *c)
{
    return c->state.kind == STEP_SERVED;
}

static const struct op_claim *claim_of(struct local_call *c)
{
    return is_served(c) ? served_claim(c) : receive_claim(c);
}

// A runner has answered. The answer moves to the slot.
static void answered(struct runner_async *async, enum err err, struct kept_reply *a)
{
    struct call_slot *slot = (struct call_slot *)async;
    slot->err = err;
    async->answer = *a; // taken
    kept_reply_init(a);
    call_note_slot(slot);
}

static void op_ended(struct local_call *c, struct call_slot *slot)
{
    enum call_op_end end = c->type->op_end(c, slot);
    bool final = call_op_ended(&c->state, slot->index, end);
    if (final && c->type->conclude) c->type->conclude(c, slot);
    slot->kept = is_served(c);
    if (!slot->kept) call_slot_free(slot);
}

// The owner gave no result.
static void left_ended(struct local_call *c, struct call_slot *slot)
{
    if (slot->effect == STEP_AWAIT)
        call_await_returned(&c->state, slot->index, slot->returned);
    else if (slot->effect == STEP_CLAIM)
        call_claim_returned(&c->state, slot->index, slot->returned);
    else
        call_op_returned(&c->state, slot->index, slot->returned);
    c->claim_repeated = c->claim_repeated || slot->effect == STEP_CLAIM;
    call_slot_free(slot);
}

// The shard could not be opened.
static void op_dropped(struct local_call *c, struct call_slot *slot)
{
    CHECK(call_op_ended(&c->state, slot->index, STEP_OP_DONE));
    call_slot_free(slot);
}

// A stream goes on in the other shards when one is deleted.
static enum call_find_end found(const struct call_slot *slot, bool over)
{
    if (slot->call->state.kind == STEP_LISTEN) return listen_found(slot, over);
    bool follows = slot->call->state.kind == STEP_FOLLOW;
    return follows && slot->err == ERR_NOT_FOUND ? STEP_NOTHING : receive_found(slot);
}

// A read has one slot. Its shard may have been read up to its tail.
static void run_look(struct pool_job *job)
{
    struct local_call *c = (struct local_call *)((char *)job - offsetof(struct local_call, job));
    struct call_slot *slot = c->slots;
    slot->enough = c->type->look(c, slot->index, slot->async.runner ? slot : NULL);
    slot->looked = true;
    call_note_slot(slot);
}

static void look_on_pool(struct local_call *c)
{
    c->job = (struct pool_job){.run = run_look};
    if (!engine_run_job(c->engine, c->name, &c->job)) run_look(&c->job);
}

static void look_ended(struct local_call *c, struct call_slot *slot)
{
    if (!slot->looked && !slot->err && c->type->look_blocks(c)) {
        look_on_pool(c);
        return;
    }
    if (!slot->looked) slot->enough = c->type->look(c, slot->index, slot);
    call_looked(&c->state, slot->enough);
    call_slot_free(slot);
}

void ask_look(struct local_call *c, const struct call_effect *e)
{
    struct call_slot *slot = slot_take(c, e);
    struct shard_runner *r = runner_if_open(c->queue, e->index);
    slot->async.then = answered;
    kept_reply_init(&slot->async.answer);
    if (r)
        runner_sync_async(r, &slot->async);
    else
        look_on_pool(c);
}

void ask_ended(struct call_slot *slot)
{
    struct local_call *c = slot->call;
    if (slot->effect == STEP_LOOK) {
        look_ended(c, slot);
        return;
    }
    bool over = receive_left_ms(c) == 0, ownerless = forward_is_ownerless(slot);
    enum call_find_end end = ownerless ? forward_find_owner(c, slot, over) : STEP_NOTHING;
    if (slot->returned) {
        left_ended(c, slot);
        return;
    }
    if (slot->effect == STEP_SUBMIT || slot->effect == STEP_SUBMIT_JOINED) {
        op_ended(c, slot);
        return;
    }
    if (!ownerless) end = found(slot, over);
    if (end == STEP_NOTHING && !over && forward_part_is_over(slot)) end = STEP_AGAIN;
    if (slot->effect == STEP_CLAIM)
        call_claimed(&c->state, slot->index, end, over);
    else if (slot->effect == STEP_AWAIT)
        call_awaited(&c->state, slot->index, end);
    else
        call_recalled(&c->state, slot->index, end);
    bool listens = c->state.kind == STEP_LISTEN;
    slot->kept = is_served(c) || end == STEP_FAILED ||
                 (end == STEP_FOUND && (slot->effect != STEP_AWAIT || listens));
    if (!slot->kept) call_slot_free(slot);
}

void ask_submit(struct local_call *c, const struct call_effect *e)
{
    struct call_slot *slot = slot_take(c, e);
    struct op op;
    uint32_t shard;
    struct shard_runner *r = c->type->op(c, e->index, &op, &shard);
    bool needs_more = c->state.ops_next < c->state.plan.ops || c->state.plan.blocks;
    if (c->caller && needs_more) call_own(c);
    if (r && forward_submit(c, e, shard, op, slot, NULL)) return;
    slot->async.then = answered;
    if (r && c->caller) {
        runner_do_async(r, op, &slot->async);
        return;
    }
    kept_reply_init(&slot->async.answer);
    if (r) slot->err = runner_do(r, op, &slot->async.answer);
    if (r)
        op_ended(c, slot);
    else
        op_dropped(c, slot);
}

void ask_claim(struct local_call *c, const struct call_effect *e)
{
    struct call_slot *slot = slot_take(c, e);
    struct shard_runner *r = call_runner(c, e->index);
    bool waits = c->state.plan.shards == 1;
    int64_t wait_ms = waits ? receive_left_ms(c) : 0;
    waiting_begin(c);
    if (forward_claim(c, e, wait_ms, slot)) return;
    slot->async.then = answered;
    if (c->caller || !waits) {
        runner_receive_async(r, claim_of(c), wait_ms, &slot->async);
        return;
    }
    kept_reply_init(&slot->async.answer);
    slot->err = runner_receive(r, receive_claim(c), wait_ms, &slot->async.answer);
    ask_ended(slot);
}

void ask_joined(struct local_call *c, const struct call_effect *e)
{
    struct call_slot *op_slot = slot_take(c, e);
    struct call_slot *slot =
        slot_take(c, &(struct call_effect){.kind = STEP_CLAIM, .here = e->here});
    struct op op;
    uint32_t shard;
    struct shard_runner *r = c->type->op(c, e->index, &op, &shard);
    waiting_begin(c);
    if (forward_submit(c, e, shard, op, op_slot, slot)) return;
    op_slot->async.then = slot->async.then = answered;
    if (c->caller) {
        runner_receive_after_async(r, op, &op_slot->async, claim_of(c), receive_left_ms(c),
                                   &slot->async);
        return;
    }
    kept_reply_init(&slot->async.answer);
    slot->err = runner_receive_after(r, op, &op_slot->async, receive_claim(c), receive_left_ms(c),
                                     &slot->async.answer);
    ask_ended(slot);
}

static void ask_listen(struct local_call *c, const struct call_effect *e, struct call_slot *slot)
{
    uint32_t shard;
    const struct shard_listen *what = listen_ask_of(c, e->index, &shard);
    struct shard_runner *r = call_runner(c, e->index);
    // A reader of outcomes folds the journal itself, as all reads do.
    if (r && !what->messages && forward_listen(c, e, shard, what, slot)) return;
    slot->async.then = answered;
    if (r) {
        runner_listen_async(r, what, receive_left_ms(c), &slot->async);
        return;
    }
    kept_reply_init(&slot->async.answer);
    slot->err = ERR_UNAVAILABLE; // the shard could not be opened: the call has the error
    call_note_slot(slot);
}

void ask_await(struct local_call *c, const struct call_effect *e)
{
    struct call_slot *slot = slot_take(c, e);
    slot->async.then = answered;
    if (is_served(c)) {
        served_await(c, slot);
        return;
    }
    if (c->state.kind == STEP_FOLLOW) {
        runner_follow_async(call_runner(c, e->index), receive_left_ms(c), &slot->async);
        return;
    }
    waiting_begin(c);
    if (c->state.kind == STEP_LISTEN) {
        ask_listen(c, e, slot);
        return;
    }
    if (forward_await(c, e, slot)) return;
    slot->async.then = answered;
    runner_await_async(call_runner(c, e->index), receive_claim(c)->worker, receive_left_ms(c),
                       &slot->async);
}

// A runner that another node's shard is behind of may not have read the newest answers.
void ask_recall(struct local_call *c, const struct call_effect *e)
{
    struct call_slot *slot = slot_take(c, e);
    bool sync = e->sync || forward_is(c, e->index);
    slot->async.then = answered;
    runner_recall_async(call_runner(c, e->index), receive_claim(c), sync, &slot->async);
}

static bool withdraw_here(struct local_call *c, const struct call_effect *e, struct call_slot *slot)
{
    struct shard_runner *r = call_runner(c, e->index);
    bool ended = e->last ? runner_cancel(r, &slot->async) : runner_withdraw(r, &slot->async);
    if (ended) kept_reply_init(&slot->async.answer); // it was released
    return ended;
}

void ask_withdraw(struct local_call *c, const struct call_effect *e)
{
    bool claim = e->kind == STEP_WITHDRAW_CLAIM;
    struct call_slot *slot = call_slot_of(c, claim ? STEP_CLAIM : STEP_AWAIT, e->index);
    bool ended = slot->forwarded ? forward_cancel(slot) : withdraw_here(c, e, slot);
    if (ended) call_slot_free(slot);
    call_withdrawn(&c->state, e->index, ended);
}

void ask_notify(struct local_call *c, uint32_t index)
{
    if (is_served(c)) {
        served_notify(c, index);
        return;
    }
    awaits_notify(c->queue, index);
    runner_notify_next(call_runner(c, index));
}
