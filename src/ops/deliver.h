// SPDX-License-Identifier: Apache-2.0
// Makes the caller's batch from claimed messages: keeps those that fit into the memory budget, and
// reads their bodies.
#pragma once

#include "queues/bodies.h"

struct delivery_target {
    struct open_queue *queue;
    uint32_t shard;
    struct shard_runner *runner;
    bool named;                   // the caller gave the request id
    struct answer_budget *budget; // async.h; NULL: unlimited
};

// Stores the batch in *out if it has messages. Blocks if batch_delivery_blocks says so. One op
// releases all messages that are not delivered; a message whose body is lost is failed instead. If
// the caller may repeat its request (UNKNOWN), every lock stays.
enum sluice_code deliver_batch(const struct delivery_target *h, const struct kept_reply *a,
                               struct sluice_batch **out, struct sluice_error *error);
// The answer to a repeated request id may be an old one. Drops the locks that were released or
// finished since, and those whose message was locked again. A lock that has only expired stays,
// because no other worker has the message.
void deliver_drop_stale(struct shard_runner *r, struct kept_reply *a);
