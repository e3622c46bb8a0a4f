// SPDX-License-Identifier: Apache-2.0
// How long the next entry waits for callers that were just answered: the rule by hand, then threads
// on a slow store.
#include "runner/gather.h"
#include "../support/fault_store.h"
#include "../unit/unit.h"
#include "ledger.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "store/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define PUT_NS  (4 * GATHER_PUT_MIN_NS)
#define CERTAIN 10000 // hundredths of a percent
#define THREADS 8
#define ADDS    40
#define ROUNDS  20

static void a_quick_store_is_not_waited_for(void **state)
{
    (void)state;
    struct gather_wait g = {0};
    for (int i = 0; i < 100; i++)
        assert_false(gather_put(&g, GATHER_PUT_MIN_NS - 1));
    for (int i = 0; i < 100; i++)
        (void)gather_put(&g, PUT_NS);
    assert_true(gather_put(&g, PUT_NS));
}

static void the_last_awaited_caller_ends_the_wait(void **state)
{
    (void)state;
    struct gather_wait g = {0};
    assert_false(gather_arrived(&g)); // nothing waits
    assert_true(gather_put(&g, PUT_NS));
    gather_begin(&g, 3, 1000);
    assert_int_equal(g.until_ns, 1000 + PUT_NS / 2);
    assert_false(gather_arrived(&g));
    assert_false(gather_arrived(&g));
    assert_true(gather_arrived(&g));
    gather_end(&g);
    assert_true(gather_put(&g, PUT_NS));
}

static void the_wait_has_a_limit(void **state)
{
    (void)state;
    struct gather_wait g = {0};
    assert_true(gather_put(&g, (int64_t)100 * GATHER_WAIT_MAX_NS));
    gather_begin(&g, 2, 0);
    assert_int_equal(g.until_ns, GATHER_WAIT_MAX_NS);
    gather_end(&g);
}

static void callers_that_do_not_come_back_are_waited_for_less_and_less(void **state)
{
    (void)state;
    struct gather_wait g = {0};
    int waits = 0;
    for (int i = 0; i < 1000; i++) {
        if (!gather_put(&g, PUT_NS)) continue;
        waits++;
        gather_begin(&g, 2, 0);
        (void)gather_arrived(&g); // one of two
        gather_end(&g);
    }
    assert_in_range(waits, 10, 30);
    while (!gather_put(&g, PUT_NS)) {
    }
    gather_begin(&g, 1, 0);
    assert_true(gather_arrived(&g));
    gather_end(&g);
    assert_true(gather_put(&g, PUT_NS)); // they are back
}

struct adder {
    pthread_t thread;
    struct ledger *ledger;
    _Atomic bool *stop; // NULL: ADDS, one after the other
    unsigned pause_us;
    int64_t longest_ms;
    bool failed;
};

static void *add_all(void *arg)
{
    struct adder *a = arg;
    for (int i = 0; a->stop ? !atomic_load(a->stop) : i < ADDS; i++) {
        uint8_t id[16];
        entropy_fill(id, sizeof id);
        int64_t start = clock_boot_ms();
        if (ledger_add(a->ledger, "n", 1, id, NULL)) a->failed = true;
        int64_t took = clock_boot_ms() - start;
        if (took > a->longest_ms) a->longest_ms = took;
        if (a->pause_us > 0) (void)usleep(a->pause_us);
    }
    return NULL;
}

static struct ledger *slow_ledger(struct store **s, int64_t slow_ms)
{
    struct ledger *l;
    *s = store_fault_take(store_mem_new(), &(struct fault_options){.seed = 1});
    assert_int_equal(ledger_open(*s, "test", NULL, &l), ERR_OK);
    assert_int_equal(ledger_sync(l), ERR_OK);
    store_fault_set(*s, &(struct fault_options){.slow = CERTAIN, .slow_ms = slow_ms});
    return l;
}

// Without the wait there are two groups, and an entry has the ops of half of the callers. On a busy
// machine callers can be late, so one good round of several is enough.
static void callers_that_come_back_at_once_share_every_entry(void **state)
{
    (void)state;
    struct store *s;
    struct ledger *l = slow_ledger(&s, 2);
    uint64_t best = UINT64_MAX, limit = THREADS * ADDS / (THREADS * 3 / 4);
    for (int round = 0; round < ROUNDS && best > limit; round++) {
        struct adder adders[THREADS];
        uint64_t before = ledger_slot(l);
        for (size_t i = 0; i < THREADS; i++) {
            adders[i] = (struct adder){.ledger = l};
            assert_int_equal(pthread_create(&adders[i].thread, NULL, add_all, &adders[i]), 0);
        }
        for (size_t i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(adders[i].thread, NULL), 0);
            assert_false(adders[i].failed);
        }
        uint64_t entries = ledger_slot(l) - before;
        if (entries < best) best = entries;
    }
    assert_true(best <= limit);
    ledger_close(l);
    store_free(s);
}

// Some callers come back at once, others much later. None waits for a caller that is away.
static void callers_that_stay_away_hold_no_other_up(void **state)
{
    (void)state;
    struct store *s;
    struct ledger *l = slow_ledger(&s, 1);
    _Atomic bool stop = false;
    struct adder adders[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        unsigned pause_us = i % 2 ? 0 : 5000 * (unsigned)(i + 1);
        adders[i] = (struct adder){.ledger = l, .stop = &stop, .pause_us = pause_us};
        assert_int_equal(pthread_create(&adders[i].thread, NULL, add_all, &adders[i]), 0);
    }
    (void)usleep(300000);
    // Reads need no entry, but they wait behind the entry that waits.
    for (int i = 0; i < 20; i++)
        assert_int_equal(ledger_sync(l), ERR_OK);
    atomic_store(&stop, true);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(adders[i].thread, NULL), 0);
        assert_false(adders[i].failed);
        assert_true(adders[i].longest_ms < 10000); // far below the ledger's patience
    }
    ledger_close(l); // an entry that waits for callers does not wait for ever
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quick_store_is_not_waited_for),
        cmocka_unit_test(the_last_awaited_caller_ends_the_wait),
        cmocka_unit_test(the_wait_has_a_limit),
        cmocka_unit_test(callers_that_do_not_come_back_are_waited_for_less_and_less),
        cmocka_unit_test(callers_that_come_back_at_once_share_every_entry),
        cmocka_unit_test(callers_that_stay_away_hold_no_other_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
