// SPDX-License-Identifier: Apache-2.0
// Calls that act on messages by their ids: which shard has which, and what each call needs first.
#pragma once

#include "local/inside.h"

// How a node makes a call for a client. Zero: a call of this process.
struct acting {
    const struct sluice_request *request; // NULL: the library draws one
    const char *token;                    // of the client, for the owner of a shard; NULL: none
};

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
// Opens the queue and parses the ids. If an id is of another life of the name, the queue is looked
// up again. The rows of refused ids say so, and *first is the error of the first one; its code is
// SLUICE_OK if there is none. Returns an error if the queue cannot be opened.
enum sluice_code named_ids_open(struct sluice *s, const char *queue, const char *const *ids,
                                size_t len, struct open_queue **q, struct named_id *rows,
                                struct sluice_error *first, struct sluice_error *error);

// Whether all shards have this version, as far as this process knows; it does not block.
bool queue_has_rules(struct open_queue *q, uint16_t rules);
// Refuses a queue with a shard under this version of the rules, before anything is written. The
// sentence begins with `what`, such as "cancel needs". A shard that cannot be read is left out: the
// call finds that itself.
enum sluice_code queue_needs_rules(struct open_queue *q, uint16_t rules, const char *what,
                                   struct sluice_error *error);
