// SPDX-License-Identifier: Apache-2.0
// stats --watch: the live screen, and its plain lines where there is no terminal.
#pragma once

#include "cli/cli.h"
#include "cli/cost.h"

// queue NULL: all of them. Until q or a signal. Answers the exit status.
int stats_watch(const struct cli *cli, struct sluice *s, const char *queue, int interval_ms,
                const struct prices *prices);
// The documented keys, on one line.
void stats_json_print(const char *queue, const struct sluice_stats *v, const struct prices *prices);
