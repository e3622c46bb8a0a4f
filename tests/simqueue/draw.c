// SPDX-License-Identifier: Apache-2.0
// What one seed draws beside the journal's mix: queues, workers, habits. The mix itself is made
// faster: what takes minutes of journal time there takes seconds here, where locks do.
#include "base/check.h"
#include "base/hash.h"
#include "life.h"

#include <stdio.h>
#include <string.h>

static const char *const names[QUEUES_MAX] = {"source", "graves", "crypt"};

static int64_t maybe(struct rng *rng, uint32_t chance, int64_t lo, int64_t hi)
{
    return rng_chance(rng, chance) ? rng_range(rng, lo, hi) : 0;
}

void draw_config(struct world *w, const struct lane *l, struct queue_config *c)
{
    struct rng *rng = &w->rng;
    bool last = l->queue + 1 == w->life->queues_len;
    config_defaults(c);
    c->shards = w->life->shards[l->queue];
    c->ordering_mode = rng_chance(rng, 3000) ? ORDERING_LIFO : ORDERING_FIFO;
    c->ordering_guarantee = rng_chance(rng, 5000);
    c->visibility_timeout_ms = rng_range(rng, 1500, 15 * SECOND);
    c->failure_mode = last ? FAILURE_RETRY : (enum failure_mode)rng_below(rng, 3);
    if (!last)
        (void)snprintf(c->dead_letter_queue, sizeof c->dead_letter_queue, "%s",
                       names[l->queue + 1]);
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
    m->rules.session_ttl_ms =
        24 * 60 * MINUTE; // a handle keeps its writer id: the reference model knows it
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

// From none to longer than a world lasts.
int64_t draw_retention(struct world *w)
{
    static const int64_t some[] = {
        0, 300, 5 * SECOND, 60 * SECOND, RETENTION_DEFAULT, 2 * RETENTION_DEFAULT};
    return some[rng_below(&w->life->ends, sizeof some / sizeof *some)];
}

static void draw_lane(struct world *w, uint32_t queue, uint32_t shard)
{
    struct lane *l = &w->life->lanes[w->life->lanes_len];
    l->index = w->life->lanes_len++;
    l->queue = queue;
    l->shard = shard;
    l->name = names[queue];
    (void)snprintf(l->prefix, sizeof l->prefix, "q/sim%u/%u", queue, shard);
    memset(l->id.bytes, 'A' + (int)queue, sizeof l->id.bytes);
    if (shard == 0) {
        draw_config(w, l, &l->birth);
        if (w->life->owner_only && rng_chance(&w->life->consume, 8500))
            l->birth.consume = CONSUME_OWNER;
        if (w->life->keeps_ends) l->birth.retention_ms = draw_retention(w);
    } else {
        l->birth = l[-1].birth;
    }
    l->mixed_groups = rng_chance(&w->rng, 6000);
}

// Two or three queues; in every third world one of them has two shards, or both of two have.
static void draw_queues(struct world *w)
{
    struct life *life = w->life;
    life->queues_len = rng_chance(&w->rng, 3500) ? 3 : 2;
    for (uint32_t i = 0; i < life->queues_len; i++)
        life->shards[i] = 1;
    bool several = !life_is_crowd(w) && rng_chance(&w->rng, 3500);
    if (several) life->shards[rng_below(&w->rng, life->queues_len)] = 2;
    if (several && life->queues_len == 2 && rng_chance(&w->rng, 3000))
        life->shards[0] = life->shards[1] = 2;
    for (uint32_t i = 0; i < life->queues_len; i++)
        for (uint32_t k = 0; k < life->shards[i]; k++)
            draw_lane(w, i, k);
}

static void draw_workers(struct world *w)
{
    struct life *life = w->life;
    life->thread_pool_len = (uint32_t)rng_range(&w->rng, life->lanes_len > 3 ? 4 : 3, 8);
    for (uint32_t i = 0; i < life->thread_pool_len; i++) {
        struct sim_worker *c = &life->workers[i];
        c->lane = i < life->lanes_len ? i : (uint32_t)rng_below(&w->rng, life->lanes_len);
        (void)snprintf(c->name, sizeof c->name, "w%u", i);
        bool registers = rng_chance(&w->rng, 5000);
        c->capacity = registers ? (uint32_t)rng_range(&w->rng, 1, HELD_LOCKS_MAX) : 0;
    }
}

void draw_life(struct world *w)
{
    struct life *life = w->life;
    struct rng *rng = &w->rng;
    hasten(&w->mix, rng);
    rng_init(&life->consume, hash64_mix(w->seed, 0x636f6e73756d65));
    life->owner_only = !life_is_crowd(w) && rng_chance(&life->consume, 3333);
    rng_init(&life->ends, hash64_mix(w->seed, 0x656e6473));
    life->keeps_ends = !life_is_crowd(w) && rng_chance(&life->ends, 3333);
    draw_queues(w);
    w->mix.nodes = (uint32_t)rng_range(rng, 2 * life->lanes_len, MIX_NODES_MAX);
    w->mix.writers = w->mix.nodes;
    w->mix.collectors = life->lanes_len * (rng_chance(rng, 3000) ? 2 : 1);
    draw_workers(w);
    life->work_ms = rng_range(rng, 50, 4 * SECOND);
    life->stale_every_ms = maybe(rng, 8000, SECOND, 8 * SECOND);
    life->operate_every_ms = maybe(rng, 5000, 6 * SECOND, 40 * SECOND);
    if (w->mix.own_every_ms == 0 && rng_chance(rng, 4000)) w->mix.own_every_ms = 20 * SECOND;
    if (rng_chance(rng, 1500)) { // owners change often, and former ones do not wait
        w->mix.own_every_ms = 700;
        w->mix.courtesy_ms = w->mix.courtesy_live_ms = 0;
    }
    if (life->owner_only && w->mix.own_every_ms == 0) w->mix.own_every_ms = 5 * SECOND;
    life->dispatch_every_ms = w->mix.own_every_ms ? rng_range(rng, 200, 2 * SECOND) : 0;
    life->carriers = (uint32_t)rng_range(rng, 1, 3);
    life->joins = (uint32_t)maybe(rng, 8000, 2000, 9500);
    life->uploads = (uint32_t)maybe(rng, 7000, 200, 4000);
    life->sleepers = (uint32_t)maybe(rng, 5000, 50, 500);
    if (!life_is_crowd(w) && rng_chance(rng, 2500)) {
        uint32_t queue = (uint32_t)rng_below(rng, life->queues_len);
        life_after(w, rng_range(rng, 5 * SECOND, w->mix.run_ms), LIFE_DELETE, queue, 0);
    }
    life->cache_bytes = rng_chance(rng, 5000) ? (size_t)rng_range(rng, 1, 6) << 10 : 0;
    releases_draw(w);
    fleet_draw(w);
    workflows_draw(w);
    signals_draw(w);
}
