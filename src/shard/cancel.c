// SPDX-License-Identifier: Apache-2.0
// The end of a wait before its time. A call that only waits ends at once. A call with a request of
// its own under way ends when the request does, and does not wait again. Its caller waits no longer
// than for a call that never waits: the deadline is the timeout after the end of the wait.
#include "base/check.h"
#include "base/mutant.h"
#include "shard/inside.h"

bool call_wait_is_over(const struct shard *s, const struct shard_call *c)
{
    CHECK(c->receives || c->listens);
    return c->withdrawn || shard_now(s) >= c->wait_until;
}

static bool can_wait(const struct shard_call *c)
{
    return c->receives || c->listens || c->state == SHARD_CALL_FOLLOWING;
}

static struct shard_call *find(const struct shard *s, uint64_t ticket)
{
    for (int state = SHARD_CALL_SYNCING; state < SHARD_CALL_STATES; state++)
        for (struct shard_call *c = s->calls[state].head; c; c = c->next) {
            CHECK((int)c->state == state);
            if (can_wait(c) && c->ticket == ticket) return c;
        }
    return NULL;
}

// Returns whether the call waited: it is gone then.
static bool end_wait(struct shard *s, struct shard_call *c)
{
    CHECK(!c->silent);
    c->withdrawn = true;
    if (c->state == SHARD_CALL_LISTENING)
        (void)listen_take(s, c);
    else if (c->state == SHARD_CALL_WAITING || c->state == SHARD_CALL_FOLLOWING)
        (void)call_take(s, c);
    else
        return false;
    call_free(c);
    return true;
}

// Takes the rest of the wait off the deadline.
static void hasten(struct shard *s, struct shard_call *c, int64_t now)
{
    CHECK(c->wait_until <= c->deadline);
    if (c->wait_until <= now || MUTANT(CANCEL_SLOW)) return;
    c->deadline -= c->wait_until - now;
    c->wait_until = now;
    if (c->state == SHARD_CALL_SYNCING || c->state == SHARD_CALL_JOURNAL)
        journal_hasten(s->journal, call_ticket(c), c->deadline);
}

bool shard_withdraw(struct shard *s, uint64_t ticket)
{
    struct shard_call *c = find(s, ticket);
    return c && end_wait(s, c);
}

bool shard_cancel(struct shard *s, uint64_t ticket, struct interval now)
{
    struct shard_call *c = find(s, ticket);
    if (!c) return false;
    if (end_wait(s, c)) return true;
    hasten(s, c, shard_time(s, now).lo);
    return false;
}
