// SPDX-License-Identifier: Apache-2.0
#include "net/http1.h"

#include "base/list.h"
#include "base/memory.h"
#include "base/text.h"
#include "net/http_answer.h"
#include "net/http_text.h"
#include "net/stream.h"
#include "os/clock.h"
#include "os/lock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS    30000
#define CONNECT_MS    5000
#define IDLE_MAX      256               // connections kept
#define HEAD_LEN      512               // most heads fit
#define FIRST_LEN     ((size_t)4 << 10) // most answers fit
#define READ_LEN      ((size_t)64 << 10)
#define CHALLENGE_MAX ((size_t)16 << 10) // the body of an answer to a challenge

struct connection {
    struct list_link link; // while it is idle
    struct stream *stream;
    char line[CHALLENGE_LINE]; // a header of its requests; "": none
    bool kept;                 // it served a call before
};

struct http1_client {
    struct http_host host;
    struct stream_tls *tls; // NULL: plain
    bool has_challenge, repeats;
    struct peer_challenge challenge;
    pthread_mutex_t lock;
    struct list idle;
    size_t idle_len;
};

bool http1_is_proxied(void)
{
    static const char *const names[] = {"http_proxy", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return true;
    }
    return false;
}

struct http1_client *http1_new(const char *url, const struct http1_config *config)
{
    struct http1_client *h = NEW(struct http1_client);
    bool good = http_host_of(url, &h->host);
    if (!good || (h->host.secure && !config->tls)) {
        memory_free(h);
        return NULL;
    }
    h->tls = h->host.secure ? config->tls : NULL;
    h->has_challenge = config->challenge != NULL;
    if (config->challenge) h->challenge = *config->challenge;
    h->repeats = config->repeats;
    (void)pthread_mutex_init(&h->lock, NULL);
    return h;
}

static void connection_close(struct connection *w)
{
    stream_free(w->stream);
    memory_free(w);
}

void http1_free(struct http1_client *h)
{
    if (!h) return;
    LIST_EACH(w, &h->idle, struct connection, link)
        connection_close(w);
    (void)pthread_mutex_destroy(&h->lock);
    memory_free(h);
}

static struct connection *idle_first(struct http1_client *h)
{
    LOCKED(&h->lock);
    struct connection *w = LIST_FIRST(&h->idle, struct connection, link);
    if (!w) return NULL;
    list_remove(&h->idle, &w->link);
    h->idle_len--;
    return w;
}

// A connection that is closed, or has bytes that no request asked for, is not used again. A client
// that repeats requests needs no system call to find out.
static struct connection *idle_take(struct http1_client *h)
{
    struct connection *w;
    while ((w = idle_first(h)) && !h->repeats && !stream_is_idle(w->stream))
        connection_close(w);
    return w;
}

static void idle_put(struct http1_client *h, struct connection *w)
{
    w->kept = true;
    {
        LOCKED(&h->lock);
        if (h->idle_len < IDLE_MAX) {
            list_add_first(&h->idle, &w->link);
            h->idle_len++;
            return;
        }
    }
    connection_close(w);
}

struct exchange {
    struct http_call *call;
    struct connection *connection;
    struct http_answer answer;
    int64_t until;
    bool sent, whole, late;
    bool excess; // bytes came after the answer
};

static bool is_hopeless(const struct exchange *x)
{
    const struct http_call *c = x->call;
    return c->head.len == 0 && c->hopeless && c->hopeless(c->hopeless_ctx);
}

// Receives the answer, in `room` at first. A long answer comes in larger pieces.
static enum http_took receive(struct exchange *x, uint8_t room[static FIRST_LEN])
{
    uint8_t *to = room, *more = NULL;
    size_t len = FIRST_LEN;
    enum http_took took = HTTP_TOOK_SOME;
    while (took <= HTTP_TOOK_HEAD) {
        ssize_t got = stream_receive(x->connection->stream, to, len, x->until);
        x->late = got == 0 && (clock_boot_ms() >= x->until || is_hopeless(x));
        if (x->late) break;
        if (got < 0 && http_answer_end(&x->answer)) took = HTTP_TOOK_WHOLE;
        if (got < 0) break;
        struct bytes in = bytes_of(to, (size_t)got);
        do {
            took = http_answer_take(&x->answer, x->call, &in);
        } while (took == HTTP_TOOK_HEAD);
        x->excess = in.len > 0;
        if (took == HTTP_TOOK_SOME && (size_t)got == len && !more) {
            to = more = memory_new(READ_LEN);
            len = READ_LEN;
        }
    }
    memory_free(more);
    return took;
}

