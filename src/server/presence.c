// SPDX-License-Identifier: Apache-2.0
#include "server/presence.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/slab.h"
#include "base/text.h"
#include "os/clock.h"
#include "os/lock.h"

#include <pthread.h>
#include <string.h>

#define SWEEP_MS 1000 // between two searches for rows to forget

struct presence_row {
    char *queue, *name; // owned, one block; NULL: the row is free
    uint64_t key;
    uint64_t instance;
    uint32_t receives;
    uint32_t capacity;
    bool relayed;
    bool gone;              // not listed; kept to know how long its process is silent
    int64_t since, seen_at; // clock_realtime_ms
    int64_t seen_boot_ms;
};

struct presence {
    pthread_mutex_t lock;
    struct map by_name;
    struct presence_row *rows;
    struct slab slab; // of the rows
    int64_t swept_ms;
};

struct presence *presence_new(void)
{
    struct presence *p = NEW(struct presence);
    (void)pthread_mutex_init(&p->lock, NULL);
    map_init(&p->by_name);
    return p;
}

void presence_free(struct presence *p)
{
    if (!p) return;
    for (uint32_t i = 1; i < p->slab.len; i++)
        memory_free(p->rows[i].queue);
    SLAB_DONE(&p->slab, p->rows);
    map_done(&p->by_name);
    (void)pthread_mutex_destroy(&p->lock);
    memory_free(p);
}

static uint64_t hash_of(const struct present_key *k)
{
    return hash64_mix(hash64_of(bytes_str(k->queue), k->relayed ^ k->instance),
                      hash64_of(bytes_str(k->worker), 1));
}

static struct presence_row *find(struct presence *p, const struct present_key *k)
{
    uint64_t key = hash_of(k);
    uint32_t value;
    for (size_t at = map_first(&p->by_name, key);
         (value = map_value(&p->by_name, key, &at)) != MAP_NONE;) {
        struct presence_row *row = &p->rows[value];
        if (row->relayed == k->relayed && row->instance == k->instance &&
            strcmp(row->queue, k->queue) == 0 && strcmp(row->name, k->worker) == 0)
            return row;
    }
    return NULL;
}

static void forget(struct presence *p, struct presence_row *row)
{
    uint32_t place = (uint32_t)(row - p->rows);
    CHECK(row->queue && row->receives == 0);
    map_remove(&p->by_name, row->key, place);
    memory_free(row->queue);
    SLAB_DROP(&p->slab, p->rows, place);
}

static void sweep(struct presence *p, int64_t now)
{
    if (now - p->swept_ms < SWEEP_MS) return;
    p->swept_ms = now;
    for (uint32_t i = 1; i < p->slab.len; i++) {
        struct presence_row *row = &p->rows[i];
        if (row->queue && row->receives == 0 && now - row->seen_boot_ms > PRESENCE_PAUSE_MS)
            forget(p, row);
    }
}

// NULL: there are too many.
static struct presence_row *add(struct presence *p, const struct present_key *k)
{
    if (p->slab.used == PRESENCE_MAX) return NULL;
    uint32_t place = SLAB_ADD(&p->slab, p->rows);
    struct presence_row *row = &p->rows[place];
    size_t queue_len = strlen(k->queue) + 1, name_len = strlen(k->worker) + 1;
    *row = (struct presence_row){.queue = memory_new(queue_len + name_len),
                                 .key = hash_of(k),
                                 .instance = k->instance,
                                 .relayed = k->relayed,
                                 .since = clock_realtime_ms()};
    row->name = row->queue + queue_len;
    memcpy(row->queue, k->queue, queue_len);
    memcpy(row->name, k->worker, name_len);
    map_add(&p->by_name, row->key, place);
    return row;
}

static void note_seen(struct presence_row *row, int64_t now)
{
    row->seen_at = clock_realtime_ms();
    row->seen_boot_ms = now;
    if (row->gone) row->since = row->seen_at;
    row->gone = false;
}

// Call it with the lock. NULL: there are too many.
static struct presence_row *seen(struct presence *p, const struct present_key *k)
{
    int64_t now = clock_boot_ms();
    CHECK(*k->worker);
    sweep(p, now);
    struct presence_row *row = find(p, k);
    if (!row) row = add(p, k);
    if (row) note_seen(row, now);
    return row;
}

void presence_begin(struct presence *p, const struct present_key *key)
{
    LOCKED(&p->lock);
    struct presence_row *row = seen(p, key);
    if (row) row->receives++;
}

void presence_end(struct presence *p, const struct present_key *key, bool gone)
{
    LOCKED(&p->lock);
    struct presence_row *row = find(p, key);
    // A receive that began while the list was full is not counted.
    if (row && row->receives > 0) row->receives--;
    if (row) note_seen(row, clock_boot_ms());
    if (row && gone && row->receives == 0) {
        row->gone = true;
        if (row->instance == 0) forget(p, row);
    }
}

void presence_note(struct presence *p, const struct present_key *key, uint32_t capacity)
{
    LOCKED(&p->lock);
    struct presence_row *row = seen(p, key);
    if (row && capacity > 0) row->capacity = capacity;
}

bool presence_of(struct presence *p, const struct present_key *key, int64_t *ago_ms, bool *gone)
{
    LOCKED(&p->lock);
    const struct presence_row *row = find(p, key);
    if (row) {
        *ago_ms = row->receives > 0 ? 0 : clock_boot_ms() - row->seen_boot_ms;
        *gone = row->gone;
    }
    return row != NULL;
}

static void fill(const struct presence_row *from, const char *node, struct waiting_row *to)
{
    *to = (struct waiting_row){.receives = from->receives,
                               .since = from->since,
                               .seen_at = from->seen_at,
                               .instance = from->instance,
                               .capacity = from->capacity,
                               .relayed = from->relayed};
    if (from->receives > 0)
        to->seen_at = clock_realtime_ms();
    else
        to->ago_ms = clock_boot_ms() - from->seen_boot_ms;
    (void)text_copy(to->queue, sizeof to->queue, from->queue);
    (void)text_copy(to->name, sizeof to->name, from->name);
    (void)text_copy(to->node, sizeof to->node, node);
}

void presence_list(struct presence *p, const char *queue, const char *node,
                   struct waiting_list *out)
{
    LOCKED(&p->lock);
    sweep(p, clock_boot_ms());
    for (uint32_t i = 1; i < p->slab.len && out->len < WAITING_ROWS_MAX; i++) {
        struct waiting_row row;
        if (!p->rows[i].queue || p->rows[i].gone) continue;
        if (queue && strcmp(p->rows[i].queue, queue) != 0) continue;
        fill(&p->rows[i], node, &row);
        waiting_list_add(out, &row);
    }
}
