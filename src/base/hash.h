// SPDX-License-Identifier: Apache-2.0
// Hashes (XXH3): 128 bits to identify bytes, 64 bits to spread them. Not safe against an adversary.
#pragma once

#include "base/bytes.h"

struct hash128 {
    uint64_t lo;
    uint64_t hi;
};

struct hash128 hash128_of(struct bytes from);
bool hash128_equal(struct hash128 a, struct hash128 b);
void buf_put_hash128(struct buf *b, struct hash128 h); // 16 bytes: lo, hi
struct hash128 read_hash128(struct reader *r);

uint64_t hash64_of(struct bytes from, uint64_t seed);
uint64_t hash64_mix(uint64_t a, uint64_t b); // combines two values; order matters
