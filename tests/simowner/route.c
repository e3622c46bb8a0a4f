// SPDX-License-Identifier: Apache-2.0
// Ops: cluster/op_route.c decides where each is done. In the product this is ops/forward.c, and
// ops/served.c at the owner.
#include "world.h"

static enum op_route_owner owner_of(const struct world *w, const struct process *p, uint32_t shard)
{
    uint32_t known = p->shards[shard].known;
    if (process_owns(p, shard)) return OP_ROUTE_OWNER_SELF;
    if (known == NONE) return OP_ROUTE_OWNER_NONE;
    return peer_is_good(w, p, known) ? OP_ROUTE_OWNER_PROVEN : OP_ROUTE_OWNER_AWAY;
}

static void forward(struct world *w, struct process *p, uint32_t shard, const struct op *op)
{
    uint32_t life = p->shards[shard].known;
    const struct process *to = &w->processes[w->lives[life].process];
    struct event e = {.kind = EVENT_REQUEST,
                      .process = p->index,
                      .life = p->life,
                      .shard = shard,
                      .number = life,
                      .op = *op};
    w->forwards++;
    bool refused = !to->up;
    if (process_is_reached(w, p, to) &&
        (w->now >= w->calm_at || !rng_chance(&w->rng, w->mix.lost))) {
        world_after(w, world_hop(w), &e);
        return;
    }
    e.kind = EVENT_ANSWER;
    e.answer = REQUEST_LOST;
    world_after(w, refused ? world_hop(w) : ASK_MS, &e);
}

// The process writes itself. It folds the journal up to its tail.
static void write_here(struct world *w, struct process *p, uint32_t shard, const struct op *op)
{
    struct journal *j = &w->journals[shard];
    if (w->now < p->store_cut_until || j->deleted) return;
    bool owns = process_owns(p, shard) && p->folds[shard].journal.epoch == j->epoch;
    if (owns) {
        j->writes++;
        j->wrote_at = w->now;
    } else {
        check_direct(w, p, shard, op);
        w->direct++;
    }
    owner_fold(w, p, shard);
}

void route_op(struct world *w, struct process *p, uint32_t shard, struct op op)
{
    uint32_t life = p->shards[shard].known;
    const struct process *to = life == NONE ? NULL : &w->processes[w->lives[life].process];
    struct op_route_facts facts = {.owner = owner_of(w, p, shard),
                                   .here = op.tried,
                                   .has_token = op.has_token,
                                   .may_have_token = to && to->token_host,
                                   .lacks_token = op.lacks_token,
                                   .bytes = op.large ? OP_ROUTE_BYTES_MAX + 1 : 100};
    if (op_route_decide(&facts) != OP_ROUTE_AT_OWNER) {
        write_here(w, p, shard, &op);
        return;
    }
    check_request(w, p, &op, facts.owner == OP_ROUTE_OWNER_PROVEN ? life : NONE);
    if (!w->findings.broken) forward(w, p, shard, &op);
}

void route_arrives(struct world *w, const struct event *e)
{
    struct process *to = world_live(w, (uint32_t)e->number);
    struct event answer = *e;
    answer.kind = EVENT_ANSWER;
    answer.answer = REQUEST_LOST;
    if (to && process_runs(w, to)) {
        struct op none = {.tried = true};
        bool owns = process_owns(to, e->shard);
        if (owns) write_here(w, to, e->shard, &none);
        answer.answer = owns && process_owns(to, e->shard) ? REQUEST_DONE : REQUEST_MOVED;
    }
    world_after(w, answer.answer == REQUEST_LOST ? ASK_MS : world_hop(w), &answer);
}

void route_ends(struct world *w, struct process *p, const struct event *e)
{
    struct op op = e->op;
    op.tried = true;
    if (e->answer == REQUEST_DONE) return;
    if (e->answer == REQUEST_LOST) peer_doubt(w, p, e->shard, (uint32_t)e->number);
    if (e->answer == REQUEST_MOVED) owner_want(p, e->shard);
    owner_use(w, p, e->shard, &op);
}
