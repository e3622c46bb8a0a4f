// SPDX-License-Identifier: Apache-2.0
// SipHash-2-4-128 over exactly two words.
#include "base/siphash.h"

static uint64_t load(const uint8_t *from)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v |= (uint64_t)from[i] << (8 * i);
    return v;
}

static uint64_t rotate(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

static void rounds(uint64_t v[4], int count)
{
    for (int i = 0; i < count; i++) {
        v[0] += v[1];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[0] = rotate(v[0], 32);
        v[2] += v[3];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
    }
}

static void absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    rounds(v, 2);
    v[0] ^= word;
}

struct hash128 siphash128(const uint8_t key[16], uint64_t a, uint64_t b)
{
    uint64_t k0 = load(key), k1 = load(key + 8);
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du ^ 0xee,
                     k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u};
    absorb(v, a);
    absorb(v, b);
    absorb(v, (uint64_t)16 << 56); // the length is the last block
    v[2] ^= 0xee;
    rounds(v, 4);
    uint64_t lo = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    rounds(v, 4);
    return (struct hash128){.lo = lo, .hi = v[0] ^ v[1] ^ v[2] ^ v[3]};
}
