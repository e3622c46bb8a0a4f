// SPDX-License-Identifier: Apache-2.0
// What this process has of everything that may leak.
#pragma once

#include <stddef.h>

struct census {
    size_t files;
    size_t threads;
    size_t memory_kb; // resident; 0: a sanitizer keeps what was freed, so it cannot be told
};

struct census census_take(void);
