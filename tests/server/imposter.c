// SPDX-License-Identifier: Apache-2.0
// One thread, which polls its connections. What it hears is kept whole, up to a limit.
#define _GNU_SOURCE // memmem, accept4
#include "imposter.h"

#include "../unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINES_MAX 64
#define HEARD_MAX ((size_t)1 << 20)
#define TICK_MS   20

struct imposter {
    enum manner manner;
    int listener;
    char url[64];
    int fds[LINES_MAX];
    bool trickles[LINES_MAX];
    bool deaf[LINES_MAX];
    size_t len;
    pthread_t thread;
    _Atomic bool over;
    pthread_mutex_t lock;
    char *heard;
    size_t heard_len;
};

static void hang_up(struct imposter *s, size_t i, bool reset)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (reset) (void)setsockopt(s->fds[i], SOL_SOCKET, SO_LINGER, &now, sizeof now);
    (void)close(s->fds[i]);
    s->len--;
    s->fds[i] = s->fds[s->len];
    s->trickles[i] = s->trickles[s->len];
    s->deaf[i] = s->deaf[s->len];
}

static void say(int fd, const char *text)
{
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
}

static void say_alive(const struct imposter *s, int fd)
{
    char text[500];
    (void)snprintf(text, sizeof text,
                   "HTTP/1.1 200 OK\r\nSluice-Node: one\r\n%s%s%sContent-Length: 2\r\n\r\n{}",
                   s->manner == LIES ? "Sluice-Key: 0011223344556677\r\nSluice-Nonce: "
                                       "00112233445566778899aabbccddeeff\r\nSluice-Proof: "
                                     : "",
                   s->manner == LIES ? "00112233445566778899aabbccddeeff00112233445566778899aabbcc"
                                       "ddeeff"
                                     : "",
                   s->manner == LIES ? "\r\n" : "");
    say(fd, text);
}

#define HALF "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"

static void answer(struct imposter *s, size_t i, bool health)
{
    int fd = s->fds[i];
    if (s->manner == SILENT) return;
    if (health || s->manner == ANY_NODE || s->manner == LIES) {
        say_alive(s, fd);
        return;
    }
    if (s->manner == UNHEARING_LATER) {
        s->deaf[i] = true;
        return;
    }
    say(fd, HALF);
    s->trickles[i] = s->manner == TRICKLES;
    if (s->manner == RESETS) hang_up(s, i, true);
}

static void hear(struct imposter *s, size_t i)
{
    char some[4096];
    ssize_t got = recv(s->fds[i], some, sizeof some, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        hang_up(s, i, false);
        return;
    }
    (void)pthread_mutex_lock(&s->lock);
    size_t budget = HEARD_MAX - s->heard_len, len = (size_t)got < budget ? (size_t)got : budget;
    memcpy(s->heard + s->heard_len, some, len);
    s->heard_len += len;
    (void)pthread_mutex_unlock(&s->lock);
    // One answer for each head; what comes after it is a body.
    if (memmem(some, (size_t)got, "HTTP/1.1\r\n", 10))
        answer(s, i, memmem(some, (size_t)got, "GET /healthz", 12) != NULL);
}

static void *run(void *arg)
{
    struct imposter *s = arg;
    while (!s->over) {
        struct pollfd polls[LINES_MAX + 1] = {{.fd = s->listener, .events = POLLIN}};
        size_t len = s->len;
        for (size_t i = 0; i < len; i++)
            polls[i + 1] = (struct pollfd){.fd = s->fds[i], .events = s->deaf[i] ? 0 : POLLIN};
        (void)poll(polls, len + 1, TICK_MS);
        for (size_t i = len; i > 0; i--) {
            if (s->trickles[i - 1]) say(s->fds[i - 1], " ");
            if (polls[i].revents) hear(s, i - 1);
        }
        if (!polls[0].revents || s->len == LINES_MAX) continue;
        int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) continue;
        s->trickles[s->len] = false;
        s->deaf[s->len] = s->manner == UNHEARING;
        s->fds[s->len++] = fd;
    }
    return NULL;
}

struct imposter *imposter_start(const char *address, enum manner manner)
{
    struct imposter *s = calloc(1, sizeof *s);
    int on = 1;
    assert_non_null(s);
    s->heard = calloc(1, HEARD_MAX);
    s->manner = manner;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1)),
                             .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    assert_int_equal(bind(s->listener, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(s->listener, 64), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(s->url, sizeof s->url, "http://127.0.0.1:%u", ntohs(at.sin_port));
    (void)pthread_mutex_init(&s->lock, NULL);
    assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
    return s;
}

const char *imposter_url(const struct imposter *s)
{
    return s->url;
}

size_t imposter_count(struct imposter *s, const char *text)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&s->lock);
    const char *at = s->heard, *end = s->heard + s->heard_len;
    while ((at = memmem(at, (size_t)(end - at), text, strlen(text)))) {
        count++;
        at += strlen(text);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return count;
}

bool imposter_heard(struct imposter *s, const char *text)
{
    return imposter_count(s, text) > 0;
}

void imposter_stop(struct imposter *s)
{
    s->over = true;
    (void)pthread_join(s->thread, NULL);
    while (s->len > 0)
        hang_up(s, 0, false);
    (void)close(s->listener);
    (void)pthread_mutex_destroy(&s->lock);
    free(s->heard);
    free(s);
}
