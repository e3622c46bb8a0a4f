// SPDX-License-Identifier: Apache-2.0
// A command that waits for its store says so: after two seconds without an answer, one line on
// standard error names the store and how long it is tried. A thread of its own watches, for the
// calls of the library block.
#pragma once

#include "cli/cli.h"

struct patience;

struct patience *patience_new(void);
void patience_free(struct patience *p); // NULL is fine
// From now on an answer is expected, `more_ms` later than usual when the command asks to wait.
// Begins the watch anew when it runs. Nothing with --quiet, and with --json only on a terminal.
void patience_expect(const struct cli *cli, int64_t more_ms);
// The answer came, or what follows shows by itself how far it is.
void patience_rest(const struct cli *cli);
