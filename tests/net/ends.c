// SPDX-License-Identifier: Apache-2.0
// How an exchange ends, when the server or the network does what it should not: a request that
// certainly was not sent, one that may have been, an answer that is not whole.
#include "../unit/unit.h"
#include "net/http.h"
#include "server.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PATIENCE_MS 20000 // nothing takes so long unless it hangs
#define SHORT_MS    150   // what is meant to run out

static struct server server;

struct client {
    struct http *http;
    struct http_call call;
    char url[256];
};

static void client_open(struct client *c, const struct http_config *config, const char *method,
                        const char *base, const char *path)
{
    (void)snprintf(c->url, sizeof c->url, "%s%s", base, path);
    c->http = http_new(config);
    http_call_init(&c->call, method, c->url);
    c->call.timeout_ms = PATIENCE_MS;
}

static void client_close(struct client *c)
{
    http_call_done(&c->call);
    http_free(c->http);
}

// One GET to a server with this script. The client is left open for the test to look at.
static struct http_call *exchange(struct client *c, void (*serve)(struct peer *p))
{
    server_start(&server, NULL, serve, NULL);
    client_open(c, NULL, "GET", server.url, "/secret-path");
    http_do(c->http, &c->call);
    server_stop(&server);
    return &c->call;
}

// before, "127.0.0.1:port", after
static void assert_says(const struct http_call *c, const char *before, const char *after)
{
    char expected[2 * HTTP_WHY_MAX];
    (void)snprintf(expected, sizeof expected, "%s127.0.0.1:%d%s", before, server.port, after);
    assert_string_equal(c->why, expected);
}

static void a_refused_connection_is_not_sent(void **state)
{
    (void)state;
    server_claim(&server);
    struct client c;
    client_open(&c, NULL, "PUT", server.url, "/x");
    http_do(c.http, &c.call);
    assert_int_equal(c.call.end, HTTP_NOT_SENT);
    assert_int_equal(c.call.sends, 0);
    assert_says(&c.call, "cannot connect to ", ": connection refused");
    client_close(&c);
    server_stop(&server);
}

static void an_unknown_name_is_not_sent(void **state)
{
    (void)state;
    struct client c;
    client_open(&c, NULL, "GET", "http://user:word@unknown.invalid", "/x");
    http_do(c.http, &c.call);
    assert_int_equal(c.call.end, HTTP_NOT_SENT);
    assert_string_equal(c.call.why, "cannot connect to unknown.invalid:80: the name is not known");
    client_close(&c);
}

// A listener whose queue is full drops what knocks: the connection neither comes nor is refused.
static void a_connection_that_never_comes_is_not_sent(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listening, (struct sockaddr *)&at, len), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(listen(listening, 0), 0);
    int knocking[4];
    for (int i = 0; i < 4; i++) {
        knocking[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(knocking[i], (struct sockaddr *)&at, len);
    }
    char base[SERVER_URL_MAX];
    (void)snprintf(base, sizeof base, "http://127.0.0.1:%d", ntohs(at.sin_port));
    struct client c;
    client_open(&c, &(struct http_config){.connect_ms = SHORT_MS}, "GET", base, "/");
    http_do(c.http, &c.call);
    assert_int_equal(c.call.end, HTTP_NOT_SENT);
    assert_int_equal(c.call.sends, 0);
    assert_non_null(strstr(c.call.why, "no connection within"));
    assert_true(c.call.received_ms - c.call.sent_ms < PATIENCE_MS / 2);
    client_close(&c);
    for (int i = 0; i < 4; i++)
        (void)close(knocking[i]);
    (void)close(listening);
}

static void what_is_no_url_is_not_sent(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "http://", "http://h:99999/", "ftp://h/",
                                        "file:///etc"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct client c;
        client_open(&c, NULL, "GET", wrong[i], "");
        http_do(c.http, &c.call);
        assert_int_equal(c.call.end, HTTP_NOT_SENT);
        assert_true(strlen(c.call.why) > 0);
        client_close(&c);
    }
}

