// SPDX-License-Identifier: Apache-2.0
// The parts of a call that need no connection. Answers come from outside, so any bytes must be
// safe.
#include "net/http_text.h"

#include "base/authority.h"
#include "base/digits.h"
#include "base/text.h"
#include "net/dial.h"
#include "net/http.h"
#include "os/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define RESERVE_MIN ((size_t)32 << 10)
#define IF_PLAIN    "; if it does not speak TLS, use http://%s"

void http_call_init(struct http_call *c, const char *method, const char *url)
{
    *c = (struct http_call){.method = method, .url = url, .body_max = HTTP_BODY_MAX};
    buf_init(&c->head, HTTP_HEADERS_MAX);
    buf_init(&c->body_in, HTTP_BODY_MAX);
}

void http_call_done(struct http_call *c)
{
    buf_done(&c->head);
    buf_done(&c->body_in);
}

void http_call_clear(struct http_call *c)
{
    buf_clear(&c->head);
    buf_clear(&c->body_in);
    c->body_in.limit = c->body_max;
    c->end = HTTP_NOT_SENT;
    c->status = 0;
    c->sends = 0;
    c->untrusted = false;
    c->why[0] = 0;
    c->sent_ms = c->received_ms = clock_boot_ms();
}

void http_place(const char *url, char place[HTTP_PLACE_MAX])
{
    struct bytes text = authority_of(url);
    struct authority at;
    bool secure = strncasecmp(url, "https:", 6) == 0;
    bool has_port = !authority_split(text, &at) || at.port.len > 0;
    if (text.len >= HTTP_PLACE_MAX) text.len = HTTP_PLACE_MAX - 1;
    (void)snprintf(place, HTTP_PLACE_MAX, "%.*s%s", (int)text.len, (const char *)text.data,
                   has_port ? ""
                   : secure ? ":443"
                            : ":80");
}

bool http_host_of(const char *url, struct http_host *out)
{
    struct authority at;
    out->secure = strncmp(url, "https://", 8) == 0;
    if (!out->secure && strncmp(url, "http://", 7) != 0) return false;
    const char *from = strstr(url, "://") + 3;
    size_t len = strcspn(from, "/?#");
    return authority_split(bytes_of(from, len), &at) && at.host.len > 0 &&
           !memchr(from, '@', len) && text_copy_len(out->name, sizeof out->name, from, len) &&
           text_copy_len(out->host, sizeof out->host, (const char *)at.host.data, at.host.len) &&
           (at.port.len > 0 ? text_copy_len(out->port, sizeof out->port, (const char *)at.port.data,
                                            at.port.len)
                            : text_copy(out->port, sizeof out->port, out->secure ? "443" : "80")) &&
           text_copy(out->base, sizeof out->base, from + len);
}

const char *http_path(const char *url)
{
    const char *path = strchr(strstr(url, "://") + 3, '/');
    return path ? path : "/";
}

static void put_text(struct buf *to, const char *text)
{
    buf_put(to, bytes_str(text));
}

void http_put_head(struct buf *to, const struct http_call *c, const char *host, const char *path,
                   const char *more)
{
    char length[DIGITS_MAX];
    put_text(to, c->method);
    put_text(to, " ");
    put_text(to, path);
    put_text(to, " HTTP/1.1\r\nHost: ");
    put_text(to, host);
    put_text(to, "\r\nUser-Agent: sluice\r\n");
    for (size_t i = 0; i < c->headers_len; i++) {
        put_text(to, c->headers[i]);
        put_text(to, "\r\n");
    }
    put_text(to, more);
    if (*more) put_text(to, "\r\n");
    if (c->body.len > 0 || *c->method == 'P') {
        put_text(to, "Content-Length: ");
        buf_put(to, bytes_of(length, (size_t)(digits_put(length, c->body.len) - length)));
        put_text(to, "\r\n");
    }
    put_text(to, "\r\n");
}

bool http_is_status_line(struct bytes line)
{
    return line.len >= 5 && memcmp(line.data, "HTTP/", 5) == 0; // no header name has a slash
}

bool http_is_blank_line(struct bytes line)
{
    return line.len > 0 && (line.data[0] == '\r' || line.data[0] == '\n');
}

