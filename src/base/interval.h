// SPDX-License-Identifier: Apache-2.0
// A moment of store time that lies somewhere in [lo, hi], in milliseconds since 1970.
#pragma once

#include <stdint.h>

struct interval {
    int64_t lo;
    int64_t hi;
};

#define TIME_NEVER   INT64_MAX // later than any moment: no deadline
#define TIME_UNKNOWN INT64_MIN // earlier than any moment: the time is not known
