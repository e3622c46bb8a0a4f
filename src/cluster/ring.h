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

struct ring {
    struct ring_point *points; // by hash, then node
    size_t len;
};

void ring_init(struct ring *r);
void ring_done(struct ring *r);
// Adds points for the node with this index. Call ring_sort after the last node.
void ring_add(struct ring *r, uint32_t node, const struct member_id *id, uint32_t points);
void ring_sort(struct ring *r);
size_t ring_first(const struct ring *r, uint64_t hash); // index of the first point; len > 0
size_t ring_next(const struct ring *r, size_t at);      // the point after it, in a circle
