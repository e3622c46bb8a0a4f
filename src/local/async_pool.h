// SPDX-License-Identifier: Apache-2.0
// Threads for jobs that may have to wait for the store, shared by all queues of a handle. No queue
// gets more than its share of them, so that one whose store is slow keeps no other waiting; and
// whoever waits for a message or for room has none at all.
#pragma once

#include "local/inside.h"

enum job_result {
    JOB_OVER,  // the job is done with, and perhaps gone
    JOB_SPACE, // ... and there is room for more like it
    JOB_WAIT,  // nothing was there: again in a while, in its old place
    JOB_FULL,  // no room: again in a while, before those that came later
};

enum pool_place {
    PLACE_READY,
    PLACE_WAITING, // receives: some of them at a time
    PLACE_BLOCKED, // sends: one after another, and several when there is room for all of them
};

struct pooled {
    struct pooled *next;
    struct queue_jobs *line;
    enum pool_place place;
    uint64_t number; // rises with every job; 0: to be given when it is submitted
    int64_t until;   // clock_boot_ms: one that waits or is blocked gets its last turn then
    // Without the pool's lock. last: it will have no other.
    enum job_result (*run)(struct pooled *job, bool last);
};

// Owns the job from here on. A send queues up behind those that are blocked. With the lock.
void pool_submit(struct sluice *s, const char *queue, struct pooled *job, bool sends);
size_t pool_blocked(struct sluice *s, const char *queue); // sends of this queue that wait for room
uint64_t pool_number(struct sluice *s);
// Takes a receive out that waits for its turn; false: it has it now. With the lock.
bool pool_withdraw(struct sluice *s, struct pooled *job);
void pool_lock(struct sluice *s); // of what jobs share with those who submit them
void pool_unlock(struct sluice *s);
bool pool_stopping(struct sluice *s); // with the lock
