// SPDX-License-Identifier: Apache-2.0
// The cancel of chosen messages: which states allow it, what it counts as, and what it leaves.
#include "queue_test.h"

static void put_cancel(struct rig *r, const uint64_t *seqs, uint32_t count)
{
    struct buf b, bytes;
    buf_init(&b, 4096);
    buf_init(&bytes, 4096);
    for (uint32_t i = 0; i < count; i++)
        buf_put_u64(&bytes, seqs[i]);
    cancel_encode(&b, &(struct op_cancel){.reason = bytes_str("not needed"),
                                          .count = count,
                                          .seqs = buf_bytes(&bytes)});
    buf_done(&bytes);
    rig_op(r, OP_CANCEL, &b);
}

static struct outcome_row cancel(struct rig *r, uint64_t seq)
{
    struct result result;
    struct outcome_row row = {0};
    put_cancel(r, &seq, 1);
    rig_commit(r);
    machine_check(r->m);
    assert_int_equal(result_open(rig_body(r, 0), OP_CANCEL, &result), ERR_OK);
    assert_true(outcome_row_next(&result, &row));
    assert_int_equal(row.reason, rig_reason(r, 0));
    return row;
}

static void begin(struct rig *r, const struct queue_config *config)
{
    rig_init(r, config);
}

static void begin_plain(struct rig *r)
{
    struct queue_config c = defaults();
    begin(r, &c);
}

static void a_message_inside_a_range_of_the_backlog_is_cancelled(void **state)
{
    (void)state;
    struct rig r;
    begin_plain(&r);
    for (int i = 0; i < 9; i++)
        rig_send(&r, (const char *[]){"a", "b", "c", "d", "e", "f", "g", "h", "i"}[i], NULL);
    const uint64_t some[] = {5, 1, 9, 2, 7};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        assert_int_equal(cancel(&r, some[i]).status, OUTCOME_CANCELLED);
    assert_int_equal(rig_count(&r, STATE_CANCELLED), 5);
    assert_int_equal(rig_count(&r, STATE_READY), 4);
    rig_send(&r, "j", NULL); // it does not continue a range whose last message is gone
    struct grant g[10];
    assert_int_equal(rig_claim(&r, "w", 10, g), 5);
    const uint64_t left[] = {3, 4, 6, 8, 10};
    const char *const bodies[] = {"c", "d", "f", "h", "j"};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(g[i].seq, left[i]);
        assert_true(bytes_equal(rig_message(&r, g[i].place).body, bytes_str(bodies[i])));
    }
    rig_done(&r);
}

static void a_delayed_and_a_retrying_message_are_cancelled(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    begin_plain(&r);
    struct message m = {.body = bytes_str("x"), .when = WHEN_DELAY, .when_ms = 60000};
    uint64_t delayed = rig_send_message(&r, &m).seq, retrying = rig_send(&r, "y", NULL).seq;
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    rig_word(&r, OP_FAIL, &g);
    assert_int_equal(rig_count(&r, STATE_DELAYED), 2);
    assert_int_equal(cancel(&r, delayed).status, OUTCOME_CANCELLED);
    assert_int_equal(cancel(&r, retrying).status, OUTCOME_CANCELLED);
    const struct event *e = rig_event(&r, EVENT_MESSAGE_OUTCOME, 0);
    assert_int_equal(e->status, OUTCOME_CANCELLED);
    assert_int_equal(e->seq, retrying);
    assert_true(bytes_equal(event_failure_text(&r.events, e), bytes_str("not needed")));
    assert_int_equal(rig_word(&r, OP_ACK, &g).reason, REASON_TERMINAL);
    assert_int_equal(cancel(&r, retrying).reason, REASON_TERMINAL);
    rig_tick(&r, 3600000);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 0);
    rig_done(&r);
}

static void a_message_that_a_worker_holds_is_refused(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    begin_plain(&r);
    rig_send(&r, "x", NULL);
    rig_claim(&r, "w", 1, &g);
    assert_int_equal(cancel(&r, g.seq).reason, REASON_LOCKED);
    assert_non_null(strstr(reason_text(REASON_LOCKED), "sluice signal QUEUE ID interrupt"));
    assert_int_equal(rig_word(&r, OP_ACK, &g).status, OUTCOME_PROCESSED);
    assert_int_equal(cancel(&r, g.seq).reason, REASON_TERMINAL);
    assert_int_equal(cancel(&r, 77).reason, REASON_UNKNOWN_MESSAGE);
    assert_int_equal(cancel(&r, 0).reason, REASON_UNKNOWN_MESSAGE);
    rig_done(&r);
}

static void a_ticket_that_is_not_taken_is_withdrawn(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    begin_plain(&r);
    rig_send(&r, "x", NULL);
    rig_put_worker(&r, "w", 4, 60000);
    rig_put_publish(&r, "w", 1, 30000);
    rig_commit(&r);
    assert_int_equal(rig_grants(&r, 1, &g, 1), 1);
    assert_int_equal(cancel(&r, g.seq).status, OUTCOME_CANCELLED);
    struct machine_stats stats;
    machine_stats(r.m, r.time.lo, &stats);
    assert_int_equal(stats.tickets, 0);
    rig_put_claim(&r, OP_TAKE, "w", 1, 0);
    rig_commit(&r);
    assert_int_equal(rig_grants(&r, 0, &g, 1), 0);
    rig_done(&r);
}

