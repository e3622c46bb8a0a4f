// SPDX-License-Identifier: Apache-2.0
// Signals on the bench: one op, one entry.
#pragma once

#include "queue_test.h"

static inline struct request_id signal_id(uint8_t n)
{
    return (struct request_id){.bytes = {0xaa, n}};
}

static inline struct op_signal steer_op(uint8_t n)
{
    return (struct op_signal){.request = signal_id(n),
                              .kind = SIGNAL_STEER,
                              .ttl_ms = SIGNAL_TTL_DEFAULT_MS,
                              .payload = bytes_str("{\"speed\":2}")};
}

static inline struct op_signal interrupt_op(uint8_t n, int64_t grace, enum signal_then then)
{
    return (struct op_signal){.request = signal_id(n),
                              .kind = SIGNAL_INTERRUPT,
                              .then = then,
                              .grace_ms = grace,
                              .reason = bytes_str("too slow")};
}

// To one message, unless it has a target.
static inline void put_signal(struct rig *r, struct op_signal op, uint64_t seq)
{
    struct buf b, seqs;
    buf_init(&b, (size_t)1 << 20);
    buf_init(&seqs, 64);
    if (op.target == SIGNAL_TO_MESSAGES) {
        buf_put_u64(&seqs, seq);
        op.count = 1;
        op.seqs = buf_bytes(&seqs);
    }
    signal_encode(&b, &op);
    buf_done(&seqs);
    rig_op(r, OP_SIGNAL, &b);
}

// The same in an entry of its own. Returns the first row.
static inline struct signal_row rig_signal(struct rig *r, struct op_signal op, uint64_t seq)
{
    put_signal(r, op, seq);
    rig_commit(r);
    machine_check(r->m);
    struct result result;
    struct signal_row row = {0};
    assert_int_equal(result_open(rig_body(r, 0), OP_SIGNAL, &result), ERR_OK);
    if (!signal_row_next(&result, &row)) row.reason = result.reason;
    return row;
}

static inline void put_settle(struct rig *r, const struct grant *g, uint32_t number,
                              enum signal_act act, const char *answer, int64_t arrived_at)
{
    struct buf b, rows;
    buf_init(&b, (size_t)1 << 20);
    buf_init(&rows, (size_t)1 << 20);
    signal_answer_put(&rows,
                      &(struct signal_answer){{g->seq, g->token}, number, act, bytes_str(answer)});
    signal_settle_encode(&b, &(struct op_signal_settle){.queue = r->queue,
                                                        .shard = RIG_SHARD,
                                                        .arrived_at = arrived_at,
                                                        .count = 1,
                                                        .rows = buf_bytes(&rows)});
    buf_done(&rows);
    rig_op(r, OP_SIGNAL_SETTLE, &b);
}

static inline enum reason settle(struct rig *r, const struct grant *g, uint32_t number,
                                 enum signal_act act, const char *answer)
{
    put_settle(r, g, number, act, answer, r->time.lo);
    rig_commit(r);
    machine_check(r->m);
    return rig_reason(r, 0);
}

static inline void put_withdraw(struct rig *r, uint8_t n, uint64_t seq)
{
    struct buf b;
    buf_init(&b, 256);
    signal_withdraw_encode(&b, &(struct op_signal_withdraw){.signal = signal_id(n), .seq = seq});
    rig_op(r, OP_SIGNAL_WITHDRAW, &b);
}

static inline struct signal_row withdraw(struct rig *r, uint8_t n, uint64_t seq)
{
    put_withdraw(r, n, seq);
    rig_commit(r);
    machine_check(r->m);
    struct result result;
    struct signal_row row = {0};
    assert_int_equal(result_open(rig_body(r, 0), OP_SIGNAL_WITHDRAW, &result), ERR_OK);
    if (!signal_row_next(&result, &row)) row.reason = result.reason;
    return row;
}

static inline enum signal_state state_of(const struct rig *r, uint8_t n)
{
    struct signal_view v;
    struct request_id id = signal_id(n);
    assert_true(machine_signal_find(r->m, &id, 0, &v));
    return v.state;
}

static inline size_t waiting(const struct rig *r, const struct grant *g)
{
    struct signal_view v[8];
    size_t len;
    struct lock_ref ref = {g->seq, g->token};
    assert_int_equal(machine_signals(r->m, &ref, 0, v, 8, &len), REASON_NONE);
    assert_int_equal(machine_signals_waiting(r->m, &ref), len);
    return len;
}

// A queue of version 6 with one message that worker w holds.
static inline struct grant rig_running(struct rig *r, const struct queue_config *config)
{
    struct grant g;
    rig_init(r, config);
    rig_send(r, "x", NULL);
    assert_int_equal(rig_claim(r, "w", 1, &g), 1);
    return g;
}
