// SPDX-License-Identifier: Apache-2.0
// How exchanges travel: kept connections, what exactly is sent and received, proxies.
#define _GNU_SOURCE // strcasestr
#include "client.h"

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
    c.call.url = "http://unknown.invalid/x?y";
    http_do(c.http, &c.call);
    struct http *direct = http_new(&(struct http_config){.direct = true});
    assert_int_equal(c.call.end, HTTP_ANSWERED);
    assert_ptr_equal(strstr(seen(), "GET http://unknown.invalid/x?y HTTP/1.1\r\n"), seen());
    http_do(direct, &c.call);
    assert_int_equal(c.call.end, HTTP_NOT_SENT);
    assert_int_equal(setenv("no_proxy", "unknown.invalid", 1), 0);
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
    c.call.url = "https://unknown.invalid/";
    http_do(c.http, &c.call);
    assert_int_equal(c.call.end, HTTP_NOT_SENT);
    assert_int_equal(c.call.status, 0);
    assert_ptr_equal(strstr(seen(), "CONNECT unknown.invalid:443 HTTP/1.1\r\n"), seen());
    c.call.url = "http://unknown.invalid/";
    http_do(c.http, &c.call);
    assert_int_equal(c.call.end, HTTP_NOT_SENT);
    assert_string_equal(c.call.why,
                        "cannot connect to 127.0.0.1:1 for unknown.invalid:80: connection refused");
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
        cmocka_unit_test(a_unix_socket_will_do),
        cmocka_unit_test(the_proxy_of_the_environment_is_used_unless_told_otherwise),
        cmocka_unit_test(a_proxy_that_does_not_let_through_means_not_sent),
    };
    return cmocka_run_group_tests_name("net ways", tests, NULL, NULL);
}
