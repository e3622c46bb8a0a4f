// SPDX-License-Identifier: Apache-2.0
// Asynchronous requests: how they end, what becomes of their connections, and that a peer which
// fails the challenge gets no request.
#include "net/http_async.h"

#include "client.h"

#include <sys/prctl.h>

#define CROWD 100
#define BULKY ((size_t)3 << 20)

struct sim_call {
    struct http_async_call call; // first
    atomic_int done;
    char url[128];
};

static struct http_async *async_http;
static struct http_async_host *place;

static void done(struct http_async_call *c)
{
    atomic_fetch_add(&((struct sim_call *)c)->done, 1);
}

static void begin(void (*serve)(struct peer *p), const struct peer_challenge *g)
{
    server_start(&server, NULL, serve, NULL);
    async_http = http_async_new();
    place = http_async_host_new(async_http, server.url, g);
    assert_non_null(place);
}

static void end(void)
{
    http_async_free(async_http);
    server_stop(&server);
}

static struct sim_call *sim_call_make(const char *path, struct bytes body, int64_t timeout_ms)
{
    struct sim_call *e = calloc(1, sizeof *e);
    assert_non_null(e);
    (void)snprintf(e->url, sizeof e->url, "%s%s", server.url, path);
    http_call_init(&e->call.http, "POST", e->url);
    e->call.http.body = body;
    e->call.http.timeout_ms = timeout_ms;
    e->call.place = place;
    e->call.done = done;
    return e;
}

static struct sim_call *sim_call_new(const char *path, struct bytes body, int64_t timeout_ms)
{
    struct sim_call *e = sim_call_make(path, body, timeout_ms);
    http_async_do(async_http, &e->call);
    return e;
}

static enum http_end sim_call_end(struct sim_call *e)
{
    assert_true(await(&e->done, 1));
    return e->call.http.end;
}

static void sim_call_free(struct sim_call *e)
{
    assert_true(atomic_load(&e->done) <= 1);
    http_call_done(&e->call.http);
    free(e);
}

static enum http_end ask_once(const char *path, int64_t timeout_ms)
{
    struct sim_call *e = sim_call_new(path, bytes_str("x"), timeout_ms);
    enum http_end how = sim_call_end(e);
    sim_call_free(e);
    return how;
}

static void serve_echo(struct peer *p)
{
    char head[128];
    while (peer_request(p)) {
        (void)snprintf(head, sizeof head,
                       "HTTP/1.1 200 OK\r\nSluice-Node: n\r\nContent-Length: %zu\r\n\r\n",
                       p->body.len);
        peer_say(p, head);
        peer_send(p, buf_bytes(&p->body));
    }
}

static void many_at_once_hear_their_own_answers(void **state)
{
    (void)state;
    struct sim_call *all[CROWD];
    char bodies[CROWD][16];
    begin(serve_echo, NULL);
    for (int i = 0; i < CROWD; i++) {
        (void)snprintf(bodies[i], sizeof bodies[i], "number %d", i);
        all[i] = sim_call_new("/echo", bytes_str(bodies[i]), PATIENCE_MS);
    }
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(sim_call_end(all[i]), HTTP_ANSWERED);
        assert_int_equal(all[i]->call.http.status, 200);
        assert_true(bytes_equal(buf_bytes(&all[i]->call.http.body_in), bytes_str(bodies[i])));
        sim_call_free(all[i]);
    }
    end();
}

static void a_large_body_goes_and_comes_whole(void **state)
{
    (void)state;
    uint8_t *large = malloc(BULKY);
    assert_non_null(large);
    for (size_t i = 0; i < BULKY; i++)
        large[i] = (uint8_t)(i * 7 + i / 4096);
    begin(serve_echo, NULL);
    struct sim_call *e = sim_call_new("/echo", bytes_of(large, BULKY), PATIENCE_MS);
    assert_int_equal(sim_call_end(e), HTTP_ANSWERED);
    assert_true(bytes_equal(buf_bytes(&e->call.http.body_in), bytes_of(large, BULKY)));
    sim_call_free(e);
    end();
    free(large);
}

static void a_connection_is_kept_for_the_next(void **state)
{
    (void)state;
    begin(serve_echo, NULL);
    for (int i = 0; i < 20; i++)
        assert_int_equal(ask_once("/echo", PATIENCE_MS), HTTP_ANSWERED);
    assert_int_equal(server.accepted, 1);
    end();
}

static void serve_one_each(struct peer *p)
{
    if (!peer_request(p)) return;
    peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    (void)peer_request(p); // and closes, without a word
}

