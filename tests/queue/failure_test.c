// SPDX-License-Identifier: Apache-2.0
// Failure strategies, backoff, dead letters, redrive.
#include "queue_test.h"

static struct queue_config strategy(enum failure_mode mode, uint32_t retries)
{
    struct queue_config c = defaults();
    c.failure_mode = mode;
    c.retries_max = retries;
    c.backoff.jitter_1000 = 0;
    if (mode != FAILURE_RETRY) strcpy(c.dead_letter_queue, "tasks_dlq");
    return c;
}

static enum outcome_status fail_once(struct rig *r, struct outcome_row *row)
{
    struct grant g;
    assert_int_equal(rig_claim(r, "w", 1, &g), 1);
    *row = rig_word(r, OP_FAIL, &g);
    const struct event *e = rig_event(r, EVENT_MESSAGE_OUTCOME, 0);
    assert_non_null(e);
    assert_int_equal(e->status, row->status);
    assert_int_equal(e->deliveries, g.deliveries);
    assert_true(bytes_equal(event_worker(&r->events, e), bytes_str("w")));
    assert_true(bytes_equal(event_failure_text(&r->events, e), bytes_str("boom")));
    return row->status;
}

static void a_failure_is_retried_until_max_retries_and_then_dead_in_place(void **state)
{
    (void)state;
    struct queue_config c = strategy(FAILURE_RETRY, 2);
    struct rig r;
    struct outcome_row row;
    rig_init(&r, &c);
    uint64_t seq = rig_send(&r, "x", NULL).seq;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fail_once(&r, &row), OUTCOME_RETRYING);
        assert_int_equal(row.until, machine_now(r.m) + (i == 0 ? 1000 : 2000));
        assert_false(machine_claimable(r.m, row.until - 1, BYTES_EMPTY));
        rig_tick(&r, row.until - machine_now(r.m));
    }
    assert_int_equal(fail_once(&r, &row), OUTCOME_DEAD_LETTERED);
    struct message_view v;
    assert_int_equal(machine_find(r.m, seq, 0, &v), ERR_OK);
    assert_int_equal(v.state, STATE_DEAD);
    assert_int_equal(v.retries, 2);
    assert_int_equal(v.deliveries, 3);
    assert_int_equal(v.cause, DEAD_FAILED);
    assert_true(machine_needs(r.m, v.reason_slot, v.reason_slot));
    rig_done(&r);
}

static void a_failure_goes_to_the_dead_letter_queue_at_once(void **state)
{
    (void)state;
    struct queue_config c = strategy(FAILURE_DEAD_LETTER, 5);
    struct rig r;
    struct outcome_row row;
    rig_init(&r, &c);
    rig_send(&r, "x", NULL);
    assert_int_equal(fail_once(&r, &row), OUTCOME_DEAD_LETTERED);
    struct message_view v;
    assert_int_equal(machine_outbox(r.m, &v, 1), 1);
    assert_int_equal(v.outbox_number, 1);
    assert_int_equal(v.retries, 0);
    assert_int_equal(v.died_at, machine_now(r.m));
    const struct rig_entry *e = &r.log[v.reason_slot - 1];
    struct op_outcome op;
    assert_int_equal(outcome_decode(e->ops[v.reason_op].payload, &op), ERR_OK);
    assert_true(bytes_equal(op.reason, bytes_str("boom")));
    assert_true(bytes_equal(rig_message(&r, v.place).body, bytes_str("x")));
    rig_done(&r);
}

static void hybrid_retries_first_and_then_dead_letters(void **state)
{
    (void)state;
    struct queue_config c = strategy(FAILURE_HYBRID, 3);
    struct rig r;
    struct outcome_row row;
    rig_init(&r, &c);
    rig_send(&r, "x", NULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fail_once(&r, &row), OUTCOME_RETRYING);
        rig_tick(&r, 60000);
    }
    assert_int_equal(fail_once(&r, &row), OUTCOME_DEAD_LETTERED);
    assert_int_equal(rig_count(&r, STATE_OUTBOUND), 1);
    rig_done(&r);
}

