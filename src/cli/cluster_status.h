// SPDX-License-Identifier: Apache-2.0
// Prints the state of a cluster for people, as tables.
#pragma once

#include "cli/cli.h"
#include "sluice_cluster.h"

// Writes the head, the members, and the shards of each queue by owner.
void cluster_status_print(const struct cli *cli, const struct sluice_cluster *c, FILE *out);
// Shows it again and again, as a live screen on a terminal. Returns the exit status.
int cluster_status_watch(const struct cli *cli, struct sluice *s, const char *coord,
                         int interval_ms);
