// SPDX-License-Identifier: Apache-2.0
// How exchanges travel: kept connections, what exactly is sent and received, many at once, turns,
// proxies.
#define _GNU_SOURCE // strcasestr
#include "../unit/unit.h"
#include "base/memory.h"
#include "net/http.h"
#include "os/clock.h"
#include "scratch.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PATIENCE_MS 20000 // nothing takes so long unless it hangs
#define SHORT_MS    150   // what is meant to run out
#define MANY        32
#define LARGE       ((size_t)60 << 20) // not a power of two: not where doubling ends

static struct server server;

struct client {
    struct http *http;
    struct http_call call;
    char url[256];
};

static void client_open(struct client *c, const struct http_config *config, const char *method,
                        const char *path)
{
    (void)snprintf(c->url, sizeof c->url, "%s%s", server.url, path);
    c->http = http_new(config);
    http_call_init(&c->call, method, c->url);
    c->call.timeout_ms = PATIENCE_MS;
}

static void client_close(struct client *c)
{
    http_call_done(&c->call);
    http_free(c->http);
    server_stop(&server);
}

static void assert_answered(struct client *c)
{
    http_do(c->http, &c->call);
    assert_string_equal(c->call.why, "");
    assert_int_equal(c->call.end, HTTP_ANSWERED);
}

static bool await(atomic_int *number, int value)
{
    int64_t end = clock_boot_ms() + PATIENCE_MS;
    while (atomic_load(number) < value && clock_boot_ms() < end)
        (void)usleep(200);
    return atomic_load(number) >= value;
}

static void one_connection_carries_many_exchanges(void **state)
{
    (void)state;
    server_start(&server, NULL, serve_ok, NULL);
    struct client c;
    client_open(&c, NULL, "GET", "/");
    for (int i = 0; i < 10; i++) {
        assert_answered(&c);
        assert_int_equal(c.call.sends, 1);
        assert_int_equal(c.call.status, 200);
        assert_true(bytes_equal(buf_bytes(&c.call.body_in), bytes_str("ok")));
        assert_true(c.call.sent_ms <= c.call.received_ms);
    }
    assert_int_equal(atomic_load(&server.accepted), 1);
    assert_int_equal(atomic_load(&server.requests), 10);
    client_close(&c);
}

// What the server saw last; only looked at when its answer is there.
static const char *seen(void)
{
    return (const char *)server.peers[0].head.data;
}

static void a_request_is_sent_as_it_was_given(void **state)
{
    (void)state;
    server_start(&server, NULL, serve_ok, NULL);
    struct client c;
    client_open(&c, &(struct http_config){.user_agent = "tester"}, "PUT",
                "/a/../%2e%2F/./b%7e+c//?list-type=2&x=%3d&y");
    const char *headers[] = {"X-One: 1", "If-None-Match: *", "X-Empty;"};
    char *body = test_malloc(2000000);
    memset(body, 'b', 2000000);
    c.call.headers = headers;
    c.call.headers_len = 3;
    c.call.body = bytes_of(body, 2000000);
    assert_answered(&c);
    assert_ptr_equal(strstr(seen(), "PUT /a/../%2e%2F/./b%7e+c//?list-type=2&x=%3d&y HTTP/1.1\r\n"),
                     seen());
    assert_non_null(strstr(seen(), "\r\nX-One: 1\r\n"));
    assert_non_null(strstr(seen(), "\r\nIf-None-Match: *\r\n"));
    assert_non_null(strstr(seen(), "\r\nX-Empty:\r\n"));
    assert_non_null(strstr(seen(), "\r\nUser-Agent: tester\r\n"));
    assert_non_null(strstr(seen(), "\r\nContent-Length: 2000000\r\n"));
    assert_null(strstr(seen(), "Expect"));
    assert_null(strstr(seen(), "Content-Type"));
    assert_true(bytes_equal(buf_bytes(&server.peers[0].body), c.call.body));
    test_free(body);
    client_close(&c);
}

