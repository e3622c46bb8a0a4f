// SPDX-License-Identifier: Apache-2.0
// An HTTP client: one exchange per call, connections kept and reused. Retrying is the caller's
// business, who is told what can be known about whether a request arrived, and how often. There is
// one resend the client does not decide: when a kept connection turns out to be closed before a
// byte of the answer came, libcurl sends the request once more; `sends` counts that.
//
// A client may be used by any thread; calls block.
#pragma once

#include "base/bytes.h"
#include "base/err.h"

#define HTTP_WHY_MAX     240
#define HTTP_HEADERS_MAX ((size_t)64 << 10) // of one answer; longer ones end in HTTP_LOST
#define HTTP_BODY_MAX    ((size_t)64 << 20) // of one answer, unless the call says otherwise

struct http;

struct http_config {
    const char *ca_file;     // NULL: the system's
    int64_t connect_ms;      // 0: 5 s
    size_t connections_max;  // 0: 64; how many exchanges may be under way; others wait their turn
    const char *user_agent;  // NULL: "sluice"
    const char *unix_socket; // NULL: TCP
    bool direct;             // do not use the environment's proxies
};

struct http *http_new(const struct http_config *config); // NULL: the defaults
void http_free(struct http *h);                          // NULL is fine; no call may be under way

// How an exchange ended.
enum http_end {
    HTTP_ANSWERED, // status, headers and the whole body are there. (A body without a length in
                   // HTTP/1 ends where the connection is closed; whether it is whole, who knows.)
    HTTP_NOT_SENT, // no byte of the request was handed to a connection: certainly not applied
    HTTP_LOST,     // some of it may have arrived, and no whole answer came back
    HTTP_TOO_LONG, // the answer was larger than body_max; status and headers are there
};

// http_call_init fills all in; the first half is then the caller's to change, the second half is
// the answer. A call may be used again: http_do clears the answer and keeps its memory.
struct http_call {
    const char *method;         // "GET", "PUT", "POST", "DELETE", "HEAD"
    const char *url;            // sent as it is: the caller has percent-encoded it
    const char *const *headers; // "Name: value"
    size_t headers_len;
    struct bytes body;
    int64_t timeout_ms; // of the whole exchange, 0: 30 s
    size_t body_max;    // of the answer: HTTP_BODY_MAX; SIZE_MAX: no limit

    enum http_end end;
    bool untrusted;      // its certificate was not signed by anybody who is trusted here
    int status;          // 0 unless HTTP_ANSWERED or HTTP_TOO_LONG
    int sends;           // how often the request was put on a connection: after more than one, a
                         // refusal (412) may be the echo of the first having been applied
    int64_t sent_ms;     // clock_boot_ms before the first byte went out, or when it began
    int64_t received_ms; // ... and when it had ended
    struct buf head;     // the answer's status and header lines, as received
    struct buf body_in;
    char why[HTTP_WHY_MAX]; // one sentence, when it did not end in HTTP_ANSWERED; never a secret
};

void http_call_init(struct http_call *c, const char *method, const char *url);
void http_call_done(struct http_call *c);
void http_do(struct http *h, struct http_call *c);
// All of them, at most `together` under way at a time. Each call's time runs from when it is its
// turn.
void http_do_all(struct http *h, struct http_call *const *calls, size_t count, size_t together);
// The value of the answer's header, trimmed; empty when there is none. The name in any case; the
// first, when there are several.
struct bytes http_header(const struct http_call *c, const char *name);

// An answer that goes on for as long as somebody reads, as event streams do. The call lives as long
// as the stream; body_in collects, and the reader takes out what it has read. timeout_ms is that of
// the whole stream. One thread at a time.
struct http_stream;
struct http_stream *http_stream_open(struct http *h, struct http_call *c);
// Lets the answer come in; waits up to wait_ms for some of it. status is there once the header is.
// False: it has ended, and the call says how.
bool http_stream_read(struct http_stream *s, int64_t wait_ms);
void http_stream_close(struct http_stream *s); // NULL is fine
