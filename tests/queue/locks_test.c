// SPDX-License-Identifier: Apache-2.0
// One holder: granting, renewing, ending, and every way in which a lock is refused.
#include "queue_test.h"

static void only_one_of_many_claims_gets_the_message(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "job", NULL);
    struct grant g[1];
    uint32_t winners = 0;
    for (int i = 0; i < 100; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "pod-%d", i);
        winners += rig_claim(&r, name, 1, g);
    }
    assert_int_equal(winners, 1);
    assert_int_equal(rig_count(&r, STATE_LOCKED), 1);
    rig_done(&r);
}

static void a_claim_tells_where_the_body_is(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "first", NULL);
    rig_send(&r, "second", NULL);
    struct grant g[2];
    assert_int_equal(rig_claim(&r, "w", 2, g), 2);
    struct message m = rig_message(&r, g[1].place);
    assert_true(bytes_equal(m.body, bytes_str("second")));
    rig_done(&r);
}

static void tokens_and_fences_are_never_the_same_twice(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    struct grant g[50];
    for (int i = 0; i < 50; i++)
        rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "w", 50, g), 50);
    for (int i = 1; i < 50; i++) {
        assert_true(g[i].fence > g[i - 1].fence);
        for (int k = 0; k < i; k++)
            assert_false(hash128_equal(g[i].token, g[k].token));
    }
    rig_done(&r);
}

static void a_fence_rises_when_the_same_message_is_granted_again(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    struct grant a, b;
    rig_claim(&r, "w1", 1, &a);
    rig_tick(&r, 30000);
    assert_int_equal(rig_claim(&r, "w2", 1, &b), 1);
    assert_int_equal(a.seq, b.seq);
    assert_true(b.fence > a.fence);
    assert_false(hash128_equal(a.token, b.token));
    rig_done(&r);
}

static void an_ack_ends_the_message_as_processed(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    struct grant g;
    rig_claim(&r, "w", 1, &g);
    struct outcome_row row = rig_word(&r, OP_ACK, &g);
    assert_int_equal(row.reason, REASON_NONE);
    assert_int_equal(row.status, OUTCOME_PROCESSED);
    const struct event *e = rig_event(&r, EVENT_MESSAGE_OUTCOME, 0);
    assert_non_null(e);
    assert_int_equal(e->status, OUTCOME_PROCESSED);
    assert_int_equal(e->deliveries, 1);
    assert_int_equal(rig_count(&r, STATE_PROCESSED), 1);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 0);
    rig_done(&r);
}

static void an_expired_lock_returns_the_message_to_ready(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    struct grant g;
    rig_claim(&r, "w", 1, &g);
    assert_int_equal(machine_wake_at(r.m), RIG_TIME + 30000);
    rig_tick(&r, 29999);
    assert_int_equal(rig_claim(&r, "other", 1, &g), 0);
    rig_tick(&r, 1);
    assert_int_equal(rig_events(&r, EVENT_LOCK_EXPIRED), 1);
    assert_int_equal(rig_claim(&r, "other", 1, &g), 1);
    assert_int_equal(g.deliveries, 2);
    rig_done(&r);
}

static void a_renewal_before_the_timeout_keeps_the_message_hidden(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    struct grant g, other;
    rig_claim(&r, "w", 1, &g);
    rig_tick(&r, 20000);
    struct outcome_row row = rig_word(&r, OP_RENEW, &g);
    assert_int_equal(row.reason, REASON_NONE);
    assert_int_equal(row.until, RIG_TIME + 50000);
    assert_int_equal(rig_events(&r, EVENT_LOCK_RENEWED), 1);
    rig_tick(&r, 29999);
    assert_int_equal(rig_claim(&r, "other", 1, &other), 0);
    rig_tick(&r, 1);
    assert_int_equal(rig_claim(&r, "other", 1, &other), 1);
    rig_done(&r);
}

static void expect_renewal_refused(struct rig *r, const struct grant *g, enum reason reason)
{
    struct outcome_row row = rig_word(r, OP_RENEW, g);
    assert_int_equal(row.reason, reason);
    assert_int_equal(rig_reason(r, 0), reason);
    const struct event *e = rig_event(r, EVENT_LOCK_RENEWAL_REJECTED, 0);
    assert_non_null(e);
    assert_int_equal(e->reason, reason);
    assert_int_equal(e->seq, g->seq);
}

static void a_renewal_after_the_ack_is_refused_as_terminal(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    struct grant g;
    rig_claim(&r, "w", 1, &g);
    rig_word(&r, OP_ACK, &g);
    expect_renewal_refused(&r, &g, REASON_TERMINAL);
    rig_done(&r);
}

