// SPDX-License-Identifier: Apache-2.0
// The store's time as this process knows it: an interval, narrowed by every answer and widened by
// drift.
#pragma once

#include "base/interval.h"

#include <stdbool.h>

// Store time minus local time is at least (or at most) offset, as far as was known at the local
// time measured; drift has loosened it since.
struct clock_bound {
    int64_t offset;
    int64_t measured;
};

struct store_clock {
    struct clock_bound lo;
    struct clock_bound hi;
    struct clock_doubt {
        int64_t lo, hi; // what one answer said that contradicts all others
        bool there;
    } doubt;
    int64_t lag; // a Date may be so old when it is sent: 0 until a store is caught at it
    bool known;
};

// Local times are milliseconds of a clock that is never stepped. The store said `answered` for some
// moment between sent and received; an answer without a time changes nothing.
void store_clock_note(struct store_clock *c, int64_t sent, int64_t received,
                      struct interval answered);
struct interval store_clock_now(const struct store_clock *c, int64_t local);
