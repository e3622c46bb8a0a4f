// SPDX-License-Identifier: Apache-2.0
// Changes of the registry of workers: join, beat, leave, and an operator's orders. Each is one
// OP_WORKERS on every shard of the queue.
#pragma once

#include "protocol/call_arguments.h"
#include "queues/queues.h"

// A change of many workers at once: reasons, if not NULL, has room for len rows. The reason of a
// worker is the first refusal of a shard. The call fails if a shard could not be changed. It ends
// at a shard where another process has the name of a worker that joins.
enum sluice_code workers_change(struct engine *e, const char *queue,
                                const struct worker_order *orders, size_t len, enum reason *reasons,
                                struct sluice_error *error);
// The order of an operator, which is checked: pause, resume, drain or evict.
struct request_origin;
enum sluice_code worker_order_start(const struct request_origin *as, const char *queue,
                                    const struct worker_order *o, struct sluice_error *error);
// Refuses the order of a worker with that reason.
enum sluice_code refuse_worker(struct sluice_error *error, enum reason reason, const char *queue,
                               const char *worker);
// Returns whether every shard has a live row of this instance. It reads shards that this process
// owns as they are, and others up to their tails. *code: the shards could not be read.
bool worker_is_live(struct engine *e, const char *queue, const char *name, uint64_t instance,
                    enum sluice_code *code, struct sluice_error *error);