static void a_kept_connection_that_closes_loses_no_answer(void **state)
{
    (void)state;
    begin(serve_one_each, NULL);
    assert_int_equal(ask_once("/", PATIENCE_MS), HTTP_ANSWERED);
    struct sim_call *e = sim_call_new("/", bytes_str("x"), PATIENCE_MS);
    assert_int_equal(sim_call_end(e), HTTP_ANSWERED);
    assert_int_equal(e->call.http.sends, 2); // so it may have been done twice, and the caller knows
    sim_call_free(e);
    end();
}

static void serve_by_path(struct peer *p)
{
    while (peer_request(p)) {
        const char *head = (const char *)p->head.data;
        if (strstr(head, "/close")) return;
        if (strstr(head, "/half")) {
            peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
            return;
        }
        if (strstr(head, "/chunks"))
            peer_say(p, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
        if (strstr(head, "/garbage")) peer_say(p, "what is it that you want?\r\n\r\n");
        if (strstr(head, "/length")) peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n");
        if (strstr(head, "/bulky"))
            peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 3145728\r\n\r\n");
        if (strstr(head, "/silence") || strstr(head, "/chunks") || strstr(head, "/bulky"))
            peer_wait_end(p);
    }
}

static void what_is_not_answered_whole_is_lost(void **state)
{
    (void)state;
    static const char *const paths[] = {"/close", "/half", "/chunks", "/garbage", "/length"};
    begin(serve_by_path, NULL);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (ask_once(paths[i], PATIENCE_MS) != HTTP_LOST) fail_msg("%s", paths[i]);
    end();
}

static bool asked_whether_it_fits(struct http_async_call *c, size_t body_len)
{
    return c->http.status == 200 && body_len != BULKY;
}

// Nothing of the body comes: the head is enough to decline it, long before its time is up.
static void an_answer_that_is_too_long_is_declined_by_its_head(void **state)
{
    (void)state;
    begin(serve_by_path, NULL);
    for (int i = 0; i < 2; i++) {
        struct sim_call *e = sim_call_make("/bulky", bytes_str("x"), PATIENCE_MS);
        if (i == 0)
            e->call.http.body_max = BULKY - 1;
        else
            e->call.fits = asked_whether_it_fits;
        http_async_do(async_http, &e->call);
        assert_int_equal(sim_call_end(e), HTTP_TOO_LONG);
        assert_int_equal(e->call.http.status, 200);
        sim_call_free(e);
    }
    end();
}

static void what_is_not_answered_in_time_is_lost(void **state)
{
    (void)state;
    begin(serve_by_path, NULL);
    enum http_end how;
    int64_t timeout_ms = SHORT_MS / 2, began;
    do { // a busy machine may need longer to send it
        timeout_ms *= 2;
        began = clock_boot_ms();
        how = ask_once("/silence", timeout_ms);
    } while (how == HTTP_NOT_SENT && timeout_ms < PATIENCE_MS / 4);
    assert_int_equal(how, HTTP_LOST);
    assert_in_range(clock_boot_ms() - began, timeout_ms, PATIENCE_MS / 2);
    end();
}

static void where_no_server_listens_nothing_was_sent(void **state)
{
    (void)state;
    server_claim(&server);
    async_http = http_async_new();
    place = http_async_host_new(async_http, server.url, NULL);
    assert_non_null(place);
    assert_int_equal(ask_once("/", PATIENCE_MS), HTTP_NOT_SENT);
    assert_null(http_async_host_new(async_http, "https://127.0.0.1", NULL)); // not by this way
    assert_null(http_async_host_new(async_http, "http://", NULL));
    end();
}

static atomic_int hung_up;

static void serve_until_hung_up(struct peer *p)
{
    if (!peer_request(p)) return;
    peer_wait_end(p);
    atomic_fetch_add(&hung_up, 1);
}

static void a_cancelled_call_closes_its_connection(void **state)
{
    (void)state;
    begin(serve_until_hung_up, NULL);
    struct sim_call *e = sim_call_new("/wait", bytes_str("x"), PATIENCE_MS);
    assert_true(await(&server.requests, 1));
    assert_true(http_async_cancel(async_http, &e->call));
    assert_true(await(&hung_up, 1));
    assert_false(http_async_cancel(async_http, &e->call)); // it is forgotten
    assert_int_equal(atomic_load(&e->done), 0);
    sim_call_free(e);
    end();
}

static atomic_int may_answer;

static void serve_when_allowed(struct peer *p)
{
    while (peer_request(p)) {
        if (!await(&may_answer, 1)) return;
        peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
}

// How many descriptors the epoll instance of this process watches; -1: there is none.
static int watched(void)
{
    for (int fd = 3; fd < 256; fd++) {
        char path[64], text[64] = "", line[256];
        int count = 0;
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, text, sizeof text - 1) < 0 || !strstr(text, "[eventpoll]")) continue;
        (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
        FILE *info = fopen(path, "re");
        assert_non_null(info);
        while (fgets(line, sizeof line, info))
            count += strncmp(line, "tfd:", 4) == 0;
        (void)fclose(info);
        return count;
    }
    return -1;
}

// A forked child has the socket until it calls exec. The socket then stays open, and its events
// must not reach the connection, which is freed.
static void a_closed_connection_gets_no_event_of_a_socket_that_a_child_has(void **state)
{
    (void)state;
    begin(serve_when_allowed, NULL);
    struct sim_call *e = sim_call_new("/", bytes_str("x"), PATIENCE_MS);
    assert_true(await(&server.requests, 1));
    assert_int_equal(watched(), 2); // the socket, and the event that wakes the thread
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)pause();
        _exit(0);
    }
    assert_true(http_async_cancel(async_http, &e->call));
    assert_int_equal(watched(), 1);
    atomic_store(&may_answer, 1);
    sim_call_free(e);
    assert_int_equal(ask_once("/", PATIENCE_MS), HTTP_ANSWERED);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    end();
}

