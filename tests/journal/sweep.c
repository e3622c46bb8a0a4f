// SPDX-License-Identifier: Apache-2.0
// The step function by hand: what a collector does with objects that no message needs, and with
// slots that came back.
#include "rig.h"

#include <stdio.h>
#include <string.h>

#define DATA "q/test/0/data/"

// The name says what the fold thinks of it.
static bool time_has_come;

static enum fold_hold hold(void *ctx, struct bytes name)
{
    (void)ctx;
    if (name.data[0] == 'f') return FOLD_FREE;
    if (name.data[0] == 'y') return time_has_come ? FOLD_FREE : FOLD_YET;
    return FOLD_HELD;
}

struct world {
    struct store *store;
    struct rig rig;
};

static int set_up(void **state)
{
    struct world *w = test_calloc(1, sizeof *w);
    w->store = store_mem_new();
    rig_holds = hold;
    time_has_come = false;
    w->rig = rig_on(w->store);
    rig_commit(&w->rig, 'x');
    collector_tick(w->rig.collector, rig_store_time(&w->rig)); // the hours count from here
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    rig_done(&w->rig);
    store_free(w->store);
    test_free(w);
    return 0;
}

static void put(struct world *w, const char *name)
{
    char key[64];
    struct store_answer a;
    (void)snprintf(key, sizeof key, "%s%s", DATA, name);
    store_answer_init(&a);
    assert_int_equal(store_put_new(w->store, key, bytes_str("body"), &a), ERR_OK);
    store_answer_done(&a);
}

static bool is_there(struct world *w, const char *name)
{
    char key[64];
    struct store_answer a;
    (void)snprintf(key, sizeof key, "%s%s", DATA, name);
    store_answer_init(&a);
    enum err err = store_get(w->store, key, 0, SIZE_MAX, &a);
    store_answer_done(&a);
    assert_true(err == ERR_OK || err == ERR_NOT_FOUND);
    return err == ERR_OK;
}

// Time passes, and whatever is due is done.
static void pass(struct world *w, int64_t ms)
{
    store_mem_step(w->store, ms);
    collector_tick(w->rig.collector, rig_store_time(&w->rig));
    rig_settle(&w->rig);
    assert_false(collector_running(w->rig.collector));
}

static void only_what_is_free_and_old_is_swept(void **state)
{
    struct world *w = *state;
    put(w, "free");
    put(w, "held");
    put(w, "yet");
    pass(w, rig_rules.sweep_every_ms);
    assert_true(is_there(w, "free")); // too young
    put(w, "fresh");
    pass(w, rig_rules.sweep_every_ms);
    assert_false(is_there(w, "free"));
    assert_true(is_there(w, "fresh") && is_there(w, "held") && is_there(w, "yet"));
    assert_int_equal(collector_swept(w->rig.collector), 1);
}

static void many_pages_are_swept_in_one_round(void **state)
{
    struct world *w = *state;
    char name[32];
    for (int i = 0; i < 2500; i++) {
        (void)snprintf(name, sizeof name, "%s-%04d", i % 5 == 0 ? "held" : "free", i);
        put(w, name);
    }
    store_mem_step(w->store, rig_rules.orphan_ms);
    pass(w, rig_rules.sweep_every_ms);
    assert_int_equal(collector_swept(w->rig.collector), 2000);
    assert_true(is_there(w, "held-0000") && is_there(w, "held-2495"));
    assert_false(is_there(w, "free-0001") || is_there(w, "free-2499"));
}

static void what_only_time_keeps_asks_for_an_entry_and_goes_next_time(void **state)
{
    struct world *w = *state;
    put(w, "yet");
    store_mem_step(w->store, rig_rules.orphan_ms);
    pass(w, rig_rules.sweep_every_ms);
    assert_true(is_there(w, "yet"));
    assert_true(collector_wants_time(w->rig.collector));
    assert_false(collector_wants_time(w->rig.collector)); // once
    time_has_come = true;
    pass(w, rig_rules.sweep_every_ms);
    assert_false(is_there(w, "yet"));
    assert_false(collector_wants_time(w->rig.collector));
}

static void a_shard_where_nothing_happens_is_left_alone(void **state)
{
    struct world *w = *state;
    put(w, "held");
    pass(w, rig_rules.sweep_every_ms);
    assert_true(collector_wake_at(w->rig.collector) == TIME_NEVER);
    rig_commit(&w->rig, 'x');
    assert_true(collector_wake_at(w->rig.collector) != TIME_NEVER);
    pass(w, rig_rules.sweep_every_ms);
    put(w, "free"); // no message refers to it
    assert_true(collector_wake_at(w->rig.collector) == TIME_NEVER);
    rig_commit(&w->rig, 'x');
    pass(w, rig_rules.sweep_every_ms); // seen, and too young: it comes back for it
    assert_true(collector_wake_at(w->rig.collector) != TIME_NEVER);
    pass(w, rig_rules.sweep_every_ms);
    assert_false(is_there(w, "free"));
    assert_true(collector_wake_at(w->rig.collector) == TIME_NEVER);
}

