// SPDX-License-Identifier: Apache-2.0
// The store's time as this process knows it: an interval, narrowed by every answer and widened by
// drift.
#pragma once

#include "base/interval.h"

#include <stdbool.h>

struct store_clock {
    int64_t offset_lo; // store time minus local time lies in [offset_lo, offset_hi]
    int64_t offset_hi;
    int64_t measured; // local time of the last measurement
    bool known;
};

// Local times are milliseconds of a clock that is never stepped. The store said `answered` for some
// moment between sent and received; an answer without a time changes nothing.
void store_clock_note(struct store_clock *c, int64_t sent, int64_t received,
                      struct interval answered);
struct interval store_clock_now(const struct store_clock *c, int64_t local);
