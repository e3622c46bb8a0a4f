// SPDX-License-Identifier: Apache-2.0
// What is refused, and how: malformed requests, unknown things, sizes, counts, slow clients.
#include "rig.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void an_error_is_a_problem_with_code_field_and_sentence(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    rig_start(&r);
    ask(&r, &(struct ask){.method = "GET", .path = "/v1/queues/nothing/stats"}, &reply);
    assert_int_equal(reply.status, 404);
    assert_string_equal(reply_header(&reply, "Content-Type"), "application/problem+json");
    reply_done(&reply);
    assert_int_equal(get(&r, "/v1/queues/nothing/stats"), 404);
    assert_string_equal(got_text("type"), "about:blank");
    assert_int_equal(got_number("status"), 404);
    assert_string_equal(got_text("code"), "NOT_FOUND");
    assert_string_equal(got_text("reason"), "unknown-queue");
    assert_string_equal(got_text("field"), "queue");
    assert_non_null(strstr(got_text("detail"), "nothing"));
    rig_stop(&r);
}

static void what_a_body_says_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *path, *body, *field;
    } cases[] = {
        {"messages", "{\"body\": \"x\", \"colour\": 1}", "colour"},
        {"messages", "{\"body\": 5, \"bodyBase64\": \"eA==\"}", "body"},
        {"messages", "{\"body\": \"x\", \"bodyBase64\": \"eA==\"}", "body"},
        {"messages", "{\"group\": \"g\"}", "body"},
        {"messages", "{\"bodyBase64\": \"e\"}", "bodyBase64"},
        {"messages", "{\"bodyBase64\": \"e*==\"}", "bodyBase64"},
        {"messages", "{\"body\": \"x\", \"priority\": 10}", "priority"},
        {"messages", "{\"body\": \"x\", \"priority\": 1.5}", "priority"},
        {"messages", "{\"body\": \"x\", \"delay\": \"soon\"}", "delay"},
        {"messages", "{\"body\": \"x\", \"delay\": -1}", "delay"},
        {"messages", "{\"body\": \"x\", \"delay\": true}", "delay"},
        {"messages", "{\"body\": \"x\", \"headers\": []}", "headers"},
        {"messages", "{\"body\": \"x\", \"headers\": {\"a\": 1}}", "headers.a"},
        {"messages", "{\"body\": \"x\", \"group\": \"a\\u0000b\"}", "group"},
        {"messages", "{\"messages\": 3}", "messages"},
        {"messages", "{\"messages\": [3]}", "messages"},
        {"messages", "{\"messages\": [], \"body\": \"x\"}", "body"},
        {"messages", "{\"messages\": [{\"body\": \"x\"}, {\"body\": \"x\", \"prio\": 1}]}",
         "messages[1].prio"},
        {"messages", "[]", "body"},
        {"messages", "{\"body\": \"x\"", "body"},
        {"messages", "{\"body\": \"x\", \"body\": \"y\"}", "body"},
        {"receive", "{\"wait\": \"21s\"}", "wait"},
        {"receive", "{\"max\": 0}", "max"},
        {"receive", "{\"worker\": 3}", "worker"},
        {"receive", "{\"waitt\": 3}", "waitt"},
        {"ack", "{}", "token"},
        {"ack", "{\"token\": \"a\", \"tokens\": []}", "token"},
        {"ack", "{\"tokens\": [1]}", "tokens"},
        {"ack", "{\"token\": \"a\", \"delay\": 1}", "delay"},
        {"purge", "{\"dead\": 1}", "dead"},
        {"redrive", "{\"max\": \"all\"}", "max"},
        {"pause", "{\"now\": true}", "now"},
    };
    struct rig r;
    rig_start(&r);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[100];
        (void)snprintf(path, sizeof path, "/v1/queues/tasks/%s", cases[i].path);
        int status = post(&r, path, cases[i].body);
        if (status != 400 || strcmp(got_text("field"), cases[i].field) != 0)
            fail_msg("%s %s: status %d, field \"%s\"", cases[i].path, cases[i].body, status,
                     got_text("field"));
        assert_string_equal(got_text("code"), "INVALID");
    }
    assert_int_equal(get(&r, "/v1/queues/tasks/stats"), 200);
    assert_int_equal(got_number("sent"), 0);
    rig_stop(&r);
}

