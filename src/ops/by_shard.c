// SPDX-License-Identifier: Apache-2.0
#include "ops/by_shard.h"

#include "base/check.h"
#include "base/memory.h"

void by_shard_init(struct by_shard *b, const struct by_shard_type *type, void *ctx, size_t len)
{
    size_t most = len < type->op_max ? len : type->op_max;
    *b = (struct by_shard){.type = type, .ctx = ctx, .len = len};
    if (len > 1) b->items = memory_zeroed(most, sizeof *b->items);
    b->shard = b->next_shard = NO_SHARD;
}

void by_shard_done(struct by_shard *b)
{
    memory_free(b->items);
}

// The next op begins with the first item of the lowest shard from `least` on.
static void begin_shard(struct by_shard *b, uint32_t least)
{
    b->next_shard = NO_SHARD;
    for (size_t i = 0; i < b->len; i++) {
        uint32_t shard = b->type->shard_of(b->ctx, i);
        if (shard < least || shard >= b->next_shard) continue;
        b->next_shard = shard;
        b->next = i;
    }
}

void by_shard_begin(struct by_shard *b)
{
    b->shard = NO_SHARD;
    b->next_number = 0;
    begin_shard(b, 0);
}

uint32_t by_shard_next(struct by_shard *b)
{
    b->shard = b->next_shard;
    b->number = b->next_number++;
    b->count = 0;
    if (b->shard == NO_SHARD) return NO_SHARD;
    for (; b->next < b->len; b->next++) {
        if (b->type->shard_of(b->ctx, b->next) != b->shard) continue;
        bool full = b->count == b->type->op_max;
        if (!full && b->type->add) full = !b->type->add(b->ctx, b->next, b->count == 0);
        if (full) return b->shard;
        if (b->items) b->items[b->count] = b->next;
        b->count++;
    }
    begin_shard(b, b->shard + 1);
    return b->shard;
}

bool by_shard_op(struct by_shard *b, struct local_call *c, uint32_t index)
{
    if (b->shard != NO_SHARD && b->index == index) return false;
    CHECK(by_shard_next(b) != NO_SHARD);
    b->index = index;
    if (b->next_shard != NO_SHARD) call_add_op(&c->state);
    return true;
}

void by_shard_mark_away(const struct by_shard *b, const struct call_slot *slot)
{
    for (size_t i = 0; slot->forwarded && i < b->count; i++)
        call_mark_away(slot->call, by_shard_item(b, i), b->len);
}
