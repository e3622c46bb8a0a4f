// SPDX-License-Identifier: Apache-2.0
// The plain client, and streams: answers of every shape are read whole or called lost, connections
// are kept while they are good, and what was never sent is told apart.
#include "net/http_plain.h"
#include "../unit/unit.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS 20000
#define SHORT_MS    150

static struct server server;

struct client {
    struct plain_http *plain;
    struct http_call call;
    char url[256];
};

static void client_open(struct client *c, const char *method)
{
    (void)snprintf(c->url, sizeof c->url, "%s/path?x=1", server.url);
    c->plain = http_plain_new(server.url);
    assert_non_null(c->plain);
    http_call_init(&c->call, method, c->url);
    c->call.timeout_ms = PATIENCE_MS;
}

static void client_close(struct client *c)
{
    http_call_done(&c->call);
    http_plain_free(c->plain);
}

static const char *answer; // of serve_answer, and of the one after it

static void serve_answer(struct peer *p)
{
    if (peer_request(p)) peer_say(p, answer);
}

// One GET that is answered by this text, after which the server closes.
static void ask(struct client *c, const char *text)
{
    answer = text;
    server_start(&server, NULL, serve_answer, NULL);
    client_open(c, "GET");
    http_plain_do(c->plain, &c->call);
    server_stop(&server);
}

static void answers_of_every_shape_are_read_whole(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
        const char *body;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"},
        {"HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, ""},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\ncontent-length:2\r\n\r\nno", 404, "no"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n"
         "Trailer: x\r\n\r\n",
         200, "hello"},
        {"HTTP/1.0 200 OK\r\n\r\nto the end", 200, "to the end"},
        {"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, "ok"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client c;
        ask(&c, rows[i].text);
        assert_int_equal(c.call.end, HTTP_ANSWERED);
        assert_int_equal(c.call.status, rows[i].status);
        assert_int_equal(c.call.body_in.len, strlen(rows[i].body));
        assert_memory_equal(c.call.body_in.data ? c.call.body_in.data : (const void *)"",
                            rows[i].body, strlen(rows[i].body));
        assert_int_equal(c.call.sends, 1);
        client_close(&c);
    }
}

static void answers_that_are_not_whole_are_lost(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "nonsense\r\n\r\n",
        "HTTP/1.1\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client c;
        ask(&c, rows[i]);
        assert_int_equal(c.call.end, HTTP_LOST);
        assert_int_equal(c.call.status, 0);
        assert_non_null(strstr(c.call.why, "closed the connection"));
        client_close(&c);
    }
}

static void an_answer_that_is_too_long_is_told(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nx",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client c;
        answer = rows[i];
        server_start(&server, NULL, serve_answer, NULL);
        client_open(&c, "GET");
        c.call.body_max = 100;
        http_plain_do(c.plain, &c.call);
        server_stop(&server);
        assert_int_equal(c.call.end, HTTP_TOO_LONG);
        assert_int_equal(c.call.status, 200);
        client_close(&c);
    }
}

static void a_connection_is_kept_while_it_is_good(void **state)
{
    (void)state;
    struct client c;
    server_start(&server, NULL, serve_ok, NULL);
    client_open(&c, "POST");
    c.call.body = bytes_str("body");
    for (int i = 0; i < 5; i++) {
        http_plain_do(c.plain, &c.call);
        assert_int_equal(c.call.end, HTTP_ANSWERED);
    }
    assert_int_equal(atomic_load(&server.accepted), 1);
    client_close(&c);
    server_stop(&server);
}

static void serve_with_more(struct peer *p)
{
    if (peer_request(p)) peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 ");
    peer_wait_end(p);
}

static void an_answer_with_something_after_it_ends_the_connection(void **state)
{
    (void)state;
    struct client c;
    server_start(&server, NULL, serve_with_more, NULL);
    client_open(&c, "GET");
    for (int i = 0; i < 3; i++) {
        http_plain_do(c.plain, &c.call);
        assert_int_equal(c.call.end, HTTP_ANSWERED);
        assert_int_equal(c.call.status, 200);
    }
    assert_int_equal(atomic_load(&server.accepted), 3);
    client_close(&c);
    server_stop(&server);
}

static void serve_nothing(struct peer *p)
{
    if (peer_request(p)) peer_wait_end(p);
}