static void names_are_checked_before_anything_else(void **state)
{
    (void)state;
    static const char *const paths[] = {"/v1/queues/.hidden",
                                        "/v1/queues/%2e%2e",
                                        "/v1/queues/a%2Fb",
                                        "/v1/queues/a%20b",
                                        "/v1/queues/tasks/messages/x",
                                        "/v1/queues/tasks/messages/..",
                                        "/v1/queues/tasks%ff",
                                        "/v1/queues/tasks?x=%zz",
                                        "/v1/queues/tasks%00",
                                        "/v1/queues/tasks/messages?stat=ready"};
    struct rig r;
    rig_start(&r);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (get(&r, paths[i]) != 400) fail_msg("%s was not refused", paths[i]);
    rig_stop(&r);
}

static void an_unknown_path_is_404_and_an_unknown_method_405(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    rig_start(&r);
    assert_int_equal(get(&r, "/nothing"), 404);
    assert_int_equal(get(&r, "/v2/queues"), 404);
    assert_int_equal(get(&r, "/v1/queues/"), 400); // a queue without a name
    assert_int_equal(get(&r, "/v1/queues/tasks/"), 404);
    assert_int_equal(get(&r, "/v1/queues/tasks/messages/1/2"), 404);
    assert_string_equal(got_text("reason"), "unknown-path");
    ask(&r, &(struct ask){.method = "BREW", .path = "/v1/queues/tasks"}, &reply);
    assert_int_equal(reply.status, 405);
    assert_string_equal(reply_header(&reply, "Allow"), "PUT, PATCH, GET, HEAD, DELETE");
    reply_done(&reply);
    ask(&r, &(struct ask){.method = "GET", .path = "/v1/queues/tasks/ack"}, &reply);
    assert_int_equal(reply.status, 405);
    assert_string_equal(reply_header(&reply, "Allow"), "POST");
    reply_done(&reply);
    ask(&r, &(struct ask){.method = "HEAD", .path = "/v1/queues/tasks"}, &reply);
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.body_len, 0);
    reply_done(&reply);
    assert_int_equal(get(&r, "/healthz"), 200); // the connection is in step
    rig_stop(&r);
}

static void a_body_that_is_too_large_is_413(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    rig_start_with(&r, &(struct server_config){.body_max = 1000});
    char *big = malloc(2001);
    memset(big, 'x', 2000);
    struct ask a = {.method = "POST",
                    .path = "/v1/queues/tasks/messages",
                    .type = "text/plain",
                    .body = big,
                    .body_len = 1000};
    ask(&r, &a, &reply);
    assert_int_equal(reply.status, 201);
    reply_done(&reply);
    a.body_len = 1001;
    ask(&r, &a, &reply);
    assert_int_equal(reply.status, 413);
    assert_non_null(strstr(reply.body, "\"code\":\"LIMIT\""));
    reply_done(&reply);
    assert_int_equal(get(&r, "/healthz"), 200);
    // One that says how much it would be is not heard out.
    int fd = dial(&r);
    say(fd,
        "POST /v1/queues/tasks/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n"
        "Content-Length: 1000000000000\r\n\r\n");
    hear(fd, false, &reply);
    assert_int_equal(reply.status, 413);
    reply_done(&reply);
    (void)close(fd);
    // Nor one that does not say.
    fd = dial(&r);
    say(fd,
        "POST /v1/queues/tasks/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n"
        "Transfer-Encoding: chunked\r\n\r\n7d0\r\n");
    big[2000] = '\0';
    say(fd, big);
    say(fd, "\r\n0\r\n\r\n");
    hear(fd, false, &reply);
    assert_int_equal(reply.status, 413);
    reply_done(&reply);
    (void)close(fd);
    free(big);
    rig_stop(&r);
}

