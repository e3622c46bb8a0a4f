// SPDX-License-Identifier: Apache-2.0
// The heartbeats of a node: for all workers of a queue that wait at it, one op on each shard.
#pragma once

#include "ops/workers.h"

struct engine;

// The order of the rows of one queue: by name and instance.
int beats_compare(const struct waiting_row *a, const struct waiting_row *b);
// Extends the rows of the workers whose instances are in the list (of one queue, in that order) and
// due: a third of their ttl has passed since they were extended last. *again_ms: when to call again
// at the latest; BEATS_NONE_MS if no worker of the list is registered. Returns the number of rows
// that were extended. Blocks.
#define BEATS_NONE_MS INT64_C(30000)
size_t beats_write(struct engine *e, const char *queue, const struct waiting_list *waiting,
                   int64_t *again_ms);
