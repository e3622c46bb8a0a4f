// SPDX-License-Identifier: Apache-2.0
// Private to placement: one round, shared by placement.c (what stays, and shards without an owner),
// balance.c (moves that even out the number of shards) and traffic.c (moves that even out the
// traffic).
#pragma once

#include "cluster/hash_ring.h"
#include "cluster/placement.h"

struct round {
    const struct placement_input *in;
    struct plan *out;
    struct hash_ring ring; // the members that take
    uint32_t *loads;       // shards by member
    uint64_t capacity;     // of all members that do not leave
    uint32_t *queue;       // by row: the index of its queue in starts
    uint32_t *starts;      // by queue: its first row; one more for the end
    uint32_t queues;
    uint32_t *counts; // by member: its shards of the queue `counted`
    uint32_t counted; // SHARD_NONE: of no queue
    uint32_t moves_left;
    uint32_t waiting_from; // moves put off, counted at the givers ...
    uint32_t waiting_to;   // ... and at the receivers; one move can be in both
};

// The bounds of a member for the shards of all queues, and of one queue.
uint32_t round_largest(const struct round *r, uint32_t member);
uint32_t round_least(const struct round *r, uint32_t member);
uint32_t queue_largest(const struct round *r, uint32_t queue, uint32_t member);
uint32_t queue_least(const struct round *r, uint32_t queue, uint32_t member);

static inline bool takes(const struct round *r, uint32_t member)
{
    return r->in->members[member].role == PLACEMENT_TAKES;
}

// Returns the shards of the queue by member, until the next call for another queue.
const uint32_t *round_counts(struct round *r, uint32_t queue);
// a / capacity of member x is less than b / capacity of member y.
bool is_less(const struct round *r, uint64_t a, uint32_t x, uint64_t b, uint32_t y);
// The member that should get the row; SHARD_NONE: no member can.
uint32_t receiver_for(struct round *r, size_t row);
// The row can go to this member: both stay within their bounds for the row's queue.
bool queue_allows(struct round *r, size_t row, uint32_t to);
// A shard that moved in this round or a short time ago stays.
bool may_balance(const struct round *r, const struct plan_row *row);
// Moves a row from a living owner. The cap of the round has room.
void round_move(struct round *r, size_t row, uint32_t to, enum move_reason reason);

void balance_queues(struct round *r);
void balance_members(struct round *r);
void balance_traffic(struct round *r);
