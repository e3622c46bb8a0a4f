// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 without TLS or proxies, for many small exchanges with one server. An exchange takes one
// system call to send and one to receive; libcurl needs about ten. Calls and their results are as
// in http.h.
//
// Any thread may use a client. Calls block. Each exchange in progress has a connection of its own.
#pragma once

#include "net/http.h"

struct plain_http;

// url: "http://host:port", perhaps with a path. Returns NULL if the URL is not of this form, or if
// the environment sets a proxy. Use http.h then.
struct plain_http *http_plain_new(const char *url);
void http_plain_free(struct plain_http *p); // NULL is fine; no call may be under way
void http_plain_do(struct plain_http *p, struct http_call *c);
