// SPDX-License-Identifier: Apache-2.0
// A table in a snapshot: a count, then that many rows of one layout (rows.c).
#pragma once

#include "base/layout.h"
#include "queue/tables/layouts.h"

struct machine;

struct row_table {
    const struct layout *layout;
    size_t count_bytes; // of the stored count
    uint64_t count_max; // 0: no limit
    bool rising;        // the rows are stored by their key, and no key is there twice
    size_t key;         // where a row has its key: a uint64_t that is not 0
    size_t rows_at;     // in struct machine: the pointer to the rows
    size_t ring_at;     // ... their ring, or
    size_t len_at;      // ... their number
    size_t len_held;    // its size; 0: a ring
    bool (*add)(struct machine *m, void *row); // false: the row is wrong
    // For a large table: the layout in line (base/layout_flat.h), or NULL.
    void (*put)(struct buf *out, const void *row);
    bool (*read)(struct reader *r, void *row);
};

#define ROWS_OF_RING(rows, ring)                                                                   \
    .rows_at = offsetof(struct machine, rows), .ring_at = offsetof(struct machine, ring)
#define ROWS_OF_ARRAY(rows, len)                                                                   \
    .rows_at = offsetof(struct machine, rows), .len_at = offsetof(struct machine, len),            \
    .len_held = sizeof(((struct machine *)0)->len)

void rows_save(const struct row_table *t, const struct machine *m, struct buf *out);
void rows_load(const struct row_table *t, struct machine *m, struct reader *r);

// The count of rows that follow. A false count is refused before memory is taken for it.
uint64_t rows_count(struct reader *r, size_t bytes, uint64_t max, const struct layout *layout);

// Sorts rows that begin with a uint64_t by it.
void rows_sort(void *rows, size_t len, size_t size);

struct numbered_row {
    uint64_t number;
    uint32_t at;
};

// The rows of a ring have numbers that rise for ever. An index of rows has the low 31 bits: no ring
// is that large.
static inline uint32_t short_number(uint64_t number)
{
    return (uint32_t)(number & 0x7fffffff);
}
