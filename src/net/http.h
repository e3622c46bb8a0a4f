// SPDX-License-Identifier: Apache-2.0
// An HTTP client on libcurl: one exchange per call, connections kept and reused. The caller decides
// about retries. The result says whether the request can have arrived, and how often it was sent.
// One resend is not the caller's decision. If a kept connection is closed before a byte of the
// answer came, libcurl sends the request once more. `sends` counts that.
//
// Any thread may use a client. Calls block.
#pragma once

#include "base/bytes.h"
#include "base/err.h"

#define HTTP_WHY_MAX     240
#define HTTP_HEADERS_MAX ((size_t)64 << 10) // of one answer; a longer one ends as HTTP_LOST
#define HTTP_BODY_MAX    ((size_t)64 << 20) // of one answer; the default of body_max

struct http;

struct http_config {
    const char *ca_file;     // NULL: the system's
    int64_t connect_ms;      // 0: 5 s
    size_t connections_max;  // 0: 64; exchanges at a time; further calls wait in order
    const char *user_agent;  // NULL: "sluice"
    const char *unix_socket; // NULL: TCP
    bool direct;             // do not use the environment's proxies
};

struct http *http_new(const struct http_config *config); // NULL: the defaults
void http_free(struct http *h);                          // NULL is fine; no call may be under way

// How an exchange ended.
enum http_end {
    HTTP_ANSWERED, // status, headers and the whole body are there. (In HTTP/1 a body without a
                   // length ends where the connection is closed, and cannot be proven whole.)
    HTTP_NOT_SENT, // no byte of the request reached a connection: certainly not applied
    HTTP_LOST,     // part of the request may have arrived, and no whole answer came back
    HTTP_TOO_LONG, // the answer was larger than body_max; status and headers are there
};

// http_call_init sets all fields. The caller may then change the first half. http_do sets the
// second half, which is the answer. A call may be used again: http_do clears the answer and keeps
// its memory.
struct http_call {
    const char *method;         // "GET", "PUT", "POST", "DELETE", "HEAD"
    const char *url;            // sent unchanged: the caller percent-encodes it
    const char *const *headers; // "Name: value"
    size_t headers_len;
    struct bytes body;
    int64_t timeout_ms; // of the whole exchange; 0: 30 s
    size_t body_max;    // of the answer; SIZE_MAX: no limit
    bool fresh;         // on a new connection, not on one that was kept
    // Only http_do and http1_do use these three. connect_ms: for a new connection; 0: 5 s, or
    // that of the client. `hopeless` is asked each second while no byte of the answer has come. It
    // may block. If it returns true, the call ends as if its time were over.
    int64_t connect_ms;
    bool (*hopeless)(void *ctx);
    void *hopeless_ctx;

    enum http_end end;
    bool untrusted;      // no trusted authority has signed the server's certificate
    int status;          // 0 unless HTTP_ANSWERED or HTTP_TOO_LONG
    int sends;           // how often the request was sent: if more than once, a refusal (412) may
                         // mean that the first was applied
    int64_t sent_ms;     // clock_boot_ms before the first byte was sent, else of the call's start
    int64_t received_ms; // clock_boot_ms at the end of the exchange
    struct buf head;     // the answer's status and header lines, as received
    struct buf body_in;
    char why[HTTP_WHY_MAX]; // one sentence unless HTTP_ANSWERED; holds no secret
};

void http_call_init(struct http_call *c, const char *method, const char *url);
void http_call_done(struct http_call *c);
void http_do(struct http *h, struct http_call *c);
// Performs all calls, at most `together` at a time. A call's timeout starts when the call starts.
void http_do_all(struct http *h, struct http_call *const *calls, size_t count, size_t together);
// Returns the trimmed value of the answer's first header of this name, in any letter case. Empty:
// there is none.
struct bytes http_header(const struct http_call *c, const char *name);

// An answer without an end, such as an event stream. The call must outlive the stream. body_in
// collects the answer, and the caller removes what it has read. timeout_ms limits the whole stream.
// One thread at a time may use a stream.
struct http_stream;
struct http_stream *http_stream_open(struct http *h, struct http_call *c);
// Receives more of the answer; waits up to wait_ms for it. The status is set once the head is
// there. Returns false if the stream has ended; the call then has the result.
bool http_stream_read(struct http_stream *s, int64_t wait_ms);
void http_stream_close(struct http_stream *s); // NULL is fine