static void a_header_with_a_line_break_is_not_sent(void **state)
{
    (void)state;
    server_start(&server, NULL, serve_ok, NULL);
    struct client c;
    client_open(&c, NULL, "GET", server.url, "/");
    const char *headers[] = {"X-Good: 1", "X-Bad: 1\r\nX-Smuggled: 2"};
    c.call.headers = headers;
    c.call.headers_len = 2;
    http_do(c.http, &c.call);
    assert_int_equal(c.call.end, HTTP_NOT_SENT);
    struct http_call *both[] = {&c.call};
    http_do_all(c.http, both, 1, 1);
    assert_int_equal(c.call.end, HTTP_NOT_SENT);
    c.call.headers_len = 1;
    http_do(c.http, &c.call);
    assert_int_equal(c.call.end, HTTP_ANSWERED);
    client_close(&c);
    server_stop(&server);
}

static void hang_up(struct peer *p)
{
    (void)p;
}

static void a_connection_closed_at_once_is_lost(void **state)
{
    (void)state;
    struct client c;
    assert_int_equal(exchange(&c, hang_up)->end, HTTP_LOST);
    assert_int_equal(c.call.sends, 1);
    client_close(&c);
}

static void hang_up_after_request(struct peer *p)
{
    (void)peer_request(p);
}

static void a_connection_closed_after_the_request_is_lost(void **state)
{
    (void)state;
    struct client c;
    assert_int_equal(exchange(&c, hang_up_after_request)->end, HTTP_LOST);
    assert_int_equal(c.call.sends, 1);
    assert_int_equal(c.call.status, 0);
    assert_int_equal(atomic_load(&server.requests), 1);
    assert_says(&c.call, "", " closed the connection without an answer");
    client_close(&c);
}

static void reset_after_request(struct peer *p)
{
    (void)peer_request(p);
    peer_reset(p);
}

static void a_connection_reset_after_the_request_is_lost(void **state)
{
    (void)state;
    struct client c;
    assert_int_equal(exchange(&c, reset_after_request)->end, HTTP_LOST);
    assert_int_equal(c.call.sends, 1);
    assert_says(&c.call, "the connection to ", " broke: Recv failure: Connection reset by peer");
    client_close(&c);
}

// Every way an answer can be less than whole. Each is sent, then the connection is closed.
static const char *const cut_answers[] = {
    "H",
    "HTTP/1.1 200",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 200 OK\r\nContent-Le",
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n",
    "no HTTP at all\r\n\r\n",
};

static void answer_cut(struct peer *p)
{
    if (peer_request(p)) peer_say(p, *(const char *const *)p->server->data);
}

static void an_answer_that_is_cut_anywhere_is_lost(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cut_answers / sizeof *cut_answers; i++) {
        server_start(&server, NULL, answer_cut, (void *)(uintptr_t)&cut_answers[i]);
        struct client c;
        client_open(&c, NULL, "PUT", server.url, "/x");
        http_do(c.http, &c.call);
        if (c.call.end != HTTP_LOST) print_message("# answer %zu: %s\n", i, cut_answers[i]);
        assert_int_equal(c.call.end, HTTP_LOST);
        assert_int_equal(c.call.status, 0);
        assert_int_equal(c.call.sends, 1);
        assert_true(strlen(c.call.why) > 0);
        assert_null(strstr(c.call.why, "/x"));
        client_close(&c);
        server_stop(&server);
    }
}

static void never_answer(struct peer *p)
{
    peer_wait_end(p);
}

static bool give_up(void *asked)
{
    ++*(int *)asked;
    return true;
}

static void a_hopeless_request_ends_before_its_time(void **state)
{
    (void)state;
    int asked = 0;
    server_start(&server, NULL, never_answer, NULL);
    struct client c;
    client_open(&c, NULL, "PUT", server.url, "/");
    c.call.timeout_ms = PATIENCE_MS;
    c.call.hopeless = give_up;
    c.call.hopeless_ctx = &asked;
    http_do(c.http, &c.call);
    assert_int_equal(asked, 1);
    assert_int_equal(c.call.end, HTTP_LOST);
    assert_non_null(strstr(c.call.why, " did not answer within "));
    client_close(&c);
    server_stop(&server);
}

static void begin_and_stop(struct peer *p)
{
    if (!peer_request(p)) return;
    peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok");
    peer_wait_end(p);
}

