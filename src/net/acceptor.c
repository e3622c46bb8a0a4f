// SPDX-License-Identifier: Apache-2.0
// One thread between a listening socket and the server. It sleeps while there is nothing to accept,
// or no free connection. An eventfd wakes it.
//
// libmicrohttpd could accept by itself. Up to version 0.9.75 at least, its threads race when it
// stops accepting while clients connect, and it aborts the process.
#define _GNU_SOURCE // accept4
#include "net/acceptor.h"

#include "base/check.h"
#include "os/lock.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PAUSE_MS 50 // after a failed accept, or while all connections are in use

static bool is_closing(struct acceptor *a)
{
    LOCKED(&a->lock);
    return a->closing;
}

static bool has_room(struct acceptor *a)
{
    LOCKED(&a->lock);
    return !a->closing && a->open < a->config.connections_max;
}

static void hand_over(struct acceptor *a, int fd, const struct sockaddr *from, socklen_t from_len)
{
    (void)pthread_mutex_lock(&a->lock);
    a->open++; // first, because the connection may begin and end inside `take`
    (void)pthread_mutex_unlock(&a->lock);
    if (!a->config.take(a->config.ctx, fd, from, from_len)) acceptor_ended(a);
}

// Accepts all clients that wait. Returns false if accept failed, for example for lack of file
// descriptors. The listener stays readable then, so a retry without a pause would spin.
static bool accept_some(struct acceptor *a)
{
    while (has_room(a)) {
        struct sockaddr_storage from;
        socklen_t len = sizeof from;
        int fd = accept4(a->config.listener, (struct sockaddr *)&from, &len,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            hand_over(a, fd, (const struct sockaddr *)&from, len);
        else if (errno == EAGAIN)
            return true;
        else if (errno != EINTR && errno != ECONNABORTED)
            return false;
    }
    return true;
}

static void *run(void *arg)
{
    struct acceptor *a = arg;
    bool pause = false;
    while (!is_closing(a)) {
        bool room = has_room(a), listens = !pause && (room || a->config.make_room);
        struct pollfd ready[] = {{.fd = a->wake, .events = POLLIN},
                                 {.fd = listens ? a->config.listener : -1, .events = POLLIN}};
        (void)poll(ready, 2, pause ? PAUSE_MS : -1);
        eventfd_t woken;
        if (ready[0].revents) (void)eventfd_read(a->wake, &woken);
        pause = ready[1].revents && !(room && accept_some(a));
        if (pause && !room) a->config.make_room(a->config.ctx);
    }
    return NULL;
}

enum err acceptor_init(struct acceptor *a, const struct acceptor_config *config)
{
    *a = (struct acceptor){.config = *config};
    (void)pthread_mutex_init(&a->lock, NULL);
    a->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(a->wake >= 0);
    enum err err = thread_start(&a->thread, run, a);
    if (!err) return ERR_OK;
    acceptor_close(a);
    acceptor_done(a);
    return err;
}

void acceptor_ended(struct acceptor *a)
{
    (void)pthread_mutex_lock(&a->lock);
    CHECK(a->open > 0);
    bool was_full = a->open-- == a->config.connections_max;
    (void)pthread_mutex_unlock(&a->lock);
    if (was_full) (void)eventfd_write(a->wake, 1);
}

void acceptor_close(struct acceptor *a)
{
    (void)pthread_mutex_lock(&a->lock);
    CHECK(!a->closing);
    a->closing = true;
    (void)pthread_mutex_unlock(&a->lock);
    (void)eventfd_write(a->wake, 1);
    thread_join(&a->thread);
    (void)close(a->config.listener);
}

void acceptor_done(struct acceptor *a)
{
    CHECK(a->closing);
    (void)close(a->wake);
    (void)pthread_mutex_destroy(&a->lock);
}
