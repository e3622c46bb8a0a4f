// SPDX-License-Identifier: Apache-2.0
// Dedup keys: 128-bit hashes of the senders' keys, each with the first message's number, for the
// dedup window. They are in the order of sending and leave from the front. An expired row behind a
// row that is not expired is ignored until then.
#include "queue/tables/dedup.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "queue/core/state.h"

#define LAYOUT_OF struct dedup_row
static const struct layout_field row_fields[] = {HASH(key), U64(seq), I64(expires_at)};
const struct layout dedup_row_layout = LAYOUT(row_fields);
#undef LAYOUT_OF

static bool dedup_is_sound(const struct dedup *d)
{
    return d->ring.len <= d->ring.cap && d->index.len == d->ring.len;
}

const struct dedup_row *dedup_at(const struct machine *m, size_t index)
{
    return RING_AT(&m->dedup.ring, m->dedup.rows, (uint32_t)index);
}

static uint64_t row_hash(const struct dedup_row *row)
{
    return layout_flat_hash(&dedup_row_layout, 0, row);
}

bool dedup_find(const struct machine *m, struct hash128 key, uint64_t *seq)
{
    if (MUTANT(DEDUP_OFF)) return false;
    const struct dedup *d = &m->dedup;
    uint32_t number;
    for (size_t at = map_first(&d->index, key.lo);
         (number = map_value(&d->index, key.lo, &at)) != MAP_NONE;) {
        const struct dedup_row *row = RING_AT(&d->ring, d->rows, short_number(number - d->first));
        CHECK(row->key.lo == key.lo); // the index names a row in use
        if (!hash128_equal(row->key, key) || row->expires_at <= m->now) continue;
        *seq = row->seq;
        return true;
    }
    return false;
}

void dedup_add(struct machine *m, const struct dedup_row *row)
{
    struct dedup *d = &m->dedup;
    CHECK(dedup_is_sound(d));
    *RING_ADD(&d->ring, d->rows) = *row;
    map_add(&d->index, row->key.lo, short_number(d->first + d->ring.len - 1));
    m->digest += row_hash(row);
}

static void drop_first(struct machine *m)
{
    struct dedup *d = &m->dedup;
    const struct dedup_row *row = dedup_at(m, 0);
    m->digest -= row_hash(row);
    map_remove(&d->index, row->key.lo, short_number(d->first++));
    ring_drop(&d->ring, 1);
    CHECK(dedup_is_sound(d));
}

void dedup_expire(struct machine *m)
{
    while (m->dedup.ring.len > 0 && dedup_at(m, 0)->expires_at <= m->now)
        drop_first(m);
}

void dedup_clear(struct machine *m)
{
    while (m->dedup.ring.len > 0)
        drop_first(m);
    CHECK(m->dedup.index.len == 0);
    memory_free(m->dedup.rows);
    map_done(&m->dedup.index);
    m->dedup = (struct dedup){0};
}

static bool load_row(struct machine *m, void *row)
{
    dedup_add(m, row);
    return true;
}

static void put_row(struct buf *out, const void *row)
{
    layout_flat_put(&dedup_row_layout, out, row);
}

static bool read_row(struct reader *r, void *row)
{
    return layout_flat_read(&dedup_row_layout, r, row);
}

const struct row_table dedup_rows = {.layout = &dedup_row_layout,
                                     .count_bytes = 8,
                                     ROWS_OF_RING(dedup.rows, dedup.ring),
                                     .add = load_row,
                                     .put = put_row,
                                     .read = read_row};
