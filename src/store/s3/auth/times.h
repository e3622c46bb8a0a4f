// SPDX-License-Identifier: Apache-2.0
// Parse the two time formats of S3 to milliseconds since 1970. Return false for any other text.
#pragma once

#include "base/bytes.h"

bool s3_time_iso(const char *text, int64_t *out_ms);   // "2026-11-15T06:05:55.123Z", or +hh:mm
bool s3_time_http(struct bytes text, int64_t *out_ms); // "Sun, 15 Nov 2026 06:05:55 GMT"
