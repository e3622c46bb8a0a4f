// SPDX-License-Identifier: Apache-2.0
// The version of the rules: how it rises, what it changes, and snapshots of both versions.
#include "queue_test.h"

static enum reason raise_to(struct rig *r, uint16_t to)
{
    struct buf b;
    buf_init(&b, 64);
    raise_encode(&b, &(struct op_raise){.to = to});
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
    assert_int_equal(raise_to(&r, 3), REASON_NONE);
    assert_int_equal(machine_rules(r.m), 3);
    assert_int_equal(raise_to(&r, 4), REASON_NONE);
    assert_int_equal(machine_rules(r.m), 4);
    assert_int_equal(raise_to(&r, 5), REASON_NONE);
    assert_int_equal(machine_rules(r.m), 5);
    assert_int_equal(raise_to(&r, 6), REASON_NONE);
    assert_int_equal(machine_rules(r.m), 6);
    assert_int_equal(raise_to(&r, RULES_KNOWN + 1), REASON_UNKNOWN_OP);
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

// Lets a lock expire, and returns how many outcomes the events have.
static size_t outcomes_of_an_expiry(struct rig *r)
{
    struct grant g;
    assert_int_equal(rig_claim_lease(r, "w", 1, 100, &g), 1);
    rig_tick(r, 200);
    assert_int_equal(rig_events(r, EVENT_LOCK_EXPIRED), 1);
    return rig_events(r, EVENT_MESSAGE_OUTCOME);
}

static void an_expiry_that_counts_has_an_outcome_from_version_2_on(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config config;
    config_defaults(&config);
    config.retries_max = 9;
    rig_init(&r, &config);
    rig_send(&r, "x", NULL);
    assert_int_equal(outcomes_of_an_expiry(&r), 0);
    (void)raise_to(&r, 2);
    assert_int_equal(outcomes_of_an_expiry(&r), 1);
    const struct event *e = rig_event(&r, EVENT_MESSAGE_OUTCOME, 0);
    assert_int_equal(e->status, OUTCOME_RETRYING);
    assert_int_equal(e->reason, REASON_LOCK_EXPIRED);
    assert_int_equal(e->retries, 2);
    assert_true(bytes_equal(event_worker(&r.events, e), bytes_str("w")));
    rig_done(&r);
}

static void an_expiry_that_does_not_count_has_none(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config config;
    config_defaults(&config);
    config.failure_mode = FAILURE_DEAD_LETTER;
    strcpy(config.dead_letter_queue, "dead");
    rig_init(&r, &config);
    (void)raise_to(&r, 2);
    rig_send(&r, "x", NULL);
    assert_int_equal(outcomes_of_an_expiry(&r), 0);
    rig_done(&r);
}

static void events_are_numbered_without_gaps_from_version_2_on(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    assert_int_equal(rig_event(&r, EVENT_MESSAGE_ENQUEUED, 0)->sequence, 0);
    assert_int_equal(machine_event_count(r.m), 0);
    (void)raise_to(&r, 2);
    assert_int_equal(rig_event(&r, EVENT_QUEUE_UPGRADED, 0)->sequence, 1);
    for (uint64_t n = 2; n < 6; n++) {
        rig_send(&r, "x", NULL);
        assert_int_equal(rig_event(&r, EVENT_MESSAGE_ENQUEUED, 0)->sequence, n);
    }
    assert_int_equal(machine_event_count(r.m), 5);
    rig_done(&r);
}

static struct buf saved(const struct machine *m)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    machine_save(m, &b);
    return b;
}

static void a_version_is_not_skipped(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    assert_int_equal(raise_to(&r, 3), REASON_RULES_SKIPPED);
    assert_int_equal(machine_rules(r.m), 1);
    rig_done(&r);
}

