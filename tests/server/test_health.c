// SPDX-License-Identifier: Apache-2.0
// /healthz and /readyz on a store that fails, or does not answer at all.
#include "api/inside.h"
#include "rig.h"
#include "store/fault.h"
#include "store/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sick {
    struct rig rig;
    struct store *fault; // the rig's store has it
};

static void start(struct sick *s)
{
    struct sluice_error error;
    struct server_config config = {.listen = "127.0.0.1:0"};
    *s = (struct sick){.rig = {.line = -1}};
    s->fault = store_fault_take(store_mem_new(), &(struct fault_options){0});
    assert_int_equal(handle_open_take(s->fault, "mem:", NULL, &s->rig.store, &error), SLUICE_OK);
    assert_int_equal(server_start(&config, s->rig.store, &s->rig.server, &error), SLUICE_OK);
    s->rig.port = (uint16_t)atoi(strrchr(server_address(s->rig.server), ':') + 1);
}

static bool is_ready(void *ctx)
{
    return get(ctx, "/readyz") == 200;
}

static bool is_not_ready(void *ctx)
{
    return get(ctx, "/readyz") == 503;
}

static void ready_means_that_the_store_answers(void **state)
{
    (void)state;
    struct sick s;
    start(&s);
    assert_int_equal(get(&s.rig, "/readyz"), 200);
    store_fault_set(s.fault, &(struct fault_options){.lost_request = 10000});
    await(is_not_ready, &s.rig, "the store fails");
    assert_string_equal(got_text("code"), "UNAVAILABLE");
    assert_true(strlen(got_text("detail")) > 10);
    assert_int_equal(get(&s.rig, "/healthz"), 200); // starting it again would not help
    store_fault_set(s.fault, &(struct fault_options){0});
    await(is_ready, &s.rig, "the store is back");
    rig_stop(&s.rig);
}

static bool was_asked(void *ctx)
{
    return store_fault_count(ctx) > 0;
}

static bool is_stuck(void *ctx)
{
    return get(ctx, "/readyz") == 503 && strcmp(got_text("reason"), "stuck") == 0;
}

static void a_store_that_does_not_answer_is_noticed(void **state)
{
    (void)state;
    struct sick s;
    struct reply reply;
    start(&s);
    struct fault_options away = {.lost_request = 10000, .slow = 10000, .slow_ms = 6000};
    store_fault_set(s.fault, &away);
    int first = dial(&s.rig);
    say_request(first, &(struct ask){.method = "GET", .path = "/readyz"});
    await(was_asked, s.fault, "the store is asked");
    assert_int_equal(get(&s.rig, "/readyz"), 503); // at once: one question is enough
    assert_string_equal(got_text("reason"), "starting");
    await(is_stuck, &s.rig, "the store does not answer");
    store_fault_set(s.fault, &(struct fault_options){0});
    hear(first, false, &reply);
    assert_int_equal(reply.status, 503);
    reply_done(&reply);
    (void)close(first);
    await(is_ready, &s.rig, "the store is back");
    rig_stop(&s.rig);
}

static void a_node_that_drains_is_alive_and_not_ready(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    assert_int_equal(get(&r, "/readyz"), 200);
    server_drain(r.server);
    assert_int_equal(get(&r, "/readyz"), 503);
    assert_string_equal(got_text("reason"), "stopping");
    assert_int_equal(get(&r, "/healthz"), 200);
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", "{\"body\":\"x\"}"), 201);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ready_means_that_the_store_answers),
        cmocka_unit_test(a_store_that_does_not_answer_is_noticed),
        cmocka_unit_test(a_node_that_drains_is_alive_and_not_ready),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
