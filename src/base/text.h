// SPDX-License-Identifier: Apache-2.0
// Whether bytes are text.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool utf8_ok(const void *bytes, size_t len);
// True if the text is UTF-8 without control characters (C0, DEL, C1). Such text is safe to print on
// a terminal.
bool text_is_plain(const char *text);
