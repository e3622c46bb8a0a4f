// SPDX-License-Identifier: Apache-2.0
// A signal to a workflow or a worker with more messages than one op has.
#include "base/memory.h"
#include "signal_rig.h"

#define MESSAGES    (2 * SIGNAL_TARGETS_MAX + 5)
#define TEN_MINUTES (INT64_C(10) * 60 * 1000)

static struct rig begin(void)
{
    struct rig r;
    struct queue_config c = defaults();
    rig_init(&r, &c);
    struct message m = {.body = bytes_str("x"), .workflow = bytes_str("flow")};
    for (uint32_t left = MESSAGES, count; left > 0; left -= count) {
        struct buf b;
        count = left < SEND_COUNT_MAX ? left : SEND_COUNT_MAX;
        buf_init(&b, (size_t)8 << 20);
        send_begin(&b, &(struct request_id){0});
        for (uint32_t i = 0; i < count; i++)
            send_add(&b, &m);
        send_end(&b, 0, count);
        rig_op(&r, OP_SEND, &b);
        rig_commit(&r);
    }
    return r;
}

static struct op_signal part_of(struct op_signal op, enum signal_target target, uint64_t after)
{
    op.target = target;
    op.name = bytes_str(target == SIGNAL_TO_WORKER ? "w" : "flow");
    op.signal = op.request;
    op.after = after;
    if (after > 0)
        op.request = (struct request_id){.bytes = {0xbb, (uint8_t)after, (uint8_t)(after >> 8)}};
    return op;
}

// Expects rows in this state about the messages first .. last.
static void expect(struct rig *r, uint16_t kind, enum signal_state state, uint64_t first,
                   uint64_t last)
{
    struct result result;
    struct signal_row row;
    rig_commit(r);
    machine_check(r->m);
    assert_int_equal(result_open(rig_body(r, 0), kind, &result), ERR_OK);
    assert_int_equal(result.count, last - first + 1);
    for (uint64_t seq = first; seq <= last; seq++) {
        assert_true(signal_row_next(&result, &row));
        assert_int_equal(row.seq, seq);
        assert_int_equal(row.reason, REASON_NONE);
        assert_int_equal(row.state, state);
    }
}

// All parts of a signal, one after another, and then that there is no further one.
static void send_all(struct rig *r, struct op_signal op, enum signal_target target,
                     enum signal_state state)
{
    uint64_t after = 0;
    while (after < MESSAGES) {
        uint64_t last = after + SIGNAL_TARGETS_MAX;
        if (last > MESSAGES) last = MESSAGES;
        put_signal(r, part_of(op, target, after), 0);
        expect(r, OP_SIGNAL, state, after + 1, last);
        after = last;
    }
    put_signal(r, part_of(op, target, after), 0);
    rig_commit(r);
    assert_int_equal(rig_reason(r, 0),
                     target == SIGNAL_TO_WORKER ? REASON_UNKNOWN_WORKER : REASON_UNKNOWN_WORKFLOW);
}

static void each_message_of_a_workflow_gets_it_once(void **state)
{
    (void)state;
    struct rig r = begin();
    send_all(&r, steer_op(1), SIGNAL_TO_WORKFLOW, SIGNAL_PENDING);
    assert_int_equal(machine_signal_count(r.m), MESSAGES);
    send_all(&r, steer_op(1), SIGNAL_TO_WORKFLOW, SIGNAL_PENDING); // the answers are remembered
    rig_tick(&r, TEN_MINUTES);
    send_all(&r, steer_op(1), SIGNAL_TO_WORKFLOW, SIGNAL_PENDING); // the signals are known
    assert_int_equal(machine_signal_count(r.m), MESSAGES);
    struct signal_view v;
    struct request_id id = signal_id(1);
    for (uint64_t seq = 1; seq <= MESSAGES; seq += SIGNAL_TARGETS_MAX) {
        assert_true(machine_signal_find(r.m, &id, seq, &v)); // one id in all parts
        assert_int_equal(v.number, 1);
    }
    rig_done(&r);
}

static void each_message_of_a_worker_gets_it(void **state)
{
    (void)state;
    struct rig r = begin();
    struct grant *g = memory_new(CLAIM_COUNT_MAX * sizeof *g);
    for (uint32_t held = 0; held < MESSAGES;) {
        uint32_t left = MESSAGES - held;
        held += rig_claim(&r, "w", left < CLAIM_COUNT_MAX ? left : CLAIM_COUNT_MAX, g);
    }
    memory_free(g);
    send_all(&r, steer_op(1), SIGNAL_TO_WORKER, SIGNAL_PENDING);
    assert_int_equal(machine_signal_count(r.m), MESSAGES);
    rig_done(&r);
}

static void an_interrupt_of_a_workflow_ends_all_its_messages(void **state)
{
    (void)state;
    struct rig r = begin();
    send_all(&r, interrupt_op(1, 0, THEN_CANCEL), SIGNAL_TO_WORKFLOW, SIGNAL_APPLIED);
    struct machine_stats stats;
    machine_stats(r.m, machine_now(r.m), &stats);
    assert_int_equal(stats.counts[STATE_CANCELLED], MESSAGES);
    rig_done(&r);
}

static void it_is_withdrawn_in_several_ops(void **state)
{
    (void)state;
    struct rig r = begin();
    send_all(&r, steer_op(1), SIGNAL_TO_WORKFLOW, SIGNAL_PENDING);
    put_withdraw(&r, 1, 0);
    expect(&r, OP_SIGNAL_WITHDRAW, SIGNAL_WITHDRAWN, 1, SIGNAL_TARGETS_MAX);
    put_withdraw(&r, 1, 0);
    expect(&r, OP_SIGNAL_WITHDRAW, SIGNAL_WITHDRAWN, SIGNAL_TARGETS_MAX + 1,
           2 * SIGNAL_TARGETS_MAX);
    put_withdraw(&r, 1, 0);
    expect(&r, OP_SIGNAL_WITHDRAW, SIGNAL_WITHDRAWN, 2 * SIGNAL_TARGETS_MAX + 1, MESSAGES);
    assert_int_equal(machine_signal_count(r.m), 0);
    put_withdraw(&r, 1, 0);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_SIGNAL_SETTLED);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(each_message_of_a_workflow_gets_it_once),
        CASE(each_message_of_a_worker_gets_it),
        CASE(an_interrupt_of_a_workflow_ends_all_its_messages),
        CASE(it_is_withdrawn_in_several_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
