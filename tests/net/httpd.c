// SPDX-License-Identifier: Apache-2.0
// The HTTP server's own promises: what holds a request, and for how long. Meant for the sanitizers,
// too: most faults here are uses of freed memory.
#include "net/httpd.h"

#include "../unit/unit.h"
#include "base/check.h"
#include "os/clock.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define DEADLINE_MS 20000
#define CROWD       8
#define ROUNDS      40
#define KNOCKERS    3
#define KNOCKING_MS 1500

struct owner {
    struct httpd *http;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct httpd_request *kept[CROWD];
    size_t kept_len;
    bool blocks;     // the handler waits until it is released
    bool released;   // under the lock
    atomic_int over; // requests that are
    atomic_int heads;
    atomic_int handled;
    atomic_bool stopped;
};

static void pause_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void await_count(const atomic_int *count, int wanted)
{
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    while (atomic_load(count) < wanted) {
        if (clock_boot_ms() > give_up) fail_msg("%d of %d", atomic_load(count), wanted);
        pause_ms(1);
    }
}

static void over(void *mine, bool delivered)
{
    struct owner *o = mine;
    (void)delivered;
    atomic_fetch_add(&o->over, 1);
}

static size_t head(void *ctx, struct httpd_request *r)
{
    struct owner *o = ctx;
    httpd_attach(r, o, over);
    atomic_fetch_add(&o->heads, 1);
    if (strcmp(httpd_target(r), "/no") == 0) httpd_answer(r, &(struct httpd_answer){.status = 404});
    return (size_t)1 << 20;
}

static void handle(void *ctx, struct httpd_request *r)
{
    struct owner *o = ctx;
    (void)pthread_mutex_lock(&o->lock);
    o->kept[o->kept_len++] = r;
    atomic_fetch_add(&o->handled, 1);
    while (o->blocks && !o->released)
        (void)pthread_cond_wait(&o->changed, &o->lock);
    (void)pthread_mutex_unlock(&o->lock);
}

static void start_with(struct owner *o, struct httpd_config config)
{
    char why[200] = "";
    *o = (struct owner){.http = NULL};
    (void)pthread_mutex_init(&o->lock, NULL);
    (void)pthread_cond_init(&o->changed, NULL);
    config.host = "127.0.0.1";
    config.head = head;
    config.handle = handle;
    config.ctx = o;
    if (httpd_start(&config, &o->http, why, sizeof why)) fail_msg("%s", why);
    if (httpd_listen(o->http, why, sizeof why)) fail_msg("%s", why);
}

static void start(struct owner *o)
{
    start_with(o, (struct httpd_config){.threads = 0});
}

static int dial(const struct owner *o)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(httpd_port(o->http)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

#define POST "POST /x HTTP/1.1\r\nHost: a\r\nX-Mine: yes\r\nContent-Length: 5\r\n\r\n"

struct late {
    struct owner *owner;
    struct httpd_request *request;
    int place;
};

static void answer_late(struct httpd_request *r, int place)
{
    struct httpd_answer a = {.status = 200, .body = bytes_str("late")};
    if (place % 3 != 0) {
        httpd_answer(r, &a);
        return;
    }
    struct httpd_stream *s = httpd_stream_open(r, &a);
    (void)httpd_stream_write(s, bytes_str("more"), 0);
    (void)httpd_stream_gone(s);
    httpd_stream_end(s);
}

static void gone(void *mine)
{
    (void)mine;
}

// Some before the server stops, some while it does, some after.
static void *work(void *arg)
{
    struct late *l = arg;
    struct httpd_request *r = l->request;
    if (l->place % 2 == 0)
        while (!atomic_load(&l->owner->stopped))
            pause_ms(1);
    else
        pause_ms(l->place);
    httpd_watch(r, gone);
    (void)httpd_gone(r);
    const char *mine = httpd_header(r, "x-mine");
    CHECK(mine && strcmp(mine, "yes") == 0);
    CHECK(strcmp(httpd_method(r), "POST") == 0);
    CHECK(bytes_equal(httpd_body(r), bytes_str("hello")));
    answer_late(r, l->place);
    return NULL;
}

static void requests_may_be_looked_at_and_answered_after_the_end(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct owner o;
        int fds[CROWD];
        pthread_t threads[CROWD];
        struct late late[CROWD];
        start(&o);
        for (int i = 0; i < CROWD; i++) {
            fds[i] = dial(&o);
            say(fds[i], POST "hello");
        }
        await_count(&o.handled, CROWD);
        for (int i = 0; i < CROWD; i++) {
            late[i] = (struct late){&o, o.kept[i], i};
            assert_int_equal(pthread_create(&threads[i], NULL, work, &late[i]), 0);
        }
        if (round % 2 == 0) (void)close(fds[0]); // its client does not wait for that
        pause_ms(round % 5);
        assert_false(httpd_stop(o.http, 0));
        atomic_store(&o.stopped, true);
        for (int i = 0; i < CROWD; i++) {
            (void)pthread_join(threads[i], NULL);
            if (i > 0 || round % 2 == 1) (void)close(fds[i]);
        }
        await_count(&o.over, CROWD);
    }
}

