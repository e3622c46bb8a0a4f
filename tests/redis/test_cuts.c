// SPDX-License-Identifier: Apache-2.0
// Between the store and a real server, a network that cuts the connection at every byte of a
// request and of an answer; and servers that answer garbage.
#include "rig.h"

#include "os/clock.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define NEVER    (-1)
#define STEP_MAX 4096

// Forwards one connection after another, and cuts the one that carries the byte it waits for.
struct relay {
    int listener;
    int port;
    int to_port;        // of the server; 0: says `answer` to every connection
    const char *answer; // of a server that is none
    size_t answer_len;
    _Atomic int64_t up;   // bytes of requests until the cut; NEVER: none
    _Atomic int64_t down; // the same of answers
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

// Passes bytes on. Returns false if the connection is at its end, or at the byte to cut at.
static bool pass(int from, int to, _Atomic int64_t *left)
{
    char bytes[STEP_MAX];
    ssize_t n = recv(from, bytes, sizeof bytes, 0);
    if (n <= 0) return false;
    int64_t most = atomic_load(left);
    bool cut = most != NEVER && n >= most;
    size_t len = cut ? (size_t)most : (size_t)n;
    for (size_t at = 0; at < len;) {
        ssize_t sent = send(to, bytes + at, len - at, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        at += (size_t)sent;
    }
    if (most != NEVER) atomic_store(left, cut ? NEVER : most - n);
    return !cut;
}

static void forward(struct relay *r, int client)
{
    int server = connect_to(r->to_port);
    struct pollfd on[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
    bool good = server >= 0;
    while (good && !atomic_load(&r->stop)) {
        if (poll(on, 2, 50) <= 0) continue;
        if (on[0].revents) good = pass(client, server, &r->up);
        if (good && on[1].revents) good = pass(server, client, &r->down);
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

// Arms the relay: it cuts after so many more bytes of requests, or of answers. Returns false when
// the byte was past the end of the call before.
static void cut_after(struct world *w, bool up, int64_t bytes)
{
    w->relay.up = up ? bytes : NEVER;
    w->relay.down = up ? NEVER : bytes;
}

static bool was_cut(struct world *w)
{
    bool cut = w->relay.up == NEVER && w->relay.down == NEVER;
    w->relay.up = w->relay.down = NEVER;
    return cut;
}

// The truth about the slot must fit what the call answered.
static uint64_t settle(struct world *w, uint64_t slot, enum err e)
{
    enum err there = store_wait(w->truth, LOG, slot, 0, &w->b);
    NEED(e == ERR_OK || e == ERR_UNKNOWN || e == ERR_UNAVAILABLE);
    if (e == ERR_OK) NEED(there == ERR_OK);
    if (e == ERR_UNAVAILABLE) NEED(there == ERR_NOT_FOUND);
    return there == ERR_OK ? slot + 1 : slot;
}

static void an_append_cut_at_any_byte_has_the_right_outcome(void **state)
{
    struct world *w = *state;
    uint64_t slot = 1;
    size_t unknown = 0, done = 0;
    for (int way = 0; way < 2; way++) {
        bool cut = true;
        // Of an answer every byte; of a request, which is longer, every fifth.
        for (int64_t at = 0; cut; at += way ? 1 : 5) {
            cut_after(w, !way, at);
            enum err e = store_append(w->s, LOG, slot, bytes_str("0123456789"), &w->a);
            cut = was_cut(w);
            slot = settle(w, slot, e);
            if (e == ERR_UNKNOWN) unknown++;
            if (e == ERR_OK) done++;
            // The next one may still meet the end of that connection.
            slot = settle(w, slot, store_append(w->s, LOG, slot, bytes_str("x"), &w->a));
        }
    }
    NEED(unknown > 20 && done > 0);
}

static void a_read_cut_at_any_byte_is_made_again(void **state)
{
    struct world *w = *state;
    ANSWERS(ERR_OK, &w->a, store_append(w->truth, LOG, 1, bytes_str("0123456789"), &w->a));
    ANSWERS(ERR_OK, &w->a, store_put(w->truth, "key", bytes_str("0123456789"), &w->a));
    for (int way = 0; way < 2; way++) {
        bool cut = true;
        for (int64_t at = 0; cut; at += way ? 1 : 9) {
            cut_after(w, !way, at);
            ANSWERS(ERR_OK, &w->a, store_read_log(w->s, LOG, 1, 100, &w->a));
            NEED(bytes_equal(store_row_bytes(&w->a, 0), bytes_str("0123456789")));
            cut = was_cut(w);
            cut_after(w, !way, at);
            ANSWERS(ERR_OK, &w->a, store_get(w->s, "key", 0, SIZE_MAX, &w->a));
            NEED(bytes_equal(buf_bytes(&w->a.body), bytes_str("0123456789")));
            cut = was_cut(w) || cut;
        }
    }
}

static void a_create_cut_at_any_byte_has_the_right_outcome(void **state)
{
    struct world *w = *state;
    int made = 0;
    for (int way = 0; way < 2; way++) {
        bool cut = true;
        for (int64_t at = 0; cut; at += way ? 2 : 11) {
            char key[40];
            (void)snprintf(key, sizeof key, "key-%d", made++);
            cut_after(w, !way, at);
            enum err e = store_put_new(w->s, key, bytes_str("0123456789"), &w->a);
            cut = was_cut(w);
            enum err there = store_get(w->truth, key, 0, SIZE_MAX, &w->b);
            NEED(e == ERR_OK || e == ERR_UNKNOWN || e == ERR_UNAVAILABLE);
            if (e == ERR_OK) NEED(there == ERR_OK);
            if (e == ERR_UNAVAILABLE) NEED(there == ERR_NOT_FOUND);
        }
    }
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
    }
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(an_append_cut_at_any_byte_has_the_right_outcome),
        WORLD_TEST(a_read_cut_at_any_byte_is_made_again),
        WORLD_TEST(a_create_cut_at_any_byte_has_the_right_outcome),
        cmocka_unit_test(a_server_that_answers_garbage_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
