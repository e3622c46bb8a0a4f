// SPDX-License-Identifier: Apache-2.0
// Open addressing with linear probing. A removal shifts the following rows back, so there are no
// tombstones.
#include "base/map.h"

#include "base/check.h"
#include "base/memory.h"

#define MAP_ROWS_MIN 16

static size_t home(const struct map *m, uint64_t key)
{
    uint64_t h = key * 0x9e3779b97f4a7c15u;
    return (size_t)(h ^ (h >> 32)) & m->mask;
}

static void rows_new(struct map *m, size_t count)
{
    m->rows = memory_new(count * sizeof *m->rows);
    m->mask = count - 1;
    for (size_t i = 0; i < count; i++)
        m->rows[i] = (struct map_row){0, MAP_NONE};
}

void map_init(struct map *m)
{
    *m = (struct map){0};
}

void map_done(struct map *m)
{
    memory_free(m->rows);
    *m = (struct map){0};
}

void map_clear(struct map *m)
{
    map_done(m);
}

static void place(struct map *m, uint64_t key, uint32_t value)
{
    size_t at = home(m, key);
    while (m->rows[at].value != MAP_NONE)
        at = (at + 1) & m->mask;
    m->rows[at] = (struct map_row){key, value};
}

static void resize(struct map *m, size_t count)
{
    struct map old = *m;
    rows_new(m, count);
    if (!old.rows) return;
    for (size_t i = 0; i <= old.mask; i++)
        if (old.rows[i].value != MAP_NONE) place(m, old.rows[i].key, old.rows[i].value);
    memory_free(old.rows);
}

void map_add(struct map *m, uint64_t key, uint32_t value)
{
    CHECK(value != MAP_NONE);
    if (!m->rows) {
        resize(m, MAP_ROWS_MIN);
    } else if (m->len + 1 > (m->mask + 1) / 8 * 5) { // fuller makes a failed search long
        resize(m, (m->mask + 1) * 2);
    }
    place(m, key, value);
    m->len++;
}

size_t map_first(const struct map *m, uint64_t key)
{
    return m->rows ? home(m, key) : 0;
}

uint32_t map_value(const struct map *m, uint64_t key, size_t *at)
{
    if (!m->rows) return MAP_NONE;
    for (;; *at = (*at + 1) & m->mask) {
        const struct map_row *row = &m->rows[*at];
        if (row->value == MAP_NONE) return MAP_NONE;
        if (row->key != key) continue;
        *at = (*at + 1) & m->mask;
        return row->value;
    }
}

uint32_t map_find(const struct map *m, uint64_t key)
{
    size_t at = map_first(m, key);
    return map_value(m, key, &at);
}

uint32_t *map_at(struct map *m, uint64_t key)
{
    if (!m->rows) return NULL;
    for (size_t at = home(m, key); m->rows[at].value != MAP_NONE; at = (at + 1) & m->mask)
        if (m->rows[at].key == key) return &m->rows[at].value;
    return NULL;
}

void map_remove(struct map *m, uint64_t key, uint32_t value)
{
    CHECK(m->rows);
    size_t hole = home(m, key);
    while (m->rows[hole].key != key || m->rows[hole].value != value) {
        CHECK(m->rows[hole].value != MAP_NONE);
        hole = (hole + 1) & m->mask;
    }
    // A row after the hole moves into it unless its home lies between the two.
    for (size_t at = (hole + 1) & m->mask; m->rows[at].value != MAP_NONE; at = (at + 1) & m->mask) {
        size_t want = home(m, m->rows[at].key);
        if (((at - want) & m->mask) < ((at - hole) & m->mask)) continue;
        m->rows[hole] = m->rows[at];
        hole = at;
    }
    m->rows[hole].value = MAP_NONE;
    m->len--;
    if (m->mask + 1 > 4096 && m->len < (m->mask + 1) / 8) resize(m, (m->mask + 1) / 2);
}
