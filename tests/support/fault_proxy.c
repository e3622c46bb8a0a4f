// SPDX-License-Identifier: Apache-2.0
// A thread per connection. Each request is read whole, its fate drawn, and only then is anything
// passed on: what the server has or has not seen is never a matter of timing.
#define _GNU_SOURCE // accept4
#include "fault_proxy.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/rng.h"
#include "proxy_wire.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BURST_LEN        8
#define DELAY_DEFAULT_MS 200
#define STALL_DEFAULT_MS 1000
#define SCRIPT_MAX       16
#define METHODS          5

static const char *const methods[METHODS] = {"GET", "PUT", "POST", "DELETE", "HEAD"};

// What is done to one request.
struct fate {
    enum proxy_fault fault;
    int status;
    int64_t delay_ms;
};

struct scripted {
    char method[12]; // empty: any
    struct fate fate;
    uint32_t left;
};

struct fault_proxy {
    struct sockaddr_in server;
    char url[40];
    uint64_t seed;
    int listener;
    pthread_t acceptor;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct proxy_faults faults;
    struct scripted script[SCRIPT_MAX];
    size_t script_len;
    struct connection *connections; // open ones
    uint64_t under_way;             // faults not yet over
    bool stopping;
    _Atomic uint64_t requests[METHODS];
    _Atomic uint64_t all_requests;
    _Atomic uint64_t counts[PROXY_FAULTS];
};

struct connection {
    struct fault_proxy *proxy;
    struct connection *next;
    int client;
    int server; // -1: not connected
};

static int64_t delay_ms(const struct fault_proxy *p)
{
    return p->faults.delay_ms ? p->faults.delay_ms : DELAY_DEFAULT_MS;
}

static int64_t stall_ms(const struct fault_proxy *p)
{
    return p->faults.stall_ms ? p->faults.stall_ms : STALL_DEFAULT_MS;
}

static struct fate drawn(const struct fault_proxy *p, uint64_t number)
{
    static const int statuses[] = {409, 429, 500, 503};
    struct rng block, one;
    rng_init(&block, p->seed * 31 + number / BURST_LEN);
    rng_init(&one, ~p->seed * 37 + number);
    int burst_status = statuses[rng_below(&block, 4)];
    bool burst = rng_chance(&block, p->faults.burst);
    struct fate fate = {.status = burst ? burst_status : statuses[rng_below(&one, 4)]};
    fate.delay_ms = rng_range(&one, 1, delay_ms(p));
    uint64_t point = rng_below(&one, 10000);
    if (burst) {
        fate.fault = PROXY_REFUSE;
        return fate;
    }
    for (int f = PROXY_PASS + 1; f < PROXY_FAULTS; f++) {
        if (point < p->faults.chance[f]) {
            fate.fault = (enum proxy_fault)f;
            break;
        }
        point -= p->faults.chance[f];
    }
    if (fate.fault == PROXY_STALL) fate.delay_ms = stall_ms(p);
    return fate;
}

static bool scripted(struct fault_proxy *p, const char *method, struct fate *fate)
{
    for (size_t i = 0; i < p->script_len; i++) {
        struct scripted *s = &p->script[i];
        if (s->left == 0 || (s->method[0] && strcmp(s->method, method) != 0)) continue;
        s->left--;
        *fate = s->fate;
        return true;
    }
    return false;
}

static struct fate fate_of(struct fault_proxy *p, const struct wire *request)
{
    struct fate fate;
    (void)pthread_mutex_lock(&p->lock);
    uint64_t number = atomic_fetch_add(&p->all_requests, 1);
    for (int i = 0; i < METHODS; i++)
        if (strcmp(methods[i], request->method) == 0) atomic_fetch_add(&p->requests[i], 1);
    if (!scripted(p, request->method, &fate)) {
        fate = drawn(p, number);
        bool puts = strcmp(request->method, "PUT") == 0;
        if (puts && p->faults.spares_puts && fate.fault != PROXY_DELAY) fate.fault = PROXY_PASS;
        // 409 says that nothing was done, and only a write can conflict with another
        bool may_conflict = puts && fate.fault == PROXY_REFUSE;
        if (fate.status == 409 && !may_conflict) fate.status = 500;
    }
    atomic_fetch_add(&p->counts[fate.fault], 1);
    if (fate.fault != PROXY_PASS) p->under_way++;
    (void)pthread_mutex_unlock(&p->lock);
    return fate;
}

static void fate_is_over(struct fault_proxy *p, const struct fate *fate)
{
    if (fate->fault == PROXY_PASS) return;
    (void)pthread_mutex_lock(&p->lock);
    p->under_way--;
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
}

static void close_socket(int *fd)
{
    if (*fd >= 0) (void)close(*fd);
    *fd = -1;
}

