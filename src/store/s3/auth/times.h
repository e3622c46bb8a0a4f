// SPDX-License-Identifier: Apache-2.0
// The two ways S3 writes a moment, as milliseconds since 1970; false when it is not that.
#pragma once

#include "base/bytes.h"

bool s3_time_iso(const char *text, int64_t *out_ms);   // "2026-11-15T06:05:55.123Z", or +hh:mm
bool s3_time_http(struct bytes text, int64_t *out_ms); // "Sun, 15 Nov 2026 06:05:55 GMT"
