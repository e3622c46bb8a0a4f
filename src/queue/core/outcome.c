// SPDX-License-Identifier: Apache-2.0
// The requests of workers about their locks: renew, ack, fail, release. Each names a message and a
// token. A request that arrived before the deadline counts even if its entry is later.
#include "base/array.h"
#include "base/check.h"
#include "base/mutant.h"
#include "queue/core/state.h"

#include <string.h>

bool is_here(const struct machine *m, const struct queue_id *queue, uint32_t shard)
{
    return (shard == m->shard || MUTANT(SHARD_OFF)) &&
           memcmp(queue->bytes, m->queue.bytes, 16) == 0;
}

static bool is_ours(const struct machine *m, const struct op_outcome *op)
{
    return is_here(m, &op->queue, op->shard);
}

// Before time advances, locks that an op of the entry reached in time leave the timers. They return
// before the ops.

static void hold(struct machine *m, uint32_t h)
{
    CHECK(msg_at(m, h)->state == STATE_LOCKED);
    *ARRAY_ADD(m->held, m->held_len, m->held_cap) = h;
    heap_remove(&m->timers, h);
}

static void hold_ref(struct machine *m, const struct lock_ref *ref, int64_t arrived_at)
{
    uint32_t h;
    if (lock_check(m, ref, &h) != REASON_NONE) return;
    int64_t deadline = lock_of(m, msg_at(m, h))->deadline;
    CHECK(msg_at(m, h)->state == STATE_LOCKED);
    if (deadline > m->now || arrived_at >= deadline) return;
    if (heap_has(&m->timers, h)) hold(m, h);
}

static bool extras_ok(uint16_t kind, const struct op_outcome *op);

static void hold_op(struct machine *m, uint16_t kind, struct bytes payload)
{
    struct op_outcome op;
    if (outcome_decode(payload, &op) != ERR_OK || !is_ours(m, &op)) return;
    if (!extras_ok(kind, &op)) return;
    for (uint32_t i = 0; i < op.count; i++) {
        struct lock_ref ref = outcome_ref(&op, i);
        hold_ref(m, &ref, op.arrived_at);
    }
}

static void hold_settle(struct machine *m, struct bytes payload)
{
    struct op_signal_settle op;
    if (signal_settle_decode(payload, &op) != ERR_OK) return;
    if (!is_here(m, &op.queue, op.shard)) return;
    struct reader rows = reader_of(op.rows);
    struct signal_answer row;
    for (uint32_t i = 0; i < op.count; i++) {
        CHECK(signal_answer_next(&rows, &row));
        hold_ref(m, &row.ref, op.arrived_at);
    }
}

void outcomes_hold(struct machine *m, const struct machine_entry *e)
{
    m->held_len = 0;
    const struct heap_row *top = heap_top(&m->timers);
    if (!top || top->key > m->now) return;
    for (size_t i = 0; i < e->ops_len; i++)
        if (op_is_outcome(e->ops[i].kind))
            hold_op(m, e->ops[i].kind, e->ops[i].payload);
        else if (e->ops[i].kind == OP_SIGNAL_SETTLE)
            hold_settle(m, e->ops[i].payload);
}

void outcomes_unhold(struct machine *m)
{
    for (size_t i = 0; i < m->held_len; i++) {
        const struct msg *msg = msg_at(m, m->held[i]);
        CHECK(msg->state == STATE_LOCKED && !heap_has(&m->timers, m->held[i]));
        heap_push(&m->timers, lock_of(m, msg)->deadline, msg->seq, m->held[i]);
    }
}

// What a ref of the op carries, and which ref it is.
struct ref_extra {
    uint32_t index;
    struct outcome_extra extra;
};

static void renew(struct machine *m, const struct op_outcome *op, uint32_t h,
                  const struct ref_extra *carried, struct outcome_row *row)
{
    bool taken = lock_of(m, msg_at(m, h))->ticket;
    ticket_use(m, h);
    row->until =
        m->deadline_base + (op->wait_ms > 0 ? op->wait_ms : m->config.visibility_timeout_ms);
    int64_t limit = m->signals.used > 0 ? interrupt_limit(m, msg_at(m, h)->seq) : TIME_NEVER;
    if (limit <= m->now) { // its lock expires at the end of this entry
        row->until = 0;
        row->reason = REASON_LOCK_EXPIRED;
        return;
    }
    if (limit < row->until) row->until = limit;
    CHECK(row->until > m->now);
    lock_extend(m, h, row->until);
    struct event *e = emit(m, EVENT_LOCK_RENEWED, h);
    if (e) emit_worker(m, e, lock_of(m, msg_at(m, h))->worker);
    if (carried->extra.has & EXTRA_PROGRESS)
        progress_note(m, msg_at(m, h)->seq, carried->extra.percent, carried->index);
    if (taken && m->signals.boxes_used > 0) signals_deliver(m, h);
}

static void ack(struct machine *m, uint32_t h, const struct ref_extra *carried,
                struct outcome_row *row)
{
    struct retained_source result = {.result = true};
    if (carried->extra.has & EXTRA_RESULT) {
        result.place = (struct op_place){m->slot, m->op_index, carried->index};
        result.bytes = (uint32_t)carried->extra.result.len;
    }
    ticket_use(m, h);
    CHECK(msg_at(m, h)->deliveries > 0);
    row->status = OUTCOME_PROCESSED;
    struct event *e = emit(m, EVENT_MESSAGE_OUTCOME, h);
    if (e) {
        e->status = row->status;
        e->until = 0;
        emit_worker(m, e, lock_of(m, msg_at(m, h))->worker);
    }
    lock_finish(m, h, &result);
}

