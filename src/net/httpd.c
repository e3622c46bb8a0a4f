// SPDX-License-Identifier: Apache-2.0
// The server over libmicrohttpd. A request that is not answered by the time its handler returns is
// suspended, and its answer resumes it.
#include "base/check.h"
#include "base/memory.h"
#include "net/hangup.h"
#include "net/httpd_inside.h"
#include "net/listen.h"
#include "net/tls.h"
#include "os/clock.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS         2
#define CONNECTIONS_MAX 10000
#define BODY_MAX        ((size_t)1 << 20)
#define HEAD_MAX        ((size_t)16 << 10)
#define IDLE_MS         60000
#define BODY_MS         120000
#define HEAD_ROOM       ((size_t)4 << 10) // libmicrohttpd's own, of a connection's memory
#define ABANDON_MS      1000              // for the answers that the server gives itself
#define DISCARD_TIMES   4 // as much of a body that is too large is read, so that the client listens
#define STREAM_MAX      ((size_t)1 << 20)
#define STREAM_BLOCK    ((size_t)16 << 10)

// ---- a request's life

static void *request_begin(void *ctx, const char *uri, struct MHD_Connection *c)
{
    struct httpd *h = ctx;
    struct httpd_request *r = NEW(struct httpd_request);
    size_t len = strlen(uri) + 1;
    r->server = h;
    r->connection = c;
    r->held = 1;
    r->target = memory_new(len);
    memcpy(r->target, uri, len);
    buf_init(&r->body, h->config.body_max);
    (void)pthread_mutex_init(&r->lock, NULL);
    r->line = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    return r;
}

static void request_over(void *ctx, struct MHD_Connection *c, void **at,
                         enum MHD_RequestTerminationCode how)
{
    struct httpd *h = ctx;
    struct httpd_request *r = *at;
    (void)c;
    if (!r) return;
    *at = NULL;
    r->delivered = how == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    line_expect(r->line, h->config.idle_ms);
    (void)pthread_mutex_lock(&r->lock);
    request_unwatch(r); // while the socket is open
    r->stream = NULL;
    (void)pthread_mutex_unlock(&r->lock);
    if (r->response) MHD_destroy_response(r->response);
    r->response = NULL;
    if (r->listed) request_delist(r);
    request_drop(r);
}

// ---- hearing a request

static enum MHD_Result send_answer(struct httpd_request *r)
{
    return MHD_queue_response(r->connection, r->status, r->response);
}

static enum MHD_Result refuse_late(struct httpd_request *r)
{
    r->response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    CHECK(r->response); // out of memory
    (void)MHD_add_response_header(r->response, MHD_HTTP_HEADER_CONNECTION, "close");
    r->status = MHD_HTTP_SERVICE_UNAVAILABLE;
    r->state = ANSWERED;
    return send_answer(r);
}

