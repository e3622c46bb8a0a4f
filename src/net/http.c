// SPDX-License-Identifier: Apache-2.0
// libcurl, with one easy handle per exchange. An easy handle keeps its connections. The handle that
// was used last is used next, so a lone caller always finds an open connection. http_do_all runs
// several easy handles on one multi handle, which keeps their connections.
//
// libcurl's pre-request callback tells whether a request was sent. It runs on an established
// connection just before the first byte, at every try. If it never ran, nothing was sent.
//
// libcurl (7.88) reuses a kept connection even if unrequested bytes wait there, and would read them
// as the answer. The callback checks for such bytes and restarts the request on another connection.
#include "net/http.h"

#include "base/check.h"
#include "base/memory.h"
#include "net/fifo_semaphore.h"
#include "net/http_text.h"
#include "net/socket_table.h"
#include "os/clock.h"
#include "os/lock.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CONNECT_MS      5000
#define TIMEOUT_MS      30000
#define CONNECTIONS_MAX 64
#define BUFFER_LEN      (64L << 10) // libcurl's receive buffer, per handle
#define OWN_HEADERS     2           // headers that this file adds to the caller's
#define POLL_MS         1000

struct http_connection {
    struct http_connection *next; // while idle
    CURL *easy;
    struct socket_table *sockets; // its own, or its batch's
    struct socket_table own;
    struct curl_slist *nodes; // an array, linked so that libcurl can read it as a list
    size_t nodes_cap;
    long connect_ms; // of the client
    char error[CURL_ERROR_SIZE];
    // of the current exchange
    struct http_call *call;
    bool head_ended; // the blank line after the header was seen
    bool stale;      // the kept connection was unusable; nothing was sent
    int port;        // local port of the current connection
    int64_t ask_at;  // clock_boot_ms: when the call is asked next whether it is hopeless
};

struct http_batch {
    struct http_batch *next; // while idle
    CURLM *multi;
    struct http_connection *idle;
    struct socket_table sockets;
};

struct http {
    char *ca_file;
    char *user_agent;
    char *unix_socket;
    long connect_ms;
    size_t connections_max;
    bool direct;
    struct fifo_semaphore turns;
    pthread_mutex_t lock; // guards the two lists
    struct http_connection *lines;
    struct http_batch *pools;
};

#define SET(easy, option, value) CHECK(curl_easy_setopt(easy, option, value) == CURLE_OK)

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void curl_start(void)
{
    CHECK(curl_global_init(CURL_GLOBAL_ALL) == CURLE_OK);
}

