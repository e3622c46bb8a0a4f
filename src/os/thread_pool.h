// SPDX-License-Identifier: Apache-2.0
// The threads of a handle, and of the node that serves it. They run two kinds of work:
//   - A task runs when its timer is due or when it was scheduled, never twice at once.
//   - A job runs once. It may block.
// The pool grows while runs block and other work waits, up to its bound. It shrinks when it is
// idle. So its cost depends on the work, not on the number of tasks.
//
// A share is a part of the pool with threads of its own. Work in one share cannot delay the work in
// another one, even if all of it blocks.
#pragma once

#include "base/err.h"
#include "os/inline_policy.h"
#include "os/run_queue.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TASK_NEVER INT64_MAX

struct thread_pool;

// Embedded in the object that the task serves. Remove the task before you free the object. Only the
// pool uses the fields.
struct pool_task {
    struct pool_job job; // first; its place in the run queue
    struct thread_pool *pool;
    struct pool_share *share;
    // One run of the task, without any lock of the pool. Returns when the next run is due, by
    // clock_boot_ms. A past time means at once. TASK_NEVER means not before it is scheduled.
    int64_t (*run)(struct pool_task *task);
    int64_t asked_at; // task_schedule_at during a run: the earliest time
    uint32_t ref;
    uint32_t refused; // enum refusal
    bool running;
    bool rescheduled; // was scheduled during the run
    bool may_block;   // of this run: task_may_block
    bool may_sleep;   // ... task_may_sleep
    bool may_depend;  // ... task_may_depend
    bool removing;    // task_remove waits for the end of the run
};

// Threads are created when there is work. threads_max: for tasks that are in no other share.
struct thread_pool *thread_pool_new(size_t threads_max);
// NULL is allowed. All tasks must have been removed, and all shares freed.
void thread_pool_free(struct thread_pool *pool);
// The inline policy that all tasks of the pool share.
struct inline_policy *thread_pool_inline_policy(struct thread_pool *pool);

// Adds `max` threads to the pool's bound, for the jobs of this share. No key (for example a client)
// has more than `each` of them at once, and none takes the last free ones (os/run_queue.h).
struct pool_share *pool_share_new(struct thread_pool *pool, size_t max, size_t each);
// Waits until all jobs of the share have run. NULL is allowed.
void pool_share_free(struct pool_share *share);
// Runs the job, after the earlier ones of its key. ERR_LIMIT: every thread is busy, and the process
// cannot create another one. The job does not run then.
MUST_USE enum err pool_share_run(struct pool_share *share, uint64_t key, struct pool_job *job);
// Takes back a job that waits. Returns false if it runs already, or has run. The job must be valid.
bool pool_share_withdraw(struct pool_share *share, struct pool_job *job);

// ERR_LIMIT: the pool has no thread and cannot create one. The first run comes when the task is
// scheduled.
MUST_USE enum err thread_pool_add(struct thread_pool *pool, struct pool_task *task,
                                  int64_t (*run)(struct pool_task *task));
// The same for a task in a share.
MUST_USE enum err pool_share_add(struct pool_share *share, struct pool_task *task,
                                 int64_t (*run)(struct pool_task *task));
// Waits until the current run has ended. No run starts after that. Do not call it inside a run.
void task_remove(struct pool_task *task);
// Runs the task as soon as possible, or again after the current run.
void task_schedule(struct pool_task *task);
// Runs the task at boot_ms, or earlier if a run was already due earlier.
void task_schedule_at(struct pool_task *task, int64_t boot_ms);
// The same for a caller that holds a lock which the run needs. Returns the futex to wake, with
// futex_wake_all, after that lock is released. NULL: there is nothing to wake.
_Atomic uint32_t *task_schedule_quietly(struct pool_task *task);
_Atomic uint32_t *task_schedule_at_quietly(struct pool_task *task, int64_t boot_ms);

// From here on this run may block, so another thread runs the other tasks. One call per run is
// enough.
void task_may_block(struct pool_task *task);
// From here on this run may wait for another task. Returns false if so many runs already wait that
// no thread might be left for that task. The caller then tries again later.
MUST_USE bool task_may_depend(struct pool_task *task);
// Asks whether this run may sleep in the store until an entry appears there. Returns 0 if it may;
// only a few runs may at the same time. Otherwise returns when to poll next: the more tasks poll,
// the later. All of them poll at the same moments, so that one thread wakes up once for many. An
// eager task, which found something recently, takes precedence.
int64_t task_may_sleep(struct pool_task *task, bool eager);
