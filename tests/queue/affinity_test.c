// SPDX-License-Identifier: Apache-2.0
// dispatch=affinity: a group stays with its worker while that worker's row lives.
#include "fleet.h"

static void start(struct rig *r)
{
    struct queue_config c = fleet_config(DISPATCH_AFFINITY);
    fleet_start(r, &c);
}

static void take_and_ack(struct rig *r, const struct fleet_grant *g)
{
    assert_int_equal(rig_word(r, OP_ACK, &g->grant).reason, REASON_NONE);
}

static void a_group_stays_with_the_worker_of_its_last_grant(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_grant g[8];
    start(&r);
    for (int i = 0; i < 3; i++) {
        rig_send(&r, "x", "g");
        rig_send(&r, "x", "h");
    }
    (void)fleet_join(&r, "a", 1, 2, "");
    (void)fleet_join(&r, "b", 2, 2, "");
    char of_g[WORKER_NAME_MAX + 1], of_h[WORKER_NAME_MAX + 1];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fleet_dispatch(&r, 8, g), 2);
        if (i == 0) {
            memcpy(of_g, g[0].worker, sizeof of_g);
            memcpy(of_h, g[1].worker, sizeof of_h);
            assert_string_not_equal(of_g, of_h);
        }
        assert_string_equal(g[0].worker, of_g);
        assert_string_equal(g[1].worker, of_h);
        fleet_reload(&r);
        take_and_ack(&r, &g[i % 2]);
        take_and_ack(&r, &g[1 - i % 2]);
    }
    rig_send(&r, "x", "h"); // after a time without messages
    fleet_reload(&r);
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    assert_string_equal(g[0].worker, of_h);
    rig_done(&r);
}

static void a_group_waits_for_room_at_its_worker(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_grant g[8], other[8];
    start(&r);
    (void)fleet_join(&r, "a", 1, 1, "");
    rig_send(&r, "1", "g");
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    take_and_ack(&r, &g[0]);
    rig_send(&r, "2", "h");
    assert_int_equal(fleet_dispatch(&r, 8, other), 1); // a is full
    (void)fleet_join(&r, "b", 2, 5, "");
    rig_send(&r, "3", "g");
    assert_false(machine_dispatchable(r.m));
    assert_int_equal(fleet_dispatch(&r, 8, g), 0); // b has room, but g is a's
    rig_send(&r, "4", "i");
    assert_int_equal(fleet_dispatch(&r, 8, g), 1); // a later group overtakes
    assert_int_equal(g[0].grant.seq, 4);
    fleet_reload(&r);
    take_and_ack(&r, &other[0]);
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    assert_int_equal(g[0].grant.seq, 3);
    assert_string_equal(g[0].worker, "a");
    rig_done(&r);
}

static void a_group_is_free_when_its_row_ends(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct rig r;
        struct fleet_grant g[8];
        start(&r);
        (void)fleet_join(&r, "a", 1, 1, "");
        rig_send(&r, "1", "g");
        assert_int_equal(fleet_dispatch(&r, 8, g), 1);
        (void)fleet_join(&r, "b", 2, 5, "");
        rig_send(&r, "2", "g");
        if (how == 0) assert_int_equal(fleet_act(&r, WORKER_LEAVE, "a", 1), REASON_NONE);
        if (how == 1) assert_int_equal(fleet_act(&r, WORKER_EVICT, "a", 0), REASON_NONE);
        if (how == 2) {
            rig_tick(&r, FLEET_TTL - 10000);
            (void)fleet_act(&r, WORKER_BEAT, "b", 2);
            rig_tick(&r, 11000);
        }
        fleet_reload(&r);
        assert_int_equal(fleet_dispatch(&r, 8, g), 1);
        assert_int_equal(g[0].grant.seq, 1); // and in order
        assert_string_equal(g[0].worker, "b");
        rig_done(&r);
    }
}

static void a_paused_worker_keeps_its_groups(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_grant g[8];
    start(&r);
    (void)fleet_join(&r, "a", 1, 5, "");
    rig_send(&r, "1", "g");
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    take_and_ack(&r, &g[0]);
    (void)fleet_join(&r, "b", 2, 5, "");
    (void)fleet_act(&r, WORKER_PAUSE, "a", 0);
    rig_send(&r, "2", "g");
    assert_int_equal(fleet_dispatch(&r, 8, g), 0);
    (void)fleet_act(&r, WORKER_RESUME, "a", 0);
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    assert_string_equal(g[0].worker, "a");
    rig_done(&r);
}

