// SPDX-License-Identifier: Apache-2.0
// Sockets of a stream. stream_tls.c has the encrypted half.
#include "net/stream.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/text.h"
#include "net/dial.h"
#include "net/stream_inside.h"
#include "os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define HOST_MAX 192

#define SLICE_MS 1000

struct stream {
    int fd;
    struct stream_session *session; // NULL: plain
};

static void say_unconnected(const struct stream_place *p, int number, int64_t began, char *why,
                            size_t why_len)
{
    char place[HOST_MAX], words[64];
    bool six = p->host && strchr(p->host, ':');
    if (p->path)
        (void)text_copy(place, sizeof place, p->path);
    else
        (void)snprintf(place, sizeof place, six ? "[%.150s]:%s" : "%.150s:%s", p->host, p->port);
    if (number == ETIMEDOUT)
        (void)snprintf(why, why_len, "cannot connect to %.180s: no connection within %lld ms",
                       place, (long long)(clock_boot_ms() - began));
    else
        (void)snprintf(why, why_len, "cannot connect to %.180s: %s", place,
                       dial_words(number, words, sizeof words));
}

// A plain stream's socket blocks, so that a wait for bytes costs no poll.
static void let_block(int fd)
{
    struct timeval slice = {.tv_sec = SLICE_MS / 1000};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice);
    CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0);
}

struct stream *stream_open(const struct stream_place *p, int64_t until, bool *refused, char *why,
                           size_t why_len)
{
    int number = 0;
    int64_t began = clock_boot_ms();
    *refused = false;
    int fd =
        p->path ? dial_path(p->path, until, &number) : dial_host(p->host, p->port, until, &number);
    if (fd < 0) {
        say_unconnected(p, number, began, why, why_len);
        return NULL;
    }
    struct stream *s = NEW(struct stream);
    s->fd = fd;
    if (p->tls) s->session = stream_session_open(p->tls, fd, p->host, until, refused, why, why_len);
    if (!p->tls) let_block(fd);
    if (!p->tls || s->session) return s;
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
    return result_of(recv(s->fd, to, len, MSG_DONTWAIT), true);
}

ssize_t stream_write(struct stream *s, const void *from, size_t len)
{
    if (s->session) return stream_session_write(s->session, from, len);
    return result_of(send(s->fd, from, len, MSG_NOSIGNAL | MSG_DONTWAIT), false);
}

// Removes bytes that were sent from the front of two parts.
static void advance(struct iovec parts[2], size_t sent)
{
    for (int i = 0; i < 2 && sent > 0; i++) { // an empty part has no address
        size_t step = sent < parts[i].iov_len ? sent : parts[i].iov_len;
        parts[i].iov_base = (char *)parts[i].iov_base + step;
        parts[i].iov_len -= step;
        sent -= step;
    }
}

bool stream_send(struct stream *s, struct bytes first, struct bytes second, int64_t until)
{
    struct iovec parts[] = {{.iov_base = (void *)(uintptr_t)first.data, .iov_len = first.len},
                            {.iov_base = (void *)(uintptr_t)second.data, .iov_len = second.len}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = second.len > 0 ? 2 : 1};
    while (parts[0].iov_len + parts[1].iov_len > 0) {
        const struct iovec *next = &parts[parts[0].iov_len == 0];
        ssize_t sent =
            s->session ? stream_session_write(s->session, next->iov_base, next->iov_len)
                       : result_of(sendmsg(s->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT), false);
        if (sent < 0) return false;
        if (sent == 0 && !dial_poll(s->fd, stream_events(s, true), until)) return false;
        advance(parts, (size_t)sent);
    }
    return true;
}

ssize_t stream_receive(struct stream *s, void *to, size_t len, int64_t until)
{
    int64_t left = until - clock_boot_ms();
    if (s->session) {
        ssize_t got = stream_session_read(s->session, to, len);
        int64_t slice = clock_boot_ms() + (left < SLICE_MS ? left : SLICE_MS);
        if (got == 0 && dial_poll(s->fd, stream_events(s, false), slice))
            got = stream_session_read(s->session, to, len);
        return got;
    }
    if (left < SLICE_MS && !dial_poll(s->fd, POLLIN, until)) return 0;
    return result_of(recv(s->fd, to, len, 0), true);
}

bool stream_is_idle(struct stream *s)
{
    char byte;
    return recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
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
