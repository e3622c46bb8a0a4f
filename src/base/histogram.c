// SPDX-License-Identifier: Apache-2.0
// The bounds are few, so a linear search is fast enough.
#include "base/histogram.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

const struct histogram_scale histogram_latency = {
    .len = 16,
    .bounds = {100 * US, 250 * US, 500 * US, 1 * MS, 5 * MS / 2, 5 * MS, 10 * MS, 25 * MS, 50 * MS,
               100 * MS, 250 * MS, 500 * MS, 1000 * MS, 2500 * MS, 5000 * MS, 10000 * MS},
};

const struct histogram_scale histogram_sizes = {
    .len = 13,
    .bounds = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000},
};

static size_t place_of(const struct histogram_scale *scale, uint64_t value)
{
    size_t i = 0;
    while (i < scale->len && value > scale->bounds[i])
        i++;
    return i < scale->len ? i : HISTOGRAM_BOUNDS_MAX;
}

void histogram_add(struct histogram *h, const struct histogram_scale *scale, uint64_t value)
{
    atomic_fetch_add_explicit(&h->counts[place_of(scale, value)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum, value, memory_order_relaxed);
}

void histogram_read(const struct histogram *h, struct histogram_view *to)
{
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS_MAX; i++)
        to->counts[i] = atomic_load_explicit(&h->counts[i], memory_order_relaxed);
    to->sum = atomic_load_explicit(&h->sum, memory_order_relaxed);
}
