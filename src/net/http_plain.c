// SPDX-License-Identifier: Apache-2.0
// Connections are kept, and the one used last is used next. A kept connection that has unrequested
// bytes, or is closed, is not reused. This client never sends a request twice.
#include "net/http_plain.h"

#include "base/check.h"
#include "base/digits.h"
#include "base/memory.h"
#include "net/http_text.h"
#include "os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define HOST_MAX   256
#define PORT_MAX   8
#define TIMEOUT_MS 30000
#define CONNECT_MS 5000
#define SLICE_MS   1000 // a blocking receive returns after this and checks the deadline
#define IDLE_MAX   256  // connections kept
#define FIRST_LEN  ((size_t)2 << 10) // most answers fit
#define READ_LEN   ((size_t)64 << 10)
#define HEAD_LEN   512 // most heads fit

struct plain_http {
    char host[HOST_MAX]; // without brackets
    char port[PORT_MAX];
    char name[HOST_MAX + PORT_MAX + 4]; // as the Host header has it
    char base[HOST_MAX];                // the URL's own path; "": none
    pthread_mutex_t lock;
    int idle[IDLE_MAX];
    size_t idle_len;
};

static bool wants_proxy(void)
{
    static const char *const names[] = {"http_proxy", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return true;
    }
    return false;
}

static bool take_place(struct plain_http *p, const char *url)
{
    const char *at = url + strlen("http://");
    size_t len = strcspn(at, "/?#"), host = len;
    if (len == 0 || len >= HOST_MAX || memchr(at, '@', len)) return false;
    (void)snprintf(p->name, sizeof p->name, "%.*s", (int)len, at);
    (void)snprintf(p->base, sizeof p->base, "%.200s", at + len);
    (void)snprintf(p->port, sizeof p->port, "80");
    const char *bracket = *at == '[' ? memchr(at, ']', len) : NULL;
    const char *from = bracket ? bracket : at;
    const char *colon = memchr(from, ':', len - (size_t)(from - at));
    if (colon) {
        host = (size_t)(colon - at);
        size_t digits = len - host - 1;
        if (digits == 0 || digits >= PORT_MAX) return false;
        (void)snprintf(p->port, sizeof p->port, "%.*s", (int)digits, colon + 1);
    }
    if (bracket)
        (void)snprintf(p->host, sizeof p->host, "%.*s", (int)(bracket - at - 1), at + 1);
    else
        (void)snprintf(p->host, sizeof p->host, "%.*s", (int)host, at);
    return true;
}

struct plain_http *http_plain_new(const char *url)
{
    if (strncmp(url, "http://", 7) != 0 || wants_proxy()) return NULL;
    struct plain_http *p = NEW(struct plain_http);
    if (!take_place(p, url)) {
        memory_free(p);
        return NULL;
    }
    (void)pthread_mutex_init(&p->lock, NULL);
    return p;
}

void http_plain_free(struct plain_http *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->idle_len; i++)
        (void)close(p->idle[i]);
    (void)pthread_mutex_destroy(&p->lock);
    memory_free(p);
}

static int idle_pop(struct plain_http *p)
{
    (void)pthread_mutex_lock(&p->lock);
    int fd = p->idle_len > 0 ? p->idle[--p->idle_len] : -1;
    (void)pthread_mutex_unlock(&p->lock);
    return fd;
}

static void idle_push(struct plain_http *p, int fd)
{
    (void)pthread_mutex_lock(&p->lock);
    bool room = p->idle_len < IDLE_MAX;
    if (room) p->idle[p->idle_len++] = fd;
    (void)pthread_mutex_unlock(&p->lock);
    if (!room) (void)close(fd);
}

// Returns a kept connection that is open and has no unrequested bytes; -1: there is none.
static int idle_take(struct plain_http *p)
{
    char byte;
    for (int fd; (fd = idle_pop(p)) >= 0; (void)close(fd))
        if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN) return fd;
    return -1;
}

static int wait_for(int fd, short events, int64_t until)
{
    int64_t left = until - clock_boot_ms();
    struct pollfd one = {.fd = fd, .events = events};
    return poll(&one, 1, left > 0 ? (int)left : 0);
}