static void a_sweep_that_fails_is_not_tried_again_at_once(void **state)
{
    struct world *w = *state;
    put(w, "free");
    store_mem_step(w->store, rig_rules.orphan_ms + rig_rules.sweep_every_ms);
    collector_tick(w->rig.collector, rig_store_time(&w->rig));
    struct request r;
    assert_true(rig_take(&w->rig, &r));
    rig_serve(&w->rig, &r, FATE_UNAVAILABLE);
    assert_false(collector_running(w->rig.collector));
    assert_true(collector_wake_at(w->rig.collector) >=
                w->rig.now.lo + rig_rules.sweep_every_ms - 1000);
    pass(w, rig_rules.sweep_every_ms);
    assert_false(is_there(w, "free"));
}

static void a_sweep_may_end_at_any_request(void **state)
{
    struct world *w = *state;
    for (int failing = 0; failing < 5; failing++) {
        put(w, "free");
        rig_commit(&w->rig, 'x');
        store_mem_step(w->store, rig_rules.orphan_ms + rig_rules.sweep_every_ms);
        collector_tick(w->rig.collector, rig_store_time(&w->rig));
        struct request r;
        for (int i = 0; rig_take(&w->rig, &r); i++)
            rig_serve(&w->rig, &r, i == failing ? FATE_UNAVAILABLE : FATE_OK);
        assert_false(collector_running(w->rig.collector));
        pass(w, rig_rules.sweep_every_ms);
        assert_false(is_there(w, "free"));
    }
}

static bool slot_exists(struct world *w, uint64_t slot)
{
    struct store_answer a;
    store_answer_init(&a);
    enum err err = store_read_log(w->store, "q/test/0/log", slot, 1, &a);
    store_answer_done(&a);
    return err == ERR_OK;
}

static void collect(struct world *w)
{
    collector_start(w->rig.collector, rig_store_time(&w->rig));
    rig_settle(&w->rig);
}

// A writer slept through collection and creates a slot that was dropped. No process reads it again.
// It goes when it is as old as every other that was dropped.
static void a_slot_that_came_back_under_the_floor_goes_again(void **state)
{
    struct world *w = *state;
    struct rig sleeper = rig_on(w->store);
    rig_settle(&sleeper);
    (void)rig_add(&sleeper, 'y', 1);
    struct request late = rig_until_append(&sleeper);
    uint64_t slot = late.first;
    for (int i = 0; i < 12; i++)
        rig_commit(&w->rig, 'x');
    store_mem_step(w->store, rig_rules.retain_ms + 1000);
    rig_commit(&w->rig, 'x');
    collect(w);
    assert_false(slot_exists(w, slot));
    rig_serve(&sleeper, &late, FATE_OK); // and here it is again
    assert_true(slot_exists(w, slot));
    collect(w);
    assert_true(slot_exists(w, slot)); // too young: its writer may still be looking at it
    store_mem_step(w->store, rig_rules.retain_ms + 1000);
    rig_commit(&w->rig, 'x');
    collect(w);
    assert_false(slot_exists(w, slot));
    rig_done(&sleeper);
}

static void snapshots_that_are_superseded_go(void **state)
{
    struct world *w = *state;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 12; i++)
            rig_commit(&w->rig, 'x');
        store_mem_step(w->store, rig_rules.retain_ms + 1000);
        rig_commit(&w->rig, 'x');
        collect(w);
    }
    struct store_answer a;
    store_answer_init(&a);
    assert_int_equal(store_list(w->store, "q/test/0/snap/", NULL, 1000, &a), ERR_OK);
    assert_true(a.rows_len <= 3);
    assert_int_equal(store_extents(w->store, "q/test/0/log", 1, 1000, &a), ERR_OK);
    assert_true(a.rows_len <= 16);
    store_answer_done(&a);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(only_what_is_free_and_old_is_swept),
        CASE(many_pages_are_swept_in_one_round),
        CASE(what_only_time_keeps_asks_for_an_entry_and_goes_next_time),
        CASE(a_shard_where_nothing_happens_is_left_alone),
        CASE(a_sweep_that_fails_is_not_tried_again_at_once),
        CASE(a_sweep_may_end_at_any_request),
        CASE(a_slot_that_came_back_under_the_floor_goes_again),
        CASE(snapshots_that_are_superseded_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
