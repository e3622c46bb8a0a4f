// SPDX-License-Identifier: Apache-2.0
// Saves and loads tables whose rows have a layout. A table without an order of its own is saved by
// the key of its rows, so that equal states have equal bytes.
#include "queue/tables/rows.h"

#include "base/check.h"
#include "base/layout_flat.h"
#include "base/memory.h"
#include "base/ring.h"

#include <stdlib.h>

#define ROW_SIZE_MAX 256

static int by_number(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

void rows_sort(void *rows, size_t len, size_t size)
{
    CHECK(size >= sizeof(uint64_t));
    if (len > 1) qsort(rows, len, size, by_number);
}

static uint64_t key_of(const struct row_table *t, const void *row)
{
    uint64_t key;
    memcpy(&key, (const char *)row + t->key, sizeof key);
    return key;
}

static const struct ring *ring_of(const struct row_table *t, const struct machine *m)
{
    return (const struct ring *)((const char *)m + t->ring_at);
}

static size_t len_of(const struct row_table *t, const struct machine *m)
{
    return t->len_held > 0 ? layout_load((const char *)m + t->len_at, t->len_held)
                           : ring_of(t, m)->len;
}

static const void *row_at(const struct row_table *t, const struct machine *m, size_t index)
{
    const char *rows;
    memcpy(&rows, (const char *)m + t->rows_at, sizeof rows);
    size_t place = t->len_held > 0 ? index : ring_place(ring_of(t, m), (uint32_t)index);
    return rows + place * t->layout->size;
}

// The rows by key. The caller frees them.
static struct numbered_row *in_order(const struct row_table *t, const struct machine *m, size_t len)
{
    struct numbered_row *order = memory_new((len + 1) * sizeof *order);
    for (size_t i = 0; i < len; i++)
        order[i] = (struct numbered_row){key_of(t, row_at(t, m, i)), (uint32_t)i};
    rows_sort(order, len, sizeof *order);
    for (size_t i = 0; i < len; i++)
        CHECK(order[i].number > (i > 0 ? order[i - 1].number : 0)); // as rows_load asks
    return order;
}

void rows_save(const struct row_table *t, const struct machine *m, struct buf *out)
{
    size_t len = len_of(t, m);
    struct numbered_row *order = t->rising ? in_order(t, m, len) : NULL;
    CHECK(t->count_max == 0 || len <= t->count_max);
    buf_put_le(out, len, t->count_bytes);
    for (size_t i = 0; i < len; i++) {
        const void *row = row_at(t, m, order ? order[i].at : i);
        if (t->put)
            t->put(out, row);
        else
            layout_put(t->layout, out, row);
    }
    memory_free(order);
}

uint64_t rows_count(struct reader *r, size_t bytes, uint64_t max, const struct layout *layout)
{
    uint64_t count = read_le(r, bytes);
    if ((max > 0 && count > max) || count > r->left / layout_bytes_min(layout)) r->bad = true;
    return r->bad ? 0 : count;
}

void rows_load(const struct row_table *t, struct machine *m, struct reader *r)
{
    uint64_t row[ROW_SIZE_MAX / sizeof(uint64_t)], after = 0;
    uint64_t count = rows_count(r, t->count_bytes, t->count_max, t->layout);
    CHECK(t->layout->size <= sizeof row);
    for (uint64_t i = 0; i < count; i++) {
        memset(row, 0, t->layout->size);
        if (!(t->read ? t->read(r, row) : layout_read(t->layout, r, row))) return;
        if (t->rising && key_of(t, row) <= after) r->bad = true;
        if (r->bad || !t->add(m, row)) {
            r->bad = true;
            return;
        }
        after = t->rising ? key_of(t, row) : 0;
    }
}
