// SPDX-License-Identifier: Apache-2.0
// A few sockets in an array. Child processes do not inherit them.
//
// libcurl (7.88) closes a socket that did not connect in time without its callback. So a row may
// hold a descriptor that was reused. A row counts only if its cookie still matches.
#include "net/socket_table.h"

#include "base/array.h"
#include "base/memory.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

void socket_table_done(struct socket_table *w)
{
    memory_free(w->all);
}

static void forget(struct socket_table *w, int fd)
{
    for (size_t i = 0; i < w->len; i++) {
        if (w->all[i].fd != fd) continue;
        w->all[i] = w->all[--w->len];
        return;
    }
}

static uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof cookie;
    (void)getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len);
    return cookie;
}

int socket_table_open(struct socket_table *w, int family, int type, int protocol)
{
    int fd = socket(family, type | SOCK_CLOEXEC, protocol);
    if (fd < 0) return -1;
    forget(w, fd);
    *ARRAY_ADD(w->all, w->len, w->cap) = (struct watched_socket){.fd = fd, .cookie = cookie_of(fd)};
    return fd;
}

int socket_table_close(struct socket_table *w, int fd)
{
    forget(w, fd);
    return close(fd);
}

static int local_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
        struct sockaddr_storage room;
    } at;
    socklen_t len = sizeof at;
    if (getsockname(fd, &at.any, &len) != 0) return 0;
    if (at.any.sa_family == AF_INET) return ntohs(at.four.sin_port);
    return at.any.sa_family == AF_INET6 ? ntohs(at.six.sin6_port) : 0;
}

static bool is_quiet(const struct watched_socket *w)
{
    uint8_t byte;
    return recv(w->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

// Connections to different servers may share a local port. Then all of them must be good. Unix
// sockets have no port, so they cannot be told apart and count as good.
bool socket_table_good(struct socket_table *w, int port)
{
    bool good = true;
    if (port == 0) return true;
    for (size_t i = 0; i < w->len; i++) {
        struct watched_socket *at = &w->all[i];
        if (at->port == 0) at->port = local_port(at->fd);
        if (at->port != port) continue;
        bool bad = at->plain && !is_quiet(at);
        if (bad && cookie_of(at->fd) == at->cookie) good = false;
    }
    return good;
}

void socket_table_plain(struct socket_table *w, int port)
{
    for (size_t i = 0; i < w->len; i++)
        if (w->all[i].port == port) w->all[i].plain = true;
}
