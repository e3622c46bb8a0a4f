// SPDX-License-Identifier: Apache-2.0
// What one seed draws, and trouble that is not the fate of one request.
#include "base/check.h"
#include "world.h"

#include <inttypes.h>

static bool chance(struct rng *r, uint32_t percent)
{
    return rng_chance(r, 100 * percent);
}

static int64_t maybe(struct rng *r, uint32_t percent, int64_t lo, int64_t hi)
{
    int64_t drawn = rng_range(r, lo, hi);
    return chance(r, percent) ? drawn : 0;
}

static void draw_fates(struct mix *m, struct rng *r)
{
    m->lost_request = (uint32_t)maybe(r, 40, 50, 1000);
    m->lost_reply = (uint32_t)maybe(r, 40, 50, 1000);
    m->late = (uint32_t)maybe(r, 40, 50, 800);
    m->slow = (uint32_t)maybe(r, 40, 50, 1000);
    m->unavailable = (uint32_t)maybe(r, 40, 50, 1000);
}

void mix_draw(struct mix *m, struct rng *r)
{
    *m = (struct mix){.nodes = (uint32_t)rng_range(r, 1, NODES_MAX),
                      .shards = (uint32_t)rng_range(r, 1, SHARDS_MAX)};
    if (m->nodes == 1 && chance(r, 80)) m->nodes = 3;
    m->lease_ms = rng_range(r, 8, 20) * 100;
    m->run_ms = rng_range(r, 15, 30) * m->lease_ms;
    m->heal_ms = 26 * m->lease_ms;
    m->latency_ms = rng_range(r, 1, 15);
    m->timeout_ms = rng_range(r, 4, 10) * m->lease_ms / 10;
    m->late_ms = m->timeout_ms + rng_range(r, 1, 8) * m->lease_ms;
    m->moves_max = (uint32_t)rng_range(r, 1, 4);
    m->lists_dead = chance(r, 50);
    draw_fates(m, r);
    int64_t lease = m->lease_ms;
    m->cut_every = maybe(r, 40, 3 * lease, 12 * lease);
    m->store_cut_every = maybe(r, 25, 3 * lease, 12 * lease);
    m->outage_every = maybe(r, 25, 4 * lease, 12 * lease);
    m->pause_every = maybe(r, 40, 2 * lease, 10 * lease);
    m->crash_every = maybe(r, 40, 2 * lease, 10 * lease);
    m->stop_every = maybe(r, 25, 4 * lease, 12 * lease);
    m->drain_every = maybe(r, 15, 6 * lease, 15 * lease);
    m->jump_every = maybe(r, 40, 2 * lease, 8 * lease);
    m->jump_ms = rng_range(r, 10, 2 * lease);
    m->commit_every = rng_range(r, lease / 30, lease / 8);
}

void fault_plan(struct world *w)
{
    const struct mix *m = &w->mix;
    world_every(w, m->cut_every, EVENT_CUT);
    world_every(w, m->store_cut_every, EVENT_STORE_CUT);
    world_every(w, m->outage_every, EVENT_OUTAGE);
    world_every(w, m->pause_every, EVENT_PAUSE);
    world_every(w, m->crash_every, EVENT_CRASH);
    world_every(w, m->stop_every, EVENT_STOP);
    world_every(w, m->drain_every, EVENT_DRAIN);
    world_every(w, m->jump_every, EVENT_JUMP);
    world_every(w, m->peer_cut_every, EVENT_PEER_CUT);
}

static int64_t spread(struct world *w)
{
    int64_t most = 6 * w->mix.lease_ms;
    for (uint64_t halvings = rng_below(&w->rng, 5); halvings > 0; halvings--)
        most /= 2;
    return rng_range(&w->rng, 1, most);
}