static void snapshots_of_all_versions_load(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    struct buf first = saved(r.m);
    assert_int_equal(first.data[4], 2); // as before there were versions
    (void)raise_to(&r, 2);
    struct buf second = saved(r.m);
    assert_int_equal(second.data[4], 4); // as before there was `consume`
    (void)raise_to(&r, 3);
    struct buf third = saved(r.m);
    assert_int_equal(third.data[4], 5); // as before there was a registry
    (void)raise_to(&r, 4);
    struct buf fourth = saved(r.m);
    assert_int_equal(fourth.data[4], 6); // as before there was a cursor
    (void)raise_to(&r, 5);
    struct buf fifth = saved(r.m);
    assert_int_equal(fifth.data[4], 7); // as before there were signals
    (void)raise_to(&r, 6);
    struct buf sixth = saved(r.m);
    assert_int_equal(sixth.data[4], 8); // as before finished messages of workflows were listed
    struct machine *m = machine_new(&r.queue, RIG_SHARD, &r.config);
    assert_int_equal(machine_load(m, buf_bytes(&first)), ERR_OK);
    assert_int_equal(machine_rules(m), 1);
    assert_int_equal(machine_load(m, buf_bytes(&second)), ERR_OK);
    assert_int_equal(machine_rules(m), 2);
    assert_int_equal(machine_event_count(m), 1);
    assert_int_equal(machine_load(m, buf_bytes(&third)), ERR_OK);
    assert_int_equal(machine_rules(m), 3);
    assert_int_equal(machine_event_count(m), 2);
    assert_int_equal(machine_load(m, buf_bytes(&fourth)), ERR_OK);
    assert_int_equal(machine_rules(m), 4);
    assert_int_equal(machine_event_count(m), 3);
    assert_int_equal(machine_load(m, buf_bytes(&fifth)), ERR_OK);
    assert_int_equal(machine_rules(m), 5);
    assert_int_equal(machine_event_count(m), 4);
    assert_int_equal(machine_load(m, buf_bytes(&sixth)), ERR_OK);
    assert_int_equal(machine_rules(m), 6);
    assert_int_equal(machine_event_count(m), 5);
    assert_true(machine_digest(m) == machine_digest(r.m));
    machine_free(m);
    buf_done(&first);
    buf_done(&second);
    buf_done(&third);
    buf_done(&fourth);
    buf_done(&fifth);
    buf_done(&sixth);
    rig_done(&r);
}

static void every_flipped_bit_of_a_raised_snapshot_is_noticed(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    (void)raise_to(&r, 2);
    (void)raise_to(&r, 3);
    struct buf b = saved(r.m);
    struct machine *m = machine_new(&r.queue, RIG_SHARD, &r.config);
    size_t at = b.len - 8 - 8 - 8 - 2; // the version, both counts and the digest
    for (size_t bit = at * 8; bit < b.len * 8; bit++) {
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_CORRUPT);
        assert_int_equal(machine_rules(m), 1);
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 1; cut < 40; cut++)
        assert_int_equal(machine_load(m, bytes_of(b.data, b.len - cut)), ERR_CORRUPT);
    assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_OK);
    machine_free(m);
    buf_done(&b);
    rig_done(&r);
}

static void a_program_knows_each_of_its_versions(void **state)
{
    (void)state;
    assert_int_equal(rules_newest(), RULES_KNOWN);
    for (uint16_t v = RULES_FIRST; v <= RULES_KNOWN; v++)
        assert_true(rules_about(v)[0] != '\0');
    assert_string_equal(rules_about(0), "");
    assert_string_equal(rules_about(RULES_KNOWN + 1), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_version_rises_by_one_and_never_falls),
        CASE(a_deleted_queue_is_not_raised),
        CASE(an_entry_needs_the_version_of_the_state_or_of_its_raise),
        CASE(an_expiry_that_counts_has_an_outcome_from_version_2_on),
        CASE(an_expiry_that_does_not_count_has_none),
        CASE(events_are_numbered_without_gaps_from_version_2_on),
        CASE(a_version_is_not_skipped),
        CASE(snapshots_of_all_versions_load),
        CASE(every_flipped_bit_of_a_raised_snapshot_is_noticed),
        CASE(a_program_knows_each_of_its_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
