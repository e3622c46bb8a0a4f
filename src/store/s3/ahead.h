// SPDX-License-Identifier: Apache-2.0
// Decides how many slots of a log to read at once. Each slot costs one request, so a read at the
// tail asks for one slot. A reader that continues where its last read ended is replaying: its
// read-ahead doubles with each read. This file only decides; it does no I/O.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define S3_AHEAD_MAX  32
#define S3_AHEAD_ROWS 16 // rows of the table of readers

struct s3_reader {
    uint64_t log; // hash of the log's name
    uint64_t next;
    uint64_t used; // a->uses at the last read; 0: the row is free
    size_t ahead;
    size_t size; // average size of a slot, in bytes
    // Full reads that must come before the read-ahead grows. It is set when a read reaches the
    // tail.
    int calm;
};

// Starts as all zero.
struct s3_readahead {
    struct s3_reader rows[S3_AHEAD_ROWS];
    uint64_t uses;
};

size_t s3_ahead_plan(const struct s3_readahead *a, uint64_t log, uint64_t slot, size_t bytes_max);
// Records a read. asked: slots that were planned; found: slots that exist; kept: found slots that
// fit into bytes_max; bytes: the size of the found slots.
void s3_ahead_note(struct s3_readahead *a, uint64_t log, uint64_t slot, size_t asked, size_t found,
                   size_t kept, size_t bytes);
