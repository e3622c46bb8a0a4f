// SPDX-License-Identifier: Apache-2.0
// Signals to a message: acceptance, order, delivery, and the ways in which they end.
#include "queue/core/state.h"
#include "signal_rig.h"

static struct grant running(struct rig *r)
{
    struct queue_config c = defaults();
    return rig_running(r, &c);
}

static void a_steer_of_a_running_message_waits_for_its_holder(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r);
    uint64_t orders = machine_signal_orders(r.m);
    struct signal_row row = rig_signal(&r, steer_op(1), g.seq);
    assert_int_equal(row.reason, REASON_NONE);
    assert_int_equal(row.number, 1);
    assert_int_equal(row.state, SIGNAL_PENDING);
    assert_int_equal(rig_events(&r, EVENT_SIGNAL_SENT), 1);
    assert_int_equal(rig_events(&r, EVENT_SIGNAL_DELIVERED), 1);
    assert_int_equal(machine_signal_orders(r.m), orders + 1);
    struct lock_ref ref = {g.seq, g.token};
    struct signal_view v;
    size_t len;
    assert_int_equal(machine_signals(r.m, &ref, 0, &v, 1, &len), REASON_NONE);
    assert_int_equal(len, 1);
    assert_int_equal(v.deliveries, 1);
    assert_int_equal(v.until, row.until);
    struct op_signal op;
    const struct rig_entry *e = &r.log[v.carried.slot - 1];
    assert_int_equal(signal_decode(e->ops[v.carried.op].payload, &op), ERR_OK);
    assert_true(bytes_equal(op.payload, bytes_str("{\"speed\":2}")));
    ref.token.lo++;
    assert_int_equal(machine_signals(r.m, &ref, 0, &v, 1, &len), REASON_TOKEN_MISMATCH);
    rig_done(&r);
}

static void an_ack_ends_a_signal_once_and_keeps_its_answer(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r), other = g;
    rig_signal(&r, steer_op(1), g.seq);
    other.token.lo++;
    assert_int_equal(settle(&r, &other, 1, SIGNAL_ACK, "no"), REASON_TOKEN_MISMATCH);
    assert_int_equal(settle(&r, &g, 2, SIGNAL_ACK, "no"), REASON_UNKNOWN_SIGNAL);
    assert_int_equal(settle(&r, &g, 1, SIGNAL_ACK, "half done"), REASON_NONE);
    assert_int_equal(rig_events(&r, EVENT_SIGNAL_ACKED), 1);
    assert_int_equal(settle(&r, &g, 1, SIGNAL_ACK, "again"), REASON_SIGNAL_SETTLED);
    struct signal_view v;
    struct request_id id = signal_id(1);
    assert_true(machine_signal_find(r.m, &id, g.seq, &v));
    assert_int_equal(v.state, SIGNAL_ACKED);
    struct op_signal_settle op;
    struct signal_answer row;
    const struct rig_entry *e = &r.log[v.answer.slot - 1];
    assert_int_equal(signal_settle_decode(e->ops[v.answer.op].payload, &op), ERR_OK);
    struct reader rows = reader_of(op.rows);
    assert_true(signal_answer_next(&rows, &row));
    assert_true(bytes_equal(row.answer, bytes_str("half done")));
    assert_true(machine_needs(r.m, v.answer.slot, v.answer.slot));
    assert_true(machine_signal_lives_at(r.m, v.answer.slot, v.answer.op));
    assert_int_equal(waiting(&r, &g), 0);
    rig_done(&r);
}

static void signals_end_in_their_order(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r);
    for (uint8_t n = 1; n <= 3; n++)
        assert_int_equal(rig_signal(&r, steer_op(n), g.seq).number, n);
    assert_int_equal(settle(&r, &g, 2, SIGNAL_ACK, ""), REASON_SIGNAL_ORDER);
    assert_int_equal(settle(&r, &g, 1, SIGNAL_DECLINE, "not-listening"), REASON_NONE);
    const struct event *e = rig_event(&r, EVENT_SIGNAL_ENDED, 0);
    assert_int_equal(e->signal_state, SIGNAL_DECLINED);
    assert_true(bytes_equal(event_failure_text(&r.events, e), bytes_str("not-listening")));
    assert_true(bytes_equal(event_worker(&r.events, e), bytes_str("w")));
    assert_int_equal(withdraw(&r, 2, 0).state, SIGNAL_WITHDRAWN);
    assert_int_equal(settle(&r, &g, 3, SIGNAL_ACK, ""), REASON_NONE);
    e = rig_event(&r, EVENT_SIGNAL_ACKED, 0);
    assert_true(bytes_equal(event_worker(&r.events, e), bytes_str("w")));
    assert_int_equal(e->signal_state, SIGNAL_ACKED);
    assert_int_equal(withdraw(&r, 3, 0).reason, REASON_SIGNAL_SETTLED);
    assert_int_equal(withdraw(&r, 9, 0).reason, REASON_UNKNOWN_SIGNAL);
    struct signal_view v[8];
    assert_int_equal(machine_signals_of(r.m, g.seq, v, 8), 3);
    assert_int_equal(v[0].state, SIGNAL_ACKED);
    assert_int_equal(v[2].state, SIGNAL_DECLINED);
    rig_done(&r);
}

