// SPDX-License-Identifier: Apache-2.0
// Counts the tokens outside of strings. Each token costs what jansson allocates for it, rounded to
// the chunks of the C library (16 bytes, with a header of 8). The parser stops at the first error,
// so the cost of the whole text is never less than the cost of the part that it has read.
#include "json/weigh.h"

#include <stdbool.h>

#define OBJECT 224 // the object and a table of eight buckets
#define MEMBER 32  // a key and value pair without the key's text, and its share of a doubled table
#define LIST   128 // the list and a table of eight
#define ITEM   24  // its share of a doubled table while the old table still exists
#define TEXT   112 // the value, the overhead of its bytes, and a table row
#define NUMBER 32  // also counted for true, false and null, which cost nothing

// Returns the place of the closing quote, or len. `at` is the place after the opening quote.
static size_t text_end(const char *text, size_t at, size_t len)
{
    while (at < len && text[at] != '"')
        at += text[at] == '\\' ? 2 : 1;
    return at < len ? at : len;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

struct json_weight json_weigh(const char *text, size_t len)
{
    struct json_weight w = {0};
    size_t depth = 0, keys = 0;
    bool in_word = false; // inside a number or a word such as true
    for (size_t at = 0; at < len; at++) {
        char c = text[at];
        bool word = false;
        if (c == '{' || c == '[') {
            w.values++;
            w.bytes += c == '{' ? OBJECT : LIST;
            if (++depth > w.depth) w.depth = depth;
        } else if (c == '}' || c == ']') {
            if (depth > 0) depth--;
        } else if (c == ':') {
            keys++;
            w.bytes += MEMBER;
        } else if (c == ',') {
            w.bytes += ITEM;
        } else if (c == '"') {
            size_t end = text_end(text, at + 1, len);
            w.values++;
            w.bytes += TEXT + (end - at);
            at = end;
        } else if (!is_space(c)) {
            word = true;
            if (!in_word) w.values++;
            if (!in_word) w.bytes += NUMBER;
        }
        in_word = word;
    }
    w.values -= keys < w.values ? keys : w.values;
    return w;
}
