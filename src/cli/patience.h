// SPDX-License-Identifier: Apache-2.0
// Reports that a command waits for its store. After two seconds without an answer, one line on
// standard error names the store and how long the command will try. A thread of its own watches the
// time, because the library's calls block.
#pragma once

#include "cli/cli.h"

struct patience;

struct patience *patience_new(void);
void patience_free(struct patience *p); // accepts NULL
// Starts or restarts the watch: an answer is expected from now on. `more_ms` is added if the
// command itself asks to wait. Does nothing with --quiet, or with --json if standard error is not
// a terminal.
void patience_expect(const struct cli *cli, int64_t more_ms);
// Stops the watch: the answer has arrived, or the command shows its own progress.
void patience_rest(const struct cli *cli);
