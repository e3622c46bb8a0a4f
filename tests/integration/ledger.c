// SPDX-License-Identifier: Apache-2.0
// Several handles of one ledger: they see one history, whichever handle writes, whatever was
// collected.
#include "../unit/unit.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "places.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define WAIT_MS 30000
#define HANDLES 3
#define THREADS 4 // of each handle
#define ADDS    40

// Whatever takes an hour in production takes a moment here.
static const struct journal_rules quick_rules = {.session_ttl_ms = 60000,
                                                 .sessions_max = 64,
                                                 .digest_every = 8,
                                                 .verify_ms = 100,
                                                 .retain_ms = 300,
                                                 .floor_every_ms = 50,
                                                 .snapshot_every = 16};

static struct place place;
static struct handle handles[HANDLES];

static int set_up(void **state)
{
    place_open(&place, *state);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < HANDLES; i++)
        handle_close(&handles[i]);
    place_close(&place);
    return 0;
}

static void open_all(void)
{
    for (size_t i = 0; i < HANDLES; i++)
        handle_open(&handles[i], &place);
}

static void all_agree(void)
{
    for (size_t i = 0; i < HANDLES; i++)
        assert_int_equal(ledger_sync(handles[i].ledger), ERR_OK);
    for (size_t i = 1; i < HANDLES; i++) {
        assert_int_equal(ledger_slot(handles[i].ledger), ledger_slot(handles[0].ledger));
        assert_int_equal(ledger_digest(handles[i].ledger), ledger_digest(handles[0].ledger));
    }
}

static void handles_see_each_others_adds(void **state)
{
    (void)state;
    open_all();
    for (int64_t i = 1; i <= 30; i++) {
        int64_t value = 0;
        assert_int_equal(handle_add(&handles[i % HANDLES], "n", &value), ERR_OK);
        assert_int_equal(value, i);
    }
    all_agree();
}

static void same_request_id_counts_once_from_any_process(void **state)
{
    (void)state;
    open_all();
    uint8_t id[16];
    entropy_fill(id, sizeof id);
    for (size_t i = 0; i < HANDLES; i++) {
        int64_t value = 0;
        assert_int_equal(ledger_add(handles[i].ledger, "n", 5, id, &value), ERR_OK);
        assert_int_equal(value, 5);
    }
    assert_int_equal(handle_value(&handles[1], "n"), 5);
}

struct racer {
    pthread_t thread;
    struct handle *handle;
    int64_t values[ADDS];
};

static void *race(void *arg)
{
    struct racer *r = arg;
    for (size_t i = 0; i < ADDS; i++)
        if (handle_add(r->handle, "n", &r->values[i])) return r;
    return NULL;
}

static void racing_handles_lose_and_double_nothing(void **state)
{
    (void)state;
    open_all();
    static struct racer racers[HANDLES * THREADS];
    static bool seen[HANDLES * THREADS * ADDS + 1];
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < HANDLES * THREADS; i++) {
        racers[i].handle = &handles[i % HANDLES];
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (size_t i = 0; i < HANDLES * THREADS; i++) {
        void *failed;
        assert_int_equal(pthread_join(racers[i].thread, &failed), 0);
        assert_null(failed);
        for (size_t n = 0; n < ADDS; n++) {
            assert_in_range(racers[i].values[n], 1, HANDLES * THREADS * ADDS);
            assert_false(seen[racers[i].values[n]]);
            seen[racers[i].values[n]] = true;
        }
    }
    assert_int_equal(handle_value(&handles[0], "n"), HANDLES * THREADS * ADDS);
    all_agree();
}

struct writer {
    pthread_t thread;
    struct handle *handle;
    _Atomic bool *stop;
    int64_t added;
    enum err err;
};

static void *write_on(void *arg)
{
    struct writer *w = arg;
    while (!w->err && !atomic_load(w->stop)) {
        w->err = handle_add(w->handle, "n", NULL);
        if (!w->err) w->added++;
    }
    return NULL;
}

struct collecting {
    struct handle *handle;
    uint64_t enough;
    int64_t added;
};

