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
#include "base/list.h"
#include "base/memory.h"
#include "net/dial.h"
#include "net/http_answer.h"
#include "net/http_text.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/thread.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define TIMEOUT_MS    30000
#define TICK_MS       100 // a timed-out call may end this much late
#define AT_ONCE       64
#define IDLE_MAX      256 // connections kept per host
#define READ_LEN      ((size_t)16 << 10)
#define CHALLENGE_MAX ((size_t)16 << 10) // the body of an answer to a challenge

enum connection_state { CONNECTING, CHALLENGING, CARRYING, IDLE };

struct http_async_connection {
    struct list_link link;      // in the list of open connections, or of closed ones
    struct list_link idle_link; // in its host's list, while it is idle
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
    struct http_answer answer;
    bool received; // a byte of the answer came
    bool declined; // the body is longer than the caller accepts
};

struct http_async_host {
    struct http_async_host *next;
    struct http_host at;
    struct sockaddr_storage address;
    socklen_t address_len;
    bool greets;
    struct peer_challenge challenge;
    struct list idle;
    size_t idle_len;
};

struct http_async {
    pthread_mutex_t lock;
    struct thread thread;
    int epoll;
    int wake;
    bool stopping;
    struct http_async_host *places;
    struct list open, closed;                    // connections
    uint8_t in[READ_LEN];                        // what one receive brought
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
    if (w->state == IDLE) {
        list_remove(&w->place->idle, &w->idle_link);
        w->place->idle_len--;
    }
    // Closing is not enough: while a forked child has the socket too, events go on.
    (void)epoll_ctl(c->epoll, EPOLL_CTL_DEL, w->fd, NULL);
    (void)close(w->fd);
    w->fd = -1;
    w->call = NULL;
    list_remove(&c->open, &w->link);
    list_add(&c->closed, &w->link);
}

static void closed_free(struct http_async *c)
{
    LIST_EACH(w, &c->closed, struct http_async_connection, link) {
        http_call_done(&w->hello);
        buf_done(&w->head);
        memory_free(w);
    }
    c->closed = (struct list){0};
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
    int number, fd = dial_begin((const struct sockaddr *)&p->address, p->address_len, &number);
    if (fd < 0) return NULL;
    struct http_async_connection *w = NEW(struct http_async_connection);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLOUT, .data.ptr = w};
    if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
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
    w->hello.body_max = CHALLENGE_MAX;
    list_add_first(&c->open, &w->link);
    return w;
}

static struct http_call *asked(struct http_async_connection *w)
{
    return w->state == CHALLENGING ? &w->hello : &w->call->http;
}

static void write_head(struct http_async_connection *w, const char *path)
{
    buf_clear(&w->head);
    http_put_head(&w->head, asked(w), w->place->at.name, path, w->line);
    w->out_at = 0;
    w->answer = (struct http_answer){0};
    w->received = false;
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
    w->state = CARRYING;
    write_head(w, http_path(w->call->http.url));
    w->call->http.sends++;
    if (w->head.bad) return false;
    return send_some(c, w);
}

static bool greet(struct http_async *c, struct http_async_connection *w)
{
    char path[CHALLENGE_PATH], whole[HTTP_BASE_MAX + CHALLENGE_PATH];
    const struct peer_challenge *g = &w->place->challenge;
    w->state = CHALLENGING;
    g->ask(g->ctx, w->nonce, path);
    (void)snprintf(whole, sizeof whole, "%s%s", w->place->at.base, path);
    write_head(w, whole);
    return send_some(c, w);
}

static bool connected(struct http_async *c, struct http_async_connection *w)
{
    if (dial_result(w->fd) != 0) return false;
    return w->place->greets ? greet(c, w) : ask(c, w);
}

