// SPDX-License-Identifier: Apache-2.0
// XXH3 behind our own functions.
#include "base/hash.h"

#include <xxhash.h>

struct hash128 hash128_of(struct bytes from)
{
    XXH128_hash_t h = XXH3_128bits(from.data, from.len);
    return (struct hash128){.lo = h.low64, .hi = h.high64};
}

bool hash128_equal(struct hash128 a, struct hash128 b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

void buf_put_hash128(struct buf *b, struct hash128 h)
{
    buf_put_u64(b, h.lo);
    buf_put_u64(b, h.hi);
}

struct hash128 read_hash128(struct reader *r)
{
    uint64_t lo = read_u64(r);
    return (struct hash128){.lo = lo, .hi = read_u64(r)};
}

uint64_t hash64_of(struct bytes from, uint64_t seed)
{
    return XXH3_64bits_withSeed(from.data, from.len, seed);
}

// The finaliser of splitmix64, applied to both words.
uint64_t hash64_mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}