static void a_signal_before_the_message_runs_comes_with_the_claim(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    rig_defaults(&r);
    uint64_t seq = rig_send(&r, "x", NULL).seq;
    struct op_signal op = steer_op(1);
    op.flags = SIGNAL_REFUSE_IDLE;
    assert_int_equal(rig_signal(&r, op, seq).reason, REASON_NOT_RUNNING);
    assert_int_equal(rig_signal(&r, steer_op(2), seq).number, 1);
    assert_int_equal(rig_events(&r, EVENT_SIGNAL_DELIVERED), 0);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    assert_int_equal(rig_events(&r, EVENT_SIGNAL_DELIVERED), 1);
    assert_int_equal(waiting(&r, &g), 1);
    assert_int_equal(rig_signal(&r, steer_op(3), 77).reason, REASON_UNKNOWN_MESSAGE);
    rig_word(&r, OP_ACK, &g);
    assert_int_equal(state_of(&r, 2), SIGNAL_MISSED);
    assert_int_equal(rig_signal(&r, steer_op(4), seq).reason, REASON_TERMINAL);
    rig_done(&r);
}

static void the_end_of_a_lock_decides_about_each_signal(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r), next;
    struct op_signal once = steer_op(2);
    once.flags = SIGNAL_ONCE;
    once.kind = SIGNAL_ASK;
    rig_signal(&r, steer_op(1), g.seq);
    rig_signal(&r, once, g.seq);
    rig_tick(&r, 31000); // the lock expires
    assert_int_equal(state_of(&r, 1), SIGNAL_PENDING);
    assert_int_equal(state_of(&r, 2), SIGNAL_MISSED);
    assert_int_equal(settle(&r, &g, 1, SIGNAL_ACK, ""), REASON_LOCK_EXPIRED);
    assert_int_equal(rig_claim(&r, "w2", 1, &next), 1);
    assert_int_equal(waiting(&r, &next), 1);
    assert_int_equal(settle(&r, &g, 1, SIGNAL_ACK, ""), REASON_TOKEN_MISMATCH);
    struct signal_view v;
    struct request_id id = signal_id(1);
    assert_true(machine_signal_find(r.m, &id, 0, &v));
    assert_int_equal(v.deliveries, 2);
    assert_int_equal(settle(&r, &next, 1, SIGNAL_ACK, ""), REASON_NONE);
    rig_done(&r);
}

static void a_signal_expires_and_a_settle_that_arrived_in_time_counts(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r);
    struct op_signal op = steer_op(1);
    op.ttl_ms = 500;
    int64_t until = rig_signal(&r, op, g.seq).until;
    assert_int_equal(until, r.time.hi + 500);
    assert_int_equal(machine_wake_at(r.m), until);
    rig_tick(&r, 500);
    assert_int_equal(state_of(&r, 1), SIGNAL_EXPIRED);
    assert_int_equal(rig_event(&r, EVENT_SIGNAL_ENDED, 0)->op, EVENT_OP_TIME);
    rig_signal(&r, steer_op(2), g.seq);
    r.time.lo += 40000; // past the lock's deadline
    r.time.hi += 40000;
    put_settle(&r, &g, 2, SIGNAL_ACK, "late", g.deadline - 1);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_NONE);
    assert_int_equal(state_of(&r, 2), SIGNAL_ACKED);
    assert_int_equal(rig_count(&r, STATE_LOCKED), 0);
    rig_done(&r);
}