static void answer_head(struct peer *p)
{
    while (peer_request(p))
        peer_say(p, strncmp((const char *)p->head.data, "HEAD", 4) == 0
                        ? "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
                        : "HTTP/1.1 204 No\r\n\r\n");
}

// One handle, one after the other: what one method sets must not stay for the next.
static void methods_do_not_leave_traces(void **state)
{
    (void)state;
    server_start(&server, NULL, answer_head, NULL);
    struct client c;
    client_open(&c, NULL, "PUT", "/");
    const char *headers[] = {"content-type: text/plain", "X-Two: 2"};
    c.call.headers = headers;
    c.call.headers_len = 2;
    c.call.body = bytes_str("hello");
    assert_answered(&c);
    assert_non_null(strstr(seen(), "\r\ncontent-type: text/plain\r\n"));
    c.call.headers_len = 0;
    c.call.body = BYTES_EMPTY;
    static const struct {
        const char *method;
        const char *line;
        bool carries;
    } steps[] = {
        {"HEAD", "HEAD / ", false},     {"PUT", "PUT / ", true},        {"GET", "GET / ", false},
        {"POST", "POST / ", true},      {"DELETE", "DELETE / ", false}, {"HEAD", "HEAD / ", false},
        {"DELETE", "DELETE / ", false}, {"POST", "POST / ", true},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        c.call.method = steps[i].method;
        assert_answered(&c);
        assert_ptr_equal(strstr(seen(), steps[i].line), seen());
        assert_null(strcasestr(seen(), "\r\ncontent-type"));
        assert_null(strstr(seen(), "X-Two"));
        assert_int_equal(strstr(seen(), "\r\nContent-Length: 0\r\n") != NULL, steps[i].carries);
    }
    client_close(&c);
}

static void answers_without_a_body_are_whole(void **state)
{
    (void)state;
    server_start(&server, NULL, answer_head, NULL);
    struct client c;
    client_open(&c, NULL, "HEAD", "/");
    static const char *const methods[] = {"HEAD", "DELETE", "HEAD", "PUT", "GET", "HEAD"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        c.call.method = methods[i];
        assert_answered(&c);
        bool head = strcmp(methods[i], "HEAD") == 0;
        assert_int_equal(c.call.status, head ? 200 : 204);
        assert_int_equal(c.call.body_in.len, 0);
        assert_true(bytes_equal(http_header(&c.call, "Content-Length"),
                                head ? bytes_str("1000") : BYTES_EMPTY));
    }
    assert_int_equal(atomic_load(&server.accepted), 1);
    client_close(&c);
}

static void answer_with_frills(struct peer *p)
{
    while (peer_request(p))
        peer_say(p, "HTTP/1.1 103 Early\r\nX-Early: 1\r\n\r\n"
                    "HTTP/1.1 200 OK\r\nx-KIND:  a b \t\r\nX-Kind: second\r\nX-Empty:\r\n"
                    "Transfer-Encoding: chunked\r\nTrailer: X-Late\r\n\r\n"
                    "2\r\nok\r\n0\r\nX-Late: 1\r\n\r\n");
}

static void the_header_is_that_of_the_answer_alone(void **state)
{
    (void)state;
    server_start(&server, NULL, answer_with_frills, NULL);
    struct client c;
    client_open(&c, NULL, "GET", "/");
    for (int i = 0; i < 2; i++) {
        assert_answered(&c);
        assert_int_equal(c.call.status, 200);
        assert_true(bytes_equal(buf_bytes(&c.call.body_in), bytes_str("ok")));
        assert_true(bytes_equal(http_header(&c.call, "X-Kind"), bytes_str("a b")));
        assert_int_equal(http_header(&c.call, "X-Empty").len, 0);
        assert_int_equal(http_header(&c.call, "X-Kin").len, 0);
        assert_int_equal(http_header(&c.call, "X-Early").len, 0);
        assert_int_equal(http_header(&c.call, "X-Late").len, 0);
    }
    client_close(&c);
}

