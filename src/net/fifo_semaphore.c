// SPDX-License-Identifier: Apache-2.0
// A fair semaphore. A permit that is released while a thread waits passes directly to that thread,
// so a later thread cannot take it first.
#include "net/fifo_semaphore.h"

#include "base/check.h"
#include "os/clock.h"
#include "os/lock.h"

#include <time.h>

struct semaphore_waiter {
    struct list_link link;
    pthread_cond_t called;
    bool has; // the waiter has received its permit
};

void fifo_semaphore_init(struct fifo_semaphore *t, size_t count)
{
    CHECK(count > 0);
    *t = (struct fifo_semaphore){.free = count};
    (void)pthread_mutex_init(&t->lock, NULL);
}

void fifo_semaphore_done(struct fifo_semaphore *t)
{
    CHECK(!t->waiters.first);
    (void)pthread_mutex_destroy(&t->lock);
}

// With the lock held.
static bool wait_in_line(struct fifo_semaphore *t, int64_t wait_ms)
{
    int64_t until = clock_boot_ms() + wait_ms;
    struct semaphore_waiter w = {.has = false};
    clock_cond_init(&w.called);
    list_add(&t->waiters, &w.link);
    while (!w.has && clock_wait(&w.called, &t->lock, until))
        ;
    if (!w.has) list_remove(&t->waiters, &w.link);
    (void)pthread_cond_destroy(&w.called);
    return w.has;
}

bool fifo_semaphore_take(struct fifo_semaphore *t, int64_t wait_ms)
{
    LOCKED(&t->lock);
    bool has = t->free > 0;
    if (has)
        t->free--;
    else if (wait_ms > 0)
        has = wait_in_line(t, wait_ms);
    return has;
}

bool fifo_semaphore_take_free(struct fifo_semaphore *t)
{
    return fifo_semaphore_take(t, 0);
}

void fifo_semaphore_give(struct fifo_semaphore *t)
{
    LOCKED(&t->lock);
    struct semaphore_waiter *w = LIST_FIRST(&t->waiters, struct semaphore_waiter, link);
    if (w) {
        list_remove(&t->waiters, &w->link);
        w->has = true;
        (void)pthread_cond_signal(&w->called);
    } else {
        t->free++;
    }
}