static void a_renewal_of_a_dead_message_is_refused_as_terminal(void **state)
{
    (void)state;
    struct queue_config c = defaults();
    c.retries_max = 0;
    struct rig r;
    rig_init(&r, &c);
    rig_send(&r, "x", NULL);
    struct grant g;
    rig_claim(&r, "w", 1, &g);
    rig_word(&r, OP_FAIL, &g);
    assert_int_equal(rig_count(&r, STATE_DEAD), 1);
    expect_renewal_refused(&r, &g, REASON_TERMINAL);
    rig_done(&r);
}

static void a_renewal_after_release_is_refused_as_released(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    struct grant g;
    rig_claim(&r, "w", 1, &g);
    rig_word(&r, OP_RELEASE, &g);
    expect_renewal_refused(&r, &g, REASON_LOCK_RELEASED);
    rig_done(&r);
}

static void a_renewal_after_expiry_is_refused_as_expired(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    struct grant g;
    rig_claim(&r, "w", 1, &g);
    rig_tick(&r, 30000);
    expect_renewal_refused(&r, &g, REASON_LOCK_EXPIRED);
    rig_done(&r);
}

static void a_stale_token_is_refused_as_mismatched(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    struct grant old, new;
    rig_claim(&r, "w1", 1, &old);
    rig_tick(&r, 30000);
    rig_claim(&r, "w2", 1, &new);
    expect_renewal_refused(&r, &old, REASON_TOKEN_MISMATCH);
    assert_int_equal(rig_word(&r, OP_ACK, &old).reason, REASON_TOKEN_MISMATCH);
    assert_int_equal(rig_word(&r, OP_FAIL, &old).reason, REASON_TOKEN_MISMATCH);
    assert_int_equal(rig_word(&r, OP_RELEASE, &old).reason, REASON_TOKEN_MISMATCH);
    assert_int_equal(rig_word(&r, OP_ACK, &new).reason, REASON_NONE);
    rig_done(&r);
}

static void a_message_that_was_not_claimed_is_refused_as_not_locked(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    uint64_t seq = rig_send(&r, "x", NULL).seq;
    expect_renewal_refused(&r, &(struct grant){.seq = seq}, REASON_NOT_LOCKED);
    rig_done(&r);
}

static void a_message_waiting_for_its_retry_is_refused_with_another_token(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    struct grant g;
    rig_claim(&r, "w", 1, &g);
    rig_word(&r, OP_FAIL, &g);
    expect_renewal_refused(&r, &g, REASON_LOCK_RELEASED);
    g.token.lo++;
    expect_renewal_refused(&r, &g, REASON_NOT_LOCKED);
    rig_done(&r);
}

static void a_message_never_sent_is_refused_as_unknown(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    expect_renewal_refused(&r, &(struct grant){.seq = 2}, REASON_UNKNOWN_MESSAGE);
    expect_renewal_refused(&r, &(struct grant){.seq = 0}, REASON_UNKNOWN_MESSAGE);
    rig_done(&r);
}

static void a_lock_of_another_queue_or_shard_is_refused_as_foreign(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    struct grant g;
    rig_claim(&r, "w", 1, &g);
    struct queue_id ours = r.queue;
    r.queue.bytes[0] ^= 1;
    expect_renewal_refused(&r, &g, REASON_FOREIGN_QUEUE);
    r.queue = ours;
    assert_int_equal(rig_word(&r, OP_RENEW, &g).reason, REASON_NONE);
    rig_done(&r);
}

static void a_word_that_arrived_before_the_deadline_counts_in_a_later_entry(void **state)
{
    (void)state;
    const uint16_t words[] = {OP_ACK, OP_FAIL, OP_RENEW, OP_RELEASE};
    for (size_t i = 0; i < 4; i++) {
        struct rig r;
        rig_defaults(&r);
        rig_send(&r, "x", NULL);
        struct grant g;
        rig_claim(&r, "w", 1, &g);
        r.time.lo = r.time.hi = g.deadline + 5000;
        rig_put_word(&r, words[i], &g, g.deadline - 1);
        rig_commit(&r);
        assert_int_equal(rig_reason(&r, 0), REASON_NONE);
        assert_int_equal(rig_events(&r, EVENT_LOCK_EXPIRED), 0);
        machine_check(r.m);
        rig_done(&r);
    }
}

static void a_word_that_arrived_at_the_deadline_is_too_late(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    struct grant g;
    rig_claim(&r, "w", 1, &g);
    r.time.lo = r.time.hi = g.deadline;
    rig_put_word(&r, OP_ACK, &g, g.deadline);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_LOCK_EXPIRED);
    rig_done(&r);
}