static void *stop(void *arg)
{
    struct owner *o = arg;
    (void)httpd_stop(o->http, 0);
    atomic_store(&o->stopped, true);
    return NULL;
}

static bool is_refused(uint16_t port)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool refused = connect(fd, (struct sockaddr *)&at, sizeof at) != 0;
    (void)close(fd);
    return refused;
}

static void a_handler_may_be_busy_while_the_server_stops(void **state)
{
    (void)state;
    struct owner o;
    pthread_t stopping;
    start(&o);
    o.blocks = true;
    uint16_t port = httpd_port(o.http);
    int fd = dial(&o);
    say(fd, POST "hello");
    await_count(&o.handled, 1);
    assert_int_equal(pthread_create(&stopping, NULL, stop, &o), 0);
    while (!is_refused(port))
        pause_ms(1);
    pause_ms(50); // from not listening to giving up is no time at all
    (void)pthread_mutex_lock(&o.lock);
    o.released = true;
    (void)pthread_cond_broadcast(&o.changed);
    (void)pthread_mutex_unlock(&o.lock);
    (void)pthread_join(stopping, NULL);
    assert_true(atomic_load(&o.stopped));
    char answer[64] = "";
    assert_true(recv(fd, answer, sizeof answer - 1, 0) > 0);
    assert_non_null(strstr(answer, "503"));
    httpd_answer(o.kept[0], &(struct httpd_answer){.status = 200});
    await_count(&o.over, 1);
    (void)close(fd);
}

struct knocking {
    atomic_uint port; // 0: that is all
    atomic_int heard;
};

// Sends a request and leaves; most are in the way of a server that has just begun, or that ends.
static void *knock(void *arg)
{
    struct knocking *k = arg;
    const char *text = "GET /no HTTP/1.1\r\nHost: a\r\n\r\n";
    for (unsigned port; (port = atomic_load(&k->port)) != 0;) {
        struct sockaddr_in at = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        struct linger at_once = {.l_onoff = 1};
        struct timeval patience = {.tv_sec = 1};
        char byte;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) != 0)
            pause_ms(1);
        else if (send(fd, text, strlen(text), MSG_NOSIGNAL) > 0 && recv(fd, &byte, 1, 0) > 0)
            atomic_fetch_add(&k->heard, 1);
        (void)close(fd);
    }
    return NULL;
}

static void a_server_may_stop_while_clients_connect(void **state)
{
    (void)state;
    struct knocking k = {.port = 1};
    pthread_t threads[KNOCKERS];
    int rounds = 0;
    for (int i = 0; i < KNOCKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, knock, &k), 0);
    for (int64_t end = clock_boot_ms() + KNOCKING_MS; clock_boot_ms() < end; rounds++) {
        struct owner o;
        start_with(&o, (struct httpd_config){.threads = 4});
        atomic_store(&k.port, httpd_port(o.http));
        await_count(&o.heads, 1);
        if (rounds % 2 == 0) httpd_close(o.http);
        (void)httpd_stop(o.http, 1000);
        assert_int_equal(atomic_load(&o.over), atomic_load(&o.heads));
    }
    atomic_store(&k.port, 0);
    for (int i = 0; i < KNOCKERS; i++)
        (void)pthread_join(threads[i], NULL);
    print_message("# stopped %d times, %d answers\n", rounds, atomic_load(&k.heard));
    assert_true(atomic_load(&k.heard) > 0);
}

