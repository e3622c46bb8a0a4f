// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 requests for somebody who cannot wait: one thread carries all of them, thousands at a
// time, each on a connection of its own that is kept for the next. Without TLS; an answer must say
// its length.
//
// A request whose kept connection turns out to be closed, before a byte of the answer, is sent once
// more on a fresh one: only requests that may be repeated belong here.
#pragma once

#include "net/greeting.h"

struct courier;
struct courier_place;

struct courier_call {
    // The caller's: method, url (its path is what counts), headers, body, timeout_ms, body_max. The
    // answer's half is as http.h says.
    struct http_call http;
    struct courier_place *place;
    // Whether an answer of so many bytes is wanted, once its head came; NULL: any is. With the
    // courier's lock: it may call nothing of the courier's.
    bool (*fits)(struct courier_call *c, size_t body_len);
    void (*done)(
        struct courier_call *c); // once, on the courier's thread, which it must not hold up
    struct courier_wire *wire;   // the courier's, from here on
    struct courier_call *next;
    int64_t until;
    bool carried; // it is under way
    bool again;   // it was sent a second time
};

struct courier *courier_new(void);
void courier_free(struct courier *c); // NULL is fine; no call may be under way

// Where requests go: "http://host:port". greeting (may be NULL) is copied; each new connection has
// to stand it. Asks for the host's address, which may take a while. Lives as long as the courier.
// NULL: there is no such place.
struct courier_place *courier_place_new(struct courier *c, const char *url,
                                        const struct greeting *greeting);

void courier_do(struct courier *c, struct courier_call *call);
// True: it is forgotten, done is not called, and its connection is closed, so that the other end
// notices. False: done was called, or is about to be.
bool courier_cancel(struct courier *c, struct courier_call *call);
