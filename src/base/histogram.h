// SPDX-License-Identifier: Apache-2.0
// How often a value fell where: counts by upper bound, and the sum. Any thread adds, any reads: a
// reading may fall between the two of one value, no value is lost.
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_BOUNDS_MAX 16

// Bounds rise; a value belongs to the first that is not under it, or to none.
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

// The same, read.
struct histogram_view {
    uint64_t counts[HISTOGRAM_BOUNDS_MAX + 1];
    uint64_t sum;
};

void histogram_add(struct histogram *h, const struct histogram_scale *scale, uint64_t value);
void histogram_read(const struct histogram *h, struct histogram_view *to);
