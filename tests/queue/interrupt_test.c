// SPDX-License-Identifier: Apache-2.0
// Interrupts: the grace, what becomes of the message, and what the holder can still do.
#include "signal_rig.h"

static struct grant running(struct rig *r)
{
    struct queue_config c = defaults();
    c.visibility_timeout_ms = 60000;
    return rig_running(r, &c);
}

static void an_interrupt_ends_the_lock_at_the_end_of_its_grace(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r);
    struct signal_row row = rig_signal(&r, interrupt_op(1, 30000, THEN_CANCEL), g.seq);
    assert_int_equal(row.number, 1);
    int64_t end = row.until;
    assert_int_equal(machine_wake_at(r.m), end);
    assert_int_equal(rig_word(&r, OP_RENEW, &g).until, end); // a renewal does not pass it
    rig_tick(&r, 29999);
    assert_int_equal(rig_count(&r, STATE_LOCKED), 1);
    rig_tick(&r, 1);
    assert_int_equal(rig_count(&r, STATE_CANCELLED), 1);
    assert_int_equal(rig_event(&r, EVENT_MESSAGE_OUTCOME, 0)->status, OUTCOME_CANCELLED);
    assert_int_equal(state_of(&r, 1), SIGNAL_MISSED);
    assert_int_equal(rig_word(&r, OP_ACK, &g).reason, REASON_TERMINAL);
    machine_check(r.m);
    rig_done(&r);
}

static void until_then_the_holder_may_ack(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r);
    rig_signal(&r, interrupt_op(1, 30000, THEN_CANCEL), g.seq);
    assert_int_equal(settle(&r, &g, 1, SIGNAL_DECLINE, "nearly done"), REASON_NONE);
    assert_int_equal(state_of(&r, 1), SIGNAL_DECLINED);
    assert_int_equal(withdraw(&r, 1, 0).reason, REASON_SIGNAL_SETTLED);
    assert_int_equal(rig_word(&r, OP_ACK, &g).status, OUTCOME_PROCESSED);
    assert_int_equal(rig_events(&r, EVENT_SIGNAL_ENDED), 0); // it has ended once
    machine_check(r.m);
    rig_done(&r);
}

static void a_declined_interrupt_is_still_in_force(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r);
    rig_signal(&r, interrupt_op(1, 30000, THEN_CANCEL), g.seq);
    settle(&r, &g, 1, SIGNAL_DECLINE, "no");
    rig_tick(&r, 30000);
    assert_int_equal(rig_count(&r, STATE_CANCELLED), 1);
    assert_int_equal(rig_events(&r, EVENT_SIGNAL_ENDED), 0);
    rig_done(&r);
}

static void a_fail_or_a_release_after_it_does_what_it_says(void **state)
{
    (void)state;
    const uint16_t kinds[] = {OP_FAIL, OP_RELEASE};
    for (size_t k = 0; k < 2; k++) {
        for (int then = 0; then < SIGNAL_THEN_COUNT; then++) {
            struct rig r;
            struct grant g = running(&r);
            rig_signal(&r, interrupt_op(1, 30000, (enum signal_then)then), g.seq);
            struct outcome_row row = rig_word(&r, kinds[k], &g);
            const enum outcome_status status[] = {OUTCOME_CANCELLED, OUTCOME_RETRYING,
                                                  OUTCOME_DEAD_LETTERED};
            const enum message_state after[] = {STATE_CANCELLED, STATE_READY, STATE_DEAD};
            assert_int_equal(row.status, status[then]);
            assert_int_equal(rig_count(&r, after[then]), 1);
            struct failure_view failures[FAILURES_KEPT + 1];
            size_t len = machine_failures(r.m, g.seq, r.time.lo, failures);
            assert_int_equal(len, then == THEN_DEAD_LETTER); // it counts as no failure
            machine_check(r.m);
            rig_done(&r);
        }
    }
}

static void the_reason_of_a_dead_message_is_that_of_the_interrupt(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r);
    rig_signal(&r, interrupt_op(1, 30000, THEN_DEAD_LETTER), g.seq);
    rig_tick(&r, 30000);
    struct message_view v;
    assert_int_equal(machine_find(r.m, g.seq, r.time.lo, &v), ERR_OK);
    assert_int_equal(v.state, STATE_DEAD);
    struct op_signal op;
    assert_int_equal(signal_decode(r.log[v.reason_slot - 1].ops[v.reason_op].payload, &op), ERR_OK);
    assert_true(bytes_equal(op.reason, bytes_str("too slow")));
    assert_true(machine_needs(r.m, v.reason_slot, v.reason_slot));
    assert_true(machine_reason_lives_at(r.m, v.reason_slot, v.reason_op));
    rig_done(&r);
}

