// SPDX-License-Identifier: Apache-2.0
// A few threads for calls that block.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Embed it in what the call needs to know; it must live until run has begun.
struct pool_job {
    struct pool_job *next;
    void (*run)(struct pool_job *j);
};

struct pool;
struct pool *pool_new(size_t threads, size_t waiting_max);
void pool_free(struct pool *p); // what was taken is run first; NULL is fine
// False: as many wait as may.
bool pool_run(struct pool *p, struct pool_job *j);
