// SPDX-License-Identifier: Apache-2.0
// Many receives wait, another process writes, and the store cannot be read just then. The task that
// fetches the entry waits for time to pass, which takes a thread. One is left for that.
#include "../support/fault_store.h"
#include "../unit/unit.h"
#include "base/memory.h"
#include "os/entropy.h"
#include "runner/runner.h"
#include "scratch.h"
#include "store/mem.h"

#include <stdatomic.h>
#include <string.h>

#define POOL        4
#define RUNNERS     8 // more than there are threads
#define PATIENCE_MS 600000
#define SHORT_MS    50
#define OUTAGE_MS   1000
#define WAIT_MS     60000 // it does not take so long unless it hangs

static const struct fault_options well = {.seed = 1}, away = {.seed = 1, .lost_request = 10000};

struct post {
    struct runner_async receive; // first
    struct shard_runner *runner;
    struct shard_runner *other; // whose store is well
};

static _Atomic uint32_t received_len, ended_len;
static _Atomic int ended_err;

static struct shard_runner *open_runner(struct store *s, struct thread_pool *pool, uint32_t number,
                                        int64_t patience_ms)
{
    struct shard_runner *r;
    struct runner_config config = {.queue = "q", .pool = pool, .patience_ms = patience_ms};
    config_defaults(&config.birth);
    memcpy(config.id.queue, "outage", 6);
    config.id.shard = number;
    assert_int_equal(runner_open(s, &config, &r), ERR_OK);
    return r;
}

static void received(struct runner_async *async, enum err err, struct kept_reply *a)
{
    (void)async;
    if (!err && a->deliveries_len == 1) atomic_fetch_add(&received_len, 1);
    atomic_store(&ended_err, (int)err);
    atomic_fetch_add(&ended_len, 1);
}

static void wait_at(struct post *p)
{
    struct op_claim claim = {.worker = bytes_str("w"), .max = 1, .lease_ms = 60000};
    entropy_fill(claim.seed, sizeof claim.seed);
    entropy_fill(claim.request.bytes, sizeof claim.request.bytes);
    p->receive.then = received;
    runner_receive_async(p->runner, &claim, PATIENCE_MS, &p->receive);
}

static void send_to(struct post *p)
{
    CLEANUP(buf_done) struct buf payload;
    CLEANUP(kept_reply_done) struct kept_reply answer;
    struct request_id id;
    struct message m = {.body = bytes_str("work")};
    entropy_fill(id.bytes, sizeof id.bytes);
    buf_init(&payload, JOURNAL_OP_MAX);
    kept_reply_init(&answer);
    send_begin(&payload, &id);
    send_add(&payload, &m);
    send_end(&payload, 0, 1);
    struct op op = {OP_SEND, buf_bytes(&payload)};
    assert_int_equal(runner_do(p->other, op, &answer), ERR_OK);
}

static bool all_received(void *ctx)
{
    (void)ctx;
    return atomic_load(&received_len) == RUNNERS;
}

static bool never(void *ctx)
{
    (void)ctx;
    return false;
}

static void a_waiting_receive_is_served_after_an_outage(void **state)
{
    (void)state;
    struct store *inner = store_mem_new(), *store = store_fault_take(inner, &well);
    struct thread_pool *pool = thread_pool_new(POOL), *others = thread_pool_new(POOL);
    struct post *places = memory_zeroed(RUNNERS, sizeof *places);
    for (uint32_t i = 0; i < RUNNERS; i++) {
        places[i].runner = open_runner(store, pool, i, PATIENCE_MS);
        places[i].other = open_runner(inner, others, i, PATIENCE_MS);
        wait_at(&places[i]);
    }
    store_fault_set(store, &away);
    for (uint32_t i = 0; i < RUNNERS; i++)
        send_to(&places[i]);
    (void)eventually(never, NULL, OUTAGE_MS); // a time, since nothing happens that could be awaited
    store_fault_set(store, &well);
    assert_true(eventually(all_received, NULL, WAIT_MS));
    for (uint32_t i = 0; i < RUNNERS; i++) {
        runner_close(places[i].runner);
        runner_close(places[i].other);
    }
    thread_pool_free(pool);
    thread_pool_free(others);
    store_free(store);
    memory_free(places);
}

static bool has_ended(void *ctx)
{
    (void)ctx;
    return atomic_load(&ended_len) == 1;
}

// The receive cannot even learn whether there is a message. A caller that waits on at another
// owner leaves it its time. One that gives up ends it soon.
static void a_cancelled_receive_ends_during_an_outage(void **state)
{
    (void)state;
    struct store *store = store_fault_take(store_mem_new(), &well);
    struct thread_pool *pool = thread_pool_new(POOL);
    struct post place = {.runner = open_runner(store, pool, 0, SHORT_MS)};
    atomic_store(&ended_len, 0);
    store_fault_set(store, &away);
    wait_at(&place);
    assert_false(runner_withdraw(place.runner, &place.receive));
    assert_false(eventually(has_ended, NULL, 10 * SHORT_MS));
    assert_false(runner_cancel(place.runner, &place.receive));
    assert_true(eventually(has_ended, NULL, WAIT_MS));
    assert_int_equal(atomic_load(&ended_err), ERR_UNAVAILABLE);
    runner_close(place.runner);
    thread_pool_free(pool);
    store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiting_receive_is_served_after_an_outage),
        cmocka_unit_test(a_cancelled_receive_ends_during_an_outage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