static void a_connection_too_many_is_served_when_another_ends(void **state)
{
    (void)state;
    struct owner o;
    int fds[3];
    char answer[64] = "";
    start_with(&o, (struct httpd_config){.connections_max = 2});
    for (int i = 0; i < 2; i++) {
        fds[i] = dial(&o);
        say(fds[i], POST "hello");
    }
    await_count(&o.handled, 2); // one without a whole head would make way
    fds[2] = dial(&o);
    say(fds[2], "GET /no HTTP/1.1\r\nHost: a\r\n\r\n");
    struct pollfd third = {.fd = fds[2], .events = POLLIN};
    assert_int_equal(poll(&third, 1, 50), 0); // neither heard nor refused
    assert_int_equal(atomic_load(&o.heads), 2);
    for (int i = 0; i < 2; i++)
        httpd_answer(o.kept[i], &(struct httpd_answer){.status = 200});
    (void)close(fds[0]);
    assert_true(recv(fds[2], answer, sizeof answer - 1, 0) > 0);
    assert_non_null(strstr(answer, "404"));
    assert_true(httpd_stop(o.http, DEADLINE_MS));
    (void)close(fds[1]);
    (void)close(fds[2]);
}

static bool holds(const struct owner *o, size_t least)
{
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    while (httpd_body_memory(o->http) < least && clock_boot_ms() < give_up)
        pause_ms(1);
    return httpd_body_memory(o->http) >= least;
}

static void a_client_that_leaves_inside_a_body_leaves_no_state(void **state)
{
    (void)state;
    struct owner o;
    start(&o);
    int fd = dial(&o);
    say(fd, POST "hel");
    assert_true(holds(&o, 5));
    (void)close(fd);
    await_count(&o.over, 1);
    assert_int_equal(httpd_body_memory(o.http), 0);
    assert_int_equal(atomic_load(&o.handled), 0);
    // And a client that is inside a request when the server stops.
    fd = dial(&o);
    say(fd, POST "hel");
    assert_true(holds(&o, 5));
    assert_true(httpd_stop(o.http, DEADLINE_MS));
    assert_int_equal(atomic_load(&o.over), 2);
    (void)close(fd);
}

// Seven bodies of 64 KiB would take more than there is.
static void a_body_takes_memory_as_it_arrives(void **state)
{
    (void)state;
    static char rest[64 << 10]; // one byte less, and a zero
    struct owner o;
    int fds[CROWD - 1];
    start_with(&o, (struct httpd_config){.body_memory_max = 256 << 10});
    for (int i = 0; i < CROWD - 1; i++) {
        fds[i] = dial(&o);
        say(fds[i], "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\n\r\nx");
        assert_true(holds(&o, (size_t)(i + 1) << 10));
        assert_int_equal(httpd_body_memory(o.http), (i + 1) << 10);
    }
    assert_int_equal(atomic_load(&o.handled), 0); // none was refused
    memset(rest, 'x', sizeof rest - 1);
    say(fds[0], rest);
    await_count(&o.handled, 1);
    assert_int_equal(httpd_lost(o.kept[0]), HTTPD_WHOLE);
    assert_int_equal(httpd_body(o.kept[0]).len, 64 << 10);
    httpd_answer(o.kept[0], &(struct httpd_answer){.status = 200});
    for (int i = 0; i < CROWD - 1; i++)
        (void)close(fds[i]);
    await_count(&o.over, CROWD - 1);
    assert_int_equal(httpd_body_memory(o.http), 0);
    assert_true(httpd_stop(o.http, DEADLINE_MS));
}

