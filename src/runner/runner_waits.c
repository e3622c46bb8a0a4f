// SPDX-License-Identifier: Apache-2.0
// Calls of a runner that wait for something and change nothing: a message to claim, events,
// signals.
#include "runner/runner_inside.h"

void runner_await_async(struct shard_runner *r, struct bytes worker, int64_t wait_ms,
                        struct runner_async *a)
{
    struct interval now;
    if (!runner_async_begin(r, a, &now)) return;
    int64_t wait_until = now.lo + wait_ms;
    shard_await(r->shard, ticket_of(&a->call), worker, wait_until, wait_until + r->patience_ms,
                now);
    driver_async(r->driver, &a->call.waiter, runner_async_end);
}

void runner_recall_async(struct shard_runner *r, const struct op_claim *claim, bool sync,
                         struct runner_async *a)
{
    struct interval now;
    if (!runner_async_begin(r, a, &now)) return;
    shard_recall(r->shard, ticket_of(&a->call), claim, sync, now.hi + r->patience_ms, now);
    driver_async(r->driver, &a->call.waiter, runner_async_end);
}

void runner_follow_async(struct shard_runner *r, int64_t wait_ms, struct runner_async *a)
{
    struct interval now;
    if (!runner_async_begin(r, a, &now)) return;
    shard_follow(r->shard, ticket_of(&a->call), now.lo + wait_ms, now);
    driver_async(r->driver, &a->call.waiter, runner_async_end);
}

void runner_notify_next(struct shard_runner *r)
{
    struct waiter w;
    if (driver_enter(r->driver, &w)) return;
    shard_notify_next(r->shard, driver_now(r->driver));
    driver_leave(r->driver, &w);
}

void runner_listen_async(struct shard_runner *r, const struct shard_listen *what, int64_t wait_ms,
                         struct runner_async *a)
{
    struct interval now;
    if (!runner_async_begin(r, a, &now)) return;
    int64_t wait_until = now.lo + wait_ms;
    shard_listen(r->shard, ticket_of(&a->call), what, wait_until, wait_until + r->patience_ms, now);
    driver_async(r->driver, &a->call.waiter, runner_async_end);
}

static bool end_wait(struct shard_runner *r, struct runner_async *a, bool last)
{
    struct waiter w;
    uint64_t ticket = ticket_of(&a->call);
    if (driver_enter(r->driver, &w)) return false;
    bool waits = false;
    if (!a->call.waiter.done)
        waits = last ? shard_cancel(r->shard, ticket, driver_now(r->driver))
                     : shard_withdraw(r->shard, ticket);
    if (waits) driver_forget(r->driver, &a->call.waiter);
    driver_leave(r->driver, &w);
    if (!waits) return false;
    kept_reply_done(&a->answer);
    return true;
}

bool runner_cancel(struct shard_runner *r, struct runner_async *a)
{
    return end_wait(r, a, true);
}

bool runner_withdraw(struct shard_runner *r, struct runner_async *a)
{
    return end_wait(r, a, false);
}
