// SPDX-License-Identifier: Apache-2.0
// What a call does in a shard of its process. The ticket of an action is its place + 1.
#include "base/check.h"
#include "check.h"

#include <string.h>

int64_t patience(struct world *w)
{
    bool hasty = w->phase == WORLD_FAULTY && rng_chance(&w->rng, 300);
    return hasty ? rng_range(&w->rng, 0, 50) : w->mix.patience_ms;
}

struct op_claim claim_of(struct world *w, uint32_t call)
{
    const struct sim_call *c = call_at(w, call);
    struct op_claim claim = {
        .request = w->life->ids[c->id].id, .worker = bytes_str("w"), .max = c->max};
    memcpy(claim.seed, &call, sizeof call);
    claim.seed[15] = 1;
    return claim;
}

static void put_send(struct world *w, const struct sim_op *op, struct buf *out)
{
    send_begin(out, &w->life->ids[op->id].id);
    for (uint32_t i = 0; i < op->len; i++) {
        uint32_t body[2] = {op->call, op->members[i]};
        send_add(out, &(struct message){.body = bytes_of(body, sizeof body)});
    }
    send_end(out, 0, op->len);
}

static void put_outcome(struct world *w, const struct sim_op *op, struct buf *out)
{
    CLEANUP(buf_done) struct buf refs;
    buf_init(&refs, (size_t)SIM_REFS_MAX * LOCK_REF_BYTES);
    for (uint32_t i = 0; i < op->len; i++)
        lock_ref_put(&refs, &op->refs[i]);
    struct request_id own; // of a shard's own op
    memset(&own, 0xff, sizeof own);
    struct op_outcome outcome = {.request = op->id == NOT_INDEX ? own : w->life->ids[op->id].id,
                                 .queue = w->life->queue,
                                 .shard = op->shard,
                                 .arrived_at = op->arrived_at,
                                 .count = op->len,
                                 .refs = buf_bytes(&refs)};
    outcome_encode(out, &outcome);
}

struct op op_bytes(struct world *w, const struct sim_op *op)
{
    struct buf *out = &w->life->scratch;
    buf_clear(out);
    if (op->kind == OP_SEND)
        put_send(w, op, out);
    else if (op->kind == OP_RESUME)
        plain_encode(out, &(struct op_plain){.request = w->life->ids[op->id].id});
    else
        put_outcome(w, op, out);
    return (struct op){op->kind, buf_bytes(out)};
}

static void submit_op(struct world *w, uint32_t action, struct shard *s, struct interval now)
{
    struct action *a = &w->life->actions[action];
    struct sim_call *c = call_at(w, a->call);
    struct sim_op *op = &w->life->ops[c->ops[a->index]];
    op->submits++;
    if (op->submits > 1) w->life->figures[FIGURE_AGAIN]++;
    check_submitted(w, op);
    struct op bytes = op_bytes(w, op);
    int64_t deadline = w->now + patience(w);
    if (a->partner == NOT_INDEX) {
        shard_submit(s, action + 1, bytes, deadline, now);
        return;
    }
    struct op_claim claim = claim_of(w, a->call);
    struct action *claiming = &w->life->actions[a->partner];
    if (claiming->state != ACTION_PLANNED) { // it was withdrawn before
        shard_submit(s, action + 1, bytes, deadline, now);
        return;
    }
    claiming->state = ACTION_OPEN;
    shard_receive_after(s, action + 1, bytes, a->partner + 1, &claim, c->until, deadline,
                        (c->until > w->now ? c->until : w->now) + patience(w), now);
}

static struct request_id draw_request(struct world *w)
{
    struct request_id id;
    uint64_t draw[2] = {rng_next(&w->rng), rng_next(&w->rng)};
    memcpy(id.bytes, draw, sizeof id.bytes);
    return id;
}

void submit_signal(struct world *w, const struct node *n, const struct held_lock *lock)
{
    struct shard *s = w->life->handles[n->index];
    int64_t deadline = w->now + w->mix.patience_ms;
    CLEANUP(buf_done) struct buf payload;
    CLEANUP(buf_done) struct buf seqs;
    buf_init(&payload, 1 << 12);
    buf_init(&seqs, 8);
    buf_put_u64(&seqs, lock->ref.seq);
    buf_clear(&payload);
    signal_encode(&payload, &(struct op_signal){.request = draw_request(w),
                                                .kind = SIGNAL_STEER,
                                                .ttl_ms = 3600 * SECOND,
                                                .payload = bytes_str("{}"),
                                                .count = 1,
                                                .seqs = buf_bytes(&seqs)});
    shard_submit(s, RELEASES, (struct op){OP_SIGNAL, buf_bytes(&payload)}, deadline, node_now(n));
    node_settle(w, process_node(w, n->index / w->life->shards, lock->shard));
}