static void fail(struct machine *m, const struct op_outcome *op, uint32_t h,
                 struct outcome_row *row)
{
    ticket_use(m, h);
    if (m->signals.used > 0 && interrupt_take(m, h, false, op->reason, row)) return;
    struct event by = {0}; // the lock's end clears the worker
    if (m->events) emit_worker(m, &by, lock_of(m, msg_at(m, h))->worker);
    row->status = lock_fail(m, h, true, &row->until);
    CHECK(msg_at(m, h)->state != STATE_LOCKED);
    struct event *e = emit(m, EVENT_MESSAGE_OUTCOME, h);
    if (!e) return;
    e->status = row->status;
    e->worker_at = by.worker_at;
    e->worker_len = by.worker_len;
    emit_failure_text(m, e, op->reason);
}

static void release(struct machine *m, const struct op_outcome *op, uint32_t h,
                    struct outcome_row *row)
{
    int64_t due = op->wait_ms > 0 ? m->deadline_base + op->wait_ms : 0;
    CHECK(due == 0 || due > m->now);
    if (m->signals.used > 0 && interrupt_take(m, h, false, BYTES_EMPTY, row)) return;
    struct event *e = emit(m, EVENT_MESSAGE_RELEASED, h);
    if (e) {
        e->until = due;
        emit_worker(m, e, lock_of(m, msg_at(m, h))->worker);
    }
    lock_give_back(m, h, due, LOCK_END_RELEASED);
    CHECK(msg_at(m, h)->state == (due > 0 ? STATE_DELAYED : STATE_READY));
    row->until = due;
}

// An event reports a request that came too late. Users watch these events to find duplicates.
static void refuse_late(struct machine *m, uint16_t kind, uint64_t seq, enum reason reason)
{
    CHECK(reason != REASON_NONE);
    struct event *e =
        emit(m, kind == OP_RENEW ? EVENT_LOCK_RENEWAL_REJECTED : EVENT_OUTCOME_REJECTED, 0);
    if (!e) return;
    e->seq = seq;
    e->reason = reason;
    uint32_t h = seq > 0 ? map_find(&m->by_seq, seq) : MAP_NONE;
    if (seq > 0) emit_key(m, e, seq, h == MAP_NONE ? 0 : h);
    // The group of a message that is gone is not known.
    if (seq > 0 && h == MAP_NONE && !backlog_find(m, seq)) e->key = EVENT_KEY_MESSAGE;
}

static struct outcome_row apply_one(struct machine *m, uint16_t kind, const struct op_outcome *op,
                                    const struct ref_extra *carried)
{
    struct lock_ref lock = outcome_ref(op, carried->index), *ref = &lock;
    uint32_t h = 0;
    struct outcome_row row = {.reason =
                                  is_ours(m, op) ? lock_check(m, ref, &h) : REASON_FOREIGN_QUEUE};
    if (MUTANT(REFUSED_FREES) && row.reason == REASON_FOREIGN_QUEUE && !lock_check(m, ref, &h))
        lock_give_back(m, h, 0, LOCK_END_RELEASED);
    if (row.reason == REASON_NONE && m->signals.used > 0 &&
        interrupt_is_over(m, ref->seq, op->arrived_at))
        row.reason = REASON_LOCK_EXPIRED;
    if (row.reason != REASON_NONE) {
        refuse_late(m, kind, ref->seq, row.reason);
        return row;
    }
    CHECK(h && msg_at(m, h)->seq == ref->seq && msg_at(m, h)->state == STATE_LOCKED);
    switch (kind) {
    case OP_RENEW:
        renew(m, op, h, carried, &row);
        break;
    case OP_ACK:
        ack(m, h, carried, &row);
        break;
    case OP_FAIL:
        fail(m, op, h, &row);
        break;
    default:
        release(m, op, h, &row);
        break;
    }
    if (row.reason != REASON_NONE) refuse_late(m, kind, ref->seq, row.reason);
    return row;
}

// An ack may carry results, and a renew progress.
static bool extras_ok(uint16_t kind, const struct op_outcome *op)
{
    if (op->extras.len == 0) return true;
    if (!op_has_extras(kind)) return false;
    struct reader r = reader_of(op->extras);
    struct outcome_extra extra;
    while (r.left > 0 && outcome_extra_next(&r, &extra))
        if (extra.has & (kind == OP_ACK ? EXTRA_PROGRESS : EXTRA_RESULT)) return false;
    CHECK(reader_ok(&r));
    return true;
}

enum reason apply_outcome(struct machine *m, uint16_t kind, struct bytes payload)
{
    struct op_outcome op;
    if (outcome_decode(payload, &op) != ERR_OK || !extras_ok(kind, &op)) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    CHECK(op_is_outcome(kind));
    struct result_rows result = result_rows(m, op.count);
    struct reader extras = reader_of(op.extras);
    struct ref_extra carried = {0}; // once: most ops carry nothing
    for (uint32_t i = 0; i < op.count; i++) {
        carried.index = i;
        if (op.extras.len > 0) CHECK(outcome_extra_next(&extras, &carried.extra));
        struct outcome_row row = apply_one(m, kind, &op, &carried);
        result_rows_note(&result, row.reason, row.reason == REASON_NONE);
        outcome_row_put(&m->result, result.at, &row);
    }
    return result_rows_end(m, &result);
}