static void answer_large(struct peer *p)
{
    static uint8_t part[1 << 20];
    while (peer_request(p)) {
        peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 62914560\r\n\r\n");
        for (size_t i = 0; i < LARGE / sizeof part; i++)
            peer_send(p, bytes_of(part, sizeof part));
    }
}

static void a_large_answer_arrives_whole_and_its_memory_is_used_again(void **state)
{
    (void)state;
    server_start(&server, NULL, answer_large, NULL);
    struct client c;
    client_open(&c, NULL, "GET", "/");
    assert_answered(&c);
    assert_int_equal(c.call.body_in.len, LARGE);
    assert_int_equal(c.call.body_in.cap, LARGE);
    const uint8_t *memory = c.call.body_in.data;
    assert_answered(&c);
    assert_int_equal(c.call.body_in.len, LARGE);
    assert_ptr_equal(c.call.body_in.data, memory);
    client_close(&c);
}

static void answer_redirect(struct peer *p)
{
    while (peer_request(p))
        peer_say(p, "HTTP/1.1 307 There\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n");
}

static void a_redirect_is_an_answer(void **state)
{
    (void)state;
    server_start(&server, NULL, answer_redirect, NULL);
    struct client c;
    client_open(&c, NULL, "GET", "/");
    assert_answered(&c);
    assert_int_equal(c.call.status, 307);
    assert_int_equal(atomic_load(&server.requests), 1);
    client_close(&c);
}

// The first connection answers once and ends when the second request has come.
static void answer_once_then_hang_up(struct peer *p)
{
    if (p->number > 0) {
        serve_ok(p);
        return;
    }
    if (!peer_request(p)) return;
    peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    (void)peer_request(p);
}

static void a_resend_on_a_new_connection_is_counted(void **state)
{
    (void)state;
    server_start(&server, NULL, answer_once_then_hang_up, NULL);
    struct client c;
    client_open(&c, NULL, "PUT", "/");
    c.call.body = bytes_str("hello");
    assert_answered(&c);
    assert_int_equal(c.call.sends, 1);
    http_do(c.http, &c.call);
    assert_int_equal(atomic_load(&server.requests), c.call.sends + 1);
    if (c.call.end == HTTP_ANSWERED)
        assert_int_equal(c.call.sends, 2);
    else
        assert_int_equal(c.call.end, HTTP_LOST);
    client_close(&c);
}

static void answer_once_then_close(struct peer *p)
{
    if (p->number > 0) {
        serve_ok(p);
        return;
    }
    if (!peer_request(p)) return;
    peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    (void)shutdown(p->fd, SHUT_WR);
    atomic_fetch_add((atomic_int *)p->server->data, 1);
    peer_wait_end(p);
}

static void a_connection_closed_while_idle_is_not_used(void **state)
{
    (void)state;
    atomic_int closed = 0;
    server_start(&server, NULL, answer_once_then_close, &closed);
    struct client c;
    client_open(&c, NULL, "PUT", "/");
    assert_answered(&c);
    assert_true(await(&closed, 1));
    assert_answered(&c);
    assert_int_equal(atomic_load(&server.requests), 2);
    assert_in_range(c.call.sends, 1, 2);
    client_close(&c);
}

static void answer_twice_unasked(struct peer *p)
{
    if (p->number > 0) {
        serve_ok(p);
        return;
    }
    if (!peer_request(p)) return;
    peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    if (!await((atomic_int *)p->server->data, 1)) return;
    peer_say(p, "HTTP/1.1 201 Unasked\r\nContent-Length: 0\r\n\r\n");
    atomic_fetch_add((atomic_int *)p->server->data, 1);
    peer_wait_end(p);
}

