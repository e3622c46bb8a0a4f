// SPDX-License-Identifier: Apache-2.0
// Copies of texts, whether bytes are text, and names as tokens.
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Copies a text into an array of `size` bytes, at least one, and ends it with a zero. False: it did
// not fit, and its start was copied. A NULL text is an empty one.
bool text_copy(char *to, size_t size, const char *from);
bool text_copy_len(char *to, size_t size, const char *from, size_t len); // `from` needs no zero

bool utf8_ok(const void *bytes, size_t len);
// True if the text is UTF-8 without control characters (C0, DEL, C1). Such text is safe to print on
// a terminal.
bool text_is_plain(const char *text);

// Writes a name as one token, without a final zero, and returns its end. In a token, [A-Za-z0-9_-]
// stand for themselves. Every other byte is "=HH" with upper-case hex digits. So two names never
// have the same token. `at` has room for three times the length of the name.
char *token_put(char *at, struct bytes name);
bool token_has_plain(uint8_t c); // the byte stands for itself