static void without_a_grace_the_lock_ends_at_once(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r), again;
    struct signal_row row = rig_signal(&r, interrupt_op(1, 0, THEN_RETRY), g.seq);
    assert_int_equal(row.state, SIGNAL_APPLIED);
    assert_int_equal(row.number, 0);
    assert_int_equal(rig_count(&r, STATE_READY), 1);
    assert_int_equal(rig_word(&r, OP_ACK, &g).reason, REASON_LOCK_RELEASED);
    assert_int_equal(rig_claim(&r, "w", 1, &again), 1);
    assert_int_equal(again.deliveries, 2);
    assert_int_equal(again.retries, 0);
    rig_signal(&r, interrupt_op(2, 0, THEN_CANCEL), g.seq);
    assert_int_equal(rig_count(&r, STATE_CANCELLED), 1);
    assert_int_equal(state_of(&r, 2), SIGNAL_APPLIED);
    rig_done(&r);
}

static void a_message_that_no_worker_holds_is_cancelled_at_once(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    uint64_t seq = rig_send(&r, "x", NULL).seq;
    rig_signal(&r, steer_op(1), seq);
    struct signal_row row = rig_signal(&r, interrupt_op(2, 30000, THEN_RETRY), seq);
    assert_int_equal(row.reason, REASON_NOT_RUNNING);
    row = rig_signal(&r, interrupt_op(3, 30000, THEN_CANCEL), seq);
    assert_int_equal(row.state, SIGNAL_APPLIED);
    assert_int_equal(rig_count(&r, STATE_CANCELLED), 1);
    assert_int_equal(state_of(&r, 1), SIGNAL_MISSED);
    assert_int_equal(rig_signal(&r, interrupt_op(4, 0, THEN_CANCEL), seq).reason, REASON_TERMINAL);
    rig_done(&r);
}

static void a_withdrawn_interrupt_gives_the_lock_its_time_back(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r);
    rig_signal(&r, interrupt_op(1, 1000, THEN_CANCEL), g.seq);
    rig_signal(&r, interrupt_op(2, 20000, THEN_RETRY), g.seq);
    assert_int_equal(machine_wake_at(r.m), r.time.hi + 1000); // the earliest end counts
    assert_int_equal(withdraw(&r, 1, g.seq).state, SIGNAL_WITHDRAWN);
    assert_int_equal(machine_wake_at(r.m), r.time.hi + 20000);
    assert_int_equal(withdraw(&r, 2, 0).state, SIGNAL_WITHDRAWN);
    assert_int_equal(machine_wake_at(r.m), r.time.hi + 60000);
    rig_tick(&r, 30000);
    assert_int_equal(rig_word(&r, OP_ACK, &g).status, OUTCOME_PROCESSED);
    rig_done(&r);
}

static void a_view_of_a_later_time_knows_the_interrupt(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r);
    rig_signal(&r, interrupt_op(1, 1000, THEN_CANCEL), g.seq);
    struct machine_stats stats;
    machine_stats(r.m, r.time.lo + 2000, &stats);
    assert_int_equal(stats.counts[STATE_CANCELLED], 1);
    assert_int_equal(stats.counts[STATE_LOCKED], 0);
    assert_int_equal(stats.signals, 1);
    rig_done(&r);
}

static void a_renewal_in_an_entry_after_the_end_is_refused(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r);
    rig_signal(&r, interrupt_op(1, 1000, THEN_CANCEL), g.seq);
    int64_t arrived = r.time.lo + 500;
    r.time.lo += 5000;
    r.time.hi += 5000;
    rig_put_word(&r, OP_RENEW, &g, arrived);
    rig_commit(&r);
    machine_check(r.m);
    assert_int_equal(rig_outcome(&r, 0).reason, REASON_LOCK_EXPIRED);
    assert_int_equal(rig_count(&r, STATE_CANCELLED), 1);
    rig_done(&r);
}