static enum MHD_Result call_handler(struct httpd_request *r)
{
    struct httpd *h = r->server;
    line_expect(r->line, 0);
    if (!request_enlist(r)) return refuse_late(r);
    atomic_fetch_add(&r->held, 1);
    h->config.handle(h->config.ctx, r);
    (void)pthread_mutex_lock(&r->lock);
    bool answered = r->state == ANSWERED;
    if (!answered) {
        MHD_suspend_connection(r->connection);
        r->state = WAITING;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return answered ? send_answer(r) : MHD_YES;
}

// A client that asked whether it may send, or would send very much more, is not read any further.
static bool refuse_unread(const struct httpd_request *r)
{
    const char *length = httpd_header(r, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t bytes = length ? strtoull(length, NULL, 10) : 0;
    size_t max = r->server->config.body_max;
    if (bytes <= max) return false;
    return httpd_header(r, MHD_HTTP_HEADER_EXPECT) || bytes / DISCARD_TIMES > max;
}

static enum MHD_Result begin_body(struct httpd_request *r, const char *method)
{
    r->started = true;
    (void)snprintf(r->method, sizeof r->method, "%s", method);
    memcpy(r->peer, r->line->peer, sizeof r->peer); // which may outlive its connection
    line_expect(r->line, r->server->config.body_ms);
    if (!refuse_unread(r)) return MHD_YES;
    r->too_large = true;
    return call_handler(r);
}

static enum MHD_Result more_body(struct httpd_request *r, const char *data, size_t *len)
{
    if (!r->too_large) buf_put(&r->body, bytes_of(data, *len));
    if (r->body.bad) {
        r->too_large = true;
        buf_done(&r->body);
        buf_init(&r->body, 0);
    }
    if (r->too_large) r->discarded += *len;
    *len = 0;
    return r->discarded / DISCARD_TIMES > r->server->config.body_max ? MHD_NO : MHD_YES;
}

static enum MHD_Result hear(void *ctx, struct MHD_Connection *c, const char *url,
                            const char *method, const char *version, const char *data, size_t *len,
                            void **at)
{
    (void)ctx;
    (void)c;
    (void)url;
    (void)version;
    struct httpd_request *r = *at;
    if (!r->started) return begin_body(r, method);
    if (*len > 0) return more_body(r, data, len);
    (void)pthread_mutex_lock(&r->lock);
    enum state state = r->state;
    (void)pthread_mutex_unlock(&r->lock);
    if (state == ANSWERED) return send_answer(r);
    CHECK(state == HANDLING); // a suspended one is not called
    return call_handler(r);
}

// ---- connections

static void connection_changed(void *ctx, struct MHD_Connection *c, void **at,
                               enum MHD_ConnectionNotificationCode what)
{
    struct httpd *h = ctx;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        int fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        struct line *line = line_new(&h->lines, fd, h->config.idle_ms);
        line->owner = h;
        *at = line;
    } else {
        line_free(&h->lines, *at);
    }
}

// libmicrohttpd counts from the last byte, so that one byte a minute would keep a connection.
static void cut_slow(void *ctx)
{
    struct httpd *h = ctx;
    lines_cut_late(&h->lines);
    atomic_store(&h->looked_ms, clock_boot_ms());
}

// ---- looking at a request

const char *httpd_header(const struct httpd_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

struct each {
    httpd_header_fn *each;
    void *ctx;
};

static enum MHD_Result each_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    const struct each *e = ctx;
    (void)kind;
    e->each(e->ctx, name, value ? value : "");
    return MHD_YES;
}

void httpd_each_header(const struct httpd_request *r, httpd_header_fn *each, void *ctx)
{
    struct each e = {each, ctx};
    (void)MHD_get_connection_values(r->connection, MHD_HEADER_KIND, each_header, &e);
}

// ---- answering

static void free_body(void *data)
{
    bytes_free(bytes_of(data, 0));
}

static void put_headers(struct MHD_Response *to, const struct httpd_answer *a)
{
    if (a->type) (void)MHD_add_response_header(to, MHD_HTTP_HEADER_CONTENT_TYPE, a->type);
    for (size_t i = 0; i < a->headers_len; i++)
        (void)MHD_add_response_header(to, a->headers[i].name, a->headers[i].value);
}

// The response is the request's from here on. False: the server was quicker, and has given up.
static bool put_response(struct httpd_request *r, int status, struct MHD_Response *response,
                         struct httpd_stream *stream)
{
    (void)pthread_mutex_lock(&r->lock);
    bool late = r->abandoned;
    CHECK(late || r->state != ANSWERED);
    if (!late) {
        bool waiting = r->state == WAITING;
        if (atomic_load(&r->server->stopping))
            (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
        if (stream)
            request_watch(r);
        else
            request_unwatch(r);
        r->stream = stream;
        r->response = response;
        r->status = (unsigned)status;
        r->state = ANSWERED;
        if (waiting) MHD_resume_connection(r->connection);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return !late;
}

void httpd_answer(struct httpd_request *r, const struct httpd_answer *a)
{
    void *data = (void *)(uintptr_t)a->body.data;
    struct MHD_Response *response =
        a->owned && data
            ? MHD_create_response_from_buffer_with_free_callback(a->body.len, data, free_body)
            : MHD_create_response_from_buffer(a->body.len, data, MHD_RESPMEM_MUST_COPY);
    CHECK(response); // out of memory
    put_headers(response, a);
    if (!put_response(r, a->status, response, NULL)) MHD_destroy_response(response);
    request_drop(r);
}

// ---- streams

static void stream_sleep(void *reader)
{
    MHD_suspend_connection(reader);
}

static void stream_wake(void *reader)
{
    MHD_resume_connection(reader);
}

static ssize_t stream_read(void *ctx, uint64_t at, char *to, size_t max)
{
    struct httpd_stream *s = ctx;
    (void)at;
    ssize_t len = feed_read(&s->feed, to, max);
    if (len == FEED_END) return MHD_CONTENT_READER_END_OF_STREAM;
    return len == FEED_GONE ? MHD_CONTENT_READER_END_WITH_ERROR : len;
}

// Nobody reads any more: all was sent, or the connection is gone.
static void stream_unread(void *ctx)
{
    struct httpd_stream *s = ctx;
    feed_lost(&s->feed);
    stream_drop(s);
}

struct httpd_stream *httpd_stream_open(struct httpd_request *r, const struct httpd_answer *a)
{
    struct httpd_stream *s = NEW(struct httpd_stream);
    s->request = r;
    s->held = 2;
    feed_init(&s->feed, STREAM_MAX);
    s->feed.sleep = stream_sleep;
    s->feed.wake = stream_wake;
    s->feed.reader = r->connection;
    (void)feed_write(&s->feed, a->body, 0);
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK, stream_read, s, stream_unread);
    CHECK(response); // out of memory
    put_headers(response, a);
    if (!put_response(r, a->status, response, s)) MHD_destroy_response(response);
    return s;
}

bool httpd_stream_write(struct httpd_stream *s, struct bytes some, int64_t wait_ms)
{
    return feed_write(&s->feed, some, wait_ms);
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

// ---- start and stop

static void set_defaults(struct httpd_config *c)
{
    if (c->threads == 0) c->threads = THREADS;
    if (c->connections_max == 0) c->connections_max = CONNECTIONS_MAX;
    if (c->body_max == 0) c->body_max = BODY_MAX;
    if (c->head_max == 0) c->head_max = HEAD_MAX;
    if (c->idle_ms == 0) c->idle_ms = IDLE_MS;
    if (c->body_ms == 0) c->body_ms = BODY_MS;
}

// The target is taken apart by who knows what it means.
static size_t leave_escaped(void *ctx, struct MHD_Connection *c, char *text)
{
    (void)ctx;
    (void)c;
    return strlen(text);
}

struct tls *httpd_connection_tls(void *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    const struct line *line = info->socket_context;
    const struct httpd *h = line->owner;
    return h->config.tls;
}

static struct MHD_Daemon *start_daemon(struct httpd *h, int fd)
{
    const struct httpd_config *c = &h->config;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC;
    const char *trust = c->tls ? tls_client_ca(c->tls) : NULL;
    void *callback = NULL, *authorities = (void *)(uintptr_t)trust;
    tls_callback_fn *choose = tls_callback();
    memcpy(&callback, &choose, sizeof callback);
    struct MHD_OptionItem secure[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, callback},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
        {trust ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0, authorities},
        {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};
    if (c->tls) flags |= MHD_USE_TLS;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, hear, h, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_THREAD_POOL_SIZE,
        c->threads, MHD_OPTION_CONNECTION_LIMIT, c->connections_max,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, c->per_address_max, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)((c->idle_ms + 999) / 1000), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        c->head_max + HEAD_ROOM, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_UNESCAPE_CALLBACK,
        leave_escaped, NULL, MHD_OPTION_URI_LOG_CALLBACK, request_begin, h,
        MHD_OPTION_NOTIFY_COMPLETED, request_over, h, MHD_OPTION_NOTIFY_CONNECTION,
        connection_changed, h, MHD_OPTION_ARRAY, c->tls ? secure : plain, MHD_OPTION_END);
}

enum err httpd_start(const struct httpd_config *config, struct httpd **out, char *why,
                     size_t why_len)
{
    struct httpd *h = NEW(struct httpd);
    h->config = *config;
    set_defaults(&h->config);
    int fd = listen_at(config->host, config->port, &h->port, why, why_len);
    if (fd < 0) {
        memory_free(h);
        return ERR_UNAVAILABLE;
    }
    (void)pthread_mutex_init(&h->lock, NULL);
    lines_init(&h->lines);
    pthread_condattr_t steady;
    (void)pthread_condattr_init(&steady);
    (void)pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&h->fewer, &steady);
    (void)pthread_condattr_destroy(&steady);
    struct hangup_config watching = {.gone = request_client_gone, .tick = cut_slow, .ctx = h};
    h->looked_ms = clock_boot_ms();
    h->hangup = hangup_new(&watching);
    h->daemon = start_daemon(h, fd);
    if (h->daemon) {
        *out = h;
        return ERR_OK;
    }
    (void)snprintf(why, why_len, "the HTTP library did not start: %s", strerror(errno));
    (void)close(fd);
    hangup_free(h->hangup);
    memory_free(h);
    return ERR_UNAVAILABLE;
}

