// SPDX-License-Identifier: Apache-2.0
// Deletes what deleted queues leave in the store (ops/finish_shard.h). No process opens a
// deleted queue any more. So every handle that is open for long does this in the background, a
// little at a time. Several processes may do it at once, and each may stop at any moment.
#pragma once

#include "queues/queues.h"

struct deleted_queues;
// Plans the first round, on a thread of this share. NULL: the process cannot create a thread.
struct deleted_queues *deleted_queues_new(struct engine *e, struct pool_share *share);
void deleted_queues_again(struct deleted_queues *r); // a round as soon as possible
void deleted_queues_free(struct deleted_queues *r);  // waits until a running round ends

struct deleted_queues_counts {
    size_t found;    // queues that were deleted long enough ago
    size_t visited;  // of these, the queues that the round visited
    size_t finished; // of these, the queues of which nothing is left to delete
};
// A walk over all deleted queues, in several rounds. A zeroed one begins.
struct deleted_queues_walk {
    char name[QUEUE_NAME_MAX + 1]; // the queue that was visited last
    uint32_t life;
    size_t left; // queues to visit; 0: the walk has ended
};
// One round, on the caller's thread: about shards_max shards. Returns an error of the catalog. A
// queue that cannot be read is skipped.
MUST_USE enum err deleted_queues_round(struct engine *e, size_t shards_max,
                                       struct deleted_queues_walk *walk,
                                       struct deleted_queues_counts *out);
