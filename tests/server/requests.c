// SPDX-License-Identifier: Apache-2.0
// Request ids over HTTP: the same again gets the same answer, from whichever shard; another use is
// refused, and is no reason to doubt the store.
#include "rig.h"

#include <stdio.h>
#include <string.h>

#define TOKEN_MAX 200

static int post_as(struct rig *r, const char *path, unsigned id, const char *json,
                   struct reply *out)
{
    char header[80], where[80];
    (void)snprintf(header, sizeof header, "Sluice-Request: %032x\r\n", id);
    (void)snprintf(where, sizeof where, "/v1/queues/wide/%s", path);
    ask(r,
        &(struct ask){.method = "POST",
                      .path = where,
                      .type = "application/json",
                      .headers = header,
                      .body = json},
        out);
    return out->status;
}

static void start(struct rig *r, const char *shards, int messages)
{
    char json[64];
    rig_start(r);
    (void)snprintf(json, sizeof json, "{\"shards\": %s}", shards);
    assert_int_equal(call(r, "PUT", "/v1/queues/wide", json), 201);
    for (int i = 0; i < messages; i++)
        assert_int_equal(post(r, "/v1/queues/wide/messages", "{\"body\": \"x\"}"), 201);
}

// The first token in an answer.
static void token_in(const struct reply *reply, char out[TOKEN_MAX])
{
    static const char before[] = "\"token\":\"";
    const char *at = strstr(reply->body, before);
    assert_non_null(at);
    at += strlen(before);
    (void)snprintf(out, TOKEN_MAX, "%.*s", (int)strcspn(at, "\""), at);
}

static void a_receive_that_is_sent_again_gets_the_same_locks(void **state)
{
    (void)state;
    struct rig r;
    start(&r, "6", 30);
    for (unsigned id = 1; id <= 12; id++) {
        struct reply first, again;
        char one[TOKEN_MAX], two[TOKEN_MAX];
        const char *body = id % 2 ? "{\"max\": 2}" : "{\"max\": 2, \"wait\": \"5s\"}";
        assert_int_equal(post_as(&r, "receive", id, body, &first), 200);
        assert_int_equal(post_as(&r, "receive", id, body, &again), 200);
        token_in(&first, one);
        token_in(&again, two);
        assert_string_equal(one, two);
        reply_done(&first);
        reply_done(&again);
    }
    rig_stop(&r);
}

static void is_reused(const struct reply *reply)
{
    assert_int_equal(reply->status, 400);
    assert_non_null(strstr(reply->body, "\"reason\":\"request-reused\""));
    assert_non_null(strstr(reply->body, "\"field\":\"Sluice-Request\""));
}

static void another_use_of_an_id_is_the_callers_mistake(void **state)
{
    (void)state;
    static const char *const verbs[] = {"ack", "fail", "release", "renew"};
    struct rig r;
    start(&r, "1", 8);
    for (unsigned i = 0; i < 4; i++) {
        struct reply reply;
        char one[TOKEN_MAX], two[TOKEN_MAX], json[3 * TOKEN_MAX];
        assert_int_equal(post_as(&r, "receive", 100 + i, "{}", &reply), 200);
        token_in(&reply, one);
        reply_done(&reply);
        assert_int_equal(post_as(&r, "receive", 200 + i, "{}", &reply), 200);
        token_in(&reply, two);
        reply_done(&reply);
        (void)snprintf(json, sizeof json, "{\"token\": \"%s\"}", one);
        assert_int_equal(post_as(&r, verbs[i], 300 + i, json, &reply), 200);
        reply_done(&reply);
        (void)snprintf(json, sizeof json, "{\"tokens\": [\"%s\", \"%s\"]}", one, two);
        (void)post_as(&r, verbs[i], 300 + i, json, &reply);
        is_reused(&reply);
        reply_done(&reply);
        (void)snprintf(json, sizeof json, "{\"token\": \"%s\"}", two);
        (void)post_as(&r, verbs[(i + 1) % 4], 300 + i, json, &reply);
        is_reused(&reply);
        reply_done(&reply);
        assert_int_equal(get(&r, "/readyz"), 200);
    }
    rig_stop(&r);
}

static void an_id_of_other_messages_is_refused(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    start(&r, "1", 0);
    assert_int_equal(post_as(&r, "messages", 1, "{\"body\": \"a\"}", &reply), 201);
    reply_done(&reply);
    (void)post_as(&r, "receive", 1, "{}", &reply);
    is_reused(&reply);
    reply_done(&reply);
    (void)post_as(&r, "messages", 1, "{\"messages\": [{\"body\": \"a\"}, {\"body\": \"b\"}]}",
                  &reply);
    is_reused(&reply);
    reply_done(&reply);
    assert_int_equal(get(&r, "/readyz"), 200);
    assert_int_equal(get(&r, "/v1/queues/wide/stats"), 200);
    assert_int_equal(got_number("ready"), 1);
    rig_stop(&r);
}

int main(int argc, char **argv)
{
    if (argc > 1) rig_store = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receive_that_is_sent_again_gets_the_same_locks),
        cmocka_unit_test(another_use_of_an_id_is_the_callers_mistake),
        cmocka_unit_test(an_id_of_other_messages_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
