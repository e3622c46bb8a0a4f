// SPDX-License-Identifier: Apache-2.0
// xoshiro256** by Blackman and Vigna, seeded by splitmix64.
#include "base/rng.h"

#include "base/check.h"

static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = (*x += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t rotate(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

void rng_init(struct rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        r->s[i] = splitmix(&seed);
}

uint64_t rng_next(struct rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

// The modulo bias is under n / 2^64, which is small enough for every use here.
uint64_t rng_below(struct rng *r, uint64_t n)
{
    CHECK(n > 0);
    return rng_next(r) % n;
}

int64_t rng_range(struct rng *r, int64_t lo, int64_t hi)
{
    CHECK(lo <= hi);
    uint64_t span = (uint64_t)hi - (uint64_t)lo;
    uint64_t step = span == UINT64_MAX ? rng_next(r) : rng_below(r, span + 1);
    return (int64_t)((uint64_t)lo + step);
}

bool rng_chance(struct rng *r, uint32_t percent_hundredths)
{
    return rng_below(r, 10000) < percent_hundredths;
}
