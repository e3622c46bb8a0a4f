// SPDX-License-Identifier: Apache-2.0
// Receives that are called off while they are on their way, by one or by two at once. Each of these
// is a race that was lost once: they are run often enough to lose it again.
#include "../conformance/store/support.h"
#include "../support/calls.h"
#include "../support/fault_store.h"
#include "../unit/unit.h"
#include "api/handle.h"
#include "ops/async.h"
#include "os/clock.h"
#include "store/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS  20000
#define TIME_MS 1500 // of one test, at most

static const struct sluice_receive patient = {.wait_ms = DEADLINE_MS, .worker = "w"};

static void linger(unsigned turns)
{
    for (unsigned i = 0; i < turns; i++)
        (void)sched_yield();
}

static void create(struct sluice *s, const char *shards)
{
    struct sluice_setting setting = {"shards", shards};
    assert_int_equal(sluice_queue_create(s, "tasks", &setting, 1, NULL), SLUICE_OK);
}

struct other {
    struct sluice *s;
    struct async_call *_Atomic async; // what to cancel; NULL: nothing at the moment
    _Atomic bool over;
};

static void *cancel_too(void *arg)
{
    struct other *o = arg;
    while (!atomic_load(&o->over)) {
        struct async_call *a = atomic_load(&o->async);
        if (!a) continue;
        async_cancel(o->s->engine, a);
        atomic_store(&o->async, NULL);
    }
    return NULL;
}

// As a client that hangs up and a node that stops do.
static void cancel_twice(const char *shards)
{
    struct other o = {0};
    struct sluice_batch *b;
    pthread_t thread;
    assert_int_equal(sluice_open("mem:", NULL, &o.s, NULL), SLUICE_OK);
    create(o.s, shards);
    assert_int_equal(sluice_receive(o.s, "tasks", NULL, &b, NULL), SLUICE_OK); // opens the runners
    sluice_batch_free(b);
    assert_int_equal(pthread_create(&thread, NULL, cancel_too, &o), 0);
    int64_t until = clock_boot_ms() + TIME_MS;
    for (int i = 0; i < ROUNDS && clock_boot_ms() < until; i++) {
        struct call c;
        call_init(&c);
        async_receive(o.s->engine, "tasks", &patient, &c.async);
        atomic_store(&o.async, &c.async);
        for (int spin = 0; spin < i % 64; spin++)
            (void)atomic_load(&o.async); // the other thread needs a moment to see it
        async_cancel(o.s->engine, &c.async);
        while (atomic_load(&o.async)) {
        }
        call_wait(&c); // long before its wait is over; it has one answer
        assert_int_equal(c.batch->len, 0);
        call_done(&c);
    }
    atomic_store(&o.over, true);
    (void)pthread_join(thread, NULL);
    sluice_close(o.s);
}

static void two_cancellations_give_one_answer(void **state)
{
    (void)state;
    cancel_twice("1");
}

static void two_cancellations_over_several_shards_give_one_answer(void **state)
{
    (void)state;
    cancel_twice("3");
}

// The first receive of a handle opens the queue, goes to its runner and finds a message there.
// The caller closes the handle as soon as the cancelled receive is answered.
static void cancel_and_close(const char *shards)
{
    char dir[SCRATCH_MAX];
    struct sluice *s;
    struct sluice_send m = {.body = "x", .body_len = 1};
    struct sluice_receive ask = patient;
    ask.visibility_ms = 1;
    scratch_make(dir);
    assert_int_equal(sluice_open(dir, NULL, &s, NULL), SLUICE_OK);
    create(s, shards);
    for (int i = 0; i < 50; i++)
        assert_int_equal(sluice_send(s, "tasks", &m, 1, NULL, NULL, NULL), SLUICE_OK);
    sluice_close(s);
    int64_t until = clock_boot_ms() + TIME_MS;
    for (unsigned i = 0; i < ROUNDS && clock_boot_ms() < until; i++) {
        struct call c;
        call_init(&c);
        assert_int_equal(sluice_open(dir, NULL, &s, NULL), SLUICE_OK);
        async_receive(s->engine, "tasks", &ask, &c.async);
        linger(i * 37 % 400);
        async_cancel(s->engine, &c.async);
        call_wait(&c);
        sluice_close(s);
        call_done(&c);
    }
    scratch_remove(dir);
}

static void a_handle_can_be_closed_when_its_receive_is_off(void **state)
{
    (void)state;
    cancel_and_close("1");
}

static void a_handle_can_be_closed_so_at_several_shards(void **state)
{
    (void)state;
    cancel_and_close("3");
}

// The answer may be an error: the store was asked and said nothing.
static void cancel_during_an_outage(const char *shards)
{
    static const struct fault_options well = {.seed = 1}, away = {.seed = 1, .lost_request = 10000};
    struct sluice *s;
    struct sluice_batch *b;
    struct call c;
    struct store *store = store_fault_take(store_mem_new(), &well);
    struct sluice_options options = {.timeout_ms = 4000};
    struct sluice_receive ask = {.wait_ms = 10 * DEADLINE_MS, .worker = "w"};
    assert_int_equal(handle_open_take(store, "mem:", &options, &s, NULL), SLUICE_OK);
    create(s, shards);
    SURELY(sluice_receive(s, "tasks", NULL, &b, NULL)); // opens the runners
    sluice_batch_free(b);
    store_fault_set(store, &away);
    call_init(&c);
    async_receive(s->engine, "tasks", &ask, &c.async);
    async_cancel(s->engine, &c.async);
    call_wait(&c); // long before its wait is over
    if (c.code) assert_int_equal(c.code, SLUICE_UNAVAILABLE);
    call_done(&c);
    int64_t began = clock_boot_ms();
    sluice_close(s); // what is left of the receive ends, too
    assert_in_range(clock_boot_ms() - began, 0, DEADLINE_MS);
}

static void a_cancelled_receive_ends_without_its_store(void **state)
{
    (void)state;
    cancel_during_an_outage("1");
}

static void a_handle_closes_without_its_store(void **state)
{
    (void)state;
    cancel_during_an_outage("3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_cancellations_give_one_answer),
        cmocka_unit_test(two_cancellations_over_several_shards_give_one_answer),
        cmocka_unit_test(a_handle_can_be_closed_when_its_receive_is_off),
        cmocka_unit_test(a_handle_can_be_closed_so_at_several_shards),
        cmocka_unit_test(a_cancelled_receive_ends_without_its_store),
        cmocka_unit_test(a_handle_closes_without_its_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