static void a_silent_server_is_lost_in_time(void **state)
{
    (void)state;
    struct client c;
    server_start(&server, NULL, serve_nothing, NULL);
    client_open(&c, "GET");
    c.call.timeout_ms = SHORT_MS / 2;
    do { // a busy machine may need longer to send it
        c.call.timeout_ms *= 2;
        http_plain_do(c.plain, &c.call);
    } while (c.call.end == HTTP_NOT_SENT && c.call.timeout_ms < PATIENCE_MS / 4);
    assert_int_equal(c.call.end, HTTP_LOST);
    assert_non_null(strstr(c.call.why, "did not answer within"));
    client_close(&c);
    server_stop(&server);
}

static void what_cannot_be_connected_is_not_sent(void **state)
{
    (void)state;
    struct client c;
    server_claim(&server);
    client_open(&c, "GET");
    http_plain_do(c.plain, &c.call);
    assert_int_equal(c.call.end, HTTP_NOT_SENT);
    assert_int_equal(c.call.sends, 0);
    assert_non_null(strstr(c.call.why, "connection refused"));
    const char *odd = "Name: value\r\nOther: x";
    c.call.headers = &odd;
    c.call.headers_len = 1;
    http_plain_do(c.plain, &c.call);
    assert_int_equal(c.call.end, HTTP_NOT_SENT);
    assert_non_null(strstr(c.call.why, "line break"));
    client_close(&c);
    server_stop(&server);
}

static void what_is_not_plain_is_left_to_others(void **state)
{
    (void)state;
    assert_null(http_plain_new("https://localhost"));
    assert_null(http_plain_new("http://user@localhost"));
    assert_null(http_plain_new("http://localhost:"));
    assert_int_equal(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    assert_null(http_plain_new("http://localhost"));
    assert_int_equal(unsetenv("http_proxy"), 0);
    http_plain_free(http_plain_new("http://[::1]:80/path"));
}

static void serve_pieces(struct peer *p)
{
    if (!peer_request(p)) return;
    peer_say(p, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    if (!peer_request(p)) peer_say(p, ""); // until the client closes
}

static void a_stream_hands_on_what_has_come(void **state)
{
    (void)state;
    struct http_call call;
    struct http *http = http_new(NULL);
    server_start(&server, NULL, serve_pieces, NULL);
    http_call_init(&call, "GET", server.url);
    struct http_stream *s = http_stream_open(http, &call);
    for (int i = 0; call.body_in.len < 3 && i < PATIENCE_MS / 100; i++)
        assert_true(http_stream_read(s, 100));
    assert_int_equal(call.status, 200);
    assert_memory_equal(call.body_in.data, "one", 3);
    assert_true(http_stream_read(s, 0)); // nothing new, and it goes on
    http_stream_close(s);
    server_stop(&server); // waits for the script: the connection was closed
    http_call_done(&call);
    http_free(http);
}

static void a_stream_that_ends_says_how(void **state)
{
    (void)state;
    struct http_call call;
    struct http *http = http_new(NULL);
    answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n";
    server_start(&server, NULL, serve_answer, NULL);
    http_call_init(&call, "GET", server.url);
    struct http_stream *s = http_stream_open(http, &call);
    while (http_stream_read(s, 100)) {
    }
    assert_int_equal(call.end, HTTP_LOST);
    assert_int_equal(call.body_in.len, 3);
    http_stream_close(s);
    server_stop(&server);
    server_claim(&server);
    call.url = server.url;
    s = http_stream_open(http, &call); // no server is there
    while (http_stream_read(s, 100)) {
    }
    assert_int_equal(call.end, HTTP_NOT_SENT);
    http_stream_close(s);
    server_stop(&server);
    http_call_done(&call);
    http_free(http);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_of_every_shape_are_read_whole),
        cmocka_unit_test(answers_that_are_not_whole_are_lost),
        cmocka_unit_test(an_answer_that_is_too_long_is_told),
        cmocka_unit_test(a_connection_is_kept_while_it_is_good),
        cmocka_unit_test(an_answer_with_something_after_it_ends_the_connection),
        cmocka_unit_test(a_silent_server_is_lost_in_time),
        cmocka_unit_test(what_cannot_be_connected_is_not_sent),
        cmocka_unit_test(what_is_not_plain_is_left_to_others),
        cmocka_unit_test(a_stream_hands_on_what_has_come),
        cmocka_unit_test(a_stream_that_ends_says_how),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
