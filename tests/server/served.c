// SPDX-License-Identifier: Apache-2.0
// Another process asks the owner of a shard for messages, and cancels too late: the shard already
// reads the tail of its journal. Then the owner finds nothing. That is no answer to the caller,
// whose own wait is not over.
#include "ops/served.h"
#include "../unit/unit.h"
#include "api/handle.h"
#include "gate_store.h"
#include "os/clock.h"

#include <string.h>
#include <time.h>

#define DEADLINE_MS 20000
#define BYTES_MAX   65536

struct owner_rig {
    struct sluice *s; // owns the queue "tasks"
    struct store *gate;
    struct open_queue *queue;
    struct shard_runner *runner;
    pthread_t thread;
    _Atomic bool answered;
};

static int set_up(void **state)
{
    struct owner_rig *r = test_calloc(1, sizeof *r);
    struct runner_owner owner;
    r->gate = store_gate_new();
    assert_int_equal(handle_open_take(r->gate, "mem:", NULL, &r->s, NULL), SLUICE_OK);
    assert_int_equal(sluice_queue_create(r->s, "tasks", NULL, 0, NULL), SLUICE_OK);
    assert_int_equal(owner_become(r->s->engine, "http://127.0.0.1:1", "one", NULL), SLUICE_OK);
    assert_int_equal(queue_get(r->s->engine, "tasks", &r->queue, NULL), SLUICE_OK);
    assert_int_equal(queue_work_runner(r->queue, 0, &r->runner, NULL), SLUICE_OK);
    runner_owner(r->runner, &owner);
    assert_true(owner.mine);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    struct owner_rig *r = *state;
    queue_let_go(&r->queue);
    sluice_close(r->s);
    test_free(r);
    return 0;
}

static void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void answered(struct served_call *g, void *ctx)
{
    struct owner_rig *r = ctx;
    (void)g;
    r->answered = true;
}

static void *sync_main(void *arg)
{
    struct owner_rig *r = arg;
    assert_int_equal(runner_sync(r->runner), ERR_OK);
    return NULL;
}

// A thread performs the read of another call, so that the served read waits behind it.
static void hold(struct owner_rig *r)
{
    store_gate_hold_reads(r->gate, true);
    assert_int_equal(pthread_create(&r->thread, NULL, sync_main, r), 0);
    for (int64_t until = clock_boot_ms() + DEADLINE_MS; store_gate_reads(r->gate) == 0; nap())
        assert_true(clock_boot_ms() < until);
}

static void release(struct owner_rig *r)
{
    assert_false(r->answered);
    store_gate_hold_reads(r->gate, false);
    (void)pthread_join(r->thread, NULL);
    for (int64_t until = clock_boot_ms() + DEADLINE_MS; !r->answered; nap())
        assert_true(clock_boot_ms() < until);
}

// Asks, cancels while the tail is read, and copies the answer.
static void cancel_late(struct owner_rig *r, struct shard_ask *ask, struct buf *answer)
{
    static const uint32_t first = 0;
    struct shard_ask read;
    CLEANUP(buf_done) struct buf bytes;
    buf_init(&bytes, BYTES_MAX);
    buf_init(answer, BYTES_MAX);
    ask->queue = r->queue->row.id;
    ask->wait_ms = SHARD_WAIT_MAX_MS;
    ask->worker = ask->claim.worker = bytes_str("tester");
    ask->claim.max = 1;
    if (ask->kind == SHARD_AWAIT)
        shard_ask_put_await(&bytes, ask, &first, 1);
    else
        shard_ask_put(&bytes, ask);
    assert_true(shard_ask_read(buf_bytes(&bytes), &read));
    hold(r);
    struct served_call *g = served_new(r->s->engine, "tasks", &read, NULL, answered, r);
    served_start(g);
    served_cancel(g);
    release(r);
    served_answer(g, answer);
    served_free(g);
}

static void a_claim_that_is_cancelled_too_late_is_undone(void **state)
{
    struct shard_ask ask = {.kind = SHARD_CLAIM};
    struct shard_part part;
    CLEANUP(buf_done) struct buf answer;
    bool moved = true;
    cancel_late(*state, &ask, &answer);
    assert_true(shard_answer_read(&answer, &moved, &part, 1));
    assert_false(moved);
    assert_int_equal(part.err, ERR_UNAVAILABLE);
    assert_int_equal(part.answer.deliveries_len, 0);
    kept_reply_done(&part.answer);
}

static void a_wait_that_is_cancelled_too_late_is_undone(void **state)
{
    struct shard_ask ask = {.kind = SHARD_AWAIT};
    struct shard_await_row row;
    CLEANUP(buf_done) struct buf answer;
    bool moved = true;
    cancel_late(*state, &ask, &answer);
    assert_int_equal(shard_awaited_read(buf_bytes(&answer), &moved, &row, 1), 1);
    assert_false(moved);
    assert_int_equal(row.err, ERR_UNAVAILABLE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_claim_that_is_cancelled_too_late_is_undone),
        TEST(a_wait_that_is_cancelled_too_late_is_undone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
