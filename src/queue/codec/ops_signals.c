// SPDX-License-Identifier: Apache-2.0
// The codecs of signals, of cancel, and of what acks and renewals carry. Each op has one encoding:
// a field that its kind does not use is zero or empty.
#include "queue/codec/ops_signals.h"

#include "base/check.h"
#include "queue/codec/send_codec.h"

#include <string.h>

#define SEQ_BYTES 8

static const char *const kind_names[SIGNAL_KIND_COUNT] = {"steer", "ask", "interrupt"};
static const char *const state_names[SIGNAL_STATE_COUNT] = {
    "pending", "acked", "declined", "expired", "missed", "withdrawn", "applied"};

const char *signal_kind_name(enum signal_kind kind)
{
    CHECK((unsigned)kind < SIGNAL_KIND_COUNT);
    return kind_names[kind];
}

const char *signal_state_name(enum signal_state state)
{
    CHECK((unsigned)state < SIGNAL_STATE_COUNT);
    return state_names[state];
}

static uint64_t seq_at(struct bytes seqs, uint32_t index)
{
    CHECK(((size_t)index + 1) * SEQ_BYTES <= seqs.len);
    struct reader r = reader_of(bytes_of(seqs.data + (size_t)index * SEQ_BYTES, SEQ_BYTES));
    return read_u64(&r);
}

uint64_t signal_seq(const struct op_signal *op, uint32_t index)
{
    CHECK(index < op->count);
    return seq_at(op->seqs, index);
}

uint64_t cancel_seq(const struct op_cancel *op, uint32_t index)
{
    CHECK(index < op->count);
    return seq_at(op->seqs, index);
}

uint64_t lock_seq(const struct op_lock *op, uint32_t index)
{
    CHECK(index < op->count);
    return seq_at(op->seqs, index);
}

static bool target_ok(const struct op_signal *op)
{
    if (op->target == SIGNAL_TO_MESSAGES)
        return op->count > 0 && op->count <= SIGNAL_TARGETS_MAX && op->name.len == 0 &&
               op->after == 0;
    if (op->after > 0 && !request_id_set(&op->signal)) return false;
    size_t most = op->target == SIGNAL_TO_WORKER ? WORKER_NAME_MAX : MESSAGE_WORKFLOW_MAX;
    return op->count == 0 && op->name.len > 0 && op->name.len <= most;
}

static bool signal_ok(const struct op_signal *op)
{
    if (!request_id_set(&op->request) || !target_ok(op)) return false;
    if (op->kind == SIGNAL_INTERRUPT)
        return op->flags == 0 && op->ttl_ms == 0 && op->grace_ms >= 0 &&
               op->grace_ms <= SIGNAL_GRACE_MAX_MS && op->payload.len == 0 &&
               op->reason.len <= FAIL_REASON_MAX;
    return op->flags <= SIGNAL_FLAGS_ALL && op->then == THEN_CANCEL && op->ttl_ms > 0 &&
           op->ttl_ms <= SIGNAL_TTL_MAX_MS && op->grace_ms == 0 && op->reason.len == 0 &&
           op->payload.len <= SIGNAL_PAYLOAD_MAX;
}

void signal_encode(struct buf *out, const struct op_signal *op)
{
    CHECK(signal_ok(op) && op->seqs.len == (size_t)op->count * SEQ_BYTES);
    op_head_put(out, &op->request);
    buf_put_u8(out, (uint8_t)op->kind);
    buf_put_u8(out, op->flags);
    buf_put_u8(out, (uint8_t)op->then);
    buf_put_i64(out, op->ttl_ms);
    buf_put_i64(out, op->grace_ms);
    buf_put_sized(out, op->payload);
    buf_put_sized(out, op->reason);
    buf_put_u8(out, (uint8_t)op->target);
    buf_put_sized(out, op->name);
    buf_put_u32(out, op->count);
    buf_put(out, op->seqs);
    if (op->after == 0) return;
    buf_put_u64(out, op->after);
    buf_put(out, bytes_of(op->signal.bytes, sizeof op->signal.bytes));
}

static uint8_t read_below(struct reader *r, uint8_t count)
{
    uint8_t v = read_u8(r);
    if (v >= count) r->bad = true;
    return r->bad ? 0 : v;
}

// What only a further op of a signal has.
static void read_further(struct reader *r, struct op_signal *out)
{
    out->after = read_u64(r);
    struct bytes id = read_bytes(r, sizeof out->signal.bytes);
    if (id.len > 0) memcpy(out->signal.bytes, id.data, id.len);
    if (out->after == 0) r->bad = true;
}

