// SPDX-License-Identifier: Apache-2.0
// JSON as text: values that are passed on as they were written. Nothing is parsed into a tree, so a
// number keeps its digits and an object its order.
#pragma once

#include "base/bytes.h"

#define JSON_RAW_DEPTH_MAX 128

// One value and nothing else, as RFC 8259 has it, that json_parse accepts: no key comes twice, each
// surrogate has its other half, each number fits. At most JSON_RAW_DEPTH_MAX objects and lists are
// inside each other.
bool json_raw_ok(struct bytes text);

// The rest is for text that is valid JSON; of any other the answers mean nothing, but no byte
// outside the text is read.

// Without the space between its parts; how long that is, and the text itself.
size_t json_raw_compact_len(struct bytes text);
void json_raw_compact(struct bytes text, char *to); // json_raw_compact_len bytes

// The members of an object, or the items of a list:
// for (struct json_walk w = json_walk_of(text); json_walk_next(&w, &key, &value);)
struct json_walk {
    struct bytes rest;
    bool object;
};
struct json_walk json_walk_of(struct bytes text);
// key: as written between its quotes, and empty in a list. value: without the space around it.
bool json_walk_next(struct json_walk *w, struct bytes *key, struct bytes *value);
