// SPDX-License-Identifier: Apache-2.0
// Accepts connections on a thread of its own, and hands them to somebody who can be told of new
// ones while he serves the others. While as many are open as may be, whoever comes waits to be
// accepted.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct acceptor_config {
    int listener; // does not block; the acceptor's from here on
    unsigned connections_max;
    // On the acceptor's thread: the socket, which does not block, is the taker's. False: he did
    // not want it, and has closed it.
    bool (*take)(void *ctx, int fd, const struct sockaddr *from, socklen_t from_len);
    // On the acceptor's thread: as many are open as may be, and one more wants to come in. One that
    // ends soon makes way. May be NULL.
    void (*make_room)(void *ctx);
    void *ctx;
};

struct acceptor {
    struct acceptor_config config;
    pthread_t thread;
    int wake;
    pthread_mutex_t lock; // of what follows
    unsigned open;        // those that are on the way included
    unsigned on_the_way;  // taken, and not begun
    bool closing;
};

void acceptor_init(struct acceptor *a, const struct acceptor_config *config);
// One that was taken is being served; one has ended. On any thread, until acceptor_done.
void acceptor_begun(struct acceptor *a);
void acceptor_ended(struct acceptor *a);
void acceptor_close(struct acceptor *a); // once: nobody is accepted or taken any more
// Then: waits for those that were taken to begin.
void acceptor_settle(struct acceptor *a, int64_t wait_ms);
void acceptor_done(struct acceptor *a);
