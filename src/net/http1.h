// SPDX-License-Identifier: Apache-2.0
// A blocking HTTP/1.1 client of one server, with or without TLS, for many small exchanges. Without
// TLS an exchange takes one system call to send and one to receive; libcurl needs about ten. Each
// new connection can be made to pass a challenge; libcurl has no place for that. Calls and their
// results are as in http.h.
//
// Any thread may use a client. Each exchange in progress has a connection of its own. Connections
// are kept. The one used last is used next.
#pragma once

#include "net/peer_challenge.h"

struct http1_client;
struct stream_tls;

struct http1_config {
    struct stream_tls *tls;                 // for https; borrowed
    const struct peer_challenge *challenge; // of each new connection; copied; NULL: none
    // A request is sent once more, on a new connection, if a kept one was closed before a byte of
    // the answer came. So all requests may be repeated. false: none is sent twice.
    bool repeats;
};

// url: "http://host:port" or "https://host:port", perhaps with a path. NULL: it is not of this
// form.
struct http1_client *http1_new(const char *url, const struct http1_config *config);
void http1_free(struct http1_client *h); // NULL is fine; no call may be under way
void http1_do(struct http1_client *h, struct http_call *c);
bool http1_is_proxied(void); // the environment names a proxy for http://, which http.h uses
