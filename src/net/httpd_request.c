// SPDX-License-Identifier: Apache-2.0
// The lifetime of requests, and the notifications about them.
#include "base/check.h"
#include "base/memory.h"
#include "net/disconnect_watch.h"
#include "net/httpd_inside.h"
#include "os/clock.h"
#include "os/lock.h"

#include <assert.h>
#include <string.h>

#define ANSWER_RATE ((size_t)16 << 10)

void request_drop(struct httpd_request *r)
{
    if (atomic_fetch_sub(&r->held, 1) != 1) return;
    if (r->done) r->done(r->mine, r->delivered);
    body_done(r);
    head_done(&r->head);
    (void)pthread_mutex_destroy(&r->lock);
    memory_free(r->target);
    memory_free(r);
}

void stream_drop(struct httpd_stream *s)
{
    if (atomic_fetch_sub(&s->held, 1) != 1) return;
    struct httpd_request *r = s->request;
    feed_done(&s->feed);
    memory_free(s);
    request_drop(r);
}

bool request_enlist(struct httpd_request *r)
{
    struct httpd *h = r->server;
    LOCKED(&h->lock);
    r->listed = !h->stopped;
    if (r->listed) {
        list_add_first(&h->requests, &r->link);
        h->requests_len++;
    }
    return r->listed;
}

void request_delist(struct httpd_request *r)
{
    struct httpd *h = r->server;
    LOCKED(&h->lock);
    list_remove(&h->requests, &r->link);
    h->requests_len--;
    (void)pthread_cond_broadcast(&h->fewer);
}

// The library's timeout counts from the last byte, so a slow reader would hold its connection.
void request_leaves(const struct httpd_request *r)
{
    const struct httpd_config *c = &r->server->config;
    uint64_t rate = c->answer_rate > 0 ? c->answer_rate : ANSWER_RATE;
    connection_expect(r->line, c->idle_ms + (int64_t)(r->reply.body.len * 1000 / rate));
}

// Call it with the lock held. The watch holds a reference: request_unwatch or request_client_gone
// drops it.
void request_watch(struct httpd_request *r)
{
    struct disconnect_watch *h = r->server->disconnects;
    if (r->watch != 0 || !r->line) return;
    atomic_fetch_add(&r->held, 1);
    if (r->line->slot == 0) r->line->slot = disconnect_watch_add(h, r->line->fd);
    r->watch = disconnect_watch_begin(h, r->line->slot, r);
}

void request_unwatch(struct httpd_request *r)
{
    if (r->watch != 0 && disconnect_watch_end(r->server->disconnects, r->watch))
        atomic_fetch_sub(&r->held, 1);
    r->watch = 0;
}

const char *httpd_method(const struct httpd_request *r)
{
    return r->method;
}

const char *httpd_target(const struct httpd_request *r)
{
    return r->target;
}

const char *httpd_header(const struct httpd_request *r, const char *name)
{
    return head_value(&r->head, name);
}

bool httpd_nth_header(const struct httpd_request *r, size_t i, struct httpd_pair *out)
{
    return head_nth(&r->head, i, out);
}

const struct httpd_fault *httpd_fault(const struct httpd_request *r)
{
    return &r->head.fault;
}

struct bytes httpd_body(const struct httpd_request *r)
{
    return bytes_of(r->body.data, r->body.len);
}

enum httpd_lost httpd_lost(const struct httpd_request *r)
{
    return r->lost;
}

const char *httpd_peer(const struct httpd_request *r)
{
    return r->peer;
}

const char *httpd_client(const struct httpd_request *r)
{
    return r->client;
}

static_assert(HTTPD_NOTE_MAX == CONNECTION_NOTE_MAX, "the connection keeps it");

// The thread that calls `head` and `handle` is the one that ends the connection.
const char *httpd_note(const struct httpd_request *r)
{
    return r->line ? r->line->note : "";
}

void httpd_set_note(struct httpd_request *r, const char *note)
{
    CHECK(strlen(note) < HTTPD_NOTE_MAX);
    if (r->line) memcpy(r->line->note, note, strlen(note) + 1);
}

bool httpd_gone(struct httpd_request *r)
{
    LOCKED(&r->lock);
    return !r->line || socket_is_gone(r->line->fd);
}

void httpd_attach(struct httpd_request *r, void *mine, void (*done)(void *mine, bool delivered))
{
    r->mine = mine;
    r->done = done;
}

void *httpd_mine(const struct httpd_request *r)
{
    return r->mine;
}

void httpd_keep(struct httpd_request *r)
{
    atomic_fetch_add(&r->held, 1);
}

void httpd_drop(struct httpd_request *r)
{
    request_drop(r);
}

void httpd_watch(struct httpd_request *r, void (*gone)(void *mine))
{
    LOCKED(&r->lock);
    r->gone = gone;
    if (r->state != ANSWERED) request_watch(r);
}

void request_client_gone(void *ctx, void *what)
{
    struct httpd_request *r = what;
    (void)ctx;
    (void)pthread_mutex_lock(&r->lock);
    struct httpd_stream *s = r->stream;
    if (s) atomic_fetch_add(&s->held, 1);
    void (*tell)(void *mine) = r->state != ANSWERED
                                   ? r->gone
                                   : NULL; // copied under the lock: httpd_watch may set it again
    (void)pthread_mutex_unlock(&r->lock);
    if (s) {
        feed_lost(&s->feed);
        stream_drop(s);
    }
    if (tell) tell(r->mine);
    request_drop(r);
}

bool httpd_stream_write(struct httpd_stream *s, struct bytes some, int64_t wait_ms)
{
    return feed_write(&s->feed, some, wait_ms);
}

size_t httpd_stream_pending(struct httpd_stream *s)
{
    return feed_pending(&s->feed);
}

bool httpd_stream_gone(struct httpd_stream *s)
{
    return feed_gone(&s->feed);
}

void httpd_stream_end(struct httpd_stream *s)
{
    feed_end(&s->feed);
    stream_drop(s);
}

void httpd_stream_cut(struct httpd_stream *s, int64_t within_ms)
{
    struct httpd_request *r = s->request;
    (void)pthread_mutex_lock(&r->lock);
    if (r->line) connection_expect(r->line, within_ms);
    (void)pthread_mutex_unlock(&r->lock);
    httpd_stream_end(s);
}

void requests_wait(struct httpd *h, int64_t wait_ms)
{
    int64_t until = clock_boot_ms() + wait_ms;
    while (h->requests_len > 0 && clock_wait(&h->fewer, &h->lock, until))
        ;
}