static void expiry_counts_against_max_retries_and_does_not_wait(void **state)
{
    (void)state;
    struct queue_config c = strategy(FAILURE_HYBRID, 1);
    struct rig r;
    struct grant g;
    rig_init(&r, &c);
    rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    rig_tick(&r, 30000);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    assert_int_equal(g.retries, 1);
    rig_tick(&r, 30000);
    assert_int_equal(rig_events(&r, EVENT_LOCK_EXPIRED), 1);
    const struct event *e = rig_event(&r, EVENT_MESSAGE_OUTCOME, 0);
    assert_int_equal(e->status, OUTCOME_DEAD_LETTERED);
    assert_int_equal(e->reason, REASON_LOCK_EXPIRED);
    assert_true(bytes_equal(event_worker(&r.events, e), bytes_str("w")));
    assert_int_equal(rig_count(&r, STATE_OUTBOUND), 1);
    rig_done(&r);
}

static void expiry_in_mode_dead_letter_only_redelivers(void **state)
{
    (void)state;
    struct queue_config c = strategy(FAILURE_DEAD_LETTER, 0);
    struct rig r;
    struct grant g;
    rig_init(&r, &c);
    rig_send(&r, "x", NULL);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
        assert_int_equal(g.retries, 0);
        rig_tick(&r, 30000);
    }
    assert_int_equal(rig_count(&r, STATE_READY), 1);
    rig_done(&r);
}

static void max_deliveries_ends_a_message_in_every_mode(void **state)
{
    (void)state;
    for (int mode = FAILURE_RETRY; mode <= FAILURE_HYBRID; mode++) {
        struct queue_config c = strategy((enum failure_mode)mode, 100);
        c.deliveries_max = 2;
        struct rig r;
        struct grant g;
        rig_init(&r, &c);
        rig_send(&r, "x", NULL);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
            rig_tick(&r, 30000);
        }
        assert_int_equal(rig_claim(&r, "w", 1, &g), 0);
        assert_int_equal(rig_count(&r, mode == FAILURE_RETRY ? STATE_DEAD : STATE_OUTBOUND), 1);
        rig_done(&r);
    }
}

static void a_release_counts_no_attempt(void **state)
{
    (void)state;
    struct queue_config c = strategy(FAILURE_RETRY, 0);
    c.deliveries_max = 1;
    struct rig r;
    struct grant g;
    rig_init(&r, &c);
    rig_send(&r, "x", NULL);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
        assert_int_equal(g.deliveries, 1);
        assert_int_equal(rig_word(&r, OP_RELEASE, &g).reason, REASON_NONE);
        assert_int_equal(rig_events(&r, EVENT_MESSAGE_RELEASED), 1);
    }
    rig_done(&r);
}

static void jitter_spreads_the_waits_within_its_bounds_and_is_the_same_every_time(void **state)
{
    (void)state;
    struct queue_config c = strategy(FAILURE_RETRY, 5);
    c.backoff.jitter_1000 = 200;
    int64_t waits[2][40], lowest = INT64_MAX, highest = 0;
    for (int run = 0; run < 2; run++) {
        struct rig r;
        rig_init(&r, &c);
        for (int i = 0; i < 40; i++) {
            struct outcome_row row;
            rig_send(&r, "x", NULL);
            fail_once(&r, &row);
            waits[run][i] = row.until - machine_now(r.m);
            if (waits[run][i] < lowest) lowest = waits[run][i];
            if (waits[run][i] > highest) highest = waits[run][i];
        }
        rig_done(&r);
    }
    assert_memory_equal(waits[0], waits[1], sizeof waits[0]);
    assert_true(lowest >= 800 && highest <= 1200);
    assert_true(highest - lowest > 200);
}

static void backoff_grows_to_its_maximum_and_never_overflows(void **state)
{
    (void)state;
    struct queue_config c = strategy(FAILURE_RETRY, 1000000);
    c.backoff = (struct backoff_config){1000, 1000000, CONFIG_TIME_MAX_MS, 1000};
    struct rig r;
    rig_init(&r, &c);
    rig_send(&r, "x", NULL);
    for (int i = 0; i < 20; i++) {
        struct outcome_row row;
        assert_int_equal(fail_once(&r, &row), OUTCOME_RETRYING);
        int64_t wait = row.until == 0 ? 0 : row.until - machine_now(r.m);
        assert_true(wait >= 0 && wait <= CONFIG_TIME_MAX_MS);
        rig_tick(&r, CONFIG_TIME_MAX_MS);
    }
    rig_done(&r);
}

