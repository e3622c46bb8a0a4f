// SPDX-License-Identifier: Apache-2.0
// Estimates the store's clock from the times in its answers, like the simplest form of NTP. Each
// answer bounds the difference between the two clocks. The best bound of each side is kept.
//
// S3 reports whole seconds. A single answer says little, but the first answer after the second
// changed shows when it changed. So a busy handle knows the time to within the distance of two
// answers.
#include "runner/store_clock.h"

#include "base/check.h"

// Quartz drifts up to 100 ppm; two clocks up to twice that.
#define DRIFT_PPM 200

#define SECOND    1000
// If answers report the time in steps this wide, the server may make its Date header once a second.
// The Date is then up to a second older than the answer. A server that does so at the same point of
// each second looks like a clock that is late. A server that does so at changing points contradicts
// itself.
#define COARSE_MS 500

// A bound keeps the moment of its measurement. If each answer moved it forward, thousands of
// roundings would exceed the drift. Threads note their answers in any order, so that moment can be
// in the future. One millisecond covers the rounding.
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

// The distance between the two intervals; at most 0 if they overlap.
static int64_t gap(const struct store_clock *c, int64_t lo, int64_t hi, int64_t local)
{
    int64_t behind = lo_at(c, local) - hi;
    int64_t ahead = lo - hi_at(c, local);
    return behind > ahead ? behind : ahead;
}

static bool confirms(const struct store_clock *c, int64_t lo, int64_t hi)
{
    const struct clock_error *d = &c->doubt;
    return d->there && lo <= d->hi + SECOND && d->lo - SECOND <= hi;
}

void store_clock_note(struct store_clock *c, int64_t sent, int64_t received,
                      struct interval answered)
{
    CHECK(sent <= received);
    bool known = answered.lo != TIME_UNKNOWN && answered.hi != TIME_NEVER;
    if (!known) return; // the request never reached the store
    bool coarse = answered.hi - answered.lo >= COARSE_MS;
    int64_t lo = answered.lo - received;
    int64_t hi = answered.hi - sent + (coarse ? c->lag : 0);
    if (c->known && coarse && c->lag == 0) {
        int64_t apart = gap(c, lo, hi, received);
        if (apart > 0 && apart <= SECOND) { // one of the two Dates was old when it was sent
            c->lag = SECOND;
            c->hi.offset += SECOND;
            hi += SECOND;
        }
    }
    // The bounds still exclude each other. Either a clock was stepped, or, on a network, this
    // answer is not the store's own. On a network a second answer that agrees with it decides.
    bool strange = c->known && gap(c, lo, hi, received) > 0;
    if (strange && coarse && !confirms(c, lo, hi)) {
        c->doubt = (struct clock_error){.lo = lo, .hi = hi, .there = true};
        return;
    }
    c->doubt.there = false;
    bool fresh = !c->known || strange;
    // A new bound is rounded too. It replaces the old one only if it is no worse after rounding.
    // Otherwise the bounds would give way by a millisecond at each answer and be useless within a
    // second.
    if (fresh || lo - 1 >= lo_at(c, received)) c->lo = (struct clock_bound){lo, received};
    if (fresh || hi + 1 <= hi_at(c, received)) c->hi = (struct clock_bound){hi, received};
    c->known = true;
}

struct interval store_clock_now(const struct store_clock *c, int64_t local)
{
    CHECK(c->known);
    struct interval now = {local + lo_at(c, local), local + hi_at(c, local)};
    // The bounds come from two answers and differ by a rounding.
    if (now.hi < now.lo) now.hi = now.lo;
    return now;
}
