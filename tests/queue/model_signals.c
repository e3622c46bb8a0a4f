// SPDX-License-Identifier: Apache-2.0
// The plain model: the ops of version 6 of the rules.
#include "model_parts.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

static void say_outcome(struct model *m, uint64_t seq, enum outcome_status status,
                        struct bytes text)
{
    struct event *e = say(m, EVENT_MESSAGE_OUTCOME, seq);
    e->status = status;
    e->until = 0;
    e->failure_at = (uint32_t)m->events.text.len;
    e->failure_len = (uint32_t)text.len;
    buf_put(&m->events.text, text);
}

static void finish(struct model *m, uint64_t seq, enum message_state state,
                   enum finished_outcome outcome)
{
    struct model_message *x = at(m, seq);
    model_end(m, x, outcome, "");
    x->state = state;
    x->opened = x->waiting = x->ticket = false;
    model_close(m, seq);
}

static void model_cancel(struct model *m, uint64_t seq, struct bytes text)
{
    say_outcome(m, seq, OUTCOME_CANCELLED, text);
    finish(m, seq, STATE_CANCELLED, FINISHED_CANCELLED);
    if (text.len > 0) model_why(m, seq, m->slot);
}

static struct outcome_row cancel_one(struct model *m, uint64_t seq, struct bytes text)
{
    struct outcome_row row = {0};
    if (seq < 1 || seq > m->sent) {
        row.reason = REASON_UNKNOWN_MESSAGE;
        return row;
    }
    const struct model_message *x = at(m, seq);
    if (x->state == STATE_DEAD) {
        say_outcome(m, seq, OUTCOME_PURGED, text);
        finish(m, seq, STATE_PURGED, FINISHED_PURGED);
        row.status = OUTCOME_PURGED;
    } else if (x->state == STATE_LOCKED && !x->ticket) {
        row.reason = REASON_LOCKED;
    } else if (x->state == STATE_READY || x->state == STATE_DELAYED || x->state == STATE_LOCKED) {
        model_cancel(m, seq, text);
        row.status = OUTCOME_CANCELLED;
    } else {
        row.reason = REASON_TERMINAL;
    }
    return row;
}