static void order(struct world *w, struct node *n, enum event_kind kind)
{
    if (!node_acts(w, n) || (n->leaving && !n->drains)) return;
    struct cluster_event e = {.kind = kind == EVENT_STOP ? CLUSTER_STOP
                                      : n->drains        ? CLUSTER_UNDRAIN
                                                         : CLUSTER_DRAIN,
                              .deadline = w->now + spread(w)};
    n->drains = e.kind == CLUSTER_DRAIN;
    n->leaving = e.kind != CLUSTER_UNDRAIN;
    trace_line(&w->trace, w->now, "! n%u.%u is to %s", n->index, n->life,
               kind == EVENT_STOP          ? "stop"
               : e.kind == CLUSTER_UNDRAIN ? "end its drain"
                                           : "drain");
    node_step(w, n, &e);
}

static void jump(struct world *w, struct node *n)
{
    bool worse = rng_chance(&w->rng, 5000);
    n->late_by = rng_range(&w->rng, 0, worse ? w->mix.jump_ms : 20);
    n->early_by = rng_range(&w->rng, 0, worse ? w->mix.jump_ms : 20);
    trace_line(&w->trace, w->now, "! n%u knows the time to -%" PRId64 " +%" PRId64 " ms", n->index,
               n->late_by, n->early_by);
    if (node_acts(w, n)) node_tick(w, n);
}

static void crash(struct world *w, struct node *n, int64_t len)
{
    if (!n->up) return;
    trace_line(&w->trace, w->now, "! n%u.%u crashes", n->index, n->life);
    node_end(w, n);
    n->paused_until = 0;
    world_at(w, w->now + len, EVENT_START, n->index, 0);
}

static void pause_node(struct world *w, struct node *n, int64_t len)
{
    if (!node_acts(w, n)) return;
    n->paused_until = w->now + len;
    trace_line(&w->trace, w->now, "! n%u.%u is paused for %" PRId64 " ms", n->index, n->life, len);
    world_at(w, n->paused_until, EVENT_TICK, n->index, n->life);
}

void fault_do(struct world *w, enum event_kind kind)
{
    if (w->healed || w->now < w->calm_until) return;
    struct node *n = &w->nodes[rng_below(&w->rng, w->mix.nodes)];
    int64_t len = spread(w);
    switch (kind) {
    case EVENT_CUT:
        n->cut_until = w->now + len;
        trace_line(&w->trace, w->now, "! n%u: no service for %" PRId64 " ms", n->index, len);
        return;
    case EVENT_PEER_CUT:
        n->peer_cut_until = w->now + len;
        trace_line(&w->trace, w->now, "! n%u: no peer for %" PRId64 " ms", n->index, len);
        return;
    case EVENT_STORE_CUT:
        n->store_cut_until = w->now + len;
        trace_line(&w->trace, w->now, "! n%u: no store for %" PRId64 " ms", n->index, len);
        return;
    case EVENT_OUTAGE:
        w->outage_until = w->now + len;
        trace_line(&w->trace, w->now, "! the service is away for %" PRId64 " ms", len);
        return;
    case EVENT_PAUSE:
        pause_node(w, n, len);
        return;
    case EVENT_CRASH:
        crash(w, n, len);
        return;
    case EVENT_STOP:
    case EVENT_DRAIN:
        order(w, n, kind);
        return;
    default:
        CHECK(kind == EVENT_JUMP);
        jump(w, n);
    }
}

// The faults end. Nodes that were told to leave start again as new members.
void fault_heal(struct world *w)
{
    trace_line(&w->trace, w->now, "! healed");
    w->healed = true;
    w->outage_until = 0;
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        struct node *n = &w->nodes[i];
        n->cut_until = n->store_cut_until = n->paused_until = 0;
        n->peer_cut_until = i == w->unreachable ? TIME_NEVER : 0;
        n->late_by = n->early_by = 5;
        if (n->leaving) node_end(w, n);
        if (!n->up)
            node_start(w, n);
        else
            node_tick(w, n);
    }
}
