// SPDX-License-Identifier: Apache-2.0
// Rounds over the tombstones. A round costs two lists and, for every queue it visits, about twenty
// requests a shard, once; then the queue is marked as swept, and nobody asks about it again.
#include "api/remains.h"

#include "base/memory.h"
#include "node/finish.h"
#include "os/clock.h"
#include "os/entropy.h"

#include <string.h>

#define MINUTE_MS        ((int64_t)60 * 1000)
#define FIRST_MS         (15 * MINUTE_MS) // most handles are closed before
#define EVERY_MS         (45 * MINUTE_MS)
#define APART_MS         (30 * MINUTE_MS) // nodes that were started together do not come together
#define MORE_MS          MINUTE_MS        // ... when a round was not enough
#define ROUND_SHARDS_MAX 64

struct remains {
    struct crew_member member; // first
    struct sluice *handle;
    struct remains_walk walk;
};

static int64_t in_a_while(int64_t ms)
{
    return clock_boot_ms() + ms + (int64_t)(entropy_u64() % (uint64_t)APART_MS);
}

static bool is_closing(void *ctx)
{
    struct sluice *s = ctx;
    (void)pthread_mutex_lock(&s->lock);
    bool closing = s->closing;
    (void)pthread_mutex_unlock(&s->lock);
    return closing;
}

// ---- which

struct tomb {
    char name[QUEUE_NAME_MAX + 1];
    uint32_t life;
    struct interval ended;
};

struct tombs {
    struct tomb *rows;
    size_t len;
    size_t cap;
};

static void tombs_done(struct tombs *t)
{
    memory_free(t->rows);
}

static void tombs_add(void *ctx, const char *name, uint32_t life, struct interval ended)
{
    struct tombs *t = ctx;
    if (t->len == t->cap) {
        t->cap = t->cap > 0 ? 2 * t->cap : 64;
        t->rows = memory_resize(t->rows, t->cap * sizeof *t->rows);
    }
    struct tomb *row = &t->rows[t->len++];
    *row = (struct tomb){.life = life, .ended = ended};
    memcpy(row->name, name, strlen(name));
}

static struct journal_rules rules_of(const struct sluice *s)
{
    struct journal_config defaults;
    journal_config_defaults(&defaults);
    return s->rules.retain_ms != 0 ? s->rules : defaults.rules;
}

// Before that no floor can be over its end, of which there is a snapshot a little later.
static void keep_old(struct tombs *t, int64_t now, int64_t age_ms)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->len; i++)
        if (now - t->rows[i].ended.hi >= age_ms) t->rows[kept++] = t->rows[i];
    t->len = kept;
}

static enum err find(struct sluice *s, struct tombs *out, struct store_answer *a)
{
    enum err err = catalog_remains(s->store, tombs_add, out, a);
    struct journal_rules rules = rules_of(s);
    bool tight = a->tight && rules.retain_tight_ms > 0;
    int64_t lag_ms = tight ? rules.retain_tight_ms : rules.floor_lag_ms;
    if (!err) keep_old(out, a->time.lo, lag_ms + lag_ms / 60);
    return err;
}

// ---- a visit

static enum err visit_shards(struct sluice *s, const struct catalog_row *row, bool *finished)
{
    *finished = true;
    for (uint32_t shard = 0; shard < row->birth.shards; shard++) {
        struct desk_config config = {
            .id = {.shard = shard}, .birth = row->birth, .rules = s->rules};
        memcpy(config.id.queue, row->id.bytes, sizeof config.id.queue);
        memcpy(config.queue, row->name, sizeof config.queue);
        bool one = false;
        enum err err = finish_shard(s->store, &config, is_closing, s, &one);
        if (err) return err;
        *finished = *finished && one;
    }
    return ERR_OK;
}

// A shard that cannot be read holds up nobody but its own queue.
static size_t visit(struct sluice *s, const struct tomb *t, struct remains_tally *tally,
                    struct store_answer *a)
{
    struct catalog_row row;
    bool finished = false;
    if (catalog_life(s->store, t->name, t->life, &row, a)) return 0;
    enum err err = visit_shards(s, &row, &finished);
    if (!err && finished) err = catalog_swept(s->store, &row, a);
    tally->visited++;
    if (!err && finished) tally->finished++;
    return row.birth.shards;
}

static bool is_after(const struct tomb *t, const struct remains_walk *walk)
{
    int names = strcmp(t->name, walk->name);
    return names > 0 || (names == 0 && t->life > walk->life);
}

// Where to go on; at first anywhere, for others do the same.
static size_t first_of(const struct tombs *t, struct remains_walk *walk)
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

enum err remains_round(struct sluice *s, size_t shards_max, struct remains_walk *walk,
                       struct remains_tally *out)
{
    CLEANUP(tombs_done) struct tombs tombs = {0};
    struct store_answer answer CLEANUP(store_answer_done);
    store_answer_init(&answer);
    *out = (struct remains_tally){0};
    enum err err = find(s, &tombs, &answer);
    if (err) return err;
    out->found = tombs.len;
    size_t first = tombs.len > 0 ? first_of(&tombs, walk) : 0;
    size_t shards = 0, met = 0;
    for (; met < tombs.len && shards < shards_max && !is_closing(s); met++) {
        const struct tomb *t = &tombs.rows[(first + met) % tombs.len];
        shards += visit(s, t, out, &answer);
        memcpy(walk->name, t->name, sizeof walk->name);
        walk->life = t->life;
    }
    walk->left = met < tombs.len && met < walk->left ? walk->left - met : 0;
    return ERR_OK;
}

// ---- now and then

static int64_t turn(struct crew_member *m)
{
    struct remains *r = (struct remains *)m;
    struct remains_tally tally;
    crew_slow(m);
    enum err err = remains_round(r->handle, ROUND_SHARDS_MAX, &r->walk, &tally);
    return !err && r->walk.left > 0 ? clock_boot_ms() + MORE_MS : in_a_while(EVERY_MS);
}

void remains_plan(struct sluice *s)
{
    int64_t at = in_a_while(FIRST_MS);
    (void)pthread_mutex_lock(&s->lock);
    s->remains_at = at;
    (void)pthread_mutex_unlock(&s->lock);
}

void remains_start(struct sluice *s)
{
    struct remains *r = NEW(struct remains);
    r->handle = s;
    if (crew_add(s->crew, &r->member, turn)) {
        memory_free(r); // no thread can be had: another time
        remains_plan(s);
        return;
    }
    (void)pthread_mutex_lock(&s->lock);
    s->remains = r;
    (void)pthread_mutex_unlock(&s->lock);
    crew_kick(&r->member);
}

void remains_again(struct sluice *s)
{
    (void)pthread_mutex_lock(&s->lock);
    if (s->remains) crew_kick(&s->remains->member);
    (void)pthread_mutex_unlock(&s->lock);
}

void remains_stop(struct sluice *s)
{
    if (!s->remains) return;
    crew_remove(&s->remains->member);
    memory_free(s->remains);
    s->remains = NULL;
}
