// SPDX-License-Identifier: Apache-2.0
// Liveness, asked at the end of the healed phase: every message was claimed and finished, every
// letter arrived, everybody was answered, and each queue has an owner.
#include "check.h"

#include <inttypes.h>

bool lane_is_empty(const struct lane *l)
{
    const struct ghost *g = &l->ghost;
    return g->counts[STATE_READY] + g->counts[STATE_LOCKED] + g->counts[STATE_OUTBOUND] == 0;
}

static bool has_owner(const struct world *w, uint32_t lane)
{
    uint32_t owners = 0;
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        const struct node *n = &w->nodes[i];
        if (w->life->handles[i].lane != lane || !n->up) continue;
        bool current = journal_epoch(n->journal) == w->life->lanes[lane].ghost.epoch;
        owners += current && journal_is_owner(n->journal);
    }
    return owners == 1;
}

static void check_lane(struct world *w, struct lane *l)
{
    const struct ghost *g = &l->ghost;
    if (!lane_is_empty(l))
        verdict_fail(&w->verdict, "liveness",
                     "lane %u is left with %" PRIu64 " ready, %" PRIu64 " locked, %" PRIu64
                     " on their way",
                     l->index, g->counts[STATE_READY], g->counts[STATE_LOCKED],
                     g->counts[STATE_OUTBOUND]);
    if (!has_owner(w, l->index))
        verdict_fail(&w->verdict, "liveness", "lane %u has no single owner", l->index);
    check_events_again(&l->ghost);
}

void check_drain(struct world *w)
{
    for (uint32_t i = 0; i < w->life->lanes_len; i++)
        check_lane(w, &w->life->lanes[i]);
    for (uint32_t i = 0; i < w->life->asks_len; i++) {
        const struct ask *a = &w->life->asks[i];
        bool late = a->open && w->now - a->first_at > 5 * MINUTE;
        if (late) verdict_fail(&w->verdict, "liveness", "ask %u was never answered", i);
    }
    for (uint32_t i = 0; i < w->mix.nodes && !w->verdict.broken; i++)
        machine_check(shard_machine(w->life->handles[i].shard));
}