// The end of the grace has passed, and an ack that arrived in time holds the lock in this entry.
static void an_entry_after_the_end_can_have_another_interrupt(void **state)
{
    (void)state;
    for (int renewed = 0; renewed < 2; renewed++) {
        struct rig r;
        struct grant g = running(&r);
        rig_signal(&r, interrupt_op(1, 1000, THEN_CANCEL), g.seq);
        int64_t arrived = r.time.lo + 500;
        r.time.lo += 5000;
        r.time.hi += 5000;
        put_signal(&r, interrupt_op(2, 1000, THEN_RETRY), g.seq);
        rig_put_word(&r, renewed ? OP_RENEW : OP_ACK, &g, arrived);
        rig_commit(&r);
        machine_check(r.m);
        assert_int_equal(rig_outcome(&r, 1).reason, renewed ? REASON_LOCK_EXPIRED : REASON_NONE);
        assert_int_equal(rig_count(&r, renewed ? STATE_READY : STATE_PROCESSED), 1);
        assert_int_equal(state_of(&r, 2), SIGNAL_MISSED);
        rig_done(&r);
    }
}

static void an_entry_after_two_ends_can_withdraw_the_first(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r);
    rig_signal(&r, interrupt_op(1, 1000, THEN_CANCEL), g.seq);
    rig_signal(&r, interrupt_op(2, 2000, THEN_CANCEL), g.seq);
    int64_t arrived = r.time.lo + 500;
    r.time.lo += 5000;
    r.time.hi += 5000;
    put_withdraw(&r, 1, 0);
    rig_put_word(&r, OP_ACK, &g, arrived);
    rig_commit(&r);
    machine_check(r.m);
    assert_int_equal(rig_outcome(&r, 1).status, OUTCOME_PROCESSED);
    assert_int_equal(state_of(&r, 1), SIGNAL_WITHDRAWN);
    assert_int_equal(state_of(&r, 2), SIGNAL_MISSED);
    rig_done(&r);
}

// The clock of a writer may be behind: no entry has reached the end of the grace yet.
static void an_outcome_that_arrived_after_the_end_is_refused(void **state)
{
    (void)state;
    const uint16_t kinds[] = {OP_RENEW, OP_ACK, OP_FAIL, OP_RELEASE};
    for (size_t k = 0; k < 4; k++) {
        struct rig r;
        struct grant g = running(&r);
        rig_signal(&r, steer_op(1), g.seq);
        int64_t end = rig_signal(&r, interrupt_op(2, 1000, THEN_CANCEL), g.seq).until;
        rig_put_word(&r, kinds[k], &g, end);
        rig_commit(&r);
        assert_int_equal(rig_outcome(&r, 0).reason, REASON_LOCK_EXPIRED);
        put_settle(&r, &g, 1, SIGNAL_ACK, "late", end);
        rig_commit(&r);
        assert_int_equal(rig_reason(&r, 0), REASON_LOCK_EXPIRED);
        assert_int_equal(rig_count(&r, STATE_LOCKED), 1);
        put_settle(&r, &g, 1, SIGNAL_ACK, "in time", end - 1);
        rig_put_word(&r, OP_ACK, &g, end - 1);
        rig_commit(&r);
        assert_int_equal(rig_reason(&r, 0), REASON_NONE);
        assert_int_equal(rig_outcome(&r, 1).status, OUTCOME_PROCESSED);
        machine_check(r.m);
        rig_done(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_interrupt_ends_the_lock_at_the_end_of_its_grace),
        CASE(until_then_the_holder_may_ack),
        CASE(a_declined_interrupt_is_still_in_force),
        CASE(a_fail_or_a_release_after_it_does_what_it_says),
        CASE(the_reason_of_a_dead_message_is_that_of_the_interrupt),
        CASE(without_a_grace_the_lock_ends_at_once),
        CASE(a_message_that_no_worker_holds_is_cancelled_at_once),
        CASE(a_withdrawn_interrupt_gives_the_lock_its_time_back),
        CASE(a_view_of_a_later_time_knows_the_interrupt),
        CASE(a_renewal_in_an_entry_after_the_end_is_refused),
        CASE(an_entry_after_the_end_can_have_another_interrupt),
        CASE(an_outcome_that_arrived_after_the_end_is_refused),
        CASE(an_entry_after_two_ends_can_withdraw_the_first),
    };
    return RUN(tests);
}
