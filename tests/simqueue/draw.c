// SPDX-License-Identifier: Apache-2.0
// What one seed draws beside the journal's mix: queues, workers, habits. The mix itself is made
// faster: what takes minutes of journal time there takes seconds here, where locks do.
#include "base/check.h"
#include "life.h"

#include <stdio.h>
#include <string.h>

static const char *const names[LANES_MAX] = {"source", "graves", "crypt"};
static const char *const prefixes[LANES_MAX] = {"q/sim/0", "q/sim/1", "q/sim/2"};

static int64_t maybe(struct rng *rng, uint32_t chance, int64_t lo, int64_t hi)
{
    return rng_chance(rng, chance) ? rng_range(rng, lo, hi) : 0;
}

void draw_config(struct world *w, const struct lane *l, struct queue_config *c)
{
    struct rng *rng = &w->rng;
    bool last = l->index + 1 == w->life->lanes_len;
    config_defaults(c);
    c->ordering_mode = rng_chance(rng, 3000) ? ORDERING_LIFO : ORDERING_FIFO;
    c->ordering_guarantee = rng_chance(rng, 5000);
    c->visibility_timeout_ms = rng_range(rng, 1500, 15 * SECOND);
    c->failure_mode = last ? FAILURE_RETRY : (enum failure_mode)rng_below(rng, 3);
    if (!last)
        (void)snprintf(c->dead_letter_queue, sizeof c->dead_letter_queue, "%s",
                       names[l->index + 1]);
    c->retries_max = (uint32_t)rng_range(rng, 0, 3);
    c->backoff = (struct backoff_config){.initial_ms = rng_range(rng, 0, 800),
                                         .multiplier_1000 = rng_chance(rng, 5000) ? 2000 : 1000,
                                         .max_ms = rng_range(rng, 800, 4 * SECOND),
                                         .jitter_1000 = rng_chance(rng, 5000) ? 200 : 0};
    c->dedup_window_ms = maybe(rng, 7000, 2 * SECOND, MINUTE);
    c->deliveries_max = (uint32_t)maybe(rng, 3000, 2, 6);
    c->capacity = rng_chance(rng, 3000) ? (uint64_t)rng_range(rng, 6, 30) : 1000;
    CHECK(config_check(c, l->name, NULL) == ERR_OK);
}

static void hasten(struct mix *m, struct rng *rng)
{
    m->rules.session_ttl_ms = 24 * 60 * MINUTE; // a handle keeps its writer id: the ghost knows it
    m->rules.sessions_max = 4096;
    m->rules.digest_every = 4;
    m->rules.verify_ms = 8 * SECOND;
    m->rules.retain_ms = 25 * SECOND;
    m->rules.floor_every_ms = 5 * SECOND;
    m->rules.snapshot_every = (uint32_t)rng_range(rng, 3, rng_chance(rng, 2000) ? 200 : 30);
    m->rules.floor_lag_ms = m->rules.snapshot_every % 2 == 0 ? m->rules.retain_ms : 0;
    m->rules.sweep_every_ms = 8 * SECOND;
    m->rules.orphan_ms = rng_range(rng, 3, 30) * SECOND;
    bool lasts = rng_chance(rng, 300); // longer than request ids are remembered
    m->run_ms = lasts ? 15 * MINUTE : rng_range(rng, 60, 200) * SECOND;
    m->ask_every_ms = rng_range(rng, 600, lasts ? 20 * SECOND : 3 * SECOND);
    m->patience_ms = rng_range(rng, 2, 15) * SECOND;
    m->latency_ms = rng_range(rng, 2, 120);
    m->timeout_ms = rng_range(rng, 300, 4 * SECOND);
    m->late_ms = rng_range(rng, 1 * SECOND, 100 * SECOND);
    m->collect_every_ms = rng_range(rng, 4, 12) * SECOND;
    m->sync_every_ms = rng_range(rng, 150, 2 * SECOND);
    m->store_tick_ms = rng_chance(rng, 5000) ? 1 : 1000;
    m->jump_ms = rng_range(rng, 100, 12 * SECOND);
    int64_t *every[] = {&m->own_every_ms,   &m->storm_every_ms, &m->cut_every_ms,
                        &m->crash_every_ms, &m->pause_every_ms, &m->jump_every_ms,
                        &m->quiet_every_ms};
    for (size_t i = 0; i < sizeof every / sizeof *every; i++)
        *every[i] /= 12;
    m->switch_every_ms = 0; // one coordination service: the journal's world has two
    m->list_lag_ms /= 12;
    m->courtesy_ms /= 12;
    m->courtesy_live_ms /= 12;
    m->puts_per_second *= 12;
}

static void draw_lane(struct world *w, uint32_t index)
{
    struct lane *l = &w->life->lanes[index];
    l->index = index;
    l->name = names[index];
    l->prefix = prefixes[index];
    memset(l->id.bytes, 'A' + (int)index, sizeof l->id.bytes);
    draw_config(w, l, &l->birth);
    l->mixed_groups = rng_chance(&w->rng, 6000);
}

static void draw_crew(struct world *w)
{
    struct life *life = w->life;
    life->crew_len = (uint32_t)rng_range(&w->rng, 3, 8);
    for (uint32_t i = 0; i < life->crew_len; i++) {
        struct crew *c = &life->crew[i];
        c->lane = i < life->lanes_len ? i : (uint32_t)rng_below(&w->rng, life->lanes_len);
        (void)snprintf(c->name, sizeof c->name, "w%u", i);
        bool registers = rng_chance(&w->rng, 5000);
        c->capacity = registers ? (uint32_t)rng_range(&w->rng, 1, HANDS_MAX) : 0;
    }
}

void draw_life(struct world *w)
{
    struct life *life = w->life;
    struct rng *rng = &w->rng;
    hasten(&w->mix, rng);
    life->lanes_len = rng_chance(rng, 3500) ? 3 : 2;
    for (uint32_t i = 0; i < life->lanes_len; i++)
        draw_lane(w, i);
    w->mix.nodes = (uint32_t)rng_range(rng, 2 * life->lanes_len, MIX_NODES_MAX);
    w->mix.writers = w->mix.nodes;
    w->mix.collectors = life->lanes_len * (rng_chance(rng, 3000) ? 2 : 1);
    draw_crew(w);
    life->work_ms = rng_range(rng, 50, 4 * SECOND);
    life->stale_every_ms = maybe(rng, 8000, SECOND, 8 * SECOND);
    life->operate_every_ms = maybe(rng, 5000, 6 * SECOND, 40 * SECOND);
    if (w->mix.own_every_ms == 0 && rng_chance(rng, 4000)) w->mix.own_every_ms = 20 * SECOND;
    life->dispatch_every_ms = w->mix.own_every_ms ? rng_range(rng, 200, 2 * SECOND) : 0;
    life->carriers = (uint32_t)rng_range(rng, 1, 3);
    life->joins = (uint32_t)maybe(rng, 8000, 2000, 9500);
    life->uploads = (uint32_t)maybe(rng, 7000, 200, 4000);
    life->cache_bytes = rng_chance(rng, 5000) ? (size_t)rng_range(rng, 1, 6) << 10 : 0;
}
