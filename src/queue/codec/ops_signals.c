// SPDX-License-Identifier: Apache-2.0
// The ops of signals, cancel, lock, and what acks and renewals carry. Each op has one encoding: a
// field that its kind does not use is zero or empty.
#include "queue/codec/ops_signals.h"

#include "base/check.h"
#include "queue/codec/send_codec.h"

#include <string.h>

#define LAYOUT_OF struct op_signal
static const struct layout_field op_signal_fields[] = {
    OP_HEAD,
    ENUM(kind, SIGNAL_KIND_COUNT),
    U8(flags),
    ENUM(then, SIGNAL_THEN_COUNT),
    I64(ttl_ms),
    I64(grace_ms),
    BYTES(payload, .max = SIGNAL_PAYLOAD_MAX),
    BYTES(reason, .max = FAIL_REASON_MAX),
    ENUM(target, SIGNAL_TARGET_COUNT),
    BYTES(name, .max = MESSAGE_WORKFLOW_MAX),
    ROWS(seqs, count, seq_layout),
};
const struct layout op_signal_layout = LAYOUT(op_signal_fields);

// What only a further op of a signal has.
static const struct layout_field op_signal_further_fields[] = {U64(after, .min = 1), FIXED(signal)};
const struct layout op_signal_further_layout = LAYOUT(op_signal_further_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct signal_answer
static const struct layout_field signal_answer_fields[] = {
    PART(ref, lock_ref_layout),
    U32(number),
    ENUM(act, SIGNAL_ACT_COUNT),
    BYTES(answer, .max = SIGNAL_ANSWER_MAX),
};
const struct layout signal_answer_layout = LAYOUT(signal_answer_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct op_signal_settle
static const struct layout_field op_signal_settle_fields[] = {
    OP_HEAD,
    FIXED(queue),
    U32(shard),
    I64(arrived_at),
    ROWS(rows, count, signal_answer_layout, .max = REFS_MAX),
};
const struct layout op_signal_settle_layout = LAYOUT(op_signal_settle_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct op_signal_withdraw
static const struct layout_field op_signal_withdraw_fields[] = {OP_HEAD, FIXED(signal), U64(seq)};
const struct layout op_signal_withdraw_layout = LAYOUT(op_signal_withdraw_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct op_cancel
static const struct layout_field op_cancel_fields[] = {
    OP_HEAD,
    BYTES(reason, .max = FAIL_REASON_MAX),
    ROWS(seqs, count, seq_layout, .max = REFS_MAX),
};
const struct layout op_cancel_layout = LAYOUT(op_cancel_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct op_lock
static const struct layout_field op_lock_fields[] = {
    OP_HEAD,
    FIXED(seed),
    I64(lease_ms, .max = LEASE_MAX_MS),
    BYTES(worker, .min = 1, .max = WORKER_NAME_MAX),
    ROWS(seqs, count, seq_layout, .max = CLAIM_COUNT_MAX),
};
const struct layout op_lock_layout = LAYOUT(op_lock_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct outcome_extra
static const struct layout_field outcome_extra_fields[] = {
    U8(has, .max = EXTRA_ALL),
    BYTES(content_type, .max = MESSAGE_CONTENT_TYPE_MAX, WHEN(has, EXTRA_RESULT)),
    BYTES(result, .max = RESULT_CONTENT_MAX, WHEN(has, EXTRA_RESULT)),
    U8(percent, .max = PROGRESS_PERCENT_MAX, WHEN(has, EXTRA_PROGRESS)),
    BYTES(text, .max = PROGRESS_TEXT_MAX, WHEN(has, EXTRA_PROGRESS)),
};
const struct layout outcome_extra_layout = LAYOUT(outcome_extra_fields);
#undef LAYOUT_OF

OP_CODEC(cancel)
OP_CODEC(lock)

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
    CHECK(signal_ok(op));
    layout_put(&op_signal_layout, out, op);
    if (op->after > 0) layout_put(&op_signal_further_layout, out, op);
}

enum err signal_decode(struct bytes payload, struct op_signal *out)
{
    struct reader r = reader_of(payload);
    *out = (struct op_signal){0};
    if (!layout_read(&op_signal_layout, &r, out) || !signal_ok(out)) return ERR_INVALID;
    out->signal = out->request;
    if (r.left > 0) (void)layout_read(&op_signal_further_layout, &r, out);
    return reader_end(&r) && target_ok(out) ? ERR_OK : ERR_INVALID;
}

static bool answer_ok(const struct signal_answer *row)
{
    return row->act == SIGNAL_ACK || row->answer.len <= FAIL_REASON_MAX;
}

void signal_answer_put(struct buf *rows, const struct signal_answer *row)
{
    CHECK(answer_ok(row));
    layout_put(&signal_answer_layout, rows, row);
}

bool signal_answer_next(struct reader *rows, struct signal_answer *out)
{
    if (!layout_next(&signal_answer_layout, rows, out)) return false;
    if (!answer_ok(out)) rows->bad = true;
    return reader_ok(rows);
}

void signal_settle_encode(struct buf *out, const struct op_signal_settle *op)
{
    layout_put(&op_signal_settle_layout, out, op);
}

enum err signal_settle_decode(struct bytes payload, struct op_signal_settle *out)
{
    if (!layout_read_all(&op_signal_settle_layout, payload, out)) return ERR_INVALID;
    struct reader r = reader_of(out->rows);
    struct signal_answer row;
    while (signal_answer_next(&r, &row))
        continue;
    return reader_end(&r) ? ERR_OK : ERR_INVALID;
}

void signal_withdraw_encode(struct buf *out, const struct op_signal_withdraw *op)
{
    CHECK(request_id_set(&op->signal));
    layout_put(&op_signal_withdraw_layout, out, op);
}

enum err signal_withdraw_decode(struct bytes payload, struct op_signal_withdraw *out)
{
    bool right = layout_read_all(&op_signal_withdraw_layout, payload, out);
    return right && request_id_set(&out->signal) ? ERR_OK : ERR_INVALID;
}

void outcome_extra_put(struct buf *extras, const struct outcome_extra *extra)
{
    layout_put(&outcome_extra_layout, extras, extra);
}

bool outcome_extra_next(struct reader *extras, struct outcome_extra *out)
{
    return layout_read(&outcome_extra_layout, extras, out);
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
