// SPDX-License-Identifier: Apache-2.0
// Estimating a clock from stamped answers, as NTP's simplest form does: each answer bounds the
// difference between the two clocks, and the best bound of each side is kept.
//
// S3 tells whole seconds. One answer says little, but the first after the second has changed tells
// when that was: a busy handle knows the time to within the distance of two answers.
#include "node/store_clock.h"

#include "base/check.h"

// Quartz drifts up to 100 ppm; two clocks up to twice that.
#define DRIFT_PPM 200

#define SECOND    1000
// Answers that tell the time in steps this wide may come from a server that makes its Date once a
// second: it is then up to a second older than the answer. One that does so at the same point of
// each second is a clock that is late, like any other; one that does not contradicts itself.
#define COARSE_MS 500

// A bound keeps the moment it was measured, instead of being carried along from answer to answer:
// thousands of roundings would add up to more than the drift they stand for. Threads note their
// answers in any order, so that moment may lie ahead.
// One millisecond covers the rounding.
static int64_t slack(const struct clock_bound *b, int64_t local)
{
    int64_t elapsed = local - b->measured;
    return (elapsed < 0 ? -elapsed : elapsed) * DRIFT_PPM / 1000000 + 1;
}

static int64_t lo_at(const struct store_clock *c, int64_t local)
{
    return c->lo.offset - slack(&c->lo, local);
}

static int64_t hi_at(const struct store_clock *c, int64_t local)
{
    return c->hi.offset + slack(&c->hi, local);
}

// How far the bounds are from having a moment in common.
static int64_t gap(const struct store_clock *c, int64_t lo, int64_t hi, int64_t local)
{
    int64_t behind = lo_at(c, local) - hi;
    int64_t ahead = lo - hi_at(c, local);
    return behind > ahead ? behind : ahead;
}

static bool confirms(const struct store_clock *c, int64_t lo, int64_t hi)
{
    const struct clock_doubt *d = &c->doubt;
    return d->there && lo <= d->hi + SECOND && d->lo - SECOND <= hi;
}

void store_clock_note(struct store_clock *c, int64_t sent, int64_t received,
                      struct interval answered)
{
    CHECK(sent <= received);
    bool told = answered.lo != TIME_UNKNOWN && answered.hi != TIME_NEVER;
    if (!told) return; // a request that never reached the store
    bool coarse = answered.hi - answered.lo >= COARSE_MS;
    int64_t lo = answered.lo - received;
    int64_t hi = answered.hi - sent + (coarse ? c->lag : 0);
    if (c->known && coarse && c->lag == 0) {
        int64_t apart = gap(c, lo, hi, received);
        if (apart > 0 && apart <= SECOND) { // one of the two was old when it was sent
            c->lag = SECOND;
            c->hi.offset += SECOND;
            hi += SECOND;
        }
    }
    // Bounds that still exclude each other: somebody stepped a clock, or, where answers come over a
    // network, this one is not the store's own. There a second one that agrees with it decides.
    bool strange = c->known && gap(c, lo, hi, received) > 0;
    if (strange && coarse && !confirms(c, lo, hi)) {
        c->doubt = (struct clock_doubt){.lo = lo, .hi = hi, .there = true};
        return;
    }
    c->doubt.there = false;
    bool fresh = !c->known || strange;
    // A new bound is rounded too, and replaces the old one only if it is no worse with that: bounds
    // that gave way a millisecond at each answer would be gone in a second.
    if (fresh || lo - 1 >= lo_at(c, received)) c->lo = (struct clock_bound){lo, received};
    if (fresh || hi + 1 <= hi_at(c, received)) c->hi = (struct clock_bound){hi, received};
    c->known = true;
}

struct interval store_clock_now(const struct store_clock *c, int64_t local)
{
    CHECK(c->known);
    struct interval now = {local + lo_at(c, local), local + hi_at(c, local)};
    if (now.hi < now.lo) now.hi = now.lo; // bounds of two answers, a rounding apart
    return now;
}
