// SPDX-License-Identifier: Apache-2.0
// Asynchronous calls: each is answered once, cancelling is final, and nothing is lost by it.
#include "ops/async.h"
#include "api/handle.h"

#include "../conformance/store/support.h"
#include "../support/calls.h"
#include "../unit/unit.h"
#include "os/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CROWD 1000

static struct sluice *open_store(void)
{
    struct sluice *s;
    assert_int_equal(sluice_open("mem:", NULL, &s, NULL), SLUICE_OK);
    assert_int_equal(sluice_queue_create(s, "tasks", NULL, 0, NULL), SLUICE_OK);
    return s;
}

static void send_text(struct sluice *s, const char *text)
{
    struct sluice_send m = {.body = text, .body_len = strlen(text)};
    assert_int_equal(sluice_send(s, "tasks", &m, 1, NULL, NULL, NULL), SLUICE_OK);
}

static void a_send_is_answered_with_a_row_for_each(void **state)
{
    (void)state;
    struct sluice *s = open_store();
    struct call c;
    call_init(&c);
    char body[8] = "first", group[8] = "g";
    struct sluice_send two[] = {{.body = body, .body_len = 5, .group = group},
                                {.body = "second", .body_len = 6}};
    async_send(s->engine, "tasks", two, 2, NULL, &c.async);
    memset(body, 0, sizeof body); // the arguments were borrowed for the call only
    memset(group, 0, sizeof group);
    call_wait(&c);
    assert_int_equal(c.code, SLUICE_OK);
    assert_int_equal(c.len, 2);
    struct sluice_batch *b;
    assert_int_equal(sluice_show(s, "tasks", c.sent[0].id, &b, NULL), SLUICE_OK);
    assert_string_equal(b->messages[0].body, "first");
    assert_string_equal(b->messages[0].group, "g");
    sluice_batch_free(b);
    call_done(&c);
    sluice_close(s);
}

static void a_call_that_comes_to_nothing_says_why(void **state)
{
    (void)state;
    struct sluice *s = open_store();
    struct call send, settle, receive;
    call_init(&send);
    call_init(&settle);
    call_init(&receive);
    const char *token = "x";
    async_send(s->engine, "nothing", &(struct sluice_send){.body = "x", .body_len = 1}, 1, NULL,
               &send.async);
    async_settle(s->engine, "nothing",
                 &(struct settle){.kind = SETTLE_ACK, .tokens = &token, .len = 1}, &settle.async);
    async_receive(s->engine, "nothing", &(struct sluice_receive){.wait_ms = 10000}, &receive.async);
    call_wait(&send);
    call_wait(&settle);
    call_wait(&receive);
    assert_int_equal(send.code, SLUICE_NOT_FOUND);
    assert_int_equal(settle.code, SLUICE_NOT_FOUND);
    assert_int_equal(settle.len, 0);
    assert_string_equal(settle.error.field, "queue");
    assert_int_equal(receive.code, SLUICE_NOT_FOUND);
    assert_null(receive.batch);
    call_done(&send);
    call_done(&settle);
    call_done(&receive);
    sluice_close(s);
}

static void a_receive_waits_and_is_settled(void **state)
{
    (void)state;
    struct sluice *s = open_store();
    struct call receive, ack;
    call_init(&receive);
    call_init(&ack);
    async_receive(s->engine, "tasks",
                  &(struct sluice_receive){.wait_ms = DEADLINE_MS, .worker = "w"}, &receive.async);
    send_text(s, "work");
    call_wait(&receive);
    assert_int_equal(receive.batch->len, 1);
    assert_string_equal(receive.batch->messages[0].body, "work");
    const char *tokens[] = {receive.batch->messages[0].token, "nonsense"};
    async_settle(s->engine, "tasks",
                 &(struct settle){.kind = SETTLE_ACK, .tokens = tokens, .len = 2}, &ack.async);
    call_wait(&ack);
    assert_int_equal(ack.code, SLUICE_INVALID);
    assert_int_equal(ack.len, 2);
    assert_string_equal(ack.outcomes[0].status, "processed");
    assert_int_equal(ack.outcomes[1].code, SLUICE_INVALID);
    async_cancel(s->engine, &receive.async); // long over
    assert_int_equal(receive.answers, 1);
    call_done(&receive);
    call_done(&ack);
    sluice_close(s);
}