static atomic_int challenges;
static bool stands;

static void challenge_ask(const void *ctx, char nonce[CHALLENGE_NONCE], char path[CHALLENGE_PATH])
{
    (void)ctx;
    atomic_fetch_add(&challenges, 1);
    (void)snprintf(nonce, CHALLENGE_NONCE, "abc");
    (void)snprintf(path, CHALLENGE_PATH, "/hello?nonce=abc");
}

static bool challenge_shown(const void *ctx, const char *nonce, const struct http_call *answer,
                            char line[CHALLENGE_LINE])
{
    (void)ctx;
    *line = 0;
    assert_string_equal(nonce, "abc");
    return stands && bytes_equal(http_header(answer, "sluice-node"), bytes_str("n"));
}

static const struct peer_challenge challenge = {.ask = challenge_ask, .shown = challenge_shown};

static void a_connection_is_greeted_once(void **state)
{
    (void)state;
    stands = true;
    atomic_store(&challenges, 0);
    begin(serve_echo, &challenge);
    for (int i = 0; i < 5; i++)
        assert_int_equal(ask_once("/echo", PATIENCE_MS), HTTP_ANSWERED);
    assert_int_equal(atomic_load(&challenges), 1);
    assert_int_equal(server.requests, 6);
    end();
}

static void a_peer_that_fails_the_challenge_gets_no_request(void **state)
{
    (void)state;
    stands = false;
    begin(serve_echo, &challenge);
    assert_int_equal(ask_once("/echo", PATIENCE_MS), HTTP_NOT_SENT);
    assert_int_equal(server.requests, 1); // the challenge
    end();
}

static void a_challenge_takes_no_longer_than_its_call(void **state)
{
    (void)state;
    begin(serve_until_hung_up, &challenge);
    int64_t began = clock_boot_ms();
    assert_int_equal(ask_once("/echo", SHORT_MS), HTTP_NOT_SENT);
    assert_true(clock_boot_ms() - began < PATIENCE_MS / 2);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_at_once_hear_their_own_answers),
        cmocka_unit_test(a_large_body_goes_and_comes_whole),
        cmocka_unit_test(a_connection_is_kept_for_the_next),
        cmocka_unit_test(a_kept_connection_that_closes_loses_no_answer),
        cmocka_unit_test(what_is_not_answered_whole_is_lost),
        cmocka_unit_test(an_answer_that_is_too_long_is_declined_by_its_head),
        cmocka_unit_test(what_is_not_answered_in_time_is_lost),
        cmocka_unit_test(where_no_server_listens_nothing_was_sent),
        cmocka_unit_test(a_cancelled_call_closes_its_connection),
        cmocka_unit_test(a_closed_connection_gets_no_event_of_a_socket_that_a_child_has),
        cmocka_unit_test(a_connection_is_greeted_once),
        cmocka_unit_test(a_peer_that_fails_the_challenge_gets_no_request),
        cmocka_unit_test(a_challenge_takes_no_longer_than_its_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
