// SPDX-License-Identifier: Apache-2.0
// Sockets of a stream. stream_tls.c has the encrypted half.
#include "net/stream.h"

#include "base/memory.h"
#include "net/stream_inside.h"
#include "os/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct stream {
    int fd;
    struct stream_session *session; // NULL: plain
};

bool stream_poll(int fd, short events, int64_t until)
{
    for (;;) {
        int64_t left = until - clock_boot_ms();
        struct pollfd one = {.fd = fd, .events = events};
        int ready = poll(&one, 1, left > 0 ? (int)left : 0);
        if (ready >= 0) return ready > 0;
        if (errno != EINTR) return false;
    }
}

// Returns 0 or an errno value.
static int finish_connect(int fd, int64_t until)
{
    int number = 0;
    socklen_t len = sizeof number;
    if (!stream_poll(fd, POLLOUT, until)) return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &len) == 0 ? number : errno;
}

static int connect_to(int family, int protocol, const struct sockaddr *to, socklen_t to_len,
                      int64_t until, int *number)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    *number = fd < 0 ? errno : 0;
    if (fd < 0) return -1;
    if (connect(fd, to, to_len) != 0) *number = errno;
    // A Unix socket whose queue is full answers EAGAIN and never becomes writable.
    if (*number == EINPROGRESS) *number = finish_connect(fd, until);
    if (*number == 0) return fd;
    (void)close(fd);
    return -1;
}

static int dial_path(const char *path, int64_t until, char *why, size_t why_len)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int number = ENAMETOOLONG, fd = -1;
    size_t len = strlen(path);
    if (len < sizeof to.sun_path) {
        memcpy(to.sun_path, path, len + 1);
        fd = connect_to(AF_UNIX, 0, (const struct sockaddr *)&to, sizeof to, until, &number);
    }
    if (fd < 0)
        (void)snprintf(why, why_len, "cannot connect to %.150s: %s", path, strerror(number));
    return fd;
}

static int dial_host(const struct stream_place *p, int64_t until, char *why, size_t why_len)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
    int fd = -1, number = 0, on = 1;
    if (getaddrinfo(p->host, p->port, &hints, &all) != 0) {
        (void)snprintf(why, why_len, "cannot connect to %.150s: the name is not known", p->host);
        return -1;
    }
    for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next)
        fd = connect_to(a->ai_family, a->ai_protocol, a->ai_addr, a->ai_addrlen, until, &number);
    freeaddrinfo(all);
    if (fd < 0) {
        (void)snprintf(why, why_len, "cannot connect to %.150s:%s: %s", p->host, p->port,
                       strerror(number));
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    return fd;
}

struct stream *stream_open(const struct stream_place *p, int64_t until, bool *refused, char *why,
                           size_t why_len)
{
    *refused = false;
    int fd = p->path ? dial_path(p->path, until, why, why_len) : dial_host(p, until, why, why_len);
    if (fd < 0) return NULL;
    struct stream *s = NEW(struct stream);
    s->fd = fd;
    if (!p->tls) return s;
    s->session = stream_session_open(p->tls, fd, p->host, until, refused, why, why_len);
    if (s->session) return s;
    stream_free(s);
    return NULL;
}

void stream_free(struct stream *s)
{
    if (!s) return;
    stream_session_free(s->session, true);
    (void)close(s->fd);
    memory_free(s);
}

void stream_abandon(struct stream *s)
{
    if (!s) return;
    stream_session_free(s->session, false);
    (void)close(s->fd);
    memory_free(s);
}

static ssize_t result_of(ssize_t n, bool reads)
{
    if (n > 0) return n;
    if (n == 0) return reads ? -1 : 0; // the other end closed
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

ssize_t stream_read(struct stream *s, void *to, size_t len)
{
    if (s->session) return stream_session_read(s->session, to, len);
    return result_of(recv(s->fd, to, len, 0), true);
}

ssize_t stream_write(struct stream *s, const void *from, size_t len)
{
    if (s->session) return stream_session_write(s->session, from, len);
    return result_of(send(s->fd, from, len, MSG_NOSIGNAL), false);
}

bool stream_is_exact(const struct stream *s)
{
    return !s->session;
}

int stream_fd(const struct stream *s)
{
    return s->fd;
}

short stream_events(const struct stream *s, bool writes)
{
    short events = (short)(POLLIN | (writes ? POLLOUT : 0));
    return s->session ? stream_session_events(s->session, events) : events;
}
