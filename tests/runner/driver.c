// SPDX-License-Identifier: Apache-2.0
// The driver: threads that wait for each other around a step function. Most of it is seen through a
// ledger on a store in memory, the corners through a step function of the test's own.
#include "runner/driver.h"
#include "../support/fault_store.h"
#include "../unit/unit.h"
#include "base/check.h"
#include "ledger.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "scratch.h"
#include "store/mem.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define WAIT_MS 20000 // nothing takes so long unless it hangs
#define CERTAIN 10000 // hundredths of a percent
#define THREADS 16
#define ADDS    100

static const struct journal_rules small_rules = {.session_ttl_ms = 60000,
                                                 .sessions_max = 64,
                                                 .digest_every = 8,
                                                 .verify_ms = 60000,
                                                 .retain_ms = 120000,
                                                 .floor_every_ms = 500,
                                                 .snapshot_every = 4};

struct world {
    struct store *store; // a faulty one in front of memory, without faults at first
    struct ledger *ledger;
};

static void open_ledger(struct world *w, int64_t patience_ms)
{
    struct ledger_options options = {.rules = small_rules, .patience_ms = patience_ms};
    assert_int_equal(ledger_open(w->store, "test", &options, &w->ledger), ERR_OK);
    int64_t end = clock_boot_ms() + WAIT_MS;
    while (ledger_sync(w->ledger) != ERR_OK)
        assert_true(clock_boot_ms() < end);
}

static int set_up(void **state)
{
    struct world *w = test_calloc(1, sizeof *w);
    w->store = store_fault_take(store_mem_new(), &(struct fault_options){.seed = 1});
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    ledger_close(w->ledger);
    store_free(w->store);
    test_free(w);
    return 0;
}

// Nothing but appends may be under way: the wrapper reads its lies without its lock.
static void faults(struct world *w, struct fault_options options)
{
    store_fault_set(w->store, &options);
}

static void request_id(uint8_t id[16])
{
    entropy_fill(id, 16);
}

static enum err add(struct world *w, const char *name, int64_t *value)
{
    uint8_t id[16];
    request_id(id);
    return ledger_add(w->ledger, name, 1, id, value);
}

// Patience is short in some tests and the machine may be busy: asks under one request id until it
// is answered.
static int64_t add_surely(struct world *w, const char *name, const uint8_t id[16])
{
    int64_t end = clock_boot_ms() + WAIT_MS;
    int64_t value = 0;
    enum err err;
    do {
        err = ledger_add(w->ledger, name, 1, id, &value);
        assert_true(err == ERR_OK || err == ERR_UNAVAILABLE || err == ERR_UNKNOWN);
    } while (err && clock_boot_ms() < end);
    assert_int_equal(err, ERR_OK);
    return value;
}

static int64_t value_of(struct world *w, const char *name)
{
    int64_t end = clock_boot_ms() + WAIT_MS;
    int64_t value = 0;
    enum err err;
    do {
        err = ledger_read(w->ledger, name, &value);
    } while (err && err != ERR_NOT_FOUND && clock_boot_ms() < end);
    assert_true(err == ERR_OK || err == ERR_NOT_FOUND);
    return err ? 0 : value;
}

struct adder {
    pthread_t thread;
    struct world *world;
    int64_t values[ADDS];
};

static void *adder_run(void *arg)
{
    struct adder *a = arg;
    for (size_t i = 0; i < ADDS; i++)
        if (add(a->world, "n", &a->values[i]) != ERR_OK) return a;
    return NULL;
}

static void run_adders(struct world *w, struct adder *adders, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        adders[i].world = w;
        assert_int_equal(pthread_create(&adders[i].thread, NULL, adder_run, &adders[i]), 0);
    }
    for (size_t i = 0; i < count; i++) {
        void *failed;
        assert_int_equal(pthread_join(adders[i].thread, &failed), 0);
        assert_null(failed);
    }
}

