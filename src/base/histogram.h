// SPDX-License-Identifier: Apache-2.0
// Counts of values by upper bound, and their sum. Any thread may add or read. A read can fall
// between the two updates of one value, but no value is lost.
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_BOUNDS_MAX 16

// Bounds rise. A value belongs to the first bound that is not less than it, or to none.
struct histogram_scale {
    size_t len;
    uint64_t bounds[HISTOGRAM_BOUNDS_MAX];
};
extern const struct histogram_scale histogram_latency; // nanoseconds, 100 us .. 10 s
extern const struct histogram_scale histogram_sizes;   // 1 .. 10,000

struct histogram {
    _Atomic uint64_t counts[HISTOGRAM_BOUNDS_MAX + 1]; // the last: above all bounds
    _Atomic uint64_t sum;
};

// The values at the time of a read.
struct histogram_view {
    uint64_t counts[HISTOGRAM_BOUNDS_MAX + 1];
    uint64_t sum;
};

void histogram_add(struct histogram *h, const struct histogram_scale *scale, uint64_t value);
void histogram_read(const struct histogram *h, struct histogram_view *to);
