// SPDX-License-Identifier: Apache-2.0
// A batch of jobs of a tube: reads them, copies them, deletes them.
#pragma once

#include "cli/import_connection.h"

struct tube_job {
    uint64_t id;
    uint64_t priority;
};

struct tube_import {
    struct import_run *run;
    struct tube_link link;
    const struct tube_place *place;
    unsigned states;
    struct import_item items[IMPORT_BATCH_MAX];
    size_t bodies_at[IMPORT_BATCH_MAX]; // offsets in bodies
    size_t len;
    struct buf bodies;
    size_t size_now;      // how many jobs the next batch has
    uint64_t longest_ttr; // seconds
    uint64_t soon;        // delayed jobs that are left to become ready
    uint64_t gone;        // jobs that were in no wanted state any more
};

// Each returns 0, or the exit status after the error was printed.

// Reserves ready jobs and copies them, batch by batch, until there is none. The first reserve waits
// `wait_s` seconds. *found is how many there were.
int jobs_reserve(struct tube_import *t, unsigned wait_s, uint64_t *found);
// Copies these jobs without reserving them.
int jobs_copy(struct tube_import *t, const struct tube_job *jobs, size_t len);
