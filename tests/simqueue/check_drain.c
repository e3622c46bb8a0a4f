// SPDX-License-Identifier: Apache-2.0
// Liveness, asked at the end of the healed phase: every message was claimed and finished, every
// dead letter arrived, every call was answered, and each queue has an owner.
#include "check.h"

#include <inttypes.h>

bool letters_are_stuck(const struct world *w, const struct lane *l)
{
    for (uint32_t i = 0; i < w->life->lanes_len; i++) {
        const struct lane *to = &w->life->lanes[i];
        if (to->queue == l->queue + 1 && to->shard == 0) return to->reference.deleted_slot != 0;
    }
    return false;
}

bool lane_is_empty(const struct world *w, const struct lane *l)
{
    const struct reference *g = &l->reference;
    bool stuck = letters_are_stuck(w, l);
    return g->counts[STATE_READY] + g->counts[STATE_LOCKED] == 0 &&
           (stuck || g->counts[STATE_OUTBOUND] == 0);
}

static void check_lane(struct world *w, struct lane *l)
{
    const struct reference *g = &l->reference;
    if (!lane_is_empty(w, l))
        findings_add(
            &w->findings, "liveness",
            "lane %u is left with %" PRIu64 " ready, %" PRIu64 " locked, %" PRIu64 " on their way",
            l->index, g->counts[STATE_READY], g->counts[STATE_LOCKED], g->counts[STATE_OUTBOUND]);
    if (lane_orphans(l) > 0)
        findings_add(&w->findings, "liveness", "lane %u keeps %u objects that no message needs",
                     l->index, lane_orphans(l));
    if (!coordinator_is_there(w, l->index))
        findings_add(&w->findings, "liveness", "lane %u has no single owner", l->index);
    if (g->deleted_slot != 0) check_finished(w, l);
    check_events_again(&l->reference);
}

void check_drain(struct world *w)
{
    for (uint32_t i = 0; i < w->life->lanes_len; i++)
        check_lane(w, &w->life->lanes[i]);
    for (uint32_t i = 0; i < w->life->sim_calls_len; i++) {
        const struct sim_call *a = &w->life->calls[i];
        if (a->kind == OP_ACK && a->is_told) check_acked(w, i, a->told);
        bool late = a->open && w->now - a->first_at > 5 * MINUTE;
        if (late) findings_add(&w->findings, "liveness", "ask %u was never answered", i);
    }
    for (uint32_t i = 0; i < w->mix.nodes && !w->findings.broken; i++)
        machine_check(shard_machine(w->life->handles[i].shard));
}
