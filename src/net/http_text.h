// SPDX-License-Identifier: Apache-2.0
// The text of HTTP, without a connection: the host and port of a URL, and header lines.
#pragma once

#include "net/http.h"

#define HTTP_PLACE_MAX 80

void http_call_clear(struct http_call *c); // clears the answer; keeps its memory

// The "host:port" of a URL, with the scheme's default port if it names none, without user and
// password. Truncated if it is long.
void http_place(const char *url, char place[HTTP_PLACE_MAX]);

// The server of a URL.
#define HTTP_HOST_MAX 256
#define HTTP_BASE_MAX 208
struct http_host {
    char name[HTTP_HOST_MAX]; // host and port, as the Host header has them
    char host[HTTP_HOST_MAX]; // without brackets
    char port[8];
    char base[HTTP_BASE_MAX]; // the URL's own path; "": none
    bool secure;
};
// Returns false if it is not "http://host:port" or "https://host:port", perhaps with a path.
bool http_host_of(const char *url, struct http_host *out);
const char *http_path(const char *url); // path and query; "/": the URL has none
// The head of a request. host: with the port, as the URL has it. more: one more header line, or "".
void http_put_head(struct buf *to, const struct http_call *c, const char *host, const char *path,
                   const char *more);
bool http_is_status_line(struct bytes line);
bool http_is_blank_line(struct bytes line);
bool http_has_name(const char *line, const char *name); // "Name: value", in any letter case
// Allocates the memory of a large body at once, from Content-Length, instead of growing step by
// step.
void http_reserve(struct http_call *c);
// These set c->why. `curl_says` is libcurl's text: if a proxy could not be reached, only this text
// names it. `number` is an errno value; 0: none.
void http_say_unconnected(struct http_call *c, const char *place, const char *curl_says,
                          int number);
// All connections were in use for that long.
void http_say_busy(struct http_call *c, int64_t waited_ms, size_t connections);
// in_handshake: the connection was open, and the TLS handshake was not over.
void http_say_timeout(struct http_call *c, const char *place, bool in_handshake);
// A TLS handshake failed. `words` is libcurl's text, with the reason from OpenSSL or GnuTLS.
void http_say_insecure(struct http_call *c, const char *place, const char *words);