static void what_came_unasked_is_not_taken_for_an_answer(void **state)
{
    (void)state;
    atomic_int stage = 0;
    server_start(&server, NULL, answer_twice_unasked, &stage);
    struct client c;
    client_open(&c, NULL, "PUT", "/");
    assert_answered(&c);
    atomic_fetch_add(&stage, 1);
    assert_true(await(&stage, 2));
    assert_answered(&c);
    assert_int_equal(c.call.status, 200);
    assert_int_equal(c.call.sends, 1);
    assert_int_equal(atomic_load(&server.requests), 2);
    client_close(&c);
}

static void what_came_unasked_is_not_taken_for_one_of_many_answers(void **state)
{
    (void)state;
    atomic_int stage = 0;
    server_start(&server, NULL, answer_twice_unasked, &stage);
    struct client c;
    client_open(&c, NULL, "PUT", "/");
    struct http_call *all[] = {&c.call};
    http_do_all(c.http, all, 1, 1);
    assert_int_equal(c.call.status, 200);
    atomic_fetch_add(&stage, 1);
    assert_true(await(&stage, 2));
    http_do_all(c.http, all, 1, 1);
    assert_int_equal(c.call.status, 200);
    assert_int_equal(c.call.sends, 1);
    assert_int_equal(atomic_load(&server.requests), 2);
    client_close(&c);
}

// Each connection holds its answers until so many requests are in.
static void answer_together(struct peer *p)
{
    while (peer_request(p)) {
        (void)await(&p->server->requests, *(int *)p->server->data);
        peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
}

static void many_go_at_once_and_their_connections_are_kept(void **state)
{
    (void)state;
    int needed = MANY;
    server_start(&server, NULL, answer_together, &needed);
    struct client c;
    client_open(&c, NULL, "GET", "/");
    struct http_call calls[3 * MANY];
    struct http_call *all[3 * MANY];
    for (int i = 0; i < 3 * MANY; i++) {
        http_call_init(&calls[i], i % 2 ? "PUT" : "GET", c.url);
        calls[i].timeout_ms = PATIENCE_MS;
        all[i] = &calls[i];
    }
    for (int round = 0; round < 3; round++) {
        http_do_all(c.http, all, 3 * MANY, MANY);
        for (int i = 0; i < 3 * MANY; i++) {
            assert_string_equal(calls[i].why, "");
            assert_int_equal(calls[i].end, HTTP_ANSWERED);
            assert_int_equal(calls[i].sends, 1);
        }
    }
    assert_int_equal(atomic_load(&server.requests), 9 * MANY);
    assert_int_equal(atomic_load(&server.accepted), MANY);
    for (int i = 0; i < 3 * MANY; i++)
        http_call_done(&calls[i]);
    client_close(&c);
}

static void each_of_many_ends_in_its_own_way(void **state)
{
    (void)state;
    server_start(&server, NULL, serve_ok, NULL);
    struct client c;
    client_open(&c, NULL, "GET", "/");
    struct http_call good;
    struct http_call dead;
    struct http_call wrong;
    http_call_init(&good, "GET", c.url);
    http_call_init(&dead, "GET", "http://127.0.0.1:1/");
    http_call_init(&wrong, "GET", "nonsense://");
    struct http_call *all[] = {&dead, &good, &wrong};
    http_do_all(c.http, all, 3, 2);
    assert_int_equal(good.end, HTTP_ANSWERED);
    assert_int_equal(dead.end, HTTP_NOT_SENT);
    assert_string_equal(dead.why, "cannot connect to 127.0.0.1:1: connection refused");
    assert_int_equal(wrong.end, HTTP_NOT_SENT);
    http_do_all(c.http, all, 0, 2);
    http_call_done(&good);
    http_call_done(&dead);
    http_call_done(&wrong);
    client_close(&c);
}

struct crowd {
    struct client *client;
    atomic_int answered;
};

static void *ask_often(void *arg)
{
    struct crowd *crowd = arg;
    struct http_call calls[4];
    struct http_call *all[4];
    for (int i = 0; i < 4; i++) {
        http_call_init(&calls[i], "GET", crowd->client->url);
        calls[i].timeout_ms = PATIENCE_MS;
        all[i] = &calls[i];
    }
    for (int round = 0; round < 10; round++) {
        http_do(crowd->client->http, all[0]);
        if (calls[0].end == HTTP_ANSWERED) atomic_fetch_add(&crowd->answered, 1);
        http_do_all(crowd->client->http, all, 4, 4);
        for (int i = 0; i < 4; i++)
            if (calls[i].end == HTTP_ANSWERED) atomic_fetch_add(&crowd->answered, 1);
    }
    for (int i = 0; i < 4; i++)
        http_call_done(&calls[i]);
    return NULL;
}

struct gauge {
    atomic_int inside;
    atomic_int most;
};

static void answer_and_count(struct peer *p)
{
    struct gauge *g = p->server->data;
    while (peer_request(p)) {
        int now = atomic_fetch_add(&g->inside, 1) + 1;
        int most = atomic_load(&g->most);
        while (now > most && !atomic_compare_exchange_weak(&g->most, &most, now))
            continue;
        (void)usleep(100); // so that those who could overlap do
        atomic_fetch_sub(&g->inside, 1);
        peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
}

static void no_more_are_under_way_than_allowed(void **state)
{
    (void)state;
    struct gauge gauge = {0};
    server_start(&server, NULL, answer_and_count, &gauge);
    struct client c;
    client_open(&c, &(struct http_config){.connections_max = 3}, "GET", "/");
    struct crowd crowd = {.client = &c};
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &crowd), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&crowd.answered), 8 * 10 * 5);
    assert_in_range(atomic_load(&gauge.most), 2, 3);
    client_close(&c);
}

