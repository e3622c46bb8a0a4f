// SPDX-License-Identifier: Apache-2.0
// The store's time as this process knows it: an interval that each answer narrows and that drift
// widens.
#pragma once

#include "base/interval.h"

#include <stdbool.h>

// Store time minus local time is at least (lo) or at most (hi) offset. That was true at the local
// time `measured`; drift has loosened the bound since.
struct clock_bound {
    int64_t offset;
    int64_t measured;
};

struct store_clock {
    struct clock_bound lo;
    struct clock_bound hi;
    struct clock_error {
        int64_t lo, hi; // what one answer said that contradicts all others
        bool there;
    } doubt;
    // How much older than its answer a Date header can be. 0 until an answer proves that it is.
    int64_t lag;
    bool known;
};

// Notes an answer. The store's clock showed `answered` at some moment between sent and received.
// Local times are milliseconds of a clock that is never stepped. An answer without a time changes
// nothing.
void store_clock_note(struct store_clock *c, int64_t sent, int64_t received,
                      struct interval answered);
struct interval store_clock_now(const struct store_clock *c, int64_t local);