// Whenever the cancel meets the message: either it was given and is answered, or it stays.
static void a_cancelled_receive_is_answered_at_once_and_loses_nothing(void **state)
{
    (void)state;
    struct sluice *s = open_store();
    for (int i = 0; i < 200; i++) {
        struct call c;
        call_init(&c);
        async_receive(s->engine, "tasks",
                      &(struct sluice_receive){.wait_ms = DEADLINE_MS, .worker = "w"}, &c.async);
        if (i % 2 == 0) send_text(s, "x");
        async_cancel(s->engine, &c.async);
        call_wait(&c); // long before its wait is over
        bool nothing = c.batch->len == 0;
        if (i % 2 != 0) {
            assert_true(nothing);
            send_text(s, "x");
        }
        struct sluice_batch *b = c.batch;
        if (nothing) {
            struct sluice_receive ask = {.wait_ms = DEADLINE_MS, .worker = "other"};
            assert_int_equal(sluice_receive(s, "tasks", &ask, &b, NULL), SLUICE_OK);
        }
        assert_int_equal(b->len, 1);
        assert_int_equal(b->messages[0].retries, 0);
        const char *token = b->messages[0].token;
        assert_int_equal(sluice_ack(s, "tasks", &token, 1, NULL, NULL), SLUICE_OK);
        if (nothing) sluice_batch_free(b);
        call_done(&c);
    }
    sluice_close(s);
}

// What is ready still.
static size_t receive_rest(struct sluice *s)
{
    size_t count = 0, len;
    do {
        struct sluice_batch *b;
        assert_int_equal(sluice_receive(s, "tasks", NULL, &b, NULL), SLUICE_OK);
        len = b->len;
        count += len;
        sluice_batch_free(b);
    } while (len > 0);
    return count;
}

static void a_crowd_waits_and_ends_in_time(void **state)
{
    (void)state;
    struct sluice *s = open_store();
    static struct call calls[CROWD];
    int64_t began = clock_boot_ms();
    for (int i = 0; i < CROWD; i++) {
        call_init(&calls[i]);
        async_receive(s->engine, "tasks", &(struct sluice_receive){.wait_ms = 500, .worker = "w"},
                      &calls[i].async);
    }
    send_text(s, "one");
    size_t given = 0;
    for (int i = 0; i < CROWD; i++) {
        call_wait(&calls[i]);
        assert_int_equal(calls[i].code, SLUICE_OK);
        given += calls[i].batch->len;
        call_done(&calls[i]);
    }
    assert_true(clock_boot_ms() - began >= 499);
    assert_int_equal(given + receive_rest(s), 1); // on a busy machine they may have left before it
    sluice_close(s);
}

#define SHARDS "4"

static struct sluice *open_sharded(void)
{
    struct sluice *s;
    struct sluice_setting shards = {"shards", SHARDS};
    struct sluice_batch *b;
    assert_int_equal(sluice_open("mem:", NULL, &s, NULL), SLUICE_OK);
    assert_int_equal(sluice_queue_create(s, "tasks", &shards, 1, NULL), SLUICE_OK);
    assert_int_equal(sluice_receive(s, "tasks", NULL, &b, NULL), SLUICE_OK); // opens every runner
    assert_int_equal(b->len, 0);
    sluice_batch_free(b);
    return s;
}

