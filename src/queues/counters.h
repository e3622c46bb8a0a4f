// SPDX-License-Identifier: Apache-2.0
// The counters of a handle on a store, for metrics. All are zero for a handle on a node.
#pragma once

#include "sluice.h"

#include "shard/shard.h"
#include "store/meter.h"

struct engine;

struct handle_counters {
    struct shard_counters shard;
    uint64_t waiting; // receives that wait
    struct signal_ends ends;
};
// Called once for each open shard of each open queue; the shards of a queue are consecutive. It
// must not call the library.
typedef void counters_fn(void *ctx, const char *queue, const struct handle_counters *t);
void counters_each(struct engine *e, counters_fn *each, void *ctx);
// The sums over all shards, closed ones included. They never decrease.
struct counters_totals {
    uint64_t others;           // entries that other processes wrote
    struct histogram_view ops; // ops in each entry that this handle wrote
};
void counters_totals(const struct engine *e, struct counters_totals *to);
void counters_store(const struct engine *e, struct meter_snapshot *to);
void counters_watch(struct engine *e, int64_t slow_ms, meter_slow_fn *slow, void *ctx); // meter.h
