// SPDX-License-Identifier: Apache-2.0
// What a leader samples: the traffic of the shards, and which members do not reach each other. Both
// are data of the world. After the faults the traffic stays at one level, and one node may be out
// of reach of all others, although the service sees it.
#include "world.h"

#include "base/check.h"
#include "cluster/reach.h"

static uint32_t draw_traffic(struct rng *r)
{
    switch (rng_below(r, 3)) {
    case 0:
        return 0;
    case 1:
        return (uint32_t)rng_range(r, 1, 100);
    default:
        return (uint32_t)rng_range(r, 100, 2000);
    }
}

void sample_init(struct world *w)
{
    struct mix *m = &w->mix;
    int64_t lease = m->lease_ms;
    m->queue_shards = (uint32_t)rng_range(&w->rng, 2, 6);
    m->traffic = w->seed % 3 == 0;
    m->reach = w->seed % 4 == 1 && m->nodes >= 3;
    w->unreachable = NONE;
    for (uint32_t i = 0; i < m->shards; i++)
        w->traffic[i] = draw_traffic(&w->rng);
    if (m->traffic) m->heal_ms += 14 * lease;
    if (!m->reach) return;
    m->heal_ms += REACH_VALID_MS + 8 * lease;
    m->peer_cut_every = rng_range(&w->rng, 3 * lease, 10 * lease);
    if (rng_chance(&w->rng, 5000)) w->unreachable = (uint32_t)rng_below(&w->rng, m->nodes);
}

static bool reaches(const struct world *w, const struct node *a, const struct node *b)
{
    return node_acts(w, b) && w->now >= a->peer_cut_until && w->now >= b->peer_cut_until;
}

// The leader asks each member that it reaches which others that one does not reach.
static void tell_reach(struct world *w, struct node *leader, const struct node *by)
{
    if (by != leader && (!reaches(w, leader, by) || !node_acts(w, by))) return;
    for (uint32_t i = 0; i < w->mix.nodes && node_acts(w, leader); i++) {
        const struct node *other = &w->nodes[i];
        struct cluster_event e = {
            .kind = CLUSTER_UNREACHABLE, .member = by->id, .other = other->id};
        if (other != by && !reaches(w, by, other)) node_step(w, leader, &e);
    }
}

static void tell_traffic(struct world *w, struct node *leader)
{
    uint32_t measured[SHARDS_MAX];
    for (uint32_t i = 0; i < w->mix.shards; i++) {
        uint32_t noise = w->traffic[i] / NOISE_PARTS;
        measured[i] = w->traffic[i] - noise + (uint32_t)rng_range(&w->rng, 0, 2 * (int64_t)noise);
    }
    struct cluster_event e = {.kind = CLUSTER_TRAFFIC,
                              .shards = w->keys,
                              .shards_len = w->mix.shards,
                              .traffic = measured};
    node_step(w, leader, &e);
}

void sample_all(struct world *w)
{
    if (!w->healed && w->mix.shards > 0 && rng_chance(&w->rng, 1000))
        w->traffic[rng_below(&w->rng, w->mix.shards)] = draw_traffic(&w->rng);
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        struct node *n = &w->nodes[i];
        if (!node_acts(w, n) || !cluster_leads(n->cluster)) continue;
        if (w->mix.traffic && w->mix.shards > 0) tell_traffic(w, n);
        for (uint32_t k = 0; w->mix.reach && k < w->mix.nodes && node_acts(w, n); k++)
            tell_reach(w, n, &w->nodes[k]);
    }
}
