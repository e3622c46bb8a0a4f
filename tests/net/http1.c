// SPDX-License-Identifier: Apache-2.0
// The blocking client, and streams: answers of every shape are read whole or called lost,
// connections are kept while they are good, what was never sent is told apart, and a new connection
// passes its challenge.
#include "net/http1.h"
#include "../unit/unit.h"
#include "net/http_answer.h"
#include "os/clock.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS 20000
#define SHORT_MS    150

static struct server server;

struct client {
    struct http1_client *plain;
    struct http_call call;
    char url[256];
};

static void client_open(struct client *c, const char *method)
{
    (void)snprintf(c->url, sizeof c->url, "%s/path?x=1", server.url);
    c->plain = http1_new(server.url, &(struct http1_config){0});
    assert_non_null(c->plain);
    http_call_init(&c->call, method, c->url);
    c->call.timeout_ms = PATIENCE_MS;
}

static void client_close(struct client *c)
{
    http_call_done(&c->call);
    http1_free(c->plain);
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
    http1_do(c->plain, &c->call);
    server_stop(&server);
}

static const struct {
    const char *text;
    int status;
    const char *body;
} shapes[] = {
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

static void answers_of_every_shape_are_read_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct client c;
        ask(&c, shapes[i].text);
        assert_int_equal(c.call.end, HTTP_ANSWERED);
        assert_int_equal(c.call.status, shapes[i].status);
        assert_int_equal(c.call.body_in.len, strlen(shapes[i].body));
        assert_memory_equal(c.call.body_in.data ? c.call.body_in.data : (const void *)"",
                            shapes[i].body, strlen(shapes[i].body));
        assert_int_equal(c.call.sends, 1);
        client_close(&c);
    }
}

// The answer of each shape, in pieces of 1 byte, 2 bytes, up to all.
static void an_answer_is_the_same_in_pieces_of_every_size(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        size_t all = strlen(shapes[i].text);
        for (size_t piece = 1; piece <= all; piece++) {
            struct http_call call;
            struct http_answer reader = {0};
            enum http_took took = HTTP_TOOK_SOME;
            http_call_init(&call, "GET", "");
            for (size_t at = 0; at < all; at += piece) {
                struct bytes in =
                    bytes_of(shapes[i].text + at, all - at < piece ? all - at : piece);
                while (in.len > 0 && took <= HTTP_TOOK_HEAD)
                    took = http_answer_take(&reader, &call, &in);
            }
            assert_in_range(took, HTTP_TOOK_SOME, HTTP_TOOK_WHOLE);
            assert_true(http_answer_end(&reader));
            assert_int_equal(call.status, shapes[i].status);
            assert_true(bytes_equal(buf_bytes(&call.body_in), bytes_str(shapes[i].body)));
            http_call_done(&call);
        }
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
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1234567890abcdef\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nx",
        "nonsense\r\n\r\n",
        "HTTP/1.1\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
    };
    size_t cut_off = 5; // the others are no HTTP
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client c;
        ask(&c, rows[i]);
        assert_int_equal(c.call.end, HTTP_LOST);
        assert_int_equal(c.call.status, 0);
        assert_non_null(
            strstr(c.call.why, i < cut_off ? "closed the connection" : "not valid HTTP"));
        client_close(&c);
    }
}

static void an_answer_that_is_too_long_is_told(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client c;
        answer = rows[i];
        server_start(&server, NULL, serve_answer, NULL);
        client_open(&c, "GET");
        c.call.body_max = 100;
        http1_do(c.plain, &c.call);
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
        http1_do(c.plain, &c.call);
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
        http1_do(c.plain, &c.call);
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
        http1_do(c.plain, &c.call);
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
    http1_do(c.plain, &c.call);
    assert_int_equal(c.call.end, HTTP_NOT_SENT);
    assert_int_equal(c.call.sends, 0);
    assert_non_null(strstr(c.call.why, "connection refused"));
    const char *odd = "Name: value\r\nOther: x";
    c.call.headers = &odd;
    c.call.headers_len = 1;
    http1_do(c.plain, &c.call);
    assert_int_equal(c.call.end, HTTP_NOT_SENT);
    assert_non_null(strstr(c.call.why, "line break"));
    client_close(&c);
    server_stop(&server);
}

