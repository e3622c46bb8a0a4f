// SPDX-License-Identifier: Apache-2.0
// JSON as text. Values are passed on as they were written. No tree is built, so a number keeps its
// digits and an object keeps its order.
#pragma once

#include "base/bytes.h"

#define JSON_RAW_DEPTH_MAX 128

// True if the text is exactly one value as in RFC 8259, and json_parse accepts it. Keys are unique,
// surrogates come in pairs and each number fits. Objects and lists nest at most JSON_RAW_DEPTH_MAX
// deep.
bool json_raw_ok(struct bytes text);

// The functions below expect valid JSON. For other text their results are undefined, but they read
// no byte outside the text.

// Removes the whitespace between tokens. json_raw_compact_len returns the length of the result.
size_t json_raw_compact_len(struct bytes text);
void json_raw_compact(struct bytes text, char *to); // `to` has room for json_raw_compact_len bytes

// Writes the text between the quotes of a string, unescaped, and a final zero. Returns false if it
// holds a zero or does not fit. Nothing else keeps a copy.
bool json_raw_unescape(struct bytes text, char *to, size_t size);

// Iterates over the members of an object or the items of a list:
//   for (struct json_walk w = json_walk_of(text); json_walk_next(&w, &key, &value);)
struct json_walk {
    struct bytes rest;
    bool object;
};
struct json_walk json_walk_of(struct bytes text);
// key is the text between the quotes, not unescaped; in a list it is empty. value has no whitespace
// around it.
bool json_walk_next(struct json_walk *w, struct bytes *key, struct bytes *value);
