// SPDX-License-Identifier: Apache-2.0
// One lock guards all state. A caller sends as much as the socket takes at once. One thread sends
// the rest, receives the answers, and ends the calls whose deadline has passed.
//
// A connection's states (without a challenge it goes from CONNECTING to CARRYING):
//
//     CONNECTING -> CHALLENGING -> CARRYING <-> IDLE
#define _GNU_SOURCE // EPOLLRDHUP
#include "net/http_async.h"

#include "base/check.h"
#include "base/memory.h"
#include "net/http_text.h"
#include "os/clock.h"
#include "os/thread.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define TIMEOUT_MS 30000
#define TICK_MS    100 // a timed-out call may end this much late
#define AT_ONCE    64
#define IDLE_MAX   256 // connections kept per host
#define READ_LEN   ((size_t)16 << 10)
#define KEEP_LEN   ((size_t)256 << 10) // largest receive buffer that an idle connection keeps
#define HOST_MAX   256

enum connection_state { CONNECTING, CHALLENGING, CARRYING, IDLE };

struct http_async_connection {
    struct http_async_connection *next, *before; // list of open connections
    struct http_async_connection *next_idle;     // list of its host's idle ones, or of closed ones
    struct http_async_host *place;
    int fd; // -1: closed, and freed once no event can refer to it
    enum connection_state state;
    bool writes; // epoll reports when the socket takes more
    bool kept;   // it served a call before
    struct http_async_call *call;
    struct http_call hello; // the challenge
    char nonce[CHALLENGE_NONCE];
    char line[CHALLENGE_LINE]; // a header of its requests; "": none
    struct buf head;           // of the request
    size_t out_at;             // bytes of the request's head and body that were sent
    struct buf in;
    size_t head_len; // of the answer; 0: not complete yet
    size_t body_len;
    bool declined; // the body is longer than the caller accepts
};

struct http_async_host {
    struct http_async_host *next;
    char name[HOST_MAX]; // host and port, as the Host header has them
    char base[HOST_MAX]; // the URL's own path; "": none
    struct sockaddr_storage address;
    socklen_t address_len;
    bool greets;
    struct peer_challenge challenge;
    struct http_async_connection *idle;
    size_t idle_len;
};

struct http_async {
    pthread_mutex_t lock;
    struct thread thread;
    int epoll;
    int wake;
    bool stopping;
    struct http_async_host *places;
    struct http_async_connection *sockets;
    struct http_async_connection *dead;
    struct http_async_call *ended, **ended_last; // calls whose `done` is to be called
    size_t carried;
};

static void call_end(struct http_async *c, struct http_async_call *call, enum http_end end)
{
    call->http.end = end;
    call->http.received_ms = clock_boot_ms();
    if (end != HTTP_ANSWERED && end != HTTP_TOO_LONG) call->http.status = 0;
    call->wire = NULL;
    call->carried = false;
    call->next = NULL;
    *c->ended_last = call;
    c->ended_last = &call->next;
    c->carried--;
}

static void wake(struct http_async *c)
{
    CHECK(eventfd_write(c->wake, 1) == 0);
}

static void wire_close(struct http_async *c, struct http_async_connection *w)
{
    if (w->before)
        w->before->next = w->next;
    else
        c->sockets = w->next;
    if (w->next) w->next->before = w->before;
    if (w->state == IDLE) {
        struct http_async_connection **at = &w->place->idle;
        while (*at != w)
            at = &(*at)->next_idle;
        *at = w->next_idle;
        w->place->idle_len--;
    }
    // Closing is not enough: while a forked child has the socket too, events go on.
    (void)epoll_ctl(c->epoll, EPOLL_CTL_DEL, w->fd, NULL);
    (void)close(w->fd);
    w->fd = -1;
    w->call = NULL;
    w->next_idle = c->dead;
    c->dead = w;
}

static void dead_free(struct http_async *c)
{
    while (c->dead) {
        struct http_async_connection *w = c->dead;
        c->dead = w->next_idle;
        http_call_done(&w->hello);
        buf_done(&w->head);
        buf_done(&w->in);
        memory_free(w);
    }
}

static void wire_listen(struct http_async *c, struct http_async_connection *w, bool writes)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | (writes ? EPOLLOUT : 0u),
                                .data.ptr = w};
    if (w->writes == writes) return;
    w->writes = writes;
    (void)epoll_ctl(c->epoll, EPOLL_CTL_MOD, w->fd, &event);
}