static curl_socket_t open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *to)
{
    (void)purpose;
    int fd = socket_table_open(data, to->family, to->socktype, to->protocol);
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int close_socket(void *data, curl_socket_t fd)
{
    return socket_table_close(data, fd);
}

static int about_to_send(void *data, char *to, char *from, int to_port, int from_port)
{
    (void)to, (void)from, (void)to_port;
    struct http_connection *l = data;
    l->port = from_port;
    l->stale = !socket_table_good(l->sockets, from_port);
    if (l->stale) return CURL_PREREQFUNC_ABORT; // libcurl then closes it
    if (l->call->sends++ == 0) l->call->sent_ms = clock_boot_ms();
    return CURL_PREREQFUNC_OK;
}

// A response may have several header blocks: interim ones (1xx), the final one, and trailers.
static size_t got_header(char *data, size_t size, size_t len, void *user)
{
    (void)size; // always 1
    struct http_connection *l = user;
    struct buf *head = &l->call->head;
    struct bytes text = bytes_of(data, len);
    if (http_is_status_line(text)) {
        buf_clear(head);
        l->head_ended = false;
        if (len > 6 && data[5] == '1') socket_table_plain(l->sockets, l->port);
    }
    if (l->head_ended) return len;
    l->head_ended = http_is_blank_line(text);
    buf_put(head, text);
    return head->bad ? 0 : len;
}

static size_t got_body(char *data, size_t size, size_t len, void *user)
{
    (void)size; // always 1
    struct http_call *c = ((struct http_connection *)user)->call;
    if (c->body_in.len == 0) http_reserve(c);
    buf_put(&c->body_in, bytes_of(data, len));
    return c->body_in.bad ? 0 : len;
}

// libcurl calls this at least once a second. A value other than 0 ends the exchange.
static int progress(void *data, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    struct http_connection *l = data;
    if (l->call->sends == 0 || l->call->head.len > 0 || clock_boot_ms() < l->ask_at) return 0;
    l->ask_at = clock_boot_ms() + POLL_MS;
    return l->call->hopeless(l->call->hopeless_ctx);
}

// pool: the sockets of the batch that the handle joins, or NULL.
static struct http_connection *connection_new(const struct http *h, struct socket_table *pool)
{
    struct http_connection *l = NEW(struct http_connection);
    l->sockets = pool ? pool : &l->own;
    l->easy = curl_easy_init();
    CHECK(l->easy != NULL);
    SET(l->easy, CURLOPT_ERRORBUFFER, l->error);
    SET(l->easy, CURLOPT_PRIVATE, l);
    SET(l->easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(l->easy, CURLOPT_OPENSOCKETDATA, l->sockets);
    SET(l->easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    SET(l->easy, CURLOPT_CLOSESOCKETDATA, l->sockets);
    SET(l->easy, CURLOPT_PREREQFUNCTION, about_to_send);
    SET(l->easy, CURLOPT_PREREQDATA, l);
    SET(l->easy, CURLOPT_HEADERFUNCTION, got_header);
    SET(l->easy, CURLOPT_HEADERDATA, l);
    SET(l->easy, CURLOPT_WRITEFUNCTION, got_body);
    SET(l->easy, CURLOPT_WRITEDATA, l);
    SET(l->easy, CURLOPT_XFERINFOFUNCTION, progress);
    SET(l->easy, CURLOPT_XFERINFODATA, l);
    SET(l->easy, CURLOPT_NOSIGNAL, 1L);
    SET(l->easy, CURLOPT_QUICK_EXIT, 1L); // do not wait for a slow name server past the deadline
    SET(l->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    SET(l->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    SET(l->easy, CURLOPT_PATH_AS_IS, 1L);
    SET(l->easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(l->easy, CURLOPT_TCP_NODELAY, 1L);
    SET(l->easy, CURLOPT_TCP_KEEPALIVE, 1L);
    SET(l->easy, CURLOPT_BUFFERSIZE, BUFFER_LEN);
    l->connect_ms = h->connect_ms;
    SET(l->easy, CURLOPT_USERAGENT, h->user_agent);
    if (h->ca_file) { // instead of the system's, which libcurl would add by its directory
        SET(l->easy, CURLOPT_CAINFO, h->ca_file);
        SET(l->easy, CURLOPT_CAPATH, (char *)NULL);
    }
    if (h->unix_socket) SET(l->easy, CURLOPT_UNIX_SOCKET_PATH, h->unix_socket);
    if (h->direct) SET(l->easy, CURLOPT_PROXY, "");
    return l;
}

static void connection_free(struct http_connection *l)
{
    curl_easy_cleanup(l->easy);
    socket_table_done(&l->own);
    memory_free(l->nodes);
    memory_free(l);
}

static struct http_connection *line_pop(struct http_connection **list)
{
    struct http_connection *l = *list;
    if (l) *list = l->next;
    return l;
}

static void line_push(struct http_connection **list, struct http_connection *l)
{
    l->next = *list;
    *list = l;
}

struct http *http_new(const struct http_config *config)
{
    static const struct http_config defaults = {0};
    if (!config) config = &defaults;
    (void)pthread_once(&curl_once, curl_start);
    struct http *h = NEW(struct http);
    h->ca_file = memory_text(config->ca_file);
    h->user_agent = memory_text(config->user_agent ? config->user_agent : "sluice");
    h->unix_socket = memory_text(config->unix_socket);
    h->connect_ms = config->connect_ms ? (long)config->connect_ms : CONNECT_MS;
    h->connections_max = config->connections_max ? config->connections_max : CONNECTIONS_MAX;
    h->direct = config->direct;
    fifo_semaphore_init(&h->turns, h->connections_max);
    (void)pthread_mutex_init(&h->lock, NULL);
    return h;
}

static void lines_free(struct http_connection *list)
{
    for (struct http_connection *l = line_pop(&list); l; l = line_pop(&list))
        connection_free(l);
}

void http_free(struct http *h)
{
    if (!h) return;
    CHECK(h->turns.free == h->connections_max);
    lines_free(h->lines);
    while (h->pools) {
        struct http_batch *w = h->pools;
        h->pools = w->next;
        lines_free(w->idle);
        CHECK(curl_multi_cleanup(w->multi) == CURLM_OK);
        socket_table_done(&w->sockets);
        memory_free(w);
    }
    fifo_semaphore_done(&h->turns);
    (void)pthread_mutex_destroy(&h->lock);
    memory_free(h->ca_file);
    memory_free(h->user_agent);
    memory_free(h->unix_socket);
    memory_free(h);
}

static int64_t call_timeout(const struct http_call *c)
{
    return c->timeout_ms ? c->timeout_ms : TIMEOUT_MS;
}

__attribute__((format(printf, 2, 3))) static void say(struct http_call *c, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    (void)vsnprintf(c->why, sizeof c->why, format, values);
    va_end(values);
}

static void node_add(struct http_connection *l, size_t at, const char *text)
{
    l->nodes[at].data = (char *)(uintptr_t)text; // libcurl only reads it
    l->nodes[at].next = NULL;
    if (at > 0) l->nodes[at - 1].next = &l->nodes[at];
}

// Sets the caller's headers, and two empty ones that keep libcurl from adding its own: "Expect:
// 100-continue", and the content type of a form.
static bool set_headers(struct http_connection *l, const struct http_call *c)
{
    if (l->nodes_cap < c->headers_len + OWN_HEADERS) {
        l->nodes_cap = c->headers_len + OWN_HEADERS;
        l->nodes = memory_resize(l->nodes, l->nodes_cap * sizeof *l->nodes);
    }
    bool typed = false;
    for (size_t i = 0; i < c->headers_len; i++) {
        if (strpbrk(c->headers[i], "\r\n")) return false;
        if (http_has_name(c->headers[i], "Content-Type")) typed = true;
        node_add(l, i, c->headers[i]);
    }
    node_add(l, c->headers_len, "Expect:");
    if (!typed) node_add(l, c->headers_len + 1, "Content-Type:");
    SET(l->easy, CURLOPT_HTTPHEADER, l->nodes);
    return true;
}

static void set_method(struct http_connection *l, const struct http_call *c)
{
    const char *method = c->method;
    bool carries = c->body.len > 0 || strcmp(method, "PUT") == 0 || strcmp(method, "POST") == 0;
    if (carries) {
        SET(l->easy, CURLOPT_POST, 1L);
        SET(l->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->body.len);
        SET(l->easy, CURLOPT_POSTFIELDS, c->body.len > 0 ? (const char *)c->body.data : "");
        SET(l->easy, CURLOPT_CUSTOMREQUEST, method);
        return;
    }
    SET(l->easy, CURLOPT_HTTPGET, 1L);
    if (strcmp(method, "HEAD") == 0) SET(l->easy, CURLOPT_NOBODY, 1L);
    SET(l->easy, CURLOPT_CUSTOMREQUEST, method);
}

// Returns false if the request cannot be made; c->why has the reason.
static bool line_ready(struct http_connection *l, struct http_call *c, int64_t left_ms)
{
    l->call = c;
    l->head_ended = false;
    l->stale = false;
    l->error[0] = 0;
    if (!set_headers(l, c)) {
        say(c, "a header of the request has a line break in it");
        return false;
    }
    if (curl_easy_setopt(l->easy, CURLOPT_URL, c->url) != CURLE_OK) {
        say(c, "the URL is too long");
        return false;
    }
    set_method(l, c);
    SET(l->easy, CURLOPT_FRESH_CONNECT, c->fresh ? 1L : 0L);
    SET(l->easy, CURLOPT_TIMEOUT_MS, (long)(left_ms > 0 ? left_ms : 1));
    SET(l->easy, CURLOPT_CONNECTTIMEOUT_MS, c->connect_ms ? (long)c->connect_ms : l->connect_ms);
    SET(l->easy, CURLOPT_NOPROGRESS, c->hopeless ? 0L : 1L);
    c->sent_ms = clock_boot_ms();
    l->ask_at = c->sent_ms + POLL_MS;
    return true;
}

static int info_of(const struct http_connection *l, CURLINFO what)
{
    long number = 0;
    (void)curl_easy_getinfo(l->easy, what, &number);
    return (int)number;
}

// Returns true if the connection to the server itself (not to a proxy) is open and its TLS
// handshake is not complete.
static bool in_handshake(const struct http_connection *l, const char *place)
{
    curl_off_t secured = 0;
    const char *port = strrchr(place, ':');
    (void)curl_easy_getinfo(l->easy, CURLINFO_APPCONNECT_TIME_T, &secured);
    return strncasecmp(l->call->url, "https:", 6) == 0 && secured == 0 && port &&
           strtol(port + 1, NULL, 10) == info_of(l, CURLINFO_PRIMARY_PORT); // 0: not connected
}

// Passes on only those texts of libcurl that cannot contain parts of the request.
static void say_failed(struct http_connection *l, CURLcode code)
{
    struct http_call *c = l->call;
    char place[HTTP_PLACE_MAX];
    http_place(c->url, place);
    const char *words = l->error[0] ? l->error : curl_easy_strerror(code);
    switch ((int)code) {
    case CURLE_OK:
    case CURLE_PARTIAL_FILE:
        say(c, "%s closed the connection inside its answer", place);
        break;
    case CURLE_GOT_NOTHING:
        say(c, "%s closed the connection without an answer", place);
        break;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        say(c, "cannot connect to %s: the name is not known", place);
        break;
    case CURLE_COULDNT_CONNECT:
        http_say_unconnected(c, place, l->error, info_of(l, CURLINFO_OS_ERRNO));
        break;
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_ABORTED_BY_CALLBACK: // it is hopeless
        http_say_timeout(c, place, in_handshake(l, place));
        break;
    case CURLE_SSL_CONNECT_ERROR:
        http_say_insecure(c, place, words);
        break;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        say(c, "cannot connect to %s securely: %s", place, words);
        c->untrusted = info_of(l, CURLINFO_SSL_VERIFYRESULT) != 0;
        break;
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
        say(c, "the connection to %s broke: %s", place, words);
        break;
    default:
        say(c, "the exchange with %s failed: %s", place, curl_easy_strerror(code));
    }
}

static void line_end(struct http_connection *l, CURLcode code)
{
    struct http_call *c = l->call;
    int status = info_of(l, CURLINFO_RESPONSE_CODE);
    c->received_ms = clock_boot_ms();
    bool has_head = l->head_ended && status >= 200;
    if (code == CURLE_OK && has_head) {
        c->end = HTTP_ANSWERED; // libcurl accepts a head that is cut off; has_head does not
    } else if (c->body_in.bad) {
        c->end = HTTP_TOO_LONG;
        say(c, "the answer is longer than %zu bytes", c->body_max);
    } else {
        c->end = c->sends == 0 ? HTTP_NOT_SENT : HTTP_LOST;
        say_failed(l, code);
        return;
    }
    c->status = status;
}

static struct http_connection *line_take(struct http *h)
{
    (void)pthread_mutex_lock(&h->lock);
    struct http_connection *l = line_pop(&h->lines);
    (void)pthread_mutex_unlock(&h->lock);
    return l ? l : connection_new(h, NULL);
}

static void line_give(struct http *h, struct http_connection *l)
{
    LOCKED(&h->lock);
    line_push(&h->lines, l);
}

void http_do(struct http *h, struct http_call *c)
{
    http_call_clear(c);
    int64_t began = c->sent_ms, timeout = call_timeout(c);
    if (!fifo_semaphore_take(&h->turns, timeout)) {
        http_say_busy(c, timeout, h->connections_max);
        return;
    }
    struct http_connection *l = line_take(h);
    if (line_ready(l, c, began + timeout - clock_boot_ms())) {
        CURLcode code = curl_easy_perform(l->easy);
        for (; l->stale; code = curl_easy_perform(l->easy))
            l->stale = false;
        line_end(l, code);
    }
    line_give(h, l);
    fifo_semaphore_give(&h->turns);
}

static struct http_batch *batch_new(const struct http *h)
{
    struct http_batch *w = NEW(struct http_batch);
    w->multi = curl_multi_init();
    CHECK(w->multi != NULL);
    // By default this limit shrinks with the number of handles, and libcurl would close the
    // connections when the batch ends.
    CHECK(curl_multi_setopt(w->multi, CURLMOPT_MAXCONNECTS, (long)h->connections_max) == CURLM_OK);
    return w;
}

static struct http_batch *batch_take(struct http *h)
{
    (void)pthread_mutex_lock(&h->lock);
    struct http_batch *w = h->pools;
    if (w) h->pools = w->next;
    (void)pthread_mutex_unlock(&h->lock);
    return w ? w : batch_new(h);
}

static void batch_give(struct http *h, struct http_batch *w)
{
    LOCKED(&h->lock);
    w->next = h->pools;
    h->pools = w;
}

// The caller holds a permit of h->turns. Returns NULL if the call has ended already.
static struct http_connection *batch_start(const struct http *h, struct http_batch *w,
                                           struct http_call *c)
{
    struct http_connection *l = line_pop(&w->idle);
    if (!l) l = connection_new(h, &w->sockets);
    http_call_clear(c);
    if (!line_ready(l, c, call_timeout(c))) {
        line_push(&w->idle, l);
        return NULL;
    }
    CHECK(curl_multi_add_handle(w->multi, l->easy) == CURLM_OK);
    return l;
}

// Advances the exchanges. Returns how many have ended.
static size_t batch_work(struct http_batch *w)
{
    int running = 0;
    int left = 0;
    size_t ended = 0;
    CHECK(curl_multi_perform(w->multi, &running) == CURLM_OK);
    for (CURLMsg *m = curl_multi_info_read(w->multi, &left); m;
         m = curl_multi_info_read(w->multi, &left)) {
        CURLcode code = m->data.result; // m is invalid after the removal
        CURL *easy = m->easy_handle;
        struct http_connection *l = NULL;
        (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&l);
        CHECK(curl_multi_remove_handle(w->multi, easy) == CURLM_OK);
        if (l->stale) {
            l->stale = false;
            CHECK(curl_multi_add_handle(w->multi, easy) == CURLM_OK);
            continue;
        }
        line_end(l, code);
        line_push(&w->idle, l);
        ended++;
    }
    return ended;
}

// Blocks for a permit only while nothing runs: a thread that holds a permit must not wait for
// another.
static bool take_turn(struct http *h, const struct http_call *c, size_t running, int64_t idle_since)
{
    if (running > 0) return fifo_semaphore_take_free(&h->turns);
    return fifo_semaphore_take(&h->turns, idle_since + call_timeout(c) - clock_boot_ms());
}

void http_do_all(struct http *h, struct http_call *const *calls, size_t count, size_t together)
{
    CHECK(together > 0);
    struct http_batch *w = batch_take(h);
    size_t started = 0, running = 0;
    int64_t idle_since = clock_boot_ms();
    while (started < count || running > 0) {
        while (started < count && running < together) {
            struct http_call *c = calls[started];
            if (take_turn(h, c, running, idle_since)) {
                started++;
                if (batch_start(h, w, c))
                    running++;
                else
                    fifo_semaphore_give(&h->turns);
            } else if (running == 0) {
                started++;
                http_call_clear(c);
                http_say_busy(c, call_timeout(c), h->connections_max);
            } else {
                break;
            }
        }
        size_t ended = batch_work(w);
        for (size_t i = 0; i < ended; i++)
            fifo_semaphore_give(&h->turns);
        running -= ended;
        if (running == 0) idle_since = clock_boot_ms();
        if (ended == 0 && running > 0)
            CHECK(curl_multi_poll(w->multi, NULL, 0, POLL_MS, NULL) == CURLM_OK);
    }
    batch_give(h, w);
}

struct http_stream {
    struct http *http;
    struct http_batch *pool;
    struct http_call *call;
    struct http_connection *line; // NULL: the exchange has ended
};

struct http_stream *http_stream_open(struct http *h, struct http_call *c)
{
    struct http_stream *s = NEW(struct http_stream);
    *s = (struct http_stream){.http = h, .call = c};
    http_call_clear(c);
    if (!fifo_semaphore_take(&h->turns, h->connect_ms)) {
        http_say_busy(c, call_timeout(c), h->connections_max);
        return s;
    }
    s->pool = batch_take(h);
    s->line = batch_start(h, s->pool, c);
    return s;
}

bool http_stream_read(struct http_stream *s, int64_t wait_ms)
{
    struct http_call *c = s->call;
    size_t had = c->body_in.len;
    for (int round = 0; s->line && round < 2; round++) {
        if (batch_work(s->pool) > 0) s->line = NULL;
        if (s->line && s->line->head_ended) c->status = info_of(s->line, CURLINFO_RESPONSE_CODE);
        if (!s->line || c->body_in.len > had || round > 0) break;
        CHECK(curl_multi_poll(s->pool->multi, NULL, 0, (int)wait_ms, NULL) == CURLM_OK);
    }
    return s->line != NULL;
}

void http_stream_close(struct http_stream *s)
{
    if (!s) return;
    if (s->line) { // in mid-answer: the connection cannot be reused
        CHECK(curl_multi_remove_handle(s->pool->multi, s->line->easy) == CURLM_OK);
        connection_free(s->line);
    }
    if (s->pool) {
        batch_give(s->http, s->pool);
        fifo_semaphore_give(&s->http->turns);
    }
    memory_free(s);
}
