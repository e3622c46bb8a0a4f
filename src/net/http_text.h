// SPDX-License-Identifier: Apache-2.0
// The text side of HTTP, without a connection: places in URLs and lines of a header.
#pragma once

#include "net/http.h"

#define HTTP_PLACE_MAX 80

void http_call_clear(struct http_call *c); // the answer; its memory stays

// "127.0.0.1:8000" of a URL, with the scheme's port where it names none, without user and password;
// cut when it is long.
void http_place(const char *url, char place[HTTP_PLACE_MAX]);
bool http_is_status_line(struct bytes line);
bool http_is_blank_line(struct bytes line);
bool http_has_name(const char *line, const char *name); // "Name: value", in any case
// A large answer says its length beforehand: take the room once instead of doubling towards it.
void http_reserve(struct http_call *c);
// Into c->why. told: libcurl's words, for through a proxy it is the proxy that could not be
// reached, and they alone say so. number: the system's error; 0: none.
void http_say_unconnected(struct http_call *c, const char *place, const char *told, int number);
// in_handshake: the connection was open, and the TLS handshake was not over.
void http_say_timeout(struct http_call *c, const char *place, bool in_handshake);
// A TLS handshake failed. words: libcurl's, for which OpenSSL or GnuTLS has the reason.
void http_say_insecure(struct http_call *c, const char *place, const char *words);
