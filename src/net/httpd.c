// SPDX-License-Identifier: Apache-2.0
// The server over libmicrohttpd. If a handler returns without an answer, the connection is
// suspended. The answer resumes it.
#define _GNU_SOURCE // strverscmp
#include "base/check.h"
#include "base/memory.h"
#include "base/text.h"
#include "net/disconnect_watch.h"
#include "net/httpd_inside.h"
#include "net/tls.h"
#include "os/lock.h"

#include <limits.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define HEAD_ROOM     ((size_t)8 << 10)   // for libmicrohttpd: a record per field, and the answer
#define DISCARD_MAX   ((size_t)256 << 10) // of a refused body are read and discarded
#define DISCARD_TIMES 4 // times its limit are discarded too, of a body that proves too large
#define STREAM_MAX    ((size_t)1 << 20)
#define STREAM_BLOCK  ((size_t)16 << 10)
#define NOSNIFF       "X-Content-Type-Options", "nosniff" // browsers must not guess the type

// The last version that accepts a bare line feed as a line's end, and joins folded lines wrongly.
#define LENIENT       "0.9.75"

static void *request_begin(void *ctx, const char *uri, struct MHD_Connection *c)
{
    struct httpd_request *r = NEW(struct httpd_request);
    size_t len = strlen(uri) + 1;
    r->loop = ctx;
    r->server = httpd_loop_ctx(r->loop);
    r->connection = c;
    r->held = 1;
    r->target = memory_new(len);
    memcpy(r->target, uri, len);
    // `uri` is the library's own buffer. The library would keep a record of every parameter, and
    // stall when its memory is full of them. Nothing here reads those records: cut the query off.
    char *query = strchr((char *)(uintptr_t)uri, '?');
    if (query) query[1] = '\0';
    (void)pthread_mutex_init(&r->lock, NULL);
    r->line = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    return r;
}

static void request_over(void *ctx, struct MHD_Connection *c, void **at,
                         enum MHD_RequestTerminationCode how)
{
    (void)ctx;
    (void)c;
    struct httpd_request *r = *at;
    if (!r) return;
    struct httpd *h = r->server;
    *at = NULL;
    r->delivered = how == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    connection_expect(r->line, h->config.idle_ms);
    (void)pthread_mutex_lock(&r->lock);
    request_unwatch(r); // before the library closes the socket
    r->stream = NULL;
    r->line = NULL;
    body_give_back(r);
    bool orphan = r->started && !r->handed && r->state != ANSWERED; // its body never came
    (void)pthread_mutex_unlock(&r->lock);
    if (r->response) MHD_destroy_response(r->response);
    r->response = NULL;
    httpd_reply_done(&r->reply);
    if (r->listed) request_delist(r);
    if (orphan) request_drop(r);
    request_drop(r);
}

static void free_body(void *data)
{
    bytes_free(bytes_of(data, 0));
}

static struct MHD_Response *response_with(struct bytes body)
{
    void *data = (void *)(uintptr_t)body.data;
    struct MHD_Response *response =
        data ? MHD_create_response_from_buffer_with_free_callback(body.len, data, free_body)
             : MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    CHECK(response); // out of memory
    (void)MHD_add_response_header(response, NOSNIFF);
    return response;
}

static void say_last(const struct httpd_request *r, struct MHD_Response *to)
{
    if (r->closes || atomic_load(&r->server->stopping))
        (void)MHD_add_response_header(to, MHD_HTTP_HEADER_CONNECTION, "close");
}

static struct MHD_Response *response_of(struct httpd_request *r)
{
    struct MHD_Response *response = response_with(httpd_reply_take_body(&r->reply));
    const char *name, *value;
    for (size_t at = 0; httpd_reply_next(&r->reply, &at, &name, &value);)
        (void)MHD_add_response_header(response, name, value);
    say_last(r, response);
    return response;
}

static enum MHD_Result send_answer(struct httpd_request *r)
{
    if (!r->response) {
        request_leaves(r);
        r->response = response_of(r);
    }
    return MHD_queue_response(r->connection, r->status, r->response);
}

static void resume(const struct httpd_request *r)
{
    MHD_resume_connection(r->connection);
    httpd_loop_wake(r->loop);
}