static void a_body_that_was_refused_is_not_kept(void **state)
{
    (void)state;
    struct owner o;
    char answer[64] = "";
    start(&o);
    int fd = dial(&o);
    say(fd, "POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
    await_count(&o.heads, 1);
    assert_int_equal(httpd_body_memory(o.http), 0);
    say(fd, "lo");
    assert_true(recv(fd, answer, sizeof answer - 1, 0) > 0);
    assert_non_null(strstr(answer, "404"));
    await_count(&o.over, 1);
    assert_int_equal(atomic_load(&o.handled), 0);
    assert_true(httpd_stop(o.http, DEADLINE_MS));
    (void)close(fd);
}

// One that goes on and on, without saying how long, is heard for a while and cut off.
static void a_refused_body_without_an_end_is_cut_off(void **state)
{
    (void)state;
    struct owner o;
    static char chunk[10008];
    start(&o);
    int fd = dial(&o);
    say(fd, "POST /no HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    memset(chunk, 'x', sizeof chunk);
    memcpy(chunk, "2710\r\n", 6);
    memcpy(chunk + 10006, "\r\n", 2);
    int chunks = 0;
    while (send(fd, chunk, sizeof chunk, MSG_NOSIGNAL) > 0)
        if (++chunks > 10000) fail_msg("it was heard for %d chunks", chunks);
    await_count(&o.over, 1);
    assert_true(httpd_stop(o.http, DEADLINE_MS));
    (void)close(fd);
}

// It is never idle for long, and would keep its answer for ever.
static void an_answer_that_is_read_too_slowly_is_given_up(void **state)
{
    (void)state;
    struct owner o;
    static char some[64 << 10];
    size_t all = (size_t)32 << 20, read = 0;
    start_with(&o, (struct httpd_config){.idle_ms = 1000, .answer_rate = (size_t)1 << 30});
    int fd = dial(&o), little = sizeof some;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little), 0);
    say(fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    await_count(&o.handled, 1);
    uint8_t *body = test_calloc(1, all);
    httpd_answer(o.kept[0], &(struct httpd_answer){.status = 200, .body = bytes_of(body, all)});
    test_free(body);
    for (ssize_t got; (got = recv(fd, some, sizeof some, 0)) > 0; pause_ms(10))
        read += (size_t)got;
    assert_true(read < all);
    await_count(&o.over, 1);
    assert_true(httpd_stop(o.http, DEADLINE_MS));
    (void)close(fd);
}

// Left alone, the connection would stay for as long as limits.idle says, which is longer than this
// test waits.
static void a_stream_that_is_cut_does_not_wait_for_its_client_to_read(void **state)
{
    (void)state;
    struct owner o;
    static uint8_t some[64 << 10];
    start(&o);
    int fd = dial(&o), little = 4096;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little), 0);
    say(fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    await_count(&o.handled, 1);
    struct httpd_stream *s =
        httpd_stream_open(o.kept[0], &(struct httpd_answer){.status = 200, .type = "text/plain"});
    while (httpd_stream_write(s, bytes_of(some, sizeof some), 1500)) {
    }
    assert_false(httpd_stream_gone(s));
    httpd_stream_cut(s, 1);
    await_count(&o.over, 1);
    assert_true(httpd_stop(o.http, DEADLINE_MS));
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_may_be_looked_at_and_answered_after_the_end),
        cmocka_unit_test(a_handler_may_be_busy_while_the_server_stops),
        cmocka_unit_test(a_server_may_stop_while_clients_connect),
        cmocka_unit_test(a_connection_too_many_is_served_when_another_ends),
        cmocka_unit_test(a_client_that_leaves_inside_a_body_leaves_no_state),
        cmocka_unit_test(a_body_takes_memory_as_it_arrives),
        cmocka_unit_test(a_body_that_was_refused_is_not_kept),
        cmocka_unit_test(a_refused_body_without_an_end_is_cut_off),
        cmocka_unit_test(an_answer_that_is_read_too_slowly_is_given_up),
        cmocka_unit_test(a_stream_that_is_cut_does_not_wait_for_its_client_to_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
