// SPDX-License-Identifier: Apache-2.0
// Calls that act on messages by their ids: which shard has which, and what each call needs first.
#pragma once

#include "ops/call.h"

struct request_id request_or_new(const struct sluice_request *request); // NULL: a new one

struct named_id {
    uint32_t shard;
    uint64_t seq;
    enum sluice_code code; // not OK: the id is refused
    char reason[32];
};

// Parses the ids, and refuses one that is given twice. *first is the error of the first refused id;
// its code is SLUICE_OK if there is none. *foreign: an id is of another queue, or of another life
// of this one.
void named_ids_parse(const struct open_queue *q, const char *const *ids, size_t len,
                     struct named_id *rows, struct sluice_error *first, bool *foreign);
// The same for the `begin` of a change, whose queue is open. If an id is of another life of the
// name, the queue is looked up again.
enum call_built named_ids_begin(struct local_call *c, bool may_block, const char *const *ids,
                                size_t len, struct named_id *rows, struct sluice_error *first);
