// SPDX-License-Identifier: Apache-2.0
// The real driver of a step function: performs its store requests, tells it the time, wakes those
// who wait for replies.
//
// There is no thread between a caller and the store: whoever waits for an answer performs the next
// request himself, so one writer pays for one sync and no context switch, and while he is at it
// others queue their ops for the next entry (group commit). When he has his answer he hands the
// next request to one of those who sleep. A crew of threads, which serves any number of drivers,
// keeps the time and does what nobody waits for.
#pragma once

#include "base/err.h"
#include "journal/request.h"
#include "node/thread_pool.h"
#include "store/store.h"

#include <stdatomic.h>

// A step function as the driver sees it. All calls are made under the driver's lock.
struct steps {
    void *ctx;
    void (*respond)(void *ctx, const struct response *r, struct interval now);
    void (*tick)(void *ctx, struct interval now);
    int64_t (*wake_at)(void *ctx);
    bool (*next_request)(void *ctx, struct request *out);
    // Hands out the replies that have come up; calls driver_wake for each waiter that has its
    // answer.
    void (*deliver)(void *ctx);
};

struct driver;

// Borrows the store and the crew; NULL: a crew of its own. Asks the store for its time once, so it
// may fail: ERR_UNAVAILABLE, ERR_DENIED ...
MUST_USE enum err driver_open(struct store *s, struct thread_pool *pool, const struct steps *steps,
                              struct driver **out);
struct thread_pool *driver_pool(struct driver *d);
// Finishes what is being asked for in the background (a snapshot half written), then stops. NULL is
// fine.
void driver_free(struct driver *d);

// Somebody who waits for a reply. Lives on his stack; its address serves as the ticket. While he
// sleeps others move him from list to list, under the lock; the word tells him why he was woken.
struct waiter {
    bool done; // has his answer
    bool asleep;
    void (*then)(struct waiter *w); // not a thread: called with his answer, without the lock
    uint32_t why;                   // he is about to be woken; enum nap
    _Atomic uint32_t word;          // the futex
    struct waiter *previous, *next;
};

// Takes the lock and enters w; ERR_INVALID, and nothing taken, in a child of fork.
MUST_USE enum err driver_enter(struct driver *d, struct waiter *w);
struct interval driver_now(struct driver *d); // under the lock
// How long a call that begins now may take, of ms at most, added to now.hi. Under the lock.
int64_t driver_patience_ms(struct driver *d, int64_t ms);
// Under the lock: performs requests and sleeps until driver_wake was called for w; releases the
// lock.
void driver_wait(struct driver *d, struct waiter *w);
// Under the lock: releases it; `then` is called, on whatever thread, when driver_wake was called
// for w. It may be called before this returns, and makes no promise to be quick: the thread it runs
// on performs the next request after it. On a store that is near, this performs one request itself
// when the caller is alone (company.h).
void driver_async(struct driver *d, struct waiter *w, void (*then)(struct waiter *w));
// Under the lock that somebody else entered with: w waits too, as after driver_async. The lock is
// kept.
void driver_async_too(struct driver *d, struct waiter *w, void (*then)(struct waiter *w));
void driver_leave(struct driver *d, struct waiter *w); // releases the lock without waiting
// Under the lock: w, left by driver_async, will not be woken any more.
void driver_forget(struct driver *d, struct waiter *w);
void driver_wake(struct driver *d, struct waiter *w); // under the lock, from steps.deliver
