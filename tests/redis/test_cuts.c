// SPDX-License-Identifier: Apache-2.0
// Between the store and a real server, a network that cuts, delays or repeats at every byte of a
// request and of an answer, for each call; and servers that answer garbage.
#include "rig.h"

#include "os/clock.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define NEVER    (-1)
#define STEP_MAX 4096
#define DELAY_NS 500000
#define SLOW_NS  5000000 // more than a store with low latency may take
#define OTHER    "q/id/1/log"

enum fault {
    CUT,    // the connection ends before the byte
    DELAY,  // the bytes from there on come later
    REPEAT, // what came before the byte comes again at the end
    FAULTS,
};

// Forwards one connection after another. The fault meets the one that carries the byte.
struct relay {
    int listener;
    int port;
    int to_port;        // of the server; 0: says `answer` to every connection
    const char *answer; // of a server that is none
    size_t answer_len;
    _Atomic int fault;
    _Atomic int64_t up;   // bytes of requests until the fault; NEVER: none
    _Atomic int64_t down; // the same of answers
    bool slow;            // every part of an answer comes later
    _Atomic bool stop;
    pthread_t thread;
};

static int listen_somewhere(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    NEED(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 64) == 0);
    NEED(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static int connect_to(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0) return fd;
    if (fd >= 0) (void)close(fd);
    return -1;
}

static bool send_all(int to, const char *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t sent = send(to, bytes + at, len - at, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        at += (size_t)sent;
    }
    return true;
}

// Passes bytes on. Returns false if the connection is at its end, or at the byte to cut at.
static bool pass(int from, int to, _Atomic int64_t *left, enum fault fault)
{
    char bytes[2 * STEP_MAX];
    ssize_t n = recv(from, bytes, STEP_MAX, 0);
    if (n <= 0) return false;
    int64_t most = atomic_load(left);
    bool here = most != NEVER && n >= most;
    if (most != NEVER) atomic_store(left, here ? NEVER : most - n);
    if (!here) return send_all(to, bytes, (size_t)n);
    size_t first = (size_t)most, rest = (size_t)n - first;
    if (fault ==
        REPEAT) { // in one segment: what comes after the next request looks like its answer
        memcpy(bytes + n, bytes, first);
        return send_all(to, bytes, (size_t)n + first);
    }
    if (!send_all(to, bytes, first) || fault == CUT) return false;
    (void)nanosleep(&(struct timespec){.tv_nsec = DELAY_NS}, NULL);
    return send_all(to, bytes + first, rest);
}

