// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 without TLS, proxies or any other choice, for many small exchanges with one server: one
// system call to ask and one to hear, where a general client takes ten. Calls mean what they mean
// in http.h, and end as they do there.
//
// May be used by any thread; calls block. Each exchange under way has a connection of its own.
#pragma once

#include "net/peer_challenge.h"

struct http_plain;

// url: "http://host:port", perhaps with a path. NULL: it is not such a one, or the environment
// wants a proxy for it; use http.h.
struct http_plain *http_plain_new(const char *url);
// From now on each new connection has to stand it before it is told anything; copied.
void http_plain_challenge(struct http_plain *p, const struct peer_challenge *g);
void http_plain_free(struct http_plain *p); // NULL is fine; no call may be under way
void http_plain_do(struct http_plain *p, struct http_call *c);
