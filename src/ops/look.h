// SPDX-License-Identifier: Apache-2.0
// A read of a queue: a call (call.h) that looks at one shard after another, each up to its tail.
#pragma once

#include "ops/call.h"

// Embed it as the first field of a struct with what the functions need.
struct look {
    uint32_t first; // the shard that it begins with
    bool any_state; // shards that are deleted already are left out, and are no error
    // Checks the arguments before the queue is opened; may be NULL.
    enum sluice_code (*check)(struct look *l, struct sluice_error *error);
    // Called when the queue is open. It may set `first`. NULL: there is nothing to do.
    enum sluice_code (*begin)(struct look *l, struct open_queue *q, struct sluice_error *error);
    bool first_only;
    runner_inspect_fn *inspect; // reads the state of a shard; its ctx is the look; may be NULL
    // Does the same, or more, and may block; may be NULL.
    enum sluice_code (*shard)(struct look *l, struct sluice_error *error);
    void (*end)(struct look *l, struct local_call *c); // before the answer; may be NULL
    void (*release)(struct look *l);                   // frees what it has; may be NULL
    bool owned;                                        // it is freed after the answer
    // Of the shard that is looked at:
    struct open_queue *queue;
    uint32_t at;
    struct shard_runner *runner;
    bool enough; // the shards behind it are not needed
};

// Without as->async it waits for the end and returns the code.
enum sluice_code look_at_queue(const struct request_origin *as, const char *queue, struct look *l,
                               struct sluice_error *error);
enum sluice_code look_at_open_queue(struct open_queue *q, struct look *l,
                                    struct sluice_error *error);