// What is sent is not answered in time. To a busy machine that time may be too short to send it.
static void http_do_in_vain(struct client *c)
{
    c->call.timeout_ms = SHORT_MS / 2;
    do {
        c->call.timeout_ms *= 2;
        http_do(c->http, &c->call);
    } while (c->call.end == HTTP_NOT_SENT && c->call.timeout_ms < PATIENCE_MS / 4);
}

static void assert_times_out(void (*serve)(struct peer *p), struct bytes body)
{
    server_start(&server, NULL, serve, NULL);
    struct client c;
    client_open(&c, NULL, "PUT", server.url, "/");
    c.call.body = body;
    http_do_in_vain(&c);
    assert_int_equal(c.call.end, HTTP_LOST);
    assert_int_equal(c.call.sends, 1);
    assert_in_range(c.call.received_ms - c.call.sent_ms, c.call.timeout_ms / 2, PATIENCE_MS / 2);
    assert_non_null(strstr(c.call.why, " did not answer within "));
    client_close(&c);
    server_stop(&server);
}

static void hold_unread(struct peer *p)
{
    while (atomic_load((atomic_bool *)p->server->data) == false)
        (void)usleep(1000);
}

static void a_late_answer_is_lost(void **state)
{
    (void)state;
    assert_times_out(never_answer, BYTES_EMPTY);
    assert_times_out(begin_and_stop, BYTES_EMPTY);
}

// The body does not fit in the sockets' buffers, and the server reads none of it.
static void a_request_that_is_not_read_is_lost(void **state)
{
    (void)state;
    atomic_bool over = false;
    server_start(&server, NULL, hold_unread, &over);
    size_t len = (size_t)32 << 20;
    uint8_t *body = test_calloc(1, len);
    struct client c;
    client_open(&c, NULL, "PUT", server.url, "/");
    c.call.body = bytes_of(body, len);
    http_do_in_vain(&c);
    atomic_store(&over, true);
    assert_int_equal(c.call.end, HTTP_LOST);
    assert_int_equal(c.call.sends, 1);
    client_close(&c);
    server_stop(&server);
    test_free(body);
}

static void answer_ten(struct peer *p)
{
    while (peer_request(p))
        peer_say(p, "HTTP/1.1 207 Many\r\nX-Kind: t\r\nContent-Length: 10\r\n\r\n0123456789");
}

static void an_answer_over_the_limit_is_too_long_and_keeps_its_header(void **state)
{
    (void)state;
    server_start(&server, NULL, answer_ten, NULL);
    struct client c;
    client_open(&c, NULL, "GET", server.url, "/");
    c.call.body_max = 9;
    http_do(c.http, &c.call);
    assert_int_equal(c.call.end, HTTP_TOO_LONG);
    assert_int_equal(c.call.status, 207);
    assert_true(bytes_equal(http_header(&c.call, "x-kind"), bytes_str("t")));
    assert_string_equal(c.call.why, "the answer is longer than 9 bytes");
    c.call.body_max = 10;
    http_do(c.http, &c.call);
    assert_int_equal(c.call.end, HTTP_ANSWERED);
    assert_int_equal(c.call.body_in.len, 10);
    assert_string_equal(c.call.why, "");
    client_close(&c);
    server_stop(&server);
}

static void answer_endless_header(struct peer *p)
{
    if (!peer_request(p)) return;
    peer_say(p, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 70; i++) {
        char line[1024];
        (void)snprintf(line, sizeof line, "X-%d: %01000d\r\n", i, 0);
        peer_say(p, line);
    }
    peer_say(p, "Content-Length: 0\r\n\r\n");
}

static void a_header_over_the_limit_is_lost(void **state)
{
    (void)state;
    struct client c;
    assert_int_equal(exchange(&c, answer_endless_header)->end, HTTP_LOST);
    client_close(&c);
}

