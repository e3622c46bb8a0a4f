// SPDX-License-Identifier: Apache-2.0
// What a handle on a store has counted, for whoever shows it. All zero for a handle on a node.
#pragma once

#include "sluice.h"

#include "shard/shard.h"
#include "store/meter.h"

struct tally {
    struct shard_tally shard;
    uint64_t waiting; // receives that wait
};
// Once for each shard of a queue that this handle has open, several in a row for one queue. It must
// not call the library.
typedef void tally_fn(void *ctx, const char *queue, const struct tally *t);
void tally_each(struct sluice *s, tally_fn *each, void *ctx);
// What all of them counted together, and those that are closed: it never goes back.
struct tally_totals {
    uint64_t others;
    struct histogram_view ops;
};
void tally_totals(const struct sluice *s, struct tally_totals *to);
void tally_store(const struct sluice *s, struct meter_snapshot *to);
void tally_watch(struct sluice *s, int64_t slow_ms, meter_slow_fn *slow, void *ctx); // meter.h
