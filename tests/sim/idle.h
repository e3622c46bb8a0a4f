// SPDX-License-Identifier: Apache-2.0
// The promise "idle" of every world with wake-ups: a node that has nothing to do sleeps. After a
// tick without an effect the next wake-up is not in the past, and such ticks in a row are few. A
// node that breaks the promise works on, but it uses a core for nothing.
#pragma once

#include "trace.h"

#include <stdint.h>

#define IDLE_TICKS_MAX 50 // in one simulated second; a node that spins has 1000

struct idle {
    bool acted;      // the tick that runs had an effect
    int64_t wake_at; // that the last tick asked for
    int64_t since;   // the begin of the second that is counted
    uint32_t ticks;  // without an effect since then, and since the last effect
};

void idle_begin(struct idle *i); // before a tick
void idle_act(struct idle *i);   // a request, an answer or another effect
// After the tick. `reached` is the bound of the node's time that its wake-ups are compared with. A
// tick that comes before its time, because the time is only known to an interval, does not count.
void idle_end(struct idle *i, struct findings *f, uint32_t node, int64_t now, int64_t wake_at,
              int64_t reached);
