// SPDX-License-Identifier: Apache-2.0
// Shows the progress of long work on standard error. On a terminal it redraws a bar. Otherwise it
// prints the count about every second, if it changed. With --quiet it prints nothing.
#pragma once

#include "cli/cli.h"

struct progress {
    const struct cli *cli;
    const char *verb; // "sent"
    const char *noun; // "messages"
    bool shown;
    bool terminal;
    bool drawn;
    int64_t started_ms;
    int64_t drawn_ms;
    uint64_t printed; // the last count, without a terminal
};

void progress_begin(struct progress *p, const struct cli *cli, const char *verb, const char *noun);
// `done` counts the noun. part / whole is the share of the work: the same counts, or bytes of a
// file. `whole` is 0 if unknown. Draws at most ten times per second.
void progress_move(struct progress *p, uint64_t done, uint64_t part, uint64_t whole);
// Removes the bar, so that normal output can follow.
void progress_end(struct progress *p);
int64_t progress_elapsed_ms(const struct progress *p);
