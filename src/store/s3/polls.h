// SPDX-License-Identifier: Apache-2.0
// Decides when to poll again for a slot that a caller waits for. The gap grows with each poll. It
// carries over from one short wait to the next wait for the same slot. This file only decides.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define S3_POLL_FIRST_MS 25
#define S3_POLL_MAX_MS   1000
#define S3_POLLS_ROWS    128 // rows of the table of logs

struct s3_poll {
    uint64_t log; // hash of the log's name; a row tracks one slot of a log
    uint64_t slot;
    uint64_t used; // p->uses at the last change; 0: the row is free
    int64_t gap_ms;
    int64_t due_ms;
};

// Starts as all zero.
struct s3_polls {
    struct s3_poll rows[S3_POLLS_ROWS];
    uint64_t uses;
};

// When the next poll is due; now_ms if this slot was not polled before.
int64_t s3_polls_due(const struct s3_polls *p, uint64_t log, uint64_t slot, int64_t now_ms);
// A poll did not find the slot.
void s3_polls_note(struct s3_polls *p, uint64_t log, uint64_t slot, int64_t now_ms);
// This process wrote the slot before `next`, or read up to it, so it knows that `next` did not
// exist: that saves one poll. Returns true if a waited-for log has reached that slot: waiters for
// an earlier slot may poll at once.
bool s3_polls_tail(struct s3_polls *p, uint64_t log, uint64_t next, int64_t now_ms);