static enum reason do_cancel(struct model *m, struct bytes payload)
{
    struct op_cancel op;
    if (cancel_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    enum reason first = REASON_NONE;
    bool any = op.count == 0;
    buf_put_u8(&m->body, 0);
    buf_put_u32(&m->body, op.count);
    size_t rows_at = m->body.len;
    for (uint32_t i = 0; i < op.count; i++) {
        struct outcome_row row = cancel_one(m, op_seq(op.seqs, i), op.reason);
        any = any || row.reason == REASON_NONE;
        if (first == REASON_NONE) first = row.reason;
        outcome_row_put(&m->body, rows_at, &row);
    }
    return any ? REASON_NONE : first;
}

static enum reason do_lock(struct model *m, struct bytes payload)
{
    struct op_lock op;
    if (lock_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    char worker[MODEL_NAME_MAX];
    (void)snprintf(worker, sizeof worker, "%.*s", (int)op.worker.len, (const char *)op.worker.data);
    if (model_refuses(m, worker, op.count)) return REASON_NOT_OWNER;
    int64_t lease = op.lease_ms ? op.lease_ms : m->config.visibility_timeout_ms;
    uint64_t open = model_open(m), fence = m->fence;
    uint32_t count = 0;
    bool overtakes = false;
    buf_put_u8(&m->body, 0);
    buf_put_u32(&m->body, 0);
    for (uint32_t i = 0; i < op.count; i++) {
        uint64_t seq = op_seq(op.seqs, i);
        if (seq < 1 || seq > m->sent || at(m, seq)->state != STATE_READY) continue;
        if (!model_has_its_turn(m, seq)) continue;
        model_grant(m, seq, worker, op.seed, m->from + lease, false);
        if (model_overtakes(m, seq, fence)) overtakes = true;
        model_claimed(m, seq, worker);
        count++;
    }
    if (overtakes) say(m, EVENT_ORDERING_BEST_EFFORT, 0)->count = open;
    buf_set_u32(&m->body, 1, count);
    return REASON_NONE;
}

// Signals: one list of all that were ever accepted.

static bool same_id(const struct request_id *a, const struct request_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static struct event *say_signal(struct model *m, enum event_kind kind, const struct model_signal *s)
{
    struct event *e = say(m, kind, s->seq);
    e->count = s->number;
    e->signal = s->id;
    e->signal_kind = s->kind;
    e->signal_state = s->state;
    return e;
}

static void say_text(struct model *m, struct event *e, struct bytes text)
{
    e->failure_at = (uint32_t)m->events.text.len;
    e->failure_len = (uint32_t)text.len;
    buf_put(&m->events.text, text);
}

static void end(struct model *m, struct model_signal *s, enum signal_state state, struct bytes text)
{
    CHECK(s->state == SIGNAL_PENDING);
    s->state = state;
    s->ended_at = m->now;
    bool acked = state == SIGNAL_ACKED;
    struct event *e = say_signal(m, acked ? EVENT_SIGNAL_ACKED : EVENT_SIGNAL_ENDED, s);
    if (acked || state == SIGNAL_DECLINED) say_worker(m, e, at(m, s->seq)->worker);
    say_text(m, e, text);
}

// The pending signal of a message with the lowest number over `after`, or NULL.
static struct model_signal *next_pending(struct model *m, uint64_t seq, uint32_t after)
{
    struct model_signal *first = NULL;
    for (size_t i = 0; i < m->signals_len; i++) {
        struct model_signal *s = &m->signals[i];
        if (s->seq != seq || s->state != SIGNAL_PENDING || s->number <= after) continue;
        if (!first || s->number < first->number) first = s;
    }
    return first;
}

void model_deliver(struct model *m, uint64_t seq)
{
    for (struct model_signal *s = next_pending(m, seq, 0); s; s = next_pending(m, seq, s->number)) {
        s->deliveries++;
        say_worker(m, say_signal(m, EVENT_SIGNAL_DELIVERED, s), at(m, seq)->worker);
    }
}

void model_lock_over(struct model *m, uint64_t seq)
{
    at(m, seq)->has_progress = false;
    uint32_t after = 0;
    for (struct model_signal *s; (s = next_pending(m, seq, after)); after = s->number)
        if (s->once || s->kind == SIGNAL_INTERRUPT) end(m, s, SIGNAL_MISSED, BYTES_EMPTY);
    for (size_t i = 0; i < m->signals_len; i++)
        if (m->signals[i].seq == seq) m->signals[i].in_force = false;
}

void model_close(struct model *m, uint64_t seq)
{
    for (struct model_signal *s; (s = next_pending(m, seq, 0));)
        end(m, s, SIGNAL_MISSED, BYTES_EMPTY);
    for (size_t i = 0; i < m->signals_len; i++)
        if (m->signals[i].seq == seq) m->signals[i].in_force = false;
}

static bool is_timed(const struct model_signal *s)
{
    return s->state == SIGNAL_PENDING && s->kind != SIGNAL_INTERRUPT;
}

int64_t model_signals_wake_at(const struct model *m)
{
    int64_t first = TIME_NEVER;
    for (size_t i = 0; i < m->signals_len; i++)
        if (is_timed(&m->signals[i]) && m->signals[i].due < first) first = m->signals[i].due;
    return first;
}

static bool is_before(const struct model_signal *a, const struct model_signal *b)
{
    if (a->due != b->due) return a->due < b->due;
    return a->seq != b->seq ? a->seq < b->seq : a->number < b->number;
}

void model_signals_expire(struct model *m)
{
    for (;;) {
        struct model_signal *first = NULL;
        for (size_t i = 0; i < m->signals_len; i++) {
            struct model_signal *s = &m->signals[i];
            if (is_timed(s) && s->due <= m->now && (!first || is_before(s, first))) first = s;
        }
        if (!first) break;
        end(m, first, SIGNAL_EXPIRED, BYTES_EMPTY);
    }
    int64_t keep =
        m->config.retention_ms > REQUEST_KEEP_MS ? m->config.retention_ms : REQUEST_KEEP_MS;
    for (size_t i = 0; i < m->signals_len; i++)
        if (m->signals[i].state != SIGNAL_PENDING && m->signals[i].ended_at + keep <= m->now)
            m->signals[i].dropped = true;
}

int64_t model_limit(const struct model *m, uint64_t seq)
{
    int64_t limit = TIME_NEVER;
    for (size_t i = 0; i < m->signals_len; i++) {
        const struct model_signal *s = &m->signals[i];
        if (s->seq == seq && s->in_force && s->due < limit) limit = s->due;
    }
    return limit;
}

static enum outcome_status interrupt(struct model *m, uint64_t seq, enum signal_then then,
                                     bool expired, struct bytes text, uint64_t why)
{
    struct model_message *x = at(m, seq);
    bool outbound = m->config.failure_mode != FAILURE_RETRY;
    struct event *e = say(m, EVENT_MESSAGE_OUTCOME, seq);
    e->status = then == THEN_CANCEL  ? OUTCOME_CANCELLED
                : then == THEN_RETRY ? OUTCOME_RETRYING
                                     : OUTCOME_DEAD_LETTERED;
    enum outcome_status status = e->status;
    e->until = 0;
    e->reason = expired ? REASON_LOCK_EXPIRED : REASON_NONE;
    say_worker(m, e, x->worker);
    say_text(m, e, text);
    if (then == THEN_CANCEL) model_end(m, x, FINISHED_CANCELLED, x->worker);
    if (then == THEN_DEAD_LETTER && outbound) model_end(m, x, FINISHED_DEAD_LETTERED, x->worker);
    if (then != THEN_RETRY) model_why(m, seq, why);
    model_lock_over(m, seq);
    x->expired = expired;
    x->state = STATE_READY;
    if (then == THEN_RETRY) return status;
    x->opened = false;
    x->state = then == THEN_CANCEL ? STATE_CANCELLED : outbound ? STATE_OUTBOUND : STATE_DEAD;
    if (then == THEN_DEAD_LETTER) x->death = ++m->deaths;
    model_close(m, seq);
    return status;
}

bool model_interrupted(struct model *m, uint64_t seq, bool expired, struct bytes text,
                       enum outcome_status *status)
{
    const struct model_signal *newest = NULL;
    for (size_t i = 0; i < m->signals_len; i++) {
        const struct model_signal *s = &m->signals[i];
        if (s->seq == seq && s->in_force && (!newest || s->number > newest->number)) newest = s;
    }
    if (!newest) return false;
    *status = interrupt(m, seq, newest->then, expired, text, newest->slot);
    return true;
}

static struct model_signal *new_signal(struct model *m, const struct op_signal *op, uint64_t seq)
{
    bool interrupts = op->kind == SIGNAL_INTERRUPT;
    CHECK(m->signals_len < MODEL_ROWS_MAX);
    struct model_signal *s = &m->signals[m->signals_len++];
    *s = (struct model_signal){.id = op->request,
                               .seq = seq,
                               .slot = m->slot,
                               .kind = op->kind,
                               .then = op->then,
                               .once = (op->flags & SIGNAL_ONCE) != 0,
                               .due = m->from + (interrupts ? op->grace_ms : op->ttl_ms)};
    return s;
}

static struct signal_row at_once(struct model *m, const struct op_signal *op, uint64_t seq,
                                 bool running)
{
    struct model_signal *s = new_signal(m, op, seq);
    s->state = SIGNAL_APPLIED;
    s->ended_at = m->now;
    say_text(m, say_signal(m, EVENT_SIGNAL_SENT, s), op->reason);
    say_signal(m, EVENT_SIGNAL_ENDED, s);
    if (running)
        interrupt(m, seq, op->then, false, op->reason, op->reason.len > 0 ? m->slot : 0);
    else
        model_cancel(m, seq, op->reason);
    return (struct signal_row){.seq = seq, .state = SIGNAL_APPLIED};
}

static struct signal_row accepted(struct model *m, const struct op_signal *op, uint64_t seq,
                                  bool running)
{
    struct model_message *x = at(m, seq);
    struct model_signal *s = new_signal(m, op, seq);
    s->number = 1;
    for (size_t i = 0; i + 1 < m->signals_len; i++)
        s->number += m->signals[i].seq == seq && m->signals[i].number > 0;
    s->in_force = op->kind == SIGNAL_INTERRUPT;
    say_text(m, say_signal(m, EVENT_SIGNAL_SENT, s), op->reason);
    if (running) {
        s->deliveries = 1;
        say_worker(m, say_signal(m, EVENT_SIGNAL_DELIVERED, s), x->worker);
    }
    if (s->in_force && s->due < x->deadline) x->deadline = s->due;
    return (struct signal_row){.seq = seq, .number = s->number, .until = s->due};
}

static struct signal_row row_of(const struct model_signal *s)
{
    return (struct signal_row){.seq = s->seq,
                               .number = s->number,
                               .state = s->state,
                               .until = s->state == SIGNAL_PENDING ? s->due : 0};
}

static struct signal_row send_one(struct model *m, const struct op_signal *op, uint64_t seq)
{
    struct signal_row row = {.seq = seq};
    for (size_t i = 0; i < m->signals_len; i++)
        if (m->signals[i].seq == seq && same_id(&m->signals[i].id, &op->request) &&
            !m->signals[i].dropped)
            return row_of(&m->signals[i]);
    row.reason = REASON_UNKNOWN_MESSAGE;
    if (seq < 1 || seq > m->sent) return row;
    const struct model_message *x = at(m, seq);
    bool running = x->state == STATE_LOCKED && !x->ticket;
    row.reason = REASON_TERMINAL;
    if (x->state != STATE_READY && x->state != STATE_DELAYED && x->state != STATE_LOCKED)
        return row;
    row.reason = REASON_NOT_RUNNING;
    bool interrupts = op->kind == SIGNAL_INTERRUPT;
    if (!running && (interrupts ? op->then != THEN_CANCEL : op->flags & SIGNAL_REFUSE_IDLE))
        return row;
    if (interrupts && (!running || op->grace_ms == 0)) return at_once(m, op, seq, running);
    return accepted(m, op, seq, running);
}

static bool is_target(const struct model *m, const struct op_signal *op, uint64_t seq)
{
    const struct model_message *x = &m->messages[seq - 1];
    bool open = x->state == STATE_READY || x->state == STATE_DELAYED || x->state == STATE_LOCKED;
    if (op->target == SIGNAL_TO_WORKFLOW)
        return open && x->row && bytes_equal(op->name, bytes_str(x->workflow)) &&
               !m->workflows[x->row - 1].gone;
    return x->state == STATE_LOCKED && !x->ticket && bytes_equal(op->name, bytes_str(x->worker));
}

static enum reason put_rows(struct model *m, const struct signal_row *rows, uint32_t count)
{
    enum reason reason = rows[0].reason;
    buf_put_u8(&m->body, 0);
    buf_put_u32(&m->body, count);
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].reason == REASON_NONE) reason = REASON_NONE;
        signal_row_put(&m->body, &rows[i]);
    }
    return reason;
}