static void forward(struct relay *r, int client)
{
    int server = connect_to(r->to_port);
    struct pollfd on[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
    bool good = server >= 0;
    for (int i = 0; good && i < 2;
         i++) // else a part waits for the acknowledgement of the one before
        (void)setsockopt(on[i].fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    while (good && !atomic_load(&r->stop)) {
        if (poll(on, 2, 50) <= 0) continue;
        if (on[0].revents) good = pass(client, server, &r->up, r->fault);
        if (good && on[1].revents && r->slow)
            (void)nanosleep(&(struct timespec){.tv_nsec = SLOW_NS}, NULL);
        if (good && on[1].revents) good = pass(server, client, &r->down, r->fault);
    }
    if (server >= 0) (void)close(server);
}

static void *relay_run(void *arg)
{
    struct relay *r = arg;
    while (!atomic_load(&r->stop)) {
        struct pollfd on = {.fd = r->listener, .events = POLLIN};
        if (poll(&on, 1, 50) <= 0) continue;
        int client = accept(r->listener, NULL, NULL);
        if (client < 0) continue;
        if (r->to_port)
            forward(r, client);
        else
            (void)!send(client, r->answer, r->answer_len, MSG_NOSIGNAL);
        (void)close(client);
    }
    return NULL;
}

static void relay_start(struct relay *r)
{
    r->listener = listen_somewhere(&r->port);
    r->up = r->down = NEVER;
    NEED(pthread_create(&r->thread, NULL, relay_run, r) == 0);
}

static void relay_stop(struct relay *r)
{
    atomic_store(&r->stop, true);
    (void)pthread_join(r->thread, NULL);
    (void)close(r->listener);
}

struct world {
    struct relay relay;
    struct place place;  // straight to the server
    struct store *truth; // straight, too
    struct store *s;     // by way of the relay
    struct store_answer a, b;
    uint64_t slot;  // the next one of LOG
    uint64_t other; // the last one of OTHER
    int calls;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    char url[URL_MAX], why[STORE_WHY_MAX] = "";
    w->relay.to_port = atoi(getenv("SLUICE_TEST_REDIS_PORT"));
    relay_start(&w->relay);
    place_make(&w->place, "");
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d/1?prefix=%s", w->relay.port,
                   w->place.prefix);
    w->truth = place_store(&w->place);
    enum err e = store_redis_open(url, &w->s, why, sizeof why);
    answers_at(ERR_OK, e, why, __FILE__, __LINE__);
    store_answer_init(&w->a);
    store_answer_init(&w->b);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    store_free(w->s);
    store_free(w->truth);
    relay_stop(&w->relay);
    store_answer_done(&w->a);
    store_answer_done(&w->b);
    free(w);
    return 0;
}

// Arms the relay for the byte after so many of requests, or of answers.
static void meet(struct world *w, enum fault fault, bool up, int64_t bytes)
{
    atomic_store(&w->relay.fault, (int)fault);
    w->relay.up = up ? bytes : NEVER;
    w->relay.down = up ? NEVER : bytes;
}

// Returns false if the byte was past the end of the call.
static bool was_met(struct world *w)
{
    bool met = w->relay.up == NEVER && w->relay.down == NEVER;
    w->relay.up = w->relay.down = NEVER;
    return met;
}

#define BODY bytes_str("0123456789")

static void name_key(char to[40], int n)
{
    (void)snprintf(to, 40, "key-%d", n);
}

static void no_preparation(struct world *w, int n)
{
    (void)w;
    (void)n;
}

// Each call of the contract: what comes before it, the call, and whether it took effect.
static enum err call_append(struct world *w, int n)
{
    (void)n;
    return store_append(w->s, LOG, w->slot, BODY, &w->a);
}

static bool append_is_done(struct world *w, int n)
{
    (void)n;
    if (store_wait(w->truth, LOG, w->slot, 0, &w->b) != ERR_OK) return false;
    w->slot++;
    return true;
}

static enum err call_put_new(struct world *w, int n)
{
    char key[40];
    name_key(key, n);
    return store_put_new(w->s, key, BODY, &w->a);
}

static bool key_exists(struct world *w, int n)
{
    char key[40];
    name_key(key, n);
    return store_get(w->truth, key, 0, SIZE_MAX, &w->b) == ERR_OK;
}

static enum err call_put(struct world *w, int n)
{
    char body[40];
    name_key(body, n);
    return store_put(w->s, "over", bytes_str(body), &w->a);
}

static bool put_is_done(struct world *w, int n)
{
    char body[40];
    name_key(body, n);
    return store_get(w->truth, "over", 0, SIZE_MAX, &w->b) == ERR_OK &&
           bytes_equal(buf_bytes(&w->b.body), bytes_str(body));
}

static void put_key(struct world *w, int n)
{
    char key[40];
    name_key(key, n);
    ANSWERS(ERR_OK, &w->b, store_put(w->truth, key, BODY, &w->b));
}

static enum err call_delete(struct world *w, int n)
{
    char key[40];
    const char *keys[] = {key};
    name_key(key, n);
    return store_delete(w->s, keys, 1, &w->a);
}

static bool key_is_gone(struct world *w, int n)
{
    return !key_exists(w, n);
}

static void append_other(struct world *w, int n)
{
    (void)n;
    ANSWERS(ERR_OK, &w->b, store_append(w->truth, OTHER, ++w->other, BODY, &w->b));
}

static enum err call_drop(struct world *w, int n)
{
    (void)n;
    return store_drop(w->s, OTHER, w->other, w->other, &w->a);
}

static bool drop_is_done(struct world *w, int n)
{
    (void)n;
    return store_read_log(w->truth, OTHER, w->other, 1, &w->b) == ERR_NOT_FOUND;
}

static enum err call_read(struct world *w, int n)
{
    (void)n;
    enum err e = store_read_log(w->s, "fixed", 1, 100, &w->a);
    if (!e) NEED(w->a.rows_len == 2 && bytes_equal(store_row_bytes(&w->a, 1), BODY));
    return e;
}

static enum err call_get(struct world *w, int n)
{
    (void)n;
    enum err e = store_get(w->s, "folder/a", 0, SIZE_MAX, &w->a);
    if (!e) NEED(bytes_equal(buf_bytes(&w->a.body), BODY));
    return e;
}

static enum err call_list(struct world *w, int n)
{
    (void)n;
    enum err e = store_list(w->s, "folder/", NULL, 10, &w->a);
    if (!e) NEED(w->a.rows_len == 2 && strcmp(store_row_key(&w->a, 1), "folder/b") == 0);
    return e;
}

static enum err call_extents(struct world *w, int n)
{
    (void)n;
    enum err e = store_extents(w->s, "fixed", 1, 10, &w->a);
    if (!e) NEED(w->a.rows_len == 2 && w->a.rows[1].last == 2);
    return e;
}

static enum err call_wait(struct world *w, int n)
{
    (void)n;
    return store_wait(w->s, "fixed", 2, 0, &w->a);
}

static const struct call {
    const char *name;
    void (*prepare)(struct world *w, int n);
    enum err (*make)(struct world *w, int n);
    bool (*is_done)(struct world *w, int n); // NULL: it only reads
} calls[] = {
    {"append", no_preparation, call_append, append_is_done},
    {"put_new", no_preparation, call_put_new, key_exists},
    {"put", no_preparation, call_put, put_is_done},
    {"delete", put_key, call_delete, key_is_gone},
    {"drop", append_other, call_drop, drop_is_done},
    {"read_log", no_preparation, call_read, NULL},
    {"get", no_preparation, call_get, NULL},
    {"list", no_preparation, call_list, NULL},
    {"extents", no_preparation, call_extents, NULL},
    {"wait", no_preparation, call_wait, NULL},
};

// The outcome must fit what happened, and the next answer must be the next call's own.
static void settle(struct world *w, const struct call *c, enum fault fault, int n, enum err e)
{
    bool done = c->is_done && c->is_done(w, n);
    bool fits = e == ERR_OK ? !c->is_done || done
                            : c->is_done && fault != DELAY &&
                                  (e == ERR_UNKNOWN || (e == ERR_UNAVAILABLE && !done));
    if (!fits)
        (void)fprintf(stderr, "# %s, %d: %s (%s), done: %d\n", c->name, n, err_name(e), w->a.why,
                      done);
    NEED(fits);
    ANSWERS(ERR_OK, &w->a, call_read(w, n));
}

static void meet_at_every_byte(struct world *w, const struct call *c, enum fault fault, bool up)
{
    size_t unknown = 0;
    bool met = true;
    for (int64_t at = 0; met; at += fault == DELAY ? 3 : 1) {
        int n = w->calls++;
        c->prepare(w, n);
        meet(w, fault, up, at);
        enum err e = c->make(w, n);
        met = was_met(w);
        settle(w, c, fault, n, e);
        if (e == ERR_UNKNOWN) unknown++;
    }
    if (fault == CUT && c->is_done) NEED(unknown > 10);
}

static void every_call_has_the_right_outcome_at_every_byte(void **state)
{
    struct world *w = *state;
    for (uint64_t slot = 1; slot <= 2; slot++)
        ANSWERS(ERR_OK, &w->a, store_append(w->truth, "fixed", slot, BODY, &w->a));
    ANSWERS(ERR_OK, &w->a, store_put(w->truth, "folder/a", BODY, &w->a));
    ANSWERS(ERR_OK, &w->a, store_put(w->truth, "folder/b", BODY, &w->a));
    w->slot = 1;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (enum fault fault = CUT; fault < FAULTS; fault++)
            for (int up = 0; up < 2; up++)
                // A request that comes twice is another request: only answers are repeated.
                if (fault != REPEAT || !up) meet_at_every_byte(w, &calls[i], fault, up);
    printf("# %d calls\n", w->calls);
}

static void a_server_that_answers_garbage_is_refused(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        "*2147483647\r\n",
        "$99999999999999999999\r\n",
        "*-9\r\n",
        "+OK",
        "+OK\r\n",
        "+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n",
        ":1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n-LOADING\r\n",
        "\x15\x03\x01\x00\x02\x02\x28",
        "",
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct relay r = {.answer = answers[i], .answer_len = strlen(answers[i])};
        char url[URL_MAX], why[STORE_WHY_MAX] = "";
        relay_start(&r);
        (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d/0?timeoutMs=500", r.port);
        struct store *s = NULL;
        enum err e = store_redis_open(url, &s, why, sizeof why);
        relay_stop(&r);
        NEED(e == ERR_INVALID || e == ERR_UNAVAILABLE);
        NEED(why[0] != 0 && s == NULL);
        // A server of HTTP is refused for good, and the sentence says why.
        if (i == 0) NEED(e == ERR_INVALID && strstr(why, "is not the protocol of Redis"));
    }
}

static void the_latency_is_measured_when_the_store_is_opened(void **state)
{
    (void)state;
    struct relay slow = {.to_port = atoi(getenv("SLUICE_TEST_REDIS_PORT")), .slow = true};
    struct place place;
    char url[URL_MAX], why[STORE_WHY_MAX] = "";
    bool far = true;
    place_make(&place, "");
    for (int i = 0; i < 100 && far; i++) { // a busy machine may be slow, but not each time
        struct store *near = place_store(&place);
        far = store_is_high_latency(near);
        store_free(near);
    }
    NEED(!far);
    relay_start(&slow);
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d/1?prefix=%s", slow.port, place.prefix);
    struct store *s = NULL;
    enum err e = store_redis_open(url, &s, why, sizeof why);
    answers_at(ERR_OK, e, why, __FILE__, __LINE__);
    NEED(store_is_high_latency(s));
    store_free(s);
    relay_stop(&slow);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(every_call_has_the_right_outcome_at_every_byte),
        cmocka_unit_test(a_server_that_answers_garbage_is_refused),
        cmocka_unit_test(the_latency_is_measured_when_the_store_is_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
