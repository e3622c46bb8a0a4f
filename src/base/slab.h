// SPDX-License-Identifier: Apache-2.0
// Rows with numbers that are used again. The rows are an array of the caller, which grows; a row
// keeps its number and moves in memory. Row 0 is none: a number of 0 says that there is no row. All
// zero is an empty slab. A free row is all zero. The row that was freed last is used first, so the
// numbers depend only on the calls.
#pragma once

#include "base/array.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slab {
    uint32_t len;  // rows in the array, with row 0 and the free ones: for (i = 1; i < len; i++)
    uint32_t used; // rows that are not free
    uint32_t cap;
    uint32_t free_len, free_cap;
    uint32_t *free; // their numbers
};

// Takes a free row, or one more. Returns its number.
#define SLAB_ADD(slab, rows)                                                                       \
    ((slab)->free_len > 0 ? slab_reuse(slab)                                                       \
                          : ((void)ARRAY_ROOM(rows, (slab)->len, (slab)->cap, 2),                  \
                             slab_extend((slab), (rows), sizeof *(rows))))

// Makes the row zero and its number free. The row must be in use.
#define SLAB_DROP(slab, rows, number)                                                              \
    (memset(&(rows)[number], 0, sizeof *(rows)), slab_release((slab), (number)))

// Frees the rows and the numbers. The slab is empty again.
#define SLAB_DONE(slab, rows) (memory_free(rows), (rows) = NULL, slab_done(slab))

uint32_t slab_reuse(struct slab *s);
uint32_t slab_extend(struct slab *s, void *rows, size_t row_size);
void slab_release(struct slab *s, uint32_t number);
void slab_done(struct slab *s);
