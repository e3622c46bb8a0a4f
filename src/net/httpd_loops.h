// SPDX-License-Identifier: Apache-2.0
// The threads of the HTTP server. Each one has a daemon of libmicrohttpd and the connections in it.
//
// libmicrohttpd could run the threads by itself. Up to version 0.9.75 at least, such a thread waits
// for further events before it serves those that it has, if they are exactly as many as it asks the
// kernel for (128). So the threads wait here, and the library only looks at what is ready.
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <sys/socket.h>

struct httpd_loop;

// The HTTP library, for the connections of one loop. Its functions run on the loop's thread.
struct httpd_daemon {
    // *sockets is its epoll set. NULL: errno says why it did not start.
    void *(*start)(void *ctx, struct httpd_loop *loop, int *sockets);
    bool (*add)(void *daemon, int fd, const struct sockaddr *from, socklen_t from_len);
    // Milliseconds until it has something to do although no socket is ready; -1: never.
    int (*timeout)(void *daemon);
    void (*run)(void *daemon); // serves what is ready, without waiting
    void (*stop)(void *daemon);
};

struct httpd_loops {
    struct httpd_loop *each;
    unsigned len;
};

struct httpd_loops_config {
    unsigned threads;
    void *ctx;
    const struct httpd_daemon *daemon;
    // The daemon did not begin to serve this connection, or the loops end. Its socket is closed.
    void (*refused)(void *ctx, const struct sockaddr *from);
};

// ERR_UNAVAILABLE: a daemon did not start, see errno. ERR_LIMIT: there is no thread for it. Nothing
// runs then.
MUST_USE enum err httpd_loops_start(struct httpd_loops *l, const struct httpd_loops_config *config);
// Passes a nonblocking socket to one of the loops. May run on any thread.
void httpd_loops_take(struct httpd_loops *l, int fd, const struct sockaddr *from,
                      socklen_t from_len);
void httpd_loops_stop(struct httpd_loops *l); // closes the connections; none may be suspended
// A connection of this loop was resumed. May run on any thread.
void httpd_loop_wake(struct httpd_loop *loop);
// The daemon says so when it begins to serve a connection, also if it gives up at once.
void httpd_loop_began(struct httpd_loop *loop);
void *httpd_loop_ctx(const struct httpd_loop *loop);
