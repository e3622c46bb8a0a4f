// SPDX-License-Identifier: Apache-2.0
// Every resource of docs/http.md over real HTTP, on the store named by the argument.
#include "base/base64.h"
#include "protocol/wire.h"
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void a_queue_is_created_shown_changed_and_deleted(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    assert_int_equal(call(&r, "PUT", "/v1/queues/mail", "{\"visibilityTimeout\": \"45s\"}"), 201);
    assert_int_equal(call(&r, "PUT", "/v1/queues/mail", "{\"visibilityTimeout\": 45000}"), 200);
    assert_int_equal(call(&r, "PUT", "/v1/queues/mail", "{\"visibilityTimeout\": \"46s\"}"), 409);
    assert_string_equal(got_text("code"), "CONFLICT");
    assert_string_equal(got_text("field"), "visibilityTimeout");
    assert_int_equal(get(&r, "/v1/queues/mail"), 200);
    assert_string_equal(got_text("name"), "mail");
    assert_int_equal(strlen(got_text("id")), 32);
    assert_string_equal(got_text("settings.visibilityTimeout"), "45s");
    assert_int_equal(got_number("settings.failureStrategy.maxRetries"), 5);
    const char *nested = "{\"failureStrategy\": {\"maxRetries\": 2}}";
    assert_int_equal(call(&r, "PATCH", "/v1/queues/mail", nested), 200);
    assert_int_equal(got_number("settings.failureStrategy.maxRetries"), 2);
    assert_int_equal(call(&r, "PATCH", "/v1/queues/mail", "{\"colour\": \"red\"}"), 400);
    assert_string_equal(got_text("field"), "colour");
    assert_int_equal(get(&r, "/v1/queues?stats=1"), 200);
    assert_int_equal(got_len("queues"), 2);
    assert_string_equal(got_text("queues.0.name"), "mail");
    assert_int_equal(got_number("queues.1.stats.ready"), 0);
    assert_int_equal(call(&r, "DELETE", "/v1/queues/mail", NULL), 204);
    assert_int_equal(get(&r, "/v1/queues/mail"), 404);
    assert_string_equal(got_text("reason"), "unknown-queue");
    rig_stop(&r);
}

static void a_message_goes_through_its_whole_life(void **state)
{
    (void)state;
    struct rig r;
    char path[200], token[200], body[300];
    rig_start(&r);
    assert_int_equal(
        post(&r, "/v1/queues/tasks/messages",
             "{\"body\": \"caf\\u00e9\", \"group\": \"g\", \"priority\": 4, \"dedup\": \"k\","
             " \"contentType\": \"text/plain\", \"workflow\": \"w\", \"headers\": {\"a\": \"b\"}}"),
        201);
    (void)snprintf(path, sizeof path, "/v1/queues/tasks/messages/%s", got_text("id"));
    assert_int_equal(
        post(&r, "/v1/queues/tasks/messages", "{\"body\": \"again\", \"dedup\": \"k\"}"), 201);
    assert_true(json_as_bool(json_member(got(), "duplicate")));
    assert_string_equal(got_text("id"), strrchr(path, '/') + 1);
    assert_int_equal(get(&r, path), 200);
    assert_string_equal(got_text("state"), "ready");
    assert_string_equal(got_text("contentType"), "text/plain");
    assert_int_equal(get(&r, "/v1/queues/tasks/messages?state=ready&max=5"), 200);
    assert_int_equal(got_len("messages"), 1);
    assert_int_equal(post(&r, "/v1/queues/tasks/receive",
                          "{\"max\": 5, \"worker\": \"w1\", \"visibility\": \"1m\"}"),
                     200);
    assert_int_equal(got_len("messages"), 1);
    assert_string_equal(got_text("messages.0.body"), "caf\xc3\xa9");
    assert_string_equal(got_text("messages.0.group"), "g");
    assert_string_equal(got_text("messages.0.headers.a"), "b");
    assert_int_equal(got_number("messages.0.attempt"), 1);
    (void)snprintf(token, sizeof token, "%s", got_text("messages.0.token"));
    assert_int_equal(get(&r, "/v1/queues/tasks/workers"), 200);
    assert_string_equal(got_text("workers.0.name"), "w1");
    (void)snprintf(body, sizeof body, "{\"token\": \"%s\", \"visibility\": 90000}", token);
    assert_int_equal(post(&r, "/v1/queues/tasks/renew", body), 200);
    assert_string_equal(got_text("status"), "renewed");
    (void)snprintf(body, sizeof body, "{\"token\": \"%s\"}", token);
    assert_int_equal(post(&r, "/v1/queues/tasks/ack", body), 200);
    assert_string_equal(got_text("status"), "processed");
    assert_int_equal(post(&r, "/v1/queues/tasks/ack", body), 409);
    assert_string_equal(got_text("reason"), "terminal");
    assert_int_equal(get(&r, "/v1/queues/tasks/stats"), 200);
    assert_int_equal(got_number("processed"), 1);
    assert_int_equal(got_number("duplicates"), 1);
    rig_stop(&r);
}

