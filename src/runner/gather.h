// SPDX-License-Identifier: Apache-2.0
// Decides how long the next entry waits for callers that were just answered.
//
// Callers that wait for each other's syncs form two groups: while one group's entry is synced, the
// other group's ops wait. So an entry has the ops of half of the callers, and each caller waits for
// two syncs. If the next entry waits until the answered callers are back, it has the ops of all.
// That pays if they come back much sooner than an entry takes. If they do not come back, the wait
// is tried less and less often.
//
// The journal has the same rule for stores with high latency (journal/pace.c), in milliseconds.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GATHER_PUT_MIN_NS  100000  // an entry that is quicker is not waited for
#define GATHER_WAIT_MAX_NS 1000000 // the longest wait
#define GATHER_SKIP_MAX    64      // entries without a wait after waits that were of no use

// The driver's lock guards it. Starts as all zeros.
struct gather_wait {
    bool on;          // the next entry waits
    size_t awaited;   // callers that it waits for
    size_t missing;   // those of them that are not back yet
    int64_t until_ns; // clock_boot_ns
    int64_t put_ns;   // duration of an append, smoothed; 0: not known yet
    uint32_t skip;    // entries to come without a wait
    uint32_t skips;   // the number to skip after the next wait that is of no use
};

// An append took this long. Returns true if the entry after it may wait.
bool gather_put(struct gather_wait *g, int64_t took_ns);
// The next entry waits for the callers that were answered.
void gather_begin(struct gather_wait *g, size_t answered, int64_t now_ns);
// A caller came. Returns true if it was the last that the entry waits for.
bool gather_arrived(struct gather_wait *g);
void gather_end(struct gather_wait *g);
