// SPDX-License-Identifier: Apache-2.0
// Which job of a thread pool runs next. It has no lock and no threads: the pool's lock protects it.
//
// A job belongs to a share of the pool, and inside the share to a key (for example a client). The
// shares take turns. Inside a share, the keys take turns. The jobs of a key start in the order in
// which they were added.
#pragma once

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pool_share;
struct pool_key;

// Embed it, zeroed. Only the pool uses the fields below `run`.
struct pool_job {
    void (*run)(struct pool_job *job); // once, without a lock; may free the job
    struct list_link link;             // among the jobs of its key
    struct pool_key *key;              // while it waits or runs
    bool queued;                       // it waits
    bool recurring;                    // the job of a struct pool_task
};

struct run_queue {
    struct list shares; // the share that was served last is last
};

// A share runs at most `max` jobs at once. A key runs at most `each` of them. If `each` is less
// than `max`, a key that has running jobs also leaves as many threads free as it has. So a few keys
// that block leave threads for others.
struct pool_share *run_share_new(struct run_queue *q, size_t max, size_t each);
void run_share_free(struct pool_share *share);           // no job waits or runs
bool run_share_is_empty(const struct pool_share *share); // whether no job waits or runs
size_t run_share_max(const struct pool_share *share);
struct run_queue *run_share_queue(const struct pool_share *share);
struct pool_share *run_key_share(const struct pool_key *key);

void run_queue_add(struct pool_share *share, uint64_t key, struct pool_job *job);
void run_queue_remove(struct pool_job *job); // it waits
bool run_queue_has_next(const struct run_queue *q);
// Takes the next job, which counts as running from now on. NULL: none may run now.
struct pool_job *run_queue_next(struct run_queue *q);
// A job of this key has ended. Frees the key if it has no job left.
void run_queue_ended(struct pool_key *key);
