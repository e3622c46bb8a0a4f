// SPDX-License-Identifier: Apache-2.0
// What a handle asks of a store that charges for it reaches the shard's books, and the bookkeeping
// itself asks for nothing.
#include "rig.h"

#define HANDLE_LIFE 10000 // longer than a handle waits between two reports

static struct cost booked(struct rig *r)
{
    struct machine_cost spent;
    machine_spent(shard_machine(r->shard), r->now.lo, &spent);
    return spent.total;
}

static struct rig charged(struct store *s)
{
    struct shard_config c = rig_config();
    struct rig r = rig_start(s, &c);
    r.charges = true;
    rig_settle(&r);
    return r;
}

static void the_first_entry_records_the_cost_of_the_opening_and_its_own(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig r = charged(s);
    assert_int_equal(r.charged.writes, 1); // a list of snapshots
    uint64_t reads = r.charged.reads;
    assert_true(reads > 0);
    uint64_t ticket = rig_send(&r, "x");
    struct request append = rig_until_append(&r);
    assert_int_equal(rig_ops_in(&append, OP_SPENT), 1);
    rig_serve(&r, &append, FATE_OK);
    assert_int_equal(rig_answer(&r, ticket).err, ERR_OK);
    assert_int_equal(booked(&r).writes, 2);
    assert_int_equal(booked(&r).reads, reads);
    assert_int_equal(r.charged.writes, 2);
    rig_done(&r);
    store_free(s);
}

static void an_op_that_waits_for_the_recovery_records_all_its_cost(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig before = charged(s);
    (void)rig_sent(&before, "x");
    uint64_t known = cost_requests(&before.charged);
    struct shard_config c = rig_config();
    struct rig r = rig_start(s, &c);
    r.charges = true;
    uint64_t ticket = rig_send(&r, "y"); // nothing was asked yet
    rig_settle(&r);
    assert_int_equal(rig_answer(&r, ticket).err, ERR_OK);
    assert_true(r.charged.reads > 0);
    struct cost total = booked(&r);
    assert_int_equal(cost_requests(&total), known + cost_requests(&r.charged));
    rig_done(&before);
    rig_done(&r);
    store_free(s);
}

static void every_request_is_booked_once_by_every_handle(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = charged(s), b = charged(s);
    for (int i = 0; i < 5; i++) {
        rig_pass(&a, HANDLE_LIFE);
        (void)rig_sent(&a, "from a");
        (void)rig_sent(&b, "from b");
    }
    struct rig *last[] = {&b, &a}; // the loser of a race reports it with the next entry
    for (int i = 0; i < 2; i++) {
        rig_look(last[i]);
        rig_pass(last[i], HANDLE_LIFE);
        (void)rig_sent(last[i], "the last one");
    }
    struct cost all = a.charged;
    cost_add(&all, &b.charged);
    assert_true(all.reads > 10);
    assert_int_equal(booked(&a).reads, all.reads);
    assert_int_equal(booked(&a).writes, all.writes);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void entries_soon_after_each_other_are_reported_together(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig r = charged(s);
    (void)rig_sent(&r, "1");
    (void)rig_send(&r, "2");
    struct request append = rig_until_append(&r);
    assert_int_equal(rig_ops_in(&append, OP_SPENT), 0);
    rig_serve(&r, &append, FATE_OK);
    rig_pass(&r, HANDLE_LIFE);
    (void)rig_send(&r, "3");
    append = rig_until_append(&r);
    assert_int_equal(rig_ops_in(&append, OP_SPENT), 1);
    rig_done(&r);
    store_free(s);
}

static void a_busy_handle_reports_before_its_time(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig r = charged(s);
    for (int i = 0; i < 200; i++)
        (void)rig_sent(&r, "x");
    assert_true(booked(&r).writes > 100);
    assert_true(booked(&r).writes <= r.charged.writes);
    rig_done(&r);
    store_free(s);
}

static void an_idle_shard_makes_no_request_to_record_its_cost(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig r = charged(s);
    struct request request;
    (void)rig_sent(&r, "x");
    shard_add_cost(r.shard, &(struct cost){.reads = 1000});
    for (int i = 0; i < 10; i++) {
        rig_pass(&r, HANDLE_LIFE);
        assert_false(rig_take(&r, &request));
    }
    assert_int_equal(shard_wake_at(r.shard), TIME_NEVER);
    rig_done(&r);
    store_free(s);
}

static void a_claim_that_needs_no_entry_makes_none_for_its_cost(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = charged(s), b = charged(s);
    (void)rig_sent(&a, "x");
    rig_look(&b);
    rig_pass(&b, HANDLE_LIFE);
    uint64_t ticket = rig_receive(&b, "late", 1, 0); // b believes that there is something
    struct request append = rig_until_append(&b);
    assert_int_equal(rig_ops_in(&append, OP_SPENT), 1);
    assert_int_equal(rig_claimed(&a, "first", 1).count, 1);
    uint64_t slot = rig_slot(&a);
    rig_serve(&b, &append, FATE_OK); // the slot is taken, and so is the message
    rig_settle(&b);
    assert_int_equal(rig_answer(&b, ticket).count, 0);
    assert_int_equal(rig_slot(&b), slot);
    // What could not be told then is told later.
    (void)rig_sent(&b, "y");
    struct cost all = a.charged;
    cost_add(&all, &b.charged);
    assert_in_range(cost_requests(&all) - (booked(&b).writes + booked(&b).reads), 0, 6);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void what_did_not_land_is_reported_again(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig r = charged(s);
    uint64_t ticket = rig_send(&r, "x");
    for (int i = 0; i < 3; i++) {
        struct request append = rig_until_append(&r);
        assert_int_equal(rig_ops_in(&append, OP_SPENT), 1);
        rig_serve(&r, &append, FATE_UNAVAILABLE);
        rig_pass(&r, 5000); // it tries again
    }
    rig_settle(&r);
    assert_int_equal(rig_answer(&r, ticket).err, ERR_OK);
    rig_pass(&r, HANDLE_LIFE);
    (void)rig_sent(&r, "y");
    assert_int_equal(booked(&r).writes, r.charged.writes);
    assert_int_equal(booked(&r).reads, r.charged.reads);
    rig_done(&r);
    store_free(s);
}

static void where_nothing_is_charged_entries_stay_as_they_were(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config c = rig_config();
    struct rig r = rig_on(s, &c);
    for (int i = 0; i < 3; i++) {
        (void)rig_send(&r, "x");
        struct request append = rig_until_append(&r);
        assert_int_equal(rig_ops_in(&append, OP_SPENT), 0);
        rig_serve(&r, &append, FATE_OK);
        rig_pass(&r, HANDLE_LIFE);
    }
    struct cost total = booked(&r);
    assert_int_equal(cost_requests(&total), 0);
    rig_done(&r);
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_entry_records_the_cost_of_the_opening_and_its_own),
        cmocka_unit_test(an_op_that_waits_for_the_recovery_records_all_its_cost),
        cmocka_unit_test(every_request_is_booked_once_by_every_handle),
        cmocka_unit_test(entries_soon_after_each_other_are_reported_together),
        cmocka_unit_test(a_busy_handle_reports_before_its_time),
        cmocka_unit_test(an_idle_shard_makes_no_request_to_record_its_cost),
        cmocka_unit_test(a_claim_that_needs_no_entry_makes_none_for_its_cost),
        cmocka_unit_test(what_did_not_land_is_reported_again),
        cmocka_unit_test(where_nothing_is_charged_entries_stay_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
