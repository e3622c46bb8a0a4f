// SPDX-License-Identifier: Apache-2.0
// The output of a worker. On a terminal it is a live table below the programs' output. Otherwise it
// is one line per job, or JSON lines with --json. With --quiet the worker itself prints nothing.
#pragma once

#include "cli/cli.h"
#include "cli/work/pool.h"

#define RATE_SECONDS 10

struct ui {
    const struct cli *cli;
    struct worker_pool *pool;
    bool live;
    bool line_open;     // the last output did not end with a newline
    bool line_is_error; // that output was on standard error
    int drawn;          // lines of the table on the screen
    int64_t started_ms;
    int64_t sampled_ms;             // time of the newest sample
    uint64_t samples[RATE_SECONDS]; // jobs ended, one sample per second
    uint32_t samples_len;
    pthread_t gauge; // thread that reads how many messages are ready, for the live table
    bool gauged;
    int gauge_fd; // eventfd: the thread must end
};

// Chooses the kind of output, and where the programs' standard output goes.
void work_ui_init(struct ui *f, const struct cli *cli, struct work_options *o);
void work_ui_begin(struct ui *f, struct worker_pool *p); // call before the first draw
// Starts and stops the thread that reads how many messages are ready. Call them while the pool
// runs.
void work_ui_watch(struct ui *f);
void work_ui_rest(struct ui *f);
int work_ui_period_ms(const struct ui *f); // interval of draws; -1: never
void work_ui_draw(struct ui *f);
// Prints a remark of the worker itself.
void work_ui_say(struct ui *f, const char *format, ...) PRINTF(2, 3);
// Removes the table and prints the totals.
void work_ui_end(struct ui *f);
