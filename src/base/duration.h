// SPDX-License-Identifier: Apache-2.0
// Durations as users type them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Reads digits at *text and moves it past them. Returns false if there are none, or if the number
// exceeds int64_t.
bool digits_take(const char **text, int64_t *out);
// Reads a fraction such as ".25", or none, at *text: in thousandths. Finer digits are refused, not
// dropped.
bool fraction_take(const char **text, int64_t *thousandths);

// Reads "500ms", "30s", "1.5s", "5m", "2h", "7d" and "0" as milliseconds. A unit is required,
// because "5" could be seconds or milliseconds. Nothing is rounded: "1.5ms" is refused.
bool duration_read(const char *text, int64_t *ms);
// Whether the text is a number and lacks its unit: "30", "1.5". "0" needs none.
bool duration_lacks_unit(const char *text);
// What a refusal says then. The text is the argument four times.
#define DURATION_NO_UNIT                                                                           \
    "\"%.40s\" has no unit: write %.40ss, %.40sms, or in JSON the number %.40s for milliseconds"

struct duration_unit {
    const char *name;
    int64_t ms;
};
#define DURATION_UNITS 5
extern const struct duration_unit duration_units[DURATION_UNITS]; // the smallest first

#define DURATION_TEXT_MAX 32
// Writes "30s", "1500ms", "24h", "7d": exact, in the largest unit that divides it. Days are used
// from two days on.
const char *duration_exact(int64_t ms, char out[static DURATION_TEXT_MAX]);
