// SPDX-License-Identifier: Apache-2.0
// Sockets and threads of the scripted server.
#define _GNU_SOURCE // memmem, strcasestr
#include "server.h"

#include "base/check.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define READ_LEN ((size_t)64 << 10)

static bool fill(struct peer *p)
{
    uint8_t *room = buf_grow(&p->in, READ_LEN);
    CHECK(room != NULL);
    ssize_t got = recv(p->fd, room, READ_LEN, 0);
    p->in.len -= READ_LEN - (got > 0 ? (size_t)got : 0);
    return got > 0;
}

static void take(struct peer *p, struct buf *to, size_t len)
{
    buf_clear(to);
    buf_put(to, bytes_of(p->in.data, len));
    memmove(p->in.data, p->in.data + len, p->in.len - len);
    p->in.len -= len;
}

static size_t head_len(const struct peer *p)
{
    const uint8_t *end = p->in.len ? memmem(p->in.data, p->in.len, "\r\n\r\n", 4) : NULL;
    return end ? (size_t)(end - p->in.data) + 4 : 0;
}

bool peer_request(struct peer *p)
{
    size_t len = 0;
    while ((len = head_len(p)) == 0)
        if (!fill(p)) return false;
    take(p, &p->head, len);
    buf_put_u8(&p->head, 0);
    const char *field = strcasestr((const char *)p->head.data, "\r\ncontent-length:");
    size_t body_len = field ? strtoul(field + 17, NULL, 10) : 0;
    while (p->in.len < body_len)
        if (!fill(p)) return false;
    take(p, &p->body, body_len);
    atomic_fetch_add(&p->server->requests, 1);
    return true;
}

void peer_send(struct peer *p, struct bytes bytes)
{
    while (bytes.len > 0) {
        ssize_t sent = send(p->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (sent <= 0) return; // the client went away: the test looks at the client
        bytes = bytes_of(bytes.data + sent, bytes.len - (size_t)sent);
    }
}

void peer_say(struct peer *p, const char *text)
{
    peer_send(p, bytes_str(text));
}

void peer_reset(struct peer *p)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    CHECK(setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
}

void peer_wait_end(struct peer *p)
{
    while (fill(p))
        buf_clear(&p->in);
}

void serve_ok(struct peer *p)
{
    while (peer_request(p))
        peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

// The descriptor stays open until the end, so that server_stop can break it without hitting
// another's.
static void *peer_run(void *arg)
{
    struct peer *p = arg;
    p->server->serve(p);
    struct linger linger;
    socklen_t len = sizeof linger;
    (void)getsockopt(p->fd, SOL_SOCKET, SO_LINGER, &linger, &len);
    if (linger.l_onoff) { // only a close resets
        int nowhere = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(dup2(nowhere, p->fd) == p->fd);
        (void)close(nowhere);
    }
    (void)shutdown(p->fd, SHUT_RDWR);
    return NULL;
}

static void *accept_all(void *arg)
{
    struct server *s = arg;
    for (;;) {
        int fd = accept(s->listening, NULL, NULL);
        if (fd < 0) return NULL;
        int number = atomic_fetch_add(&s->accepted, 1); // seen before the first answer is
        CHECK(number < PEERS_MAX);
        int one = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct peer *p = &s->peers[number];
        p->server = s;
        p->fd = fd;
        p->number = number;
        buf_init(&p->in, REQUEST_MAX);
        buf_init(&p->head, REQUEST_MAX);
        buf_init(&p->body, REQUEST_MAX);
        CHECK(pthread_create(&p->thread, NULL, peer_run, p) == 0);
    }
}

static void listen_tcp(struct server *s)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    s->listening = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(s->listening, (struct sockaddr *)&at, len) == 0);
    CHECK(getsockname(s->listening, (struct sockaddr *)&at, &len) == 0);
    s->port = ntohs(at.sin_port);
    (void)snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d", s->port);
}

static void listen_unix(struct server *s, const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    CHECK(strlen(path) < sizeof at.sun_path);
    memcpy(at.sun_path, path, strlen(path));
    s->listening = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(s->listening, (struct sockaddr *)&at, sizeof at) == 0);
    (void)snprintf(s->url, sizeof s->url, "http://localhost");
}

void server_start(struct server *s, const char *path, void (*serve)(struct peer *p), void *data)
{
    memset(s, 0, sizeof *s);
    s->serve = serve;
    s->data = data;
    if (path)
        listen_unix(s, path);
    else
        listen_tcp(s);
    CHECK(listen(s->listening, PEERS_MAX) == 0);
    CHECK(pthread_create(&s->acceptor, NULL, accept_all, s) == 0);
}

void server_claim(struct server *s)
{
    memset(s, 0, sizeof *s);
    listen_tcp(s); // binds, no more
}

void server_stop(struct server *s)
{
    if (!s->serve) {
        (void)close(s->listening);
        return;
    }
    (void)shutdown(s->listening, SHUT_RDWR);
    (void)pthread_join(s->acceptor, NULL);
    (void)close(s->listening);
    for (int i = 0; i < atomic_load(&s->accepted); i++) {
        struct peer *p = &s->peers[i];
        (void)shutdown(p->fd, SHUT_RDWR);
        (void)pthread_join(p->thread, NULL);
        (void)close(p->fd);
        buf_done(&p->in);
        buf_done(&p->head);
        buf_done(&p->body);
    }
}