static void begin(struct http_async *c, struct http_async_call *call)
{
    struct http_async_host *p = call->place;
    struct http_async_connection *w =
        call->again ? NULL : LIST_FIRST(&p->idle, struct http_async_connection, idle_link);
    bool ok = true;
    if (w) {
        list_remove(&p->idle, &w->idle_link);
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
    (void)snprintf(call->http.why, sizeof call->http.why, "cannot connect to %.100s", p->at.name);
    call_end(c, call, call->http.sends > 0 ? HTTP_LOST : HTTP_NOT_SENT);
    wake(c);
}

// Closes an unusable connection. Its call is sent again if that is allowed, else it ends.
static void connection_lost(struct http_async *c, struct http_async_connection *w, const char *why)
{
    struct http_async_call *call = w->call;
    bool again = call && w->state == CARRYING && w->kept && !w->received && !call->again;
    wire_close(c, w);
    if (!call) return;
    if (again) {
        call->again = true;
        begin(c, call);
        return;
    }
    (void)snprintf(call->http.why, sizeof call->http.why, "%.100s %s", call->place->at.name, why);
    enum http_end lost = w->declined ? HTTP_TOO_LONG : HTTP_LOST;
    call_end(c, call, call->http.sends > 0 ? lost : HTTP_NOT_SENT);
}

static void wire_keep(struct http_async *c, struct http_async_connection *w)
{
    struct http_async_host *p = w->place;
    w->call = NULL;
    w->kept = true;
    if (p->idle_len == IDLE_MAX) {
        wire_close(c, w);
        return;
    }
    w->state = IDLE;
    list_add_first(&p->idle, &w->idle_link);
    p->idle_len++;
}

// excess: bytes came after the answer.
static void answered(struct http_async *c, struct http_async_connection *w, bool excess)
{
    struct http_async_call *call = w->call;
    struct http_call *http = asked(w);
    bool keeps = w->answer.keeps && !excess && w->out_at == w->head.len + http->body.len;
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

static bool is_declined(const struct http_async_connection *w)
{
    const struct http_async_call *call = w->call;
    return w->state == CARRYING && call->fits && !call->fits(w->call, (size_t)w->answer.left);
}

// Takes what was received. Returns false if the call or the connection has ended.
static bool take(struct http_async *c, struct http_async_connection *w, struct bytes in)
{
    enum http_took took = http_answer_take(&w->answer, asked(w), &in);
    if (took == HTTP_TOOK_HEAD) {
        // A body without a length cannot be declined.
        bool sized = w->answer.part == HTTP_PART_BODY || w->answer.part == HTTP_PART_WHOLE;
        w->declined = sized && is_declined(w);
        took = !sized        ? HTTP_TOOK_BAD
               : w->declined ? HTTP_TOOK_LONG
                             : http_answer_take(&w->answer, asked(w), &in);
    }
    if (took == HTTP_TOOK_SOME) return true;
    w->declined = took == HTTP_TOOK_LONG && w->state == CARRYING;
    if (took == HTTP_TOOK_WHOLE)
        answered(c, w, in.len > 0);
    else
        connection_lost(c, w,
                        took == HTTP_TOOK_LONG ? "sent a longer answer than allowed"
                                               : "sent an answer that is not valid HTTP");
    return false;
}

// Receives once. Returns false if there is nothing more to receive now.
static bool read_some(struct http_async *c, struct http_async_connection *w)
{
    ssize_t got = recv(w->fd, c->in, sizeof c->in, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0 || w->state == IDLE) {
        connection_lost(c, w,
                        w->received ? "closed the connection inside its answer"
                                    : "closed the connection without an answer");
        return false;
    }
    w->received = true;
    return take(c, w, bytes_of(c->in, (size_t)got));
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
    LIST_EACH(w, &c->open, struct http_async_connection, link) {
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
        closed_free(c);
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
    LIST_EACH(w, &c->open, struct http_async_connection, link)
        wire_close(c, w);
    closed_free(c);
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
    struct http_host at;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
    if (!http_host_of(url, &at) || at.secure || getaddrinfo(at.host, at.port, &hints, &all) != 0)
        return NULL;
    struct http_async_host *p = NEW(struct http_async_host);
    p->at = at;
    memcpy(&p->address, all->ai_addr, all->ai_addrlen);
    p->address_len = all->ai_addrlen;
    freeaddrinfo(all);
    p->greets = challenge != NULL;
    if (challenge) p->challenge = *challenge;
    LOCKED(&c->lock);
    p->next = c->places;
    c->places = p;
    return p;
}

void http_async_do(struct http_async *c, struct http_async_call *call)
{
    struct http_call *http = &call->http;
    int64_t now = clock_boot_ms();
    http_call_clear(http);
    call->until = now + (http->timeout_ms ? http->timeout_ms : TIMEOUT_MS);
    call->again = false;
    LOCKED(&c->lock);
    call->carried = true;
    if (c->carried++ == 0) wake(c); // the thread slept without a timeout until now
    begin(c, call);
}

bool http_async_cancel(struct http_async *c, struct http_async_call *call)
{
    LOCKED(&c->lock);
    bool carried = call->carried;
    if (carried) {
        call->carried = false;
        c->carried--;
        wire_close(c, call->wire);
        call->wire = NULL;
    }
    return carried;
}
