// SPDX-License-Identifier: Apache-2.0
// Connections are kept with the header line by which the server knows the client on them. The one
// used last is used next.
#include "net/http_peer.h"

#include "base/memory.h"
#include "net/http_text.h"
#include "net/stream.h"
#include "os/clock.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_MS    30000
#define READ_LEN      ((size_t)16 << 10)
#define CHALLENGE_MAX ((size_t)16 << 10) // the body of an answer to a challenge
#define HOST_MAX      256

struct connection {
    struct connection *next; // among the kept ones
    struct stream *stream;
    char line[CHALLENGE_LINE];
    bool kept; // it served a call before
};

struct http_peer {
    char place[HTTP_PLACE_MAX];
    const char *host, *port; // in `place`
    char name[HOST_MAX];     // as the Host header has them
    struct stream_tls *tls;
    pthread_mutex_t lock;
    struct connection *idle;
};

struct http_peer *http_peer_new(const char *url, struct stream_tls *tls)
{
    bool secure = strncmp(url, "https://", 8) == 0;
    if ((!secure && strncmp(url, "http://", 7) != 0) || (secure && !tls)) return NULL;
    struct http_peer *p = NEW(struct http_peer);
    const char *name = strstr(url, "://") + 3;
    if (!http_split_place(url, p->place, &p->host, &p->port)) {
        memory_free(p);
        return NULL;
    }
    (void)snprintf(p->name, sizeof p->name, "%.*s", (int)strcspn(name, "/?#"), name);
    p->tls = secure ? tls : NULL;
    (void)pthread_mutex_init(&p->lock, NULL);
    return p;
}

static void connection_close(struct connection *w)
{
    stream_free(w->stream);
    memory_free(w);
}

void http_peer_free(struct http_peer *p)
{
    if (!p) return;
    while (p->idle) {
        struct connection *w = p->idle;
        p->idle = w->next;
        connection_close(w);
    }
    (void)pthread_mutex_destroy(&p->lock);
    memory_free(p);
}

static struct connection *idle_take(struct http_peer *p)
{
    (void)pthread_mutex_lock(&p->lock);
    struct connection *w = p->idle;
    if (w) p->idle = w->next;
    (void)pthread_mutex_unlock(&p->lock);
    return w;
}

static void idle_put(struct http_peer *p, struct connection *w)
{
    w->kept = true;
    (void)pthread_mutex_lock(&p->lock);
    w->next = p->idle;
    p->idle = w;
    (void)pthread_mutex_unlock(&p->lock);
}

// Returns false if the time is over.
static bool wait_for(const struct connection *w, bool writes, int64_t until)
{
    int64_t left = until - clock_boot_ms();
    struct pollfd one = {.fd = stream_fd(w->stream), .events = stream_events(w->stream, writes)};
    if (left > 0) (void)poll(&one, 1, (int)left);
    return left > 0;
}

static bool send_all(struct connection *w, struct bytes some, int64_t until)
{
    for (size_t at = 0; at < some.len;) {
        ssize_t sent = stream_write(w->stream, some.data + at, some.len - at);
        if (sent < 0 || (sent == 0 && !wait_for(w, true, until))) return false;
        at += (size_t)sent;
    }
    return true;
}

struct answer_reader {
    struct buf in;
    size_t head_len, body_len;
};

// Receives a whole answer. Returns false, with the reason in c->why, if none came.
static bool hear(struct connection *w, struct http_call *c, struct answer_reader *h, int64_t until)
{
    while (h->head_len == 0 || h->in.len < h->head_len + h->body_len) {
        uint8_t *room = buf_grow(&h->in, READ_LEN);
        size_t had = h->in.len - READ_LEN;
        ssize_t got = stream_read(w->stream, room, READ_LEN);
        h->in.len = had + (got > 0 ? (size_t)got : 0);
        if (got == 0 && wait_for(w, false, until)) continue;
        if (got <= 0) {
            (void)snprintf(c->why, sizeof c->why,
                           got == 0 ? "the node did not answer in time"
                                    : "the node closed the connection without a whole answer");
            return false;
        }
        int head =
            h->head_len > 0 ? 1 : http_take_head(c, buf_bytes(&h->in), &h->head_len, &h->body_len);
        if (head < 0 || h->body_len > c->body_max) {
            (void)snprintf(c->why, sizeof c->why,
                           head < 0 ? "the answer is not valid HTTP"
                                    : "the answer is longer than allowed");
            c->end = head < 0 ? c->end : HTTP_TOO_LONG;
            return false;
        }
    }
    return true;
}

