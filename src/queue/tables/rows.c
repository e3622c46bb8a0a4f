// SPDX-License-Identifier: Apache-2.0
// Saves and loads tables whose rows have a layout. A table without an order of its own is saved by
// the key of its rows, so that equal states have equal bytes.
#include "queue/tables/rows.h"

#include "base/check.h"
#include "base/memory.h"

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

// The places of the rows, by key. The caller frees them.
static struct numbered_row *in_order(const struct row_table *t, const struct machine *m,
                                     size_t *len)
{
    uint64_t row[ROW_SIZE_MAX / sizeof(uint64_t)];
    size_t places = t->places(m);
    struct numbered_row *order = memory_new((places + 1) * sizeof *order);
    *len = 0;
    for (size_t at = 0; at < places; at++)
        if (t->row(m, at, row))
            order[(*len)++] = (struct numbered_row){key_of(t, row), (uint32_t)at};
    rows_sort(order, *len, sizeof *order);
    for (size_t i = 0; i < *len; i++)
        CHECK(order[i].number > (i > 0 ? order[i - 1].number : 0)); // as rows_load asks
    return order;
}

void rows_save(const struct row_table *t, const struct machine *m, struct buf *out)
{
    uint64_t row[ROW_SIZE_MAX / sizeof(uint64_t)];
    size_t len = t->places(m);
    struct numbered_row *order = t->rising ? in_order(t, m, &len) : NULL;
    CHECK(t->layout->size <= sizeof row && (t->count_max == 0 || len <= t->count_max));
    buf_put_le(out, len, t->count_bytes);
    for (size_t i = 0; i < len; i++) {
        CHECK(t->row(m, order ? order[i].at : i, row));
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
