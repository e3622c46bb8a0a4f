// SPDX-License-Identifier: Apache-2.0
// A share of the handle's thread pool, for calls that block or take long. Clients take turns,
// however many calls each of them has. No client has more than per_client threads at once.
#pragma once

#include "os/thread_pool.h"
#include "server/clients.h"

struct call_share_config {
    size_t threads;    // at most; they start on demand
    size_t per_client; // threads of one client at once
    size_t waiting;    // calls that may wait for a thread
};

// Embed it, zeroed, in the data of the call. It must live until `run` or `refuse` was called.
struct call_job {
    struct pool_job job; // first
    struct share place;  // while it waits
    struct call_share *share;
    void (*run)(struct call_job *j);
    // Called when another client's call took its place, on the thread of that call_share_run.
    void (*refuse)(struct call_job *j);
};

struct call_share;
struct call_share *call_share_new(struct thread_pool *pool, const struct call_share_config *config);
void call_share_free(struct call_share *c); // runs the accepted calls first; NULL is fine
// Errors:
//   - ERR_LIMIT: `waiting` calls wait already, and this client has no fewer of them than any other.
//   - ERR_UNAVAILABLE: every thread is busy, and the process cannot create another one.
MUST_USE enum err call_share_run(struct call_share *c, struct call_job *j, uint64_t client);
