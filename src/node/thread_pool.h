// SPDX-License-Identifier: Apache-2.0
// A few threads that serve any number of members. A member gets a turn when it is due or was
// kicked, never two turns at once. The crew grows while turns block and others want theirs, up to
// its bound, and shrinks when there is nothing to do: what it costs depends on what happens, not on
// how many members there are.
#pragma once

#include "base/err.h"
#include "node/inline_policy.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TASK_NEVER INT64_MAX

struct thread_pool;

// Embedded in what it serves, which it must not outlive. Nobody but the crew touches its fields.
struct pool_task {
    struct thread_pool *pool;
    // Answers when the next one is due, by clock_boot_ms: at once for a time that has passed,
    // TASK_NEVER for not before a kick. No lock of the crew is held.
    int64_t (*run)(struct pool_task *m);
    struct pool_task *next; // in the line
    int64_t asked;          // task_schedule_at during a turn
    uint32_t ref;
    uint32_t refused; // enum refusal
    bool in_line;
    bool inside; // has its turn
    bool kicked; // during it
    bool slow;   // this turn may block
    bool lingers;
    bool leans;
    bool leaving;
};

// Threads are made when there is something to do.
struct thread_pool *thread_pool_new(size_t threads_max);
void thread_pool_free(struct thread_pool *c); // NULL is fine; its members have been removed
// Of its members together.
struct inline_policy *thread_pool_inline_policy(struct thread_pool *c);

// ERR_LIMIT: there is no thread, and none can be had. The first turn comes with the first kick.
MUST_USE enum err thread_pool_add(struct thread_pool *c, struct pool_task *m,
                                  int64_t (*run)(struct pool_task *m));
// Waits until its turn is over; there is no other then. Not for use in a turn.
void task_remove(struct pool_task *m);
void task_schedule(struct pool_task *m); // a turn as soon as possible, after the present one if any
// A turn at boot_ms, if none was due before. It is not postponed by this.
void task_schedule_at(struct pool_task *m, int64_t boot_ms);
// The same under a lock that the turn will want: answers whom to wake, by futex_wake_all, when it
// is free. NULL: nobody.
_Atomic uint32_t *task_schedule_quietly(struct pool_task *m);
_Atomic uint32_t *task_schedule_at_quietly(struct pool_task *m, int64_t boot_ms);

// From here on this turn may block: somebody else sees to the other members. Once is enough.
void task_may_block(struct pool_task *m);
// From here on this turn may wait for what another turn brings. False: so many do already that none
// might be left to bring it; come again.
MUST_USE bool task_may_depend(struct pool_task *m);
// May this turn sleep until something happens elsewhere that no kick tells of? 0: yes; few may at
// the same time. Else: look without waiting, and come again at that time: the more there are, the
// later. All of them come at the same moments, so that one thread wakes up once for many. Those who
// are eager, since there was something lately, go first.
int64_t task_may_sleep(struct pool_task *m, bool eager);
