// SPDX-License-Identifier: Apache-2.0
// An asynchronous HTTP/1.1 client without TLS. One thread serves thousands of requests, each on a
// connection of its own that is kept for reuse. An answer must state its length.
//
// If a kept connection was closed before a byte of the answer came, the request is sent once more
// on a new connection. So use this client only for requests that may be repeated.
#pragma once

#include "net/peer_challenge.h"

struct http_async;
struct http_async_host;

struct http_async_call {
    // The caller sets method, url (only its path is used), headers, body, timeout_ms and body_max.
    // The answer is as in http.h.
    struct http_call http;
    struct http_async_host *place;
    // Called once the answer's head came: returns whether to receive a body of body_len bytes.
    // NULL: receive any. Runs under the client's lock, so it must not call this client.
    bool (*fits)(struct http_async_call *c, size_t body_len);
    // Called once, on the client's thread. It must not block.
    void (*done)(struct http_async_call *c);
    // The client sets the fields below.
    struct http_async_connection *wire;
    struct http_async_call *next;
    int64_t until; // clock_boot_ms of the deadline
    bool carried;  // it is in progress
    bool again;    // it may not be sent on a further connection
};

struct http_async *http_async_new(void);    // NULL: the process cannot create a thread
void http_async_free(struct http_async *c); // NULL is fine; no call may be under way

// A server that requests go to. `url` is "http://host:port", perhaps with a path. `challenge`
// is copied and may be NULL; each new connection must pass it. Resolves the host's name, which
// may block. The client owns the host until http_async_free. NULL: `url` is not of this form,
// or the name does not resolve.
struct http_async_host *http_async_host_new(struct http_async *c, const char *url,
                                            const struct peer_challenge *challenge);

void http_async_do(struct http_async *c, struct http_async_call *call);
// Returns true if the call was cancelled: done is not called, and its connection is closed so
// that the server notices. Returns false if done was called or is about to be.
bool http_async_cancel(struct http_async *c, struct http_async_call *call);
