// SPDX-License-Identifier: Apache-2.0
// A thread per connection, one lock around everything.
#define _GNU_SOURCE // accept4, strcasestr
#include "stand_in.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ROUTES_MAX  16
#define THREADS_MAX 64
#define TEXT_MAX    65536

struct route {
    char what[256];
    int status;
    char *body;
    char require[256];
    bool hang;
    int count;
    char *last;
};

struct visitor {
    struct stand_in *server;
    int fd;
    pthread_t thread;
};

struct stand_in {
    int fd;
    char url[64];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ending;
    struct route routes[ROUTES_MAX];
    size_t routes_len;
    struct visitor visitors[THREADS_MAX];
    size_t visitors_len;
};

static void must(bool fact, const char *what)
{
    if (fact) return;
    perror(what);
    abort();
}

static struct route *route_of(struct stand_in *s, const char *what, bool make)
{
    for (size_t i = 0; i < s->routes_len; i++)
        if (strcmp(s->routes[i].what, what) == 0) return &s->routes[i];
    if (!make) return NULL;
    must(s->routes_len < ROUTES_MAX, "routes");
    struct route *r = &s->routes[s->routes_len++];
    (void)snprintf(r->what, sizeof r->what, "%s", what);
    r->status = 404;
    r->body = strdup("");
    r->last = strdup("");
    return r;
}

// One whole request into text. False: the other side has closed.
static bool read_request(int fd, char *text)
{
    size_t len = 0;
    for (;;) {
        text[len] = 0;
        const char *end = strstr(text, "\r\n\r\n");
        if (end) {
            const char *length = strcasestr(text, "\r\nContent-Length:");
            size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
            if (len >= (size_t)(end + 4 - text) + body) return true;
        }
        ssize_t n = len + 1 < TEXT_MAX ? read(fd, text + len, TEXT_MAX - 1 - len) : 0;
        if (n <= 0) return false;
        len += (size_t)n;
    }
}

static void write_answer(int fd, int status, const char *body)
{
    char head[256];
    int len = snprintf(head, sizeof head, "HTTP/1.1 %d Status\r\nContent-Length: %zu\r\n\r\n",
                       status, strlen(body));
    (void)!send(fd, head, (size_t)len, MSG_NOSIGNAL);
    (void)!send(fd, body, strlen(body), MSG_NOSIGNAL);
}

// With the lock, which is free while the request hangs.
static void serve_one(struct stand_in *s, int fd, const char *text)
{
    char method[16] = "", path[200] = "", what[256];
    (void)sscanf(text, "%15s %199s", method, path);
    (void)snprintf(what, sizeof what, "%s %s", method, path);
    struct route *r = route_of(s, what, true);
    r->count++;
    free(r->last);
    r->last = strdup(text);
    (void)pthread_cond_broadcast(&s->changed);
    while (r->hang && !s->ending)
        (void)pthread_cond_wait(&s->changed, &s->lock);
    bool allowed = !*r->require || strcasestr(text, r->require);
    if (!s->ending) write_answer(fd, allowed ? r->status : 401, allowed ? r->body : "");
}

static void *visit(void *ctx)
{
    struct visitor *v = ctx;
    char *text = malloc(TEXT_MAX);
    while (read_request(v->fd, text)) {
        (void)pthread_mutex_lock(&v->server->lock);
        serve_one(v->server, v->fd, text);
        (void)pthread_mutex_unlock(&v->server->lock);
    }
    free(text);
    return NULL;
}

static void *accept_all(void *ctx)
{
    struct stand_in *s = ctx;
    for (;;) {
        int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
        (void)pthread_mutex_lock(&s->lock);
        bool ending = s->ending;
        if (fd >= 0 && !ending) {
            must(s->visitors_len < THREADS_MAX, "connections");
            struct visitor *v = &s->visitors[s->visitors_len++];
            *v = (struct visitor){.server = s, .fd = fd};
            must(pthread_create(&v->thread, NULL, visit, v) == 0, "thread");
        }
        (void)pthread_mutex_unlock(&s->lock);
        if (ending) {
            if (fd >= 0) (void)close(fd);
            return NULL;
        }
    }
}

struct stand_in *stand_in_new(void)
{
    struct stand_in *s = calloc(1, sizeof *s);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(s->fd >= 0 && bind(s->fd, (struct sockaddr *)&at, sizeof at) == 0 &&
             listen(s->fd, 16) == 0 && getsockname(s->fd, (struct sockaddr *)&at, &len) == 0,
         "listen");
    (void)snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d", ntohs(at.sin_port));
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->changed, NULL);
    must(pthread_create(&s->thread, NULL, accept_all, s) == 0, "thread");
    return s;
}

void stand_in_free(struct stand_in *s)
{
    if (!s) return;
    (void)pthread_mutex_lock(&s->lock);
    s->ending = true;
    (void)shutdown(s->fd, SHUT_RDWR);
    for (size_t i = 0; i < s->visitors_len; i++)
        (void)shutdown(s->visitors[i].fd, SHUT_RDWR);
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
    (void)pthread_join(s->thread, NULL);
    for (size_t i = 0; i < s->visitors_len; i++) {
        (void)pthread_join(s->visitors[i].thread, NULL);
        (void)close(s->visitors[i].fd);
    }
    for (size_t i = 0; i < s->routes_len; i++) {
        free(s->routes[i].body);
        free(s->routes[i].last);
    }
    (void)close(s->fd);
    (void)pthread_cond_destroy(&s->changed);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

const char *stand_in_url(const struct stand_in *s)
{
    return s->url;
}

void stand_in_answer(struct stand_in *s, const char *what, int status, const char *body)
{
    (void)pthread_mutex_lock(&s->lock);
    struct route *r = route_of(s, what, true);
    r->status = status;
    free(r->body);
    r->body = strdup(body);
    (void)pthread_mutex_unlock(&s->lock);
}

void stand_in_require(struct stand_in *s, const char *what, const char *header)
{
    (void)pthread_mutex_lock(&s->lock);
    struct route *r = route_of(s, what, true);
    (void)snprintf(r->require, sizeof r->require, "%s", header ? header : "");
    (void)pthread_mutex_unlock(&s->lock);
}

void stand_in_hang(struct stand_in *s, const char *what, bool hang)
{
    (void)pthread_mutex_lock(&s->lock);
    route_of(s, what, true)->hang = hang;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
}

int stand_in_count(struct stand_in *s, const char *what)
{
    (void)pthread_mutex_lock(&s->lock);
    struct route *r = route_of(s, what, false);
    int count = r ? r->count : 0;
    (void)pthread_mutex_unlock(&s->lock);
    return count;
}

bool stand_in_await(struct stand_in *s, const char *what, int count)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    (void)pthread_mutex_lock(&s->lock);
    struct route *r = route_of(s, what, true);
    int failed = 0;
    while (r->count < count && failed == 0)
        failed = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    bool there = r->count >= count;
    (void)pthread_mutex_unlock(&s->lock);
    return there;
}

void stand_in_last(struct stand_in *s, const char *what, char *to, size_t size)
{
    (void)pthread_mutex_lock(&s->lock);
    struct route *r = route_of(s, what, true);
    (void)snprintf(to, size, "%s", r->last);
    (void)pthread_mutex_unlock(&s->lock);
}