static void a_url_that_is_none_of_ours_has_no_client(void **state)
{
    (void)state;
    static const struct http1_config none;
    assert_null(http1_new("https://localhost", &none));
    assert_null(http1_new("http://user@localhost", &none));
    assert_null(http1_new("http://localhost:", &none));
    assert_int_equal(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    assert_true(http1_is_proxied());
    assert_int_equal(unsetenv("http_proxy"), 0);
    assert_false(http1_is_proxied());
    http1_free(http1_new("http://[::1]:80/path", &none));
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

static atomic_int challenges;
static bool stands;
static struct http1_client *peer;

static void challenge_ask(const void *ctx, char nonce[CHALLENGE_NONCE], char path[CHALLENGE_PATH])
{
    (void)ctx;
    (void)snprintf(nonce, CHALLENGE_NONCE, "%d", atomic_fetch_add(&challenges, 1));
    (void)snprintf(path, CHALLENGE_PATH, "/hello?nonce=%s", nonce);
}

static bool challenge_shown(const void *ctx, const char *nonce, const struct http_call *hello,
                            char line[CHALLENGE_LINE])
{
    (void)ctx;
    (void)snprintf(line, CHALLENGE_LINE, "Proof: %s", nonce);
    return stands && hello->status == 200;
}

static const struct peer_challenge challenge = {.ask = challenge_ask, .shown = challenge_shown};

static void begin(void (*serve)(struct peer *p))
{
    atomic_store(&challenges, 0);
    server_start(&server, NULL, serve, NULL);
    peer = http1_new(server.url, &(struct http1_config){.challenge = &challenge, .repeats = true});
    assert_non_null(peer);
}

static void end(void)
{
    http1_free(peer);
    server_stop(&server);
}

// The answer is the head of the request. One in three connections closes after its second request.
static void serve_heads(struct peer *p)
{
    char head[64];
    for (int i = 0; peer_request(p); i++) {
        (void)snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
                       p->head.len);
        peer_say(p, head);
        peer_send(p, buf_bytes(&p->head));
        if (p->number % 3 == 0 && i == 1) return;
    }
}

static void serve_silence(struct peer *p)
{
    if (peer_request(p)) peer_wait_end(p);
}

// The challenge is answered, and half of the next answer.
static void serve_half(struct peer *p)
{
    if (!peer_request(p)) return;
    peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    if (peer_request(p)) peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
}

static enum http_end ask_once(const char *want, int64_t timeout_ms)
{
    CLEANUP(http_call_done) struct http_call call;
    char url[SERVER_URL_MAX + 16];
    (void)snprintf(url, sizeof url, "%s/work", server.url);
    http_call_init(&call, "POST", url);
    call.body = bytes_str("x");
    call.timeout_ms = timeout_ms;
    http1_do(peer, &call);
    if (call.end == HTTP_ANSWERED) {
        buf_put_u8(&call.body_in, 0);
        assert_non_null(strstr((const char *)call.body_in.data, "POST /work HTTP/1.1\r\n"));
        assert_non_null(strstr((const char *)call.body_in.data, want));
    }
    return call.end;
}

static void a_new_connection_has_a_challenge_and_a_proof_of_its_own(void **state)
{
    (void)state;
    stands = true;
    begin(serve_heads);
    assert_int_equal(ask_once("Proof: 0\r\n", PATIENCE_MS), HTTP_ANSWERED); // which then closes
    for (int i = 0; i < 4; i++)
        assert_int_equal(ask_once("Proof: 1\r\n", PATIENCE_MS), HTTP_ANSWERED);
    assert_int_equal(atomic_load(&challenges), 2);
    end();
}

static void a_server_that_fails_the_challenge_gets_no_request(void **state)
{
    (void)state;
    stands = false;
    begin(serve_heads);
    assert_int_equal(ask_once("", PATIENCE_MS), HTTP_NOT_SENT);
    assert_int_equal(server.requests, 1); // the challenge
    end();
}

static void a_server_that_does_not_answer_costs_no_more_than_the_timeout(void **state)
{
    (void)state;
    begin(serve_silence);
    int64_t began = clock_boot_ms();
    assert_int_equal(ask_once("", SHORT_MS), HTTP_NOT_SENT);
    assert_true(clock_boot_ms() - began < PATIENCE_MS / 2);
    end();
}

static void half_an_answer_is_lost(void **state)
{
    (void)state;
    stands = true;
    begin(serve_half);
    assert_int_equal(ask_once("", PATIENCE_MS), HTTP_LOST);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_of_every_shape_are_read_whole),
        cmocka_unit_test(an_answer_is_the_same_in_pieces_of_every_size),
        cmocka_unit_test(answers_that_are_not_whole_are_lost),
        cmocka_unit_test(an_answer_that_is_too_long_is_told),
        cmocka_unit_test(a_connection_is_kept_while_it_is_good),
        cmocka_unit_test(an_answer_with_something_after_it_ends_the_connection),
        cmocka_unit_test(a_silent_server_is_lost_in_time),
        cmocka_unit_test(what_cannot_be_connected_is_not_sent),
        cmocka_unit_test(a_url_that_is_none_of_ours_has_no_client),
        cmocka_unit_test(a_stream_hands_on_what_has_come),
        cmocka_unit_test(a_stream_that_ends_says_how),
        cmocka_unit_test(a_new_connection_has_a_challenge_and_a_proof_of_its_own),
        cmocka_unit_test(a_server_that_fails_the_challenge_gets_no_request),
        cmocka_unit_test(a_server_that_does_not_answer_costs_no_more_than_the_timeout),
        cmocka_unit_test(half_an_answer_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
