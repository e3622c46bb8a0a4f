// SPDX-License-Identifier: Apache-2.0
// A store that loses requests, replies and both, or applies a write long after its caller gave up:
// what was acknowledged is there, what was refused is not, and only what was unknown may be either.
#include "../support/fault_store.h"
#include "../unit/unit.h"
#include "base/check.h"
#include "os/entropy.h"
#include "places.h"
#include "store/mem.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SEEDS   8
#define HANDLES 2
#define THREADS 3 // of each handle
#define ADDS    25
#define TRIES   3

struct account {
    _Atomic uint64_t acknowledged;
    _Atomic uint64_t unknown;
    _Atomic uint64_t refused;
    _Atomic uint64_t wrong; // answers that a store's faults do not explain
};

struct writer {
    pthread_t thread;
    struct ledger *ledger;
    struct account *account;
};

// Sends one op until it is answered, a few times at most, always under the same request id.
static void add_one(struct writer *w)
{
    uint8_t id[16];
    entropy_fill(id, sizeof id);
    bool in_doubt = false;
    enum err err = ERR_UNAVAILABLE;
    for (int i = 0; i < TRIES && err; i++) {
        err = ledger_add(w->ledger, "n", 1, id, NULL);
        in_doubt = in_doubt || err == ERR_UNKNOWN;
        if (err && err != ERR_UNKNOWN && err != ERR_UNAVAILABLE) w->account->wrong++;
    }
    if (!err) {
        w->account->acknowledged++;
    } else if (in_doubt) {
        w->account->unknown++;
    } else {
        w->account->refused++;
    }
}

static void *write_all(void *arg)
{
    for (int i = 0; i < ADDS; i++)
        add_one(arg);
    return NULL;
}

static const struct fault_options bad_day = {.lost_request = 600,
                                             .lost_reply = 600,
                                             .unknown_lost = 400,
                                             .unknown_late = 400,
                                             .late_calls = 20,
                                             .slow = 300,
                                             .slow_ms = 3};

static void write_under_faults(struct ledger **ledgers, struct account *account)
{
    struct writer writers[HANDLES * THREADS];
    for (size_t i = 0; i < HANDLES * THREADS; i++) {
        writers[i] = (struct writer){.ledger = ledgers[i % HANDLES], .account = account};
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_all, &writers[i]), 0);
    }
    for (size_t i = 0; i < HANDLES * THREADS; i++)
        assert_int_equal(pthread_join(writers[i].thread, NULL), 0);
}

static void decide(struct store *store, const struct ledger_options *options,
                   const struct account *a, uint64_t seed)
{
    struct ledger *fresh;
    int64_t value = 0;
    assert_int_equal(ledger_open(store, "test", options, &fresh), ERR_OK);
    assert_int_equal(ledger_read(fresh, "n", &value), ERR_OK);
    ledger_close(fresh);
    uint64_t least = a->acknowledged;
    uint64_t most = least + a->unknown;
    if ((uint64_t)value < least || (uint64_t)value > most || a->wrong > 0)
        fail_msg("seed %" PRIu64 ": the counter is %" PRId64 "; acknowledged %" PRIu64
                 ", unknown %" PRIu64 ", refused %" PRIu64 ", wrong answers %" PRIu64,
                 seed, value, a->acknowledged, a->unknown, a->refused, a->wrong);
    assert_int_equal(a->acknowledged + a->unknown + a->refused, HANDLES * THREADS * ADDS);
    assert_true(a->acknowledged > 0);
}

// Takes the inner store.
static void bad_day_on(struct store *inner, uint64_t seed)
{
    struct ledger_options options = {.patience_ms = 150};
    struct fault_options healthy = {.seed = seed};
    struct store *store = store_fault_take(inner, &healthy);
    struct ledger *ledgers[HANDLES];
    struct account account = {0};
    for (size_t i = 0; i < HANDLES; i++) {
        assert_int_equal(ledger_open(store, "test", &options, &ledgers[i]), ERR_OK);
        while (ledger_sync(ledgers[i])) // patience is short, the store is well: it will come
            ;
    }
    store_fault_set(store, &bad_day);
    write_under_faults(ledgers, &account);
    assert_true(store_fault_count(store) > 0);
    for (size_t i = 0; i < HANDLES; i++)
        ledger_close(ledgers[i]);
    store_fault_set(store, &healthy);
    store_fault_flush(store); // what was on its way comes up last, after all handles are gone
    options.patience_ms = 0;
    decide(store, &options, &account, seed);
    store_free(store);
}

static void accounts_stay_right_on_a_bad_day_in_memory(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        bad_day_on(store_mem_new(), seed);
}

static void accounts_stay_right_on_a_bad_day_in_a_directory(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS / 2; seed++) {
        struct place place;
        struct store *store;
        char why[STORE_WHY_MAX] = "";
        place_open(&place, "file");
        if (store_file_open(place.scratch.path, NULL, &store, why, sizeof why)) fail_msg("%s", why);
        bad_day_on(store, seed);
        place_close(&place);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accounts_stay_right_on_a_bad_day_in_memory),
        cmocka_unit_test(accounts_stay_right_on_a_bad_day_in_a_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
