// SPDX-License-Identifier: Apache-2.0
// A consistent hash ring (Karger and others, 1997). Each node has points on a circle of 64-bit
// hashes, more points if it has more capacity. The home of a shard is the node of the first point
// at or after the shard's hash. The points of a node depend on its name alone, so a node that joins
// or leaves changes only the homes that it takes or had.
#pragma once

#include "cluster/identity.h"

struct ring_point {
    uint64_t hash;
    uint32_t node;
};

struct hash_ring {
    struct ring_point *points; // by hash, then node
    size_t len;
};

void hash_ring_init(struct hash_ring *r);
void hash_ring_done(struct hash_ring *r);
// Adds points for the node with this index. Call ring_sort after the last node.
void hash_ring_add(struct hash_ring *r, uint32_t node, const struct member_id *id, uint32_t points);
void hash_ring_sort(struct hash_ring *r);
size_t hash_ring_first(const struct hash_ring *r,
                       uint64_t hash);                       // index of the first point; len > 0
size_t hash_ring_next(const struct hash_ring *r, size_t at); // the point after it, in a circle
