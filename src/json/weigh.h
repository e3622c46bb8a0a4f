// SPDX-License-Identifier: Apache-2.0
// What a text would become as a tree of JSON values, found out before one is made.
#pragma once

#include <stddef.h>

#define JSON_DEPTH_MAX 128 // objects and lists inside each other that a client may send

struct json_weight {
    size_t values; // objects, lists, texts, numbers and words; keys are none
    size_t depth;  // the most objects and lists that are inside each other
    size_t bytes;  // of memory, no less than what json_parse keeps of it
};

// One pass over the text, without an allocation. The text may be anything: of one that is not JSON
// the parser never keeps more than this says.
struct json_weight json_weigh(const char *text, size_t len);
