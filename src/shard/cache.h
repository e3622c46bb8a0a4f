// SPDX-License-Identifier: Apache-2.0
// A cache of recent entries. It holds the body of a message that was just sent, and of messages
// beside one that was just read.
#pragma once

#include "journal/entry.h"
#include "queue/core/machine.h"

struct cache;

struct cache *cache_new(size_t bytes_max);
void cache_free(struct cache *c);
// Copies the entry. An entry without messages and texts takes no space, but its count is
// remembered. The entry that was added last stays, however small the cache is. Returns ERR_CORRUPT
// for damaged bytes.
MUST_USE enum err cache_add(struct cache *c, const struct journal_id *id, uint64_t slot,
                            struct bytes bytes);

struct cached_message {
    struct message message; // views into the cache, valid until the next cache_add
    uint64_t slot;          // the slot of the entry
    const struct op *op;    // the op that carries it
    int64_t sent_at;
};

enum cache_answer { CACHE_FOUND, CACHE_MISSING, CACHE_NOWHERE };
// Finds the message at place. CACHE_MISSING: add slot *missing first. CACHE_NOWHERE: no such
// message exists.
enum cache_answer cache_find(struct cache *c, struct place place, struct cached_message *out,
                             uint64_t *missing);
// A text of an op: the reason of a fail, a cancel or an interrupt, the payload of another signal,
// the answer to a signal, a result or its content type, or the text of a progress.
struct reason_place;
enum cache_answer cache_reason(struct cache *c, const struct reason_place *at, struct bytes *out);
