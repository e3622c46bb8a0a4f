// SPDX-License-Identifier: Apache-2.0
// Rounds over the tombstones of deleted queues. A round lists two folders. A queue costs about
// twenty requests per shard, once. Then it is marked as swept, and no process visits it again.
#include "ops/deleted_queues.h"

#include "base/array.h"
#include "base/memory.h"
#include "ops/finish_shard.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/lock.h"

#include <string.h>

#define MINUTE_MS        ((int64_t)60 * 1000)
#define FIRST_MS         (15 * MINUTE_MS) // to the first round; most handles close earlier
#define EVERY_MS         (45 * MINUTE_MS)
#define APART_MS         (30 * MINUTE_MS) // random, so that nodes do not work at the same time
#define MORE_MS          MINUTE_MS        // to the next round of a walk
#define ROUND_SHARDS_MAX 64

struct deleted_queues {
    struct pool_task task; // first
    struct engine *engine;
    struct deleted_queues_walk walk;
};

static int64_t random_delay(int64_t ms)
{
    return clock_boot_ms() + ms + (int64_t)(entropy_u64() % (uint64_t)APART_MS);
}

static bool is_closing(void *ctx)
{
    struct engine *e = ctx;
    LOCKED(&e->lock);
    return e->closing;
}

struct tombstone {
    char name[QUEUE_NAME_MAX + 1];
    uint32_t life;
    struct interval ended;
};

struct tombstones {
    struct tombstone *rows;
    size_t len;
    size_t cap;
};

static void tombstones_done(struct tombstones *t)
{
    memory_free(t->rows);
}

static void tombstones_add(void *ctx, const char *name, uint32_t life, struct interval ended)
{
    struct tombstones *t = ctx;
    struct tombstone *row = ARRAY_ADD(t->rows, t->len, t->cap);
    *row = (struct tombstone){.life = life, .ended = ended};
    memcpy(row->name, name, strlen(name));
}

static struct journal_rules rules_of(const struct engine *e)
{
    struct journal_config defaults;
    journal_config_defaults(&defaults);
    return e->rules.retain_ms != 0 ? e->rules : defaults.rules;
}

// Keeps the tombstones that are at least age_ms old. Before that age, no floor can be above the
// deletion. The age includes a margin, because the snapshot of the deletion is a little younger.
static void keep_old(struct tombstones *t, int64_t now, int64_t age_ms)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->len; i++)
        if (now - t->rows[i].ended.hi >= age_ms) t->rows[kept++] = t->rows[i];
    t->len = kept;
}

static enum err find_tombstones(struct engine *e, struct tombstones *out, struct store_answer *a)
{
    enum err err = catalog_deleted(e->store, tombstones_add, out, a);
    struct journal_rules rules = rules_of(e);
    bool tight = a->tight && rules.retain_tight_ms > 0;
    int64_t lag_ms = tight ? rules.retain_tight_ms : rules.floor_lag_ms;
    if (!err) keep_old(out, a->time.lo, lag_ms + lag_ms / 60);
    return err;
}

static enum err visit_shards(struct engine *e, const struct catalog_row *row, bool *finished)
{
    *finished = true;
    for (uint32_t shard = 0; shard < row->birth.shards; shard++) {
        struct runner_config config = {
            .id = {.shard = shard}, .birth = row->birth, .rules = e->rules};
        memcpy(config.id.queue, row->id.bytes, sizeof config.id.queue);
        memcpy(config.queue, row->name, sizeof config.queue);
        bool one = false;
        enum err err = finish_shard(e->store, &config, is_closing, e, &one);
        if (err) return err;
        *finished = *finished && one;
    }
    return ERR_OK;
}

// Returns the number of shards it visited. An error holds up only this queue.
static size_t visit(struct engine *e, const struct tombstone *t,
                    struct deleted_queues_counts *counters, struct store_answer *a)
{
    struct catalog_row row;
    bool finished = false;
    if (catalog_life(e->store, t->name, t->life, &row, a)) return 0;
    enum err err = visit_shards(e, &row, &finished);
    if (!err && finished) err = catalog_swept(e->store, &row, a);
    counters->visited++;
    if (!err && finished) counters->finished++;
    return row.birth.shards;
}

static bool is_after(const struct tombstone *t, const struct deleted_queues_walk *walk)
{
    int names = strcmp(t->name, walk->name);
    return names > 0 || (names == 0 && t->life > walk->life);
}

// The tombstone that the round begins with. A new walk begins at a random one, because other
// processes walk at the same time.
static size_t first_of(const struct tombstones *t, struct deleted_queues_walk *walk)
{
    if (walk->left == 0) {
        walk->left = t->len;
        return entropy_u64() % t->len;
    }
    size_t i = 0;
    while (i < t->len && !is_after(&t->rows[i], walk))
        i++;
    return i % t->len;
}

enum err deleted_queues_round(struct engine *e, size_t shards_max, struct deleted_queues_walk *walk,
                              struct deleted_queues_counts *out)
{
    CLEANUP(tombstones_done) struct tombstones tombstones = {0};
    LOCAL(store_answer, answer);
    *out = (struct deleted_queues_counts){0};
    enum err err = find_tombstones(e, &tombstones, &answer);
    if (err) return err;
    out->found = tombstones.len;
    size_t first = tombstones.len > 0 ? first_of(&tombstones, walk) : 0;
    size_t shards = 0, met = 0;
    for (; met < tombstones.len && shards < shards_max && !is_closing(e); met++) {
        const struct tombstone *t = &tombstones.rows[(first + met) % tombstones.len];
        shards += visit(e, t, out, &answer);
        memcpy(walk->name, t->name, sizeof walk->name);
        walk->life = t->life;
    }
    walk->left = met < tombstones.len && met < walk->left ? walk->left - met : 0;
    return ERR_OK;
}

static int64_t run_round(struct pool_task *m)
{
    struct deleted_queues *r = (struct deleted_queues *)m;
    struct deleted_queues_counts counters;
    task_may_block(m);
    enum err err = deleted_queues_round(r->engine, ROUND_SHARDS_MAX, &r->walk, &counters);
    return !err && r->walk.left > 0 ? clock_boot_ms() + MORE_MS : random_delay(EVERY_MS);
}

struct deleted_queues *deleted_queues_new(struct engine *e, struct pool_share *share)
{
    struct deleted_queues *r = NEW(struct deleted_queues);
    r->engine = e;
    if (pool_share_add(share, &r->task, run_round)) {
        memory_free(r);
        return NULL;
    }
    task_schedule_at(&r->task, random_delay(FIRST_MS));
    return r;
}

void deleted_queues_again(struct deleted_queues *r)
{
    task_schedule(&r->task);
}

void deleted_queues_free(struct deleted_queues *r)
{
    if (!r) return;
    task_remove(&r->task);
    memory_free(r);
}