static void *ask_once(void *arg)
{
    struct client *c = arg;
    http_do(c->http, &c->call);
    return NULL;
}

static void who_gets_no_turn_in_time_was_not_sent(void **state)
{
    (void)state;
    int needed = 2;
    server_start(&server, NULL, answer_together, &needed);
    struct client c;
    client_open(&c, &(struct http_config){.connections_max = 1}, "GET", "/");
    pthread_t holder;
    assert_int_equal(pthread_create(&holder, NULL, ask_once, &c), 0);
    assert_true(await(&server.requests, 1));
    struct http_call late;
    http_call_init(&late, "GET", c.url);
    late.timeout_ms = SHORT_MS;
    http_do(c.http, &late);
    assert_int_equal(late.end, HTTP_NOT_SENT);
    assert_int_equal(late.sends, 0);
    assert_ptr_equal(strstr(late.why, "no free connection to 127.0.0.1:"), late.why);
    struct http_call *all[] = {&late, &late, &late};
    int64_t began = clock_boot_ms();
    http_do_all(c.http, all, 3, 3);
    assert_in_range(clock_boot_ms() - began, SHORT_MS, PATIENCE_MS / 2);
    assert_int_equal(late.end, HTTP_NOT_SENT);
    atomic_fetch_add(&server.requests, 1); // lets the holder go
    assert_int_equal(pthread_join(holder, NULL), 0);
    assert_int_equal(c.call.end, HTTP_ANSWERED);
    http_do(c.http, &late);
    assert_int_equal(late.end, HTTP_ANSWERED);
    http_call_done(&late);
    client_close(&c);
}

static void a_unix_socket_will_do(void **state)
{
    (void)state;
    struct scratch scratch;
    assert_true(scratch_make(&scratch, NULL));
    char path[SCRATCH_PATH_MAX + 8];
    (void)snprintf(path, sizeof path, "%s/socket", scratch.path);
    server_start(&server, path, serve_ok, NULL);
    struct client c;
    client_open(&c, &(struct http_config){.unix_socket = path}, "GET", "/");
    assert_answered(&c);
    assert_answered(&c);
    assert_int_equal(atomic_load(&server.accepted), 1);
    client_close(&c);
    scratch_remove(&scratch);
}

