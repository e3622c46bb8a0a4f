// SPDX-License-Identifier: Apache-2.0
// A moment of store time that lies somewhere in [lo, hi], in milliseconds since 1970.
#pragma once

#include <stdint.h>

struct interval {
    int64_t lo;
    int64_t hi;
};

#define TIME_NEVER        INT64_MAX          // later than any moment: no deadline
#define TIME_UNKNOWN      INT64_MIN          // earlier than any moment: the time is not known
#define TIME_REAL_MAX     ((int64_t)1 << 52) // no real moment is later; sums cannot overflow

// The store's clock may run faster than this machine's, by less than one part in 128. That of a
// directory may also be up to 10 ms ahead in another process (docs/decisions/0015). So a lock that
// ends in left_ms of the store's time surely holds for the result of time_surely_left.
#define CLOCK_FASTER_PART 128
#define CLOCK_AHEAD_MS    10

static inline int64_t time_surely_left(int64_t left_ms)
{
    int64_t faster = left_ms / CLOCK_FASTER_PART + 1;
    int64_t sure = left_ms - faster - CLOCK_AHEAD_MS;
    return sure > 0 ? sure : 0;
}

// The inverse, to within a few milliseconds: what is left of the store's time.
static inline int64_t time_left(int64_t sure_ms)
{
    return sure_ms > 0 ? sure_ms + sure_ms / (CLOCK_FASTER_PART - 1) + CLOCK_AHEAD_MS + 1 : 0;
}
