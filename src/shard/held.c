// SPDX-License-Identifier: Apache-2.0
// The time of a shard: it never goes back, and the owner holds it before a deadline until the
// mailboxes were listed after it.
#include "base/check.h"
#include "mailbox/limit.h"
#include "shard/inside.h"

#define HELD_POLL_MS 20 // while the time is held for a LIST

struct interval shard_time(const struct shard *s, struct interval now)
{
    CHECK(now.lo <= now.hi);
    int64_t may = now.lo;
    if (s->listed_at != TIME_NEVER)
        may = mailbox_time_limit(s->listed_at, machine_wake_at(s->machine), now.lo);
    int64_t lo = may > s->now.lo ? may : s->now.lo;
    return (struct interval){lo, now.hi > lo ? now.hi : lo};
}

void shard_note_time(struct shard *s, struct interval now)
{
    int64_t before = s->now.lo;
    s->now = shard_time(s, now);
    s->held_at = s->now.lo < now.lo ? now.lo : TIME_UNKNOWN;
    CHECK(s->now.lo >= before); // it never goes back
}

void shard_listed(struct shard *s, int64_t listed_at, struct interval now)
{
    CHECK(listed_at != TIME_UNKNOWN);
    s->listed_at = listed_at;
    shard_tick(s, now);
}

// While the time is held, what is due cannot be done yet.
int64_t held_wake_at(const struct shard *s, int64_t at)
{
    if (s->held_at == TIME_UNKNOWN) return at;
    CHECK(s->now.lo < s->held_at);
    return at < s->held_at + HELD_POLL_MS ? s->held_at + HELD_POLL_MS : at;
}