static void every_thread_gets_its_own_answer(void **state)
{
    struct world *w = *state;
    open_ledger(w, 0);
    struct adder *adders = test_calloc(THREADS, sizeof *adders);
    run_adders(w, adders, THREADS);
    bool seen[THREADS * ADDS + 1] = {false};
    for (size_t i = 0; i < THREADS; i++) {
        for (size_t n = 0; n < ADDS; n++) {
            int64_t value = adders[i].values[n];
            assert_in_range(value, 1, THREADS * ADDS);
            assert_false(seen[value]);
            seen[value] = true;
            assert_true(n == 0 || value > adders[i].values[n - 1]);
        }
    }
    assert_int_equal(value_of(w, "n"), THREADS * ADDS);
    test_free(adders);
}

// While one waits for a slow store the others' ops gather for the next entry.
static void ops_that_arrive_during_a_commit_share_the_next(void **state)
{
    struct world *w = *state;
    open_ledger(w, 0);
    faults(w, (struct fault_options){.slow = CERTAIN, .slow_ms = 2});
    struct adder *adders = test_calloc(THREADS, sizeof *adders);
    uint64_t before = ledger_slot(w->ledger);
    run_adders(w, adders, THREADS);
    uint64_t entries = ledger_slot(w->ledger) - before;
    assert_true(entries < THREADS * ADDS / 3);
    test_free(adders);
}

