// SPDX-License-Identifier: Apache-2.0
// Dispatch: which row gets the next ticket, and that every row with room gets its share.
#include "fleet.h"

#include <stdlib.h>

static void start(struct rig *r, enum dispatch dispatch, int messages)
{
    struct queue_config c = fleet_config(dispatch);
    fleet_start(r, &c);
    for (int i = 0; i < messages; i++)
        rig_send(r, "x", NULL);
}

static void messages_go_out_in_order_to_rows_in_turn(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_grant g[16];
    start(&r, DISPATCH_TICKETS, 6);
    (void)fleet_join(&r, "zeta", 1, 2, ""); // the first to wait, whatever its name
    (void)fleet_join(&r, "alpha", 2, 2, "");
    (void)fleet_join(&r, "mid", 3, 1, "");
    assert_int_equal(fleet_dispatch(&r, 16, g), 5);
    const char *expected[] = {"zeta", "alpha", "mid", "zeta", "alpha"};
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(g[i].grant.seq, i + 1);
        assert_int_equal(g[i].grant.order, i + 1);
        assert_int_equal(g[i].grant.deliveries, 0);
        assert_int_equal(g[i].grant.deadline, machine_now(r.m) + (r.time.hi - r.time.lo) + 1000);
        assert_string_equal(g[i].worker, expected[i]);
    }
    assert_int_equal(rig_events(&r, EVENT_TICKETS_PUBLISHED), 5);
    assert_false(machine_dispatches(r.m));
    fleet_reload(&r);
    assert_int_equal(fleet_dispatch(&r, 16, g), 0);
    rig_done(&r);
}

// A row that joins while others work waits behind those that were served before it came.
static void a_new_row_waits_behind_the_rows_that_wait_longer(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_grant g[16];
    start(&r, DISPATCH_TICKETS, 4);
    (void)fleet_join(&r, "a", 1, 4, "");
    (void)fleet_join(&r, "b", 2, 4, "");
    assert_int_equal(fleet_dispatch(&r, 1, g), 1); // a
    for (uint64_t i = 0; i < 3; i++) {             // one that joins again and again is no faster
        (void)fleet_join(&r, "c", 3 + i, 4, "");
        (void)fleet_act(&r, WORKER_LEAVE, "c", 3 + i);
    }
    (void)fleet_join(&r, "c", 9, 4, "");
    fleet_reload(&r);
    assert_int_equal(fleet_dispatch(&r, 3, g), 3);
    assert_string_equal(g[0].worker, "b");
    assert_string_equal(g[1].worker, "a");
    assert_string_equal(g[2].worker, "c");
    rig_done(&r);
}

static void each_of_many_rows_gets_one_of_as_many_grants(void **state)
{
    (void)state;
    enum { ROWS = 200 };
    struct rig r;
    static struct fleet_grant g[ROWS];
    start(&r, DISPATCH_TICKETS, 3 * ROWS);
    for (uint64_t i = 0; i < ROWS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "w%03d", (int)(i * 7 % ROWS));
        (void)fleet_join(&r, name, i + 1, 100, "");
    }
    for (int round = 0; round < 3; round++) {
        bool got[ROWS] = {false};
        assert_int_equal(fleet_dispatch(&r, ROWS, g), ROWS);
        for (int i = 0; i < ROWS; i++) {
            int n = atoi(g[i].worker + 1);
            assert_false(got[n]);
            got[n] = true;
        }
    }
    rig_done(&r);
}

static void auto_gives_tickets_only_to_workers_that_reach_only_the_store(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_grant g[4];
    start(&r, DISPATCH_AUTO, 4);
    struct worker_change near = fleet_joins("near", 1, 2, "");
    near.flags = 0;
    assert_int_equal(fleet_change(&r, &near), REASON_NONE);
    assert_false(machine_dispatchable(r.m));
    assert_int_equal(fleet_dispatch(&r, 4, g), 0);
    (void)fleet_join(&r, "far", 2, 1, "");
    assert_true(machine_dispatchable(r.m));
    assert_int_equal(fleet_dispatch(&r, 4, g), 1);
    assert_string_equal(g[0].worker, "far");
    struct queue_config c = fleet_config(DISPATCH_TICKETS);
    rig_put_configure(&r, &c);
    rig_commit(&r);
    assert_int_equal(fleet_dispatch(&r, 4, g), 2);
    assert_string_equal(g[0].worker, "near");
    fleet_reload(&r);
    rig_done(&r);
}

static void only_the_owner_dispatches(void **state)
{
    (void)state;
    struct rig r;
    start(&r, DISPATCH_TICKETS, 1);
    (void)fleet_join(&r, "w", 1, 1, "");
    r.epoch = 0;
    fleet_put_dispatch(&r, 4);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_NOT_OWNER);
    r.epoch = 1;
    rig_put_plain(&r, OP_PAUSE);
    fleet_put_dispatch(&r, 4);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 1), REASON_PAUSED);
    assert_int_equal(rig_count(&r, STATE_LOCKED), 0);
    rig_done(&r);
}

