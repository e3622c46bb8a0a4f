// SPDX-License-Identifier: Apache-2.0
// events --bus: events of queues from a bus.
#pragma once

#include "cli/cli.h"

#include <sluice_bus.h>

struct events_bus {
    const char *url;
    struct sluice_bus_options options; // without a position
    const char *position_file;         // NULL: none
    bool follow;
};

// Prints the events. Returns the exit status.
int events_bus_print(const struct cli *cli, struct events_bus *b);
