// SPDX-License-Identifier: Apache-2.0
// Logs slow calls of the store: kind, key, duration. A slow store is slow for all calls at once, so
// one line stands for all slow calls of SLOW_QUIET_MS.
#pragma once

#include "server/log.h"
#include "store/meter.h"

#define SLOW_MS       1000  // calls that take at least this long are slow
#define SLOW_QUIET_MS 10000 // between two lines

// One thread at a time may use it.
struct slow_call_log {
    struct log *log;
    int64_t told_ms; // clock_boot_ms of the last line; 0: none yet
    int64_t others;  // slow calls since then
};
void slow_note(struct slow_call_log *s, const struct meter_call *call, int64_t now_ms);
void slow_tell(void *slow, const struct meter_call *call); // slow_note with the current time
