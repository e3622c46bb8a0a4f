// SPDX-License-Identifier: Apache-2.0
// Whether a caller's thread, which has others to serve, may perform one request itself: on a store
// that is near the way to a thread of the crew and back is longer than the request. It would be a
// loss beside others, whom it keeps from sharing the next entry, and a danger on a store that is
// stuck.
//
// So it may when nobody came beside a request lately, and what was last performed was quick. While
// the thread is at it nobody whom it serves can come; so now and then the crew performs one
// instead, and it is seen who does. Of all threads one at a time is lent: no more than that can a
// store keep that is stuck all of a sudden.
//
// No lock is needed for any of this.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define INLINE_QUIET    32 // requests beside which nobody came, before a thread is lent
#define INLINE_RUN      16 // of so many in a row the last is performed by the crew
#define INLINE_QUICK_MS 5

// Of all who share a store and its threads; all zero at first.
struct inline_policy {
    _Atomic uint32_t under_way; // requests that are wanted and not answered
    _Atomic uint32_t quiet;     // answered since somebody came beside one
    _Atomic uint32_t run;       // lent since the crew performed one
    _Atomic bool slow;
    _Atomic bool runs_inline;
};

void inline_policy_arrived(
    struct inline_policy *c); // somebody who wants something, before his request is wanted
void inline_policy_requested(struct inline_policy *c);
void inline_policy_answered(struct inline_policy *c, int64_t took_ms);
void inline_policy_dropped(struct inline_policy *c, uint32_t count); // they are not wanted any more

// True: the thread performs the one request that is wanted, then calls inline_policy_ended.
bool inline_policy_may_run(struct inline_policy *c);
void inline_policy_ended(struct inline_policy *c);
