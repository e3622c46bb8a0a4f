// SPDX-License-Identifier: Apache-2.0
// SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, 2012): a keyed function whose
// outputs reveal nothing about each other or the key. It derives lock tokens from one random seed.
#pragma once

#include "base/hash.h"

struct hash128 siphash128(const uint8_t key[16], uint64_t a, uint64_t b); // of the 16 bytes a, b
