// SPDX-License-Identifier: Apache-2.0
// Threads for calls that block or take long, shared by the clients of a node. Clients take turns,
// whatever the number of their calls; none has more threads at once than it may.
#pragma once

#include "server/clients.h"

struct pool_config {
    size_t threads;    // at most; they are started as they are needed
    size_t per_client; // of them
    size_t waiting;    // calls that wait for one
};

// Embed it, zeroed, in what the call needs to know; it must live until one of the two was called.
struct pool_job {
    struct share share; // first; while it waits
    void (*run)(struct pool_job *j);
    // On the thread that called pool_run for another client: its place was needed for that.
    void (*refuse)(struct pool_job *j);
};

struct call_pool;
struct call_pool *pool_new(const struct pool_config *config);
void pool_free(struct call_pool *p); // what was taken is run first; NULL is fine
// False: as many wait as may, and this client has no fewer waiting than any other.
bool pool_run(struct call_pool *p, struct pool_job *j, uint64_t client);