static struct MHD_Response *empty_response(void)
{
    struct MHD_Response *response = response_with(BYTES_EMPTY);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    return response;
}

// Call it with the request's lock held. Answers in the owner's place, because the owner may be busy
// for long. The owner's answer will have no effect.
static void answer_stopped(struct httpd_request *r)
{
    r->response = empty_response();
    r->status = MHD_HTTP_SERVICE_UNAVAILABLE;
    r->state = ANSWERED;
    r->abandoned = true;
}

// The request came when the server had stopped. The owner never gets it.
static enum MHD_Result refuse_late(struct httpd_request *r)
{
    (void)pthread_mutex_lock(&r->lock);
    answer_stopped(r);
    (void)pthread_mutex_unlock(&r->lock);
    enum MHD_Result result = send_answer(r);
    request_drop(r);
    return result;
}

void request_abandon(struct httpd_request *r)
{
    if (r->state == WAITING) {
        request_unwatch(r);
        answer_stopped(r);
        resume(r);
    } else if (r->state == HANDLING) {
        r->abandoned = true;
    }
}

static enum MHD_Result call_handler(struct httpd_request *r)
{
    struct httpd *h = r->server;
    connection_expect(r->line, 0);
    r->handed = true;
    if (!request_enlist(r)) return refuse_late(r);
    h->config.handle(h->config.ctx, r);
    (void)pthread_mutex_lock(&r->lock);
    if (r->state != ANSWERED && r->abandoned) answer_stopped(r);
    bool answered = r->state == ANSWERED;
    if (!answered) {
        MHD_suspend_connection(r->connection);
        r->state = WAITING;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return answered ? send_answer(r) : MHD_YES;
}

// libmicrohttpd keeps the head in one buffer, with zeros in place of the separators. So the address
// of a field shows how the line before it ended.
struct head_layout {
    struct head *head;
    const char *next; // where the next field must begin; NULL: the library checks line ends
    bool good;        // the request line is well formed
};

static enum MHD_Result weigh_field(void *ctx, enum MHD_ValueKind kind, const char *name,
                                   size_t name_len, const char *value, size_t value_len)
{
    (void)kind;
    (void)name;
    (void)value;
    head_weigh(ctx, name_len, value_len);
    return MHD_YES;
}

static enum MHD_Result add_field(void *ctx, enum MHD_ValueKind kind, const char *name,
                                 size_t name_len, const char *value, size_t value_len)
{
    struct head_layout *l = ctx;
    (void)kind;
    bool line = l->good && (!l->next || name == l->next);
    if (!value) value = name + name_len;
    if (l->next) l->next = value + value_len + 2;
    head_add(l->head, bytes_of(name, name_len), bytes_of(value, value_len), line);
    return MHD_YES;
}

static struct head_layout head_layout_of(struct httpd_request *r, const char *method,
                                         const char *url, const char *version)
{
    struct head_layout l = {.head = &r->head, .good = true};
    if (!r->server->checks_lines) return l;
    l.good = url == method + strlen(method) + 1 && version == url + strlen(r->target) + 1;
    l.next = version + strlen(version) + 2;
    return l;
}

static void read_head(struct httpd_request *r, const char *method, const char *url,
                      const char *version)
{
    struct head_layout l = head_layout_of(r, method, url, version);
    head_init(&r->head, bytes_str(method), bytes_str(r->target));
    (void)MHD_get_connection_values_n(r->connection, MHD_HEADER_KIND, weigh_field, &r->head);
    head_take(&r->head, r->server->config.head_max);
    (void)MHD_get_connection_values_n(r->connection, MHD_HEADER_KIND, add_field, &l);
    // The end of the last line, and the empty line. This also finds a field that the library hides.
    if (!l.good || (l.next && (l.next[-1] || l.next[0] || l.next[1])))
        head_add(&r->head, BYTES_EMPTY, BYTES_EMPTY, false);
    head_end(&r->head, strcmp(version, MHD_HTTP_VERSION_1_0) == 0);
}

// The server answers a refused request after it has read and discarded the body, so that the client
// has finished sending and reads the answer. It does not read the body if the body is large, if the
// client sent Expect, or if the head is at fault.
static bool reads_refused(const struct httpd_request *r)
{
    const struct head *h = &r->head;
    if (h->fault.status != 0) return false; // the end of the body is unknown
    return !head_value(h, MHD_HTTP_HEADER_EXPECT) && h->length <= DISCARD_MAX;
}

static enum MHD_Result begin(struct httpd_request *r, const char *method, const char *url,
                             const char *version)
{
    struct httpd *h = r->server;
    r->started = true;
    connection_heard(&h->lines, r->line);
    (void)text_copy(r->method, sizeof r->method, method);
    memcpy(r->peer, r->line->peer, sizeof r->peer); // the request may outlive its connection
    memcpy(r->client, r->line->client, sizeof r->client);
    connection_expect(r->line, h->config.body_ms);
    read_head(r, method, url, version);
    atomic_fetch_add(&r->held, 1); // the owner's reference, until it has answered
    r->closes = !reads_refused(r);
    r->body.max = h->config.head(h->config.ctx, r);
    bool refused = r->state == ANSWERED;
    CHECK(refused || r->head.fault.status == 0);
    r->body.discarded_max = DISCARD_MAX + (refused ? 0 : DISCARD_TIMES * r->body.max);
    if (!refused && r->head.length > r->body.max)
        r->lost = HTTPD_TOO_LARGE;
    else if (!refused && !body_fits(r, r->head.length))
        r->lost = HTTPD_NO_ROOM;
    if (!refused && r->lost == HTTPD_WHOLE) r->closes = false;
    if (!r->closes) return MHD_YES;
    connection_expect(r->line, 0);
    return refused ? send_answer(r) : call_handler(r);
}

static enum MHD_Result more_body(struct httpd_request *r, const char *data, size_t *len)
{
    body_add(r, data, *len);
    *len = 0;
    return body_flows(r) ? MHD_YES : MHD_NO;
}

static enum MHD_Result hear(void *ctx, struct MHD_Connection *c, const char *url,
                            const char *method, const char *version, const char *data, size_t *len,
                            void **at)
{
    (void)ctx;
    (void)c;
    struct httpd_request *r = *at;
    if (!r->started) return begin(r, method, url, version);
    if (*len > 0) return more_body(r, data, len);
    (void)pthread_mutex_lock(&r->lock);
    enum state state = r->state;
    (void)pthread_mutex_unlock(&r->lock);
    connection_expect(r->line, 0);
    if (state == ANSWERED) return send_answer(r);
    CHECK(state == HANDLING); // the library does not call a suspended one
    return call_handler(r);
}

static void connection_changed(void *ctx, struct MHD_Connection *c, void **at,
                               enum MHD_ConnectionNotificationCode what)
{
    struct httpd_loop *loop = ctx;
    struct httpd *h = httpd_loop_ctx(loop);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        httpd_loop_began(loop);
        int fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        const struct sockaddr *from =
            MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
        struct connection *line = connection_new(&h->lines, fd, from, h->config.first_head_ms);
        line->owner = h;
        *at = line;
    } else {
        struct connection *line = *at;
        if (line->slot != 0) disconnect_watch_remove(h->disconnects, line->slot);
        connection_free(&h->lines, line);
        acceptor_ended(&h->acceptor);
    }
}

