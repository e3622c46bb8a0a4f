// SPDX-License-Identifier: Apache-2.0
// Asynchronous calls at a runner: each is answered once, however many there are.
#include "../support/fault_store.h"
#include "../unit/unit.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "queue/codec/result.h"
#include "runner/runner.h"
#include "store/mem.h"
#include "store/meter.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define PATIENCE_MS 30000

struct room {
    struct store *store;
    struct shard_runner *runner;
    _Atomic uint32_t sends;     // answered
    _Atomic uint32_t receives;  // answered
    _Atomic uint32_t delivered; // messages
};

struct sim_call {
    struct runner_async async;
    struct room *room;
};

static int set_up(void **state)
{
    struct room *r = NEW(struct room);
    struct runner_config config = {.queue = "q"};
    config_defaults(&config.birth);
    memcpy(config.id.queue, "later", 5);
    r->store = store_meter_take(store_mem_new());
    assert_int_equal(runner_open(r->store, &config, &r->runner), ERR_OK);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    struct room *r = *state;
    runner_close(r->runner);
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

static void sent(struct runner_async *async, enum err err, struct kept_reply *a)
{
    struct sim_call *e = (struct sim_call *)async;
    struct room *r = e->room;
    struct result result;
    assert_int_equal(err, ERR_OK);
    assert_int_equal(result_open(buf_bytes(&a->body), OP_SEND, &result), ERR_OK);
    memory_free(e);
    atomic_fetch_add(&r->sends, 1);
}

static void received(struct runner_async *async, enum err err, struct kept_reply *a)
{
    struct sim_call *e = (struct sim_call *)async;
    struct room *r = e->room;
    assert_int_equal(err, ERR_OK);
    atomic_fetch_add(&r->delivered, (uint32_t)a->deliveries_len);
    memory_free(e);
    atomic_fetch_add(&r->receives, 1);
}

static struct sim_call *sim_call_new(struct room *r, void (*then)(struct runner_async *, enum err,
                                                                  struct kept_reply *))
{
    struct sim_call *e = NEW(struct sim_call);
    e->room = r;
    e->async.then = then;
    return e;
}

static void send_async_then(struct room *r, uint32_t count,
                            void (*then)(struct runner_async *, enum err, struct kept_reply *))
{
    CLEANUP(buf_done) struct buf payload;
    struct request_id id;
    entropy_fill(id.bytes, sizeof id.bytes);
    buf_init(&payload, JOURNAL_OP_MAX);
    send_begin(&payload, &id);
    for (uint32_t i = 0; i < count; i++)
        send_add(&payload, &(struct message){.body = bytes_str("work")});
    send_end(&payload, 0, count);
    runner_do_async(r->runner, (struct op){OP_SEND, buf_bytes(&payload)},
                    &sim_call_new(r, then)->async);
}

static void send_async(struct room *r, uint32_t count)
{
    send_async_then(r, count, sent);
}

static struct sim_call *receive_async(struct room *r, uint32_t max, int64_t wait_ms)
{
    struct sim_call *e = sim_call_new(r, received);
    struct op_claim claim = {.worker = bytes_str("w"), .max = max};
    entropy_fill(claim.seed, sizeof claim.seed);
    entropy_fill(claim.request.bytes, sizeof claim.request.bytes);
    runner_receive_async(r->runner, &claim, wait_ms, &e->async);
    return e;
}

static void await_waiting(struct room *r, size_t wanted)
{
    int64_t give_up = clock_boot_ms() + PATIENCE_MS;
    while (runner_waiting(r->runner) != wanted && clock_boot_ms() < give_up)
        (void)sched_yield();
    assert_int_equal(runner_waiting(r->runner), wanted);
}

#define THREADS 4
#define OPS     500

static void *send_many(void *arg)
{
    for (int i = 0; i < OPS; i++)
        send_async(arg, 2);
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
        (void)receive_async(r, 10, 0);
    await(&r->receives, THREADS * OPS / 5);
    assert_int_equal(r->delivered, THREADS * OPS * 2);
}

static void a_send_wakes_as_many_waiters_as_it_has_messages_for(void **state)
{
    enum { WAITERS = 2000 };
    struct room *r = *state;
    struct sim_call *waiters[WAITERS];
    for (int i = 0; i < WAITERS; i++)
        waiters[i] = receive_async(r, 1, 600000);
    await_waiting(r, WAITERS);
    send_async(r, 3);
    await(&r->receives, 3);
    await_waiting(r, WAITERS - 3);
    assert_int_equal(r->delivered, 3);
    int cancelled = 0;
    for (int i = 3; i < WAITERS; i++) { // first come first served
        assert_true(runner_cancel(r->runner, &waiters[i]->async));
        memory_free(waiters[i]);
        cancelled++;
    }
    assert_int_equal(cancelled, WAITERS - 3);
    assert_int_equal(runner_waiting(r->runner), 0);
}

static void a_cancelled_receive_is_given_nothing(void **state)
{
    struct room *r = *state;
    struct sim_call *gone = receive_async(r, 1, 600000);
    await_waiting(r, 1);
    (void)receive_async(r, 1, 600000);
    await_waiting(r, 2);
    assert_true(runner_cancel(r->runner, &gone->async));
    memory_free(gone);
    send_async(r, 1);
    await(&r->receives, 1);
    assert_int_equal(r->delivered, 1);
}

static void a_wait_ends_empty_in_time(void **state)
{
    struct room *r = *state;
    (void)receive_async(r, 1, 20);
    await(&r->receives, 1);
    assert_int_equal(r->delivered, 0);
}

struct awaiting {
    struct runner_async async;
    _Atomic uint32_t ended;
    enum err err;
};

static void await_ended(struct runner_async *async, enum err err, struct kept_reply *a)
{
    struct awaiting *w = (struct awaiting *)async;
    (void)a;
    w->err = err;
    atomic_store(&w->ended, 1);
}

static void an_await_is_notified_and_claims_nothing(void **state)
{
    struct room *r = *state;
    struct awaiting first = {.async.then = await_ended}, second = first, late = first;
    runner_await_async(r->runner, bytes_str("w"), 600000, &first.async);
    await_waiting(r, 1);
    runner_await_async(r->runner, bytes_str("w"), 600000, &second.async);
    await_waiting(r, 2);
    send_async(r, 1);
    await(&first.ended, 1);
    assert_int_equal(first.err, ERR_OK);
    if (!runner_cancel(r->runner, &second.async)) await(&second.ended, 1);
    (void)receive_async(r, 1, 0);
    await(&r->receives, 1);
    assert_int_equal(r->delivered, 1); // it was still there
    runner_await_async(r->runner, bytes_str("w"), 20, &late.async);
    await(&late.ended, 1);
    assert_int_equal(late.err, ERR_NOT_FOUND);
}

static uint64_t entries_written(const struct room *r)
{
    struct meter_snapshot seen;
    store_meter_read(r->store, &seen);
    return seen.kind[METER_APPEND].requests;
}

static void sent_and_sends(struct runner_async *async, enum err err, struct kept_reply *a)
{
    struct room *r = ((struct sim_call *)async)->room;
    for (int i = 0; i < 5; i++)
        send_async(r, 1);
    sent(async, err, a);
}

// A caller that is answered and sends again at once does so before the next entry is made.
static void what_answered_callers_send_shares_an_entry(void **state)
{
    struct room *r = *state;
    send_async(r, 1);
    await(&r->sends, 1);
    uint64_t before = entries_written(r);
    send_async_then(r, 1, sent_and_sends);
    await(&r->sends, 1 + 1 + 5);
    assert_int_equal(entries_written(r) - before, 2);
}

#define ALWAYS  10000 // hundredths of a percent
#define SLOW_MS 50
#define SOON_MS 5000

static int set_up_slow(void **state)
{
    struct room *r = NEW(struct room);
    struct runner_config config = {.queue = "q"};
    struct fault_options slow = {.slow = ALWAYS, .slow_ms = SLOW_MS};
    config_defaults(&config.birth);
    memcpy(config.id.queue, "later", 5);
    r->store = store_fault_take(store_mem_new(), &slow);
    assert_int_equal(runner_open(r->store, &config, &r->runner), ERR_OK);
    *state = r;
    return 0;
}

// The second claim is in the queue while the entry of the first one is written. It then needs no
// entry: there is nothing left to claim.
static void a_claim_that_needs_no_entry_is_answered_at_once(void **state)
{
    struct room *r = *state;
    send_async(r, 1);
    await(&r->sends, 1);
    int64_t begun = clock_boot_ms();
    (void)receive_async(r, 1, 0);
    (void)receive_async(r, 1, 0);
    await(&r->receives, 2);
    assert_int_equal(r->delivered, 1);
    assert_in_range(clock_boot_ms() - begun, 0, SOON_MS);
}

static void read_times(void *ctx, const struct journal *j, const struct machine *m, int64_t now)
{
    int64_t *times = ctx;
    (void)now;
    times[0] = journal_time(j);
    times[1] = machine_wake_at(m);
}

// Before the mailboxes were listed after a deadline, no entry has a later time than the deadline
// (mailbox/limit.h): nor one that waited for the answer of another.
static void an_entry_that_waited_has_the_time_of_its_shard(void **state)
{
    struct room *r = *state;
    int64_t times[2], due;
    send_async(r, 1);
    await(&r->sends, 1);
    struct op_claim claim = {.worker = bytes_str("w"), .max = 1, .lease_ms = 300};
    entropy_fill(claim.seed, sizeof claim.seed);
    runner_receive_async(r->runner, &claim, 0, &sim_call_new(r, received)->async);
    await(&r->receives, 1);
    runner_read_journal(r->runner, read_times, times);
    due = times[1];
    runner_listed(r->runner, times[0]);
    while (runner_time(r->runner).lo <= due)
        (void)sched_yield();
    send_async(r, 1);
    send_async(r, 1); // while the entry of the first one is written
    await(&r->sends, 3);
    runner_read_journal(r->runner, read_times, times);
    assert_in_range(times[0], 1, due - 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(ops_of_many_threads_are_answered_once_each),
        CASE(a_send_wakes_as_many_waiters_as_it_has_messages_for),
        CASE(a_cancelled_receive_is_given_nothing),
        CASE(a_wait_ends_empty_in_time),
        CASE(an_await_is_notified_and_claims_nothing),
        CASE(what_answered_callers_send_shares_an_entry),
        cmocka_unit_test_setup_teardown(a_claim_that_needs_no_entry_is_answered_at_once,
                                        set_up_slow, tear_down),
        cmocka_unit_test_setup_teardown(an_entry_that_waited_has_the_time_of_its_shard, set_up_slow,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