static void the_proxy_of_the_environment_is_used_unless_told_otherwise(void **state)
{
    (void)state;
    server_start(&server, NULL, serve_ok, NULL);
    assert_int_equal(setenv("http_proxy", server.url, 1), 0);
    struct client c;
    client_open(&c, NULL, "GET", "/");
    c.call.url = "http://nobody.invalid/x?y";
    http_do(c.http, &c.call);
    struct http *direct = http_new(&(struct http_config){.direct = true});
    assert_int_equal(c.call.end, HTTP_ANSWERED);
    assert_ptr_equal(strstr(seen(), "GET http://nobody.invalid/x?y HTTP/1.1\r\n"), seen());
    http_do(direct, &c.call);
    assert_int_equal(c.call.end, HTTP_NOT_SENT);
    assert_int_equal(setenv("no_proxy", "nobody.invalid", 1), 0);
    http_do(c.http, &c.call);
    assert_int_equal(c.call.end, HTTP_NOT_SENT);
    assert_int_equal(unsetenv("no_proxy"), 0);
    assert_int_equal(unsetenv("http_proxy"), 0);
    http_free(direct);
    client_close(&c);
}

static void refuse_tunnel(struct peer *p)
{
    while (peer_request(p))
        peer_say(p, "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno");
}

static void a_proxy_that_does_not_let_through_means_not_sent(void **state)
{
    (void)state;
    server_start(&server, NULL, refuse_tunnel, NULL);
    assert_int_equal(setenv("https_proxy", server.url, 1), 0);
    assert_int_equal(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    struct client c;
    client_open(&c, NULL, "PUT", "/");
    c.call.url = "https://nobody.invalid/";
    http_do(c.http, &c.call);
    assert_int_equal(c.call.end, HTTP_NOT_SENT);
    assert_int_equal(c.call.status, 0);
    assert_ptr_equal(strstr(seen(), "CONNECT nobody.invalid:443 HTTP/1.1\r\n"), seen());
    c.call.url = "http://nobody.invalid/";
    http_do(c.http, &c.call);
    assert_int_equal(c.call.end, HTTP_NOT_SENT);
    assert_string_equal(c.call.why,
                        "cannot connect to 127.0.0.1:1 for nobody.invalid:80: connection refused");
    assert_int_equal(unsetenv("https_proxy"), 0);
    assert_int_equal(unsetenv("http_proxy"), 0);
    client_close(&c);
}

int main(void)
{
    static const char *const proxies[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                                          "ALL_PROXY",  "no_proxy",    "NO_PROXY"};
    for (size_t i = 0; i < sizeof proxies / sizeof *proxies; i++)
        (void)unsetenv(proxies[i]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_connection_carries_many_exchanges),
        cmocka_unit_test(a_request_is_sent_as_it_was_given),
        cmocka_unit_test(methods_do_not_leave_traces),
        cmocka_unit_test(answers_without_a_body_are_whole),
        cmocka_unit_test(the_header_is_that_of_the_answer_alone),
        cmocka_unit_test(a_large_answer_arrives_whole_and_its_memory_is_used_again),
        cmocka_unit_test(a_redirect_is_an_answer),
        cmocka_unit_test(a_resend_on_a_new_connection_is_counted),
        cmocka_unit_test(a_connection_closed_while_idle_is_not_used),
        cmocka_unit_test(what_came_unasked_is_not_taken_for_an_answer),
        cmocka_unit_test(what_came_unasked_is_not_taken_for_one_of_many_answers),
        cmocka_unit_test(many_go_at_once_and_their_connections_are_kept),
        cmocka_unit_test(each_of_many_ends_in_its_own_way),
        cmocka_unit_test(no_more_are_under_way_than_allowed),
        cmocka_unit_test(who_gets_no_turn_in_time_was_not_sent),
        cmocka_unit_test(a_unix_socket_will_do),
        cmocka_unit_test(the_proxy_of_the_environment_is_used_unless_told_otherwise),
        cmocka_unit_test(a_proxy_that_does_not_let_through_means_not_sent),
    };
    return cmocka_run_group_tests_name("net ways", tests, NULL, NULL);
}
