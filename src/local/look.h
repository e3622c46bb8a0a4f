// SPDX-License-Identifier: Apache-2.0
// A read of a queue: a call (call.h) that looks at one shard after another, each up to its tail.
#pragma once

#include "local/inside.h"

// Embed it as the first field of a struct with what the functions need.
struct look {
    uint32_t first; // the shard that it begins with
    bool any_state; // shards that are deleted already are left out, and are no error
    // Called when the queue is open. It may set `first`. NULL: there is nothing to do.
    enum sluice_code (*begin)(struct look *l, struct open_queue *q, struct sluice_error *error);
    bool first_only;
    runner_inspect_fn *inspect; // reads the state of a shard; its ctx is the look; may be NULL
    // Does the same, or more. *enough: the shards behind it are not needed. May be NULL.
    enum sluice_code (*shard)(struct look *l, struct open_queue *q, uint32_t shard,
                              struct shard_runner *d, bool *enough, struct sluice_error *error);
};

enum sluice_code look_at_queue(struct sluice *s, const char *queue, struct look *l,
                               struct sluice_error *error);
enum sluice_code look_at_open_queue(struct open_queue *q, struct look *l,
                                    struct sluice_error *error);
