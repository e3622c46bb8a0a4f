// SPDX-License-Identifier: Apache-2.0
// Exactly which slots hold what lives, whatever lies beside them.
#include "queue_test.h"

static void assert_live(const struct rig *r, uint64_t slot, bool expected)
{
    bool live;
    machine_live_slots(r->m, slot, 1, &live);
    assert_int_equal(live, expected);
}

static void place_lives_until_its_message_is_finished(void **state)
{
    (void)state;
    struct queue_config c;
    config_defaults(&c);
    struct rig r;
    rig_init(&r, &c);
    rig_send(&r, "one", ""); // slot 1, a range
    rig_send_message(&r,
                     &(struct message){.body = bytes_str("two"), .priority = 1}); // slot 2, alone
    struct place one = {1, 0}, two = {2, 0};
    assert_true(machine_lives_at(r.m, one));
    assert_true(machine_lives_at(r.m, two));
    assert_false(machine_lives_at(r.m, (struct place){1, 1}));
    assert_false(machine_lives_at(r.m, (struct place){3, 0}));
    struct grant g[2];
    assert_int_equal(rig_claim(&r, "w", 2, g), 2);
    assert_true(machine_lives_at(r.m, g[0].place));
    assert_true(machine_lives_at(r.m, g[1].place));
    size_t first = g[0].place.slot == 1 ? 0 : 1;
    rig_word(&r, OP_ACK, &g[first]);
    assert_false(machine_lives_at(r.m, one));
    assert_true(machine_lives_at(r.m, two));
    assert_live(&r, 1, false); // though it is near one that is needed
    assert_live(&r, 2, true);
    assert_true(machine_needs(r.m, 1, 1));
    rig_word(&r, OP_ACK, &g[1 - first]);
    assert_live(&r, 2, false);
    rig_done(&r);
}

// A message behind others of its range is found by walking over their slots.
static void slots_of_a_range_live_until_all_of_it_is_taken(void **state)
{
    (void)state;
    struct queue_config c;
    config_defaults(&c);
    struct rig r;
    rig_init(&r, &c);
    rig_send(&r, "one", "");
    rig_send(&r, "two", "");
    struct grant g;
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    rig_word(&r, OP_ACK, &g);
    assert_false(machine_lives_at(r.m, g.place));
    assert_true(machine_lives_at(r.m, (struct place){1, 1}));
    assert_live(&r, 1, true);
    assert_live(&r, 2, true);
    assert_true(machine_backlog_in(r.m, 1, 2));
    assert_false(machine_backlog_in(r.m, 3, 9));
    rig_done(&r);
}

static void reason_lives_with_its_message(void **state)
{
    (void)state;
    struct queue_config c;
    config_defaults(&c);
    struct rig r;
    rig_init(&r, &c);
    rig_send(&r, "one", "");
    struct grant g;
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    rig_word(&r, OP_FAIL, &g); // slot 3, op 0
    assert_true(machine_reason_lives_at(r.m, 3, 0));
    assert_false(machine_reason_lives_at(r.m, 3, 1));
    assert_false(machine_reason_lives_at(r.m, 2, 0));
    rig_tick(&r, 3600 * 1000);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    rig_word(&r, OP_ACK, &g);
    assert_false(machine_reason_lives_at(r.m, 3, 0));
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(place_lives_until_its_message_is_finished),
        cmocka_unit_test(slots_of_a_range_live_until_all_of_it_is_taken),
        cmocka_unit_test(reason_lives_with_its_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