int64_t httpd_looked_ms(const struct httpd *h)
{
    return atomic_load(&h->looked_ms);
}

uint16_t httpd_port(const struct httpd *h)
{
    return h->port;
}

// Answered in its owner's place, who may be busy for long.
static void abandon(struct httpd_request *r)
{
    (void)pthread_mutex_lock(&r->lock);
    struct httpd_stream *s = r->stream;
    if (s) atomic_fetch_add(&s->held, 1);
    if (r->state == WAITING) {
        request_unwatch(r);
        r->response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
        CHECK(r->response); // out of memory
        r->status = MHD_HTTP_SERVICE_UNAVAILABLE;
        r->state = ANSWERED;
        r->abandoned = true;
        MHD_resume_connection(r->connection);
    }
    (void)pthread_mutex_unlock(&r->lock);
    if (!s) return;
    feed_lost(&s->feed);
    stream_drop(s);
}

void httpd_close(struct httpd *h)
{
    if (atomic_exchange(&h->stopping, true)) return;
    MHD_socket fd = MHD_quiesce_daemon(h->daemon);
    if (fd != MHD_INVALID_SOCKET) (void)close(fd);
}

bool httpd_stop(struct httpd *h, int64_t drain_ms)
{
    if (!h) return true;
    httpd_close(h);
    (void)pthread_mutex_lock(&h->lock);
    requests_wait(h, drain_ms);
    bool drained = h->requests_len == 0;
    h->stopped = true;
    for (struct httpd_request *r = h->requests; r; r = r->next)
        abandon(r);
    if (!drained) requests_wait(h, ABANDON_MS);
    (void)pthread_mutex_unlock(&h->lock);
    MHD_stop_daemon(h->daemon);
    hangup_free(h->hangup);
    lines_done(&h->lines);
    (void)pthread_cond_destroy(&h->fewer);
    (void)pthread_mutex_destroy(&h->lock);
    memory_free(h);
    return drained;
}