static void all_shards_are_waited_in_at_once(void **state)
{
    (void)state;
    struct sluice *s = open_sharded();
    for (int i = 0; i < 40; i++) { // whichever shard it falls into
        struct call c;
        call_init(&c);
        int64_t began = clock_boot_ms();
        async_receive(s->engine, "tasks",
                      &(struct sluice_receive){.wait_ms = DEADLINE_MS, .worker = "w"}, &c.async);
        send_text(s, "x");
        call_wait(&c);
        assert_true(clock_boot_ms() - began < DEADLINE_MS / 2);
        assert_int_equal(c.batch->len, 1);
        const char *token = c.batch->messages[0].token;
        assert_int_equal(sluice_ack(s, "tasks", &token, 1, NULL, NULL), SLUICE_OK);
        call_done(&c);
    }
    sluice_close(s);
}

static void a_crowd_at_several_shards_shares_what_comes(void **state)
{
    (void)state;
    enum { MESSAGES = 300 };
    struct sluice *s = open_sharded();
    static struct call calls[CROWD];
    for (int i = 0; i < CROWD; i++) {
        call_init(&calls[i]);
        async_receive(s->engine, "tasks", &(struct sluice_receive){.wait_ms = 2000, .worker = "w"},
                      &calls[i].async);
    }
    for (int i = 0; i < MESSAGES; i++)
        send_text(s, "x"); // some of them too late, where that takes its time
    size_t given = 0;
    for (int i = 0; i < CROWD; i++) {
        call_wait(&calls[i]);
        assert_int_equal(calls[i].code, SLUICE_OK);
        given += calls[i].batch->len;
        call_done(&calls[i]);
    }
    assert_true(given > 0);
    assert_int_equal(given + receive_rest(s), MESSAGES);
    sluice_close(s);
}

struct mob {
    struct sluice *s;
    _Atomic int got;
    _Atomic bool over;
};

// Receives, and now and then changes its mind at once or a little later.
static void *restless(void *arg)
{
    struct mob *m = arg;
    for (unsigned i = 0; !atomic_load(&m->over); i++) {
        struct call c;
        call_init(&c);
        async_receive(m->s->engine, "tasks", &(struct sluice_receive){.wait_ms = 50, .worker = "w"},
                      &c.async);
        for (unsigned spin = 0; spin < i % 7; spin++)
            (void)sched_yield();
        if (i % 3 == 0) async_cancel(m->s->engine, &c.async);
        call_wait(&c);
        if (c.batch && c.batch->len > 0) {
            const char *token = c.batch->messages[0].token;
            assert_int_equal(sluice_ack(m->s, "tasks", &token, 1, NULL, NULL), SLUICE_OK);
            atomic_fetch_add(&m->got, 1);
        }
        call_done(&c);
    }
    return NULL;
}

static void changing_ones_mind_at_several_shards_loses_nothing(void **state)
{
    (void)state;
    enum { MESSAGES = 600, THREADS = 6 };
    struct mob m = {.s = open_sharded()};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, restless, &m), 0);
    for (int i = 0; i < MESSAGES; i++)
        send_text(m.s, "x");
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    while (atomic_load(&m.got) < MESSAGES && clock_boot_ms() < give_up)
        (void)sched_yield();
    atomic_store(&m.over, true);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    assert_int_equal(m.got, MESSAGES);
    struct sluice_stats stats;
    assert_int_equal(sluice_stats(m.s, "tasks", &stats, NULL), SLUICE_OK);
    assert_int_equal(stats.processed, MESSAGES);
    assert_int_equal(stats.locked, 0);
    sluice_close(m.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_send_is_answered_with_a_row_for_each),
        cmocka_unit_test(a_call_that_comes_to_nothing_says_why),
        cmocka_unit_test(a_receive_waits_and_is_settled),
        cmocka_unit_test(a_cancelled_receive_is_answered_at_once_and_loses_nothing),
        cmocka_unit_test(a_crowd_waits_and_ends_in_time),
        cmocka_unit_test(all_shards_are_waited_in_at_once),
        cmocka_unit_test(a_crowd_at_several_shards_shares_what_comes),
        cmocka_unit_test(changing_ones_mind_at_several_shards_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
