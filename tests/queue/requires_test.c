// SPDX-License-Identifier: Apache-2.0
// Messages that require labels: which workers get them, in which order, and how many requirements
// there may be.
#include "fleet.h"

static void start(struct rig *r, enum dispatch dispatch)
{
    struct queue_config c = fleet_config(dispatch);
    fleet_start(r, &c);
}

static enum reason send(struct rig *r, const char *requires)
{
    struct message m = {.body = bytes_str("x"), .requires = bytes_str(requires)};
    return rig_send_message(r, &m).reason;
}

static void a_message_goes_only_to_a_row_with_its_labels(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_grant g[8];
    start(&r, DISPATCH_TICKETS);
    assert_int_equal(send(&r, "kind=gpu"), REASON_NONE);
    assert_int_equal(send(&r, ""), REASON_NONE);
    assert_int_equal(send(&r, "kind=gpu,zone=b"), REASON_NONE);
    (void)fleet_join(&r, "plain", 1, 5, "");
    (void)fleet_join(&r, "cpu", 2, 5, "kind=cpu,zone=b");
    assert_true(machine_dispatchable(r.m));
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    assert_int_equal(g[0].grant.seq, 2);
    assert_string_equal(g[0].worker, "plain");
    assert_false(machine_dispatchable(r.m));
    fleet_reload(&r);
    assert_false(machine_dispatchable(r.m));
    (void)fleet_join(&r, "gpu", 3, 5, "kind=gpu");
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    assert_int_equal(g[0].grant.seq, 1);
    (void)fleet_join(&r, "both", 4, 5, "host=a,kind=gpu,zone=b");
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    assert_int_equal(g[0].grant.seq, 3);
    assert_string_equal(g[0].worker, "both");
    fleet_reload(&r);
    rig_done(&r);
}

static void a_claim_gets_what_its_workers_labels_allow(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[8];
    start(&r, DISPATCH_AUTO);
    (void)send(&r, "kind=gpu");
    (void)send(&r, "");
    assert_int_equal(rig_claim(&r, "visitor", 8, g), 1); // it is not registered
    assert_int_equal(g[0].seq, 2);
    assert_false(machine_claimable(r.m, machine_now(r.m), bytes_str("visitor")));
    assert_false(machine_claimable(r.m, machine_now(r.m), BYTES_EMPTY));
    assert_true(machine_requires(r.m));
    (void)fleet_join(&r, "gpu", 1, 5, "kind=gpu");
    assert_true(machine_claimable(r.m, machine_now(r.m), bytes_str("gpu")));
    assert_int_equal(rig_claim(&r, "gpu", 8, g), 1);
    assert_int_equal(g[0].seq, 1);
    assert_int_equal(rig_word(&r, OP_RELEASE, &g[0]).reason, REASON_NONE);
    assert_int_equal(rig_claim(&r, "visitor", 8, g), 0); // the requirement stays
    fleet_reload(&r);
    assert_int_equal(rig_claim(&r, "gpu", 8, g), 1);
    assert_int_equal(rig_word(&r, OP_ACK, &g[0]).reason, REASON_NONE);
    assert_false(machine_requires(r.m));
    machine_check(r.m);
    rig_done(&r);
}

// A worker with the labels gets its messages and the plain ones in one order.
static void order_and_priority_hold_over_lanes(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[8];
    start(&r, DISPATCH_AUTO);
    (void)fleet_join(&r, "gpu", 1, 5, "kind=gpu,zone=b");
    (void)send(&r, "");         // 1
    (void)send(&r, "kind=gpu"); // 2
    (void)send(&r, "zone=b");   // 3
    (void)send(&r, "");         // 4
    struct message urgent = {
        .body = bytes_str("x"), .requires = bytes_str("zone=b"), .priority = 5}; // 5
    (void)rig_send_message(&r, &urgent);
    struct message later = {.body = bytes_str("x"),
                            .requires = bytes_str("zone=b"),
                            .when = WHEN_DELAY,
                            .when_ms = 1000}; // 6
    (void)rig_send_message(&r, &later);
    fleet_reload(&r);
    assert_int_equal(rig_claim(&r, "gpu", 8, g), 5);
    const uint64_t expected[] = {5, 1, 2, 3, 4};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(g[i].seq, expected[i]);
    rig_tick(&r, 1100);
    assert_int_equal(rig_claim(&r, "gpu", 8, g), 1);
    assert_int_equal(g[0].seq, 6);
    rig_done(&r);
}

static void the_newest_comes_first_in_lanes_too(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[8];
    start(&r, DISPATCH_AUTO);
    (void)fleet_join(&r, "gpu", 1, 5, "kind=gpu");
    (void)send(&r, "kind=gpu");
    (void)send(&r, "kind=gpu");
    (void)send(&r, "");
    struct queue_config c = fleet_config(DISPATCH_AUTO);
    c.ordering_mode = ORDERING_LIFO;
    rig_put_configure(&r, &c);
    rig_commit(&r);
    machine_check(r.m);
    assert_int_equal(rig_claim(&r, "gpu", 8, g), 3);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(g[i].seq, 3 - i);
    rig_done(&r);
}