static void a_batch_has_a_code_for_each_part(void **state)
{
    (void)state;
    struct rig r;
    char body[600], first[200], second[200];
    rig_start(&r);
    assert_int_equal(
        post(&r, "/v1/queues/tasks/messages",
             "{\"messages\": [{\"body\": \"1\"}, {\"body\": \"2\"}, {\"body\": \"3\"}]}"),
        200);
    assert_int_equal(got_len("sent"), 3);
    assert_string_equal(got_text("sent.2.code"), "OK");
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", "{\"max\": 3}"), 200);
    assert_int_equal(got_len("messages"), 3);
    (void)snprintf(first, sizeof first, "%s", got_text("messages.0.token"));
    (void)snprintf(second, sizeof second, "%s", got_text("messages.1.token"));
    (void)snprintf(body, sizeof body, "{\"tokens\": [\"%s\", \"nonsense\"]}", first);
    assert_int_equal(post(&r, "/v1/queues/tasks/ack", body), 200);
    assert_int_equal(got_len("outcomes"), 2);
    assert_string_equal(got_text("outcomes.0.status"), "processed");
    assert_string_equal(got_text("outcomes.1.code"), "INVALID");
    (void)snprintf(body, sizeof body, "{\"tokens\": [\"%s\"], \"reason\": \"broken\"}", second);
    assert_int_equal(post(&r, "/v1/queues/tasks/fail", body), 200);
    assert_string_equal(got_text("outcomes.0.status"), "retrying");
    assert_true(got_number("outcomes.0.until") > 0);
    // A queue that does not exist is not worked on at all.
    assert_int_equal(post(&r, "/v1/queues/nothing/fail", body), 404);
    assert_int_equal(post(&r, "/v1/queues/nothing/messages", "{\"messages\": [{\"body\": \"1\"}]}"),
                     404);
    rig_stop(&r);
}

static void release_gives_back_without_counting(void **state)
{
    (void)state;
    struct rig r;
    char body[300];
    rig_start(&r);
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", "{\"body\": \"x\"}"), 201);
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", NULL), 200);
    (void)snprintf(body, sizeof body, "{\"token\": \"%s\", \"delay\": 0}",
                   got_text("messages.0.token"));
    assert_int_equal(post(&r, "/v1/queues/tasks/release", body), 200);
    assert_string_equal(got_text("status"), "released");
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", NULL), 200);
    assert_int_equal(got_number("messages.0.retries"), 0);
    rig_stop(&r);
}

