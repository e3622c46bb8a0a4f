// SPDX-License-Identifier: Apache-2.0
// The blocking client of a peer: each new connection passes the challenge, and carries the header
// of its own challenge with every request.
#include "net/http_peer.h"

#include "client.h"

static struct http_peer *peer;
static atomic_int challenges;
static bool stands;

static void begin(void (*serve)(struct peer *p))
{
    atomic_store(&challenges, 0);
    server_start(&server, NULL, serve, NULL);
    peer = http_peer_new(server.url, NULL);
    assert_non_null(peer);
}

static void end(void)
{
    http_peer_free(peer);
    server_stop(&server);
}

static void challenge_ask(const void *ctx, char nonce[CHALLENGE_NONCE], char path[CHALLENGE_PATH])
{
    (void)ctx;
    (void)snprintf(nonce, CHALLENGE_NONCE, "%d", atomic_fetch_add(&challenges, 1));
    (void)snprintf(path, CHALLENGE_PATH, "/hello?nonce=%s", nonce);
}

static bool challenge_shown(const void *ctx, const char *nonce, const struct http_call *answer,
                            char line[CHALLENGE_LINE])
{
    (void)ctx;
    (void)snprintf(line, CHALLENGE_LINE, "Proof: %s", nonce);
    return stands && answer->status == 200;
}

static const struct peer_challenge challenge = {.ask = challenge_ask, .shown = challenge_shown};

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
    http_peer_do(peer, &challenge, &call);
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
        cmocka_unit_test(a_new_connection_has_a_challenge_and_a_proof_of_its_own),
        cmocka_unit_test(a_server_that_fails_the_challenge_gets_no_request),
        cmocka_unit_test(a_server_that_does_not_answer_costs_no_more_than_the_timeout),
        cmocka_unit_test(half_an_answer_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
