// SPDX-License-Identifier: Apache-2.0
// The circle as a sorted array.
#include "cluster/hash_ring.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

void hash_ring_init(struct hash_ring *r)
{
    *r = (struct hash_ring){.len = 0};
}

void hash_ring_done(struct hash_ring *r)
{
    memory_free(r->points);
    hash_ring_init(r);
}

void hash_ring_add(struct hash_ring *r, uint32_t node, const struct member_id *id, uint32_t points)
{
    CHECK(points > 0);
    r->points = memory_resize(r->points, (r->len + points) * sizeof *r->points);
    struct bytes name = bytes_of(id->name, strlen(id->name));
    for (uint32_t i = 0; i < points; i++)
        r->points[r->len++] = (struct ring_point){.hash = hash64_of(name, i), .node = node};
}

static int compare(const void *left, const void *right)
{
    const struct ring_point *a = left, *b = right;
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

void hash_ring_sort(struct hash_ring *r)
{
    if (r->len > 0) qsort(r->points, r->len, sizeof *r->points, compare);
}

size_t hash_ring_first(const struct hash_ring *r, uint64_t hash)
{
    CHECK(r->len > 0);
    size_t low = 0, high = r->len; // the first point is in low .. high; high == len: point 0
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->points[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->len ? low : 0;
}

size_t hash_ring_next(const struct hash_ring *r, size_t at)
{
    CHECK(at < r->len);
    return at + 1 < r->len ? at + 1 : 0;
}
