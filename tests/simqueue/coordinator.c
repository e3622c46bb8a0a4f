// SPDX-License-Identifier: Apache-2.0
// Coordinators: one that got a token claims the shard with it. As long as it believes that it owns
// the shard, it publishes tickets. A former owner goes on until it reads that it is fenced.
#include "life.h"

#include <inttypes.h>
#include <string.h>

void coordinator_own(struct world *w, struct lane *l)
{
    struct node *n = node_pick(w, l->index);
    if (!n) return;
    bool stale = w->phase == WORLD_FAULTY && l->token > 0 && rng_chance(&w->rng, 2000);
    uint32_t ask = sim_call_new(w, SIM_CALL_OWN, 0, l->index);
    struct sim_call *a = &w->life->calls[ask];
    a->token = stale ? rng_below(&w->rng, l->token) + 1 : ++l->token;
    a->expected = journal_epoch(n->journal);
    if (w->phase == WORLD_FAULTY && rng_chance(&w->rng, 1000)) a->expected++;
    trace_line(&w->trace, w->now, "n%u.%u: owns lane %u after epoch %" PRIu64 ", token %" PRIu64,
               n->index, n->life, l->index, a->expected, a->token);
    sim_call_submit_to(w, ask, n);
}

bool coordinator_is_there(const struct world *w, uint32_t lane)
{
    uint32_t owners = 0;
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        const struct node *n = &w->nodes[i];
        if (w->life->handles[i].lane != lane || !n->up) continue;
        bool current = journal_epoch(n->journal) == w->life->lanes[lane].reference.epoch;
        owners += current && journal_is_owner(n->journal);
    }
    return owners == 1;
}

void coordinator_dispatch(struct world *w, struct lane *l)
{
    life_after(w, rng_range(&w->rng, 1, 2 * w->life->dispatch_every_ms), LIFE_DISPATCH, l->index,
               0);
    for (uint32_t i = 0; i < w->mix.nodes && !w->findings.broken; i++) {
        struct node *n = &w->nodes[i];
        if (w->life->handles[i].lane != l->index || !node_can_act(n)) continue;
        uint8_t seed[16];
        for (size_t k = 0; k < sizeof seed; k++)
            seed[k] = (uint8_t)rng_next(&w->rng);
        if (shard_dispatch(w->life->handles[i].shard, seed, node_now(n)))
            trace_line(&w->trace, w->now, "n%u.%u dispatches", n->index, n->life);
        node_settle(w, n);
    }
}