static struct http_async_connection *connection_open(struct http_async *c,
                                                     struct http_async_host *p)
{
    int on = 1;
    int fd = socket(p->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return NULL;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    struct http_async_connection *w = NEW(struct http_async_connection);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLOUT, .data.ptr = w};
    bool begun = connect(fd, (const struct sockaddr *)&p->address, p->address_len) == 0 ||
                 errno == EINPROGRESS;
    if (!begun || epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        (void)close(fd);
        memory_free(w);
        return NULL;
    }
    w->fd = fd;
    w->writes = true;
    w->place = p;
    w->state = CONNECTING;
    http_call_init(&w->hello, "GET", NULL);
    buf_init(&w->head, HTTP_HEADERS_MAX);
    buf_init(&w->in, SIZE_MAX);
    w->next = c->sockets;
    if (w->next) w->next->before = w;
    c->sockets = w;
    return w;
}

static struct http_call *asked(struct http_async_connection *w)
{
    return w->state == CHALLENGING ? &w->hello : &w->call->http;
}

static void write_head(struct http_async_connection *w, const char *path)
{
    buf_clear(&w->head);
    http_put_head(&w->head, asked(w), w->place->name, path, w->line);
    w->out_at = 0;
    w->head_len = 0;
    buf_clear(&w->in);
}

// Sends what the socket takes. Returns false if the connection is broken.
static bool send_some(struct http_async *c, struct http_async_connection *w)
{
    struct http_call *http = asked(w);
    size_t all = w->head.len + http->body.len;
    bool waited = false;
    while (w->out_at < all) {
        size_t at = w->out_at, in_head = at < w->head.len ? w->head.len - at : 0;
        size_t in_body = at > w->head.len ? at - w->head.len : 0;
        struct iovec parts[] = {
            {.iov_base = w->head.data + w->head.len - in_head, .iov_len = in_head},
            {.iov_base = (void *)((uintptr_t)http->body.data + in_body),
             .iov_len = http->body.len - in_body}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = http->body.len > 0 ? 2 : 1};
        ssize_t sent = sendmsg(w->fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        waited = sent < 0 && errno == EAGAIN;
        if (waited) break;
        if (sent < 0) return false;
        w->out_at += (size_t)sent;
    }
    wire_listen(c, w, waited);
    return true;
}

static bool ask(struct http_async *c, struct http_async_connection *w)
{
    const char *path = strchr(w->call->http.url + strlen("http://"), '/');
    w->state = CARRYING;
    write_head(w, path ? path : "/");
    w->call->http.sends++;
    if (w->head.bad) return false;
    return send_some(c, w);
}

static bool greet(struct http_async *c, struct http_async_connection *w)
{
    char path[CHALLENGE_PATH], whole[HOST_MAX + CHALLENGE_PATH];
    const struct peer_challenge *g = &w->place->challenge;
    w->state = CHALLENGING;
    g->ask(g->ctx, w->nonce, path);
    (void)snprintf(whole, sizeof whole, "%s%s", w->place->base, path);
    write_head(w, whole);
    return send_some(c, w);
}

static bool connected(struct http_async *c, struct http_async_connection *w)
{
    int number = 0;
    socklen_t len = sizeof number;
    if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &number, &len) != 0 || number != 0) return false;
    return w->place->greets ? greet(c, w) : ask(c, w);
}

static void begin(struct http_async *c, struct http_async_call *call)
{
    struct http_async_host *p = call->place;
    struct http_async_connection *w = call->again ? NULL : p->idle;
    bool ok = true;
    if (w) {
        p->idle = w->next_idle;
        p->idle_len--;
        w->state = CARRYING;
    } else {
        w = connection_open(c, p);
    }
    if (w) {
        w->call = call;
        call->wire = w;
        if (w->state == CARRYING) ok = ask(c, w);
    }
    if (w && ok) return;
    if (w && !call->again) { // a kept connection that the server has closed
        wire_close(c, w);
        call->again = true;
        begin(c, call);
        return;
    }
    if (w) wire_close(c, w);
    (void)snprintf(call->http.why, sizeof call->http.why, "cannot connect to %.100s", p->name);
    call_end(c, call, call->http.sends > 0 ? HTTP_LOST : HTTP_NOT_SENT);
    wake(c);
}

