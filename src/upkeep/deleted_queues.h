// SPDX-License-Identifier: Apache-2.0
// What deleted queues leave in the store. Nobody opens such a queue any more, so whoever keeps a
// store open for long comes by and takes what may go (upkeep/finish_shard.h), now and then and a
// little at a time. Any number may do so at once, and any of them may stop at any moment.
#pragma once

#include "local/inside.h"

void deleted_queues_plan(struct sluice *s);  // when the first round will be
void deleted_queues_start(struct sluice *s); // now, on the handle's crew; others follow
void deleted_queues_again(struct sluice *s); // once it was started: a round as soon as possible
void deleted_queues_stop(struct sluice *s);  // waits for a round to break off

struct deleted_queues_counts {
    size_t found;    // queues that are long enough gone
    size_t visited;  // ... of which that many were visited
    size_t finished; // ... and nothing is left of these
};
// All of them, a round at a time. Zero: it begins.
struct deleted_queues_walk {
    char name[QUEUE_NAME_MAX + 1]; // the one that was visited last
    uint32_t life;
    size_t left; // to be visited; 0: it is over
};
// One round, on the caller's thread: about shards_max shards.
MUST_USE enum err deleted_queues_round(struct sluice *s, size_t shards_max,
                                       struct deleted_queues_walk *walk,
                                       struct deleted_queues_counts *out);
