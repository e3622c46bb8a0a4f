// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 requests for somebody who cannot wait: one thread carries all of them, thousands at a
// time, each on a connection of its own that is kept for the next. Without TLS; an answer must say
// its length.
//
// A request whose kept connection turns out to be closed, before a byte of the answer, is sent once
// more on a fresh one: only requests that may be repeated belong here.
#pragma once

#include "net/peer_challenge.h"

struct http_async;
struct http_async_host;

struct http_async_call {
    // The caller's: method, url (its path is what counts), headers, body, timeout_ms, body_max. The
    // answer's half is as http.h says.
    struct http_call http;
    struct http_async_host *place;
    // Whether an answer of so many bytes is wanted, once its head came; NULL: any is. With the
    // courier's lock: it may call nothing of the courier's.
    bool (*fits)(struct http_async_call *c, size_t body_len);
    void (*done)(
        struct http_async_call *c);     // once, on the courier's thread, which it must not hold up
    struct http_async_connection *wire; // the courier's, from here on
    struct http_async_call *next;
    int64_t until;
    bool carried; // it is under way
    bool again;   // it was sent a second time
};

struct http_async *http_async_new(void);
void http_async_free(struct http_async *c); // NULL is fine; no call may be under way

// Where requests go: "http://host:port". greeting (may be NULL) is copied; each new connection has
// to stand it. Asks for the host's address, which may take a while. Lives as long as the courier.
// NULL: there is no such place.
struct http_async_host *http_async_host_new(struct http_async *c, const char *url,
                                            const struct peer_challenge *challenge);

void http_async_do(struct http_async *c, struct http_async_call *call);
// True: it is forgotten, done is not called, and its connection is closed, so that the other end
// notices. False: done was called, or is about to be.
bool http_async_cancel(struct http_async *c, struct http_async_call *call);
