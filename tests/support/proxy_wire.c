// SPDX-License-Identifier: Apache-2.0
// A message is its head, up to an empty line, and a body whose length the head tells: by
// Content-Length, in chunks, or until the peer closes (RFC 9112, 6.3).
#define _GNU_SOURCE // memmem
#include "proxy_wire.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define READ_BYTES (64 << 10)

void wire_init(struct wire *w)
{
    *w = (struct wire){0};
    buf_init(&w->all, WIRE_MESSAGE_MAX);
}

void wire_done(struct wire *w)
{
    buf_done(&w->all);
}

static void clear(struct wire *w)
{
    buf_clear(&w->all);
    w->head_len = 0;
    w->method[0] = '\0';
    w->status = 0;
    w->closes = false;
}

static bool read_more(struct wire *w, int fd)
{
    uint8_t *to = buf_grow(&w->all, READ_BYTES);
    if (!to) return false;
    w->all.len -= READ_BYTES;
    ssize_t got = recv(fd, to, READ_BYTES, 0);
    if (got <= 0) return false;
    w->all.len += (size_t)got;
    return true;
}

// Reads until `what` is there, looking from `from` on; where it ends, or 0.
static size_t read_until(struct wire *w, int fd, size_t from, const char *what)
{
    for (;;) {
        const uint8_t *found = NULL;
        if (w->all.len > from)
            found = memmem(w->all.data + from, w->all.len - from, what, strlen(what));
        if (found) return (size_t)(found - w->all.data) + strlen(what);
        if (!read_more(w, fd)) return 0;
    }
}

static bool read_to_len(struct wire *w, int fd, size_t len)
{
    while (w->all.len < len)
        if (!read_more(w, fd)) return false;
    return w->all.len == len; // more than that would be a second message: no client here pipelines
}

// The value of a header in the head, or NULL.
static const char *header(const struct wire *w, const char *name)
{
    const char *line = (const char *)w->all.data;
    const char *end = line + w->head_len - 2;
    while ((line = memmem(line, (size_t)(end - line), "\r\n", 2)) && line + 2 < end) {
        line += 2;
        size_t len = strlen(name);
        if (strncasecmp(line, name, len) != 0 || line[len] != ':') continue;
        line += len + 1;
        while (*line == ' ')
            line++;
        return line;
    }
    return NULL;
}

static bool says(const struct wire *w, const char *name, const char *value)
{
    const char *found = header(w, name);
    return found && strncasecmp(found, value, strlen(value)) == 0;
}

static bool read_chunks(struct wire *w, int fd)
{
    size_t at = w->head_len;
    for (;;) {
        size_t line_end = read_until(w, fd, at, "\r\n");
        if (line_end == 0) return false;
        size_t len = strtoul((const char *)w->all.data + at, NULL, 16);
        if (len > WIRE_MESSAGE_MAX) return false;
        if (len == 0) return read_until(w, fd, line_end - 2, "\r\n\r\n") == w->all.len;
        at = line_end + len + 2;
        while (w->all.len < at)
            if (!read_more(w, fd)) return false;
    }
}

static bool read_until_closed(struct wire *w, int fd)
{
    w->closes = true;
    while (read_more(w, fd))
        continue;
    return !w->all.bad;
}

static bool read_head(struct wire *w, int fd)
{
    w->head_len = read_until(w, fd, 0, "\r\n\r\n");
    if (w->head_len == 0) return false;
    w->closes = says(w, "Connection", "close");
    return true;
}

static bool read_body(struct wire *w, int fd, bool may_last_until_closed)
{
    if (says(w, "Transfer-Encoding", "chunked")) return read_chunks(w, fd);
    const char *len = header(w, "Content-Length");
    if (!len && may_last_until_closed) return read_until_closed(w, fd);
    unsigned long body = len ? strtoul(len, NULL, 10) : 0;
    return body < WIRE_MESSAGE_MAX && read_to_len(w, fd, w->head_len + body);
}

// The client waits for a word before it sends a large body. The server will say the same to us, and
// is not heard.
static bool encourage(const struct wire *w, int fd)
{
    if (!says(w, "Expect", "100-continue") || w->all.len > w->head_len) return true;
    return wire_write(fd, bytes_str("HTTP/1.1 100 Continue\r\n\r\n"));
}

bool wire_read_request(struct wire *w, int fd)
{
    clear(w);
    if (!read_head(w, fd)) return false;
    size_t len = 0;
    while (len < sizeof w->method - 1 && isupper(w->all.data[len]))
        len++;
    memcpy(w->method, w->all.data, len);
    w->method[len] = '\0';
    return encourage(w, fd) && read_body(w, fd, false);
}

static void drop_interim(struct wire *w)
{
    w->all.len -= w->head_len;
    memmove(w->all.data, w->all.data + w->head_len, w->all.len);
}

bool wire_read_answer(struct wire *w, int fd, bool is_head)
{
    clear(w);
    for (;;) {
        if (!read_head(w, fd) || w->head_len < 13) return false;
        w->status = (int)strtol((const char *)w->all.data + 9, NULL, 10);
        if (w->status >= 200) break;
        drop_interim(w);
    }
    if (is_head || w->status == 204 || w->status == 304) return w->all.len == w->head_len;
    return read_body(w, fd, true);
}

bool wire_write(int fd, struct bytes from)
{
    while (from.len > 0) {
        ssize_t sent = send(fd, from.data, from.len, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        from = bytes_of(from.data + sent, from.len - (size_t)sent);
    }
    return true;
}
