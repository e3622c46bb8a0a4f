// SPDX-License-Identifier: Apache-2.0
// A ring that grows: rows leave at the front and come at the end. The rows are an array of the
// caller. All zero is an empty ring; memory_free(rows) releases it. The address of a row is valid
// until the next addition. The macros evaluate their arguments several times.
//
// The caller compares the length with a named limit before it adds a row.
#pragma once

#include "base/check.h"
#include "base/memory.h"

#include <stddef.h>
#include <stdint.h>

struct ring {
    uint32_t head; // place of the first row in the array
    uint32_t len;
    uint32_t cap; // 0, or a power of two
};

static inline uint32_t ring_place(const struct ring *r, uint32_t index)
{
    CHECK(index < r->len);
    return (r->head + index) & (r->cap - 1);
}

// Row `index`, counted from the front.
#define RING_AT(ring, rows, index) (&(rows)[ring_place((ring), (index))])

// The address of a new row at the end, whose content is not defined.
#define RING_ADD(ring, rows)                                                                       \
    ((rows) = (ring)->len < (ring)->cap ? (rows) : ring_grow((ring), (rows), sizeof *(rows)),      \
     (ring)->len++, RING_AT(ring, rows, (ring)->len - 1))

void *ring_grow(struct ring *r, void *rows, size_t row_size);
void ring_drop(struct ring *r, uint32_t count); // the first rows leave; at most len
