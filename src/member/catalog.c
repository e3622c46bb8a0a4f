// SPDX-License-Identifier: Apache-2.0
// The queues that this node knows, and the catalog of the store. The leader plans the shards that
// the catalog has.
#include "member/inside.h"

#include "base/array.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CATALOG_EVERY_MS 60000 // the leader reads the catalog so often,
#define CATALOG_LEAST_MS 2000  // ... and at most so often when it hears of another queue

static struct known_queue *find(const struct membership *m, const uint8_t id[16])
{
    for (size_t i = 0; i < m->queues_len; i++)
        if (memcmp(m->queues[i].id.bytes, id, 16) == 0) return &m->queues[i];
    return NULL;
}

bool queues_name(const struct membership *m, const uint8_t id[16], char out[QUEUE_NAME_MAX + 1])
{
    const struct known_queue *q = find(m, id);
    out[0] = 0;
    if (q) (void)snprintf(out, QUEUE_NAME_MAX + 1, "%s", q->name);
    return q != NULL;
}

// The lock is held.
static struct known_queue *note(struct membership *m, const struct queue_id *id, const char *name,
                                uint32_t shards)
{
    struct known_queue *q = find(m, id->bytes);
    if (q) return q;
    q = ARRAY_ADD(m->queues, m->queues_len, m->queues_cap);
    *q = (struct known_queue){.id = *id, .shards = shards};
    (void)snprintf(q->name, sizeof q->name, "%s", name);
    return q;
}

void queues_note(struct membership *m, const struct queue_id *id, const char *name, uint32_t shards)
{
    LOCKED(&m->lock);
    (void)note(m, id, name, shards);
}

struct names {
    char (*all)[QUEUE_NAME_MAX + 1];
    size_t len, cap;
};

static void add_name(void *ctx, const char *name)
{
    struct names *n = ctx;
    (void)snprintf(*ARRAY_ADD(n->all, n->len, n->cap), sizeof *n->all, "%s", name);
}

static int by_shard(const void *a, const void *b)
{
    return shard_key_compare(a, b);
}

// The lock is held. Marks the queue with this name, if exactly one life of it is known.
static bool mark_listed(struct membership *m, const char *name)
{
    struct known_queue *found = NULL;
    size_t lives = 0;
    for (size_t i = 0; i < m->queues_len; i++)
        if (strcmp(m->queues[i].name, name) == 0) found = &m->queues[i], lives++;
    if (lives == 1) found->listed = true;
    return lives == 1;
}

// A name with several lives, or with none that is known, is read from the catalog.
static enum err mark_names(struct membership *m, const struct names *names)
{
    LOCAL(store_answer, answer);
    for (size_t i = 0; i < names->len; i++) {
        struct catalog_row row;
        (void)pthread_mutex_lock(&m->lock);
        bool known = mark_listed(m, names->all[i]);
        (void)pthread_mutex_unlock(&m->lock);
        if (known) continue;
        enum err err = catalog_find(m->engine->store, names->all[i], &row, &answer);
        if (err == ERR_NOT_FOUND || (err && catalog_is_newer(&answer))) continue;
        if (err) return err;
        LOCKED(&m->lock);
        note(m, &row.id, row.name, row.birth.shards)->listed = true;
    }
    return ERR_OK;
}

const struct known_queue *catalog_queue(const struct membership *m, const char *name)
{
    for (size_t i = 0; i < m->queues_len; i++)
        if (m->queues[i].listed && strcmp(m->queues[i].name, name) == 0) return &m->queues[i];
    return NULL;
}

struct shard_key *catalog_shards(const struct membership *m, size_t *len)
{
    size_t count = 0;
    for (size_t i = 0; i < m->queues_len; i++)
        if (m->queues[i].listed) count += m->queues[i].shards;
    if (count > PLACEMENT_SHARDS_MAX) count = PLACEMENT_SHARDS_MAX;
    struct shard_key *keys = memory_zeroed(count + 1, sizeof *keys);
    *len = 0;
    for (size_t i = 0; i < m->queues_len; i++) {
        const struct known_queue *q = &m->queues[i];
        for (uint32_t s = 0; q->listed && s < q->shards && *len < count; s++) {
            memcpy(keys[*len].queue, q->id.bytes, sizeof keys->queue);
            keys[(*len)++].shard = s;
        }
    }
    if (*len > 1) qsort(keys, *len, sizeof *keys, by_shard);
    return keys;
}

enum err catalog_load(struct membership *m, struct shard_key **out, size_t *len)
{
    struct names names = {0};
    LOCAL(store_answer, answer);
    *out = NULL;
    enum err err = catalog_names(m->engine->store, add_name, &names, &answer);
    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; !err && i < m->queues_len; i++)
        m->queues[i].listed = false;
    (void)pthread_mutex_unlock(&m->lock);
    if (!err) err = mark_names(m, &names);
    (void)pthread_mutex_lock(&m->lock);
    if (!err) *out = catalog_shards(m, len);
    (void)pthread_mutex_unlock(&m->lock);
    memory_free(names.all);
    return err;
}

struct catalog_job {
    struct pool_job job; // first
    struct membership *m;
};

static void catalog_job_run(struct pool_job *pool_job)
{
    struct catalog_job *job = (struct catalog_job *)pool_job;
    struct membership *m = job->m;
    struct shard_key *keys = NULL;
    size_t len = 0;
    enum err err = catalog_load(m, &keys, &len);
    (void)pthread_mutex_lock(&m->lock);
    m->catalog_read = clock_boot_ms();
    m->catalog_at = m->catalog_read + (err ? CATALOG_LEAST_MS : CATALOG_EVERY_MS);
    m->catalog_busy = false;
    (void)pthread_mutex_unlock(&m->lock);
    if (!err) {
        struct cluster_event e = {.kind = CLUSTER_SHARDS, .shards = keys, .shards_len = len};
        membership_step(m, &e);
    }
    memory_free(keys);
    memory_free(job);
}

void catalog_run(struct membership *m)
{
    struct catalog_job *job = NEW(struct catalog_job);
    *job = (struct catalog_job){.job = {.run = catalog_job_run}, .m = m};
    LOCKED(&m->lock);
    bool runs = !m->left && !pool_share_run(m->share, 4, &job->job);
    if (runs) return;
    memory_free(job);
    m->catalog_busy = false;
    m->catalog_at = clock_boot_ms() + CATALOG_LEAST_MS;
}

bool catalog_wanted(struct membership *m, const struct shard_key *key)
{
    bool unknown = shard_is_unplanned(m, key);
    int64_t soon = m->catalog_read + CATALOG_LEAST_MS;
    if (unknown && soon < m->catalog_at) m->catalog_at = soon;
    return unknown;
}
