// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server over libmicrohttpd: a few threads hold thousands of connections, and a request
// may be answered later, from any thread, or by a stream that is fed from any thread.
//
// What clients may cost is bounded: size of head and body, what all bodies take together,
// connections in all and by address, how long a request may take to arrive, how long a connection
// may idle. A request is judged by its head: the body of one that is refused is not kept.
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
    unsigned per_address_max; // 0: a share, three times as many as are free (net/connections.h)
    size_t body_memory_max;   // 0: 256 MiB; all bodies together
    size_t head_max;          // 0: 16 KiB
    int64_t idle_ms;          // 0: 60 s; between requests, and for a head to arrive
    int64_t first_head_ms;    // 0: 10 s; for the first head of a connection; never above idle_ms
    int64_t body_ms;          // 0: 60 s; for a body to arrive
    size_t answer_rate;       // 0: 16 KiB a second; slower readers lose their answer after idle_ms
    struct tls *tls;          // net/tls.h; NULL: plain HTTP. Borrowed
    // Both on a thread of the server, which must not be held up. The head is here: answer, or say
    // how large a body may be. Every request is answered exactly once, unless it ends before its
    // body came.
    size_t (*head)(void *ctx, struct httpd_request *r);
    // The rest is here too: answer, or keep the request and answer later.
    void (*handle)(void *ctx, struct httpd_request *r);
    void *ctx;
};

MUST_USE enum err httpd_start(const struct httpd_config *config, struct httpd **out, char *why,
                              size_t why_len);
uint16_t httpd_port(const struct httpd *h);
int64_t httpd_looked_ms(const struct httpd *h);  // when it last looked after its connections
size_t httpd_body_memory(const struct httpd *h); // what bodies take now
// Accepts no more connections; every answer from here on is the last of its connection.
void httpd_close(struct httpd *h);
// ... and waits up to drain_ms for the requests that are there to be answered and their answers to
// leave. What is left then is answered with 503 and cut off; its owner may still answer, which does
// nothing. Answers whether nothing was left.
bool httpd_stop(struct httpd *h, int64_t drain_ms); // frees it; NULL is fine

const char *httpd_method(const struct httpd_request *r);
const char *httpd_target(const struct httpd_request *r);                   // path and query as sent
const char *httpd_header(const struct httpd_request *r, const char *name); // NULL: not there
typedef void httpd_header_fn(void *ctx, const char *name, const char *value);
void httpd_each_header(const struct httpd_request *r, httpd_header_fn *each, void *ctx);
struct bytes httpd_body(const struct httpd_request *r);
// Why the body is not here although there is one: it was larger than `head` had said, or all bodies
// together would have been.
enum httpd_lost { HTTPD_WHOLE, HTTPD_TOO_LARGE, HTTPD_NO_ROOM };
enum httpd_lost httpd_lost(const struct httpd_request *r);
// Counts so many bytes more among all bodies until the request is over, for what is made of this
// one. HTTPD_TOO_LARGE: one request never gets so many. HTTPD_NO_ROOM: others have them now.
enum httpd_lost httpd_reserve(struct httpd_request *r, size_t more);
// What is wrong with the head as HTTP goes. Status 0: nothing; else what it should be answered
// with: 400, 414 or 431. Of one that is too large nothing can be seen.
struct httpd_fault {
    int status;
    char field[40];
    const char *why; // "is there twice"
};
const struct httpd_fault *httpd_fault(const struct httpd_request *r);
const char *httpd_peer(const struct httpd_request *r);   // its address
const char *httpd_client(const struct httpd_request *r); // the same; of IPv6 the first 64 bits
bool httpd_gone(struct httpd_request *r);                // the client hung up

// The caller's own part of a request, which lives as long as the request. done is called when it
// is over, on any thread; delivered: the whole answer was handed to the network.
void httpd_attach(struct httpd_request *r, void *mine, void (*done)(void *mine, bool delivered));
void *httpd_mine(const struct httpd_request *r);
// Asks to be told, once, when the client hangs up before it is answered; on a thread that must not
// be held up. The request is still to be answered; it may be meanwhile, by somebody else.
void httpd_watch(struct httpd_request *r, void (*gone)(void *mine));

// Keeps what is attached alive past its answer, until dropped.
void httpd_keep(struct httpd_request *r);
void httpd_drop(struct httpd_request *r);

struct httpd_pair {
    const char *name;
    const char *value;
};
struct httpd_answer {
    int status;
    const char *type; // NULL: none
    struct bytes body;
    bool owned; // the body is bytes_free'd by the server; else copied
    const struct httpd_pair *headers;
    size_t headers_len;
};
void httpd_answer(struct httpd_request *r, const struct httpd_answer *a);

// An answer without an end; a's body is its beginning. The request belongs to the stream from here
// on.
struct httpd_stream *httpd_stream_open(struct httpd_request *r, const struct httpd_answer *a);
// Waits up to wait_ms while the client has a lot to read. False: it is gone, or too slow.
bool httpd_stream_write(struct httpd_stream *s, struct bytes some, int64_t wait_ms);
bool httpd_stream_gone(struct httpd_stream *s);
void httpd_stream_end(struct httpd_stream *s); // frees it for the caller; what was written goes out
// The same. If the client has not read the rest within so long, the connection is closed.
void httpd_stream_cut(struct httpd_stream *s, int64_t within_ms);
