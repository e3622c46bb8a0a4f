// SPDX-License-Identifier: Apache-2.0
// Counts what stands outside texts. Each kind of character costs what jansson allocates for the
// value that it begins, in the chunks of the C library (16 bytes, a header of 8). The parser stops
// at the first error, so the count of a whole text is never less than that of what it has read.
#include "json/weigh.h"

#include <stdbool.h>
#include <string.h>

#define OBJECT 224 // the object, and a table of eight buckets
#define MEMBER 32  // what the pair takes beside the text of its key, and a table that is doubled
#define LIST   128 // the list, and a table of eight
#define ITEM   24  // its share of a table that is doubled while the old one is still there
#define TEXT   112 // the value, the chunk of its bytes without them, a row of a table of texts
#define NUMBER 32  // also of true, false and null, which cost nothing

// The end of the text that begins behind a quote: the place of the other quote, or len.
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
    bool in_word = false; // a number, or a word such as true
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
