// SPDX-License-Identifier: Apache-2.0
// Trouble that is not the fate of one request: storms, cut cables, crashes, pauses, clocks,
// silence; and its end.
#include "base/check.h"
#include "check.h"

#include <inttypes.h>

#define SECOND ((int64_t)1000)
#define MINUTE (60 * SECOND)

static struct node *pick_node(struct world *w)
{
    return &w->nodes[rng_below(&w->rng, w->mix.nodes)];
}

// Spread over magnitudes up to most.
static int64_t spread(struct world *w, int64_t most)
{
    for (uint64_t halvings = rng_below(&w->rng, 5); halvings > 0; halvings--)
        most /= 2;
    return rng_range(&w->rng, 1, most);
}

void fault_plan(struct world *w)
{
    const struct mix *m = &w->mix;
    world_every(w, m->own_every_ms, EVENT_OWN, 0);
    world_every(w, m->switch_every_ms, EVENT_SWITCH, 0);
    world_every(w, m->storm_every_ms, EVENT_STORM, 0);
    world_every(w, m->cut_every_ms, EVENT_CUT, 0);
    world_every(w, m->crash_every_ms, EVENT_CRASH, 0);
    world_every(w, m->pause_every_ms, EVENT_PAUSE, 0);
    world_every(w, m->jump_every_ms, EVENT_JUMP, 0);
    world_every(w, m->quiet_every_ms, EVENT_QUIET, 0);
}

void fault_storm(struct world *w)
{
    int64_t len = rng_range(&w->rng, 5 * SECOND, 2 * MINUTE);
    w->storm_until = w->now + len;
    trace_line(&w->trace, w->now, "! storm for %" PRId64 " ms", len);
}

void fault_cut(struct world *w)
{
    struct node *n = pick_node(w);
    int64_t len = spread(w, 2 * w->mix.rules.retain_ms);
    n->cut_until = w->now + len;
    trace_line(&w->trace, w->now, "! n%u is cut off for %" PRId64 " ms", n->index, len);
}

void fault_crash(struct world *w)
{
    struct node *n = pick_node(w);
    if (!n->up) return;
    int64_t len = spread(w, MINUTE);
    trace_line(&w->trace, w->now, "! n%u.%u crashes, back in %" PRId64 " ms", n->index, n->life,
               len);
    node_crash(w, n);
    n->paused_until = 0;
    world_at(w, w->now + len, EVENT_START, n->index, 0);
}

// A restart that is paused at once stops in the middle of its recovery.
void fault_pause(struct world *w)
{
    struct node *n = pick_node(w);
    if (!n->up) return;
    int64_t len = spread(w, 3 * w->mix.rules.retain_ms + MINUTE);
    if (rng_chance(&w->rng, 2500)) {
        node_crash(w, n);
        node_start(w, n);
        int64_t later = w->now + rng_range(&w->rng, 1, 4 * w->mix.latency_ms);
        world_at(w, later, EVENT_FREEZE, n->index, (uint32_t)len);
        return;
    }
    n->paused_until = w->now + len;
    trace_line(&w->trace, w->now, "! n%u.%u is paused for %" PRId64 " ms", n->index, n->life, len);
}

void fault_stall(struct world *w, struct node *n)
{
    int64_t len = rng_range(&w->rng, w->mix.rules.retain_ms / 4, 4 * w->mix.rules.retain_ms);
    n->paused_until = w->now + len;
    trace_line(&w->trace, w->now, "! n%u.%u stalls for %" PRId64 " ms", n->index, n->life, len);
}

void fault_freeze(struct world *w, struct node *n, int64_t len)
{
    if (!n->up) return;
    n->paused_until = w->now + len;
    trace_line(&w->trace, w->now, "! n%u.%u is paused early for %" PRId64 " ms", n->index, n->life,
               len);
}

// The node notices that its clock is not what it was and knows the store's time less well; or it
// learns it anew.
void fault_jump(struct world *w)
{
    struct node *n = pick_node(w);
    bool worse = rng_chance(&w->rng, 5000);
    n->late_by = rng_range(&w->rng, 0, worse ? w->mix.jump_ms : 50);
    n->early_by = rng_range(&w->rng, 0, worse ? w->mix.jump_ms : 50);
    trace_line(&w->trace, w->now, "! n%u knows the time to -%" PRId64 " +%" PRId64 " ms", n->index,
               n->late_by, n->early_by);
}

void fault_quiet(struct world *w)
{
    int64_t len = w->mix.rules.retain_ms + rng_range(&w->rng, 0, 10 * MINUTE);
    w->quiet_until = w->now + len;
    trace_line(&w->trace, w->now, "! no client asks for %" PRId64 " ms", len);
}

void fault_heal(struct world *w)
{
    trace_line(&w->trace, w->now, "! healed");
    w->phase = WORLD_HEALED;
    w->healed_at = w->now;
    w->healed_len = w->history.len;
    w->healed_tickets = w->tickets.len;
    w->storm_until = w->quiet_until = 0;
    w->bucket.list_lag_ms = 0;
    w->bucket.partial = 0;
    w->bucket.lies.overwrite = w->bucket.lies.two_win = w->bucket.lies.stale_404 = 0;
    w->bucket.lies.lost = 0;
    w->mix.ask_every_ms = 2 * SECOND;
    w->mix.burst_max = 1;
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        struct node *n = &w->nodes[i];
        n->cut_until = n->paused_until = 0;
        n->late_by = n->early_by = 20;
        if (!n->up) node_start(w, n);
        n->tick_at = w->now; // a tick that the pause put off comes now
        world_at(w, w->now, EVENT_TICK, n->index, n->life);
    }
}