// Closes an unusable connection. Its call is sent again if that is allowed, else it ends.
static void connection_lost(struct http_async *c, struct http_async_connection *w, const char *why)
{
    struct http_async_call *call = w->call;
    bool again = call && w->state == CARRYING && w->kept && w->in.len == 0 && !call->again;
    wire_close(c, w);
    if (!call) return;
    if (again) {
        call->again = true;
        begin(c, call);
        return;
    }
    (void)snprintf(call->http.why, sizeof call->http.why, "%.100s %s", call->place->name, why);
    enum http_end lost = w->declined ? HTTP_TOO_LONG : HTTP_LOST;
    call_end(c, call, call->http.sends > 0 ? lost : HTTP_NOT_SENT);
}

static void wire_keep(struct http_async *c, struct http_async_connection *w)
{
    struct http_async_host *p = w->place;
    w->call = NULL;
    w->kept = true;
    if (w->in.cap > KEEP_LEN) {
        buf_done(&w->in);
        buf_init(&w->in, SIZE_MAX);
    }
    if (p->idle_len == IDLE_MAX) {
        wire_close(c, w);
        return;
    }
    w->state = IDLE;
    w->next_idle = p->idle;
    p->idle = w;
    p->idle_len++;
}

static void answered(struct http_async *c, struct http_async_connection *w)
{
    struct http_async_call *call = w->call;
    struct http_call *http = asked(w);
    struct bytes body = bytes_of(w->in.data + w->head_len, w->body_len);
    bool keeps = http_is_kept(http) && w->in.len == w->head_len + w->body_len &&
                 w->out_at == w->head.len + http->body.len;
    buf_clear(&http->body_in);
    buf_put(&http->body_in, body);
    if (w->state == CHALLENGING) {
        const struct peer_challenge *g = &w->place->challenge;
        http->end = HTTP_ANSWERED;
        if (!keeps || !g->shown(g->ctx, w->nonce, http, w->line))
            connection_lost(c, w, "does not prove that it is the expected node");
        else if (!ask(c, w))
            connection_lost(c, w, "closed the connection");
        return;
    }
    call_end(c, call, HTTP_ANSWERED);
    if (keeps)
        wire_keep(c, w);
    else
        wire_close(c, w);
}

// Receives once. Returns false if there is nothing more to receive now.
static bool read_some(struct http_async *c, struct http_async_connection *w)
{
    size_t had = w->in.len;
    uint8_t *room = buf_grow(&w->in, READ_LEN);
    ssize_t got = recv(w->fd, room, READ_LEN, 0);
    w->in.len = had + (got > 0 ? (size_t)got : 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0 || w->state == IDLE) {
        connection_lost(c, w,
                        had > 0 ? "closed the connection inside its answer"
                                : "closed the connection without an answer");
        return false;
    }
    struct http_call *http = asked(w);
    size_t max = w->state == CHALLENGING ? READ_LEN : http->body_max;
    bool has_head = w->head_len > 0;
    bool clear =
        has_head || http_take_head(http, buf_bytes(&w->in), &w->head_len, &w->body_len) >= 0;
    bool comes = w->head_len > 0;
    bool asks = w->state == CARRYING && w->call->fits;
    if (comes && !has_head)
        w->declined = w->body_len > max || (asks && !w->call->fits(w->call, w->body_len));
    if (!clear || w->declined) {
        connection_lost(c, w,
                        clear ? "sent a longer answer than allowed"
                              : "sent an answer that is not valid HTTP");
        return false;
    }
    if (w->head_len == 0 || w->in.len < w->head_len + w->body_len) return true;
    answered(c, w);
    return false;
}

static void event(struct http_async *c, struct http_async_connection *w, uint32_t events)
{
    if (w->fd < 0) return;
    if (w->state == CONNECTING && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
        if (!connected(c, w)) connection_lost(c, w, "does not accept the connection");
        return;
    }
    if ((events & EPOLLOUT) && w->call && !send_some(c, w)) {
        connection_lost(c, w, "closed the connection while the request was sent");
        return;
    }
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP))
        while (read_some(c, w)) {
        }
}

static void give_up_late(struct http_async *c)
{
    int64_t now = clock_boot_ms();
    struct http_async_connection *next;
    for (struct http_async_connection *w = c->sockets; w; w = next) {
        next = w->next;
        if (!w->call || now < w->call->until) continue;
        w->call->again = true; // no time is left for another attempt
        connection_lost(c, w, "did not answer in time");
    }
}

// Called with the lock held; releases it during the callbacks.
static void tell_ended(struct http_async *c)
{
    struct http_async_call *list = c->ended;
    c->ended = NULL;
    c->ended_last = &c->ended;
    (void)pthread_mutex_unlock(&c->lock);
    while (list) {
        struct http_async_call *call = list;
        list = call->next;
        call->done(call);
    }
    (void)pthread_mutex_lock(&c->lock);
}

