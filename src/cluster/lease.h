// SPDX-License-Identifier: Apache-2.0
// The algebra of leases. Clocks are intervals that contain the true time, so
// each side counts from the end that cannot hurt the other:
//
//   - The holder counts from the earliest moment at which its request may have
//   been sent. The lease
//     has ended for the holder as soon as it may have ended.
//   - An observer counts from the latest moment of the sign of life. The lease
//   has ended for the
//     observer when it surely has ended.
//
// So a holder stops before any observer with a correct interval gives the lease
// away.
#pragma once

#include "base/interval.h"

#include <stdbool.h>

// The end of a lease for its holder. `sent` is the time just before the request
// was sent.
static inline int64_t lease_until(struct interval sent, int64_t lease_ms)
{
    return sent.lo + lease_ms;
}

// Is the lease still the holder's, whatever the true time in `now` is?
// TIME_UNKNOWN: no lease.
static inline bool lease_held(int64_t until, struct interval now)
{
    return until != TIME_UNKNOWN && now.hi < until;
}

// Has this time surely passed since `then`?
static inline bool time_passed(struct interval then, int64_t ms, struct interval now)
{
    return now.lo >= then.hi && now.lo - then.hi >= ms;
}

// The upper bound of the time at which time_passed becomes true, if the interval stays as wide.
static inline int64_t time_passed_at(struct interval then, int64_t ms, struct interval now)
{
    return then.hi + ms + (now.hi - now.lo);
}
