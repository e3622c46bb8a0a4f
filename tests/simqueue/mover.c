// SPDX-License-Identifier: Apache-2.0
// Carriers: a handle that moves letters hands one out; it is brought to a handle of the other
// queue, and what came of it is told to the first one, if that is still alive. Between each two of
// these there is time to crash. Several handles of a queue may carry the same letter.
#include "base/check.h"
#include "check.h"

#include <inttypes.h>
#include <string.h>

static uint32_t lane_named(const struct life *life, const char *name)
{
    for (uint32_t i = 0; i < life->lanes_len; i++)
        if (strcmp(life->lanes[i].name, name) == 0) return i;
    return NO_INDEX;
}

void carrier_take(struct world *w, struct node *n)
{
    struct dead_letter letter;
    if (life_drains(w) && letters_are_stuck(w, lane_of(w, n))) return; // each try copies the body
    if (w->findings.broken || !shard_next_dead_letter(w->life->handles[n->index].shard, &letter))
        return;
    idle_act(&n->idle);
    uint32_t to = lane_named(w->life, letter.to);
    CHECK(to != NO_INDEX);
    uint32_t ask = sim_call_new(w, SIM_CALL_ARRIVE, OP_ARRIVE, to);
    struct sim_call *a = &w->life->calls[ask];
    a->payload = upload_copy(w, lane_of(w, n), &w->life->lanes[to], letter.op.payload);
    a->from_node = n->index;
    a->from_life = n->life;
    a->number = letter.number;
    trace_line(&w->trace, w->now, "n%u.%u: letter %" PRIu64 " to lane %u (ask %u)", n->index,
               n->life, letter.number, to, ask);
    int64_t slow = life_drains(w) ? 20 * SECOND : 2 * MINUTE; // a copy of its body may be swept
    life_after(w, rng_range(&w->rng, 1, rng_chance(&w->rng, 1500) ? slow : 300), LIFE_MOVE, ask, 0);
}

static void tell(struct world *w, uint32_t ask)
{
    const struct sim_call *a = &w->life->calls[ask];
    struct node *n = &w->nodes[a->from_node];
    struct shard *s = w->life->handles[n->index].shard;
    if (!n->up || n->life != a->from_life) return; // no process is there to take the answer
    if (w->now < n->paused_until) {
        life_put_off(w, n, (enum world_event_kind)LIFE_MOVE, ask, 0);
        return;
    }
    if (a->carried > 0) {
        shard_dead_letter_arrived(s, a->number, node_now(n));
    } else {
        shard_dead_letter_failed(s, a->number, node_now(n));
    }
    node_settle(w, n);
}

void mover_move(struct world *w, uint32_t ask)
{
    struct sim_call *a = &w->life->calls[ask];
    if (a->carried != 0) {
        tell(w, ask);
        return;
    }
    struct node *n = node_pick(w, a->lane);
    if (n) {
        sim_call_submit_to(w, ask, n);
    } else {
        carrier_lost(w, ask);
    }
}

static void outcome(struct world *w, uint32_t ask, int carried)
{
    w->life->calls[ask].carried = carried;
    life_after(w, rng_range(&w->rng, 1, 300), LIFE_MOVE, ask, 0);
}

void carrier_heard(struct world *w, uint32_t ask, const struct shard_reply *r)
{
    outcome(w, ask, r->err == ERR_OK ? 1 : -1);
}

void carrier_lost(struct world *w, uint32_t ask)
{
    outcome(w, ask, -1);
}