// Adds as well: a snapshot that is due while one is being written is left out, so those that allow
// the floor to rise may come late.
static bool collected_enough(void *ctx)
{
    struct collecting *c = ctx;
    assert_int_equal(handle_add(c->handle, "n", NULL), ERR_OK);
    c->added++;
    ledger_collect(c->handle->ledger);
    return ledger_dropped(c->handle->ledger) >= c->enough;
}

// One handle sleeps through all of it: what it believes to be the tail was dropped long ago.
static void collection_goes_on_under_writers_and_newcomers(void **state)
{
    (void)state;
    place.options = (struct ledger_options){.rules = quick_rules, .memory_ms = 500};
    place.files = (struct file_options){.segment_bytes = 16 << 10, .step_bytes = 16 << 10};
    open_all();
    struct handle *sleeper = &handles[2];
    assert_int_equal(handle_add(sleeper, "n", NULL), ERR_OK);
    int64_t total = 1;
    uint64_t slept_at = ledger_slot(sleeper->ledger);

    _Atomic bool stop = false;
    struct writer writers[2];
    for (size_t i = 0; i < 2; i++) {
        writers[i] = (struct writer){.handle = &handles[i], .stop = &stop};
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_on, &writers[i]), 0);
    }
    struct collecting collecting = {.handle = &handles[0], .enough = 300};
    bool enough = eventually(collected_enough, &collecting, WAIT_MS);
    struct handle newcomer;
    handle_open(&newcomer, &place); // recovers while they write and collect
    assert_true(handle_value(&newcomer, "n") > 0);
    atomic_store(&stop, true);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(writers[i].thread, NULL), 0);
        assert_int_equal(writers[i].err, ERR_OK);
        total += writers[i].added;
    }
    total += collecting.added;
    assert_true(enough);
    assert_true(slept_at + 300 < ledger_slot(handles[0].ledger));

    int64_t value = 0;
    assert_int_equal(handle_add(sleeper, "n", &value), ERR_OK);
    assert_int_equal(value, total + 1);
    assert_int_equal(handle_value(&newcomer, "n"), total + 1);
    assert_int_equal(ledger_sync(newcomer.ledger), ERR_OK);
    all_agree();
    assert_int_equal(ledger_digest(newcomer.ledger), ledger_digest(sleeper->ledger));
    handle_close(&newcomer);
}

static void slots_under_the_floor_are_gone_from_the_store(void **state)
{
    (void)state;
    place.options = (struct ledger_options){.rules = quick_rules, .memory_ms = 500};
    place.files = (struct file_options){.segment_bytes = 4 << 10, .step_bytes = 4 << 10};
    open_all();
    struct collecting collecting = {.handle = &handles[0], .enough = 20};
    assert_true(eventually(collected_enough, &collecting, WAIT_MS));
    struct store *store = place.shared ? place.shared : handles[1].store;
    struct store_answer a;
    store_answer_init(&a);
    assert_int_equal(store_read_log(store, "test/log", 1, 1000, &a), ERR_NOT_FOUND);
    assert_int_equal(store_get(store, "test/floor/00000000000000000001", 0, SIZE_MAX, &a), ERR_OK);
    assert_int_equal(a.body.len, 64);
    store_answer_done(&a);
    struct handle newcomer; // has no slot 1 to begin with
    handle_open(&newcomer, &place);
    assert_int_equal(handle_value(&newcomer, "n"), collecting.added);
    handle_close(&newcomer);
}

static char mem[] = "mem";
static char file[] = "file";

#define CASE(kind, test)                                                                           \
    {                                                                                              \
#kind ": " #test, test, set_up, tear_down, kind                                            \
    }
#define ON_EACH_STORE(test) CASE(mem, test), CASE(file, test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EACH_STORE(handles_see_each_others_adds),
        ON_EACH_STORE(same_request_id_counts_once_from_any_process),
        ON_EACH_STORE(racing_handles_lose_and_double_nothing),
        ON_EACH_STORE(collection_goes_on_under_writers_and_newcomers),
        ON_EACH_STORE(slots_under_the_floor_are_gone_from_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
