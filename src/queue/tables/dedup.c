// SPDX-License-Identifier: Apache-2.0
// Dedup keys: 128-bit hashes of the senders' keys, each with the first message's number, for the
// dedup window. They are in the order of sending and leave from the front. An expired row behind a
// row that is not expired is ignored until then.
#include "queue/tables/dedup.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "queue/core/state.h"

static bool dedup_is_sound(const struct dedup *d)
{
    return d->len <= d->cap && d->index.len == d->len && (d->cap & (d->cap - 1)) == 0;
}
static struct dedup_row *row_at(const struct dedup *d, uint64_t number)
{
    CHECK(d->cap > 0 && (d->cap & (d->cap - 1)) == 0);
    return &d->rows[number & (d->cap - 1)];
}

const struct dedup_row *dedup_at(const struct machine *m, size_t index)
{
    CHECK(index < m->dedup.len);
    return row_at(&m->dedup, m->dedup.first + index);
}

static uint64_t row_hash(const struct dedup_row *row)
{
    return mix(mix(mix(row->key.lo, row->key.hi), row->seq), (uint64_t)row->expires_at);
}

bool dedup_find(const struct machine *m, struct hash128 key, uint64_t *seq)
{
    if (MUTANT(DEDUP_OFF)) return false;
    const struct dedup *d = &m->dedup;
    uint32_t number;
    for (size_t at = map_first(&d->index, key.lo);
         (number = map_value(&d->index, key.lo, &at)) != MAP_NONE;) {
        const struct dedup_row *row = row_at(d, number);
        CHECK(row->key.lo == key.lo); // the index names a row in use
        if (!hash128_equal(row->key, key) || row->expires_at <= m->now) continue;
        *seq = row->seq;
        return true;
    }
    return false;
}

static void grow(struct dedup *d)
{
    size_t cap = d->cap < 16 ? 16 : d->cap * 2;
    CHECK(d->len == d->cap && cap <= (size_t)1 << 31); // short_number
    struct dedup_row *rows = memory_new(cap * sizeof *rows);
    for (uint64_t n = d->first; n < d->first + d->len; n++)
        rows[n & (cap - 1)] = *row_at(d, n);
    memory_free(d->rows);
    d->rows = rows;
    d->cap = cap;
}

// Row numbers wrap at 2^31. The ring is never that large, so the low bits find the row.
static uint32_t short_number(uint64_t number)
{
    return (uint32_t)(number & 0x7fffffff);
}

void dedup_add(struct machine *m, const struct dedup_row *row)
{
    struct dedup *d = &m->dedup;
    CHECK(dedup_is_sound(d));
    if (d->len == d->cap) grow(d);
    CHECK(d->len < d->cap);
    uint64_t number = d->first + d->len++;
    *row_at(d, number) = *row;
    map_add(&d->index, row->key.lo, short_number(number));
    m->digest += row_hash(row);
}

static void drop_first(struct machine *m)
{
    struct dedup *d = &m->dedup;
    CHECK(d->len > 0);
    const struct dedup_row *row = row_at(d, d->first);
    m->digest -= row_hash(row);
    map_remove(&d->index, row->key.lo, short_number(d->first));
    d->first++;
    d->len--;
    CHECK(dedup_is_sound(d));
}

void dedup_expire(struct machine *m)
{
    while (m->dedup.len > 0 && row_at(&m->dedup, m->dedup.first)->expires_at <= m->now)
        drop_first(m);
}

void dedup_clear(struct machine *m)
{
    while (m->dedup.len > 0)
        drop_first(m);
    CHECK(m->dedup.index.len == 0);
    memory_free(m->dedup.rows);
    map_done(&m->dedup.index);
    m->dedup = (struct dedup){0};
}
