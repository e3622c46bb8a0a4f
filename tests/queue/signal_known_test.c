// SPDX-License-Identifier: Apache-2.0
// The same id is one signal while it is pending and for ten minutes after its end, however many
// others end in that time.
#include "signal_rig.h"

#define TEN_MINUTES (INT64_C(10) * 60 * 1000)
#define BATCH       SIGNAL_TARGETS_MAX

// Message 1 has an answer to signal 1. Messages 2 to BATCH + 1 wait.
static struct rig begin(struct grant *g)
{
    struct rig r;
    struct queue_config c = defaults();
    struct message m = {.body = bytes_str("x"), .workflow = bytes_str("flow")};
    struct buf b;
    *g = rig_running(&r, &c);
    rig_signal(&r, steer_op(1), g->seq);
    assert_int_equal(settle(&r, g, 1, SIGNAL_ACK, "an answer"), REASON_NONE);
    buf_init(&b, (size_t)8 << 20);
    send_begin(&b, &(struct request_id){0});
    for (uint32_t i = 0; i < BATCH; i++)
        send_add(&b, &m);
    send_end(&b, 0, BATCH);
    rig_op(&r, OP_SEND, &b);
    rig_commit(&r);
    return r;
}

// So many signals to messages 2 and so on end.
static void end_many(struct rig *r, uint32_t round, uint32_t count)
{
    struct buf b, seqs;
    struct op_signal op = steer_op(2);
    op.request.bytes[3] = (uint8_t)(1 + round);
    op.ttl_ms = 1;
    op.count = count;
    buf_init(&b, (size_t)1 << 20);
    buf_init(&seqs, (size_t)1 << 20);
    for (uint32_t i = 0; i < count; i++)
        buf_put_u64(&seqs, 2 + i);
    op.seqs = buf_bytes(&seqs);
    signal_encode(&b, &op);
    buf_done(&seqs);
    rig_op(r, OP_SIGNAL, &b);
    rig_commit(r);
    assert_int_equal(rig_reason(r, 0), REASON_NONE);
    rig_tick(r, 1);
    assert_int_equal(machine_signal_count(r->m), 0);
}

static uint64_t ended(const struct rig *r)
{
    struct machine_stats stats;
    machine_stats(r->m, machine_now(r->m), &stats);
    return stats.ended;
}

static struct signal_view first_signal(const struct rig *r)
{
    struct signal_view v;
    struct request_id id = signal_id(1);
    assert_true(machine_signal_find(r->m, &id, 0, &v));
    assert_int_equal(v.state, SIGNAL_ACKED);
    return v;
}

static void survives(const struct rig *r)
{
    struct buf b;
    buf_init(&b, SIZE_MAX);
    machine_save(r->m, &b);
    struct machine *m = machine_new(&r->queue, RIG_SHARD, &r->config);
    assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_OK);
    machine_check(m);
    assert_true(machine_digest(m) == machine_digest(r->m));
    machine_free(m);
    buf_done(&b);
}

static void only_the_answer_is_dropped_early(void **state)
{
    (void)state;
    struct grant g;
    struct rig r = begin(&g);
    for (uint32_t i = 0; i + 1 < SIGNALS_ENDED_MAX / BATCH; i++)
        end_many(&r, i, BATCH);
    end_many(&r, 100, BATCH - 1);
    assert_int_equal(ended(&r), SIGNALS_ENDED_MAX);
    struct op_place answer = first_signal(&r).answer;
    assert_true(machine_signal_lives_at(r.m, answer.slot, answer.op));
    end_many(&r, 101, 1);
    machine_check(r.m);
    assert_int_equal(first_signal(&r).answer.slot, 0);
    assert_false(machine_signal_lives_at(r.m, answer.slot, answer.op));
    assert_int_equal(rig_signal(&r, steer_op(1), g.seq).number, 1); // the same signal
    assert_int_equal(machine_signal_count(r.m), 0);
    survives(&r);
    rig_tick(&r, TEN_MINUTES); // the others are the newest, and stay for the retention
    machine_check(r.m);
    assert_int_equal(ended(&r), SIGNALS_ENDED_MAX);
    survives(&r);
    rig_done(&r);
}

static void signals_are_refused_before_an_id_is_forgotten(void **state)
{
    (void)state;
    struct grant g;
    struct rig r = begin(&g);
    for (uint32_t i = 0; i + 1 < SIGNALS_KNOWN_MAX / BATCH; i++)
        end_many(&r, i, BATCH);
    end_many(&r, 100, BATCH - 2);
    struct op_signal last = steer_op(9), more = steer_op(10), now = interrupt_op(11, 0, 0);
    assert_int_equal(rig_signal(&r, last, 2).reason, REASON_NONE); // it will need a row
    assert_int_equal(rig_signal(&r, more, 3).reason, REASON_SIGNALS_FULL);
    assert_int_equal(rig_signal(&r, now, 3).reason, REASON_SIGNALS_FULL);
    assert_int_equal(rig_signal(&r, last, 2).number, 101); // the same signal
    (void)first_signal(&r);
    assert_int_equal(withdraw(&r, 9, 2).state, SIGNAL_WITHDRAWN);
    assert_int_equal(ended(&r), SIGNALS_KNOWN_MAX);
    survives(&r);
    rig_tick(&r, TEN_MINUTES);
    machine_check(r.m);
    assert_int_equal(ended(&r), SIGNALS_ENDED_MAX);
    more.request = signal_id(12);
    assert_int_equal(rig_signal(&r, more, 3).reason, REASON_NONE);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(only_the_answer_is_dropped_early),
        CASE(signals_are_refused_before_an_id_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