enum err signal_decode(struct bytes payload, struct op_signal *out)
{
    struct reader r = reader_of(payload);
    *out = (struct op_signal){0};
    op_head_read(&r, &out->request);
    out->kind = (enum signal_kind)read_below(&r, SIGNAL_KIND_COUNT);
    out->flags = read_u8(&r);
    out->then = (enum signal_then)read_below(&r, SIGNAL_THEN_COUNT);
    out->ttl_ms = read_i64(&r);
    out->grace_ms = read_i64(&r);
    out->payload = read_sized(&r, SIGNAL_PAYLOAD_MAX);
    out->reason = read_sized(&r, FAIL_REASON_MAX);
    out->target = (enum signal_target)read_below(&r, SIGNAL_TARGET_COUNT);
    out->name = read_sized(&r, MESSAGE_WORKFLOW_MAX);
    out->count = read_u32(&r);
    if (r.bad || !signal_ok(out)) return ERR_INVALID;
    out->seqs = read_bytes(&r, (size_t)out->count * SEQ_BYTES);
    out->signal = out->request;
    if (r.left > 0) read_further(&r, out);
    return reader_end(&r) && target_ok(out) ? ERR_OK : ERR_INVALID;
}

void signal_answer_put(struct buf *rows, const struct signal_answer *row)
{
    CHECK((unsigned)row->act < SIGNAL_ACT_COUNT);
    CHECK(row->answer.len <= (row->act == SIGNAL_ACK ? SIGNAL_ANSWER_MAX : FAIL_REASON_MAX));
    lock_ref_put(rows, &row->ref);
    buf_put_u32(rows, row->number);
    buf_put_u8(rows, (uint8_t)row->act);
    buf_put_sized(rows, row->answer);
}

bool signal_answer_next(struct reader *rows, struct signal_answer *out)
{
    *out = (struct signal_answer){.ref.seq = read_u64(rows)};
    out->ref.token = read_hash128(rows);
    out->number = read_u32(rows);
    out->act = (enum signal_act)read_below(rows, SIGNAL_ACT_COUNT);
    out->answer = read_sized(rows, out->act == SIGNAL_ACK ? SIGNAL_ANSWER_MAX : FAIL_REASON_MAX);
    return reader_ok(rows);
}

void signal_settle_encode(struct buf *out, const struct op_signal_settle *op)
{
    CHECK(op->count <= REFS_MAX);
    op_head_put(out, &op->request);
    buf_put(out, bytes_of(op->queue.bytes, sizeof op->queue.bytes));
    buf_put_u32(out, op->shard);
    buf_put_i64(out, op->arrived_at);
    buf_put_u32(out, op->count);
    buf_put(out, op->rows);
}

enum err signal_settle_decode(struct bytes payload, struct op_signal_settle *out)
{
    struct reader r = reader_of(payload);
    *out = (struct op_signal_settle){0};
    op_head_read(&r, &out->request);
    struct bytes queue = read_bytes(&r, sizeof out->queue.bytes);
    if (queue.len > 0) memcpy(out->queue.bytes, queue.data, queue.len);
    out->shard = read_u32(&r);
    out->arrived_at = read_i64(&r);
    out->count = read_u32(&r);
    if (!reader_ok(&r) || out->count > REFS_MAX) return ERR_INVALID;
    out->rows = bytes_of(r.at, r.left);
    for (uint32_t i = 0; i < out->count; i++) {
        struct signal_answer row;
        if (!signal_answer_next(&r, &row)) return ERR_INVALID;
    }
    return reader_end(&r) ? ERR_OK : ERR_INVALID;
}

void signal_withdraw_encode(struct buf *out, const struct op_signal_withdraw *op)
{
    CHECK(request_id_set(&op->signal));
    op_head_put(out, &op->request);
    buf_put(out, bytes_of(op->signal.bytes, sizeof op->signal.bytes));
    buf_put_u64(out, op->seq);
}

enum err signal_withdraw_decode(struct bytes payload, struct op_signal_withdraw *out)
{
    struct reader r = reader_of(payload);
    *out = (struct op_signal_withdraw){0};
    op_head_read(&r, &out->request);
    struct bytes id = read_bytes(&r, sizeof out->signal.bytes);
    if (id.len > 0) memcpy(out->signal.bytes, id.data, id.len);
    out->seq = read_u64(&r);
    return reader_end(&r) && request_id_set(&out->signal) ? ERR_OK : ERR_INVALID;
}

void cancel_encode(struct buf *out, const struct op_cancel *op)
{
    CHECK(op->count <= REFS_MAX && op->seqs.len == (size_t)op->count * SEQ_BYTES);
    CHECK(op->reason.len <= FAIL_REASON_MAX);
    op_head_put(out, &op->request);
    buf_put_sized(out, op->reason);
    buf_put_u32(out, op->count);
    buf_put(out, op->seqs);
}

