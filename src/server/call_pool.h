// SPDX-License-Identifier: Apache-2.0
// Threads for calls that block or take long. Clients take turns, however many calls each of them
// has. No client has more than per_client threads at once.
#pragma once

#include "server/clients.h"

struct pool_config {
    size_t threads;    // at most; they start on demand
    size_t per_client; // threads of one client at once
    size_t waiting;    // calls that may wait for a thread
};

// Embed it, zeroed, in the data of the call. It must live until `run` or `refuse` was called.
struct pool_job {
    struct share share; // first; its place while it waits
    void (*run)(struct pool_job *j);
    // Called when another client's call took its place, on the thread of that pool_run.
    void (*refuse)(struct pool_job *j);
};

struct call_pool;
struct call_pool *pool_new(const struct pool_config *config);
void pool_free(struct call_pool *p); // runs the accepted calls first; NULL is fine
// Returns false if `waiting` calls wait already and this client has no fewer of them than any
// other.
bool pool_run(struct call_pool *p, struct pool_job *j, uint64_t client);
