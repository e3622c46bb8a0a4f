// SPDX-License-Identifier: Apache-2.0
// When a ring is full, its array doubles. The rows that had wrapped move behind the others.
#include "base/ring.h"

#include <string.h>

#define CAP_MIN 16
#define CAP_MAX (UINT32_C(1) << 31)

void *ring_grow(struct ring *r, void *rows, size_t row_size)
{
    uint32_t old = r->cap;
    CHECK(r->len == old && old < CAP_MAX);
    r->cap = old > 0 ? old * 2 : CAP_MIN;
    CHECK(r->cap <= SIZE_MAX / row_size);
    char *anew = memory_resize(rows, r->cap * row_size);
    memcpy(anew + old * row_size, anew, r->head * row_size);
    return anew;
}

void ring_drop(struct ring *r, uint32_t count)
{
    CHECK(count <= r->len);
    if (count == 0) return;
    r->len -= count;
    r->head = r->len > 0 ? (r->head + count) & (r->cap - 1) : 0;
}
