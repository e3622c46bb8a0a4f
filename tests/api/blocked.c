// SPDX-License-Identifier: Apache-2.0
// Sends that wait for room, and queues whose store does not answer: they delay no other call.
#include "../conformance/store/support.h"
#include "../support/calls.h"
#include "../support/gate_store.h"
#include "../unit/unit.h"
#include "api/handle.h"
#include "os/clock.h"
#include "queues/queues.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CROWD   200
#define AT_ONCE 5000 // ms; what waits for the others' sake takes the handle's whole timeout

static struct sluice *open_store(int64_t timeout_ms)
{
    struct sluice *s;
    struct sluice_options options = {.timeout_ms = timeout_ms};
    assert_int_equal(sluice_open("mem:", &options, &s, NULL), SLUICE_OK);
    return s;
}

static void create(struct sluice *s, const char *queue, const char *capacity)
{
    struct sluice_setting settings[] = {{"capacity", capacity}, {"backpressure", "block"}};
    struct sluice_error error = {.message = ""};
    if (sluice_queue_create(s, queue, settings, 2, &error)) fail_msg("%s", error.message);
}

static void send_async(struct sluice *s, const char *queue, int number, struct call *c)
{
    char body[16];
    (void)snprintf(body, sizeof body, "%d", number);
    call_init(c);
    async_send(s->engine, queue, &(struct sluice_send){.body = body, .body_len = strlen(body)}, 1,
               NULL, &c->async);
}

// Takes one message out; its number, or -1.
static int take_one(struct sluice *s, const char *queue, int64_t wait_ms)
{
    struct sluice_batch *b;
    struct sluice_receive ask = {.worker = "w", .wait_ms = wait_ms};
    assert_int_equal(sluice_receive(s, queue, &ask, &b, NULL), SLUICE_OK);
    int number = b->len > 0 ? (int)strtol(b->messages[0].body, NULL, 10) : -1;
    const char *token = b->len > 0 ? b->messages[0].token : NULL;
    if (token) assert_int_equal(sluice_ack(s, queue, &token, 1, NULL, NULL), SLUICE_OK);
    sluice_batch_free(b);
    return number;
}

static void await_blocked(struct sluice *s, size_t count)
{
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    while (blocked_sends_count(s->engine, "full") != count)
        if (clock_boot_ms() > give_up)
            fail_msg("%zu are blocked", blocked_sends_count(s->engine, "full"));
}

static size_t count_threads(void)
{
    size_t count = 0;
    DIR *d = opendir("/proc/self/task");
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        count += e->d_name[0] != '.';
    (void)closedir(d);
    return count;
}

// The first call ever to a queue has to open it.
static void is_served(struct sluice *s, const char *queue)
{
    struct call send, receive;
    int64_t began = clock_boot_ms();
    send_async(s, queue, 7, &send);
    call_wait(&send);
    assert_int_equal(send.code, SLUICE_OK);
    call_init(&receive);
    async_receive(s->engine, queue, &(struct sluice_receive){.worker = "w", .wait_ms = 100},
                  &receive.async);
    call_wait(&receive);
    assert_int_equal(receive.batch->len, 1);
    assert_true(clock_boot_ms() - began < AT_ONCE);
    call_done(&send);
    call_done(&receive);
}

