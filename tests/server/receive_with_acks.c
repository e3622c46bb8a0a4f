// SPDX-License-Identifier: Apache-2.0
// Receives that carry acks, over HTTP: what is answered, and that the acks stay done whatever
// becomes of the waiting client.
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGES "/v1/queues/tasks/messages"
#define RECEIVE  "/v1/queues/tasks/receive"

static void send_one(struct rig *r, const char *body)
{
    char json[100];
    (void)snprintf(json, sizeof json, "{\"body\": \"%s\"}", body);
    assert_int_equal(post(r, MESSAGES, json), 201);
}

static void token_of_one(struct rig *r, char token[SLUICE_TOKEN_MAX])
{
    send_one(r, "done");
    assert_int_equal(post(r, RECEIVE, "{}"), 200);
    assert_int_equal(got_len("messages"), 1);
    (void)snprintf(token, SLUICE_TOKEN_MAX, "%s", got_text("messages.0.token"));
}

static int start_waiting(struct rig *r, const char *token)
{
    char body[200];
    int fd = dial(r);
    (void)snprintf(body, sizeof body, "{\"wait\": \"20s\", \"ack\": [\"%s\"]}", token);
    say_request(fd, &(struct ask){.method = "POST", .path = RECEIVE, .body = body});
    return fd;
}

static void await_of(struct rig *r, const char *path, const char *key, int64_t count)
{
    int64_t give_up = now_ms() + DEADLINE_MS;
    do {
        assert_int_equal(get(r, path), 200);
        if (now_ms() > give_up) fail_msg("%s is %d, not %d", key, (int)got_number(key), (int)count);
    } while (got_number(key) != count);
}

static void await_waiting(struct rig *r, int64_t count)
{
    await_of(r, "/v1/node", "waiting", count);
}

static void await_processed(struct rig *r, int64_t count)
{
    await_of(r, "/v1/queues/tasks/stats", "processed", count);
}

static void the_answer_tells_of_both(void **state)
{
    (void)state;
    struct rig r;
    char token[SLUICE_TOKEN_MAX], body[400];
    rig_start(&r);
    token_of_one(&r, token);
    send_one(&r, "next");
    (void)snprintf(body, sizeof body, "{\"ack\": [\"%s\", \"nonsense\"]}", token);
    assert_int_equal(post(&r, RECEIVE, body), 200);
    assert_int_equal(got_len("messages"), 1);
    assert_int_equal(got_len("acked"), 2);
    assert_string_equal(got_text("acked.0.code"), "OK");
    assert_string_equal(got_text("acked.0.status"), "processed");
    assert_string_equal(got_text("acked.1.code"), "INVALID");
    assert_int_equal(post(&r, RECEIVE, "{\"ack\": []}"), 200); // none is none
    assert_null(json_member(got(), "acked"));
    assert_int_equal(post(&r, RECEIVE, "{\"ack\": \"one\"}"), 400);
    rig_stop(&r);
}

static void more_acks_than_allowed_are_refused_as_a_whole(void **state)
{
    (void)state;
    struct rig r;
    char token[SLUICE_TOKEN_MAX];
    size_t size = 10001 * 4 + SLUICE_TOKEN_MAX + 100;
    char *body = malloc(size);
    rig_start(&r);
    token_of_one(&r, token);
    size_t len = (size_t)snprintf(body, size, "{\"ack\": [\"%s\"", token);
    for (int i = 0; i < 10000; i++)
        len += (size_t)snprintf(body + len, size - len, ",\"x\"");
    (void)snprintf(body + len, size - len, "]}");
    assert_int_equal(post(&r, RECEIVE, body), 400);
    assert_string_equal(got_text("field"), "ack");
    assert_int_equal(get(&r, "/v1/queues/tasks/stats"), 200);
    assert_int_equal(got_number("processed"), 0);
    free(body);
    rig_stop(&r);
}

static void acks_stay_done_when_the_client_hangs_up(void **state)
{
    (void)state;
    struct rig r;
    char token[SLUICE_TOKEN_MAX];
    rig_start(&r);
    token_of_one(&r, token);
    int fd = start_waiting(&r, token);
    await_processed(&r, 1);
    await_waiting(&r, 1); // it waits on
    (void)close(fd);
    await_waiting(&r, 0);
    send_one(&r, "for another worker");
    assert_int_equal(post(&r, RECEIVE, "{\"wait\": \"20s\"}"), 200);
    assert_int_equal(got_len("messages"), 1);
    assert_int_equal(got_number("messages.0.attempt"), 1);
    assert_int_equal(get(&r, "/v1/queues/tasks/stats"), 200);
    assert_int_equal(got_number("processed"), 1);
    rig_stop(&r);
}

static void a_node_that_stops_tells_the_acks_of_those_that_wait(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    char token[SLUICE_TOKEN_MAX];
    rig_start(&r);
    token_of_one(&r, token);
    int fd = start_waiting(&r, token);
    await_waiting(&r, 1);
    assert_true(server_stop(r.server, DEADLINE_MS));
    r.server = NULL;
    hear(fd, false, &reply);
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, "\"messages\":[]"));
    assert_non_null(strstr(reply.body, "\"processed\""));
    reply_done(&reply);
    (void)close(fd);
    rig_stop(&r);
}

static void acks_are_made_where_there_is_no_room_to_wait(void **state)
{
    (void)state;
    struct rig r;
    char first[SLUICE_TOKEN_MAX], second[SLUICE_TOKEN_MAX], body[300];
    rig_start_with(&r, &(struct server_config){.waiting_max = 1});
    token_of_one(&r, first);
    token_of_one(&r, second);
    int fd = start_waiting(&r, first);
    await_waiting(&r, 1);
    (void)snprintf(body, sizeof body, "{\"wait\": \"20s\", \"ack\": [\"%s\"]}", second);
    assert_int_equal(post(&r, RECEIVE, body), 200);
    assert_string_equal(got_text("acked.0.status"), "processed");
    assert_int_equal(got_len("messages"), 0);
    assert_string_equal(got_text("error.code"), "LIMIT");
    assert_string_equal(got_text("error.reason"), "too-many-waiting");
    await_processed(&r, 2);
    (void)close(fd);
    rig_stop(&r);
}

static void acks_are_counted(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    char token[SLUICE_TOKEN_MAX], body[300];
    rig_start(&r);
    token_of_one(&r, token);
    (void)snprintf(body, sizeof body, "{\"wait\": 50, \"ack\": [\"%s\", \"%s\"]}", token, token);
    assert_int_equal(post(&r, RECEIVE, body), 200);
    ask(&r, &(struct ask){.method = "GET", .path = "/metrics"}, &reply);
    assert_non_null(strstr(reply.body, "\nsluice_messages_acked_total 1\n"));
    reply_done(&reply);
    rig_stop(&r);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    rig_store = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_tells_of_both),
        cmocka_unit_test(more_acks_than_allowed_are_refused_as_a_whole),
        cmocka_unit_test(acks_stay_done_when_the_client_hangs_up),
        cmocka_unit_test(a_node_that_stops_tells_the_acks_of_those_that_wait),
        cmocka_unit_test(acks_are_made_where_there_is_no_room_to_wait),
        cmocka_unit_test(acks_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
