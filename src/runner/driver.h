// SPDX-License-Identifier: Apache-2.0
// The driver of a step function: it performs the store requests of the step function, passes in the
// time and wakes the waiters of its replies.
//
// No thread stands between a caller and the store. A caller that waits for an answer performs the
// next request itself, so a single writer pays for one sync and no context switch. Meanwhile other
// callers queue their ops for the next entry (group commit). When the caller has its answer, it
// wakes a sleeping caller for the next request. A thread pool, which any number of drivers share,
// runs the timers and the requests that no caller waits for.
#pragma once

#include "base/err.h"
#include "base/list.h"
#include "journal/journal.h"
#include "journal/request.h"
#include "os/thread_pool.h"
#include "store/store.h"

#include <stdatomic.h>

// A step function as the driver sees it. The driver makes all calls under its lock.
struct step_functions {
    void *ctx;
    void (*respond)(void *ctx, const struct response *r, struct interval now);
    void (*tick)(void *ctx, struct interval now);
    int64_t (*wake_at)(void *ctx);
    bool (*next_request)(void *ctx, struct request *out);
    // Delivers the replies that are ready. Calls driver_wake for each waiter that has its answer.
    void (*deliver)(void *ctx);
    // The journal of the step function. Its next entry may wait for callers (gather.h). NULL:
    // never.
    struct journal *journal;
    // Ends a journal_hold of it, and does what follows from that.
    void (*release)(void *ctx, struct interval now);
};

struct driver;

// Borrows the store and the pool. If pool is NULL, the driver makes a pool of its own. Reads the
// store's time once, so it can fail: ERR_UNAVAILABLE, ERR_DENIED and others.
MUST_USE enum err driver_open(struct store *s, struct thread_pool *pool,
                              const struct step_functions *steps, struct driver **out);
struct thread_pool *driver_pool(struct driver *d);
// Performs the background requests that are open (for example a snapshot), then stops. NULL is
// allowed.
void driver_free(struct driver *d);

// A caller that waits for a reply. It is in the caller's memory, and its address serves as the
// ticket. While the caller sleeps, other threads move the waiter between lists, under the lock. The
// word says why the caller was woken.
struct waiter {
    bool done; // the answer is there
    bool asleep;
    // For a caller without a thread: called with the answer, outside the lock. NULL: the caller
    // sleeps.
    void (*then)(struct waiter *w);
    uint32_t why;          // the reason of the wake-up that comes next: enum wake_reason
    _Atomic uint32_t word; // the futex
    struct list_link link;
};

// Takes the lock and registers w. Returns ERR_INVALID in a child of fork, and then takes no lock.
MUST_USE enum err driver_enter(struct driver *d, struct waiter *w);
struct interval driver_now(struct driver *d); // under the lock
// The same for a caller without the lock that only wants the time. ERR_INVALID: as driver_enter.
MUST_USE enum err driver_time(struct driver *d, struct interval *out);
// The time limit of a call that begins now: ms, or less if the store's own limit ends sooner. It
// counts from now.hi. Call it under the lock.
int64_t driver_patience_ms(struct driver *d, int64_t ms);
// Call it under the lock, which it releases. Performs requests and sleeps until driver_wake was
// called for w.
void driver_wait(struct driver *d, struct waiter *w);
// Call it under the lock, which it releases. When driver_wake was called for w, some thread calls
// `then`. That can happen before this function returns. `then` should be quick, because its thread
// performs the next request only after it. It must not wait for an answer of this driver, whose
// journal is held meanwhile. On a store with low latency, this function performs one
// request itself if the caller is alone (inline_policy.h).
void driver_async(struct driver *d, struct waiter *w, void (*then)(struct waiter *w));
// Call it under a lock that another waiter entered with. w then waits too, as after driver_async.
// The lock stays held.
void driver_async_too(struct driver *d, struct waiter *w, void (*then)(struct waiter *w));
void driver_leave(struct driver *d, struct waiter *w); // releases the lock without waiting
// Call it under the lock: w, which driver_async left waiting, is no longer woken.
void driver_forget(struct driver *d, struct waiter *w);
void driver_wake(struct driver *d, struct waiter *w); // under the lock, from steps.deliver
