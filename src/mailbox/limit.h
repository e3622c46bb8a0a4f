// SPDX-License-Identifier: Apache-2.0
// How far the time of a shard may go while workers write their outcomes to mailboxes. An ack that
// was written before the deadline of its lock must be applied. So before the owner commits a time
// past a deadline, it lists the mailboxes once more, after that deadline.
#pragma once

#include "base/interval.h"
#include "base/mutant.h"

// If the owner cannot list for that long, the time goes on. A late ack is then refused, and its
// message is delivered again.
#define MAILBOX_LIMIT_MS 2000

// listed_at: the begin of the newest LIST whose ops were all submitted, in store time. due: the
// next deadline in the fold. Returns the latest time that an entry may have at store time `now`.
static inline int64_t mailbox_time_limit(int64_t listed_at, int64_t due, int64_t now)
{
    if (MUTANT(MAILBOX_LIMIT_OFF) || listed_at >= now || due > now) return now;
    int64_t limit = listed_at < due ? due - 1 : listed_at;
    return limit < now - MAILBOX_LIMIT_MS ? now - MAILBOX_LIMIT_MS : limit;
}
