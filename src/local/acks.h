// SPDX-License-Identifier: Apache-2.0
// Acks that a receive brings along (sluice_receive.acks), for one who waits for it: committed at
// once, in one entry with the claim where both are one shard's.
#pragma once

#include "local/inside.h"

#include <pthread.h>

struct async_settle;

// The acks of a receive as a call of their own. Their request id is part of the receive's, and is
// kept in `id`.
struct async_settle acks_of(const struct sluice_receive *o, struct sluice_request *id);

// Those of which nothing is known yet (they have no status) failed with this.
void acks_fill(struct sluice_outcome *acked, size_t len, enum sluice_code code);
// Makes them, by themselves. Every one is told what became of it.
void acks_first(struct sluice *s, const char *queue, const struct sluice_receive *o);

// The one op that they are, on its way.
struct acks {
    struct runner_async at_runner; // first
    pthread_mutex_t lock;
    pthread_cond_t told;
    bool done;
    enum err err;
    struct runner_answer answer;
    struct op op;
    struct buf payload;
};
// False: they are not one op at desks[0], and nothing is to be released.
bool acks_init(struct acks *a, struct open_queue *q, struct shard_runner *const *runners,
               const struct sluice_receive *o);
void acks_done(struct acks *a);
// runner_receive behind them; then waits until it is known what became of them.
MUST_USE enum err acks_receive(struct acks *a, struct open_queue *q, struct shard_runner *d,
                               const struct op_claim *claim, int64_t wait_ms,
                               const struct sluice_receive *o, struct runner_answer *answer);