enum err cancel_decode(struct bytes payload, struct op_cancel *out)
{
    struct reader r = reader_of(payload);
    *out = (struct op_cancel){0};
    op_head_read(&r, &out->request);
    out->reason = read_sized(&r, FAIL_REASON_MAX);
    out->count = read_u32(&r);
    if (!reader_ok(&r) || out->count > REFS_MAX) return ERR_INVALID;
    out->seqs = read_bytes(&r, (size_t)out->count * SEQ_BYTES);
    return reader_end(&r) ? ERR_OK : ERR_INVALID;
}

void lock_encode(struct buf *out, const struct op_lock *op)
{
    CHECK(op->count <= CLAIM_COUNT_MAX && op->seqs.len == (size_t)op->count * SEQ_BYTES);
    CHECK(op->worker.len > 0 && op->worker.len <= WORKER_NAME_MAX);
    CHECK(op->lease_ms >= 0 && op->lease_ms <= LEASE_MAX_MS);
    op_head_put(out, &op->request);
    buf_put(out, bytes_of(op->seed, sizeof op->seed));
    buf_put_i64(out, op->lease_ms);
    buf_put_sized(out, op->worker);
    buf_put_u32(out, op->count);
    buf_put(out, op->seqs);
}

enum err lock_decode(struct bytes payload, struct op_lock *out)
{
    struct reader r = reader_of(payload);
    *out = (struct op_lock){0};
    op_head_read(&r, &out->request);
    struct bytes seed = read_bytes(&r, sizeof out->seed);
    if (seed.len > 0) memcpy(out->seed, seed.data, sizeof out->seed);
    out->lease_ms = read_i64(&r);
    out->worker = read_sized(&r, WORKER_NAME_MAX);
    out->count = read_u32(&r);
    bool right = out->lease_ms >= 0 && out->lease_ms <= LEASE_MAX_MS && out->worker.len > 0;
    if (!reader_ok(&r) || !right || out->count > CLAIM_COUNT_MAX) return ERR_INVALID;
    out->seqs = read_bytes(&r, (size_t)out->count * SEQ_BYTES);
    return reader_end(&r) ? ERR_OK : ERR_INVALID;
}

enum { EXTRA_RESULT = 1, EXTRA_PROGRESS = 2, EXTRA_ALL = 3 };

void outcome_extra_put(struct buf *extras, const struct outcome_extra *extra)
{
    CHECK(extra->content_type.len <= MESSAGE_CONTENT_TYPE_MAX);
    CHECK(extra->result.len <= RESULT_CONTENT_MAX && extra->text.len <= PROGRESS_TEXT_MAX);
    CHECK(extra->percent <= PROGRESS_PERCENT_MAX);
    unsigned flags =
        (extra->has_result ? EXTRA_RESULT : 0U) | (extra->has_progress ? EXTRA_PROGRESS : 0U);
    buf_put_u8(extras, (uint8_t)flags);
    if (extra->has_result) {
        buf_put_sized(extras, extra->content_type);
        buf_put_sized(extras, extra->result);
    }
    if (!extra->has_progress) return;
    buf_put_u8(extras, extra->percent);
    buf_put_sized(extras, extra->text);
}

bool outcome_extra_next(struct reader *extras, struct outcome_extra *out)
{
    uint8_t flags = read_u8(extras);
    if (flags > EXTRA_ALL) extras->bad = true;
    *out = (struct outcome_extra){.has_result = flags & EXTRA_RESULT,
                                  .has_progress = (flags & EXTRA_PROGRESS) != 0};
    if (out->has_result) {
        out->content_type = read_sized(extras, MESSAGE_CONTENT_TYPE_MAX);
        out->result = read_sized(extras, RESULT_CONTENT_MAX);
    }
    if (out->has_progress) {
        out->percent = read_u8(extras);
        out->text = read_sized(extras, PROGRESS_TEXT_MAX);
        if (out->percent > PROGRESS_PERCENT_MAX) extras->bad = true;
    }
    return reader_ok(extras);
}

struct outcome_extra outcome_extra_of(const struct op_outcome *op, uint32_t index)
{
    struct outcome_extra extra = {0};
    CHECK(index < op->count);
    if (op->extras.len == 0) return extra;
    struct reader r = reader_of(op->extras);
    for (uint32_t i = 0; i <= index; i++)
        CHECK(outcome_extra_next(&r, &extra)); // outcome_decode has read them
    return extra;
}
