// SPDX-License-Identifier: Apache-2.0
// The owner's side of mailboxes, at a node. While workers with mailboxes are registered in a shard
// that this node owns, a job of the upkeep performs a round for it (mailbox/owner.h), at most every
// MAILBOX_ROUND_MS.
#pragma once

#include "queues/queues.h"

struct mailbox_rounds;

enum mailbox_need {
    MAILBOX_NEEDS_NOTHING, // no node, no shard of its own, or a store that is near
    MAILBOX_NEEDS_POLL,    // a worker may register directly: read the journal now and then
    MAILBOX_NEEDS_ROUNDS,  // workers with mailboxes are registered in a shard of this node
};
enum mailbox_need mailbox_rounds_need(struct open_queue *q);
// One round for each shard that needs one. Blocks. One call at a time for a queue.
void mailbox_rounds_run(struct open_queue *q);
// Reads the journals of the queue's own shards up to their tails.
void mailbox_rounds_poll(struct open_queue *q);
void mailbox_rounds_free(struct mailbox_rounds *r); // NULL is allowed
