// SPDX-License-Identifier: Apache-2.0
// Inside the HTTP server: httpd.c calls libmicrohttpd, httpd_request.c keeps the requests.
//
// A request is reference counted. The server holds it until the answer was sent. Its owner, which
// is the caller of httpd_answer, holds it until it has answered. A disconnect watch holds it too.
#pragma once

#include "base/list.h"
#include "net/acceptor.h"
#include "net/connections.h"
#include "net/feed.h"
#include "net/head.h"
#include "net/httpd.h"
#include "net/httpd_loops.h"

#include <pthread.h>
#include <stdatomic.h>

#define METHOD_MAX      16
#define REPLY_PAIRS_MAX 256

// Two clients may share a row. Then they share its half of the memory.
#define HTTPD_CLIENTS   1024

struct httpd {
    struct httpd_config config;
    struct httpd_loops loops;
    int listener;
    bool accepts; // httpd_listen has given the listener to the acceptor
    struct acceptor acceptor;
    struct disconnect_watch *disconnects;
    uint16_t port;
    bool checks_lines;     // check line ends here, because this libmicrohttpd does not
    _Atomic size_t bodies; // bytes that all bodies take
    _Atomic size_t by_client[HTTPD_CLIENTS];
    atomic_bool stopping;
    _Atomic int64_t looked_ms; // clock_boot_ms of the last check of deadlines
    pthread_mutex_t lock;
    struct connections lines;
    struct list requests; // those passed to `handle`
    size_t requests_len;
    pthread_cond_t fewer; // signalled when a request leaves the list
    bool stopped;         // takes no more requests, because none may be suspended at the end
};

// clang-format off
//              handler returns           httpd_answer
//     HANDLING ---------------> WAITING --------------> ANSWERED
//         '------------ httpd_answer ----------------------^
// clang-format on
enum state { HANDLING, WAITING, ANSWERED };

// A small answer, until the thread that sends it makes a response of it.
struct httpd_reply {
    struct bytes body; // owned
    size_t len;
    char pairs[REPLY_PAIRS_MAX]; // name, zero, value, zero, and so on
};

struct httpd_request {
    struct list_link link;
    struct httpd *server;
    struct httpd_loop *loop; // runs the connection
    struct MHD_Connection *connection;
    char method[METHOD_MAX];
    char *target;
    struct head head;
    struct body {
        uint8_t *data;
        size_t len;
        size_t cap; // counted in the server's `bodies`
        size_t max;
        size_t discarded;
        size_t discarded_max;
    } body;
    enum httpd_lost lost;
    bool started; // the head has arrived
    bool handed;  // it was passed to `handle`
    bool closes;  // its body is not read, so no other request can follow on the connection
    bool listed;
    bool delivered;
    char peer[CONNECTION_PEER_MAX];
    char client[LINE_CLIENT_MAX];
    atomic_int held;
    void *mine;
    void (*done)(void *mine, bool delivered);
    pthread_mutex_t lock;     // guards the fields below
    void (*gone)(void *mine); // set by httpd_watch; NULL: not set
    enum state state;
    struct connection *line;       // NULL: the connection has ended
    bool abandoned;                // the server answers in the owner's place
    size_t reserved;               // bytes of httpd_reserve, counted in the server's `bodies`
    uint32_t client_row;           // of the server's `by_client`, where it is counted too
    uint64_t watch;                // key of the disconnect watch; 0: not watched
    struct MHD_Response *response; // NULL: there is no answer, or it is in `reply`
    struct httpd_reply reply;
    unsigned status;
    struct httpd_stream *stream;
};

struct httpd_stream {
    struct httpd_request *request;
    atomic_int held; // references: the writer's and the response's
    struct feed feed;
};

extern const struct httpd_daemon httpd_daemon; // of libmicrohttpd

void httpd_set_defaults(struct httpd_config *c);

// Returns whether there is memory for a body of this length.
bool body_fits(struct httpd_request *r, uint64_t len);
void body_add(struct httpd_request *r, const void *data, size_t len); // may set r->lost
bool body_flows(const struct httpd_request *r); // false: too much was received and discarded
// Stops counting the body, which stays, and what was reserved. Call it with the lock, or before the
// owner has the request.
void body_give_back(struct httpd_request *r);
void body_done(struct httpd_request *r);

// Takes the body, or copies it. Returns false if the headers do not fit into a reply; nothing was
// taken then.
bool httpd_reply_take(struct httpd_reply *p, const struct httpd_answer *a);
bool httpd_reply_next(const struct httpd_reply *p, size_t *at, const char **name,
                      const char **value);
struct bytes httpd_reply_take_body(struct httpd_reply *p); // the caller bytes_frees it
void httpd_reply_done(struct httpd_reply *p);

// Answers a request in its owner's place, at the latest when its handler returns. Needs its lock.
void request_abandon(struct httpd_request *r);
void request_drop(struct httpd_request *r);
void request_client_gone(void *ctx, void *what); // `what` is the watched request
bool request_enlist(struct httpd_request *r);    // false: the server has stopped
void request_delist(struct httpd_request *r);
void request_leaves(const struct httpd_request *r); // sets the deadline for sending the reply
void request_watch(struct httpd_request *r);        // this and _unwatch need the request's lock
void request_unwatch(struct httpd_request *r);
void requests_wait(struct httpd *h, int64_t wait_ms); // until none is left; needs the server's lock
void stream_drop(struct httpd_stream *s);
