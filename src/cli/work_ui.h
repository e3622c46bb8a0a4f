// SPDX-License-Identifier: Apache-2.0
// How a worker shows itself: a live table at the foot of a terminal, with the programs' output
// above it; a line for each job otherwise; JSON lines with --json; nothing of its own with --quiet.
#pragma once

#include "cli/cli.h"
#include "cli/work_pool.h"

#define RATE_SECONDS 10

struct ui {
    const struct cli *cli;
    struct worker_pool *pool;
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
void work_ui_init(struct ui *f, const struct cli *cli, struct work_options *o);
void work_ui_begin(struct ui *f, struct worker_pool *p); // before the first draw
// Between the start of the pool and its end: keeps up with how many messages are left.
void work_ui_watch(struct ui *f);
void work_ui_rest(struct ui *f);
int work_ui_period_ms(const struct ui *f); // how often to draw; -1: never
void work_ui_draw(struct ui *f);
// What the worker itself has to say, to people.
void work_ui_say(struct ui *f, const char *format, ...) PRINTF(2, 3);
// Takes the table away and prints the sums.
void work_ui_end(struct ui *f);
