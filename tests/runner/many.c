// SPDX-License-Identifier: Apache-2.0
// Thousands of runners served by one small thread pool: time passes in all of them, entries of
// other processes are found in all of them, and the process does not fill with threads.
#include "../unit/unit.h"
#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "runner/runner.h"
#include "scratch.h"
#include "store/file/file.h"
#include "store/mem.h"
#include "threads.h"

#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>

#define RUNNERS     2000
#define POOL        16
#define WAIT_MS     100000 // nothing takes so long unless it hangs
#define LONG_MS     600000
#define DELAY_MS    50
#define LEASE_MS    50
#define MEASURED_MS 500
// Of a processor's time, one part in so many. Measured: 0.7 % as built for use, 6 to 8 % with the
// thread sanitizer of gcc, which makes each access to memory about ten times as dear.
#if defined __SANITIZE_THREAD__
#define QUIET_SHARE 5
#elif defined __has_feature
#define QUIET_SHARE (__has_feature(thread_sanitizer) ? 5 : 20)
#else
#define QUIET_SHARE 20
#endif

struct hall {
    struct scratch dir; // of a store in files
    struct store *store;
    struct thread_pool *pool;
    struct place_of_work *places;
    _Atomic uint32_t received;
    _Atomic uint32_t sent;
};

struct place_of_work {
    struct runner_async receive; // first
    struct runner_async send;
    struct hall *hall;
    struct shard_runner *runner;
    bool waits;
};

static size_t at_first; // threads

static struct shard_runner *open_runner(struct hall *h, struct thread_pool *pool, uint32_t number)
{
    struct shard_runner *r;
    struct runner_config config = {.queue = "q", .pool = pool, .patience_ms = LONG_MS};
    config_defaults(&config.birth);
    memcpy(config.id.queue, "many", 4);
    config.id.shard = number;
    assert_int_equal(runner_open(h->store, &config, &r), ERR_OK);
    return r;
}

static void hall_open(struct hall *h, struct store *store)
{
    h->store = store;
    h->pool = thread_pool_new(POOL);
    h->places = memory_zeroed(RUNNERS, sizeof *h->places);
    for (uint32_t i = 0; i < RUNNERS; i++) {
        h->places[i].hall = h;
        h->places[i].runner = open_runner(h, h->pool, i);
    }
}

static int set_up_mem(void **state)
{
    struct hall *h = NEW(struct hall);
    hall_open(h, store_mem_new());
    *state = h;
    return 0;
}

static int set_up_file(void **state)
{
    char why[STORE_WHY_MAX] = "";
    struct hall *h = NEW(struct hall);
    struct store *store;
    const char *memory =
        "/dev/shm"; // how long a disk takes for thousands of syncs is not the point
    assert_true(scratch_make(&h->dir, access(memory, W_OK) == 0 ? memory : NULL));
    assert_int_equal(store_file_open(h->dir.path, NULL, &store, why, sizeof why), ERR_OK);
    hall_open(h, store);
    *state = h;
    return 0;
}

static int tear_down(void **state)
{
    struct hall *h = *state;
    for (uint32_t i = 0; i < RUNNERS; i++) {
        struct place_of_work *p = &h->places[i];
        if (p->waits) assert_true(runner_cancel(p->runner, &p->receive));
    }
    for (uint32_t i = 0; i < RUNNERS; i++)
        runner_close(h->places[i].runner);
    thread_pool_free(h->pool);
    store_free(h->store);
    scratch_remove(&h->dir);
    memory_free(h->places);
    memory_free(h);
    return 0;
}

static bool are_few(void *ctx)
{
    (void)ctx;
    return threads_here() <= at_first + POOL;
}

struct wanted {
    _Atomic uint32_t *count;
    uint32_t at_least;
};

static bool reached(void *ctx)
{
    struct wanted *w = ctx;
    assert_true(eventually(are_few, NULL, WAIT_MS)); // but for those that are about to end
    return atomic_load(w->count) >= w->at_least;
}

static void await(_Atomic uint32_t *count, uint32_t at_least)
{
    assert_true(eventually(reached, &(struct wanted){count, at_least}, WAIT_MS));
}

static void received(struct runner_async *async, enum err err, struct kept_reply *a)
{
    struct place_of_work *p = (struct place_of_work *)async;
    assert_int_equal(err, ERR_OK);
    assert_int_equal(a->deliveries_len, 1);
    p->waits = false;
    atomic_fetch_add(&p->hall->received, 1);
}

static void receive(struct place_of_work *p)
{
    struct op_claim claim = {.worker = bytes_str("w"), .max = 1, .lease_ms = LEASE_MS};
    entropy_fill(claim.seed, sizeof claim.seed);
    entropy_fill(claim.request.bytes, sizeof claim.request.bytes);
    p->receive.then = received;
    p->waits = true;
    runner_receive_async(p->runner, &claim, LONG_MS, &p->receive);
}

static void was_sent(struct runner_async *async, enum err err, struct kept_reply *a)
{
    struct place_of_work *p =
        (struct place_of_work *)((char *)async - offsetof(struct place_of_work, send));
    (void)a;
    assert_int_equal(err, ERR_OK);
    atomic_fetch_add(&p->hall->sent, 1);
}

