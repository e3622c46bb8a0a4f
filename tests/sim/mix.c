// SPDX-License-Identifier: Apache-2.0
// The draw. Rules are shrunk from hours to minutes, so that a seed sees many floors in little
// virtual time.
#include "mix.h"

#include "base/hash.h"

#define SECOND ((int64_t)1000)
#define MINUTE (60 * SECOND)

static int64_t sometimes(struct rng *rng, uint32_t chance, int64_t lo, int64_t hi)
{
    return rng_chance(rng, chance) ? rng_range(rng, lo, hi) : 0;
}

static uint32_t sometimes_often(struct rng *rng, uint32_t chance, int64_t most)
{
    return (uint32_t)sometimes(rng, chance, 20, most);
}

static void draw_rules(struct mix *m, struct rng *rng)
{
    m->rules = (struct journal_rules){
        .session_ttl_ms = rng_range(rng, 10, 60) * MINUTE,
        .sessions_max = rng_chance(rng, 3000) ? (uint32_t)rng_range(rng, 1, 4) : 64,
        .digest_every = 4,
        .verify_ms = 1 * MINUTE,
        .retain_ms = 5 * MINUTE,
        .floor_every_ms = 1 * MINUTE,
        .snapshot_every = (uint32_t)rng_range(rng, 3, 20)};
    if (rng_chance(rng, 2000)) m->rules.retain_ms = m->rules.verify_ms + 1;
    // The product's floor follows at a distance; one that follows at once is the harder case.
    if (m->rules.snapshot_every % 2 == 0) m->rules.floor_lag_ms = m->rules.retain_ms;
    m->memory_ms = rng_range(rng, 2, 10) * MINUTE;
}

static void draw_sizes(struct mix *m, struct rng *rng)
{
    m->writers = (uint32_t)rng_range(rng, 2, 5);
    m->nodes = m->writers + (uint32_t)rng_range(rng, 0, 2);
    m->collectors = (uint32_t)rng_range(rng, 1, 2);
    m->names = (uint32_t)rng_range(rng, 2, 6);
    m->run_ms = rng_range(rng, 20, 45) * MINUTE;
    m->ask_every_ms = rng_range(rng, 3, 30) * SECOND;
    m->burst_max = (uint32_t)rng_range(rng, 1, 4);
    m->patience_ms = rng_range(rng, 5, 60) * SECOND;
    m->impatient = 500;
    m->patient = (uint32_t)rng_range(rng, 0, rng_chance(rng, 3000) ? 6000 : 1000);
    m->latency_ms = rng_range(rng, 2, 400);
    m->timeout_ms = rng_range(rng, 1, 15) * SECOND;
    m->late_ms = rng_range(rng, 1, 20) * MINUTE;
    m->collect_every_ms = rng_range(rng, 20, 90) * SECOND;
    m->sync_every_ms = rng_range(rng, 20, 120) * SECOND;
}

static void draw_faults(struct mix *m, struct rng *rng)
{
    m->fates = (struct mix_fates){.lost_request = sometimes_often(rng, 5000, 600),
                                  .lost_reply = sometimes_often(rng, 5000, 600),
                                  .late = sometimes_often(rng, 5000, 400),
                                  .twice = sometimes_often(rng, 4000, 600),
                                  .unavailable = sometimes_often(rng, 5000, 800),
                                  .limit = sometimes_often(rng, 1500, 100),
                                  .slow = sometimes_often(rng, 4000, 100)};
    m->own_every_ms = sometimes(rng, 5000, 40 * SECOND, 6 * MINUTE);
    m->switch_every_ms = m->own_every_ms ? sometimes(rng, 4000, 3 * MINUTE, 15 * MINUTE) : 0;
    m->storm_every_ms = sometimes(rng, 3000, 2 * MINUTE, 15 * MINUTE);
    m->cut_every_ms = sometimes(rng, 4000, 2 * MINUTE, 12 * MINUTE);
    m->crash_every_ms = sometimes(rng, 6000, 40 * SECOND, 8 * MINUTE);
    m->pause_every_ms = sometimes(rng, 7000, 1 * MINUTE, 8 * MINUTE);
    m->stall = sometimes_often(rng, 3000, 200);
    // A node that stalls inside a commit is noticed only by clients that still wait for it.
    if (m->stall > 0) m->patient = (uint32_t)rng_range(rng, 2000, 8000);
    m->jump_every_ms = sometimes(rng, 4000, 1 * MINUTE, 10 * MINUTE);
    m->quiet_every_ms = sometimes(rng, 2000, 10 * MINUTE, 30 * MINUTE);
    // The client's promise not to repeat a request after the machine forgot it rests on this bound.
    m->jump_ms = rng_range(rng, 1 * SECOND, m->memory_ms / 4);
}

static void draw_store(struct mix *m, struct rng *rng)
{
    m->store_tick_ms = rng_chance(rng, 5000) ? 1 : 1000;
    m->run_max = (uint32_t)rng_range(rng, 1, 8);
    m->list_lag_ms = sometimes(rng, 4000, 1 * SECOND, 10 * MINUTE);
    m->partial = sometimes_often(rng, 3000, 3000);
}

static void draw_pace(struct mix *m, struct rng *rng)
{
    m->high_latency = rng_chance(rng, 6000);
    m->puts_per_second = sometimes(rng, 4000, 1, 5);
    m->courtesy_ms = rng_chance(rng, 5000) ? 1 * SECOND : rng_range(rng, 0, 10 * SECOND);
    m->courtesy_live_ms = rng_chance(rng, 5000) ? 5 * SECOND : rng_range(rng, 0, MINUTE);
}

void mix_draw(struct mix *m, struct rng *rng)
{
    *m = (struct mix){0};
    draw_rules(m, rng);
    draw_sizes(m, rng);
    draw_faults(m, rng);
    draw_store(m, rng);
    draw_pace(m, rng);
}

// In every fifth world. The others are what they were before there was an end.
void mix_draw_end(struct mix *m, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, hash64_mix(seed, 0x656e64));
    m->end_ms = rng_chance(&rng, 2000) ? rng_range(&rng, m->run_ms / 5, m->run_ms * 3 / 5) : 0;
}

// In every fifth world, and in every fifth lying one. A high rate makes handles halt again and
// again.
void mix_draw_wrong(struct mix *m, uint64_t seed, bool lying)
{
    struct rng rng;
    rng_init(&rng, hash64_mix(seed, 0x77726f6e67));
    m->garbled = sometimes_often(&rng, 2000, rng_chance(&rng, 5000) ? 200 : 4000);
    m->lost = lying ? sometimes_often(&rng, 2000, 300) : 0;
}
