// SPDX-License-Identifier: Apache-2.0
#include "net/http_answer.h"

#include "base/digits.h"
#include "net/http_text.h"

#include <string.h>
#include <strings.h>

#define CHUNK_DIGITS_MAX 15
#define LINE_MAX_LEN     ((size_t)8 << 10) // of a chunk's length or a trailer

static struct bytes cut(struct bytes *in, size_t len)
{
    struct bytes front = bytes_of(in->data, len);
    *in = bytes_of(in->data + len, in->len - len);
    return front;
}

// "HTTP/1.1 200 OK". Returns 0 for any other line.
static int status_of(struct bytes line)
{
    int status = 0;
    if (!http_is_status_line(line) || line.len < 13 || line.data[8] != ' ') return 0;
    for (size_t i = 9; i < 12; i++) {
        if (line.data[i] < '0' || line.data[i] > '9') return 0;
        status = status * 10 + line.data[i] - '0';
    }
    return status;
}

// A length above the range is a long one. Returns false for a text that is no length.
static bool read_length(struct bytes text, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        *out = *out > UINT64_MAX / 16 ? UINT64_MAX : *out * 10 + text.data[i] - '0';
    }
    return true;
}

static bool says(const struct http_call *c, const char *name, const char *word)
{
    struct bytes value = http_header(c, name);
    return value.len == strlen(word) && strncasecmp((const char *)value.data, word, value.len) == 0;
}

static enum http_took begin_body(struct http_answer *a, struct http_call *c)
{
    struct bytes length = http_header(c, "content-length");
    a->keeps = !says(c, "connection", "close") && c->head.data[7] == '1';
    if (strcmp(c->method, "HEAD") == 0 || c->status == 204 || c->status == 304) {
        a->part = HTTP_PART_WHOLE;
    } else if (says(c, "transfer-encoding", "chunked")) {
        a->part = HTTP_PART_CHUNK_LEN;
    } else if (length.len > 0) {
        if (!read_length(length, &a->left)) return HTTP_TOOK_BAD;
        if (a->left > c->body_max) return HTTP_TOOK_LONG;
        a->part = a->left > 0 ? HTTP_PART_BODY : HTTP_PART_WHOLE;
    } else {
        a->part = HTTP_PART_TO_END;
        a->keeps = false;
    }
    return HTTP_TOOK_HEAD;
}

// Takes a line of the head, or a part of one.
static enum http_took take_head(struct http_answer *a, struct http_call *c, struct bytes *in)
{
    const uint8_t *end = memchr(in->data, '\n', in->len);
    buf_put(&c->head, cut(in, end ? (size_t)(end - in->data) + 1 : in->len));
    if (c->head.bad) return HTTP_TOOK_BAD;
    if (!end) return HTTP_TOOK_SOME;
    struct bytes line = bytes_of(c->head.data + a->line_at, c->head.len - a->line_at);
    if (a->line_at == 0) c->status = status_of(line);
    if (c->status == 0) return HTTP_TOOK_BAD;
    a->line_at = c->head.len;
    if (!http_is_blank_line(line)) return HTTP_TOOK_SOME;
    if (c->status >= 200) return begin_body(a, c);
    buf_clear(&c->head);
    a->line_at = 0;
    return HTTP_TOOK_SOME;
}

static enum http_took take_body(struct http_answer *a, struct http_call *c, struct bytes *in)
{
    bool sized = a->part != HTTP_PART_TO_END;
    size_t len = sized && a->left < in->len ? (size_t)a->left : in->len;
    if (c->body_in.len == 0) http_reserve(c);
    buf_put(&c->body_in, cut(in, len));
    if (c->body_in.bad) return HTTP_TOOK_LONG;
    if (!sized) return HTTP_TOOK_SOME;
    a->left -= len;
    if (a->left == 0) a->part = a->part == HTTP_PART_BODY ? HTTP_PART_WHOLE : HTTP_PART_CHUNK_END;
    return HTTP_TOOK_SOME;
}

// "1f; extension"
static enum http_took take_chunk_len(struct http_answer *a, const struct http_call *c,
                                     struct bytes *in)
{
    uint8_t byte = *cut(in, 1).data;
    int digit = a->extended ? -1 : digits_hex_value(byte);
    if (byte == '\n') {
        bool has_digits = a->line_len > 0;
        a->line_len = 0;
        a->extended = false;
        a->part = a->left > 0 ? HTTP_PART_CHUNK : HTTP_PART_TRAILER;
        if (a->left > c->body_max) return HTTP_TOOK_LONG;
        return has_digits ? HTTP_TOOK_SOME : HTTP_TOOK_BAD;
    }
    a->line_len++;
    if (digit < 0) {
        a->extended = true;
        return a->line_len > 1 && a->line_len < LINE_MAX_LEN ? HTTP_TOOK_SOME : HTTP_TOOK_BAD;
    }
    a->left = a->left * 16 + (unsigned)digit;
    return a->line_len <= CHUNK_DIGITS_MAX ? HTTP_TOOK_SOME : HTTP_TOOK_BAD;
}

static enum http_took take_chunk_end(struct http_answer *a, struct bytes *in)
{
    uint8_t byte = *cut(in, 1).data;
    if (byte == '\n') a->part = HTTP_PART_CHUNK_LEN;
    return byte == '\n' || byte == '\r' ? HTTP_TOOK_SOME : HTTP_TOOK_BAD;
}

static enum http_took take_trailer(struct http_answer *a, struct bytes *in)
{
    uint8_t byte = *cut(in, 1).data;
    if (byte == '\n' && a->line_len == 0)
        a->part = HTTP_PART_WHOLE;
    else if (byte != '\r')
        a->line_len = byte == '\n' ? 0 : a->line_len + 1;
    return a->line_len < LINE_MAX_LEN ? HTTP_TOOK_SOME : HTTP_TOOK_BAD;
}

static enum http_took take_part(struct http_answer *a, struct http_call *c, struct bytes *in)
{
    switch (a->part) {
    case HTTP_PART_HEAD:
        return take_head(a, c, in);
    case HTTP_PART_BODY:
    case HTTP_PART_TO_END:
    case HTTP_PART_CHUNK:
        return take_body(a, c, in);
    case HTTP_PART_CHUNK_LEN:
        return take_chunk_len(a, c, in);
    case HTTP_PART_CHUNK_END:
        return take_chunk_end(a, in);
    case HTTP_PART_TRAILER:
        return take_trailer(a, in);
    case HTTP_PART_WHOLE:
        break;
    }
    return HTTP_TOOK_WHOLE;
}

enum http_took http_answer_take(struct http_answer *a, struct http_call *c, struct bytes *in)
{
    while (in->len > 0 && a->part != HTTP_PART_WHOLE) {
        enum http_took took = take_part(a, c, in);
        if (took != HTTP_TOOK_SOME) return took;
    }
    return a->part == HTTP_PART_WHOLE ? HTTP_TOOK_WHOLE : HTTP_TOOK_SOME;
}

bool http_answer_end(struct http_answer *a)
{
    if (a->part == HTTP_PART_TO_END) a->part = HTTP_PART_WHOLE;
    return a->part == HTTP_PART_WHOLE;
}
