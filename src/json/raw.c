// SPDX-License-Identifier: Apache-2.0
// A cursor over the text. The checks read one token at a time; what is open stands in a small
// stack.
#include "json/raw.h"

#include "json/json.h"

#include <string.h>

struct cursor {
    const uint8_t *at;
    const uint8_t *end;
    bool bad;
};

static struct cursor cursor_of(struct bytes text)
{
    return (struct cursor){text.data, text.data + text.len, false};
}

static int peek(const struct cursor *c)
{
    return c->at < c->end ? *c->at : -1;
}

static bool is_space(int c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_space(struct cursor *c)
{
    while (is_space(peek(c)))
        c->at++;
}

// ---- checking

static bool take(struct cursor *c, int wanted)
{
    if (peek(c) != wanted) return false;
    c->at++;
    return true;
}

static bool take_digits(struct cursor *c)
{
    const uint8_t *start = c->at;
    while (peek(c) >= '0' && peek(c) <= '9')
        c->at++;
    return c->at > start;
}

static bool take_number(struct cursor *c)
{
    (void)take(c, '-');
    if (!take(c, '0') && !take_digits(c)) return false;
    if (take(c, '.') && !take_digits(c)) return false;
    if (!take(c, 'e') && !take(c, 'E')) return true;
    if (!take(c, '+')) (void)take(c, '-');
    return take_digits(c);
}

static bool is_hex(int c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool take_escape(struct cursor *c)
{
    int kind = peek(c);
    if (kind < 0 || !strchr("\"\\/bfnrtu", kind)) return false;
    c->at++;
    for (int i = 0; kind == 'u' && i < 4; i++) {
        if (!is_hex(peek(c))) return false;
        c->at++;
    }
    return true;
}

static bool take_text(struct cursor *c)
{
    if (!take(c, '"')) return false;
    while (c->at < c->end && *c->at >= ' ') {
        uint8_t byte = *c->at++;
        if (byte == '"') return true;
        if (byte == '\\' && !take_escape(c)) return false;
    }
    return false;
}

static bool take_word(struct cursor *c, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0) return false;
    c->at += len;
    return true;
}

static bool take_scalar(struct cursor *c)
{
    switch (peek(c)) {
    case '"':
        return take_text(c);
    case 't':
        return take_word(c, "true");
    case 'f':
        return take_word(c, "false");
    case 'n':
        return take_word(c, "null");
    default:
        return take_number(c);
    }
}

static bool take_key(struct cursor *c)
{
    skip_space(c);
    if (!take_text(c)) return false;
    skip_space(c);
    return take(c, ':');
}

// What is open around the cursor.
struct open {
    uint8_t ends[JSON_RAW_DEPTH_MAX]; // '}' or ']'
    size_t depth;
};

// The start of a value. True: it is whole; false: its first part comes next, or it is bad.
static bool value_begins(struct cursor *c, struct open *o)
{
    int first = peek(c);
    if (first != '{' && first != '[') {
        c->bad = !take_scalar(c);
        return !c->bad;
    }
    if (o->depth == JSON_RAW_DEPTH_MAX) {
        c->bad = true;
        return false;
    }
    int end = first == '{' ? '}' : ']';
    c->at++;
    skip_space(c);
    if (take(c, end)) return true;
    o->ends[o->depth++] = (uint8_t)end;
    if (end == '}') c->bad = !take_key(c);
    return false;
}

// Behind a value: closes what ends there. True: another value comes.
static bool value_ends(struct cursor *c, struct open *o)
{
    for (; o->depth > 0; o->depth--) {
        int end = o->ends[o->depth - 1];
        skip_space(c);
        if (take(c, ',')) {
            if (end == '}') c->bad = !take_key(c);
            return !c->bad;
        }
        c->bad = !take(c, end);
        if (c->bad) return false;
    }
    return false;
}

bool json_raw_ok(struct bytes text)
{
    struct cursor c = cursor_of(text);
    struct open o = {.depth = 0};
    if (!utf8_ok(text.data, text.len)) return false;
    for (bool more = true; more && !c.bad;) {
        skip_space(&c);
        more = value_begins(&c, &o) ? value_ends(&c, &o) : true;
    }
    skip_space(&c);
    return !c.bad && c.at == c.end;
}

// ---- passing over valid text

static void pass_text(struct cursor *c)
{
    for (c->at++; c->at < c->end && *c->at != '"'; c->at++)
        if (*c->at == '\\' && c->at + 1 < c->end) c->at++;
    if (c->at < c->end) c->at++;
}

static void pass_value(struct cursor *c)
{
    size_t depth = 0;
    do {
        int first = peek(c);
        if (first == '"') {
            pass_text(c);
            continue;
        }
        if (first == '{' || first == '[') depth++;
        if (first == '}' || first == ']') depth--;
        c->at++;
        bool scalar = depth == 0 && first != '}' && first != ']';
        while (scalar && c->at < c->end && !is_space(*c->at) && !strchr(",]}", *c->at))
            c->at++;
    } while (depth > 0 && c->at < c->end);
}

size_t json_raw_compact_len(struct bytes text)
{
    size_t len = 0;
    for (struct cursor c = cursor_of(text); c.at < c.end;) {
        const uint8_t *start = c.at;
        if (*start == '"') {
            pass_text(&c);
        } else {
            c.at++;
        }
        if (!is_space(*start)) len += (size_t)(c.at - start);
    }
    return len;
}

void json_raw_compact(struct bytes text, char *to)
{
    for (struct cursor c = cursor_of(text); c.at < c.end;) {
        const uint8_t *start = c.at;
        if (*start == '"') {
            pass_text(&c);
        } else {
            c.at++;
        }
        if (is_space(*start)) continue;
        memcpy(to, start, (size_t)(c.at - start));
        to += c.at - start;
    }
}

struct json_walk json_walk_of(struct bytes text)
{
    struct cursor c = cursor_of(text);
    skip_space(&c);
    bool object = peek(&c) == '{';
    if (c.at < c.end) c.at++;
    return (struct json_walk){.rest = bytes_of(c.at, (size_t)(c.end - c.at)), .object = object};
}

bool json_walk_next(struct json_walk *w, struct bytes *key, struct bytes *value)
{
    struct cursor c = cursor_of(w->rest);
    *key = *value = BYTES_EMPTY;
    while (is_space(peek(&c)) || peek(&c) == ',')
        c.at++;
    if (peek(&c) == '}' || peek(&c) == ']') c.at = c.end;
    if (c.at == c.end) return false;
    if (w->object) {
        const uint8_t *start = c.at + 1;
        pass_text(&c);
        if (c.at > start) *key = bytes_of(start, (size_t)(c.at - start) - 1);
        while (is_space(peek(&c)) || peek(&c) == ':')
            c.at++;
        if (c.at == c.end) return false;
    }
    const uint8_t *start = c.at;
    pass_value(&c);
    *value = bytes_of(start, (size_t)(c.at - start));
    w->rest = bytes_of(c.at, (size_t)(c.end - c.at));
    return true;
}
