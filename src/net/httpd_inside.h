// SPDX-License-Identifier: Apache-2.0
// Inside the HTTP server: httpd.c speaks with libmicrohttpd, httpd_request.c keeps the requests.
//
// A request is held by two: the server until the answer has left, its owner until he has answered;
// and by whoever watches for its client to hang up.
#pragma once

#include "net/acceptor.h"
#include "net/connections.h"
#include "net/feed.h"
#include "net/head.h"
#include "net/httpd.h"

#include <pthread.h>
#include <stdatomic.h>

#define METHOD_MAX      16
#define REPLY_PAIRS_MAX 256

struct httpd {
    struct httpd_config config;
    struct MHD_Daemon *daemon;
    struct acceptor acceptor;
    struct disconnect_watch *disconnects;
    uint16_t port;
    bool checks_lines;     // the library does not
    _Atomic size_t bodies; // bytes of them
    atomic_bool stopping;
    _Atomic int64_t looked_ms; // when the connections were last looked after
    pthread_mutex_t lock;
    struct connections lines;
    struct httpd_request *requests; // whose whole body is here
    size_t requests_len;
    pthread_cond_t fewer; // requests
    bool stopped;         // no request is taken any more: none may be suspended at the end
};

//              handler returns           httpd_answer
//     HANDLING ---------------> WAITING --------------> ANSWERED
//         '------------ httpd_answer ----------------------^
enum state { HANDLING, WAITING, ANSWERED };

// What was answered, until the thread that sends it makes a response of it.
struct httpd_reply {
    struct bytes body; // its own
    size_t len;
    char pairs[REPLY_PAIRS_MAX]; // name, zero, value, zero, and so on
};

struct httpd_request {
    struct httpd_request *next, *before;
    struct httpd *server;
    struct MHD_Connection *connection;
    char method[METHOD_MAX];
    char *target;
    struct head head;
    struct body {
        uint8_t *data;
        size_t len;
        size_t cap; // counted among the server's
        size_t max;
        size_t discarded;
        size_t discarded_max;
    } body;
    enum httpd_lost lost;
    bool started; // the head was seen
    bool handed;  // to `handle`
    bool closes;  // its body is not read; no other request can follow
    bool listed;
    bool delivered;
    char peer[CONNECTION_PEER_MAX];
    char client[LINE_CLIENT_MAX];
    atomic_int held;
    void *mine;
    void (*done)(void *mine, bool delivered);
    pthread_mutex_t lock;     // of what follows
    void (*gone)(void *mine); // asked for by httpd_watch; NULL: not
    enum state state;
    struct connection *line;       // its own row; NULL: the connection is gone
    bool abandoned;                // the server answers itself; the owner has not
    size_t reserved;               // counted among the bodies, for what is made of this one
    uint64_t watch;                // 0: not watched
    struct MHD_Response *response; // NULL: there is no answer, or it is the reply
    struct httpd_reply reply;
    unsigned status;
    struct httpd_stream *stream;
};

struct httpd_stream {
    struct httpd_request *request;
    atomic_int held; // by the writer, by the response
    struct feed feed;
};

void httpd_set_defaults(struct httpd_config *c);

// Whether there is room for a body that is to be so long.
bool body_fits(const struct httpd_request *r, uint64_t len);
void body_add(struct httpd_request *r, const void *data, size_t len); // it may be lost by that
bool body_flows(const struct httpd_request *r);   // false: more of it was thrown away than may be
void body_give_back(struct httpd_request *r);     // it is not counted any more; still there
void body_unreserve(struct httpd *h, size_t len); // so many less are counted
void body_done(struct httpd_request *r);

// Takes the body, or copies it. False: there is more beside it than a reply has room for, and
// nothing was taken.
bool httpd_reply_take(struct httpd_reply *p, const struct httpd_answer *a);
bool httpd_reply_next(const struct httpd_reply *p, size_t *at, const char **name,
                      const char **value);
struct bytes httpd_reply_take_body(struct httpd_reply *p); // bytes_free
void httpd_reply_done(struct httpd_reply *p);

void request_drop(struct httpd_request *r);
void request_client_gone(void *ctx, void *what); // what: the request, whose watch it was
bool request_enlist(struct httpd_request *r);    // false: the server has stopped
void request_delist(struct httpd_request *r);
void request_leaves(const struct httpd_request *r); // its reply begins to be sent
void request_watch(struct httpd_request *r);        // both with the request's lock held
void request_unwatch(struct httpd_request *r);
void requests_wait(struct httpd *h, int64_t wait_ms); // with the server's lock held, for none left
void stream_drop(struct httpd_stream *s);