static void answer_plainly(struct peer *p)
{
    uint8_t hello[512];
    if (recv(p->fd, hello, sizeof hello, MSG_PEEK) <= 0) return;
    peer_say(p, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    peer_wait_end(p);
}

static void hang_up_after_hello(struct peer *p)
{
    uint8_t hello[512];
    (void)recv(p->fd, hello, sizeof hello, MSG_PEEK);
}

static void reset_after_hello(struct peer *p)
{
    hang_up_after_hello(p);
    peer_reset(p);
}

static struct http_call *secure_exchange(struct client *c, const struct http_config *config,
                                         void (*serve)(struct peer *p))
{
    char base[SERVER_URL_MAX];
    server_start(&server, NULL, serve, NULL);
    (void)snprintf(base, sizeof base, "https://127.0.0.1:%d", server.port);
    client_open(c, config, "GET", base, "/secret-path");
    http_do(c->http, &c->call);
    server_stop(&server);
    assert_int_equal(c->call.end, HTTP_NOT_SENT);
    assert_false(c->call.untrusted); // no certificate was seen
    return &c->call;
}

// cause: between the address and "use http://..."
static void assert_says_use_http(const struct http_call *c, const char *cause)
{
    char after[HTTP_WHY_MAX];
    (void)snprintf(after, sizeof after, " %.100s use http://127.0.0.1:%d", cause, server.port);
    assert_says(c, "", after);
}

static void a_plain_answer_to_a_tls_handshake_names_the_cause(void **state)
{
    (void)state;
    struct client c;
    assert_says_use_http(secure_exchange(&c, NULL, answer_plainly), "does not speak TLS;");
    client_close(&c);
}

static void a_connection_closed_in_a_tls_handshake_names_a_likely_cause(void **state)
{
    (void)state;
    void (*const scripts[])(struct peer *) = {hang_up, hang_up_after_hello, reset_after_hello};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        struct client c;
        assert_says_use_http(secure_exchange(&c, NULL, scripts[i]),
                             "closed the connection during the TLS handshake; "
                             "if it does not speak TLS,");
        client_close(&c);
    }
}

// If the client runs too late, it has not even noticed the connection by the deadline. Then it gets
// a later deadline.
static void a_tls_handshake_without_an_answer_names_a_likely_cause(void **state)
{
    (void)state;
    static const char expected[] = "did not finish the TLS handshake within";
    bool said = false;
    for (int64_t ms = SHORT_MS; !said && ms < PATIENCE_MS; ms *= 2) {
        struct client c;
        const struct http_call *call =
            secure_exchange(&c, &(struct http_config){.connect_ms = ms}, peer_wait_end);
        said = strstr(call->why, expected) != NULL;
        if (said)
            assert_non_null(
                strstr(call->why, "ms; if it does not speak TLS, use http://127.0.0.1:"));
        client_close(&c);
    }
    assert_true(said);
}

static void no_sentence_tells_what_was_asked(void **state)
{
    (void)state;
    void (*const scripts[])(struct peer *) = {hang_up, hang_up_after_request, reset_after_request,
                                              answer_endless_header};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        struct client c;
        assert_null(strstr(exchange(&c, scripts[i])->why, "secret"));
        client_close(&c);
    }
}

int main(void)
{
    (void)unsetenv("http_proxy");
    (void)unsetenv("all_proxy");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_connection_is_not_sent),
        cmocka_unit_test(an_unknown_name_is_not_sent),
        cmocka_unit_test(a_connection_that_never_comes_is_not_sent),
        cmocka_unit_test(what_is_no_url_is_not_sent),
        cmocka_unit_test(a_header_with_a_line_break_is_not_sent),
        cmocka_unit_test(a_connection_closed_at_once_is_lost),
        cmocka_unit_test(a_connection_closed_after_the_request_is_lost),
        cmocka_unit_test(a_connection_reset_after_the_request_is_lost),
        cmocka_unit_test(an_answer_that_is_cut_anywhere_is_lost),
        cmocka_unit_test(a_late_answer_is_lost),
        cmocka_unit_test(a_hopeless_request_ends_before_its_time),
        cmocka_unit_test(a_request_that_is_not_read_is_lost),
        cmocka_unit_test(an_answer_over_the_limit_is_too_long_and_keeps_its_header),
        cmocka_unit_test(a_header_over_the_limit_is_lost),
        cmocka_unit_test(a_plain_answer_to_a_tls_handshake_names_the_cause),
        cmocka_unit_test(a_connection_closed_in_a_tls_handshake_names_a_likely_cause),
        cmocka_unit_test(a_tls_handshake_without_an_answer_names_a_likely_cause),
        cmocka_unit_test(no_sentence_tells_what_was_asked),
    };
    return cmocka_run_group_tests_name("net ends", tests, NULL, NULL);
}