static void deadlines_count_from_the_late_end_of_the_interval(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    r.time.hi = r.time.lo + 1000;
    struct grant g;
    rig_claim(&r, "w", 1, &g);
    assert_int_equal(g.deadline, RIG_TIME + 1000 + 30000);
    rig_done(&r);
}

static void time_never_runs_backwards(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    r.time.lo = r.time.hi = RIG_TIME - 60000;
    struct grant g;
    rig_claim(&r, "w", 1, &g);
    assert_int_equal(machine_now(r.m), RIG_TIME);
    assert_int_equal(g.deadline, RIG_TIME + 30000);
    rig_done(&r);
}

static void readers_see_a_later_moment_without_an_entry(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    struct grant g;
    rig_claim(&r, "w", 1, &g);
    struct machine_stats stats;
    machine_stats(r.m, g.deadline - 1, &stats);
    assert_int_equal(stats.counts[STATE_LOCKED], 1);
    machine_stats(r.m, g.deadline, &stats);
    assert_int_equal(stats.counts[STATE_READY], 1);
    assert_true(machine_claimable(r.m, g.deadline, BYTES_EMPTY));
    assert_false(machine_claimable(r.m, g.deadline - 1, BYTES_EMPTY));
    struct message_view v;
    assert_int_equal(machine_find(r.m, g.seq, g.deadline, &v), ERR_OK);
    assert_int_equal(v.state, STATE_READY);
    assert_int_equal(machine_find(r.m, g.seq, g.deadline - 1, &v), ERR_OK);
    assert_int_equal(v.state, STATE_LOCKED);
    assert_true(bytes_equal(v.worker, bytes_str("w")));
    rig_done(&r);
}

static void the_same_request_gets_the_same_answer(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "a", NULL);
    rig_send(&r, "b", NULL);
    struct op_claim op = {.request = {{7}}, .seed = {9}, .worker = bytes_str("w"), .max = 1};
    struct grant first, second;
    for (int i = 0; i < 2; i++) {
        struct buf b;
        buf_init(&b, 4096);
        claim_encode(&b, &op);
        rig_op(&r, OP_CLAIM, &b);
        rig_commit(&r);
        assert_int_equal(rig_grants(&r, 0, i == 0 ? &first : &second, 1), 1);
    }
    assert_int_equal(first.seq, second.seq);
    assert_true(hash128_equal(first.token, second.token));
    assert_int_equal(first.deadline, second.deadline);
    assert_int_equal(rig_count(&r, STATE_LOCKED), 1);

    struct op_result result;
    struct buf text, payload;
    buf_init(&text, 4096);
    buf_init(&payload, 4096);
    claim_encode(&payload, &op);
    struct op again = {OP_CLAIM, buf_bytes(&payload)};
    assert_true(machine_recall(r.m, &again, &result, &text));
    assert_int_equal(result.err, ERR_OK);
    again.kind = OP_TAKE;
    assert_true(machine_recall(r.m, &again, &result, &text));
    assert_int_equal(result.err, ERR_INVALID);
    rig_tick(&r, REQUEST_KEEP_MS);
    assert_false(machine_recall(r.m, &again, &result, &text));
    buf_done(&text);
    buf_done(&payload);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(only_one_of_many_claims_gets_the_message),
        CASE(a_claim_tells_where_the_body_is),
        CASE(tokens_and_fences_are_never_the_same_twice),
        CASE(a_fence_rises_when_the_same_message_is_granted_again),
        CASE(an_ack_ends_the_message_as_processed),
        CASE(an_expired_lock_returns_the_message_to_ready),
        CASE(a_renewal_before_the_timeout_keeps_the_message_hidden),
        CASE(a_renewal_after_the_ack_is_refused_as_terminal),
        CASE(a_renewal_of_a_dead_message_is_refused_as_terminal),
        CASE(a_renewal_after_release_is_refused_as_released),
        CASE(a_renewal_after_expiry_is_refused_as_expired),
        CASE(a_stale_token_is_refused_as_mismatched),
        CASE(a_message_that_was_not_claimed_is_refused_as_not_locked),
        CASE(a_message_waiting_for_its_retry_is_refused_with_another_token),
        CASE(a_message_never_sent_is_refused_as_unknown),
        CASE(a_lock_of_another_queue_or_shard_is_refused_as_foreign),
        CASE(a_word_that_arrived_before_the_deadline_counts_in_a_later_entry),
        CASE(a_word_that_arrived_at_the_deadline_is_too_late),
        CASE(deadlines_count_from_the_late_end_of_the_interval),
        CASE(time_never_runs_backwards),
        CASE(readers_see_a_later_moment_without_an_entry),
        CASE(the_same_request_gets_the_same_answer),
    };
    return RUN(tests);
}