// Returns 0 or an errno value.
static int finish_connect(int fd, int64_t until)
{
    int number = 0;
    socklen_t len = sizeof number;
    int ready;
    while ((ready = wait_for(fd, POLLOUT, until)) < 0 && errno == EINTR) {
    }
    if (ready <= 0) return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &len) == 0 ? number : errno;
}

static int connect_to(const struct addrinfo *a, int64_t until, int *number)
{
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (fd < 0) {
        *number = errno;
        return -1;
    }
    *number = connect(fd, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (*number == EINPROGRESS) *number = finish_connect(fd, until);
    int flags = fcntl(fd, F_GETFL), on = 1;
    struct timeval slice = {.tv_sec = SLICE_MS / 1000};
    if (*number == 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0) *number = errno;
    if (*number) {
        (void)close(fd);
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice);
    return fd;
}

static int dial(const struct plain_http *p, struct http_call *c, int64_t until)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
    char place[HTTP_PLACE_MAX];
    int fd = -1, number = 0;
    int64_t latest = clock_boot_ms() + (c->connect_ms > 0 ? c->connect_ms : CONNECT_MS);
    if (latest < until) until = latest;
    http_place(c->url, place);
    if (getaddrinfo(p->host, p->port, &hints, &all) != 0) {
        (void)snprintf(c->why, sizeof c->why, "cannot connect to %s: the name is not known", place);
        return -1;
    }
    for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next)
        fd = connect_to(a, until, &number);
    freeaddrinfo(all);
    if (fd < 0 && number == ETIMEDOUT) http_say_timeout(c, place, false);
    if (fd < 0 && number != ETIMEDOUT) http_say_unconnected(c, place, "", number);
    return fd;
}

static void put_text(struct buf *to, const char *text)
{
    buf_put(to, bytes_str(text));
}

static void put_head(const struct plain_http *p, const struct http_call *c, struct buf *to)
{
    const char *path = strchr(c->url + strlen("http://"), '/');
    char length[DIGITS_MAX];
    put_text(to, c->method);
    put_text(to, " ");
    put_text(to, path ? path : "/");
    put_text(to, " HTTP/1.1\r\nHost: ");
    put_text(to, p->name);
    put_text(to, "\r\nUser-Agent: sluice\r\n");
    for (size_t i = 0; i < c->headers_len; i++) {
        put_text(to, c->headers[i]);
        put_text(to, "\r\n");
    }
    if (c->body.len > 0 || *c->method == 'P') {
        put_text(to, "Content-Length: ");
        buf_put(to, bytes_of(length, (size_t)(digits_put(length, c->body.len) - length)));
        put_text(to, "\r\n");
    }
    put_text(to, "\r\n");
}

// Allocates the usual size at once, so that the buffer need not grow step by step.
static void reserve(struct buf *b, size_t len)
{
    if (b->cap < len && buf_grow(b, len)) buf_clear(b);
}

static bool send_all(int fd, struct iovec *parts, size_t count, int64_t until)
{
    while (count > 0) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        bool again = sent < 0 && (errno == EAGAIN || errno == EINTR);
        if (sent < 0 && (!again || clock_boot_ms() >= until)) return false;
        if (sent < 0) (void)wait_for(fd, POLLOUT, until);
        for (size_t left = sent > 0 ? (size_t)sent : 0; count > 0;) {
            size_t step = left < parts->iov_len ? left : parts->iov_len;
            parts->iov_base = (char *)parts->iov_base + step;
            parts->iov_len -= step;
            left -= step;
            if (parts->iov_len > 0) break;
            parts++;
            count--;
        }
    }
    return true;
}

struct answer_reader {
    struct http_call *call;
    int fd;
    int64_t until;
    uint8_t *in; // received bytes: `first`, or `more` if they do not fit
    size_t len;
    size_t cap;
    size_t at;  // bytes of `in` that were consumed
    bool tried; // at least one receive was tried
    bool late;  // the deadline passed
    uint8_t *more;
    uint8_t first[FIRST_LEN];
};