static void put_headers(struct MHD_Response *to, const struct httpd_answer *a)
{
    if (a->type) (void)MHD_add_response_header(to, MHD_HTTP_HEADER_CONTENT_TYPE, a->type);
    for (size_t i = 0; i < a->headers_len; i++)
        (void)MHD_add_response_header(to, a->headers[i].name, a->headers[i].value);
}

// Takes ownership of `response` with its stream, or of `reply`. Returns false if the server has
// already answered in the owner's place; the caller keeps them then.
static bool put_answer(struct httpd_request *r, int status, struct MHD_Response *response,
                       struct httpd_stream *stream, const struct httpd_reply *reply)
{
    LOCKED(&r->lock);
    bool late = r->abandoned;
    CHECK(late || r->state != ANSWERED);
    if (!late) {
        bool waiting = r->state == WAITING;
        if (response) say_last(r, response);
        if (reply) r->reply = *reply;
        if (stream)
            request_watch(r);
        else
            request_unwatch(r);
        r->stream = stream;
        r->response = response;
        r->status = (unsigned)status;
        r->state = ANSWERED;
        if (waiting) resume(r);
    }
    return !late;
}

static void answer_large(struct httpd_request *r, const struct httpd_answer *a)
{
    struct MHD_Response *response = response_with(a->owned ? a->body : bytes_copy(a->body));
    put_headers(response, a);
    if (!put_answer(r, a->status, response, NULL, NULL)) MHD_destroy_response(response);
}

