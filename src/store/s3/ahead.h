// SPDX-License-Identifier: Apache-2.0
// How many slots of a log to ask for at once. A slot is a request and requests are money, so a look
// at the tail asks for one; a reader that goes on and on where it left off is replaying, and asks
// for twice as many each time. Decisions only.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define S3_AHEAD_MAX  32
#define S3_AHEAD_ROWS 16 // readers that are remembered

struct s3_reader {
    uint64_t log; // hash of its name
    uint64_t next;
    uint64_t used; // 0: free
    size_t ahead;
    size_t size; // of a slot, on average
    int calm;    // full reads to come before more is asked for: the tail was just seen
};

// All zero at first.
struct s3_ahead {
    struct s3_reader rows[S3_AHEAD_ROWS];
    uint64_t uses;
};

size_t s3_ahead_plan(const struct s3_ahead *a, uint64_t log, uint64_t slot, size_t bytes_max);
// asked: what was planned; found: the slots that were there; kept: those that fit in bytes_max.
void s3_ahead_note(struct s3_ahead *a, uint64_t log, uint64_t slot, size_t asked, size_t found,
                   size_t kept, size_t bytes);
