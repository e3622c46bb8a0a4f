// SPDX-License-Identifier: Apache-2.0
// The fault proxy before a server that counts what it sees: each fault does what its name says, and
// the same seed does the same.
#include "fault_proxy.h"
#include "proxy_wire.h"

#include "../unit/unit.h"
#include "os/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BODY "0123456789"

static int listener;
static pthread_t acceptor;
static _Atomic uint64_t seen;
static char server_url[40];

static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    struct wire request;
    wire_init(&request);
    while (wire_read_request(&request, fd)) {
        atomic_fetch_add(&seen, 1);
        (void)wire_write(fd, bytes_str("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" BODY));
    }
    wire_done(&request);
    (void)close(fd);
    return NULL;
}

static void *accept_all(void *arg)
{
    (void)arg;
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0;) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd), 0);
        assert_int_equal(pthread_detach(thread), 0);
    }
    return NULL;
}

static struct fault_proxy *proxy;

static int set_up(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    atomic_store(&seen, 0);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(server_url, sizeof server_url, "http://127.0.0.1:%d", ntohs(at.sin_port));
    assert_int_equal(pthread_create(&acceptor, NULL, accept_all, NULL), 0);
    proxy = proxy_start(server_url, 1);
    assert_non_null(proxy);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    proxy_stop(proxy);
    (void)shutdown(listener, SHUT_RDWR);
    (void)pthread_join(acceptor, NULL);
    (void)close(listener);
    return 0;
}

static int dial(void)
{
    unsigned port = 0;
    assert_int_equal(sscanf(proxy_url(proxy), "http://127.0.0.1:%u", &port), 1);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

// The status, or 0 when no whole answer came.
static int ask_on(int fd, const char *method)
{
    char text[200];
    (void)snprintf(text, sizeof text, "%s /k HTTP/1.1\r\nHost: h\r\ncontent-length: 4\r\n\r\nbody",
                   method);
    struct wire answer;
    wire_init(&answer);
    int status = 0;
    if (wire_write(fd, bytes_str(text)) && wire_read_answer(&answer, fd, false))
        status = answer.status;
    wire_done(&answer);
    return status;
}

static int ask(const char *method)
{
    int fd = dial();
    int status = ask_on(fd, method);
    (void)close(fd);
    return status;
}

static void requests_pass_on_one_connection(void **state)
{
    (void)state;
    int fd = dial();
    for (int i = 0; i < 5; i++)
        assert_int_equal(ask_on(fd, "PUT"), 200);
    (void)close(fd);
    assert_int_equal(atomic_load(&seen), 5);
    assert_int_equal(proxy_requests(proxy, "PUT"), 5);
    assert_int_equal(proxy_requests(proxy, "GET"), 0);
    assert_int_equal(proxy_fault_total(proxy), 0);
}

static void what_is_cut_before_is_never_seen(void **state)
{
    (void)state;
    static const enum proxy_fault before[] = {PROXY_CUT_BEFORE, PROXY_RESET_BEFORE,
                                              PROXY_CUT_INSIDE};
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        proxy_script(proxy, NULL, before[i], 0, 1);
        assert_int_equal(ask("PUT"), 0);
    }
    proxy_script(proxy, NULL, PROXY_REFUSE, 429, 1);
    assert_int_equal(ask("PUT"), 429);
    assert_int_equal(atomic_load(&seen), 0);
    assert_int_equal(ask("PUT"), 200);
    assert_int_equal(proxy_fault_total(proxy), 4);
}

static void what_is_cut_after_was_done(void **state)
{
    (void)state;
    static const enum proxy_fault after[] = {PROXY_CUT_AFTER, PROXY_RESET_AFTER, PROXY_TRUNCATE,
                                             PROXY_STALL};
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) {
        proxy_script(proxy, NULL, after[i], 0, 1);
        assert_int_equal(ask("PUT"), 0);
        assert_int_equal(atomic_load(&seen), i + 1);
    }
    proxy_script(proxy, NULL, PROXY_REFUSE_AFTER, 500, 1);
    assert_int_equal(ask("PUT"), 500);
    assert_int_equal(atomic_load(&seen), 5);
}

static void a_reset_is_a_reset_and_a_cut_an_end(void **state)
{
    (void)state;
    char byte;
    proxy_script(proxy, NULL, PROXY_RESET_AFTER, 0, 1);
    int fd = dial();
    assert_true(wire_write(fd, bytes_str("GET / HTTP/1.1\r\n\r\n")));
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
    (void)close(fd);
    proxy_script(proxy, NULL, PROXY_CUT_AFTER, 0, 1);
    fd = dial();
    assert_true(wire_write(fd, bytes_str("GET / HTTP/1.1\r\n\r\n")));
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    (void)close(fd);
}

static void a_late_request_arrives_after_its_client_has_gone(void **state)
{
    (void)state;
    proxy_script(proxy, "PUT", PROXY_LATE, 0, 1);
    assert_int_equal(ask("PUT"), 0);
    proxy_calm(proxy);
    assert_int_equal(atomic_load(&seen), 1);
}

static void a_delayed_request_passes(void **state)
{
    (void)state;
    int64_t start = clock_boot_ms();
    proxy_script(proxy, NULL, PROXY_DELAY, 0, 1);
    assert_int_equal(ask("GET"), 200);
    assert_true(clock_boot_ms() - start >= 100);
}

static void a_script_strikes_only_its_method(void **state)
{
    (void)state;
    proxy_script(proxy, "PUT", PROXY_REFUSE, 409, 2);
    assert_int_equal(ask("GET"), 200);
    assert_int_equal(ask("PUT"), 409);
    assert_int_equal(ask("PUT"), 409);
    assert_int_equal(ask("PUT"), 200);
}

static void storm(int statuses[100])
{
    struct proxy_faults faults = {.burst = 1000};
    for (int f = PROXY_PASS + 1; f < PROXY_FAULTS; f++)
        faults.chance[f] = 500;
    faults.delay_ms = faults.stall_ms = 5;
    proxy_set(proxy, &faults);
    for (int i = 0; i < 100; i++)
        statuses[i] = ask("PUT");
}

static void the_same_seed_does_the_same(void **state)
{
    int first[100], second[100];
    storm(first);
    assert_true(proxy_fault_total(proxy) > 20);
    for (int f = PROXY_PASS; f < PROXY_FAULTS; f++)
        assert_true(proxy_count(proxy, (enum proxy_fault)f) > 0);
    (void)tear_down(state);
    (void)set_up(state);
    storm(second);
    assert_memory_equal(first, second, sizeof first);
}

static void without_a_server_the_client_is_cut(void **state)
{
    (void)state;
    struct fault_proxy *nowhere = proxy_start("http://127.0.0.1:1", 1);
    struct fault_proxy *kept = proxy;
    proxy = nowhere;
    assert_int_equal(ask("PUT"), 0);
    proxy = kept;
    proxy_stop(nowhere);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(requests_pass_on_one_connection),
        CASE(what_is_cut_before_is_never_seen),
        CASE(what_is_cut_after_was_done),
        CASE(a_reset_is_a_reset_and_a_cut_an_end),
        CASE(a_late_request_arrives_after_its_client_has_gone),
        CASE(a_delayed_request_passes),
        CASE(a_script_strikes_only_its_method),
        CASE(the_same_seed_does_the_same),
        CASE(without_a_server_the_client_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