static void send_from(struct place_of_work *p, struct shard_runner *r, int64_t delay_ms)
{
    CLEANUP(buf_done) struct buf payload;
    struct request_id id;
    entropy_fill(id.bytes, sizeof id.bytes);
    buf_init(&payload, JOURNAL_OP_MAX);
    send_begin(&payload, &id);
    struct message m = {.body = bytes_str("work"), .when_ms = delay_ms};
    m.when = delay_ms > 0 ? WHEN_DELAY : WHEN_NOW;
    send_add(&payload, &m);
    send_end(&payload, 0, 1);
    p->send.then = was_sent;
    runner_do_async(r, (struct op){OP_SEND, buf_bytes(&payload)}, &p->send);
}

// A message that is delayed, then one whose lock expires: no call comes in between.
static void time_passes_in_every_runner(void **state)
{
    struct hall *h = *state;
    for (size_t i = 0; i < RUNNERS; i++) {
        receive(&h->places[i]);
        send_from(&h->places[i], h->places[i].runner, DELAY_MS);
    }
    await(&h->received, RUNNERS);
    for (size_t i = 0; i < RUNNERS; i++)
        receive(&h->places[i]);
    await(&h->received, 2 * RUNNERS);
}

// A receive waits in each of them; another process sends to some.
static void what_others_send_is_found_in_every_runner(void **state)
{
    enum { EVERY = 40 };
    struct hall *h = *state;
    for (size_t i = 0; i < RUNNERS; i++)
        receive(&h->places[i]);
    struct shard_runner *others[RUNNERS / EVERY];
    for (uint32_t i = 0; i < RUNNERS / EVERY; i++) {
        others[i] = open_runner(h, h->pool, i * EVERY);
        send_from(&h->places[i * EVERY], others[i], 0);
    }
    await(&h->received, RUNNERS / EVERY);
    await(&h->sent, RUNNERS / EVERY);
    for (size_t i = 0; i < RUNNERS / EVERY; i++)
        runner_close(others[i]);
}

static int64_t cpu_us(void)
{
    struct rusage u;
    assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec +
           u.ru_stime.tv_usec;
}

// The first looks make what is looked at, which is work: it ends.
static bool is_quiet(void *ctx)
{
    struct hall *h = ctx;
    for (size_t i = 0; i < RUNNERS; i++)
        if (runner_waiting(h->places[i].runner) == 0) return false;
    int64_t before = cpu_us(), begun = clock_boot_ms();
    (void)poll(NULL, 0, MEASURED_MS); // the time over which is measured, at least
    return cpu_us() - before < (clock_boot_ms() - begun) * 1000 / QUIET_SHARE;
}

static void waiting_costs_next_to_nothing(void **state)
{
    struct hall *h = *state;
    for (size_t i = 0; i < RUNNERS; i++)
        receive(&h->places[i]);
    assert_true(eventually(is_quiet, h, WAIT_MS));
}

// Snapshots, ticks and looks are under way in some of them at any moment.
static void runners_are_closed_while_their_tasks_run(void **state)
{
    struct hall *h = *state;
    for (size_t i = 0; i < RUNNERS; i++)
        send_from(&h->places[i], h->places[i].runner, 1 + (int64_t)(i % 20));
    await(&h->sent, RUNNERS);
    for (uint32_t i = 0; i < RUNNERS; i++) {
        runner_close(h->places[i].runner);
        h->places[i].runner = NULL;
    }
    assert_true(eventually(are_few, NULL, WAIT_MS));
}

static bool are_gone(void *ctx)
{
    (void)ctx;
    return threads_here() == at_first;
}

static void a_runner_without_a_thread_pool_has_one_of_its_own(void **state)
{
    struct hall *h = NEW(struct hall);
    h->store = store_mem_new();
    struct place_of_work p = {.hall = h, .runner = open_runner(h, NULL, 1)};
    receive(&p);
    assert_true(threads_here() > at_first);
    send_from(&p, p.runner, 1);
    await(&h->received, 1);
    await(&h->sent, 1);
    runner_close(p.runner);
    assert_true(eventually(are_gone, NULL, WAIT_MS));
    store_free(h->store);
    memory_free(h);
    (void)state;
}

#define IN_MEMORY(name)                                                                            \
    {                                                                                              \
#name " in memory", name, set_up_mem, tear_down, NULL                                      \
    }
#define IN_FILES(name)                                                                             \
    {                                                                                              \
#name " in files", name, set_up_file, tear_down, NULL                                      \
    }

static int count_threads(void **state)
{
    (void)state;
    at_first = threads_at_first();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_runner_without_a_thread_pool_has_one_of_its_own),
        IN_MEMORY(time_passes_in_every_runner),
        IN_FILES(time_passes_in_every_runner),
        IN_MEMORY(what_others_send_is_found_in_every_runner),
        IN_FILES(what_others_send_is_found_in_every_runner),
        IN_MEMORY(runners_are_closed_while_their_tasks_run),
        IN_MEMORY(waiting_costs_next_to_nothing),
        IN_FILES(waiting_costs_next_to_nothing),
    };
    return cmocka_run_group_tests(tests, count_threads, NULL);
}
