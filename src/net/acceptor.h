// SPDX-License-Identifier: Apache-2.0
// Accepts connections on a thread of its own and passes each one to the server. While
// connections_max connections are open, further clients wait in the listen backlog.
#pragma once

#include "os/thread.h"

#include <stdbool.h>
#include <sys/socket.h>

struct acceptor_config {
    int listener; // nonblocking; the acceptor owns it
    unsigned connections_max;
    // Runs on the acceptor's thread. The callee owns `fd`, which is nonblocking. Returns false if
    // the callee refused the connection; it has then closed `fd`.
    bool (*take)(void *ctx, int fd, const struct sockaddr *from, socklen_t from_len);
    // Runs on the acceptor's thread when connections_max are open and a further client waits. The
    // callee closes some connections if it can. May be NULL.
    void (*make_room)(void *ctx);
    void *ctx;
};

struct acceptor {
    struct acceptor_config config;
    struct thread thread;
    int wake;
    pthread_mutex_t lock; // guards the fields below
    unsigned open;        // connections
    bool closing;
};

// ERR_LIMIT: the process cannot create a thread. The listener is closed then, and acceptor_done was
// called.
MUST_USE enum err acceptor_init(struct acceptor *a, const struct acceptor_config *config);
// A connection has ended. May be called on any thread until acceptor_done.
void acceptor_ended(struct acceptor *a);
void acceptor_close(struct acceptor *a); // stops accepting; call it once
void acceptor_done(struct acceptor *a);