// What JSON text there is times `count`, as the messages of one request.
static char *many_messages(const char *one, size_t count)
{
    size_t len = strlen(one) + 1;
    char *text = malloc(count * len + 32), *at = text;
    assert_non_null(text);
    at += sprintf(at, "{\"messages\": [");
    for (size_t i = 0; i < count; i++)
        at += sprintf(at, "%s%s", i > 0 ? "," : "", one);
    (void)strcpy(at, "]}");
    return text;
}

static bool holds_no_body(void *ctx)
{
    struct reply reply;
    ask(ctx, &(struct ask){.method = "GET", .path = "/metrics"}, &reply);
    bool none = strstr(reply.body, "\nsluice_http_body_memory_bytes 0\n");
    reply_done(&reply);
    return none;
}

static void json_is_refused_by_what_it_would_take_in_memory(void **state)
{
    (void)state;
    struct rig r;
    rig_start_with(&r, &(struct server_config){.body_max = 256 << 10, .body_memory_max = 2 << 20});
    static const size_t counts[] = {9000, 40000}; // the second is not for a thread that speaks HTTP
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        char *bomb = many_messages("{}", counts[i]);
        assert_int_equal(post(&r, "/v1/queues/tasks/messages", bomb), 413);
        assert_string_equal(got_text("reason"), "json-too-large");
        assert_non_null(strstr(got_text("detail"), "limits.bodyMemory"));
        free(bomb);
    }
    char *fine = many_messages("{\"body\": \"a message that is as long as any other\"}", 1500);
    assert_true(strlen(fine) > (64 << 10));
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", fine), 200);
    assert_int_equal(got_len("sent"), 1500);
    free(fine);
    await(holds_no_body, &r, "what was counted is given back");
    rig_stop(&r);
}

static void json_nested_too_deep_is_refused(void **state)
{
    (void)state;
    struct rig r;
    char deep[400] = "{\"body\": ";
    rig_start(&r);
    for (int more = 0; more < 2; more++) {
        size_t at = strlen("{\"body\": "), lists = (size_t)(127 + more);
        memset(deep + at, '[', lists);
        memset(deep + at + lists, ']', lists);
        (void)strcpy(deep + at + 2 * lists, "}");
        int status = post(&r, "/v1/queues/tasks/messages", deep);
        bool refused = status == 400 && strcmp(got_text("reason"), "json-too-deep") == 0;
        assert_int_equal(refused, more);
    }
    assert_non_null(strstr(got_text("detail"), "at most 128"));
    assert_int_equal(call(&r, "PATCH", "/v1/queues/tasks", deep),
                     400); // settings are read in another place
    assert_string_equal(got_text("reason"), "json-too-deep");
    rig_stop(&r);
}

static void a_head_that_is_too_large_is_refused(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    rig_start(&r);
    char *big = malloc(40000);
    memset(big, 'h', 39999);
    big[39999] = '\0';
    int fd = dial(&r);
    say(fd, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Big: ");
    say(fd, big);
    say(fd, "\r\n\r\n");
    hear(fd, false, &reply);
    assert_int_equal(reply.status, 431);
    reply_done(&reply);
    (void)close(fd);
    free(big);
    assert_int_equal(get(&r, "/healthz"), 200);
    rig_stop(&r);
}

static void receives_beyond_the_number_that_may_wait_are_429(void **state)
{
    (void)state;
    struct rig r;
    rig_start_with(&r, &(struct server_config){.waiting_max = 2});
    int waiting[2];
    for (int i = 0; i < 2; i++) {
        waiting[i] = dial(&r);
        say_request(waiting[i], &(struct ask){.method = "POST",
                                              .path = "/v1/queues/tasks/receive",
                                              .body = "{\"wait\": \"20s\"}"});
    }
    do
        assert_int_equal(get(&r, "/v1/node"), 200);
    while (got_number("waiting") < 2);
    struct reply reply;
    ask(&r,
        &(struct ask){
            .method = "POST", .path = "/v1/queues/tasks/receive", .body = "{\"wait\": 1000}"},
        &reply);
    assert_int_equal(reply.status, 429);
    assert_string_equal(reply_header(&reply, "Retry-After"), "1");
    reply_done(&reply);
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", "{\"wait\": 0}"), 200);
    for (int i = 0; i < 2; i++)
        (void)close(waiting[i]);
    rig_stop(&r);
}