// One request and its answer. c->end is set if a byte of the request may have been sent. *again:
// the connection was closed before a byte of the answer came. Returns whether it can be reused.
static bool exchange(const struct http_peer *p, struct connection *w, struct http_call *c,
                     const char *path, int64_t until, bool *again)
{
    CLEANUP(buf_done) struct buf head;
    struct answer_reader h = {.head_len = 0};
    buf_init(&head, HTTP_HEADERS_MAX);
    buf_init(&h.in, SIZE_MAX);
    http_put_head(&head, c, p->name, path, w->line);
    c->sends++;
    c->end = HTTP_LOST;
    bool sent = send_all(w, buf_bytes(&head), until) && send_all(w, c->body, until);
    // A server may answer and close before it has received the whole request.
    bool complete = hear(w, c, &h, until);
    *again = !complete && h.in.len == 0 && clock_boot_ms() < until;
    if (complete) {
        buf_put(&c->body_in, bytes_of(h.in.data + h.head_len, h.body_len));
        c->end = HTTP_ANSWERED;
    } else if (c->end != HTTP_TOO_LONG) {
        c->status = 0;
    }
    bool keeps = complete && sent && http_is_kept(c) && h.in.len == h.head_len + h.body_len;
    explicit_bzero(head.data, head.len); // it may have a token
    buf_done(&h.in);
    return keeps;
}

static bool challenge_passed(const struct http_peer *p, struct connection *w,
                             const struct peer_challenge *g, int64_t until)
{
    CLEANUP(http_call_done) struct http_call hello;
    char nonce[CHALLENGE_NONCE], path[CHALLENGE_PATH];
    bool again;
    http_call_init(&hello, "GET", "");
    hello.body_max = CHALLENGE_MAX;
    g->ask(g->ctx, nonce, path);
    return exchange(p, w, &hello, path, until, &again) && g->shown(g->ctx, nonce, &hello, w->line);
}

static struct connection *dial(const struct http_peer *p, const struct peer_challenge *challenge,
                               struct http_call *c, int64_t until)
{
    struct stream_place to = {.host = p->host, .port = p->port, .tls = p->tls};
    bool refused = false;
    struct stream *stream = stream_open(&to, until, &refused, c->why, sizeof c->why);
    c->untrusted = refused;
    if (!stream) return NULL;
    struct connection *w = NEW(struct connection);
    w->stream = stream;
    if (!challenge || challenge_passed(p, w, challenge, until)) return w;
    (void)snprintf(c->why, sizeof c->why, "%.100s does not prove that it is the expected node",
                   p->name);
    connection_close(w);
    return NULL;
}

void http_peer_do(struct http_peer *p, const struct peer_challenge *challenge, struct http_call *c)
{
    int64_t until = clock_boot_ms() + (c->timeout_ms ? c->timeout_ms : TIMEOUT_MS);
    const char *path = strchr(strstr(c->url, "://") + 3, '/');
    bool again = false;
    http_call_clear(c);
    do {
        struct connection *w = again ? NULL : idle_take(p);
        if (!w) w = dial(p, challenge, c, until);
        if (!w) break;
        bool kept = w->kept;
        if (exchange(p, w, c, path ? path : "/", until, &again))
            idle_put(p, w);
        else
            connection_close(w);
        again = again && kept;
    } while (again);
    c->received_ms = clock_boot_ms();
}