static void hearing_init(struct answer_reader *h, struct http_call *c, int fd, int64_t until)
{
    h->call = c;
    h->fd = fd;
    h->until = until;
    h->in = h->first;
    h->len = h->at = 0;
    h->cap = sizeof h->first;
    h->tried = h->late = false;
    h->more = NULL;
}

static void hearing_done(struct answer_reader *h)
{
    memory_free(h->more);
}

// An answer that does not arrive in one receive is long or slow: use a larger buffer.
static void make_room(struct answer_reader *h)
{
    bool first = !h->tried;
    h->tried = true;
    if (first || (h->more && h->len < h->cap / 2)) return;
    size_t cap = h->len + READ_LEN;
    bool moves = !h->more;
    h->more = memory_resize(h->more, cap);
    if (moves) memcpy(h->more, h->first, h->len);
    h->in = h->more;
    h->cap = cap;
}

static bool is_hopeless(const struct answer_reader *h)
{
    const struct http_call *c = h->call;
    return h->len == 0 && c->head.len == 0 && c->hopeless && c->hopeless(c->hopeless_ctx);
}

// Receives more of the answer. Returns false if the connection has ended or the deadline passed.
static bool hear(struct answer_reader *h)
{
    make_room(h);
    for (;;) {
        int64_t left = h->until - clock_boot_ms();
        bool ready = left >= SLICE_MS || wait_for(h->fd, POLLIN, h->until) != 0;
        ssize_t got = ready ? recv(h->fd, h->in + h->len, h->cap - h->len, 0) : -1;
        if (got > 0) {
            h->len += (size_t)got;
            return true;
        }
        bool again = !ready || (got < 0 && (errno == EAGAIN || errno == EINTR));
        h->late = again && (clock_boot_ms() >= h->until || is_hopeless(h));
        if (again && !h->late) continue;
        return false;
    }
}

static bool next_line(struct answer_reader *h, struct bytes *line)
{
    for (size_t looked = h->at;;) {
        const uint8_t *from = h->in + looked;
        const uint8_t *end = h->len > looked ? memchr(from, '\n', h->len - looked) : NULL;
        if (end) {
            *line = bytes_of(h->in + h->at, (size_t)(end + 1 - h->in) - h->at);
            h->at += line->len;
            return true;
        }
        looked = h->len;
        if (h->len - h->at > HTTP_HEADERS_MAX || !hear(h)) return false;
    }
}

// Skips interim answers (1xx).
static bool read_head(struct answer_reader *h)
{
    struct http_call *c = h->call;
    struct bytes line;
    reserve(&c->head, HEAD_LEN);
    do {
        buf_clear(&c->head);
        if (!next_line(h, &line) || !http_is_status_line(line) || line.len < 13) return false;
        c->status = atoi((const char *)line.data + 9);
        buf_put(&c->head, line);
        do {
            if (!next_line(h, &line)) return false;
            buf_put(&c->head, line);
            if (c->head.bad) return false;
        } while (!http_is_blank_line(line));
    } while (c->status < 200);
    return true;
}

static bool read_body(struct answer_reader *h, size_t len)
{
    struct buf *to = &h->call->body_in;
    while (len > 0) {
        size_t here = h->len - h->at;
        size_t step = here < len ? here : len;
        buf_put(to, bytes_of(h->in + h->at, step));
        if (to->bad) return false;
        h->at += step;
        len -= step;
        if (h->at == h->len) h->at = h->len = 0;
        if (len > 0 && !hear(h)) return false;
    }
    return true;
}

static bool read_chunks(struct answer_reader *h)
{
    struct bytes line;
    for (;;) {
        char *end;
        if (!next_line(h, &line) || strspn((const char *)line.data, "0123456789abcdefABCDEF") == 0)
            return false;
        size_t len = strtoull((const char *)line.data, &end, 16);
        if (len == 0) break;
        if (len > h->call->body_max || !read_body(h, len) || !next_line(h, &line)) return false;
    }
    do { // trailers
        if (!next_line(h, &line)) return false;
    } while (!http_is_blank_line(line));
    return true;
}