static void connections_of_one_address_are_limited(void **state)
{
    (void)state;
    struct rig r;
    rig_start_with(&r, &(struct server_config){.per_address_max = 2});
    int second = dial(&r), third;
    struct reply reply;
    say_request(second, &(struct ask){.method = "GET", .path = "/healthz"});
    hear(second, false, &reply);
    reply_done(&reply);
    third = dial(&r);
    assert_true(hears_end(third));
    (void)close(third);
    (void)close(second);
    rig_stop(&r);
}

static void a_client_that_dawdles_is_cut_off(void **state)
{
    (void)state;
    struct rig r;
    rig_start_with(&r, &(struct server_config){.idle_ms = 1000});
    int64_t began = now_ms();
    int fd = dial(&r);
    say(fd, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n");
    // A byte now and then does not help.
    char byte[16] = "";
    while (recv(fd, byte, sizeof byte, MSG_DONTWAIT) < 0) {
        say(fd, "X");
        (void)poll(NULL, 0, 100);
        if (now_ms() - began > DEADLINE_MS) fail_msg("it was heard for %d ms", DEADLINE_MS);
    }
    assert_true(now_ms() - began >= 900);
    (void)close(fd);
    rig_stop(&r);
}

static void a_first_head_has_less_time_than_a_later_one(void **state)
{
    (void)state;
    struct rig r;
    rig_start_with(&r, &(struct server_config){.first_head_ms = 1000});
    int fd = dial(&r);
    say(fd, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n");
    assert_true(hears_end(fd)); // the default of limits.idle is longer than this test waits
    (void)close(fd);
    assert_int_equal(get(&r, "/healthz"), 200);
    rig_stop(&r);
}

// One address has sent half a head on as many connections as there may be.
static void half_a_head_makes_way_for_a_whole_one(void **state)
{
    (void)state;
    struct rig r;
    int halves[4];
    rig_start_with(&r, &(struct server_config){.connections_max = 4,
                                               .per_address_max = 100,
                                               .idle_ms = 3600000,
                                               .first_head_ms = 3600000});
    for (int i = 0; i < 4; i++) { // the rig has one more
        halves[i] = dial(&r);
        say(halves[i], "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n");
    }
    int fd = dial(&r);
    struct reply reply;
    say_request(fd, &(struct ask){.method = "GET", .path = "/healthz"});
    hear(fd, false, &reply);
    assert_int_equal(reply.status, 200);
    reply_done(&reply);
    assert_int_equal(get(&r, "/healthz"), 200); // on the connection that had a whole head
    (void)close(fd);
    for (int i = 0; i < 4; i++)
        (void)close(halves[i]);
    rig_stop(&r);
}

static void a_page_of_another_site_is_refused(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    rig_start(&r);
    struct ask a = {.method = "POST",
                    .path = "/v1/queues/tasks/purge",
                    .type = "text/plain",
                    .headers = "Origin: http://other.example\r\n"};
    ask(&r, &a, &reply);
    assert_int_equal(reply.status, 403);
    reply_done(&reply);
    a.headers = "Origin: http://localhost\r\n"; // what the Host header says
    ask(&r, &a, &reply);
    assert_int_equal(reply.status, 200);
    reply_done(&reply);
    rig_stop(&r);
}

// Another site's name that was made to point here: for a browser its pages have the same origin.
static void a_node_without_tokens_is_called_by_its_address(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    rig_start(&r);
    const struct {
        const char *host;
        int status;
    } calls[] = {{"evil.example", 403},   {"evil.example:80", 403}, {"127.0.0.1.evil.example", 403},
                 {"localhost:7333", 200}, {"127.0.0.1:7333", 200},  {"[::1]:7333", 200}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char request[200];
        int fd = dial(&r);
        (void)snprintf(request, sizeof request, "GET /v1/queues HTTP/1.1\r\nHost: %s\r\n\r\n",
                       calls[i].host);
        say(fd, request);
        hear(fd, false, &reply);
        assert_int_equal(reply.status, calls[i].status);
        reply_done(&reply);
        (void)close(fd);
    }
    rig_stop(&r);
}

static void it_does_not_listen_beyond_loopback_unasked(void **state)
{
    (void)state;
    struct sluice *store;
    struct server *server = NULL;
    struct sluice_error error;
    assert_int_equal(sluice_open("mem:", NULL, &store, NULL), SLUICE_OK);
    static const char *const wrong[] = {"localhost", "127.0.0.1", "127.0.0.1:99999",
                                        "::1:80",    "a:1",       ""};
    struct server_config config = {.listen = "0.0.0.0:0"};
    assert_int_equal(server_start(&config, store, &server, &error), SLUICE_DENIED);
    assert_string_equal(error.field, "listen");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        config.listen = wrong[i];
        if (server_start(&config, store, &server, &error) != SLUICE_INVALID)
            fail_msg("\"%s\" was taken", wrong[i]);
    }
    config = (struct server_config){.listen = "0.0.0.0:0", .insecure = true};
    assert_int_equal(server_start(&config, store, &server, &error), SLUICE_OK);
    assert_true(server_stop(server, DEADLINE_MS));
    sluice_close(store);
}

static void two_nodes_do_not_share_an_address(void **state)
{
    (void)state;
    struct rig r;
    struct server *second = NULL;
    struct sluice_error error;
    rig_start(&r);
    struct server_config config = {.listen = server_address(r.server)};
    assert_int_equal(server_start(&config, r.store, &second, &error), SLUICE_UNAVAILABLE);
    assert_non_null(strstr(error.message, "another process uses this port"));
    rig_stop(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_is_a_problem_with_code_field_and_sentence),
        cmocka_unit_test(what_a_body_says_wrong_is_named),
        cmocka_unit_test(names_are_checked_before_anything_else),
        cmocka_unit_test(an_unknown_path_is_404_and_an_unknown_method_405),
        cmocka_unit_test(a_body_that_is_too_large_is_413),
        cmocka_unit_test(json_is_refused_by_what_it_would_take_in_memory),
        cmocka_unit_test(json_nested_too_deep_is_refused),
        cmocka_unit_test(a_head_that_is_too_large_is_refused),
        cmocka_unit_test(receives_beyond_the_number_that_may_wait_are_429),
        cmocka_unit_test(connections_of_one_address_are_limited),
        cmocka_unit_test(a_client_that_dawdles_is_cut_off),
        cmocka_unit_test(a_first_head_has_less_time_than_a_later_one),
        cmocka_unit_test(half_a_head_makes_way_for_a_whole_one),
        cmocka_unit_test(a_page_of_another_site_is_refused),
        cmocka_unit_test(a_node_without_tokens_is_called_by_its_address),
        cmocka_unit_test(it_does_not_listen_beyond_loopback_unasked),
        cmocka_unit_test(two_nodes_do_not_share_an_address),
    };
    if (argc > 1) rig_store = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
