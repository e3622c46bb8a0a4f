// SPDX-License-Identifier: Apache-2.0
// Parses and formats numbers, durations and times for people.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Parses a whole number of digits only. Returns false if the text is not one or does not fit.
bool text_to_number(const char *text, int64_t *out);

// For errors about a duration that base/duration.h cannot read.
#define DURATION_HINT "a number and its unit, such as 500ms, 30s, 5m or 2h"

// "2027-01-31T12:00:00Z", "2030-01-31T12:00:00.250+02:00", "2030-01-31 12:00" (local time), or
// milliseconds since 1970.
bool text_to_moment(const char *text, int64_t *out);
#define MOMENT_HINT "a time such as 2027-01-31T12:00:00Z, or milliseconds since 1970"

#define TEXT_MAX    48
// Formats a rounded duration: "0ms", "450ms", "3.2s", "4m 10s", "2h 5m", "3d 4h".
const char *duration_text(int64_t ms, char out[static TEXT_MAX]);
// "2030-01-31 12:00:00.250" in local time; "-" for 0.
const char *moment_text(int64_t ms, char out[static TEXT_MAX]);
// "1,234,567"
const char *number_text(uint64_t n, char out[static TEXT_MAX]);
// "12.3 MiB"
const char *bytes_text(uint64_t n, char out[static TEXT_MAX]);

// Returns the columns of a UTF-8 text. Each code point counts as one.
size_t text_columns(const char *text);
