// SPDX-License-Identifier: Apache-2.0
// Estimating a clock from stamped answers, as NTP's simplest form does: each answer bounds the
// difference between the two clocks, and the bounds are cut with each other.
#include "node/store_clock.h"

#include "base/check.h"

// Quartz drifts up to 100 ppm; two clocks up to twice that. One millisecond covers the rounding.
#define DRIFT_PPM 200

// Threads note their answers in any order, so the last measurement may lie ahead.
static int64_t drift(int64_t elapsed)
{
    return (elapsed < 0 ? -elapsed : elapsed) * DRIFT_PPM / 1000000 + 1;
}

void store_clock_note(struct store_clock *c, int64_t sent, int64_t received,
                      struct interval answered)
{
    CHECK(sent <= received);
    bool told = answered.lo != TIME_DAWN && answered.hi != TIME_NEVER;
    if (!told) return; // a request that never reached the store
    int64_t lo = answered.lo - received;
    int64_t hi = answered.hi - sent;
    if (c->known) {
        int64_t slack = drift(received - c->measured);
        int64_t old_lo = c->offset_lo - slack;
        int64_t old_hi = c->offset_hi + slack;
        // Bounds that exclude each other: somebody stepped a clock, and the newer answer is what
        // counts.
        bool agree = old_lo <= hi && lo <= old_hi;
        if (agree && old_lo > lo) lo = old_lo;
        if (agree && old_hi < hi) hi = old_hi;
    }
    *c =
        (struct store_clock){.offset_lo = lo, .offset_hi = hi, .measured = received, .known = true};
}

struct interval store_clock_now(const struct store_clock *c, int64_t local)
{
    CHECK(c->known);
    int64_t slack = drift(local - c->measured);
    return (struct interval){local + c->offset_lo - slack, local + c->offset_hi + slack};
}
