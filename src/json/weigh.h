// SPDX-License-Identifier: Apache-2.0
// Estimates what a JSON text costs as a tree of values, before the tree is built.
#pragma once

#include <stddef.h>

#define JSON_DEPTH_MAX 128 // how deep objects and lists of a client may nest

struct json_weight {
    size_t values; // objects, lists, strings, numbers, true, false and null; keys do not count
    size_t depth;  // the deepest nesting of objects and lists
    size_t bytes;  // of memory; an upper bound of what json_parse allocates
};

// Reads the text once and allocates nothing. The text may be anything. If it is not JSON, the
// parser never holds more than the estimate.
struct json_weight json_weigh(const char *text, size_t len);