static void the_same_id_is_one_signal(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r);
    assert_int_equal(rig_signal(&r, steer_op(1), g.seq).number, 1);
    for (int i = 0; i < 50; i++) { // the request is forgotten, and the signal is pending
        rig_word(&r, OP_RENEW, &g);
        rig_tick(&r, 25000);
    }
    struct signal_row row = rig_signal(&r, steer_op(1), g.seq);
    assert_int_equal(row.number, 1);
    assert_int_equal(row.state, SIGNAL_PENDING);
    assert_int_equal(rig_events(&r, EVENT_SIGNAL_SENT), 0);
    assert_int_equal(machine_signal_count(r.m), 1);
    rig_done(&r);
}

static void a_message_takes_256_signals(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r);
    struct op_signal op = steer_op(0);
    for (int i = 0; i < SIGNALS_OF_MESSAGE_MAX; i++) {
        op.request.bytes[2] = (uint8_t)(i >> 8);
        op.request.bytes[3] = (uint8_t)i;
        op.request.bytes[4] = 1;
        assert_int_equal(rig_signal(&r, op, g.seq).reason, REASON_NONE);
    }
    op.request.bytes[4] = 2;
    assert_int_equal(rig_signal(&r, op, g.seq).reason, REASON_SIGNALS_FULL);
    assert_int_equal(settle(&r, &g, 1, SIGNAL_ACK, ""), REASON_NONE);
    op.request.bytes[4] = 3;
    assert_int_equal(rig_signal(&r, op, g.seq).number, SIGNALS_OF_MESSAGE_MAX + 1);
    rig_done(&r);
}

// Only a snapshot can say that there were so many signals.
static void a_message_takes_no_signal_after_the_last_number(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r);
    assert_int_equal(rig_signal(&r, steer_op(1), g.seq).number, 1);
    struct signal_box *box = &r.m->signals.boxes[1];
    r.m->digest -= signal_box_hash(box);
    box->number = UINT32_MAX - 1;
    r.m->digest += signal_box_hash(box);
    assert_int_equal(rig_signal(&r, steer_op(2), g.seq).number, UINT32_MAX);
    assert_int_equal(rig_signal(&r, steer_op(3), g.seq).reason, REASON_SIGNALS_FULL);
    struct buf saved;
    buf_init(&saved, SIZE_MAX);
    machine_save(r.m, &saved);
    assert_int_equal(machine_load(r.m, buf_bytes(&saved)), ERR_OK);
    machine_check(r.m);
    buf_done(&saved);
    rig_done(&r);
}

static void a_shard_takes_100000_signals(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    struct buf seqs;
    const uint32_t messages = 500, each = SIGNALS_OF_SHARD_MAX / 500;
    rig_init(&r, &c);
    buf_init(&seqs, messages * sizeof(uint64_t));
    for (uint32_t i = 0; i < messages; i++)
        buf_put_u64(&seqs, rig_send(&r, "x", NULL).seq);
    for (uint32_t i = 0; i < each; i++) {
        struct op_signal op = steer_op((uint8_t)i);
        op.request.bytes[2] = (uint8_t)(i >> 8);
        op.count = messages;
        op.seqs = buf_bytes(&seqs);
        struct buf b;
        buf_init(&b, (size_t)1 << 20);
        signal_encode(&b, &op);
        rig_op(&r, OP_SIGNAL, &b);
        rig_commit(&r);
        assert_int_equal(rig_reason(&r, 0), REASON_NONE);
    }
    buf_done(&seqs);
    assert_int_equal(machine_signal_count(r.m), SIGNALS_OF_SHARD_MAX);
    struct op_signal more = steer_op(1);
    more.request.bytes[5] = 1;
    assert_int_equal(rig_signal(&r, more, 1).reason, REASON_SIGNALS_FULL);
    rig_tick(&r, SIGNAL_TTL_DEFAULT_MS); // all of them expire
    assert_int_equal(machine_signal_count(r.m), 0);
    more.request.bytes[5] = 2;
    assert_int_equal(rig_signal(&r, more, 1).reason, REASON_NONE);
    rig_done(&r);
}

