// SPDX-License-Identifier: Apache-2.0
// Calls of a runner that wait for something and change nothing: a message to claim, events,
// signals.
#include "node/runner_inside.h"

void runner_await_async(struct shard_runner *d, struct bytes worker, int64_t wait_ms,
                        struct runner_async *l)
{
    struct interval now;
    if (!runner_async_begin(d, l, &now)) return;
    int64_t wait_until = now.lo + wait_ms;
    shard_await(d->shard, ticket_of(&l->call), worker, wait_until, wait_until + d->patience_ms,
                now);
    driver_async(d->driver, &l->call.waiter, runner_async_end);
}

void runner_recall_async(struct shard_runner *d, const struct op_claim *claim, bool sync,
                         struct runner_async *l)
{
    struct interval now;
    if (!runner_async_begin(d, l, &now)) return;
    shard_recall(d->shard, ticket_of(&l->call), claim, sync, now.hi + d->patience_ms, now);
    driver_async(d->driver, &l->call.waiter, runner_async_end);
}

void runner_follow_async(struct shard_runner *d, int64_t wait_ms, struct runner_async *l)
{
    struct interval now;
    if (!runner_async_begin(d, l, &now)) return;
    shard_follow(d->shard, ticket_of(&l->call), now.lo + wait_ms, now);
    driver_async(d->driver, &l->call.waiter, runner_async_end);
}

void runner_notify_next(struct shard_runner *d)
{
    struct waiter w;
    if (driver_enter(d->driver, &w)) return;
    shard_notify_next(d->shard, driver_now(d->driver));
    driver_leave(d->driver, &w);
}

void runner_listen_async(struct shard_runner *d, const struct shard_listen *what, int64_t wait_ms,
                         struct runner_async *l)
{
    struct interval now;
    if (!runner_async_begin(d, l, &now)) return;
    int64_t wait_until = now.lo + wait_ms;
    shard_listen(d->shard, ticket_of(&l->call), what, wait_until, wait_until + d->patience_ms, now);
    driver_async(d->driver, &l->call.waiter, runner_async_end);
}

static bool end_wait(struct shard_runner *d, struct runner_async *l, bool last)
{
    struct waiter w;
    uint64_t ticket = ticket_of(&l->call);
    if (driver_enter(d->driver, &w)) return false;
    bool waits = false;
    if (!l->call.waiter.done)
        waits = last ? shard_cancel(d->shard, ticket, driver_now(d->driver))
                     : shard_withdraw(d->shard, ticket);
    if (waits) driver_forget(d->driver, &l->call.waiter);
    driver_leave(d->driver, &w);
    if (!waits) return false;
    runner_answer_done(&l->answer);
    return true;
}

bool runner_cancel(struct shard_runner *d, struct runner_async *l)
{
    return end_wait(d, l, true);
}

bool runner_withdraw(struct shard_runner *d, struct runner_async *l)
{
    return end_wait(d, l, false);
}
