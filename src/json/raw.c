// SPDX-License-Identifier: Apache-2.0
// Validates and walks JSON text with a cursor, one token at a time. A small stack holds the open
// objects and lists.
#include "json/raw.h"

#include "base/digits.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

#define NUMBER_SHORT   18 // a number of at most 18 bytes fits, unless its exponent is long
#define EXPONENT_SHORT 2

struct cursor {
    const uint8_t *at;
    const uint8_t *end;
    bool bad;
};

static struct cursor cursor_of(struct bytes text)
{
    // An empty text may have a NULL address. In C, even NULL + 0 is undefined.
    const uint8_t *end = text.len > 0 ? text.data + text.len : text.data;
    return (struct cursor){text.data, end, false};
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

static bool take_byte(struct cursor *c, int wanted)
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

static bool take_exponent(struct cursor *c, bool *is_short)
{
    if (!take_byte(c, 'e') && !take_byte(c, 'E')) return true;
    if (!take_byte(c, '+')) (void)take_byte(c, '-');
    const uint8_t *start = c->at;
    bool good = take_digits(c);
    *is_short = c->at - start <= EXPONENT_SHORT;
    return good;
}

// True if json_parse can hold the number: a 64-bit integer or a finite double.
static bool number_fits(struct bytes number)
{
    char why[256];
    struct json *value = json_parse((const char *)number.data, number.len, why, sizeof why);
    json_free(value);
    return value != NULL;
}

static bool take_number(struct cursor *c)
{
    const uint8_t *start = c->at;
    bool is_short = true;
    (void)take_byte(c, '-');
    if (!take_byte(c, '0') && !take_digits(c)) return false;
    if (take_byte(c, '.') && !take_digits(c)) return false;
    if (!take_exponent(c, &is_short)) return false;
    size_t len = (size_t)(c->at - start);
    return (is_short && len <= NUMBER_SHORT) || number_fits(bytes_of(start, len));
}

// Reads the four hex digits of \uXXXX. Returns -1 if they are not four hex digits.
static int take_unit(struct cursor *c)
{
    int unit = 0;
    for (int i = 0; i < 4; i++, c->at++) {
        int digit = digits_hex_value(peek(c));
        if (digit < 0) return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

static bool is_within(int value, int first, int last)
{
    return value >= first && value <= last;
}

// Reads an escape after its backslash. Returns its character, or -1 if it is invalid. A surrogate
// without its other half is invalid.
static int take_escape(struct cursor *c)
{
    static const char kinds[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    int kind = peek(c);
    if (kind <= 0) return -1;
    c->at++;
    const char *at = strchr(kinds, kind);
    if (at) return values[at - kinds];
    int unit = kind == 'u' ? take_unit(c) : -1;
    if (!is_within(unit, 0xd800, 0xdfff)) return unit;
    if (unit > 0xdbff || !take_byte(c, '\\') || !take_byte(c, 'u')) return -1;
    int low = take_unit(c);
    if (!is_within(low, 0xdc00, 0xdfff)) return -1;
    return 0x10000 + ((unit & 0x3ff) << 10 | (low & 0x3ff));
}

static bool take_text(struct cursor *c)
{
    if (!take_byte(c, '"')) return false;
    while (c->at < c->end && *c->at >= ' ') {
        uint8_t byte = *c->at++;
        if (byte == '"') return true;
        if (byte == '\\' && take_escape(c) < 0) return false;
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

struct raw_key {
    size_t object;     // the number of its object in the text
    struct bytes text; // the valid text between its quotes
};

// Returns the next character of valid text between quotes, or -1 at the end.
static int next_character(struct cursor *c)
{
    if (c->at == c->end) return -1;
    int first = *c->at++;
    if (first == '\\') return take_escape(c);
    if (first < 0x80) return first;
    int value = first < 0xe0 ? first & 0x1f : first < 0xf0 ? first & 0x0f : first & 0x07;
    while (c->at < c->end && (*c->at & 0xc0) == 0x80)
        value = value << 6 | (*c->at++ & 0x3f);
    return value;
}

static int compare_keys(const void *a, const void *b)
{
    const struct raw_key *left = a, *right = b;
    if (left->object != right->object) return left->object < right->object ? -1 : 1;
    struct cursor l = cursor_of(left->text), r = cursor_of(right->text);
    int one, other;
    do {
        one = next_character(&l);
        other = next_character(&r);
    } while (one == other && one >= 0);
    return (one > other) - (one < other);
}

// json_parse refuses a key that contains a zero.
static bool has_zero(struct bytes text)
{
    struct cursor c = cursor_of(text);
    int character;
    do {
        character = next_character(&c);
    } while (character > 0);
    return character == 0;
}

// True if no object has two equal keys. Sorts the keys.
static bool keys_differ(struct buf *keys)
{
    struct raw_key *rows = (void *)keys->data;
    size_t len = keys->len / sizeof *rows;
    if (len > 1) qsort(rows, len, sizeof *rows, compare_keys);
    for (size_t i = 1; i < len; i++)
        if (compare_keys(&rows[i - 1], &rows[i]) == 0) return false;
    return true;
}

// The objects and lists that are open at the cursor, and all keys so far.
struct open_levels {
    uint8_t ends[JSON_RAW_DEPTH_MAX];   // '}' or ']'
    size_t numbers[JSON_RAW_DEPTH_MAX]; // identifies each open object or list
    size_t depth;
    size_t opened;
    struct buf keys; // an array of struct raw_key
};

static bool take_key(struct cursor *c, struct open_levels *o)
{
    skip_space(c);
    const uint8_t *quote = c->at;
    if (!take_text(c)) return false;
    struct bytes text = bytes_of(quote + 1, (size_t)(c->at - quote) - 2);
    struct raw_key key = {o->numbers[o->depth - 1], text};
    if (has_zero(key.text)) return false;
    buf_put(&o->keys, bytes_of(&key, sizeof key));
    skip_space(c);
    return take_byte(c, ':');
}

// Reads the start of a value. Returns true if the value is complete. Returns false if its first
// child follows, or if the text is bad.
static bool value_begins(struct cursor *c, struct open_levels *o)
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
    if (take_byte(c, end)) return true;
    o->numbers[o->depth] = o->opened++;
    o->ends[o->depth++] = (uint8_t)end;
    if (end == '}') c->bad = !take_key(c, o);
    return false;
}

// Called after a value. Closes the objects and lists that end here. Returns true if another value
// follows.
static bool value_ends(struct cursor *c, struct open_levels *o)
{
    for (; o->depth > 0; o->depth--) {
        int end = o->ends[o->depth - 1];
        skip_space(c);
        if (take_byte(c, ',')) {
            if (end == '}') c->bad = !take_key(c, o);
            return !c->bad;
        }
        c->bad = !take_byte(c, end);
        if (c->bad) return false;
    }
    return false;
}

bool json_raw_ok(struct bytes text)
{
    struct cursor c = cursor_of(text);
    struct open_levels o;
    if (!utf8_ok(text.data, text.len)) return false;
    o.depth = o.opened = 0;
    buf_init(&o.keys, SIZE_MAX);
    for (bool more = true; more && !c.bad;) {
        skip_space(&c);
        more = value_begins(&c, &o) ? value_ends(&c, &o) : true;
    }
    skip_space(&c);
    bool good = !c.bad && c.at == c.end && keys_differ(&o.keys);
    buf_done(&o.keys);
    return good;
}

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

// Returns the next token, or the next byte outside of strings. Returns an empty text for white
// space.
static struct bytes next_token(struct cursor *c)
{
    const uint8_t *start = c->at;
    if (*start == '"')
        pass_text(c);
    else
        c->at++;
    return bytes_of(start, is_space(*start) ? 0 : (size_t)(c->at - start));
}

size_t json_raw_compact_len(struct bytes text)
{
    size_t len = 0;
    for (struct cursor c = cursor_of(text); c.at < c.end;)
        len += next_token(&c).len;
    return len;
}

void json_raw_compact(struct bytes text, char *to)
{
    for (struct cursor c = cursor_of(text); c.at < c.end;) {
        struct bytes token = next_token(&c);
        memcpy(to, token.data, token.len);
        to += token.len;
    }
}

static size_t utf8_len(int character)
{
    return character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
}

static void put_utf8(char *to, int character)
{
    static const int first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t len = utf8_len(character);
    *to = (char)(first[len] | character >> (6 * (len - 1)));
    for (size_t i = 1; i < len; i++)
        to[i] = (char)(0x80 | (character >> (6 * (len - 1 - i)) & 0x3f));
}

bool json_raw_unescape(struct bytes text, char *to, size_t size)
{
    struct cursor c = cursor_of(text);
    size_t len = 0;
    int character;
    while ((character = next_character(&c)) > 0 && len + utf8_len(character) < size) {
        put_utf8(to + len, character);
        len += utf8_len(character);
    }
    to[len] = 0;
    return character < 0;
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
