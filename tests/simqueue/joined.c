// SPDX-License-Identifier: Apache-2.0
// A receive that carries acks: two calls with request ids of their own, submitted to a shard
// together. A client without both answers sends both again with the same ids, through any handle,
// or only the one without an answer. In some pairs the acks go first and the receive when they were
// answered, as in a queue of several shards.
#include "base/check.h"
#include "life.h"

static struct sim_call *partner_of(struct world *w, const struct sim_call *a)
{
    return &w->life->calls[a->partner - 1];
}

static void count(struct world *w, enum joined_figure figure)
{
    w->life->joined[figure]++;
}

// Tokens that other workers hold, or that are no longer held; changed ones; those of a queue that
// never was.
static void add_wrong(struct world *w, struct sim_call *a)
{
    const struct lane *l = &w->life->lanes[a->lane];
    uint32_t kept = l->stale_len < STALE_MAX ? l->stale_len : STALE_MAX;
    bool adds = a->refs_len == 0 || rng_chance(&w->rng, 2000);
    if (adds && kept > 0 && a->refs_len < HELD_LOCKS_MAX)
        a->refs[a->refs_len++] = l->stale[rng_below(&w->rng, kept)];
    if (a->refs_len > 0 && rng_chance(&w->rng, 700))
        a->refs[rng_below(&w->rng, a->refs_len)].token.lo ^= 1;
    a->foreign = rng_chance(&w->rng, 500);
}

void joined_ask(struct world *w, uint32_t worker, uint16_t kind)
{
    struct sim_worker *c = &w->life->workers[worker];
    uint32_t first = sim_call_new(w, SIM_CALL_OP, kind, c->lane);
    uint32_t then = sim_call_new(w, SIM_CALL_RECEIVE, OP_CLAIM, c->lane);
    struct sim_call *a = &w->life->calls[first], *r = &w->life->calls[then];
    a->partner = then + 1;
    r->partner = first + 1;
    a->worker = r->worker = worker;
    a->refs_len = c->held_len;
    for (uint32_t i = 0; i < c->held_len; i++)
        a->refs[i] = c->held[i].ref;
    worker_forget(&w->life->lanes[c->lane], c);
    if (!life_drains(w)) add_wrong(w, a);
    worker_wants(w, r);
    r->in_turn = rng_chance(&w->rng, 1500);
    count(w, JOINED_ASKED);
    if (r->in_turn) count(w, JOINED_IN_TURN);
    c->busy = true;
    joined_again(w, then);
}

static void send_both(struct world *w, struct sim_call *a, struct sim_call *r, struct node *n)
{
    struct shard *s = w->life->handles[n->index].shard;
    bool again = a->tries + r->tries > 0;
    if (a->closed) { // told already, and sent again for the other's sake
        a->closed = false;
        uint32_t first = sim_call_index(w, a);
        if (first < w->life->sim_calls_open) w->life->sim_calls_open = first;
    }
    sim_call_begins(w, sim_call_index(w, a), n);
    sim_call_begins(w, sim_call_index(w, r), n);
    count(w, JOINED_SENT);
    if (again) count(w, JOINED_AGAIN);
    a->deadline = w->now + sim_call_patience(w);
    int64_t wait_until = w->now + r->wait_ms;
    r->deadline = wait_until + sim_call_patience(w);
    bool believes = journal_is_owner(n->journal);
    bool fenced = believes && journal_epoch(n->journal) != w->life->lanes[a->lane].reference.epoch;
    a->fenced_slot = fenced ? a->slot_then + 1 : 0;
    if (fenced) count(w, JOINED_FENCED);
    struct bytes name = bytes_str(w->life->workers[r->worker].name);
    r->paused_then = machine_paused(shard_machine(s)) || !shard_may_grant(s) ||
                     machine_refuses_worker(shard_machine(s), name) != REASON_NONE;
    struct buf *out = &w->life->scratch;
    buf_clear(out);
    sim_call_put_outcome(w, a, n, out);
    struct op op = {.kind = a->kind, .payload = buf_bytes(out)};
    struct op_claim claim = sim_call_claim(w, r);
    shard_receive_after(s, sim_call_index(w, a) + 1, op, sim_call_index(w, r) + 1, &claim,
                        wait_until, a->deadline, r->deadline, node_now(n));
    node_settle(w, n);
}

static void send_alone(struct world *w, struct sim_call *a)
{
    struct node *n = node_pick(w, a->lane);
    if (!n) return;
    if (a->tries > 0) count(w, JOINED_ALONE);
    sim_call_submit_to(w, sim_call_index(w, a), n);
}

static void settle(struct world *w, struct sim_call *a, struct sim_call *r)
{
    if (a->open || r->open || w->findings.broken) return;
    if (a->closed && r->closed) {
        w->life->workers[r->worker].busy = false;
        worker_goes_on(w, r->worker);
    } else if (r->acks_heard && !r->closed) {
        world_at(w, w->now, EVENT_RETRY, sim_call_index(w, r), 0);
    } else {
        call_async(w, sim_call_index(w, r));
    }
}

static void send_some(struct world *w, struct sim_call *a, struct sim_call *r)
{
    bool whole = r->tries == 0 || rng_chance(&w->rng, 7000);
    bool acks = !a->closed && !r->acks_heard;
    bool receive = !r->closed && !(r->in_turn && acks);
    struct node *n = node_pick(w, r->lane);
    r->acks_heard = false;
    if (!r->closed && !r->in_turn && whole && n) {
        send_both(w, a, r, n);
        return;
    }
    if (acks) send_alone(w, a);
    if (receive && !w->findings.broken) send_alone(w, r);
    bool nothing = !a->open && !r->open && !(a->closed && r->closed);
    if (nothing && !r->acks_heard) call_async(w, sim_call_index(w, r));
}

void joined_again(struct world *w, uint32_t receive)
{
    struct sim_call *r = &w->life->calls[receive], *a = partner_of(w, r);
    CHECK(r->what == SIM_CALL_RECEIVE);
    if (a->open || r->open || (a->closed && r->closed)) return;
    if (sim_call_gives_up(w, a) || sim_call_gives_up(w, r)) {
        a->closed = r->closed = true;
        settle(w, a, r);
    } else {
        send_some(w, a, r);
    }
}

void joined_heard(struct world *w, uint32_t ask, const struct shard_reply *reply, bool final)
{
    struct sim_call *mine = &w->life->calls[ask], *other = partner_of(w, mine);
    bool receives = mine->what == SIM_CALL_RECEIVE;
    struct sim_call *a = receives ? other : mine, *r = receives ? mine : other;
    bool lost = final && w->phase == WORLD_FAULTY && rng_chance(&w->rng, 600);
    if (lost) count(w, JOINED_LOST);
    mine->closed = final && !lost;
    if (mine->closed && receives) worker_given(w, mine->worker, reply);
    if (!receives) r->acks_heard = r->in_turn && !r->closed;
    settle(w, a, r);
}

void joined_orphan(struct world *w, uint32_t ask)
{
    struct sim_call *mine = &w->life->calls[ask], *other = partner_of(w, mine);
    bool receives = mine->what == SIM_CALL_RECEIVE;
    if (receives && other->tries > 0) count(w, JOINED_CRASHED);
    settle(w, receives ? other : mine, receives ? mine : other);
}