static void a_strict_group_waits_for_its_head(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[8];
    struct queue_config c = fleet_config(DISPATCH_AUTO);
    c.ordering_guarantee = true;
    fleet_start(&r, &c);
    struct message head = {
        .body = bytes_str("1"), .group = bytes_str("g"), .requires = bytes_str("kind=gpu")};
    (void)rig_send_message(&r, &head);
    rig_send(&r, "2", "g");
    rig_send(&r, "3", "h");
    assert_int_equal(rig_claim(&r, "any", 8, g), 1);
    assert_int_equal(g[0].seq, 3);
    (void)fleet_join(&r, "gpu", 1, 5, "kind=gpu");
    assert_int_equal(rig_claim(&r, "gpu", 8, g), 1);
    assert_int_equal(g[0].seq, 1);
    fleet_reload(&r);
    assert_int_equal(rig_word(&r, OP_ACK, &g[0]).reason, REASON_NONE);
    assert_int_equal(rig_claim(&r, "any", 8, g), 1);
    assert_int_equal(g[0].seq, 2);
    rig_done(&r);
}

// Messages without a group are one scope, of which a part is the backlog.
static void messages_without_a_group_wait_for_the_head_too(void **state)
{
    (void)state;
    for (int lifo = 0; lifo < 2; lifo++) {
        struct rig r;
        struct grant g[8];
        struct queue_config c = fleet_config(DISPATCH_AUTO);
        c.ordering_guarantee = true;
        if (lifo) c.ordering_mode = ORDERING_LIFO;
        fleet_start(&r, &c);
        (void)fleet_join(&r, "gpu", 1, 5, "kind=gpu");
        (void)send(&r, "");
        (void)send(&r, "kind=gpu");
        (void)send(&r, "");
        for (int i = 0; i < 3; i++) {
            uint64_t next = lifo ? (uint64_t)(3 - i) : (uint64_t)(i + 1);
            fleet_reload(&r);
            assert_int_equal(rig_claim(&r, "any", 8, g), next != 2);
            if (next == 2) assert_int_equal(rig_claim(&r, "gpu", 8, g), 1);
            assert_int_equal(g[0].seq, next);
            machine_check(r.m);
            assert_int_equal(rig_claim(&r, "gpu", 8, &g[1]), 0); // one is open
            assert_int_equal(rig_word(&r, OP_ACK, &g[0]).reason, REASON_NONE);
        }
        rig_done(&r);
    }
}

static void new_labels_of_a_row_count_at_once(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_grant g[8];
    start(&r, DISPATCH_TICKETS);
    (void)send(&r, "kind=gpu");
    (void)fleet_join(&r, "w", 1, 5, "kind=cpu");
    assert_int_equal(fleet_dispatch(&r, 8, g), 0);
    (void)fleet_join(&r, "w", 1, 5, "kind=gpu");
    assert_int_equal(fleet_dispatch(&r, 8, g), 1);
    rig_done(&r);
}

static void at_most_64_requirements_have_pending_messages(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[8];
    char text[32];
    start(&r, DISPATCH_AUTO);
    for (int i = 0; i < REQUIREMENTS_MAX; i++) {
        (void)snprintf(text, sizeof text, "n=%d", i);
        assert_int_equal(send(&r, text), REASON_NONE);
    }
    assert_int_equal(send(&r, "n=64"), REASON_REQUIRES_FULL);
    assert_int_equal(send(&r, "n=7"), REASON_NONE); // a known one
    fleet_reload(&r);
    assert_int_equal(send(&r, "n=64"), REASON_REQUIRES_FULL);
    (void)fleet_join(&r, "w", 1, 5, "n=3");
    assert_int_equal(rig_claim(&r, "w", 8, g), 1);
    assert_int_equal(send(&r, "n=64"), REASON_REQUIRES_FULL); // it is still being processed
    assert_int_equal(rig_word(&r, OP_ACK, &g[0]).reason, REASON_NONE);
    assert_int_equal(send(&r, "n=64"), REASON_NONE);
    assert_int_equal(rig_claim(&r, "w", 8, g), 0); // n=64 took the place of n=3
    machine_check(r.m);
    rig_put_plain(&r, OP_PURGE);
    rig_commit(&r);
    machine_check(r.m);
    assert_false(machine_requires(r.m));
    assert_int_equal(send(&r, "m=1"), REASON_NONE);
    fleet_reload(&r);
    rig_done(&r);
}

static void a_dead_message_keeps_its_requirement_when_it_is_redriven(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[8];
    struct queue_config c = fleet_config(DISPATCH_AUTO);
    c.retries_max = 0;
    fleet_start(&r, &c);
    (void)fleet_join(&r, "gpu", 1, 5, "kind=gpu");
    (void)send(&r, "kind=gpu");
    assert_int_equal(rig_claim(&r, "gpu", 8, g), 1);
    (void)rig_word(&r, OP_FAIL, &g[0]);
    assert_int_equal(rig_count(&r, STATE_DEAD), 1);
    rig_put_redrive(&r, 1);
    rig_commit(&r);
    fleet_reload(&r);
    assert_int_equal(rig_claim(&r, "any", 8, g), 0);
    assert_int_equal(rig_claim(&r, "gpu", 8, g), 1);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_message_goes_only_to_a_row_with_its_labels),
        CASE(a_claim_gets_what_its_workers_labels_allow),
        CASE(order_and_priority_hold_over_lanes),
        CASE(the_newest_comes_first_in_lanes_too),
        CASE(a_strict_group_waits_for_its_head),
        CASE(messages_without_a_group_wait_for_the_head_too),
        CASE(new_labels_of_a_row_count_at_once),
        CASE(at_most_64_requirements_have_pending_messages),
        CASE(a_dead_message_keeps_its_requirement_when_it_is_redriven),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
