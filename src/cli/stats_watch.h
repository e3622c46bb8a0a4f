// SPDX-License-Identifier: Apache-2.0
// stats --watch: a live screen on a terminal, plain lines otherwise.
#pragma once

#include "cli/cli.h"
#include "cli/cost.h"

// Runs until q or a signal. NULL for queue shows all queues. Returns the exit status.
int stats_watch(const struct cli *cli, struct sluice *s, const char *queue, int interval_ms,
                const struct prices *prices);
// Prints the documented keys on one line.
void stats_json_print(const char *queue, const struct sluice_stats *v, const struct prices *prices);
// "messages and no workers", or "". In a table of queues it is shown if the oldest message has
// waited this long, because the messages of a queue without workers may be new.
#define STATS_IDLE_MS 60000
const char *stats_remark(const struct sluice_stats *v, bool paused);