static void say_lost(const struct exchange *x, enum http_took took)
{
    struct http_call *c = x->call;
    char place[HTTP_PLACE_MAX];
    http_place(c->url, place);
    if (took == HTTP_TOOK_BAD)
        (void)snprintf(c->why, sizeof c->why, "%s sent an answer that is not valid HTTP", place);
    else if (x->late)
        http_say_timeout(c, place, false);
    else
        (void)snprintf(c->why, sizeof c->why, "%s closed the connection %s", place,
                       !x->sent          ? "while the request was sent"
                       : c->head.len > 0 ? "inside its answer"
                                         : "without an answer");
}

// One request and its answer. Returns whether the connection can be used again.
static bool exchange(const struct http1_client *h, struct exchange *x, const char *path)
{
    NOT_ZEROED uint8_t room[FIRST_LEN];
    struct http_call *c = x->call;
    LOCAL(buf, head, HTTP_HEADERS_MAX);
    (void)buf_reserve(&head, HEAD_LEN);
    http_put_head(&head, c, h->host.name, path, x->connection->line);
    if (c->sends++ == 0) c->sent_ms = clock_boot_ms();
    c->end = HTTP_LOST;
    x->sent = stream_send(x->connection->stream, buf_bytes(&head), c->body, x->until);
    // A server may answer and close before it has received the whole request.
    enum http_took took = receive(x, room);
    x->whole = took == HTTP_TOOK_WHOLE;
    if (x->whole) {
        c->end = HTTP_ANSWERED;
    } else if (took == HTTP_TOOK_LONG) {
        c->end = HTTP_TOO_LONG;
        (void)snprintf(c->why, sizeof c->why, "the answer is longer than %zu bytes", c->body_max);
    } else {
        say_lost(x, took);
        c->status = 0;
    }
    explicit_bzero(head.data, head.len); // it may have a token
    return x->whole && x->sent && x->answer.keeps && !x->excess;
}

static bool challenge_passed(const struct http1_client *h, struct connection *w, int64_t until)
{
    const struct peer_challenge *g = &h->challenge;
    char nonce[CHALLENGE_NONCE], path[CHALLENGE_PATH], whole[HTTP_BASE_MAX + CHALLENGE_PATH];
    LOCAL(http_call, hello, "GET", "");
    hello.body_max = CHALLENGE_MAX;
    g->ask(g->ctx, nonce, path);
    (void)snprintf(whole, sizeof whole, "%s%s", h->host.base, path);
    struct exchange x = {.call = &hello, .connection = w, .until = until};
    return exchange(h, &x, whole) && g->shown(g->ctx, nonce, &hello, w->line);
}

static struct connection *dial(const struct http1_client *h, struct http_call *c, int64_t until)
{
    struct stream_place to = {.host = h->host.host, .port = h->host.port, .tls = h->tls};
    int64_t latest = clock_boot_ms() + (c->connect_ms > 0 ? c->connect_ms : CONNECT_MS);
    bool refused = false;
    if (latest > until) latest = until;
    struct stream *stream = stream_open(&to, latest, &refused, c->why, sizeof c->why);
    c->untrusted = refused;
    if (!stream) return NULL;
    struct connection *w = NEW(struct connection);
    w->stream = stream;
    if (!h->has_challenge || challenge_passed(h, w, until)) return w;
    (void)snprintf(c->why, sizeof c->why, "%.100s does not prove that it is the expected node",
                   h->host.name);
    connection_close(w);
    return NULL;
}

// Returns whether the request can be sent once more, on a new connection.
static bool attempt(struct http1_client *h, struct http_call *c, int64_t until, bool again)
{
    struct connection *w = again ? NULL : idle_take(h);
    if (!w) w = dial(h, c, until);
    if (!w) return false;
    struct exchange x = {.call = c, .connection = w, .until = until};
    bool repeats = h->repeats && w->kept;
    if (exchange(h, &x, http_path(c->url)))
        idle_put(h, w);
    else
        connection_close(w);
    return repeats && !x.whole && !x.late && c->head.len == 0 && c->end == HTTP_LOST;
}

void http1_do(struct http1_client *h, struct http_call *c)
{
    int64_t until = clock_boot_ms() + (c->timeout_ms ? c->timeout_ms : TIMEOUT_MS);
    http_call_clear(c);
    for (size_t i = 0; i < c->headers_len; i++) {
        if (!strpbrk(c->headers[i], "\r\n")) continue;
        (void)text_copy(c->why, sizeof c->why, "a header of the request has a line break in it");
        return;
    }
    if (attempt(h, c, until, false)) (void)attempt(h, c, until, true);
    c->received_ms = clock_boot_ms();
}
