// SPDX-License-Identifier: Apache-2.0
// Decides whether a caller's thread that also serves other calls may perform one store request
// itself. On a store with low latency, the hand-over to a pool thread and back takes longer than
// the request. But beside other callers it is a loss, because it keeps them from sharing the next
// entry. And a store that hangs blocks the thread.
//
// A thread may run a request inline if no caller arrived during the recent requests, and if the
// last request was quick. While the thread is inside the request, the callers that it serves cannot
// arrive. So every INLINE_RUN-th request goes to the pool, and the policy sees whether others
// arrive. At most one thread runs inline at a time, so a store that hangs can block only one.
//
// No lock is needed for any of this.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// Answered requests without another arrival that must come before a thread may run inline.
#define INLINE_QUIET    32
#define INLINE_RUN      16 // the last of this many in a row goes to the pool
#define INLINE_QUICK_MS 5

// Shared by all callers of a store and its threads. Starts as all zeros.
struct inline_policy {
    _Atomic uint32_t under_way; // requests that are open
    _Atomic uint32_t quiet;     // answers since a caller last arrived during a request
    _Atomic uint32_t in_a_row;  // inline runs since the pool performed a request
    _Atomic bool slow;
    _Atomic bool runs_inline;
};

// Call it when a caller arrives, before its request is counted.
void inline_policy_arrived(struct inline_policy *p);
void inline_policy_requested(struct inline_policy *p);
void inline_policy_answered(struct inline_policy *p, int64_t took_ms);
void inline_policy_dropped(struct inline_policy *p, uint32_t count); // they will not be performed

// Returns true if the thread may perform the one open request. It then calls inline_policy_ended.
bool inline_policy_may_run(struct inline_policy *p);
void inline_policy_ended(struct inline_policy *p);