// The locks of a listen that are in this shard.
struct shard_listen listen_of(const struct sim_call *c, uint32_t shard, struct listen_ask *asks)
{
    struct shard_listen what = {.asks = asks};
    for (uint32_t i = 0; i < c->locks_len; i++)
        if (c->locks[i].shard == shard) asks[what.len++] = (struct listen_ask){c->locks[i].ref, 0};
    return what;
}

static void submit_find(struct world *w, uint32_t action, struct shard *s, struct interval now)
{
    const struct action *a = &w->life->actions[action];
    struct sim_call *c = call_at(w, a->call);
    if (a->kind == STEP_AWAIT && c->state.kind == STEP_FOLLOW) {
        shard_follow(s, action + 1, c->until, now);
        return;
    }
    if (c->state.kind == STEP_LISTEN) {
        struct listen_ask asks[SIM_REFS_MAX];
        struct shard_listen what = listen_of(c, a->shard, asks);
        shard_listen(s, action + 1, &what, c->until, c->until + patience(w), now);
        return;
    }
    struct op_claim claim = claim_of(w, a->call);
    bool waits = a->kind == STEP_AWAIT || (a->kind == STEP_CLAIM && w->life->shards == 1);
    int64_t until = waits && c->until > w->now ? c->until : w->now;
    int64_t deadline = until + patience(w);
    if (a->kind == STEP_CLAIM) {
        c->told[a->shard] = false;
        shard_receive(s, action + 1, &claim, waits ? until : TIME_UNKNOWN, deadline, now);
    } else if (a->kind == STEP_AWAIT) {
        shard_await(s, action + 1, claim.worker, until, deadline, now);
    } else {
        bool sync = a->sync || owner_is_away(w, c->process, a->shard);
        shard_recall(s, action + 1, &claim, sync, deadline, now);
    }
}

static void submit_look(struct world *w, uint32_t action, struct shard *s, struct interval now)
{
    if (w->life->actions[action].sync)
        shard_sync(s, action + 1, w->now + patience(w), now);
    else
        shell_ended(w, action, true); // the state as it was folded last
}

void submit_action(struct world *w, uint32_t action)
{
    struct action *a = &w->life->actions[action];
    struct node *n = process_node(w, call_at(w, a->call)->process, a->shard);
    struct shard *s = w->life->handles[n->index];
    static const char *const names[] = {
        [STEP_SUBMIT] = "op",     [STEP_SUBMIT_JOINED] = "acks and a claim",
        [STEP_CLAIM] = "claim",   [STEP_AWAIT] = "await",
        [STEP_RECALL] = "recall", [STEP_LOOK] = "look"};
    trace_line(&w->trace, w->now, "call %u: %s %u in shard %u", a->call, names[a->kind], a->index,
               a->shard);
    CHECK(s);
    a->state = ACTION_OPEN;
    if (a->kind == STEP_LOOK) {
        submit_look(w, action, s, node_now(n));
        node_settle(w, n);
        return;
    }
    bool follows = call_at(w, a->call)->state.kind == STEP_FOLLOW;
    if (!follows && owner_ask(w, action)) return;
    if (a->kind == STEP_SUBMIT || a->kind == STEP_SUBMIT_JOINED)
        submit_op(w, action, s, node_now(n));
    else
        submit_find(w, action, s, node_now(n));
    node_settle(w, n);
}

bool submit_cancel(struct world *w, struct action *a, bool last)
{
    struct node *n = process_node(w, call_at(w, a->call)->process, a->shard);
    uint64_t ticket = (uint64_t)(a - w->life->actions) + 1;
    bool cancelled = a->state == ACTION_PLANNED;
    if (a->state == ACTION_OPEN && a->ask != NOT_INDEX) return owner_cancel(w, a);
    struct shard *s = w->life->handles[n->index];
    if (a->state == ACTION_OPEN)
        cancelled = last ? shard_cancel(s, ticket, node_now(n)) : shard_withdraw(s, ticket);
    if (cancelled) a->state = ACTION_OVER;
    if (a->state == ACTION_OPEN && last) a->cancelled_at = w->now;
    if (a->state == ACTION_OPEN) node_settle(w, n); // it may have an earlier deadline
    return cancelled;
}