static void a_ticket_that_is_not_taken_returns_to_its_place(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_grant g[4];
    start(&r, DISPATCH_TICKETS, 2);
    (void)fleet_join(&r, "a", 1, 1, "");
    assert_int_equal(fleet_dispatch(&r, 4, g), 1);
    rig_tick(&r, 1100);
    assert_int_equal(rig_events(&r, EVENT_TICKETS_RECOVERED), 1);
    assert_int_equal(fleet_view(&r, "a").failed, 0);
    assert_true(machine_dispatchable(r.m));
    assert_int_equal(fleet_dispatch(&r, 4, g), 1);
    assert_int_equal(g[0].grant.seq, 1);
    assert_int_equal(g[0].grant.deliveries, 0);
    rig_put_claim(&r, OP_TAKE, "a", 4, 0);
    rig_commit(&r);
    struct grant taken[4];
    assert_int_equal(rig_grants(&r, 0, taken, 4), 1);
    assert_int_equal(taken[0].deliveries, 1);
    assert_int_equal(rig_word(&r, OP_ACK, &taken[0]).reason, REASON_NONE);
    assert_int_equal(fleet_view(&r, "a").done, 1);
    assert_int_equal(fleet_dispatch(&r, 4, g), 1); // room again
    assert_int_equal(g[0].grant.seq, 2);
    rig_done(&r);
}

// Direct claims use room as well: a worker that says a small capacity and claims more gets no
// ticket.
static void direct_claims_count_against_the_room_for_tickets(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[4];
    struct fleet_grant t[4];
    start(&r, DISPATCH_TICKETS, 5);
    (void)fleet_join(&r, "a", 1, 2, "");
    assert_int_equal(rig_claim(&r, "a", 3, g), 3); // more than its capacity: a claim says how many
    assert_int_equal(fleet_dispatch(&r, 4, t), 0);
    (void)rig_word(&r, OP_ACK, &g[0]);
    assert_int_equal(fleet_dispatch(&r, 4, t), 0);
    (void)rig_word(&r, OP_ACK, &g[1]);
    assert_int_equal(fleet_dispatch(&r, 4, t), 1);
    rig_done(&r);
}

static void a_row_that_is_over_gets_no_ticket_in_the_entry_that_ends_it(void **state)
{
    (void)state;
    struct rig r;
    start(&r, DISPATCH_TICKETS, 2);
    (void)fleet_join(&r, "a", 1, 2, "");
    r.time.lo += FLEET_TTL + 1000;
    r.time.hi += FLEET_TTL + 1000;
    struct fleet_grant g[4];
    fleet_put_dispatch(&r, 4);
    fleet_put(&r, &(struct worker_change){WORKER_BEAT, bytes_str("a"), 1, 0, 0, 0, BYTES_EMPTY});
    fleet_put_dispatch(&r, 4);
    rig_commit(&r);
    assert_int_equal(fleet_grants(&r, 0, g, 4), 0);
    assert_int_equal(fleet_reason(&r, 1), REASON_NONE);
    assert_int_equal(fleet_grants(&r, 2, g, 4), 2);
    machine_check(r.m);
    rig_done(&r);
}

static void strict_order_holds_over_tickets(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_grant g[8];
    struct queue_config c = fleet_config(DISPATCH_TICKETS);
    c.ordering_guarantee = true;
    fleet_start(&r, &c);
    rig_send(&r, "1", "g");
    rig_send(&r, "2", "g");
    rig_send(&r, "3", "h");
    (void)fleet_join(&r, "a", 1, 5, "");
    (void)fleet_join(&r, "b", 2, 5, "");
    assert_int_equal(fleet_dispatch(&r, 8, g), 2); // one of each group
    assert_int_equal(g[0].grant.seq, 1);
    assert_int_equal(g[1].grant.seq, 3);
    assert_int_equal(fleet_act(&r, WORKER_EVICT, "a", 0), REASON_NONE);
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    assert_int_equal(g[0].grant.seq, 1); // not 2
    fleet_reload(&r);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(messages_go_out_in_order_to_rows_in_turn),
        CASE(a_new_row_waits_behind_the_rows_that_wait_longer),
        CASE(each_of_many_rows_gets_one_of_as_many_grants),
        CASE(auto_gives_tickets_only_to_workers_that_reach_only_the_store),
        CASE(only_the_owner_dispatches),
        CASE(a_ticket_that_is_not_taken_returns_to_its_place),
        CASE(direct_claims_count_against_the_room_for_tickets),
        CASE(a_row_that_is_over_gets_no_ticket_in_the_entry_that_ends_it),
        CASE(strict_order_holds_over_tickets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
