// SPDX-License-Identifier: Apache-2.0
// Many exchanges at once, and which of them wait for a connection.
#include "client.h"

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
        (void)await(&g->most, 2); // so that the first two meet
        (void)usleep(100);        // and exchanges that could overlap do
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

static void a_call_that_gets_no_connection_in_time_was_not_sent(void **state)
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
    late.timeout_ms = PATIENCE_MS;
    http_do(c.http, &late);
    assert_int_equal(late.end, HTTP_ANSWERED);
    http_call_done(&late);
    client_close(&c);
}

int main(void)
{
    static const char *const proxies[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                                          "ALL_PROXY",  "no_proxy",    "NO_PROXY"};
    for (size_t i = 0; i < sizeof proxies / sizeof *proxies; i++)
        (void)unsetenv(proxies[i]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_go_at_once_and_their_connections_are_kept),
        cmocka_unit_test(each_of_many_ends_in_its_own_way),
        cmocka_unit_test(no_more_are_under_way_than_allowed),
        cmocka_unit_test(a_call_that_gets_no_connection_in_time_was_not_sent),
    };
    return cmocka_run_group_tests_name("net crowds", tests, NULL, NULL);
}