static void a_dead_message_is_purged(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    struct queue_config c = defaults();
    c.retries_max = 0;
    begin(&r, &c);
    rig_send(&r, "x", NULL);
    rig_claim(&r, "w", 1, &g);
    rig_word(&r, OP_FAIL, &g);
    assert_int_equal(rig_count(&r, STATE_DEAD), 1);
    assert_int_equal(cancel(&r, g.seq).status, OUTCOME_PURGED);
    assert_int_equal(rig_event(&r, EVENT_MESSAGE_OUTCOME, 0)->status, OUTCOME_PURGED);
    assert_int_equal(rig_count(&r, STATE_PURGED), 1);
    assert_int_equal(rig_count(&r, STATE_CANCELLED), 0);
    rig_done(&r);
}

static void a_strict_scope_goes_on_after_its_open_message_is_cancelled(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    struct queue_config c = defaults();
    c.ordering_guarantee = true;
    begin(&r, &c);
    for (int i = 0; i < 3; i++)
        rig_send(&r, "x", i == 2 ? NULL : "g");
    for (int i = 0; i < 2; i++)
        rig_send(&r, "y", NULL);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    rig_word(&r, OP_RELEASE, &g);
    assert_int_equal(cancel(&r, 1).status, OUTCOME_CANCELLED); // of the group, and opened
    assert_int_equal(cancel(&r, 4).status, OUTCOME_CANCELLED); // inside the backlog
    struct grant all[8];
    uint64_t got[8];
    size_t len = 0;
    while (rig_claim(&r, "w", 8, all) > 0 && len < 8) {
        struct result result;
        struct grant one;
        assert_int_equal(result_open(rig_body(&r, 0), OP_CLAIM, &result), ERR_OK);
        struct grant kept[8];
        size_t n = 0;
        while (grant_next(&result, &one))
            kept[n++] = one;
        for (size_t i = 0; i < n; i++) {
            got[len++] = kept[i].seq;
            rig_word(&r, OP_ACK, &kept[i]);
        }
    }
    assert_int_equal(len, 3);
    assert_int_equal(got[0] + got[1] + got[2], 2 + 3 + 5);
    rig_done(&r);
}

static void cancelled_messages_of_a_workflow_count_as_cancelled(void **state)
{
    (void)state;
    struct rig r;
    begin_plain(&r);
    struct message m = {
        .body = bytes_str("x"), .workflow = bytes_str("flow"), .workflow_last = true};
    uint64_t seq = rig_send_message(&r, &m).seq;
    assert_int_equal(cancel(&r, seq).status, OUTCOME_CANCELLED);
    struct workflow_view v;
    assert_true(machine_workflow(r.m, bytes_str("flow"), &v));
    assert_int_equal(v.cancelled, 1);
    assert_int_equal(v.open, 0);
    assert_int_equal(v.state, WORKFLOW_COMPLETED);
    struct finished_view f;
    assert_true(machine_finished(r.m, seq, r.time.lo, &f));
    assert_int_equal(f.outcome, FINISHED_CANCELLED);
    assert_string_equal(finished_outcome_name(f.outcome), "cancelled");
    rig_done(&r);
}

static void each_message_of_an_op_has_its_own_row(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    begin_plain(&r);
    for (int i = 0; i < 3; i++)
        rig_send(&r, "x", NULL);
    rig_claim(&r, "w", 1, &g);
    const uint64_t seqs[] = {1, 2, 3, 3, 99};
    put_cancel(&r, seqs, 5);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_NONE);
    struct result result;
    struct outcome_row row;
    const enum reason want[] = {REASON_LOCKED, REASON_NONE, REASON_NONE, REASON_TERMINAL,
                                REASON_UNKNOWN_MESSAGE};
    assert_int_equal(result_open(rig_body(&r, 0), OP_CANCEL, &result), ERR_OK);
    for (size_t i = 0; i < 5; i++) {
        assert_true(outcome_row_next(&result, &row));
        assert_int_equal(row.reason, want[i]);
    }
    assert_false(outcome_row_next(&result, &row));
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_message_inside_a_range_of_the_backlog_is_cancelled),
        CASE(a_delayed_and_a_retrying_message_are_cancelled),
        CASE(a_message_that_a_worker_holds_is_refused),
        CASE(a_ticket_that_is_not_taken_is_withdrawn),
        CASE(a_dead_message_is_purged),
        CASE(a_strict_scope_goes_on_after_its_open_message_is_cancelled),
        CASE(cancelled_messages_of_a_workflow_count_as_cancelled),
        CASE(each_message_of_an_op_has_its_own_row),
    };
    return RUN(tests);
}
