// SPDX-License-Identifier: Apache-2.0
// A seeded random stream (xoshiro256**). Randomness is data: the caller passes a stream in.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t s[4];
};

void rng_init(struct rng *r, uint64_t seed);
uint64_t rng_next(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n);               // 0 .. n-1; n > 0
int64_t rng_range(struct rng *r, int64_t lo, int64_t hi);    // lo .. hi, both included
bool rng_chance(struct rng *r, uint32_t percent_hundredths); // 100 is 1 %