void httpd_answer(struct httpd_request *r, const struct httpd_answer *a)
{
    struct httpd_reply reply;
    if (!httpd_reply_take(&reply, a))
        answer_large(r, a);
    else if (!put_answer(r, a->status, NULL, NULL, &reply))
        httpd_reply_done(&reply);
    request_drop(r);
}

static void stream_sleep(void *reader)
{
    const struct httpd_request *r = reader;
    MHD_suspend_connection(r->connection);
}

static void stream_wake(void *reader)
{
    const struct httpd_request *r = reader;
    resume(r);
}

static ssize_t stream_read(void *ctx, uint64_t at, char *to, size_t max)
{
    struct httpd_stream *s = ctx;
    (void)at;
    ssize_t len = feed_read(&s->feed, to, max);
    if (len == FEED_END) return MHD_CONTENT_READER_END_OF_STREAM;
    return len == FEED_GONE ? MHD_CONTENT_READER_END_WITH_ERROR : len;
}

// The library reads no more: all was sent, or the connection has ended.
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
    s->feed.reader = r;
    (void)feed_write(&s->feed, a->body, 0);
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK, stream_read, s, stream_unread);
    CHECK(response); // out of memory
    (void)MHD_add_response_header(response, NOSNIFF);
    put_headers(response, a);
    if (!put_answer(r, a->status, response, s, NULL)) MHD_destroy_response(response);
    return s;
}

// Keeps libmicrohttpd from decoding the target, which src/server parses.
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
    const struct connection *line = info->socket_context;
    const struct httpd *h = line->owner;
    return h->config.tls;
}

// The acceptor limits the connections in all. It lets further clients wait, where the library would
// close them. So each daemon may have connections_max.
static void *daemon_start(void *ctx, struct httpd_loop *loop, int *sockets)
{
    struct httpd *h = ctx;
    const struct httpd_config *c = &h->config;
    h->checks_lines = strverscmp(MHD_get_version(), LENIENT) <= 0; // 0.9.100 follows 0.9.75
    unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME;
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
    struct MHD_Daemon *daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, hear, NULL, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_CONNECTION_LIMIT, c->connections_max, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)((c->idle_ms + 999) / 1000), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        c->head_max + HEAD_ROOM, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_UNESCAPE_CALLBACK,
        leave_escaped, NULL, MHD_OPTION_URI_LOG_CALLBACK, request_begin, loop,
        MHD_OPTION_NOTIFY_COMPLETED, request_over, NULL, MHD_OPTION_NOTIFY_CONNECTION,
        connection_changed, loop, MHD_OPTION_ARRAY, c->tls ? secure : plain, MHD_OPTION_END);
    if (daemon) *sockets = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    return daemon;
}

static bool daemon_add(void *daemon, int fd, const struct sockaddr *from, socklen_t from_len)
{
    return MHD_add_connection(daemon, fd, from, from_len) == MHD_YES;
}

static int daemon_timeout(void *daemon)
{
    MHD_UNSIGNED_LONG_LONG ms;
    if (MHD_get_timeout(daemon, &ms) != MHD_YES) return -1;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

static void daemon_run(void *daemon)
{
    (void)MHD_run(daemon);
}

static void daemon_stop(void *daemon)
{
    MHD_stop_daemon(daemon);
}

const struct httpd_daemon httpd_daemon = {.start = daemon_start,
                                          .add = daemon_add,
                                          .timeout = daemon_timeout,
                                          .run = daemon_run,
                                          .stop = daemon_stop};