static void reset(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

static void no_delay(int fd)
{
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

static bool connected(struct connection *c)
{
    if (c->server >= 0) return true;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    no_delay(fd);
    if (connect(fd, (struct sockaddr *)&c->proxy->server, sizeof c->proxy->server) != 0) {
        (void)close(fd);
        return false;
    }
    (void)pthread_mutex_lock(&c->proxy->lock);
    c->server = fd;
    if (c->proxy->stopping) (void)shutdown(fd, SHUT_RDWR);
    (void)pthread_mutex_unlock(&c->proxy->lock);
    return true;
}

static bool exchange(struct connection *c, const struct wire *request, struct wire *answer)
{
    return connected(c) && wire_write(c->server, buf_bytes(&request->all)) &&
           wire_read_answer(answer, c->server, strcmp(request->method, "HEAD") == 0);
}

// Waits that long, or until the client gives up.
static void wait_for_client(const struct connection *c, int64_t ms)
{
    struct pollfd watch = {.fd = c->client, .events = POLLIN | POLLRDHUP};
    (void)poll(&watch, 1, (int)ms);
}

static void nap(int64_t ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static bool refuse(struct connection *c, int status)
{
    const char *code = status == 409   ? "ConditionalRequestConflict"
                       : status == 503 ? "SlowDown"
                       : status == 429 ? "TooManyRequests"
                                       : "InternalError";
    char body[200];
    char head[400];
    int len = snprintf(body, sizeof body,
                       "<?xml version=\"1.0\"?><Error><Code>%s</Code>"
                       "<Message>made by the fault proxy</Message></Error>",
                       code);
    int head_len =
        snprintf(head, sizeof head,
                 "HTTP/1.1 %d Refused\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n"
                 "%s\r\n%s",
                 status, len, status == 503 || status == 429 ? "Retry-After: 0\r\n" : "", body);
    return wire_write(c->client, bytes_of(head, (size_t)head_len));
}

static bool cut_inside(struct connection *c, const struct wire *request)
{
    struct bytes half = bytes_of(request->all.data, request->all.len - request->all.len / 4 - 1);
    if (connected(c)) (void)wire_write(c->server, half);
    return false;
}

static void truncate_answer(struct connection *c, const struct wire *answer)
{
    size_t body = answer->all.len - answer->head_len;
    size_t len = body > 0 ? answer->head_len + body / 2 : answer->head_len / 2;
    (void)wire_write(c->client, bytes_of(answer->all.data, len));
}

// What happens once the server has acted. False: the connection is over.
static bool answer_client(struct connection *c, const struct fate *fate, const struct wire *answer)
{
    switch (fate->fault) {
    case PROXY_PASS:
    case PROXY_DELAY:
        return wire_write(c->client, buf_bytes(&answer->all)) && !answer->closes;
    case PROXY_REFUSE_AFTER:
        return refuse(c, fate->status);
    case PROXY_TRUNCATE:
        truncate_answer(c, answer);
        return false;
    case PROXY_STALL:
        wait_for_client(c, fate->delay_ms);
        return false;
    case PROXY_RESET_AFTER:
        reset(c->client);
        return false;
    default:
        return false;
    }
}

// False: the connection is over.
static bool pass(struct connection *c, const struct fate *fate, const struct wire *request,
                 struct wire *answer)
{
    switch (fate->fault) {
    case PROXY_RESET_BEFORE:
        reset(c->client);
        return false;
    case PROXY_CUT_BEFORE:
        return false;
    case PROXY_CUT_INSIDE:
        return cut_inside(c, request);
    case PROXY_REFUSE:
        return refuse(c, fate->status);
    case PROXY_LATE:
        (void)shutdown(c->client, SHUT_RDWR);
        nap(fate->delay_ms);
        break;
    case PROXY_DELAY:
        nap(fate->delay_ms);
        break;
    default:
        break;
    }
    return exchange(c, request, answer) && answer_client(c, fate, answer);
}

static bool serve_one(struct connection *c, struct wire *request, struct wire *answer)
{
    if (!wire_read_request(request, c->client)) return false;
    struct fate fate = fate_of(c->proxy, request);
    bool goes_on = pass(c, &fate, request, answer) && !request->closes;
    fate_is_over(c->proxy, &fate);
    return goes_on;
}

static void forget(struct connection *c)
{
    struct fault_proxy *p = c->proxy;
    (void)pthread_mutex_lock(&p->lock);
    struct connection **at = &p->connections;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    close_socket(&c->client);
    close_socket(&c->server);
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
    memory_free(c);
}

static void *serve(void *arg)
{
    struct connection *c = arg;
    struct wire request, answer;
    wire_init(&request);
    wire_init(&answer);
    while (serve_one(c, &request, &answer))
        continue;
    wire_done(&request);
    wire_done(&answer);
    forget(c);
    return NULL;
}

static void adopt(struct fault_proxy *p, int fd)
{
    no_delay(fd);
    struct connection *c = NEW(struct connection);
    *c = (struct connection){.proxy = p, .client = fd, .server = -1};
    (void)pthread_mutex_lock(&p->lock);
    c->next = p->connections;
    p->connections = c;
    (void)pthread_mutex_unlock(&p->lock);
    pthread_t thread;
    if (pthread_create(&thread, NULL, serve, c) != 0) {
        forget(c);
        return;
    }
    (void)pthread_detach(thread);
}

static void *accept_all(void *arg)
{
    struct fault_proxy *p = arg;
    for (int fd; (fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;)
        adopt(p, fd);
    return NULL;
}

static bool listen_somewhere(struct fault_proxy *p)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->listener < 0 || bind(p->listener, (struct sockaddr *)&at, len) != 0 ||
        listen(p->listener, 256) != 0 ||
        getsockname(p->listener, (struct sockaddr *)&at, &len) != 0)
        return false;
    (void)snprintf(p->url, sizeof p->url, "http://127.0.0.1:%d", ntohs(at.sin_port));
    return true;
}

struct fault_proxy *proxy_start(const char *server_url, uint64_t seed)
{
    struct fault_proxy *p = NEW(struct fault_proxy);
    unsigned port = 0;
    CHECK(sscanf(server_url, "http://127.0.0.1:%u", &port) == 1);
    p->server = (struct sockaddr_in){.sin_family = AF_INET,
                                     .sin_port = htons((uint16_t)port),
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    p->seed = seed;
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->changed, NULL);
    if (!listen_somewhere(p) || pthread_create(&p->acceptor, NULL, accept_all, p) != 0) {
        close_socket(&p->listener);
        memory_free(p);
        return NULL;
    }
    return p;
}

void proxy_stop(struct fault_proxy *p)
{
    if (!p) return;
    (void)shutdown(p->listener, SHUT_RDWR);
    (void)pthread_join(p->acceptor, NULL);
    (void)pthread_mutex_lock(&p->lock);
    p->stopping = true;
    for (struct connection *c = p->connections; c; c = c->next) {
        (void)shutdown(c->client, SHUT_RDWR);
        if (c->server >= 0) (void)shutdown(c->server, SHUT_RDWR);
    }
    while (p->connections)
        (void)pthread_cond_wait(&p->changed, &p->lock);
    (void)pthread_mutex_unlock(&p->lock);
    close_socket(&p->listener);
    (void)pthread_cond_destroy(&p->changed);
    (void)pthread_mutex_destroy(&p->lock);
    memory_free(p);
}

const char *proxy_url(const struct fault_proxy *p)
{
    return p->url;
}

void proxy_set(struct fault_proxy *p, const struct proxy_faults *faults)
{
    (void)pthread_mutex_lock(&p->lock);
    p->faults = *faults;
    (void)pthread_mutex_unlock(&p->lock);
}

struct proxy_faults proxy_all_faults(uint32_t chance)
{
    struct proxy_faults faults = {.burst = chance};
    for (int f = PROXY_PASS + 1; f < PROXY_FAULTS; f++)
        faults.chance[f] = chance;
    return faults;
}

void proxy_calm(struct fault_proxy *p)
{
    (void)pthread_mutex_lock(&p->lock);
    p->faults = (struct proxy_faults){0};
    p->script_len = 0;
    while (p->under_way > 0)
        (void)pthread_cond_wait(&p->changed, &p->lock);
    (void)pthread_mutex_unlock(&p->lock);
}

void proxy_script(struct fault_proxy *p, const char *method, enum proxy_fault fault, int status,
                  uint32_t count)
{
    (void)pthread_mutex_lock(&p->lock);
    CHECK(p->script_len < SCRIPT_MAX);
    struct scripted *s = &p->script[p->script_len++];
    *s = (struct scripted){.fate = {fault, status ? status : 503, 0}, .left = count};
    s->fate.delay_ms = fault == PROXY_STALL ? stall_ms(p) : delay_ms(p);
    (void)snprintf(s->method, sizeof s->method, "%s", method ? method : "");
    (void)pthread_mutex_unlock(&p->lock);
}

uint64_t proxy_requests(const struct fault_proxy *p, const char *method)
{
    if (!method) return atomic_load(&p->all_requests);
    for (int i = 0; i < METHODS; i++)
        if (strcmp(methods[i], method) == 0) return atomic_load(&p->requests[i]);
    return 0;
}

uint64_t proxy_count(const struct fault_proxy *p, enum proxy_fault fault)
{
    return atomic_load(&p->counts[fault]);
}

uint64_t proxy_fault_total(const struct fault_proxy *p)
{
    uint64_t total = 0;
    for (int f = PROXY_PASS + 1; f < PROXY_FAULTS; f++)
        total += proxy_count(p, (enum proxy_fault)f);
    return total;
}

const char *proxy_fault_name(enum proxy_fault fault)
{
    static const char *const names[PROXY_FAULTS] = {
        "pass",      "cut before", "reset before", "cut inside", "cut after", "reset after",
        "truncated", "late",       "delayed",      "stalled",    "refused",   "refused after"};
    return names[fault];
}