static void messages_without_a_group_are_one_group(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_grant g[8];
    start(&r);
    (void)fleet_join(&r, "a", 1, 1, "");
    rig_send(&r, "1", NULL);
    rig_send(&r, "2", NULL);
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    take_and_ack(&r, &g[0]);
    (void)fleet_join(&r, "b", 2, 5, "");
    rig_send(&r, "3", "g");
    assert_int_equal(fleet_dispatch(&r, 8, g), 2);
    assert_int_equal(g[0].grant.seq, 2);
    assert_string_equal(g[0].worker, "a");
    assert_string_equal(g[1].worker, "b");
    fleet_reload(&r);
    take_and_ack(&r, &g[0]);
    rig_send(&r, "4", NULL);
    (void)fleet_act(&r, WORKER_DRAIN, "a", 0);
    assert_int_equal(fleet_dispatch(&r, 8, g), 0);
    (void)fleet_act(&r, WORKER_LEAVE, "a", 1);
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    assert_string_equal(g[0].worker, "b");
    rig_done(&r);
}

static void claims_get_only_tickets_while_rows_live(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_grant t[8];
    struct grant g[8];
    start(&r);
    rig_send(&r, "1", "g");
    rig_send(&r, "2", "h");
    (void)fleet_join(&r, "a", 1, 1, "");
    assert_false(machine_claimable(r.m, machine_now(r.m), bytes_str("any")));
    assert_int_equal(rig_claim(&r, "any", 8, g), 0);
    assert_int_equal(rig_claim(&r, "a", 8, g), 0);
    assert_int_equal(fleet_dispatch(&r, 8, t), 1);
    assert_true(machine_claimable(r.m, machine_now(r.m), bytes_str("a")));
    assert_int_equal(rig_claim(&r, "a", 8, g), 1);
    (void)fleet_act(&r, WORKER_EVICT, "a", 0); // the last row
    assert_int_equal(rig_claim(&r, "any", 8, g), 2);
    rig_done(&r);
}

static void a_head_that_its_worker_cannot_take_goes_to_one_that_can(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_grant g[8];
    start(&r);
    (void)fleet_join(&r, "a", 1, 5, "");
    rig_send(&r, "1", "g");
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    take_and_ack(&r, &g[0]);
    struct message m = {
        .body = bytes_str("2"), .group = bytes_str("g"), .requires = bytes_str("kind=gpu")};
    (void)rig_send_message(&r, &m);
    assert_int_equal(fleet_dispatch(&r, 8, g), 0);
    fleet_reload(&r);
    (void)fleet_join(&r, "b", 2, 5, "kind=gpu");
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    assert_string_equal(g[0].worker, "b");
    take_and_ack(&r, &g[0]);
    rig_send(&r, "3", "g");
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    assert_string_equal(g[0].worker, "b"); // the group moved
    take_and_ack(&r, &g[0]);
    (void)rig_send_message(&r, &m);
    (void)fleet_join(&r, "b", 2, 5, ""); // without its labels
    machine_check(r.m);
    assert_int_equal(fleet_dispatch(&r, 8, g), 0);
    (void)fleet_join(&r, "b", 2, 5, "kind=gpu");
    fleet_reload(&r);
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    rig_done(&r);
}

static void another_setting_frees_all_groups(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_grant g[8];
    start(&r);
    (void)fleet_join(&r, "a", 1, 1, "");
    rig_send(&r, "1", "g");
    rig_send(&r, "2", "h");
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    take_and_ack(&r, &g[0]);
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    rig_send(&r, "3", "g");
    (void)fleet_join(&r, "b", 2, 1, "");
    struct queue_config c = fleet_config(DISPATCH_TICKETS);
    c.ordering_guarantee = true;
    rig_put_configure(&r, &c);
    rig_commit(&r);
    fleet_reload(&r);
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    assert_string_equal(g[0].worker, "b");
    rig_done(&r);
}

static void affinity_needs_a_strict_queue(void **state)
{
    (void)state;
    struct queue_config c = defaults();
    struct config_error error;
    c.dispatch = DISPATCH_AFFINITY;
    assert_int_equal(config_check(&c, "tasks", &error), ERR_INVALID);
    assert_non_null(strstr(error.text, "dispatch \"affinity\" needs orderingGuarantee \"true\""));
    c.ordering_guarantee = true;
    assert_int_equal(config_check(&c, "tasks", &error), ERR_OK);
    assert_int_equal(config_set(&c, "dispatch", "maybe", &error), ERR_INVALID);
    assert_string_equal(error.text, "dispatch \"maybe\" is not one of auto, tickets, affinity");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_group_stays_with_the_worker_of_its_last_grant),
        CASE(a_group_waits_for_room_at_its_worker),
        CASE(a_group_is_free_when_its_row_ends),
        CASE(a_paused_worker_keeps_its_groups),
        CASE(messages_without_a_group_are_one_group),
        CASE(claims_get_only_tickets_while_rows_live),
        CASE(a_head_that_its_worker_cannot_take_goes_to_one_that_can),
        CASE(another_setting_frees_all_groups),
        CASE(affinity_needs_a_strict_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
