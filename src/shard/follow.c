// SPDX-License-Identifier: Apache-2.0
// The events of a shard, and calls that wait for them. Such a call ends when there are events that
// were not taken, or when its wait is over and the tail was seen. While the shard catches up, it
// may hold more events than it may keep, so such a call does not wait for the tail first.
#include "base/check.h"
#include "shard/inside.h"

void shard_follow(struct shard *s, uint64_t ticket, int64_t wait_until, struct interval now)
{
    struct shard_call *c = call_new(s, ticket, wait_until);
    c->wait_until = wait_until;
    call_push(s, c, SHARD_CALL_FOLLOWING);
    shard_catch_up(s, now);
}

static void end_if_over(struct shard *s, struct shard_call *c)
{
    CHECK(!c->silent && c->kind == 0);
    enum err halted = s->view->halt_err;
    enum err err = halted ? halted : s->catch_up_err;
    if (s->events.len > 0)
        call_answer(s, call_take(s, c), ERR_OK, BYTES_EMPTY);
    else if (s->catching_up)
        return;
    else if (!halted && err && s->view->slot > s->catch_up_from)
        catch_up_start(s); // it read something, and is not at the tail yet
    else if (err)
        call_answer(s, call_take(s, c), err, BYTES_EMPTY);
    else if (machine_deleted(s->machine))
        call_refuse(s, call_take(s, c), REASON_DELETED);
    else if (shard_now(s) >= c->wait_until)
        call_answer(s, call_take(s, c), ERR_NOT_FOUND, BYTES_EMPTY);
}

void follow_wake(struct shard *s)
{
    for (struct shard_call *c = s->calls[SHARD_CALL_FOLLOWING].head, *next; c; c = next) {
        CHECK(c->state == SHARD_CALL_FOLLOWING);
        next = c->next;
        end_if_over(s, c);
    }
}

int64_t follow_wake_at(const struct shard *s)
{
    int64_t at = TIME_NEVER;
    CHECK(!s->calls[SHARD_CALL_FOLLOWING].head == !s->calls[SHARD_CALL_FOLLOWING].tail);
    for (const struct shard_call *c = s->calls[SHARD_CALL_FOLLOWING].head; c && !s->catching_up;
         c = c->next)
        if (c->wait_until < at) at = c->wait_until;
    return at;
}

const struct events *shard_events(const struct shard *s)
{
    CHECK(s->config.keeps_events || s->events.len == 0);
    return &s->events;
}

void shard_events_taken(struct shard *s)
{
    events_clear(&s->events);
    CHECK(s->events.len == 0);
    if (!s->full) return;
    CHECK(s->config.keeps_events); // only events fill a shard
    s->full = false;
    journal_release(s->journal, s->now);
}
