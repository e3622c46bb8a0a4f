// SPDX-License-Identifier: Apache-2.0
// What the parsers of store URLs share.
#pragma once

#include "base/authority.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

// Splits "host" or "host:port". out->number is set, to `port` if none is named. what: what the text
// is not, if it is wrong: "a host, as in ...".
bool url_host(const char *from, size_t len, const char *what, uint16_t port, struct authority *out,
              struct url_complaint c);

// The value of a setting: a text that is not empty, or a number from lo to hi.
bool url_take(char *to, size_t to_len, const char *name, const char *value, struct url_complaint c);
bool url_number(const char *name, const char *value, int64_t lo, int64_t hi, int64_t *out,
                struct url_complaint c);
// Reads "name=value&..." and passes each setting on, decoded. The value of `secret` (may be NULL)
// is not decoded, so that no sentence can have a part of it.
#define URL_SETTING_MAX 1024 // bytes of a value, with the zero
typedef bool url_setting_fn(const char *name, const char *value, void *out, struct url_complaint c);
bool url_settings(const char *query, const char *secret, url_setting_fn *read, void *out,
                  struct url_complaint c);
