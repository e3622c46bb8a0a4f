// SPDX-License-Identifier: Apache-2.0
// A moment of store time that is known only to lie in [lo, hi], in milliseconds since 1970.
#pragma once

#include <stdint.h>

struct interval {
    int64_t lo;
    int64_t hi;
};

#define TIME_NEVER   INT64_MAX // later than any moment: "do not wake me"
#define TIME_UNKNOWN INT64_MIN // earlier than any moment: "nothing is known"
