// SPDX-License-Identifier: Apache-2.0
// What a handle on a store has counted, for whoever shows it. All zero for a handle on a node.
#pragma once

#include "sluice.h"

#include "shard/shard.h"
#include "store/meter.h"

struct handle_counters {
    struct shard_counters shard;
    uint64_t waiting; // receives that wait
};
// Once for each shard of a queue that this handle has open, several in a row for one queue. It must
// not call the library.
typedef void counters_fn(void *ctx, const char *queue, const struct handle_counters *t);
void counters_each(struct sluice *s, counters_fn *each, void *ctx);
// What all of them counted together, and those that are closed: it never goes back.
struct counters_totals {
    uint64_t others;
    struct histogram_view ops;
};
void counters_totals(const struct sluice *s, struct counters_totals *to);
void counters_store(const struct sluice *s, struct meter_snapshot *to);
void counters_watch(struct sluice *s, int64_t slow_ms, meter_slow_fn *slow, void *ctx); // meter.h