bool http_has_name(const char *line, const char *name)
{
    size_t len = strlen(name);
    return strncasecmp(line, name, len) == 0 && (line[len] == ':' || line[len] == ';');
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct bytes trimmed(struct bytes text)
{
    while (text.len > 0 && is_blank(text.data[text.len - 1]))
        text.len--;
    while (text.len > 0 && is_blank(text.data[0]))
        text = bytes_of(text.data + 1, text.len - 1);
    return text;
}

static bool starts_with_name(struct bytes line, const char *name, size_t name_len)
{
    return line.len > name_len && line.data[name_len] == ':' &&
           strncasecmp((const char *)line.data, name, name_len) == 0;
}

struct bytes http_header(const struct http_call *c, const char *name)
{
    size_t name_len = strlen(name);
    struct bytes left = buf_bytes(&c->head);
    while (left.len > 0) {
        const uint8_t *end = memchr(left.data, '\n', left.len);
        size_t len = end ? (size_t)(end - left.data) + 1 : left.len;
        struct bytes line = bytes_of(left.data, len);
        if (starts_with_name(line, name, name_len))
            return trimmed(bytes_of(line.data + name_len + 1, line.len - name_len - 1));
        left = bytes_of(left.data + len, left.len - len);
    }
    return BYTES_EMPTY;
}

void http_reserve(struct http_call *c)
{
    struct bytes text = http_header(c, "content-length");
    size_t room = 0;
    for (size_t i = 0; i < text.len && room <= HTTP_BODY_MAX; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return;
        room = room * 10 + (size_t)(text.data[i] - '0');
    }
    if (room < RESERVE_MIN || room > c->body_max || room > HTTP_BODY_MAX) return;
    if (buf_grow(&c->body_in, room)) c->body_in.len = 0;
}

void http_say_unconnected(struct http_call *c, const char *place, const char *curl_says, int number)
{
    char words[64], host[HTTP_PLACE_MAX], tried[HTTP_PLACE_MAX + 16];
    const char *reason = dial_words(number, words, sizeof words);
    int port = 0;
    bool named = sscanf(curl_says, "Failed to connect to %79s port %d", host, &port) == 2;
    (void)snprintf(tried, sizeof tried, "%s:%d", named ? host : "", port);
    if (named && strcmp(tried, place) != 0 && !strstr(place, "["))
        (void)snprintf(c->why, sizeof c->why, "cannot connect to %s for %s: %s", tried, place,
                       reason);
    else
        (void)snprintf(c->why, sizeof c->why, "cannot connect to %s: %s", place, reason);
}

void http_say_busy(struct http_call *c, int64_t waited_ms, size_t connections)
{
    char place[HTTP_PLACE_MAX];
    http_place(c->url, place);
    (void)snprintf(c->why, sizeof c->why,
                   "no free connection to %s within %lld ms: all %zu are in use", place,
                   (long long)waited_ms, connections);
    c->received_ms = clock_boot_ms();
}

void http_say_timeout(struct http_call *c, const char *place, bool in_handshake)
{
    long long took = clock_boot_ms() - c->sent_ms;
    if (c->sends > 0)
        (void)snprintf(c->why, sizeof c->why, "%s did not answer within %lld ms", place, took);
    else if (in_handshake)
        (void)snprintf(c->why, sizeof c->why,
                       "%s did not finish the TLS handshake within %lld ms" IF_PLAIN, place, took,
                       place);
    else
        (void)snprintf(c->why, sizeof c->why, "cannot connect to %s: no connection within %lld ms",
                       place, took);
}

static bool has_one_of(const char *words, const char *const parts[])
{
    while (*parts && !strstr(words, *parts))
        parts++;
    return *parts != NULL;
}

// A server without TLS reads the client's first record as a malformed request. Some such servers
// answer it in plain HTTP, some close the connection. A node does either, by the record's random
// bytes: libmicrohttpd closes without an answer if the first line has no space.
void http_say_insecure(struct http_call *c, const char *place, const char *words)
{
    static const char *const plain[] = {"wrong version number", "packet length too long",
                                        "record layer failure", "unexpected TLS packet", NULL};
    // The first three precede the system's words, where OpenSSL has no error of its own.
    static const char *const closed[] = {"SSL_connect:",
                                         "Recv failure:",
                                         "Send failure:",
                                         "unexpected eof",
                                         "non-properly terminated",
                                         "Error in the pull function",
                                         "Error in the push function",
                                         NULL};
    if (has_one_of(words, plain))
        (void)snprintf(c->why, sizeof c->why, "%s does not speak TLS; use http://%s", place, place);
    else if (has_one_of(words, closed))
        (void)snprintf(c->why, sizeof c->why,
                       "%s closed the connection during the TLS handshake" IF_PLAIN, place, place);
    else
        (void)snprintf(c->why, sizeof c->why, "cannot connect to %s securely: %s", place, words);
}
