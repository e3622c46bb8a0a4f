// SPDX-License-Identifier: Apache-2.0
// A process of the stress test: one sender and many workers over one handle, until the shared
// record says stop or the process is killed.
#pragma once

#include "shared_record.h"

struct worker_settings {
    const char *store;
    const char *shared;
    uint64_t seed;
    uint32_t workers;
    int64_t timeout_ms; // of a call; 0: the library's
};

int worker_process(const struct worker_settings *settings); // the exit status
