// SPDX-License-Identifier: Apache-2.0
// The step function by hand: snapshots, collection, ownership, time.
#include "rig.h"

#include <stdio.h>
#include <string.h>

static void newcomer_starts_from_the_newest_snapshot(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    for (int i = 0; i < 9; i++)
        rig_commit(&a, 'x');
    struct rig b = rig_on(s);
    struct request r;
    bool read_an_old_slot = false;
    for (int i = 0; i < RIG_LIMIT && rig_take(&b, &r); i++) {
        if (r.kind == REQUEST_READ_LOG && r.first <= 8) read_an_old_slot = true;
        rig_serve(&b, &r, FATE_OK);
    }
    assert_false(read_an_old_slot);
    assert_int_equal(journal_slot(b.journal), 9);
    assert_true(journal_digest(a.journal) == journal_digest(b.journal));
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void damaged_snapshot_is_replaced_by_the_one_before(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    for (int i = 0; i < 9; i++)
        rig_commit(&a, 'x');
    rig_overwrite(s, "q/test/0/snap/00000000000000000008", bytes_str("damaged"));
    assert_int_equal(rig_value_seen_by_a_newcomer(s, 'x'), 9);
    rig_done(&a);
    store_free(s);
}

static void grow_and_collect(struct rig *r)
{
    for (int i = 0; i < 12; i++)
        rig_commit(r, 'x');
    store_mem_step(r->store, rig_rules.retain_ms + 1000);
    rig_commit(r, 'x');
    collector_start(r->collector, rig_store_time(r));
    rig_settle(r);
    assert_int_equal(collector_dropped(r->collector), 8);
}

static void collection_drops_what_two_snapshots_cover(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    grow_and_collect(&a);
    struct store_answer answer;
    store_answer_init(&answer);
    assert_int_equal(store_read_log(s, "q/test/0/log", 8, 1000, &answer), ERR_NOT_FOUND);
    assert_int_equal(store_read_log(s, "q/test/0/log", 9, 1000, &answer), ERR_OK);
    store_answer_done(&answer);
    assert_int_equal(rig_value_seen_by_a_newcomer(s, 'x'), 13);
    rig_done(&a);
    store_free(s);
}

// A round, and the entry it asks for.
static void collect_once(struct rig *r)
{
    collector_start(r->collector, rig_store_time(r));
    rig_settle(r);
    if (!collector_wants_time(r->collector)) return;
    uint64_t ticket = ++rig_tickets;
    journal_touch(r->journal, ticket, TIME_NEVER, rig_store_time(r));
    rig_settle(r);
    assert_int_equal(rig_answer_to(r, ticket, NULL), ERR_OK);
}

static void a_store_that_is_nearly_full_gets_slots_back_sooner_but_not_before_v(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    for (int i = 0; i < 12; i++)
        rig_commit(&a, 'x');
    store_mem_step(s, rig_rules.verify_ms + 1000);
    rig_tight = true;
    rig_commit(&a, 'x');
    collect_once(&a);
    assert_int_equal(collector_dropped(a.collector), 0);
    store_mem_step(s, rig_rules.retain_tight_ms - rig_rules.verify_ms);
    collect_once(&a);
    rig_tight = false;
    assert_true(collector_dropped(a.collector) >= 8);
    assert_int_equal(rig_value_seen_by_a_newcomer(s, 'x'), 13);
    rig_done(&a);
    store_free(s);
}

// Too few slots for a snapshot, and no process writes: what a floor needs is made, once.
static void a_store_that_is_nearly_full_gets_an_idle_journal_back(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    for (int i = 0; i < 3; i++)
        rig_commit(&a, 'x');
    rig_tight = true;
    for (int i = 0; i < 10; i++) {
        collect_once(&a);
        store_mem_step(s, rig_rules.verify_ms + 1000);
    }
    uint64_t end = journal_slot(a.journal);
    for (int i = 0; i < 10; i++) {
        collect_once(&a);
        store_mem_step(s, rig_rules.verify_ms + 1000);
    }
    rig_tight = false;
    assert_int_equal(journal_slot(a.journal), end);
    assert_true(end <= 5);
    assert_true(collector_dropped(a.collector) >= 3);
    assert_int_equal(rig_value_seen_by_a_newcomer(s, 'x'), 3);
    rig_done(&a);
    store_free(s);
}

// All slots are old and not needed. The floor rises within seconds, not after a round a minute.
static void a_store_that_is_nearly_full_and_drained_gets_space_back_at_once(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    for (int i = 0; i < 3; i++)
        rig_commit(&a, 'x');
    store_mem_step(s, rig_rules.retain_tight_ms + 1000);
    rig_tight = true;
    rig_commit(&a, 'x');
    int64_t start = rig_store_time(&a).lo, most = start + rig_rules.verify_ms / 2;
    while (collector_dropped(a.collector) < 3 && rig_store_time(&a).lo < most) {
        store_mem_step(s, 1000);
        collector_tick(a.collector, rig_store_time(&a));
        rig_settle(&a);
        if (!collector_wants_time(a.collector)) continue;
        journal_touch(a.journal, ++rig_tickets, TIME_NEVER, rig_store_time(&a));
        rig_settle(&a);
        assert_int_equal(rig_answer_to(&a, rig_tickets, NULL), ERR_OK);
    }
    rig_tight = false;
    assert_true(collector_dropped(a.collector) >= 3);
    assert_int_equal(rig_value_seen_by_a_newcomer(s, 'x'), 4);
    rig_done(&a);
    store_free(s);
}

// The trap of collection: the sleeper's put creates a slot that was dropped, and the store says
// "done".
static void sleeper_that_writes_a_dropped_slot_is_not_fooled(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig sleeper = rig_on(s);
    rig_settle(&sleeper);
    uint64_t ticket = rig_add(&sleeper, 'y', 1);
    struct request put = rig_until_append(&sleeper);
    struct rig a = rig_on(s);
    grow_and_collect(&a);
    rig_serve(&sleeper, &put, FATE_OK);
    rig_no_answer_yet(&sleeper);
    rig_settle(&sleeper);
    assert_int_equal(rig_answer_to(&sleeper, ticket, NULL), ERR_OK);
    assert_int_equal(journal_slot(sleeper.journal), 14);
    assert_int_equal(rig_value_seen_by_a_newcomer(s, 'y'), 1);
    rig_done(&sleeper);
    rig_done(&a);
    store_free(s);
}

// Its put landed, its answer was lost, and its slot was dropped while it slept: the session table
// knows.
static void commit_whose_slot_is_gone_is_found_by_its_session(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig sleeper = rig_on(s);
    rig_settle(&sleeper);
    uint64_t ticket = rig_add(&sleeper, 'y', 1);
    struct request put = rig_until_append(&sleeper);
    rig_serve(&sleeper, &put, FATE_UNKNOWN_APPLIED);
    struct rig a = rig_on(s);
    grow_and_collect(&a);
    journal_tick(sleeper.journal, rig_store_time(&sleeper));
    rig_settle(&sleeper);
    int64_t value;
    assert_int_equal(rig_answer_to(&sleeper, ticket, &value), ERR_OK);
    assert_int_equal(value, 1);
    assert_int_equal(rig_value_seen_by_a_newcomer(s, 'y'), 1);
    rig_done(&sleeper);
    rig_done(&a);
    store_free(s);
}

static enum err own(struct rig *r, uint64_t expected, uint64_t token)
{
    struct journal_owner owner = {
        .coord = "the coordinator", .token = token, .address = bytes_str("here:1")};
    uint64_t ticket = ++rig_tickets;
    journal_own(r->journal, ticket, expected, &owner, TIME_NEVER, rig_store_time(r));
    rig_settle(r);
    return rig_answer_to(r, ticket, NULL);
}

static void ownership_needs_the_current_epoch_and_a_higher_token(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    struct rig b = rig_on(s);
    assert_int_equal(own(&a, 0, 10), ERR_OK);
    assert_true(journal_is_owner(a.journal));
    assert_int_equal(own(&b, 0, 11), ERR_CONFLICT);
    assert_int_equal(own(&b, 1, 10), ERR_FENCED);
    assert_int_equal(own(&b, 1, 11), ERR_OK);
    assert_true(journal_is_owner(b.journal));
    assert_int_equal(journal_epoch(b.journal), 2);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void other_coordination_service_needs_the_operators_switch(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    assert_int_equal(own(&a, 0, 10), ERR_OK);
    struct journal_owner owner = {.coord = "another service", .token = 99};
    journal_own(a.journal, 1000, 1, &owner, TIME_NEVER, a.now);
    rig_settle(&a);
    assert_int_equal(rig_answer_to(&a, 1000, NULL), ERR_DENIED);
    journal_coord_switch(a.journal, 1001, owner.coord, TIME_NEVER, a.now);
    journal_own(a.journal, 1002, 1, &owner, TIME_NEVER, a.now);
    rig_settle(&a);
    assert_int_equal(rig_answer_to(&a, 1001, NULL), ERR_OK);
    assert_int_equal(rig_answer_to(&a, 1002, NULL), ERR_OK);
    assert_int_equal(journal_epoch(a.journal), 2);
    rig_done(&a);
    store_free(s);
}

static void former_owner_is_fenced(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    struct rig b = rig_on(s);
    rig_settle(&b);
    assert_int_equal(own(&a, 0, 10), ERR_OK);
    uint64_t ticket = rig_add(&a, 'x', 1);
    struct request put = rig_until_append(&a);
    assert_int_equal(own(&b, 0, 11), ERR_CONFLICT);
    assert_int_equal(own(&b, 1, 11), ERR_OK);
    rig_serve(&a, &put, FATE_OK);
    rig_settle(&a);
    assert_int_equal(rig_answer_to(&a, ticket, NULL), ERR_FENCED);
    assert_false(journal_is_owner(a.journal));
    assert_int_equal(rig_value_seen_by_a_newcomer(s, 'x'), 0);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void time_ahead_of_the_store_stands_still_and_raises_an_alarm(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    rig_commit(&a, 'x');
    int64_t before = journal_time(a.journal);
    store_mem_step(s, -3600000);
    struct rig b = rig_on(s);
    rig_commit(&b, 'x');
    assert_true(journal_clock_alarm(b.journal));
    assert_int_equal(journal_time(b.journal), before);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newcomer_starts_from_the_newest_snapshot),
        cmocka_unit_test(damaged_snapshot_is_replaced_by_the_one_before),
        cmocka_unit_test(collection_drops_what_two_snapshots_cover),
        cmocka_unit_test(a_store_that_is_nearly_full_gets_slots_back_sooner_but_not_before_v),
        cmocka_unit_test(a_store_that_is_nearly_full_gets_an_idle_journal_back),
        cmocka_unit_test(a_store_that_is_nearly_full_and_drained_gets_space_back_at_once),
        cmocka_unit_test(sleeper_that_writes_a_dropped_slot_is_not_fooled),
        cmocka_unit_test(commit_whose_slot_is_gone_is_found_by_its_session),
        cmocka_unit_test(ownership_needs_the_current_epoch_and_a_higher_token),
        cmocka_unit_test(other_coordination_service_needs_the_operators_switch),
        cmocka_unit_test(former_owner_is_fenced),
        cmocka_unit_test(time_ahead_of_the_store_stands_still_and_raises_an_alarm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
