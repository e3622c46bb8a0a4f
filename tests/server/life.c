// SPDX-License-Identifier: Apache-2.0
// A node that runs for long: queues come and go, and it stays as it was.
#include "../support/census.h"
#include "rig.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WARM_UP      50
#define QUEUES       500 // a third of it on a disk, whose syncs take their time
#define FILES_MORE   8
#define THREADS_MORE 8
#define KB_MORE      16384

static int of_queue(struct rig *r, const char *method, const char *queue, const char *rest,
                    const char *json)
{
    char path[100];
    (void)snprintf(path, sizeof path, "/v1/queues/%s%s", queue, rest);
    return call(r, method, path, json);
}

static void live_and_die(struct rig *r, const char *queue)
{
    char token[200], ack[300];
    struct reply reply;
    assert_int_equal(of_queue(r, "PUT", queue, "", NULL), 201);
    assert_int_equal(of_queue(r, "POST", queue, "/messages", "{\"body\": \"x\"}"), 201);
    assert_int_equal(of_queue(r, "POST", queue, "/receive", "{\"wait\": \"5s\"}"), 200);
    (void)snprintf(token, sizeof token, "%s", got_text("messages.0.token"));
    (void)snprintf(ack, sizeof ack, "{\"token\": \"%s\"}", token);
    assert_int_equal(of_queue(r, "POST", queue, "/ack", ack), 200);
    char path[100];
    (void)snprintf(path, sizeof path, "/v1/queues/%s/receive", queue);
    int waits = dial(r); // when the queue goes
    say_request(waits, &(struct ask){.method = "POST",
                                     .path = path,
                                     .type = "application/json",
                                     .body = "{\"wait\": \"20s\"}"});
    assert_int_equal(of_queue(r, "DELETE", queue, "", NULL), 204);
    hear(waits, false, &reply);
    assert_int_equal(reply.status, 404);
    reply_done(&reply);
    (void)close(waits);
}

static void live_and_die_all(struct rig *r, int from, int to)
{
    for (int i = from; i < to; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "queue-%d", i);
        live_and_die(r, name);
        if (i % 50 == 0) assert_int_equal(get(r, "/v1/queues?stats=1"), 200);
    }
}

static bool is_back(void *ctx)
{
    const struct census *before = ctx;
    struct census now = census_take();
    return now.files <= before->files + FILES_MORE && now.threads <= before->threads + THREADS_MORE;
}

static void queues_that_come_and_go_leave_nothing_behind(void **state)
{
    (void)state;
    struct rig r;
    struct reply metrics;
    rig_start(&r);
    live_and_die_all(&r, 0, WARM_UP);
    struct census warm = census_take();
    bool quick = strcmp(rig_store, "mem") == 0;
    live_and_die_all(&r, WARM_UP, WARM_UP + (quick ? QUEUES : QUEUES / 3));
    await(is_back, &warm, "files and threads are given back");
    struct census now = census_take();
    if (now.memory_kb > warm.memory_kb + KB_MORE)
        fail_msg("%zu kB, and %zu before", now.memory_kb, warm.memory_kb);
    ask(&r, &(struct ask){.method = "GET", .path = "/metrics"}, &metrics);
    assert_non_null(strstr(metrics.body, "queue=\"tasks\""));
    assert_null(strstr(metrics.body, "queue=\"queue-"));
    reply_done(&metrics);
    rig_stop(&r);
}

int main(int argc, char **argv)
{
    if (argc > 1) rig_store = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queues_that_come_and_go_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
