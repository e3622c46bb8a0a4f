// SPDX-License-Identifier: Apache-2.0
// Threads for jobs that may block in the store. All queues of a handle share them. Each queue gets
// at most a share of the threads, so a queue that blocks does not hold up the others. A job that
// waits for a message, or for space in a full queue, uses no thread.
#pragma once

#include "local/inside.h"

enum job_result {
    JOB_OVER,  // the job has ended, and may be freed
    JOB_SPACE, // as JOB_OVER, and the queue has space for more sends
    JOB_WAIT,  // no message was there: run the job again after a pause
    JOB_FULL,  // the queue is full: run the job again after a pause, before all later sends
};

enum pool_place {
    PLACE_READY,
    PLACE_WAITING, // receives; a bounded number runs at a time
    PLACE_BLOCKED, // sends to a full queue; one runs at a time, several while space is plentiful
};

struct pooled {
    struct pooled *next;
    struct queue_jobs *jobs;
    enum pool_place place;
    uint64_t number; // rises with every job; 0: pool_submit assigns it
    int64_t until;   // clock_boot_ms: a waiting or blocked job runs for the last time then
    // Called without the pool's lock. last: the job will not run again.
    enum job_result (*run)(struct pooled *job, bool last);
};

// Takes the job. If sends of the queue are blocked, a new send waits behind them. The caller holds
// the pool's lock.
void pool_submit(struct sluice *s, const char *queue, struct pooled *job, bool sends);
size_t pool_blocked(struct sluice *s, const char *queue); // sends of this queue that wait for space
uint64_t pool_number(struct sluice *s);                   // the next job number
// Removes a receive that waits to run. Returns false if it runs now. The caller holds the pool's
// lock.
bool pool_withdraw(struct sluice *s, struct pooled *job);
void pool_lock(struct sluice *s); // protects what jobs and their submitters share
void pool_unlock(struct sluice *s);
bool pool_stopping(struct sluice *s); // the caller holds the lock
