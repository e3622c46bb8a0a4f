// SPDX-License-Identifier: Apache-2.0
// Capacities of growing arrays, and moves of their rows.
#include "base/array.h"

#include "base/check.h"

#include <stdint.h>
#include <string.h>

#define CAP_MIN 16

size_t array_cap(size_t cap, size_t need, size_t row_size, size_t cap_max)
{
    size_t max = SIZE_MAX / row_size < cap_max ? SIZE_MAX / row_size : cap_max;
    CHECK(need <= max);
    size_t next = cap > max / 2 ? max : cap * 2;
    if (next < CAP_MIN && CAP_MIN <= max) next = CAP_MIN;
    return next < need ? need : next;
}

void array_open(void *rows, size_t len, size_t at, size_t row_size)
{
    CHECK(at <= len);
    char *row = (char *)rows + at * row_size;
    memmove(row + row_size, row, (len - at) * row_size);
}

void array_close(void *rows, size_t len, size_t at, size_t count, size_t row_size)
{
    CHECK(at <= len && count <= len - at);
    if (count == 0) return; // an empty array has no address
    char *row = (char *)rows + at * row_size;
    memmove(row, row + count * row_size, (len - at - count) * row_size);
}