static void *run(void *arg)
{
    struct http_async *c = arg;
    struct epoll_event events[AT_ONCE];
    int64_t looked = 0;
    (void)pthread_mutex_lock(&c->lock);
    while (!c->stopping) {
        dead_free(c);
        int wait = c->ended ? 0 : c->carried > 0 ? TICK_MS : -1;
        (void)pthread_mutex_unlock(&c->lock);
        int count = epoll_wait(c->epoll, events, AT_ONCE, wait);
        (void)pthread_mutex_lock(&c->lock);
        for (int i = 0; i < count; i++) {
            eventfd_t ignored;
            if (events[i].data.ptr)
                event(c, events[i].data.ptr, events[i].events);
            else
                (void)eventfd_read(c->wake, &ignored);
        }
        if (clock_boot_ms() - looked >= TICK_MS) {
            give_up_late(c);
            looked = clock_boot_ms();
        }
        tell_ended(c);
    }
    (void)pthread_mutex_unlock(&c->lock);
    return NULL;
}

struct http_async *http_async_new(void)
{
    struct http_async *c = NEW(struct http_async);
    (void)pthread_mutex_init(&c->lock, NULL);
    c->ended_last = &c->ended;
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(c->epoll >= 0 && c->wake >= 0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    CHECK(epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->wake, &event) == 0);
    if (thread_start(&c->thread, run, c) == ERR_OK) return c;
    http_async_free(c);
    return NULL;
}

void http_async_free(struct http_async *c)
{
    if (!c) return;
    (void)pthread_mutex_lock(&c->lock);
    CHECK(c->carried == 0);
    c->stopping = true;
    (void)pthread_mutex_unlock(&c->lock);
    wake(c);
    thread_join(&c->thread);
    CHECK(!c->ended);
    while (c->sockets)
        wire_close(c, c->sockets);
    dead_free(c);
    while (c->places) {
        struct http_async_host *p = c->places;
        c->places = p->next;
        memory_free(p);
    }
    (void)close(c->wake);
    (void)close(c->epoll);
    (void)pthread_mutex_destroy(&c->lock);
    memory_free(c);
}

struct http_async_host *http_async_host_new(struct http_async *c, const char *url,
                                            const struct peer_challenge *challenge)
{
    char place[HTTP_PLACE_MAX];
    const char *host, *port;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
    if (strncmp(url, "http://", 7) != 0 || !http_split_place(url, place, &host, &port) ||
        getaddrinfo(host, port, &hints, &all) != 0)
        return NULL;
    struct http_async_host *p = NEW(struct http_async_host);
    const char *path = url + 7 + strcspn(url + 7, "/?#");
    (void)snprintf(p->name, sizeof p->name, "%.*s", (int)(path - url - 7), url + 7);
    (void)snprintf(p->base, sizeof p->base, "%.200s", path);
    memcpy(&p->address, all->ai_addr, all->ai_addrlen);
    p->address_len = all->ai_addrlen;
    freeaddrinfo(all);
    p->greets = challenge != NULL;
    if (challenge) p->challenge = *challenge;
    (void)pthread_mutex_lock(&c->lock);
    p->next = c->places;
    c->places = p;
    (void)pthread_mutex_unlock(&c->lock);
    return p;
}

void http_async_do(struct http_async *c, struct http_async_call *call)
{
    struct http_call *http = &call->http;
    int64_t now = clock_boot_ms();
    buf_clear(&http->head);
    buf_clear(&http->body_in);
    http->body_in.limit = http->body_max;
    http->status = http->sends = 0;
    http->why[0] = 0;
    http->sent_ms = now;
    call->until = now + (http->timeout_ms ? http->timeout_ms : TIMEOUT_MS);
    call->again = false;
    (void)pthread_mutex_lock(&c->lock);
    call->carried = true;
    if (c->carried++ == 0) wake(c); // the thread slept without a timeout until now
    begin(c, call);
    (void)pthread_mutex_unlock(&c->lock);
}

bool http_async_cancel(struct http_async *c, struct http_async_call *call)
{
    (void)pthread_mutex_lock(&c->lock);
    bool carried = call->carried;
    if (carried) {
        call->carried = false;
        c->carried--;
        wire_close(c, call->wire);
        call->wire = NULL;
    }
    (void)pthread_mutex_unlock(&c->lock);
    return carried;
}
