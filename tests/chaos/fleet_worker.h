// SPDX-License-Identifier: Apache-2.0
// A process with some workers of the fleet. Each worker registers, and then receives and
// acknowledges until the test says stop.
#pragma once

#include "shared_record.h"

#define FLEET_QUEUE lane_names[LANE_PLAIN]

struct fleet_settings {
    const char *place;  // what the process opens: nodes, or a store
    const char *shared; // path of the shared record
    uint64_t life;      // no two processes have the same
    uint32_t first;     // row of its first worker in the shared record
    uint32_t workers;
    int64_t ttl_ms;
    int64_t lease_ms;
    bool mailbox; // it reaches only the store
};

// The name of a worker.
void fleet_name(char *out, size_t len, uint32_t row, uint64_t life);
int fleet_process(const struct fleet_settings *settings); // returns an exit status
