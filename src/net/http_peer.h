// SPDX-License-Identifier: Apache-2.0
// A blocking HTTP/1.1 client of one server, with or without TLS. Each new connection must pass a
// challenge before a request is sent on it. libcurl has no place for that exchange. Calls and their
// results are as in http.h. An answer must state its length.
//
// If a kept connection was closed before a byte of the answer came, the request is sent once more
// on a new connection. So use this client only for requests that may be repeated.
//
// Any thread may use a client. Each exchange in progress has a connection of its own.
#pragma once

#include "net/peer_challenge.h"

struct http_peer;
struct stream_tls;

// url: "http://host:port" or "https://host:port". tls: for https; borrowed. NULL: the URL is not of
// this form.
struct http_peer *http_peer_new(const char *url, struct stream_tls *tls);
void http_peer_free(struct http_peer *p); // NULL is fine; no call may be under way
// challenge: for a new connection; NULL: none is asked for.
void http_peer_do(struct http_peer *p, const struct peer_challenge *challenge, struct http_call *c);