static void blocked_sends_cost_no_threads_and_come_in_order(void **state)
{
    (void)state;
    struct sluice *s = open_store(2 * DEADLINE_MS);
    static struct call calls[CROWD];
    create(s, "full", "4");
    create(s, "free", "100");
    size_t before = count_threads();
    for (int i = 0; i < 4; i++) {
        send_async(s, "full", CROWD, &calls[0]);
        call_wait(&calls[0]);
        call_done(&calls[0]);
    }
    for (int i = 0; i < CROWD; i++)
        send_async(s, "full", i, &calls[i]);
    await_blocked(s, CROWD);
    is_served(s, "free");
    assert_in_range(count_threads(), 0, before + 31);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(calls[i].answers, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(take_one(s, "full", DEADLINE_MS), CROWD);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(take_one(s, "full", DEADLINE_MS), i);
    for (int i = 0; i < CROWD; i++) {
        call_wait(&calls[i]);
        assert_int_equal(calls[i].code, SLUICE_OK);
        call_done(&calls[i]);
    }
    sluice_close(s);
}

static void a_blocked_send_ends_with_its_time(void **state)
{
    (void)state;
    enum { TIMEOUT_MS = 400, FEW = 60 };
    struct sluice *s = open_store(TIMEOUT_MS);
    static struct call calls[FEW];
    create(s, "full", "1");
    send_async(s, "full", 0, &calls[0]);
    call_wait(&calls[0]);
    assert_int_equal(calls[0].code, SLUICE_OK);
    int64_t began = clock_boot_ms();
    for (int i = 1; i < FEW; i++)
        send_async(s, "full", i, &calls[i]);
    for (int i = 1; i < FEW; i++) {
        call_wait(&calls[i]);
        assert_int_equal(calls[i].code, SLUICE_LIMIT);
        assert_int_equal(calls[i].sent[0].code, SLUICE_LIMIT);
        assert_string_equal(calls[i].error.reason, "queue-full");
    }
    assert_true(clock_boot_ms() - began >= TIMEOUT_MS - 50);
    assert_true(clock_boot_ms() - began < TIMEOUT_MS + AT_ONCE);
    for (int i = 0; i < FEW; i++)
        call_done(&calls[i]);
    assert_int_equal(take_one(s, "full", 0), 0);
    assert_int_equal(take_one(s, "full", 0), -1);
    sluice_close(s);
}

static uint64_t sent_in_all(struct sluice *s, const char *queue)
{
    struct sluice_stats stats;
    assert_int_equal(sluice_stats(s, queue, &stats, NULL), SLUICE_OK);
    return stats.sent;
}

// Both ways to send, and both ways to be refused: as a whole, and in part.
static void sent_again(struct sluice *s, const char *queue, size_t count, bool async)
{
    struct sluice_request id = {{0x77, (uint8_t)count, async}};
    struct sluice_send three[] = {
        {.body = "1", .body_len = 1}, {.body = "2", .body_len = 1}, {.body = "3", .body_len = 1}};
    struct call first, again;
    for (size_t i = count; i < 3; i++)
        assert_int_equal(take_one(s, queue, 0) >= 0, true); // room for a part of them
    uint64_t before = sent_in_all(s, queue);
    call_init(&first);
    async_send(s->engine, queue, three, 3, &id, &first.async);
    for (int i = 0; i < 3; i++)
        assert_true(take_one(s, queue, DEADLINE_MS) >= 0);
    call_wait(&first);
    assert_int_equal(first.code, SLUICE_OK);
    assert_int_equal(sent_in_all(s, queue), before + 3);
    for (int i = 0; i < 3; i++)
        (void)take_one(s, queue, 0);
    call_init(&again);
    if (async) {
        async_send(s->engine, queue, three, 3, &id, &again.async);
        call_wait(&again);
    } else {
        assert_int_equal(sluice_send(s, queue, three, 3, &id, again.sent, NULL), SLUICE_OK);
    }
    for (int i = 0; i < 3; i++)
        assert_string_equal(again.sent[i].id, first.sent[i].id);
    assert_int_equal(sent_in_all(s, queue), before + 3);
    call_done(&first);
    call_done(&again);
}

static void a_blocked_send_that_is_made_again_arrives_once(void **state)
{
    (void)state;
    struct sluice *s = open_store(2 * DEADLINE_MS);
    for (size_t count = 1; count <= 3; count++)
        for (int async = 0; async < 2; async++) {
            char queue[16];
            struct sluice_send fill = {.body = "0", .body_len = 1};
            (void)snprintf(queue, sizeof queue, "full%zu%d", count, async);
            create(s, queue, "3");
            for (int i = 0; i < 3; i++)
                assert_int_equal(sluice_send(s, queue, &fill, 1, NULL, NULL, NULL), SLUICE_OK);
            sent_again(s, queue, count, async != 0);
        }
    sluice_close(s);
}

static void closing_ends_what_is_blocked(void **state)
{
    (void)state;
    struct sluice *s = open_store(2 * DEADLINE_MS);
    struct call calls[2];
    create(s, "full", "1");
    for (int i = 0; i < 2; i++) {
        send_async(s, "full", i, &calls[i]);
        if (i == 0) call_wait(&calls[i]);
    }
    await_blocked(s, 1);
    int64_t began = clock_boot_ms();
    sluice_close(s);
    assert_true(clock_boot_ms() - began < AT_ONCE);
    call_wait(&calls[1]);
    assert_int_equal(calls[1].code, SLUICE_LIMIT);
    for (int i = 0; i < 2; i++)
        call_done(&calls[i]);
}

static void sick_queues_leave_threads_for_others(void **state)
{
    (void)state;
    enum { SICK = 6 };
    struct store *g = store_gate_new();
    struct sluice *s;
    struct sluice_error error = {.message = ""};
    static struct call calls[SICK][CROWD];
    char queue[SICK][16];
    if (handle_open_take(g, "test:", NULL, &s, &error)) fail_msg("%s", error.message);
    for (int q = 0; q < SICK; q++) {
        (void)snprintf(queue[q], sizeof queue[q], "sick%d", q);
        create(s, queue[q], "1000");
    }
    create(s, "well", "100");
    store_gate_close(g, true);
    for (int q = 0; q < SICK; q++)
        for (int i = 0; i < CROWD; i++)
            send_async(s, queue[q], i, &calls[q][i]);
    is_served(s, "well");
    store_gate_close(g, false);
    for (int q = 0; q < SICK; q++)
        for (int i = 0; i < CROWD; i++) {
            call_wait(&calls[q][i]);
            assert_int_equal(calls[q][i].code, SLUICE_OK);
            call_done(&calls[q][i]);
        }
    sluice_close(s);
}

// The polls came while the queue was opened. From then on they wait at its runners, without a
// thread.
static void polls_of_a_queue_that_is_being_opened_wait_at_its_runners(void **state)
{
    (void)state;
    struct store *g = store_gate_new();
    struct sluice *s;
    struct sluice_error error = {.message = ""};
    static struct call calls[CROWD];
    if (handle_open_take(g, "test:", NULL, &s, &error)) fail_msg("%s", error.message);
    create(s, "sick", "1000");
    store_gate_close(g, true);
    for (int i = 0; i < CROWD; i++) {
        call_init(&calls[i]);
        async_receive(s->engine, "sick",
                      &(struct sluice_receive){.worker = "w", .wait_ms = DEADLINE_MS},
                      &calls[i].async);
    }
    store_gate_close(g, false);
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    size_t waiting = 0;
    while (waiting < CROWD) {
        CLEANUP(queue_let_go) struct open_queue *q = NULL;
        assert_int_equal(queue_get(s->engine, "sick", &q, NULL), SLUICE_OK);
        struct shard_runner *r = runner_if_open(q, 0);
        waiting = r ? runner_waiting(r) : 0;
        if (clock_boot_ms() > give_up) fail_msg("%zu wait at the runner", waiting);
    }
    for (int i = 0; i < CROWD; i += 2)
        async_cancel(s->engine, &calls[i].async);
    for (int i = 0; i < CROWD; i += 2)
        call_wait(&calls[i]); // the thread that began it may still have to end it
    for (int i = 1; i < CROWD; i += 2) {
        struct sluice_send m = {.body = "x", .body_len = 1};
        assert_int_equal(sluice_send(s, "sick", &m, 1, NULL, NULL, NULL), SLUICE_OK);
    }
    for (int i = 0; i < CROWD; i++) {
        call_wait(&calls[i]);
        assert_int_equal(calls[i].batch->len, i % 2);
        call_done(&calls[i]);
    }
    sluice_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocked_sends_cost_no_threads_and_come_in_order),
        cmocka_unit_test(a_blocked_send_ends_with_its_time),
        cmocka_unit_test(a_blocked_send_that_is_made_again_arrives_once),
        cmocka_unit_test(closing_ends_what_is_blocked),
        cmocka_unit_test(sick_queues_leave_threads_for_others),
        cmocka_unit_test(polls_of_a_queue_that_is_being_opened_wait_at_its_runners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
