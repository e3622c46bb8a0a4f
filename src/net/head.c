// SPDX-License-Identifier: Apache-2.0
// The checks that HTTP itself demands of a head. The meaning of the fields is checked in
// src/server.
#include "net/head.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>
#include <strings.h>

#define FIELD_EXTRA 4 // colon, space, CR, LF

void head_done(struct head *h)
{
    memory_free(h->rows);
    *h = (struct head){0};
}

static void blame(struct head *h, int status, struct bytes name, const char *why)
{
    if (h->fault.status != 0) return; // report the first fault
    h->fault = (struct httpd_fault){.status = status, .why = why};
    size_t len = name.len < sizeof h->fault.field ? name.len : sizeof h->fault.field - 1;
    for (size_t i = 0; i < len; i++) {
        uint8_t c = name.data[i];
        h->fault.field[i] = c > ' ' && c < 127 ? (char)c : '?';
    }
}

// One bit for each of the first 128 characters: letters, digits and !#$%&'*+-.^_`|~
static bool is_token_char(uint8_t c)
{
    static const uint64_t allowed[] = {0x03ff6cfa00000000, 0x57ffffffc7fffffe};
    return c < 128 && (allowed[c >> 6] >> (c & 63) & 1);
}

static bool is_token(struct bytes name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!is_token_char(name.data[i])) return false;
    return name.len > 0;
}

// The loop has no early exit, so that the compiler can vectorise it. A match is rare.
static bool has_controls(struct bytes value)
{
    unsigned found = 0;
    for (size_t i = 0; i < value.len; i++) {
        uint8_t c = value.data[i];
        found |= (unsigned)(c < ' ') & (unsigned)(c != '\t');
        found |= (unsigned)(c == 127);
    }
    return found != 0;
}

void head_init(struct head *h, struct bytes method, struct bytes target)
{
    *h = (struct head){.bytes = method.len + target.len};
    if (!is_token(method)) blame(h, 400, bytes_str("method"), "is not a word");
    if (has_controls(target))
        blame(h, 400, bytes_str("path"), "has characters that no path may have");
    if (target.len > HEAD_TARGET_MAX) blame(h, 414, bytes_str("path"), "is too long");
}

void head_weigh(struct head *h, size_t name_len, size_t value_len)
{
    h->fields++;
    h->bytes += name_len + value_len + FIELD_EXTRA;
    h->cap += name_len + value_len + 2;
}

void head_take(struct head *h, size_t bytes_max)
{
    if (h->fields > HEAD_FIELDS_MAX)
        blame(h, 431, bytes_str("headers"), "are more than a request may have");
    if (h->bytes > bytes_max) blame(h, 431, bytes_str("headers"), "are too large");
    if (h->fault.status != 0) return;
    h->rows = memory_new(h->fields * sizeof *h->rows + h->cap + 1);
    h->text = (char *)(h->rows + h->fields);
}

static bool is(struct bytes name, const char *other)
{
    return name.len == strlen(other) && strncasecmp((const char *)name.data, other, name.len) == 0;
}

static bool read_length(struct bytes value, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9') return false;
        *out = *out * 10 + (uint64_t)(value.data[i] - '0');
    }
    return value.len > 0 && value.len < 19; // 18 digits cannot overflow
}

// The fields that frame the body, and Host: each may occur once and must have one reading.
static void check_framing(struct head *h, struct bytes name, struct bytes value)
{
    bool *seen = is(name, "Content-Length")      ? &h->has_length
                 : is(name, "Transfer-Encoding") ? &h->has_coding
                 : is(name, "Host")              ? &h->has_host
                                                 : NULL;
    if (!seen) return;
    if (*seen) blame(h, 400, name, "is given twice");
    *seen = true;
    if (seen == &h->has_length && !read_length(value, &h->length))
        blame(h, 400, name, "is not a number");
    if (seen == &h->has_coding && !is(value, "chunked"))
        blame(h, 400, name, "is not chunked, the only coding that is supported");
}

static struct bytes keep(struct head *h, struct bytes some)
{
    char *at = h->text + h->len;
    CHECK(h->len + some.len + 1 <= h->cap);
    if (some.len > 0) memcpy(at, some.data, some.len);
    at[some.len] = '\0';
    h->len += some.len + 1;
    return bytes_of(at, some.len);
}

// Spaces around a value are not part of it.
static struct bytes trimmed(struct bytes value)
{
    while (value.len > 0 && (value.data[value.len - 1] == ' ' || value.data[value.len - 1] == '\t'))
        value.len--;
    return value;
}

void head_add(struct head *h, struct bytes name, struct bytes value, bool line)
{
    if (!h->text || h->fault.status != 0) return;
    if (!line) blame(h, 400, bytes_str("headers"), "must have one line each, ended by CR and LF");
    if (!is_token(name)) blame(h, 400, name, "is not the name of a header");
    if (has_controls(value)) blame(h, 400, name, "has characters that no header may have");
    if (h->fault.status != 0) return;
    CHECK(h->rows_len < h->fields);
    name = keep(h, name);
    value = keep(h, trimmed(value));
    h->rows[h->rows_len++] =
        (struct head_row){(const char *)name.data, (const char *)value.data, name.len};
    check_framing(h, name, value);
}

void head_end(struct head *h, bool old)
{
    struct bytes coding = bytes_str("Transfer-Encoding");
    if (h->has_coding && h->has_length)
        blame(h, 400, coding, "and Content-Length exclude each other");
    if (h->has_coding && old) blame(h, 400, coding, "is not known to HTTP/1.0");
}

bool head_nth(const struct head *h, size_t i, struct httpd_pair *out)
{
    if (i >= h->rows_len) return false;
    *out = (struct httpd_pair){h->rows[i].name, h->rows[i].value};
    return true;
}

const char *head_value(const struct head *h, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < h->rows_len; i++) {
        const struct head_row *row = &h->rows[i];
        if (row->name_len == len && strncasecmp(row->name, name, len) == 0) return row->value;
    }
    return NULL;
}
