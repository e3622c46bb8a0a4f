// SPDX-License-Identifier: Apache-2.0
// Calls of the store that took long, as lines of the log: what, which key, how long. A store that
// is slow is so for everybody at once, so one line stands for all of a while.
#pragma once

#include "server/log.h"
#include "store/meter.h"

#define SLOW_MS       1000  // what is told of
#define SLOW_QUIET_MS 10000 // between two lines

// One thread at a time.
struct slow {
    struct log *log;
    int64_t told_ms; // when, clock_boot_ms; 0: never
    int64_t others;  // that were not told of since
};
void slow_note(struct slow *s, const struct meter_call *call, int64_t now_ms);
void slow_tell(void *slow, const struct meter_call *call); // the same, now
