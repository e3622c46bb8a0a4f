// SPDX-License-Identifier: Apache-2.0
#include "server/presence.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"
#include "os/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define SWEEP_MS 1000 // between two searches for rows to forget

struct present {
    char *queue, *name; // owned, one block; NULL: the place is free
    uint64_t key;
    uint32_t receives;
    uint32_t next_free;
    bool relayed;
    int64_t since, seen_at; // clock_realtime_ms
    int64_t seen_boot_ms;
};

struct presence {
    pthread_mutex_t lock;
    struct map by_name;
    struct present *rows;
    uint32_t len, room; // places, free ones included
    uint32_t first_free;
    int64_t swept_ms;
};

struct presence *presence_new(void)
{
    struct presence *p = NEW(struct presence);
    (void)pthread_mutex_init(&p->lock, NULL);
    map_init(&p->by_name);
    p->first_free = MAP_NONE;
    return p;
}

void presence_free(struct presence *p)
{
    if (!p) return;
    for (uint32_t i = 0; i < p->len; i++)
        memory_free(p->rows[i].queue);
    memory_free(p->rows);
    map_done(&p->by_name);
    (void)pthread_mutex_destroy(&p->lock);
    memory_free(p);
}

static uint64_t key_of(const char *queue, const char *name, bool relayed)
{
    return hash64_mix(hash64_of(bytes_str(queue), relayed), hash64_of(bytes_str(name), 1));
}

static struct present *find(struct presence *p, const char *queue, const char *name, bool relayed)
{
    uint64_t key = key_of(queue, name, relayed);
    uint32_t value;
    for (size_t at = map_first(&p->by_name, key);
         (value = map_value(&p->by_name, key, &at)) != MAP_NONE;) {
        struct present *row = &p->rows[value];
        if (row->relayed == relayed && strcmp(row->queue, queue) == 0 &&
            strcmp(row->name, name) == 0)
            return row;
    }
    return NULL;
}

static void forget(struct presence *p, struct present *row)
{
    uint32_t place = (uint32_t)(row - p->rows);
    CHECK(row->queue && row->receives == 0);
    map_remove(&p->by_name, row->key, place);
    memory_free(row->queue);
    *row = (struct present){.next_free = p->first_free};
    p->first_free = place;
}

static void sweep(struct presence *p, int64_t now)
{
    if (now - p->swept_ms < SWEEP_MS) return;
    p->swept_ms = now;
    for (uint32_t i = 0; i < p->len; i++) {
        struct present *row = &p->rows[i];
        if (row->queue && row->receives == 0 && now - row->seen_boot_ms > PRESENCE_PAUSE_MS)
            forget(p, row);
    }
}

// NULL: there are too many.
static struct present *place_new(struct presence *p)
{
    if (p->first_free != MAP_NONE) {
        struct present *row = &p->rows[p->first_free];
        p->first_free = row->next_free;
        return row;
    }
    if (p->len == PRESENCE_MAX) return NULL;
    if (p->len == p->room) {
        p->room = p->room ? 2 * p->room : 64;
        p->rows = memory_resize(p->rows, p->room * sizeof *p->rows);
    }
    return &p->rows[p->len++];
}

static struct present *add(struct presence *p, const char *queue, const char *name, bool relayed)
{
    struct present *row = place_new(p);
    if (!row) return NULL;
    size_t queue_len = strlen(queue) + 1, name_len = strlen(name) + 1;
    *row = (struct present){.queue = memory_new(queue_len + name_len),
                            .key = key_of(queue, name, relayed),
                            .relayed = relayed,
                            .since = clock_realtime_ms()};
    row->name = row->queue + queue_len;
    memcpy(row->queue, queue, queue_len);
    memcpy(row->name, name, name_len);
    map_add(&p->by_name, row->key, (uint32_t)(row - p->rows));
    return row;
}

static void note_seen(struct present *row, int64_t now)
{
    row->seen_at = clock_realtime_ms();
    row->seen_boot_ms = now;
}

void presence_begin(struct presence *p, const char *queue, const char *worker, bool relayed)
{
    int64_t now = clock_boot_ms();
    CHECK(*worker);
    (void)pthread_mutex_lock(&p->lock);
    sweep(p, now);
    struct present *row = find(p, queue, worker, relayed);
    if (!row) row = add(p, queue, worker, relayed);
    if (row) note_seen(row, now);
    if (row) row->receives++;
    (void)pthread_mutex_unlock(&p->lock);
}

void presence_end(struct presence *p, const char *queue, const char *worker, bool relayed,
                  bool gone)
{
    (void)pthread_mutex_lock(&p->lock);
    struct present *row = find(p, queue, worker, relayed);
    // A receive that began while the list was full is not counted.
    if (row && row->receives > 0) row->receives--;
    if (row) note_seen(row, clock_boot_ms());
    if (row && gone && row->receives == 0) forget(p, row);
    (void)pthread_mutex_unlock(&p->lock);
}

static void fill(const struct present *from, const char *node, struct waiting_row *to)
{
    *to = (struct waiting_row){.receives = from->receives,
                               .since = from->since,
                               .seen_at = from->seen_at,
                               .relayed = from->relayed};
    if (from->receives > 0)
        to->seen_at = clock_realtime_ms();
    else
        to->ago_ms = clock_boot_ms() - from->seen_boot_ms;
    (void)snprintf(to->queue, sizeof to->queue, "%s", from->queue);
    (void)snprintf(to->name, sizeof to->name, "%s", from->name);
    (void)snprintf(to->node, sizeof to->node, "%s", node);
}

void presence_list(struct presence *p, const char *queue, const char *node,
                   struct waiting_list *out)
{
    (void)pthread_mutex_lock(&p->lock);
    sweep(p, clock_boot_ms());
    for (uint32_t i = 0; i < p->len && out->len < WAITING_ROWS_MAX; i++) {
        struct waiting_row row;
        if (!p->rows[i].queue || (queue && strcmp(p->rows[i].queue, queue) != 0)) continue;
        fill(&p->rows[i], node, &row);
        waiting_list_add(out, &row);
    }
    (void)pthread_mutex_unlock(&p->lock);
}
