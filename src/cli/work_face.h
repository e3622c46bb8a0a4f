// SPDX-License-Identifier: Apache-2.0
// How a worker shows itself: a live table at the foot of a terminal, with the programs' output
// above it; a line for each job otherwise; JSON lines with --json; nothing of its own with --quiet.
#pragma once

#include "cli/cli.h"
#include "cli/work_pool.h"

#define RATE_SECONDS 10

struct face {
    const struct cli *cli;
    struct pool *pool;
    bool live;
    bool line_open;     // the last output did not end its line
    bool line_is_error; // ... of standard error
    int drawn;          // lines of the table that are on the screen
    int64_t started_ms;
    int64_t sampled_ms;             // when the newest sample was taken
    uint64_t samples[RATE_SECONDS]; // jobs ended, second by second
    uint32_t samples_len;
    pthread_t gauge; // asks how many messages are left, for the live table
    bool gauged;
    int gauge_fd; // eventfd: it ends
};

// Decides how to show, and what becomes of the programs' standard output.
void face_init(struct face *f, const struct cli *cli, struct work_options *o);
void face_begin(struct face *f, struct pool *p); // before the first draw
// Between the start of the pool and its end: keeps up with how many messages are left.
void face_watch(struct face *f);
void face_rest(struct face *f);
int face_period_ms(const struct face *f); // how often to draw; -1: never
void face_draw(struct face *f);
// What the worker itself has to say, to people.
void face_say(struct face *f, const char *format, ...) PRINTF(2, 3);
// Takes the table away and prints the sums.
void face_end(struct face *f);
