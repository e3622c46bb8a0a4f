// SPDX-License-Identifier: Apache-2.0
#include "local/asks.h"

#include "base/check.h"
#include "local/away.h"
#include "local/listen.h"
#include "local/waiting.h"

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

// A runner has answered. The answer moves to the slot.
static void answered(struct runner_async *l, enum err err, struct runner_answer *a)
{
    struct call_slot *slot = (struct call_slot *)l;
    slot->err = err;
    l->answer = *a; // taken
    runner_answer_init(a);
    call_note_slot(slot);
}

static void op_ended(struct local_call *c, struct call_slot *slot)
{
    enum call_op_end end = c->type->op_end(c, slot);
    bool final = call_op_ended(&c->state, slot->index, end);
    if (final && c->type->conclude) c->type->conclude(c, slot);
    call_slot_free(slot);
}

// The owner gave no result.
static void left_ended(struct local_call *c, struct call_slot *slot)
{
    if (slot->effect == CALL_AWAIT)
        call_await_away(&c->state, slot->index, slot->left);
    else if (slot->effect == CALL_CLAIM)
        call_claim_away(&c->state, slot->index, slot->left);
    else
        call_op_away(&c->state, slot->index, slot->left);
    c->claim_repeated = c->claim_repeated || slot->effect == CALL_CLAIM;
    call_slot_free(slot);
}

// The shard could not be opened.
static void op_dropped(struct local_call *c, struct call_slot *slot)
{
    CHECK(call_op_ended(&c->state, slot->index, CALL_OP_DONE));
    call_slot_free(slot);
}

// A stream goes on in the other shards when one is deleted.
static enum call_find_end found(const struct call_slot *slot, bool over)
{
    if (slot->call->state.kind == CALL_LISTEN) return listen_found(slot, over);
    bool follows = slot->call->state.kind == CALL_FOLLOW;
    return follows && slot->err == ERR_NOT_FOUND ? CALL_NOTHING : receive_found(slot);
}

void ask_ended(struct call_slot *slot)
{
    struct local_call *c = slot->call;
    bool over = receive_left_ms(c) == 0, ownerless = away_is_ownerless(slot);
    enum call_find_end end = ownerless ? away_find_owner(c, slot, over) : CALL_NOTHING;
    if (slot->left) {
        left_ended(c, slot);
        return;
    }
    if (slot->effect == CALL_SUBMIT || slot->effect == CALL_SUBMIT_JOINED) {
        op_ended(c, slot);
        return;
    }
    if (!ownerless) end = found(slot, over);
    if (end == CALL_NOTHING && !over && away_part_is_over(slot)) end = CALL_AGAIN;
    if (slot->effect == CALL_CLAIM)
        call_claimed(&c->state, slot->index, end, over);
    else if (slot->effect == CALL_AWAIT)
        call_awaited(&c->state, slot->index, end);
    else
        call_recalled(&c->state, slot->index, end);
    bool listens = c->state.kind == CALL_LISTEN;
    slot->kept =
        end == CALL_FAILED || (end == CALL_FOUND && (slot->effect != CALL_AWAIT || listens));
    if (!slot->kept) call_slot_free(slot);
}

void ask_submit(struct local_call *c, const struct call_effect *e)
{
    struct call_slot *slot = slot_take(c, e);
    struct op op;
    uint32_t shard;
    struct shard_runner *d = c->type->op(c, e->index, &op, &shard);
    bool needs_more = c->state.ops_next < c->state.plan.ops || c->state.plan.blocks;
    if (c->caller && needs_more) call_own(c);
    if (d && away_submit(c, e, shard, op, slot, NULL)) return;
    slot->async.then = answered;
    if (d && c->caller) {
        runner_do_async(d, op, &slot->async);
        return;
    }
    runner_answer_init(&slot->async.answer);
    if (d) slot->err = runner_do(d, op, &slot->async.answer);
    if (d)
        op_ended(c, slot);
    else
        op_dropped(c, slot);
}