static void a_dead_letter_arrives_once_however_often_it_is_carried(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    for (int i = 0; i < 3; i++) {
        rig_put_arrive(&r, 7, "letter");
        rig_commit(&r);
        assert_int_equal(rig_reason(&r, 0), i == 0 ? REASON_NONE : REASON_ARRIVED_BEFORE);
        assert_int_equal(r.results[0].err, ERR_OK);
    }
    rig_put_arrive(&r, 6, "older");
    rig_put_arrive(&r, 8, "next");
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_ARRIVED_BEFORE);
    assert_int_equal(rig_reason(&r, 1), REASON_NONE);
    assert_int_equal(rig_count(&r, STATE_READY), 2);
    struct grant g[2];
    assert_int_equal(rig_claim(&r, "w", 2, g), 2);
    assert_true(bytes_equal(rig_message(&r, g[1].place).body, bytes_str("next")));
    rig_done(&r);
}

static void dead_letters_ignore_capacity_and_size(void **state)
{
    (void)state;
    struct queue_config c = defaults();
    c.capacity = 1;
    c.message_bytes_max = 1;
    struct rig r;
    rig_init(&r, &c);
    for (uint64_t i = 1; i <= 3; i++) {
        rig_put_arrive(&r, i, "longer than one byte");
        rig_commit(&r);
        assert_int_equal(rig_reason(&r, 0), REASON_NONE);
    }
    rig_done(&r);
}

static void the_outbox_is_ordered_and_emptied_up_to_a_number(void **state)
{
    (void)state;
    struct queue_config c = strategy(FAILURE_DEAD_LETTER, 0);
    struct rig r;
    struct outcome_row row;
    rig_init(&r, &c);
    for (int i = 0; i < 3; i++)
        rig_send(&r, "x", NULL);
    for (int i = 0; i < 3; i++)
        fail_once(&r, &row);
    struct message_view v[4];
    assert_int_equal(machine_outbox(r.m, v, 4), 3);
    assert_true(v[0].outbox_number < v[1].outbox_number);
    assert_true(v[1].outbox_number < v[2].outbox_number);
    rig_put_outbox(&r, v[1].outbox_number);
    rig_commit(&r);
    assert_int_equal(rig_events(&r, EVENT_MESSAGE_MOVED), 2);
    assert_int_equal(rig_count(&r, STATE_MOVED), 2);
    assert_int_equal(machine_outbox(r.m, v, 4), 1);
    rig_done(&r);
}

static void a_redrive_sends_a_new_message_that_says_where_it_came_from(void **state)
{
    (void)state;
    struct queue_config c = strategy(FAILURE_RETRY, 0);
    struct rig r;
    struct outcome_row row;
    rig_init(&r, &c);
    uint64_t seq = rig_send(&r, "again", NULL).seq;
    fail_once(&r, &row);
    rig_put_redrive(&r, 10);
    rig_commit(&r);
    const struct event *e = rig_event(&r, EVENT_MESSAGE_ENQUEUED, 0);
    assert_int_equal(e->from, seq);
    assert_int_equal(e->seq, seq + 1);
    struct grant g;
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    assert_int_equal(g.seq, seq + 1);
    assert_int_equal(g.deliveries, 1);
    assert_true(bytes_equal(rig_message(&r, g.place).body, bytes_str("again")));
    assert_int_equal(rig_count(&r, STATE_REDRIVEN), 1);
    rig_put_redrive(&r, 10);
    rig_commit(&r);
    assert_int_equal(rig_events(&r, EVENT_MESSAGE_ENQUEUED), 0);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_failure_is_retried_until_max_retries_and_then_dead_in_place),
        CASE(a_failure_goes_to_the_dead_letter_queue_at_once),
        CASE(hybrid_retries_first_and_then_dead_letters),
        CASE(expiry_counts_against_max_retries_and_does_not_wait),
        CASE(expiry_in_mode_dead_letter_only_redelivers),
        CASE(max_deliveries_ends_a_message_in_every_mode),
        CASE(a_release_counts_no_attempt),
        CASE(jitter_spreads_the_waits_within_its_bounds_and_is_the_same_every_time),
        CASE(backoff_grows_to_its_maximum_and_never_overflows),
        CASE(a_dead_letter_arrives_once_however_often_it_is_carried),
        CASE(dead_letters_ignore_capacity_and_size),
        CASE(the_outbox_is_ordered_and_emptied_up_to_a_number),
        CASE(a_redrive_sends_a_new_message_that_says_where_it_came_from),
    };
    return RUN(tests);
}
