// SPDX-License-Identifier: Apache-2.0
// Private to the runner: its state, and how its calls begin and end.
#pragma once

#include "runner/runner.h"
#include "runner/watcher.h"

struct shard_runner {
    struct store *store;
    struct journal_id id;
    struct shard *shard;
    struct collector *collector;
    struct driver *driver;
    uint64_t collected_at;           // the snapshot after which a round of collection was started
    int64_t timeout_ms, patience_ms; // limits of every call, and of the one that has just begun
    char log[JOURNAL_PREFIX_MAX + 8];
    struct watcher *watcher;
    enum watch watched;     // what the watcher was asked to do last
    _Atomic uint64_t slot;  // the last slot folded, for readers without the lock
    _Atomic uint32_t flags; // runner_saw, for the same readers
    bool noted;             // slot and flags were set
    struct dispatch_rollout *dispatch;
    uint64_t polled_after; // the watcher's: it polls for the slot after this one
    enum err why_err;      // of the last request that failed; a success resets it
    char why[STORE_WHY_MAX];
};

static inline uint64_t ticket_of(struct runner_call *c)
{
    return (uint64_t)(uintptr_t)c;
}
// Returns false if the call has already ended, in a child of fork.
bool runner_async_begin(struct shard_runner *r, struct runner_async *a, struct interval *now);
void runner_async_end(struct waiter *w); // the call has its answer
