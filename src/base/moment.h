// SPDX-License-Identifier: Apache-2.0
// Moments, in milliseconds since 1970, as text of RFC 3339.
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

#define MOMENT_LAST INT64_C(253402300799999) // 9999-12-31T23:59:59.999Z
#define MOMENT_LEN  24                       // of what moment_put writes

// In UTC with milliseconds: "2030-01-31T12:00:00.000Z". Moments outside 1970 to 9999 are written as
// the nearest moment inside. Returns the end, and writes no final zero.
char *moment_put(char *at, int64_t ms);
// Reads only what moment_put writes.
bool moment_read_exact(struct bytes text, int64_t *ms);
// Reads "2027-01-31T12:00:00Z", "2030-01-31 12:00+02:00", "2030-01-31T12:00:00.250Z". Of a text
// without a time zone, such as "2030-01-31", *local is true and *ms is as for UTC. If local is
// NULL, such a text is refused.
bool moment_read(const char *text, int64_t *ms, bool *local);
