// SPDX-License-Identifier: Apache-2.0
// The split of a call by shard. The items of a call (messages, locks, ids) become ops. An op has
// items of one shard, in their order, and a result row for each of them.
//
// The number of an op is its part of the request id. Every process must split a call in the same
// way, so that a repeated call has the same ops.
#pragma once

#include "ops/call.h"

#define NO_SHARD UINT32_MAX

struct by_shard_type {
    // The shard of an item. NO_SHARD: no op has it.
    uint32_t (*shard_of)(const void *ctx, size_t item);
    // Adds the item to the op. False: the op is full; it must have space for its first item. NULL:
    // it has space for all, and is encoded later.
    bool (*add)(void *ctx, size_t item, bool first);
    uint32_t op_max; // items of an op
};

struct by_shard {
    const struct by_shard_type *type;
    void *ctx;
    size_t len; // items of the call
    // The present op:
    uint32_t shard; // NO_SHARD: there is none, before the first one or after the last one
    uint32_t number;
    uint32_t index; // in the call; see by_shard_op
    uint32_t count;
    size_t *items; // their indexes, see by_shard_item; owned; NULL: the call has one item
    // The next op begins here:
    uint32_t next_shard; // NO_SHARD: there is none
    uint32_t next_number;
    size_t next;
};

void by_shard_init(struct by_shard *b, const struct by_shard_type *type, void *ctx, size_t len);
void by_shard_done(struct by_shard *b);
void by_shard_begin(struct by_shard *b); // before the first op, also again
// Makes the next op and returns its shard. NO_SHARD: there is none.
uint32_t by_shard_next(struct by_shard *b);
// For call_type.op: makes op `index`, and adds one to the call if items are left. False: it is the
// present op, which is submitted again.
bool by_shard_op(struct by_shard *b, struct local_call *c, uint32_t index);
// If an owner did the op, it did all its items.
void by_shard_mark_away(const struct by_shard *b, const struct call_slot *slot);
// The item of a row of the op's result.
static inline size_t by_shard_item(const struct by_shard *b, size_t row)
{
    return b->items ? b->items[row] : 0;
}
