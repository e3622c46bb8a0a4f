// SPDX-License-Identifier: Apache-2.0
// The version of the rules: how it rises, and snapshots of both versions. The program is one of the
// next release (tests/support/rules_next.c).
#include "queue_test.h"

static enum reason raise_to(struct rig *r, uint16_t to)
{
    struct buf b;
    buf_init(&b, 64);
    raise_encode(&b, &(struct op_raise){.to = 1});
    le_put(b.data + b.len - 2, to, 2); // also one that the encoder refuses
    rig_op(r, OP_RAISE, &b);
    rig_commit(r);
    return rig_reason(r, 0);
}

static void the_version_rises_by_one_and_never_falls(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    assert_int_equal(machine_rules(r.m), RULES_FIRST);
    assert_int_equal(raise_to(&r, 1), REASON_NONE);
    assert_int_equal(machine_rules(r.m), 1);
    assert_int_equal(rig_events(&r, EVENT_QUEUE_UPGRADED), 0);
    assert_int_equal(raise_to(&r, 2), REASON_NONE);
    assert_int_equal(machine_rules(r.m), 2);
    assert_int_equal(rig_event(&r, EVENT_QUEUE_UPGRADED, 0)->count, 2);
    assert_int_equal(raise_to(&r, 2), REASON_NONE); // repeated
    assert_int_equal(rig_events(&r, EVENT_QUEUE_UPGRADED), 0);
    assert_int_equal(raise_to(&r, 1), REASON_NONE);
    assert_int_equal(machine_rules(r.m), 2);
    assert_int_equal(raise_to(&r, 3), REASON_UNKNOWN_OP);
    assert_int_equal(raise_to(&r, 0), REASON_MALFORMED);
    rig_done(&r);
}

static void a_deleted_queue_is_not_raised(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_put_plain(&r, OP_DELETE);
    rig_commit(&r);
    assert_int_equal(raise_to(&r, 2), REASON_DELETED);
    assert_int_equal(machine_rules(r.m), 1);
    rig_done(&r);
}

static void an_entry_needs_the_version_of_the_state_or_of_its_raise(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    struct buf far, near, cut;
    buf_init(&far, 64);
    buf_init(&near, 64);
    buf_init(&cut, 64);
    raise_encode(&far, &(struct op_raise){.to = 7});
    raise_encode(&near, &(struct op_raise){.to = 2});
    buf_put(&cut, bytes_of(far.data, far.len - 1));
    const struct op ops[] = {
        {OP_RAISE, buf_bytes(&near)}, {OP_RAISE, buf_bytes(&far)}, {OP_RAISE, buf_bytes(&cut)}};
    assert_int_equal(machine_rules_needed(r.m, NULL, 0), 1);
    assert_int_equal(machine_rules_needed(r.m, ops, 1), 2);
    assert_int_equal(machine_rules_needed(r.m, ops, 2), 7);
    assert_int_equal(machine_rules_needed(r.m, ops + 2, 1), 1); // it cannot be read: it is refused
    (void)raise_to(&r, 2);
    assert_int_equal(machine_rules_needed(r.m, NULL, 0), 2);
    buf_done(&far);
    buf_done(&near);
    buf_done(&cut);
    rig_done(&r);
}

static void a_queue_begins_with_the_version_of_its_configuration(void **state)
{
    (void)state;
    struct queue_config config;
    struct rig r;
    config_defaults(&config);
    config.rules = 2;
    rig_init(&r, &config);
    assert_int_equal(machine_rules(r.m), 2);
    rig_send(&r, "x", NULL);
    assert_int_equal(rig_event(&r, EVENT_MESSAGE_ENQUEUED, 0)->sequence, 1);
    machine_reset(r.m);
    assert_int_equal(machine_rules(r.m), 2);
    rig_done(&r);
}

// A program of the version before cannot read it.
static void a_configuration_of_a_later_version_is_refused_before_the_raise(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    for (uint16_t rules = 1; rules <= 2; rules++) {
        struct buf b;
        struct op_configure op = {.config = r.config};
        op.config.rules = 2;
        op.config.capacity = 7;
        buf_init(&b, 1 << 10);
        configure_encode(&b, &op);
        rig_op(&r, OP_CONFIGURE, &b);
        rig_commit(&r);
        assert_int_equal(rig_reason(&r, 0), rules == 1 ? REASON_MALFORMED : REASON_NONE);
        assert_int_equal(raise_to(&r, 2), REASON_NONE);
    }
    assert_int_equal(machine_config(r.m)->capacity, 7);
    rig_done(&r);
}

static struct buf saved(const struct machine *m)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    machine_save(m, &b);
    return b;
}

static void snapshots_of_both_versions_load(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    struct buf first = saved(r.m);
    (void)raise_to(&r, 2);
    struct buf second = saved(r.m);
    struct machine *m = machine_new(&r.queue, RIG_SHARD, &r.config);
    assert_int_equal(machine_load(m, buf_bytes(&first)), ERR_OK);
    assert_int_equal(machine_rules(m), 1);
    assert_int_equal(machine_event_count(m), 1);
    assert_int_equal(machine_load(m, buf_bytes(&second)), ERR_OK);
    assert_int_equal(machine_rules(m), 2);
    assert_int_equal(machine_event_count(m), 2);
    assert_true(machine_digest(m) == machine_digest(r.m));
    machine_free(m);
    buf_done(&first);
    buf_done(&second);
    rig_done(&r);
}

static void every_flipped_bit_of_a_snapshot_is_noticed(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    (void)raise_to(&r, 2);
    struct buf b = saved(r.m);
    struct machine *m = machine_new(&r.queue, RIG_SHARD, &r.config);
    for (size_t bit = 0; bit < b.len * 8; bit++) {
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_CORRUPT);
        assert_int_equal(machine_rules(m), 1);
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 1; cut < b.len; cut++)
        assert_int_equal(machine_load(m, bytes_of(b.data, b.len - cut)), ERR_CORRUPT);
    assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_OK);
    machine_free(m);
    buf_done(&b);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_version_rises_by_one_and_never_falls),
        CASE(a_deleted_queue_is_not_raised),
        CASE(an_entry_needs_the_version_of_the_state_or_of_its_raise),
        CASE(a_queue_begins_with_the_version_of_its_configuration),
        CASE(a_configuration_of_a_later_version_is_refused_before_the_raise),
        CASE(snapshots_of_both_versions_load),
        CASE(every_flipped_bit_of_a_snapshot_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
