// SPDX-License-Identifier: Apache-2.0
// Durations as people type them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Digits from *text on, which moves behind them. False: none, or more than int64_t holds.
bool digits_take(const char **text, int64_t *out);
// ".25" of a second, or nothing, at *text: in thousandths. Finer digits are refused, not dropped.
bool fraction_take(const char **text, int64_t *thousandths);

// "500ms", "30s", "1.5s", "5m", "2h", "7d", and "0": milliseconds. A unit is required, for "5"
// would be seconds to one reader and milliseconds to another; and nothing is rounded: "1.5ms" is
// refused.
bool duration_read(const char *text, int64_t *ms);
// Where a bare number has always been milliseconds it still is: "1500" is "1500ms".
bool duration_read_ms(const char *text, int64_t *ms);

struct duration_unit {
    const char *name;
    int64_t ms;
};
#define DURATION_UNITS 5
extern const struct duration_unit duration_units[DURATION_UNITS]; // the smallest first

#define DURATION_TEXT_MAX 32
// "30s", "1500ms", "24h", "7d": exact, in the largest unit that divides it; days from two on.
const char *duration_exact(int64_t ms, char out[static DURATION_TEXT_MAX]);