// What is known of an id, by message. Returns the number of rows.
static uint32_t known(const struct model *m, const struct request_id *id, uint64_t only,
                      struct signal_row *rows)
{
    uint32_t count = 0;
    for (uint64_t seq = 1; seq <= m->sent; seq++)
        for (size_t i = 0; i < m->signals_len; i++) {
            const struct model_signal *s = &m->signals[i];
            if (s->seq != seq || !same_id(&s->id, id) || s->dropped) continue;
            if (only == 0 || only == seq) rows[count++] = row_of(s);
        }
    return count;
}

static enum reason do_signal(struct model *m, struct bytes payload)
{
    struct op_signal op;
    static struct signal_row rows[MODEL_ROWS_MAX];
    if (signal_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    uint32_t count = known(m, &op.request, 0, rows);
    if (count > 0) return put_rows(m, rows, count);
    if (op.target == SIGNAL_TO_MESSAGES) {
        for (uint32_t i = 0; i < op.count; i++)
            rows[count++] = send_one(m, &op, op_seq(op.seqs, i));
        return put_rows(m, rows, count);
    }
    static uint64_t targets[MODEL_ROWS_MAX];
    for (uint64_t seq = 1; seq <= m->sent; seq++)
        if (is_target(m, &op, seq)) targets[count++] = seq;
    for (uint32_t i = 0; i < count; i++)
        rows[i] = send_one(m, &op, targets[i]);
    if (count > 0) return put_rows(m, rows, count);
    return op.target == SIGNAL_TO_WORKER ? REASON_UNKNOWN_WORKER : REASON_UNKNOWN_WORKFLOW;
}

void model_hold_settle(struct model *m, struct bytes payload)
{
    struct op_signal_settle op;
    struct signal_answer row;
    if (signal_settle_decode(payload, &op) != ERR_OK) return;
    if (op.shard != m->shard || memcmp(op.queue.bytes, m->queue.bytes, 16) != 0) return;
    struct reader r = reader_of(op.rows);
    for (uint32_t i = 0; i < op.count; i++) {
        CHECK(signal_answer_next(&r, &row));
        if (model_check(m, &row.ref) != REASON_NONE) continue;
        struct model_message *x = at(m, row.ref.seq);
        if (op.arrived_at < x->deadline) x->held = true;
    }
}

static enum reason settle_one(struct model *m, const struct signal_answer *row, int64_t arrived_at)
{
    enum reason reason = model_check(m, &row->ref);
    if (reason != REASON_NONE) return reason;
    if (arrived_at >= model_limit(m, row->ref.seq)) return REASON_LOCK_EXPIRED;
    uint32_t last = 0;
    for (size_t i = 0; i < m->signals_len; i++)
        if (m->signals[i].seq == row->ref.seq && m->signals[i].number > last)
            last = m->signals[i].number;
    if (at(m, row->ref.seq)->ticket || row->number == 0 || row->number > last)
        return REASON_UNKNOWN_SIGNAL;
    struct model_signal *first = next_pending(m, row->ref.seq, 0);
    bool is_pending = false;
    for (struct model_signal *s = first; s; s = next_pending(m, row->ref.seq, s->number))
        is_pending = is_pending || s->number == row->number;
    if (!is_pending) return REASON_SIGNAL_SETTLED;
    if (first->number != row->number) return REASON_SIGNAL_ORDER;
    bool ack = row->act == SIGNAL_ACK;
    first->answered = row->answer.len > 0;
    end(m, first, ack ? SIGNAL_ACKED : SIGNAL_DECLINED, ack ? BYTES_EMPTY : row->answer);
    return REASON_NONE;
}

static enum reason do_settle(struct model *m, struct bytes payload)
{
    struct op_signal_settle op;
    struct signal_answer row;
    if (signal_settle_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    bool ours = op.shard == m->shard && memcmp(op.queue.bytes, m->queue.bytes, 16) == 0;
    bool any = op.count == 0;
    enum reason first = REASON_NONE;
    buf_put_u8(&m->body, 0);
    buf_put_u32(&m->body, op.count);
    size_t rows_at = m->body.len;
    struct reader r = reader_of(op.rows);
    for (uint32_t i = 0; i < op.count; i++) {
        CHECK(signal_answer_next(&r, &row));
        enum reason reason = ours ? settle_one(m, &row, op.arrived_at) : REASON_FOREIGN_QUEUE;
        any = any || reason == REASON_NONE;
        if (first == REASON_NONE) first = reason;
        worker_reason_put(&m->body, rows_at, reason);
    }
    return any ? REASON_NONE : first;
}

static void lift(struct model *m, uint64_t seq)
{
    struct model_message *x = at(m, seq);
    int64_t until = m->from + m->config.visibility_timeout_ms, limit = model_limit(m, seq);
    if (limit < until) until = limit;
    if (until > x->deadline) x->deadline = until;
}

static enum reason do_withdraw(struct model *m, struct bytes payload)
{
    struct op_signal_withdraw op;
    static struct signal_row rows[MODEL_ROWS_MAX];
    if (signal_withdraw_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    uint32_t count = known(m, &op.signal, op.seq, rows);
    for (uint32_t i = 0; i < count; i++) {
        struct model_signal *s = next_pending(m, rows[i].seq, 0);
        while (s && !same_id(&s->id, &op.signal))
            s = next_pending(m, rows[i].seq, s->number);
        if (!s) {
            rows[i].reason = REASON_SIGNAL_SETTLED;
            continue;
        }
        end(m, s, SIGNAL_WITHDRAWN, BYTES_EMPTY);
        bool interrupts = s->in_force;
        s->in_force = false;
        if (interrupts) lift(m, s->seq);
        rows[i] =
            (struct signal_row){.seq = s->seq, .number = s->number, .state = SIGNAL_WITHDRAWN};
    }
    return count > 0 ? put_rows(m, rows, count) : REASON_UNKNOWN_SIGNAL;
}

enum reason model_signals(struct model *m, const struct op *op)
{
    switch (op->kind) {
    case OP_SIGNAL:
        return do_signal(m, op->payload);
    case OP_SIGNAL_SETTLE:
        return do_settle(m, op->payload);
    case OP_SIGNAL_WITHDRAW:
        return do_withdraw(m, op->payload);
    case OP_CANCEL:
        return do_cancel(m, op->payload);
    case OP_LOCK:
        return do_lock(m, op->payload);
    default:
        return REASON_UNKNOWN_OP;
    }
}
