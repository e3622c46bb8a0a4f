// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server over libmicrohttpd. A few threads serve thousands of connections. Any thread
// may answer a request, also after its handler has returned, with a body or with a stream.
//
// The cost of clients is bounded by limits on:
//
//   - the size of a head and of a body, and the memory of all bodies together;
//   - the connections in all and per address;
//   - the time in which a request must arrive, and the time a connection may idle.
//
// The server decides by the head whether to refuse a request. It does not keep the body of a
// refused request.
#pragma once

#include "base/bytes.h"
#include "base/err.h"

struct httpd;
struct httpd_request;
struct httpd_stream;
struct tls;

struct httpd_config {
    const char *host;         // an address, not a name: "127.0.0.1", "::1", "0.0.0.0"
    uint16_t port;            // 0: a free one
    unsigned threads;         // 0: 2
    unsigned connections_max; // 0: 10,000
    unsigned per_address_max; // 0: three times the free connections (net/connections.h)
    size_t body_memory_max;   // 0: 256 MiB; all bodies together
    size_t head_max;          // 0: 16 KiB
    int64_t idle_ms;          // 0: 60 s; between requests, and for a head to arrive
    int64_t first_head_ms;    // 0: 10 s; for the first head of a connection; at most idle_ms
    int64_t body_ms;          // 0: 60 s; for a body to arrive
    size_t answer_rate;       // 0: 16 KiB/s; a slower client loses its answer after idle_ms
    struct tls *tls;          // net/tls.h; NULL: plain HTTP. Borrowed
    // `head` and `handle` run on a thread of the server and must not block. `head` is called when
    // the head has arrived. It answers, or returns how large the body may be. Every request must be
    // answered exactly once, unless it ends before its body has arrived.
    size_t (*head)(void *ctx, struct httpd_request *r);
    // Called when the body has arrived too. It answers, or keeps the request and answers later.
    void (*handle)(void *ctx, struct httpd_request *r);
    void *ctx;
};

// Reserves the port and starts the threads. The system refuses clients until httpd_listen, so the
// caller can finish its own start first.
MUST_USE enum err httpd_start(const struct httpd_config *config, struct httpd **out, char *why,
                              size_t why_len);
// Serves clients from here on. Call it once. On an error no client was served; call httpd_stop.
MUST_USE enum err httpd_listen(struct httpd *h, char *why, size_t why_len);
uint16_t httpd_port(const struct httpd *h);
int64_t httpd_looked_ms(const struct httpd *h);  // clock_boot_ms of the last check of deadlines
size_t httpd_body_memory(const struct httpd *h); // bytes that all bodies take now
// Accepts no more connections. Every later answer closes its connection.
void httpd_close(struct httpd *h);
// Closes the server, then waits up to drain_ms until every request is answered and its answer sent.
// The server answers the remaining requests with 503 and cuts them off. A later answer of their
// owner has no effect. Returns whether no request remained. Frees the server; NULL is fine.
bool httpd_stop(struct httpd *h, int64_t drain_ms);

const char *httpd_method(const struct httpd_request *r);
const char *httpd_target(const struct httpd_request *r);                   // path and query as sent
const char *httpd_header(const struct httpd_request *r, const char *name); // NULL: there is none
struct httpd_pair {
    const char *name;
    const char *value;
};
// The header with this number, from 0. False: there are fewer.
bool httpd_nth_header(const struct httpd_request *r, size_t i, struct httpd_pair *out);
struct bytes httpd_body(const struct httpd_request *r);
// Why the body is missing: it was larger than `head` allowed, or the memory of all bodies was used
// up.
enum httpd_lost { HTTPD_WHOLE, HTTPD_TOO_LARGE, HTTPD_NO_ROOM };
enum httpd_lost httpd_lost(const struct httpd_request *r);
// Reserves `more` bytes of the bodies' memory until the request is over, for data built from this
// body. HTTPD_TOO_LARGE: no single request may have that many. HTTPD_NO_ROOM: other requests use
// them now.
enum httpd_lost httpd_reserve(struct httpd_request *r, size_t more);
// Counts the body for this client: a keyed hash. Call it in `head`. A client with several requests
// gets at most half of the memory for large bodies.
void httpd_set_client(struct httpd_request *r, uint64_t client);
// Frees the body and what was reserved: the request waits, and its owner has copied what it needs.
void httpd_forget_body(struct httpd_request *r);
// How the head violates HTTP. `status` is 0 for no fault, else the status to answer with: 400, 414
// or 431. A head that is too large has no fields.
struct httpd_fault {
    int status;
    char field[40];
    const char *why; // "is given twice"
};
const struct httpd_fault *httpd_fault(const struct httpd_request *r);
const char *httpd_peer(const struct httpd_request *r);   // the client's address
const char *httpd_client(const struct httpd_request *r); // the same; for IPv6 the first 64 bits
bool httpd_gone(struct httpd_request *r);                // the client has disconnected

// A text that the connection keeps for its later requests, of at most HTTPD_NOTE_MAX - 1 bytes; "":
// none. Call these two from `head`, or from `handle` before it returns.
#define HTTPD_NOTE_MAX 72
const char *httpd_note(const struct httpd_request *r);
void httpd_set_note(struct httpd_request *r, const char *note);

// Attaches the caller's data to a request. `done` is called on any thread when the request is over.
// `delivered`: the whole answer was passed to the network.
void httpd_attach(struct httpd_request *r, void *mine, void (*done)(void *mine, bool delivered));
void *httpd_mine(const struct httpd_request *r);
// Calls `gone` once if the client disconnects before the request is answered. It runs on a thread
// that must not block. The request must still be answered. Another thread may answer it meanwhile.
void httpd_watch(struct httpd_request *r, void (*gone)(void *mine));

// Keeps the request and what is attached after the answer, until httpd_drop.
void httpd_keep(struct httpd_request *r);
void httpd_drop(struct httpd_request *r);

struct httpd_answer {
    int status;
    const char *type; // NULL: none
    struct bytes body;
    bool owned; // the server takes the body and bytes_frees it; else it copies the body
    const struct httpd_pair *headers;
    size_t headers_len;
};
void httpd_answer(struct httpd_request *r, const struct httpd_answer *a);

// Answers with a body without an end, which starts with a's body. The request belongs to the stream
// from here on.
struct httpd_stream *httpd_stream_open(struct httpd_request *r, const struct httpd_answer *a);
// Waits up to wait_ms while the buffer is full. Returns false if the client has disconnected or
// reads too slowly.
bool httpd_stream_write(struct httpd_stream *s, struct bytes some, int64_t wait_ms);
size_t httpd_stream_pending(struct httpd_stream *s); // bytes that the client has not read
bool httpd_stream_gone(struct httpd_stream *s);
void httpd_stream_end(struct httpd_stream *s); // releases the stream; the written bytes are sent
// Like httpd_stream_end. If the client has not read the rest within within_ms, the connection is
// closed.
void httpd_stream_cut(struct httpd_stream *s, int64_t within_ms);
