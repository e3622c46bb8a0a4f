// SPDX-License-Identifier: Apache-2.0
// Calls at a desk that nobody waits for: each is answered once, however many there are.
#include "../unit/unit.h"
#include "base/memory.h"
#include "node/desk.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "queue/result.h"
#include "store/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define PATIENCE_MS 30000

struct room {
    struct store *store;
    struct desk *desk;
    _Atomic uint32_t sends;     // answered
    _Atomic uint32_t receives;  // answered
    _Atomic uint32_t delivered; // messages
};

struct errand {
    struct desk_later later;
    struct room *room;
};

static int set_up(void **state)
{
    struct room *r = NEW(struct room);
    struct desk_config config = {.queue = "q"};
    config_defaults(&config.birth);
    memcpy(config.id.queue, "later", 5);
    r->store = store_mem_new();
    assert_int_equal(desk_open(r->store, &config, &r->desk), ERR_OK);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    struct room *r = *state;
    desk_close(r->desk);
    store_free(r->store);
    memory_free(r);
    return 0;
}

static void await(_Atomic uint32_t *count, uint32_t wanted)
{
    int64_t give_up = clock_boot_ms() + PATIENCE_MS;
    while (atomic_load(count) < wanted && clock_boot_ms() < give_up)
        (void)sched_yield();
    assert_int_equal(atomic_load(count), wanted);
}

static void sent(struct desk_later *l, enum err err, struct desk_answer *a)
{
    struct errand *e = (struct errand *)l;
    struct room *r = e->room;
    struct result result;
    assert_int_equal(err, ERR_OK);
    assert_int_equal(result_open(buf_bytes(&a->body), OP_SEND, &result), ERR_OK);
    memory_free(e);
    atomic_fetch_add(&r->sends, 1);
}

static void received(struct desk_later *l, enum err err, struct desk_answer *a)
{
    struct errand *e = (struct errand *)l;
    struct room *r = e->room;
    assert_int_equal(err, ERR_OK);
    atomic_fetch_add(&r->delivered, (uint32_t)a->deliveries_len);
    memory_free(e);
    atomic_fetch_add(&r->receives, 1);
}

static struct errand *errand_new(struct room *r,
                                 void (*then)(struct desk_later *, enum err, struct desk_answer *))
{
    struct errand *e = NEW(struct errand);
    e->room = r;
    e->later.then = then;
    return e;
}

static void send_later(struct room *r, uint32_t count)
{
    CLEANUP(buf_done) struct buf payload;
    struct request_id id;
    entropy_fill(id.bytes, sizeof id.bytes);
    buf_init(&payload, JOURNAL_OP_MAX);
    send_begin(&payload, &id);
    for (uint32_t i = 0; i < count; i++)
        send_add(&payload, &(struct message){.body = bytes_str("work")});
    send_end(&payload, 0, count);
    desk_do_later(r->desk, (struct op){OP_SEND, buf_bytes(&payload)}, &errand_new(r, sent)->later);
}

static struct errand *receive_later(struct room *r, uint32_t max, int64_t wait_ms)
{
    struct errand *e = errand_new(r, received);
    struct op_claim claim = {.worker = bytes_str("w"), .max = max};
    entropy_fill(claim.seed, sizeof claim.seed);
    entropy_fill(claim.request.bytes, sizeof claim.request.bytes);
    desk_receive_later(r->desk, &claim, wait_ms, &e->later);
    return e;
}

static void await_waiting(struct room *r, size_t wanted)
{
    int64_t give_up = clock_boot_ms() + PATIENCE_MS;
    while (desk_waiting(r->desk) != wanted && clock_boot_ms() < give_up)
        (void)sched_yield();
    assert_int_equal(desk_waiting(r->desk), wanted);
}

#define THREADS 4
#define OPS     500

static void *send_many(void *arg)
{
    for (int i = 0; i < OPS; i++)
        send_later(arg, 2);
    return NULL;
}

static void ops_of_many_threads_are_answered_once_each(void **state)
{
    struct room *r = *state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_many, r), 0);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    await(&r->sends, THREADS * OPS);
    for (int i = 0; i < THREADS * OPS / 5; i++)
        (void)receive_later(r, 10, 0);
    await(&r->receives, THREADS * OPS / 5);
    assert_int_equal(r->delivered, THREADS * OPS * 2);
}

static void a_send_wakes_as_many_waiters_as_it_has_messages_for(void **state)
{
    enum { WAITERS = 2000 };
    struct room *r = *state;
    struct errand *waiters[WAITERS];
    for (int i = 0; i < WAITERS; i++)
        waiters[i] = receive_later(r, 1, 600000);
    await_waiting(r, WAITERS);
    send_later(r, 3);
    await(&r->receives, 3);
    await_waiting(r, WAITERS - 3);
    assert_int_equal(r->delivered, 3);
    int cancelled = 0;
    for (int i = 3; i < WAITERS; i++) { // first come first served
        assert_true(desk_cancel(r->desk, &waiters[i]->later));
        memory_free(waiters[i]);
        cancelled++;
    }
    assert_int_equal(cancelled, WAITERS - 3);
    assert_int_equal(desk_waiting(r->desk), 0);
}

static void a_cancelled_receive_is_given_nothing(void **state)
{
    struct room *r = *state;
    struct errand *gone = receive_later(r, 1, 600000);
    await_waiting(r, 1);
    (void)receive_later(r, 1, 600000);
    await_waiting(r, 2);
    assert_true(desk_cancel(r->desk, &gone->later));
    memory_free(gone);
    send_later(r, 1);
    await(&r->receives, 1);
    assert_int_equal(r->delivered, 1);
}

static void a_wait_ends_empty_in_time(void **state)
{
    struct room *r = *state;
    (void)receive_later(r, 1, 20);
    await(&r->receives, 1);
    assert_int_equal(r->delivered, 0);
}

struct awaiting {
    struct desk_later later;
    _Atomic uint32_t ended;
    enum err err;
};

static void await_ended(struct desk_later *l, enum err err, struct desk_answer *a)
{
    struct awaiting *w = (struct awaiting *)l;
    (void)a;
    w->err = err;
    atomic_store(&w->ended, 1);
}

static void one_who_awaits_is_told_and_takes_nothing(void **state)
{
    struct room *r = *state;
    struct awaiting first = {.later.then = await_ended}, second = first, late = first;
    desk_await_later(r->desk, bytes_str("w"), 600000, &first.later);
    await_waiting(r, 1);
    desk_await_later(r->desk, bytes_str("w"), 600000, &second.later);
    await_waiting(r, 2);
    send_later(r, 1);
    await(&first.ended, 1);
    assert_int_equal(first.err, ERR_OK);
    if (!desk_cancel(r->desk, &second.later)) await(&second.ended, 1);
    (void)receive_later(r, 1, 0);
    await(&r->receives, 1);
    assert_int_equal(r->delivered, 1); // it was still there
    desk_await_later(r->desk, bytes_str("w"), 20, &late.later);
    await(&late.ended, 1);
    assert_int_equal(late.err, ERR_NOT_FOUND);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(ops_of_many_threads_are_answered_once_each),
        CASE(a_send_wakes_as_many_waiters_as_it_has_messages_for),
        CASE(a_cancelled_receive_is_given_nothing),
        CASE(a_wait_ends_empty_in_time),
        CASE(one_who_awaits_is_told_and_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
