// SPDX-License-Identifier: Apache-2.0
// What the parsers of store URLs share.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Where a parser writes what is wrong with the URL.
struct url_complaint {
    char *why;
    size_t why_len;
};

// Writes the sentence. Returns false.
bool url_wrong(struct url_complaint c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Percent-decodes from[0, len). Refuses control characters: no header and no key contains them.
// what: the name of the part, for the sentence.
bool url_decode(const char *from, size_t len, char *to, size_t to_len, const char *what,
                struct url_complaint c);
