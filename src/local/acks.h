// SPDX-License-Identifier: Apache-2.0
// The acks of a blocking receive (sluice_receive.acks). In a queue of one shard, one
// entry commits the acks and the claim.
#pragma once

#include "local/inside.h"

#include <pthread.h>

struct settle;

// The acks of a receive as a settle call. If the receive has a request id, the acks get an id that
// is derived from it. It is stored in `id`, which must outlive the result.
struct settle acks_of(const struct sluice_receive *o, struct sluice_request *id);

// Sets `code` in every outcome that has no status: the call failed before it reached that ack.
void acks_fill(struct sluice_outcome *acked, size_t len, enum sluice_code code);
// Commits the acks alone, before the receive. Fills in o->acked for every ack.
void acks_first(struct sluice *s, const char *queue, const struct sluice_receive *o);

// The acks as one op that a runner commits.
struct acks {
    struct runner_async at_runner; // first
    pthread_mutex_t lock;
    pthread_cond_t ended; // signalled when `done` is set
    bool done;            // err and answer are set
    enum err err;
    struct runner_answer answer;
    struct op op;
    struct buf payload;
};
// Encodes the acks as one op for runners[0]. Returns false if they do not fit into one op, or a
// token cannot be parsed. After false, do not call acks_done.
bool acks_init(struct acks *a, struct open_queue *q, struct shard_runner *const *runners,
               const struct sluice_receive *o);
void acks_done(struct acks *a);
// Submits the acks with a receive after them (runner_receive_after). Returns when both have ended.
// The result is that of the receive; the acks' outcomes are in o->acked.
MUST_USE enum err acks_receive(struct acks *a, struct open_queue *q, struct shard_runner *d,
                               const struct op_claim *claim, int64_t wait_ms,
                               const struct sluice_receive *o, struct runner_answer *answer);
