// SPDX-License-Identifier: Apache-2.0
// When a slot that somebody waits for may be looked for again: soon at first, then less and less,
// across any number of short waits for the same slot. Decisions only.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define S3_POLL_FIRST_MS 25
#define S3_POLL_MAX_MS   1000
#define S3_POLLS_ROWS    128 // logs that are remembered

struct s3_poll {
    uint64_t log; // hash of its name; one slot of a log is waited for
    uint64_t slot;
    uint64_t used; // 0: free
    int64_t gap_ms;
    int64_t due_ms;
};

// All zero at first.
struct s3_polls {
    struct s3_poll rows[S3_POLLS_ROWS];
    uint64_t uses;
};

// When to look; now_ms when this slot was not looked for before.
int64_t s3_polls_due(const struct s3_polls *p, uint64_t log, uint64_t slot, int64_t now_ms);
// It was looked for and not there.
void s3_polls_note(struct s3_polls *p, uint64_t log, uint64_t slot, int64_t now_ms);
// Somebody of ours wrote the slot before `next`, or read up to it, and so knows that it was not
// there: one look less. True: a log that is waited for got that far; who waits for an earlier slot
// may look at once.
bool s3_polls_tail(struct s3_polls *p, uint64_t log, uint64_t next, int64_t now_ms);