static void any_bytes_travel_unharmed(void **state)
{
    (void)state;
    struct rig r;
    uint8_t bytes[512];
    struct reply reply;
    rig_start(&r);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    struct ask raw = {.method = "POST",
                      .path = "/v1/queues/tasks/messages?group=a%20b&priority=3&workflow=w+1",
                      .type = "application/octet-stream",
                      .headers = "Sluice-Header-Colour: green\r\n",
                      .body = bytes,
                      .body_len = sizeof bytes};
    ask(&r, &raw, &reply);
    assert_int_equal(reply.status, 201);
    reply_done(&reply);
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", NULL), 200);
    assert_string_equal(got_text("messages.0.group"), "a b");
    assert_string_equal(got_text("messages.0.workflow"), "w 1");
    assert_string_equal(got_text("messages.0.headers.Colour"), "green");
    assert_string_equal(got_text("messages.0.contentType"), "application/octet-stream");
    CLEANUP(buf_done) struct buf back;
    buf_init(&back, 1024);
    const char *digits = got_text("messages.0.bodyBase64");
    assert_true(base64_read(bytes_str(digits), &back));
    assert_int_equal(back.len, sizeof bytes);
    assert_memory_equal(back.data, bytes, sizeof bytes);
    // And in by the same way.
    char *json = malloc(2000);
    (void)snprintf(json, 2000, "{\"bodyBase64\": \"%s\"}", digits);
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", json), 201);
    free(json);
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", NULL), 200);
    buf_clear(&back);
    assert_true(base64_read(bytes_str(got_text("messages.0.bodyBase64")), &back));
    assert_memory_equal(back.data, bytes, sizeof bytes);
    rig_stop(&r);
}

static void compact(struct rig *r, const char *path, const struct buf *in, struct reply *out)
{
    struct ask a = {.method = "POST",
                    .path = path,
                    .type = WIRE_TYPE,
                    .headers = "Accept: " WIRE_TYPE "\r\n",
                    .body = in->data,
                    .body_len = in->len};
    ask(r, &a, out);
}

static void the_compact_encoding_does_the_same(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    struct sluice_error first;
    rig_start(&r);
    CLEANUP(buf_done) struct buf in;
    buf_init(&in, 65536);
    struct sluice_header header = {"h", "v"};
    struct sluice_send sends[2] = {
        {.body = "a\0b", .body_len = 3, .headers = &header, .headers_len = 1},
        {.body = "c", .body_len = 1, .group = "g"}};
    wire_put_sends(&in, sends, 2);
    compact(&r, "/v1/queues/tasks/messages", &in, &reply);
    struct sluice_sent sent[2];
    assert_int_equal(reply.status, 200);
    assert_true(wire_read_sent(bytes_of(reply.body, reply.body_len), sent, 2, &first));
    assert_int_equal(sent[1].code, SLUICE_OK);
    assert_int_equal(first.code, SLUICE_OK);
    reply_done(&reply);

    buf_clear(&in);
    wire_put_receive(&in, &(struct receive_in){.worker = "w", .max = 10}, NULL);
    compact(&r, "/v1/queues/tasks/receive", &in, &reply);
    struct sluice_batch *batch;
    assert_true(wire_read_batch(bytes_of(reply.body, reply.body_len), &batch));
    reply_done(&reply);
    assert_int_equal(batch->len, 2);
    assert_string_equal(batch->messages[0].id, sent[0].id);
    assert_int_equal(batch->messages[0].body_len, 3);
    assert_memory_equal(batch->messages[0].body, "a\0b", 4);
    assert_string_equal(batch->messages[0].headers[0].value, "v");
    assert_string_equal(batch->messages[1].group, "g");

    buf_clear(&in);
    const char *tokens[] = {batch->messages[0].token, "rubbish"};
    wire_put_settle(&in, &(struct settle_in){.tokens = {tokens, 2}, .reason = ""}, NULL, NULL);
    compact(&r, "/v1/queues/tasks/ack", &in, &reply);
    struct sluice_outcome outcomes[2];
    assert_true(wire_read_outcomes(bytes_of(reply.body, reply.body_len), outcomes, 2, &first));
    assert_string_equal(outcomes[0].status, "processed");
    assert_int_equal(outcomes[1].code, SLUICE_INVALID);
    assert_int_equal(first.code, SLUICE_INVALID);
    assert_string_equal(first.field, "token");
    reply_done(&reply);
    sluice_batch_free(batch);

    buf_clear(&in);
    buf_put_u8(&in, 77);
    compact(&r, "/v1/queues/tasks/ack", &in, &reply);
    assert_int_equal(reply.status, 400);
    assert_true(wire_read_error(bytes_of(reply.body, reply.body_len), &first));
    assert_int_equal(first.code, SLUICE_INVALID);
    reply_done(&reply);
    rig_stop(&r);
}