void ask_claim(struct local_call *c, const struct call_effect *e)
{
    struct call_slot *slot = slot_take(c, e);
    struct shard_runner *d = call_runner(c, e->index);
    bool waits = c->state.plan.shards == 1;
    int64_t wait_ms = waits ? receive_left_ms(c) : 0;
    waiting_begin(c);
    if (away_claim(c, e, wait_ms, slot)) return;
    slot->async.then = answered;
    if (c->caller || !waits) {
        runner_receive_async(d, receive_claim(c), wait_ms, &slot->async);
        return;
    }
    runner_answer_init(&slot->async.answer);
    slot->err = runner_receive(d, receive_claim(c), wait_ms, &slot->async.answer);
    ask_ended(slot);
}

void ask_joined(struct local_call *c, const struct call_effect *e)
{
    struct call_slot *op_slot = slot_take(c, e);
    struct call_slot *slot =
        slot_take(c, &(struct call_effect){.kind = CALL_CLAIM, .here = e->here});
    struct op op;
    uint32_t shard;
    struct shard_runner *d = c->type->op(c, e->index, &op, &shard);
    waiting_begin(c);
    if (away_submit(c, e, shard, op, op_slot, slot)) return;
    op_slot->async.then = slot->async.then = answered;
    if (c->caller) {
        runner_receive_after_async(d, op, &op_slot->async, receive_claim(c), receive_left_ms(c),
                                   &slot->async);
        return;
    }
    runner_answer_init(&slot->async.answer);
    slot->err = runner_receive_after(d, op, &op_slot->async, receive_claim(c), receive_left_ms(c),
                                     &slot->async.answer);
    ask_ended(slot);
}

static void ask_listen(struct local_call *c, const struct call_effect *e, struct call_slot *slot)
{
    uint32_t shard;
    const struct shard_listen *what = listen_ask_of(c, e->index, &shard);
    struct shard_runner *d = call_runner(c, e->index);
    // A reader of outcomes folds the journal itself, as all reads do.
    if (d && !what->messages && away_listen(c, e, shard, what, slot)) return;
    slot->async.then = answered;
    if (d) {
        runner_listen_async(d, what, receive_left_ms(c), &slot->async);
        return;
    }
    runner_answer_init(&slot->async.answer);
    slot->err = ERR_UNAVAILABLE; // the shard could not be opened: the call has the error
    call_note_slot(slot);
}

void ask_await(struct local_call *c, const struct call_effect *e)
{
    struct call_slot *slot = slot_take(c, e);
    slot->async.then = answered;
    if (c->state.kind == CALL_FOLLOW) {
        runner_follow_async(call_runner(c, e->index), receive_left_ms(c), &slot->async);
        return;
    }
    waiting_begin(c);
    if (c->state.kind == CALL_LISTEN) {
        ask_listen(c, e, slot);
        return;
    }
    if (away_await(c, e, slot)) return;
    slot->async.then = answered;
    runner_await_async(call_runner(c, e->index), receive_claim(c)->worker, receive_left_ms(c),
                       &slot->async);
}

// A runner that another node's shard is behind of may not have read the newest answers.
void ask_recall(struct local_call *c, const struct call_effect *e)
{
    struct call_slot *slot = slot_take(c, e);
    bool sync = e->sync || away_is(c, e->index);
    slot->async.then = answered;
    runner_recall_async(call_runner(c, e->index), receive_claim(c), sync, &slot->async);
}

static bool withdraw_here(struct local_call *c, const struct call_effect *e, struct call_slot *slot)
{
    struct shard_runner *d = call_runner(c, e->index);
    bool ended = e->last ? runner_cancel(d, &slot->async) : runner_withdraw(d, &slot->async);
    if (ended) runner_answer_init(&slot->async.answer); // it was released
    return ended;
}

void ask_withdraw(struct local_call *c, const struct call_effect *e)
{
    bool claim = e->kind == CALL_WITHDRAW_CLAIM;
    struct call_slot *slot = call_slot_of(c, claim ? CALL_CLAIM : CALL_AWAIT, e->index);
    bool ended = slot->away ? away_cancel(slot) : withdraw_here(c, e, slot);
    if (ended) call_slot_free(slot);
    call_withdrawn(&c->state, e->index, ended);
}
