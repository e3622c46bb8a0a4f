// SPDX-License-Identifier: Apache-2.0
// A budget of puts at a runner with real threads: calls wait for it, share entries, and all end
// well.
#include "../unit/unit.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "runner/runner.h"
#include "store/mem.h"
#include "store/meter.h"

#include <pthread.h>
#include <string.h>

#define PUTS_PER_SECOND 20
#define THREADS         8
#define SENDS           10 // of each

struct room {
    struct store *store;
    struct shard_runner *runner;
};

static void open_room(struct room *r, uint32_t shards)
{
    struct runner_config config = {.queue = "q"};
    config_defaults(&config.birth);
    config.birth.shards = shards;
    memcpy(config.id.queue, "pace", 4);
    struct store *mem = store_mem_new();
    mem->puts_per_second = PUTS_PER_SECOND;
    r->store = store_meter_take(mem);
    assert_int_equal(runner_open(r->store, &config, &r->runner), ERR_OK);
}

static void close_room(struct room *r)
{
    runner_close(r->runner);
    store_free(r->store);
}

static uint64_t appends(const struct room *r)
{
    struct meter_snapshot m;
    store_meter_read(r->store, &m);
    return m.kind[METER_APPEND].requests;
}

static enum err send_one(struct room *r)
{
    CLEANUP(buf_done) struct buf payload;
    CLEANUP(kept_reply_done) struct kept_reply answer;
    struct request_id id;
    entropy_fill(id.bytes, sizeof id.bytes);
    buf_init(&payload, JOURNAL_OP_MAX);
    kept_reply_init(&answer);
    send_begin(&payload, &id);
    send_add(&payload, &(struct message){.body = bytes_str("work")});
    send_end(&payload, 0, 1);
    return runner_do(r->runner, (struct op){OP_SEND, buf_bytes(&payload)}, &answer);
}

static void *sender(void *arg)
{
    for (int i = 0; i < SENDS; i++)
        if (send_one(arg)) return arg;
    return NULL;
}

static void calls_beyond_the_budget_wait_and_share_entries(void **state)
{
    (void)state;
    struct room r;
    open_room(&r, 1);
    int64_t begin = clock_boot_ms();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sender, &r), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    for (int i = 0; i < PUTS_PER_SECOND + 5; i++) // whatever was saved up is gone after these
        assert_int_equal(send_one(&r), ERR_OK);
    int64_t took = clock_boot_ms() - begin;
    uint64_t allowed = PUTS_PER_SECOND + (uint64_t)took * PUTS_PER_SECOND / 1000 + 1;
    assert_true(appends(&r) <= allowed);
    assert_true(took >= 200); // 25 puts one after the other, 20 of them free
    close_room(&r);
}

static void shards_of_a_queue_share_the_budget(void **state)
{
    (void)state;
    struct room r;
    open_room(&r, PUTS_PER_SECOND); // one put a second for this one
    int64_t begin = clock_boot_ms();
    assert_int_equal(send_one(&r), ERR_OK);
    assert_int_equal(send_one(&r), ERR_OK);
    assert_true(clock_boot_ms() - begin >= 800);
    close_room(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_beyond_the_budget_wait_and_share_entries),
        cmocka_unit_test(shards_of_a_queue_share_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