static void the_same_request_id_does_nothing_twice(void **state)
{
    (void)state;
    struct rig r;
    struct reply one, two;
    rig_start(&r);
    struct ask a = {.method = "POST",
                    .path = "/v1/queues/tasks/messages",
                    .type = "application/json",
                    .headers = "Sluice-Request: 00112233445566778899aabbccddeeff\r\n",
                    .body = "{\"body\": \"once\"}"};
    ask(&r, &a, &one);
    ask(&r, &a, &two);
    assert_int_equal(two.status, 201);
    assert_string_equal(one.body, two.body);
    reply_done(&one);
    reply_done(&two);
    assert_int_equal(get(&r, "/v1/queues/tasks/stats"), 200);
    assert_int_equal(got_number("sent"), 1);
    a.headers = "Sluice-Request: 123\r\n";
    ask(&r, &a, &one);
    assert_int_equal(one.status, 400);
    assert_non_null(strstr(one.body, "\"field\":\"Sluice-Request\""));
    reply_done(&one);
    rig_stop(&r);
}

static void a_paused_queue_gives_nothing_until_it_is_resumed(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    assert_int_equal(post(&r, "/v1/queues/tasks/pause", NULL), 204);
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", "{\"body\": \"x\"}"), 201);
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", NULL), 200);
    assert_int_equal(got_len("messages"), 0);
    assert_int_equal(post(&r, "/v1/queues/tasks/resume", NULL), 204);
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", NULL), 200);
    assert_int_equal(got_len("messages"), 1);
    rig_stop(&r);
}

static void purge_and_redrive_say_how_many(void **state)
{
    (void)state;
    struct rig r;
    char body[300];
    rig_start(&r);
    const char *twice = "{\"messages\": [{\"body\": \"1\"}, {\"body\": \"2\", \"delay\": \"1h\"}]}";
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", twice), 200);
    assert_int_equal(post(&r, "/v1/queues/tasks/purge", "{\"dead\": false}"), 200);
    assert_int_equal(got_number("purged"), 2);
    assert_int_equal(
        call(&r, "PUT", "/v1/queues/brittle", "{\"failureStrategy\": {\"maxRetries\": 0}}"), 201);
    assert_int_equal(post(&r, "/v1/queues/brittle/messages", "{\"body\": \"x\"}"), 201);
    assert_int_equal(post(&r, "/v1/queues/brittle/receive", NULL), 200);
    (void)snprintf(body, sizeof body, "{\"token\": \"%s\"}", got_text("messages.0.token"));
    assert_int_equal(post(&r, "/v1/queues/brittle/fail", body), 200);
    assert_string_equal(got_text("status"), "dead-lettered");
    assert_int_equal(post(&r, "/v1/queues/brittle/redrive", "{\"to\": null, \"max\": 0}"), 200);
    assert_int_equal(got_number("redriven"), 1);
    rig_stop(&r);
}

static void the_node_answers_its_identity_and_its_health(void **state)
{
    (void)state;
    struct rig r;
    rig_start_with(&r, &(struct server_config){.node = "n1", .store = "a store"});
    assert_int_equal(get(&r, "/healthz"), 200);
    assert_int_equal(get(&r, "/readyz"), 200);
    assert_string_equal(got_text("status"), "ready");
    assert_int_equal(get(&r, "/v1/node"), 200);
    assert_string_equal(got_text("node"), "n1");
    assert_string_equal(got_text("store"), "a store");
    assert_string_equal(got_text("address"), server_address(r.server));
    assert_int_equal(got_number("queues"), 1);
    rig_stop(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_is_created_shown_changed_and_deleted),
        cmocka_unit_test(a_message_goes_through_its_whole_life),
        cmocka_unit_test(a_batch_has_a_code_for_each_part),
        cmocka_unit_test(release_gives_back_without_counting),
        cmocka_unit_test(any_bytes_travel_unharmed),
        cmocka_unit_test(the_compact_encoding_does_the_same),
        cmocka_unit_test(the_same_request_id_does_nothing_twice),
        cmocka_unit_test(a_paused_queue_gives_nothing_until_it_is_resumed),
        cmocka_unit_test(purge_and_redrive_say_how_many),
        cmocka_unit_test(the_node_answers_its_identity_and_its_health),
    };
    if (argc > 1) rig_store = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
