// SPDX-License-Identifier: Apache-2.0
// Recent entries, so that the body of a message that was just sent, or that lies beside one just
// read, is at hand.
#pragma once

#include "journal/entry.h"
#include "queue/machine.h"

struct cache;

struct cache *cache_new(size_t bytes_max);
void cache_free(struct cache *c);
// Copies the entry; one without messages and reasons takes no room but is remembered as such. What
// was added last stays, however small the cache. Damaged bytes answer ERR_CORRUPT.
MUST_USE enum err cache_add(struct cache *c, const struct journal_id *id, uint64_t slot,
                            struct bytes bytes);

struct found {
    struct message message; // views into the cache, until the next cache_add
    uint64_t slot;          // where it was
    const struct op *op;    // the op that carries it
    int64_t sent_at;
};

enum cache_answer { CACHE_FOUND, CACHE_MISSING, CACHE_NOWHERE };
// The message at place. CACHE_MISSING: add slot *missing first. CACHE_NOWHERE: there is no such
// message.
enum cache_answer cache_find(struct cache *c, struct place place, struct found *out,
                             uint64_t *missing);
// The reason text of the fail op number `op` in that slot.
enum cache_answer cache_reason(struct cache *c, uint64_t slot, uint32_t op, struct bytes *out);
