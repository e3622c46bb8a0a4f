// SPDX-License-Identifier: Apache-2.0
// Reports that a command waits for its store. After two seconds without an answer, one line on
// standard error names the store and how long the command will try. A thread of its own watches the
// time, because the library's calls block.
#pragma once

#include "cli/cli.h"

struct answer_watch;

struct answer_watch *answer_watch_new(void);
void answer_watch_free(struct answer_watch *p); // accepts NULL
// Starts or restarts the watch: an answer is expected from now on. `more_ms` is added if the
// command itself asks to wait. Does nothing with --quiet, or with --json if standard error is not
// a terminal.
void answer_watch_start(const struct cli *cli, int64_t more_ms);
// The same while the store is being opened. A node then has less time to answer.
void answer_watch_open(const struct cli *cli);
// Stops the watch: the answer has arrived, or the command shows its own progress.
void answer_watch_stop(const struct cli *cli);