static bool says(const struct http_call *c, const char *name, const char *word)
{
    struct bytes value = http_header(c, name);
    return value.len == strlen(word) && strncasecmp((const char *)value.data, word, value.len) == 0;
}

// Sets *whole if the answer is complete. Returns true if the connection can also be reused.
static bool read_rest(struct answer_reader *h, bool *whole)
{
    struct http_call *c = h->call;
    struct bytes length = http_header(c, "content-length");
    bool none = strcmp(c->method, "HEAD") == 0 || c->status == 204 || c->status == 304;
    bool keeps = !says(c, "connection", "close") && c->head.data[7] == '1';
    if (none) {
        *whole = true;
    } else if (says(c, "transfer-encoding", "chunked")) {
        *whole = read_chunks(h);
    } else if (length.len > 0) {
        size_t len = strtoull((const char *)length.data, NULL, 10);
        if (len > c->body_max) c->body_in.bad = true;
        http_reserve(c);
        *whole = !c->body_in.bad && read_body(h, len);
    } else { // the body ends where the connection is closed
        keeps = false;
        while (read_body(h, h->len - h->at > 0 ? h->len - h->at : 1)) {
        }
        *whole = !h->late && !c->body_in.bad;
    }
    return keeps && *whole && h->at == h->len;
}

static void say_lost(const struct answer_reader *h, bool sent)
{
    struct http_call *c = h->call;
    char place[HTTP_PLACE_MAX];
    http_place(c->url, place);
    c->end = HTTP_LOST;
    if (h->late)
        http_say_timeout(c, place, false);
    else
        (void)snprintf(c->why, sizeof c->why, "%s closed the connection %s", place,
                       !sent             ? "while the request was sent"
                       : c->head.len > 0 ? "inside its answer"
                                         : "without an answer");
}

// Returns true if the connection can be reused.
static bool exchange(struct plain_http *p, struct http_call *c, int fd, int64_t until)
{
    CLEANUP(buf_done) struct buf head;
    CLEANUP(hearing_done) NOT_ZEROED struct answer_reader h;
    bool whole = false, again = false;
    hearing_init(&h, c, fd, until);
    buf_init(&head, HTTP_HEADERS_MAX);
    reserve(&head, HEAD_LEN);
    put_head(p, c, &head);
    struct iovec parts[] = {{.iov_base = head.data, .iov_len = head.len},
                            {.iov_base = (void *)(uintptr_t)c->body.data, .iov_len = c->body.len}};
    c->sends = 1;
    c->sent_ms = clock_boot_ms();
    bool sent = send_all(fd, parts, c->body.len > 0 ? 2 : 1, until);
    // A server may answer and close before it has received the whole request.
    bool headed = read_head(&h);
    if (headed) again = read_rest(&h, &whole);
    c->received_ms = clock_boot_ms();
    if (whole) {
        c->end = HTTP_ANSWERED;
    } else if (c->body_in.bad) {
        c->end = HTTP_TOO_LONG;
        (void)snprintf(c->why, sizeof c->why, "the answer is longer than %zu bytes", c->body_max);
    } else {
        c->status = 0;
        say_lost(&h, sent);
    }
    return again && sent;
}

void http_plain_do(struct plain_http *p, struct http_call *c)
{
    int64_t now = clock_boot_ms(), until = now + (c->timeout_ms ? c->timeout_ms : TIMEOUT_MS);
    buf_clear(&c->head);
    buf_clear(&c->body_in);
    c->body_in.limit = c->body_max;
    c->end = HTTP_NOT_SENT;
    c->status = c->sends = 0;
    c->why[0] = 0;
    c->sent_ms = c->received_ms = now;
    for (size_t i = 0; i < c->headers_len; i++) {
        if (!strpbrk(c->headers[i], "\r\n")) continue;
        (void)snprintf(c->why, sizeof c->why, "a header of the request has a line break in it");
        return;
    }
    int fd = idle_take(p);
    if (fd < 0) fd = dial(p, c, until);
    if (fd < 0) return;
    if (exchange(p, c, fd, until))
        idle_push(p, fd);
    else
        (void)close(fd);
}
