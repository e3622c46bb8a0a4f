// SPDX-License-Identifier: Apache-2.0
// Writes values as text on one line. A value that is JSON text already (json_raw) is written
// unchanged.
#include "base/check.h"
#include "base/digits.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

static void put_chars(struct buf *to, const char *text, size_t len)
{
    buf_put(to, bytes_of(text, len));
}

static void put_escape(struct buf *to, uint8_t c)
{
    static const char from[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    const char *at = memchr(from, c, sizeof from - 1);
    char text[8];
    if (at) {
        put_chars(to, (char[]){'\\', names[at - from]}, 2);
    } else {
        (void)snprintf(text, sizeof text, "\\u%04X", c);
        put_chars(to, text, 6);
    }
}

static void put_quoted(struct buf *to, struct bytes text)
{
    size_t start = 0;
    put_chars(to, "\"", 1);
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if (c >= ' ' && c != '"' && c != '\\') continue;
        buf_put(to, bytes_of(text.data + start, i - start));
        put_escape(to, c);
        start = i + 1;
    }
    buf_put(to, bytes_of(text.data + start, text.len - start));
    put_chars(to, "\"", 1);
}

// Writes the fewest digits that give the same number again. The text always has a point or an
// exponent.
static void put_fraction(struct buf *to, double value)
{
    char text[40];
    (void)snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value) (void)snprintf(text, sizeof text, "%.17g", value);
    for (char *c = text; *c; c++)
        if (*c == ',') *c = '.'; // some locales print a comma
    put_chars(to, text, strlen(text));
    if (!strpbrk(text, ".e")) put_chars(to, ".0", 2);
}

static void put_number(struct buf *to, int64_t value)
{
    char text[DIGITS_MAX + 2], *at = text;
    if (value < 0) *at++ = '-';
    at = digits_put(at, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
    put_chars(to, text, (size_t)(at - text));
}

static void put_value(struct buf *to, struct json *value);

static void put_object(struct buf *to, struct json *object)
{
    const char *key;
    struct json *value;
    bool first = true;
    struct bytes raw = json_raw_text(object);
    if (raw.data) {
        buf_put(to, raw);
        return;
    }
    put_chars(to, "{", 1);
    for (void *at = NULL; json_next(object, &at, &key, &value); first = false) {
        if (!first) put_chars(to, ",", 1);
        put_quoted(to, bytes_str(key));
        put_chars(to, ":", 1);
        put_value(to, value);
    }
    put_chars(to, "}", 1);
}

static void put_list(struct buf *to, struct json *list)
{
    put_chars(to, "[", 1);
    for (size_t i = 0; i < json_list_len(list); i++) {
        if (i > 0) put_chars(to, ",", 1);
        put_value(to, json_list_at(list, i));
    }
    put_chars(to, "]", 1);
}

static void put_value(struct buf *to, struct json *value)
{
    switch (json_kind(value)) {
    case JSON_KIND_NULL:
        put_chars(to, "null", 4);
        break;
    case JSON_KIND_BOOL:
        buf_put(to, bytes_str(json_as_bool(value) ? "true" : "false"));
        break;
    case JSON_KIND_NUMBER:
        put_number(to, json_as_number(value));
        break;
    case JSON_KIND_FRACTION:
        put_fraction(to, json_as_fraction(value));
        break;
    case JSON_KIND_TEXT:
        put_quoted(to, json_as_text(value));
        break;
    case JSON_KIND_LIST:
        put_list(to, value);
        break;
    case JSON_KIND_OBJECT:
        put_object(to, value);
        break;
    }
}

void json_write(struct json *value, struct buf *to)
{
    put_value(to, value);
    json_free(value);
}

// JSON escapes only C0, but a terminal also interprets DEL and C1. Returns how many bytes were
// read.
static size_t put_special(const uint8_t *at, struct buf *to)
{
    char text[8];
    unsigned first = at[0], second = at[1];
    if (first != 0x7f && second >= 0xa0) {
        buf_put_u8(to, at[0]);
        return 1;
    }
    (void)snprintf(text, sizeof text, "\\u%04x", first == 0x7f ? first : second);
    put_chars(to, text, 6);
    return first == 0x7f ? 1 : 2;
}

void json_write_plain(struct json *value, struct buf *to)
{
    LOCAL(buf, line, SIZE_MAX);
    json_write(value, &line);
    buf_put_u8(&line, 0);
    CHECK(!line.bad);
    for (const char *at = (const char *)line.data; *at;) {
        size_t plain = strcspn(at, "\x7f\xc2");
        put_chars(to, at, plain);
        at += plain;
        if (*at) at += put_special((const uint8_t *)at, to);
    }
}

void json_print(struct json *object, FILE *out)
{
    LOCAL(buf, line, SIZE_MAX);
    json_write_plain(object, &line);
    buf_put_u8(&line, '\n');
    CHECK(!line.bad);
    (void)fwrite(line.data, 1, line.len, out);
}