static void a_workflow_and_a_worker_are_targets(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[3];
    rig_defaults(&r);
    struct message m = {.body = bytes_str("x"), .workflow = bytes_str("flow")};
    for (int i = 0; i < 3; i++)
        rig_send_message(&r, &m);
    rig_claim(&r, "w", 2, g);
    rig_word(&r, OP_ACK, &g[0]);
    struct op_signal op = steer_op(1);
    op.target = SIGNAL_TO_WORKFLOW;
    op.name = bytes_str("flow");
    assert_int_equal(rig_signal(&r, op, 0).seq, 2);
    assert_int_equal(machine_signal_count(r.m), 2); // messages 2 and 3
    op = steer_op(2);
    op.target = SIGNAL_TO_WORKER;
    op.name = bytes_str("w");
    assert_int_equal(rig_signal(&r, op, 0).number, 2);
    assert_int_equal(machine_signal_count(r.m), 3);
    op = steer_op(3);
    op.target = SIGNAL_TO_WORKER;
    op.name = bytes_str("other");
    assert_int_equal(rig_signal(&r, op, 0).reason, REASON_UNKNOWN_WORKER);
    op.target = SIGNAL_TO_WORKFLOW;
    op.request = signal_id(4);
    assert_int_equal(rig_signal(&r, op, 0).reason, REASON_UNKNOWN_WORKFLOW);
    struct signal_view v[8];
    assert_int_equal(machine_signals_pending(r.m, 0, 0, v, 8), 3);
    assert_int_equal(v[0].seq, 2);
    assert_int_equal(v[2].seq, 3);
    assert_int_equal(machine_signals_pending(r.m, 2, 1, v, 8), 2);
    rig_done(&r);
}

static void a_ticket_that_is_not_taken_gets_no_signal(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    rig_put_worker(&r, "w", 4, 60000);
    rig_put_publish(&r, "w", 1, 30000);
    rig_commit(&r);
    assert_int_equal(rig_grants(&r, 1, &g, 1), 1);
    rig_signal(&r, steer_op(1), g.seq);
    assert_int_equal(rig_events(&r, EVENT_SIGNAL_DELIVERED), 0);
    assert_int_equal(waiting(&r, &g), 0);
    assert_int_equal(settle(&r, &g, 1, SIGNAL_ACK, ""), REASON_UNKNOWN_SIGNAL);
    rig_word(&r, OP_RENEW, &g); // takes it
    assert_int_equal(rig_events(&r, EVENT_SIGNAL_DELIVERED), 1);
    assert_int_equal(waiting(&r, &g), 1);
    rig_done(&r);
}

static void what_a_purge_and_a_delete_leave(void **state)
{
    (void)state;
    struct rig r;
    struct grant g = running(&r);
    uint64_t idle = rig_send(&r, "y", NULL).seq;
    rig_signal(&r, steer_op(1), g.seq);
    rig_signal(&r, steer_op(2), idle);
    settle(&r, &g, 1, SIGNAL_ACK, "answer");
    rig_put_plain(&r, OP_PURGE);
    rig_commit(&r);
    machine_check(r.m);
    assert_int_equal(state_of(&r, 2), SIGNAL_MISSED);
    rig_signal(&r, steer_op(3), g.seq);
    rig_put_plain(&r, OP_DELETE);
    rig_commit(&r);
    machine_check(r.m);
    assert_int_equal(machine_signal_count(r.m), 0);
    assert_false(machine_needs(r.m, 1, r.next.slot));
    rig_done(&r);
}

static void ends_are_kept_for_the_retention_and_ten_minutes_at_least(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    c.retention_ms = 0;
    struct grant g = rig_running(&r, &c);
    rig_signal(&r, steer_op(1), g.seq);
    settle(&r, &g, 1, SIGNAL_ACK, "answer");
    struct request_id id = signal_id(1);
    struct signal_view v;
    rig_tick(&r, REQUEST_KEEP_MS - 1);
    assert_true(machine_signal_find(r.m, &id, 0, &v));
    rig_tick(&r, 1);
    assert_false(machine_signal_find(r.m, &id, 0, &v));
    machine_check(r.m);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_steer_of_a_running_message_waits_for_its_holder),
        CASE(an_ack_ends_a_signal_once_and_keeps_its_answer),
        CASE(signals_end_in_their_order),
        CASE(a_signal_before_the_message_runs_comes_with_the_claim),
        CASE(the_end_of_a_lock_decides_about_each_signal),
        CASE(a_signal_expires_and_a_settle_that_arrived_in_time_counts),
        CASE(the_same_id_is_one_signal),
        CASE(a_message_takes_256_signals),
        CASE(a_message_takes_no_signal_after_the_last_number),
        CASE(a_shard_takes_100000_signals),
        CASE(a_workflow_and_a_worker_are_targets),
        CASE(a_ticket_that_is_not_taken_gets_no_signal),
        CASE(what_a_purge_and_a_delete_leave),
        CASE(ends_are_kept_for_the_retention_and_ten_minutes_at_least),
    };
    return RUN(tests);
}
