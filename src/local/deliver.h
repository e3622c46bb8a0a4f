// SPDX-License-Identifier: Apache-2.0
// What a claim brought, on its way to the caller: cut to the room there is, with its bodies.
#pragma once

#include "local/bodies.h"

struct deliver {
    struct open_queue *queue;
    uint32_t shard;
    struct shard_runner *runner;
    bool named;                   // the request id is the caller's
    struct answer_budget *budget; // later.h; NULL: there is
};

// The messages to *out, if there are any; blocks when batch_delivery_blocks. What is not handed out
// is given back, all of it in one entry, unless an error says that the same request may be made
// again.
enum sluice_code deliver_batch(const struct deliver *h, const struct runner_answer *a,
                               struct sluice_batch **out, struct sluice_error *error);
// An answer may be an earlier one's: drops the locks that were given up, finished or followed by
// others since. One that has only run out stays, for nobody else has the message.
void deliver_drop_stale(struct shard_runner *d, struct runner_answer *a);
