// SPDX-License-Identifier: Apache-2.0
// What one seed draws beside the journal's mix. A world is small and short, so that thousands of
// them run in a test: two or three processes, some seconds, a few dozen calls.
#include "base/check.h"
#include "life.h"

#include <string.h>

static int64_t maybe(struct rng *rng, uint32_t chance, int64_t lo, int64_t hi)
{
    return rng_chance(rng, chance) ? rng_range(rng, lo, hi) : 0;
}

static void draw_config(struct world *w)
{
    struct queue_config *c = &w->life->config;
    struct rng *rng = &w->rng;
    config_defaults(c);
    c->shards = w->life->shards;
    c->visibility_timeout_ms = rng_range(rng, 500, 3 * SECOND);
    c->failure_mode = FAILURE_RETRY;
    c->retries_max = 1000;
    c->backoff = (struct backoff_config){
        .initial_ms = rng_range(rng, 0, 300), .multiplier_1000 = 1000, .max_ms = 300};
    c->capacity = rng_chance(rng, 4000) ? (uint64_t)rng_range(rng, 1, 6) : SIM_CAPACITY_MAX;
    c->backpressure = rng_chance(rng, 7000) ? BACKPRESSURE_BLOCK : BACKPRESSURE_REJECT;
    CHECK(config_check(c, "tasks", NULL) == ERR_OK);
}

static void draw_no_faults(struct mix *m)
{
    m->fates = (struct mix_fates){0};
    m->storm_every_ms = m->cut_every_ms = m->crash_every_ms = 0;
    m->pause_every_ms = m->jump_every_ms = 0;
}

// What takes minutes in the journal's world takes seconds here.
static void draw_mix(struct world *w)
{
    struct mix *m = &w->mix;
    struct rng *rng = &w->rng;
    mix_draw(m, rng);
    m->rules.session_ttl_ms = 24 * 3600 * SECOND;
    m->rules.sessions_max = 4096;
    m->rules.verify_ms = 2 * SECOND;
    m->rules.retain_ms = 4 * SECOND;
    m->rules.snapshot_every = (uint32_t)rng_range(rng, 5, 200);
    m->run_ms = rng_range(rng, 1500, 5 * SECOND);
    m->ask_every_ms = rng_range(rng, 15, 80);
    m->patience_ms = rng_range(rng, 500, 4 * SECOND);
    m->latency_ms = rng_range(rng, 1, 40);
    m->timeout_ms = rng_range(rng, 100, 800);
    m->late_ms = rng_range(rng, 100, 6 * SECOND);
    m->sync_every_ms = rng_range(rng, 30, rng_chance(rng, 5000) ? 300 : 3 * SECOND);
    m->run_max = (uint32_t)rng_range(rng, 6, 20);
    m->store_tick_ms = rng_chance(rng, 7000) ? 1 : 1000;
    m->jump_ms = rng_range(rng, 50, 500);
    m->storm_every_ms = maybe(rng, 1500, SECOND, 4 * SECOND);
    m->cut_every_ms = maybe(rng, 2500, SECOND, 4 * SECOND);
    m->crash_every_ms = maybe(rng, 2500, SECOND, 6 * SECOND);
    m->pause_every_ms = maybe(rng, 2500, SECOND, 6 * SECOND);
    m->jump_every_ms = maybe(rng, 2500, SECOND, 6 * SECOND);
    m->own_every_ms = m->switch_every_ms = m->quiet_every_ms = 0;
    m->stall = 0;
    m->list_lag_ms = 0;
    m->partial = 0;
    m->courtesy_ms = m->courtesy_live_ms = 0;
    m->puts_per_second = 0;
    w->life->calm = rng_chance(rng, 3000);
    if (w->life->calm) draw_no_faults(m);
}

void draw_life(struct world *w)
{
    struct life *life = w->life;
    struct rng *rng = &w->rng;
    draw_mix(w);
    life->shards = rng_chance(rng, 2500) ? 1 : (uint32_t)rng_range(rng, 2, SIM_SHARDS_MAX);
    life->processes = (uint32_t)rng_range(rng, 1, life->shards > 2 ? 2 : 3);
    w->mix.nodes = life->shards * life->processes;
    CHECK(w->mix.nodes <= MIX_NODES_MAX && life->processes <= SIM_PROCESSES_MAX);
    memset(life->queue.bytes, 'Q', sizeof life->queue.bytes);
    draw_config(w);
    life->close_every_ms = maybe(rng, 4000, SECOND, 4 * SECOND);
    life->wait_ms = rng_range(rng, 50, 3 * SECOND);
    life->sends = (uint32_t)rng_range(rng, 10, 45);
    life->many_waits = rng_chance(rng, 5000);
    life->delays = (uint32_t)maybe(rng, 8000, 500, 9000);
    life->delay_ms = rng_range(rng, 1, rng_chance(rng, 5000) ? 20 : 300);
    life->named = (uint32_t)rng_range(rng, 1000, 9000);
    life->repeats = (uint32_t)rng_range(rng, 1000, 7000);
    life->cancels = (uint32_t)maybe(rng, 8000, 500, 6000);
    life->between = (uint32_t)maybe(rng, 5000, 200, 3000);
    life->build_fails = (uint32_t)maybe(rng, 3000, 100, 1000);
}
