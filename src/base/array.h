// SPDX-License-Identifier: Apache-2.0
// An array that grows: a pointer to rows, a length and a capacity, which are fields or variables of
// the caller. Length and capacity are unsigned. All zero is an empty array; memory_free(rows)
// releases it. The address of a row is valid until the next addition.
//
// The caller compares a length from outside with a named limit first. A capacity above the range of
// its type, or of size_t in bytes, fails a check. The macros evaluate their arguments several
// times.
#pragma once

#include "base/memory.h"

#include <stddef.h>

// Makes room for `more` rows after the first `len`. The capacity at least doubles.
#define ARRAY_ROOM(rows, len, cap, more)                                                           \
    ((size_t)(len) + (more) <= (cap)                                                               \
         ? (rows)                                                                                  \
         : ((cap) = (__typeof__(cap))array_cap((cap), (size_t)(len) + (more), sizeof *(rows),      \
                                               (__typeof__(cap))-1),                               \
            (rows) = memory_resize((rows), (cap) * sizeof *(rows))))

// The address of a new row at the end, whose content is not defined: *ARRAY_ADD(...) = row;
#define ARRAY_ADD(rows, len, cap) ((void)ARRAY_ROOM(rows, len, cap, 1), &(rows)[(len)++])

// The same before row `at`. Later rows move up.
#define ARRAY_INSERT(rows, len, cap, at)                                                           \
    ((void)ARRAY_ROOM(rows, len, cap, 1), array_open((rows), (len)++, (at), sizeof *(rows)),       \
     &(rows)[at])

// Removes `count` rows from row `at` on. Later rows move down.
#define ARRAY_REMOVE(rows, len, at, count)                                                         \
    (array_close((rows), (len), (at), (count), sizeof *(rows)), (void)((len) -= (count)))

size_t array_cap(size_t cap, size_t need, size_t row_size, size_t cap_max); // the next capacity
void array_open(void *rows, size_t len, size_t at, size_t row_size);
void array_close(void *rows, size_t len, size_t at, size_t count, size_t row_size);