static void child_of_fork_is_refused(void **state)
{
    struct world *w = *state;
    open_ledger(w, 0);
    assert_int_equal(add(w, "n", NULL), ERR_OK);
    pid_t child = fork();
    if (child == 0) {
        bool refused = add(w, "n", NULL) == ERR_INVALID && ledger_sync(w->ledger) == ERR_INVALID;
        _exit(refused ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(value_of(w, "n"), 1); // and the parent goes on
}

static void closing_waits_for_the_snapshot_being_written(void **state)
{
    struct world *w = *state;
    open_ledger(w, 0);
    while (ledger_slot(w->ledger) < small_rules.snapshot_every - 1)
        assert_int_equal(add(w, "n", NULL), ERR_OK);
    faults(w, (struct fault_options){.slow = CERTAIN, .slow_ms = 30});
    assert_int_equal(add(w, "n", NULL), ERR_OK); // fills the slot after which one is written
    ledger_close(w->ledger);
    w->ledger = NULL;
    struct store_answer a;
    store_answer_init(&a);
    assert_int_equal(store_list(w->store, "test/snap/", NULL, 10, &a), ERR_OK);
    assert_int_equal(a.rows_len, 1);
    store_answer_done(&a);
}

static void closing_a_ledger_that_is_still_recovering_is_fine(void **state)
{
    struct world *w = *state;
    faults(w, (struct fault_options){.slow = CERTAIN, .slow_ms = 10});
    for (int i = 0; i < 5; i++) {
        struct ledger *l;
        assert_int_equal(ledger_open(w->store, "test", NULL, &l), ERR_OK);
        ledger_close(l);
    }
}

static void store_that_is_away_at_the_start_is_reported(void **state)
{
    struct world *w = *state;
    faults(w, (struct fault_options){.lost_request = CERTAIN});
    struct ledger *l;
    assert_int_equal(ledger_open(w->store, "test", NULL, &l), ERR_UNAVAILABLE);
}

static void what_never_reached_the_store_is_unavailable(void **state)
{
    struct world *w = *state;
    uint8_t id[16];
    char name[16];
    int64_t end = clock_boot_ms() + WAIT_MS;
    enum err err = ERR_UNKNOWN;
    request_id(id);
    open_ledger(w, 100);
    assert_int_equal(add_surely(w, "n", id), 1);
    faults(w, (struct fault_options){.lost_request = CERTAIN});
    for (int i = 0; err == ERR_UNKNOWN && clock_boot_ms() < end; i++) { // a try was on its way then
        (void)snprintf(name, sizeof name, "lost %d", i);
        err = add(w, name, NULL);
    }
    assert_int_equal(err, ERR_UNAVAILABLE);
    assert_int_equal(ledger_sync(w->ledger), ERR_UNAVAILABLE);
    faults(w, (struct fault_options){0});
    assert_int_equal(value_of(w, name), 0); // unavailable: certainly not applied, now or later
    assert_int_equal(value_of(w, "n"), 1);
}

// Ends in doubt under the given faults; sent again after they cease, the op has happened once.
static void doubt_is_resolved(struct world *w, struct fault_options options)
{
    uint8_t first[16], second[16];
    request_id(first);
    request_id(second);
    open_ledger(w, 100);
    assert_int_equal(add_surely(w, "n", first), 1);
    faults(w, options);
    assert_int_equal(ledger_add(w->ledger, "n", 1, second, NULL), ERR_UNKNOWN);
    faults(w, (struct fault_options){0});
    store_fault_flush(w->store);
    assert_int_equal(add_surely(w, "n", second), 2);
    assert_int_equal(value_of(w, "n"), 2);
}

static void what_landed_without_a_reply_is_unknown(void **state)
{
    doubt_is_resolved(*state, (struct fault_options){.lost_reply = CERTAIN});
}

static void what_was_lost_without_a_word_is_unknown(void **state)
{
    doubt_is_resolved(*state, (struct fault_options){.unknown_lost = CERTAIN});
}

static void what_lands_after_patience_ended_is_unknown(void **state)
{
    doubt_is_resolved(*state, (struct fault_options){.unknown_late = CERTAIN});
}

struct toy {
    struct driver *driver;
    int64_t wake_at;
    int ticks;
    int wanted; // requests to hand out
    int answered;
    struct waiter *waiting[2]; // answered by a tick, or by the response to their request
};

static void toy_answer(struct toy *t)
{
    for (size_t i = 0; i < 2; i++) {
        if (t->waiting[i]) driver_wake(t->driver, t->waiting[i]);
        t->waiting[i] = NULL;
    }
}

static void toy_respond(void *ctx, const struct response *r, struct interval now)
{
    struct toy *t = ctx;
    (void)now;
    assert_int_equal(r->err, ERR_NOT_FOUND);
    t->answered++;
}

static void toy_tick(void *ctx, struct interval now)
{
    struct toy *t = ctx;
    if (now.lo < t->wake_at) return;
    t->ticks++;
    t->wake_at = TIME_NEVER;
}

static int64_t toy_wake_at(void *ctx)
{
    return ((struct toy *)ctx)->wake_at;
}

static bool toy_next_request(void *ctx, struct request *out)
{
    struct toy *t = ctx;
    if (t->wanted == 0) return false;
    t->wanted--;
    *out = (struct request){.id = 1, .kind = REQUEST_GET, .key = "nothing"};
    return true;
}

static void toy_deliver(void *ctx)
{
    struct toy *t = ctx;
    if (t->ticks > 0 || t->answered == 2) toy_answer(t);
}

static void toy_open(struct toy *t, struct world *w)
{
    *t = (struct toy){.wake_at = TIME_NEVER};
    struct step_functions steps = {.ctx = t,
                                   .respond = toy_respond,
                                   .tick = toy_tick,
                                   .wake_at = toy_wake_at,
                                   .next_request = toy_next_request,
                                   .deliver = toy_deliver};
    assert_int_equal(driver_open(w->store, NULL, &steps, &t->driver), ERR_OK);
}

struct sleeper {
    pthread_t thread;
    struct toy *toy;
    size_t place;
};

static void *sleeper_run(void *arg)
{
    struct sleeper *s = arg;
    struct waiter w;
    if (driver_enter(s->toy->driver, &w)) return s;
    s->toy->waiting[s->place] = &w;
    driver_wait(s->toy->driver, &w);
    return NULL;
}

static bool sleepers_are_in(void *ctx)
{
    struct sleeper *last = ctx;
    struct waiter w;
    assert_int_equal(driver_enter(last->toy->driver, &w), ERR_OK);
    bool in = true;
    for (size_t i = 0; i <= last->place; i++)
        in = in && last->toy->waiting[i] && last->toy->waiting[i]->asleep;
    driver_leave(last->toy->driver, &w);
    return in;
}

static void sleepers_start(struct sleeper *sleepers, size_t count, struct toy *toy)
{
    for (size_t i = 0; i < count; i++) {
        sleepers[i] = (struct sleeper){.toy = toy, .place = i};
        assert_int_equal(pthread_create(&sleepers[i].thread, NULL, sleeper_run, &sleepers[i]), 0);
    }
    assert_true(eventually(sleepers_are_in, &sleepers[count - 1], WAIT_MS));
}

static void sleepers_end(struct sleeper *sleepers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *failed;
        assert_int_equal(pthread_join(sleepers[i].thread, &failed), 0);
        assert_null(failed);
    }
}

// A caller waits for hours. Then a call that does not wait needs a tick soon.
static void tick_that_is_wanted_sooner_comes_sooner(void **state)
{
    struct toy toy;
    struct sleeper sleeper;
    toy_open(&toy, *state);
    sleepers_start(&sleeper, 1, &toy);
    struct waiter w;
    assert_int_equal(driver_enter(toy.driver, &w), ERR_OK);
    toy.wake_at = driver_now(toy.driver).lo + 20;
    driver_leave(toy.driver, &w);
    sleepers_end(&sleeper, 1);
    assert_int_equal(toy.ticks, 1);
    driver_free(toy.driver);
}

// Two requests come up at once while two sleep: neither of them waits for the other's.
static void two_requests_rouse_two_sleepers(void **state)
{
    struct world *world = *state;
    struct toy toy;
    struct sleeper sleepers[2];
    toy_open(&toy, world);
    sleepers_start(sleepers, 2, &toy);
    struct waiter w;
    assert_int_equal(driver_enter(toy.driver, &w), ERR_OK);
    toy.wanted = 2;
    driver_leave(toy.driver, &w);
    sleepers_end(sleepers, 2);
    assert_int_equal(toy.answered, 2);
    driver_free(toy.driver);
}

static void request_without_a_waiting_caller_is_performed(void **state)
{
    struct toy toy;
    toy_open(&toy, *state);
    struct waiter w;
    assert_int_equal(driver_enter(toy.driver, &w), ERR_OK);
    toy.wanted = 2;
    driver_leave(toy.driver, &w);
    driver_free(toy.driver); // finishes what was asked for
    assert_int_equal(toy.answered, 2);
}

static int64_t cpu_ms(void)
{
    struct rusage u;
    assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
           (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

static void idle_ledgers_cost_no_cpu(void **state)
{
    struct world *w = *state;
    open_ledger(w, 0);
    struct ledger *more[20];
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(ledger_open(w->store, "test", NULL, &more[i]), ERR_OK);
        assert_int_equal(ledger_sync(more[i]), ERR_OK);
    }
    assert_int_equal(add(w, "n", NULL), ERR_OK);
    int64_t before = cpu_ms();
    (void)poll(NULL, 0, 400); // the time over which is measured
    assert_true(cpu_ms() - before < 200);
    for (size_t i = 0; i < 20; i++)
        ledger_close(more[i]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_thread_gets_its_own_answer),
        CASE(ops_that_arrive_during_a_commit_share_the_next),
        CASE(child_of_fork_is_refused),
        CASE(closing_waits_for_the_snapshot_being_written),
        CASE(closing_a_ledger_that_is_still_recovering_is_fine),
        CASE(store_that_is_away_at_the_start_is_reported),
        CASE(what_never_reached_the_store_is_unavailable),
        CASE(what_landed_without_a_reply_is_unknown),
        CASE(what_was_lost_without_a_word_is_unknown),
        CASE(what_lands_after_patience_ended_is_unknown),
        CASE(tick_that_is_wanted_sooner_comes_sooner),
        CASE(two_requests_rouse_two_sleepers),
        CASE(request_without_a_waiting_caller_is_performed),
        CASE(idle_ledgers_cost_no_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
