// SPDX-License-Identifier: Apache-2.0
// How far long work is, on standard error: a bar that redraws itself on a terminal, a line of plain
// counts every second or so otherwise, nothing with --quiet.
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
};

void progress_begin(struct progress *p, const struct cli *cli, const char *verb, const char *noun);
// done of the noun so far; part of whole is the share of the work (the same numbers, or bytes of a
// file). whole 0: not known. Cheap: draws ten times a second at most.
void progress_move(struct progress *p, uint64_t done, uint64_t part, uint64_t whole);
// Removes the bar, so that an ordinary line can follow.
void progress_end(struct progress *p);
int64_t progress_elapsed_ms(const struct progress *p);
