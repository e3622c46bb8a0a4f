// SPDX-License-Identifier: Apache-2.0
// A receive that carries acks: two errands with request ids of their own, handed to a shard
// together. Whoever did not hear of both sends both again with the same ids, through any handle, or
// only the one he did not hear of. In some pairs the acks go first and the receive when they were
// answered, as in a queue of several shards.
#include "base/check.h"
#include "life.h"

static struct errand *partner_of(struct world *w, const struct errand *a)
{
    return &w->life->errands[a->partner - 1];
}

static void count(struct world *w, enum joined_figure figure)
{
    w->life->joined[figure]++;
}

// ---- which acks

// Tokens that others hold, or nobody any more; bent ones; those of a queue that never was.
static void add_wrong(struct world *w, struct errand *a)
{
    const struct lane *l = &w->life->lanes[a->lane];
    uint32_t kept = l->stale_len < STALE_MAX ? l->stale_len : STALE_MAX;
    bool adds = a->refs_len == 0 || rng_chance(&w->rng, 2000);
    if (adds && kept > 0 && a->refs_len < HANDS_MAX)
        a->refs[a->refs_len++] = l->stale[rng_below(&w->rng, kept)];
    if (a->refs_len > 0 && rng_chance(&w->rng, 700))
        a->refs[rng_below(&w->rng, a->refs_len)].token.lo ^= 1;
    a->foreign = rng_chance(&w->rng, 500);
}

void joined_ask(struct world *w, uint32_t worker, uint16_t kind)
{
    struct crew *c = &w->life->crew[worker];
    uint32_t first = errand_new(w, ERRAND_OP, kind, c->lane);
    uint32_t then = errand_new(w, ERRAND_RECEIVE, OP_CLAIM, c->lane);
    struct errand *a = &w->life->errands[first], *r = &w->life->errands[then];
    a->partner = then + 1;
    r->partner = first + 1;
    a->worker = r->worker = worker;
    a->refs_len = c->hands_len;
    for (uint32_t i = 0; i < c->hands_len; i++)
        a->refs[i] = c->hands[i].ref;
    worker_forget(&w->life->lanes[c->lane], c);
    if (!life_drains(w)) add_wrong(w, a);
    worker_wants(w, r);
    r->in_turn = rng_chance(&w->rng, 1500);
    count(w, JOINED_ASKED);
    if (r->in_turn) count(w, JOINED_IN_TURN);
    c->busy = true;
    joined_again(w, then);
}

// ---- out

static void send_both(struct world *w, struct errand *a, struct errand *r, struct node *n)
{
    struct shard *s = w->life->handles[n->index].shard;
    bool again = a->tries + r->tries > 0;
    if (a->closed) { // told already, and sent again for the other's sake
        a->closed = false;
        uint32_t first = errand_index(w, a);
        if (first < w->life->errands_open) w->life->errands_open = first;
    }
    errand_begins(w, errand_index(w, a), n);
    errand_begins(w, errand_index(w, r), n);
    count(w, JOINED_SENT);
    if (again) count(w, JOINED_AGAIN);
    a->deadline = w->now + errand_patience(w);
    int64_t wait_until = w->now + r->wait_ms;
    r->deadline = wait_until + errand_patience(w);
    bool believes = journal_is_owner(n->journal);
    a->fenced = believes && journal_epoch(n->journal) != w->life->lanes[a->lane].ghost.epoch;
    if (a->fenced) count(w, JOINED_FENCED);
    r->paused_then = machine_paused(shard_machine(s));
    struct buf *out = &w->life->scratch;
    buf_clear(out);
    errand_put_outcome(w, a, n, out);
    struct op op = {.kind = a->kind, .payload = buf_bytes(out)};
    struct op_claim claim = errand_claim(w, r);
    shard_receive_after(s, errand_index(w, a) + 1, op, errand_index(w, r) + 1, &claim, wait_until,
                        a->deadline, r->deadline, node_now(n));
    node_settle(w, n);
}

static void send_alone(struct world *w, struct errand *a)
{
    struct node *n = node_pick(w, a->lane);
    if (!n) return;
    if (a->tries > 0) count(w, JOINED_ALONE);
    errand_submit_to(w, errand_index(w, a), n);
}

static void settle(struct world *w, struct errand *a, struct errand *r)
{
    if (a->open || r->open || w->verdict.broken) return;
    if (a->closed && r->closed) {
        w->life->crew[r->worker].busy = false;
        worker_goes_on(w, r->worker);
    } else if (r->acks_heard && !r->closed) {
        world_at(w, w->now, EVENT_RETRY, errand_index(w, r), 0);
    } else {
        errand_later(w, errand_index(w, r));
    }
}

static void send_some(struct world *w, struct errand *a, struct errand *r)
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
    if (receive && !w->verdict.broken) send_alone(w, r);
    bool nothing = !a->open && !r->open && !(a->closed && r->closed);
    if (nothing && !r->acks_heard) errand_later(w, errand_index(w, r));
}

void joined_again(struct world *w, uint32_t receive)
{
    struct errand *r = &w->life->errands[receive], *a = partner_of(w, r);
    CHECK(r->what == ERRAND_RECEIVE);
    if (a->open || r->open || (a->closed && r->closed)) return;
    if (errand_gives_up(w, a) || errand_gives_up(w, r)) {
        a->closed = r->closed = true;
        settle(w, a, r);
    } else {
        send_some(w, a, r);
    }
}

// ---- back

void joined_heard(struct world *w, uint32_t ask, const struct shard_reply *reply, bool final)
{
    struct errand *mine = &w->life->errands[ask], *other = partner_of(w, mine);
    bool receives = mine->what == ERRAND_RECEIVE;
    struct errand *a = receives ? other : mine, *r = receives ? mine : other;
    bool lost = final && w->phase == WORLD_FAULTY && rng_chance(&w->rng, 600);
    if (lost) count(w, JOINED_LOST);
    mine->closed = final && !lost;
    if (mine->closed && receives) worker_given(w, mine->worker, reply);
    if (!receives) r->acks_heard = r->in_turn && !r->closed;
    settle(w, a, r);
}

void joined_orphan(struct world *w, uint32_t ask)
{
    struct errand *mine = &w->life->errands[ask], *other = partner_of(w, mine);
    bool receives = mine->what == ERRAND_RECEIVE;
    if (receives && other->tries > 0) count(w, JOINED_CRASHED);
    settle(w, receives ? other : mine, receives ? mine : other);
}
