// SPDX-License-Identifier: Apache-2.0
// The ops of signals: send, settle, withdraw. The fold decides each at its slot, from the state of
// the message and from the token of the lock.
#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

#include <stdlib.h>
#include <string.h>

static bool same_id(const struct request_id *a, const struct request_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

// The signals with this id to messages with a higher number than `after`, by message: pending ones
// and those that have ended. The caller frees them.
static struct signal_row *known_rows(const struct machine *m, const struct request_id *id,
                                     uint64_t after, size_t *len)
{
    const struct signals *t = &m->signals;
    size_t cap = machine_signals_room(m, id) + 1;
    struct signal_row *rows = memory_new(cap * sizeof *rows);
    *len = 0;
    for (uint32_t i = signal_same_first(m, id); i; i = t->rows[i].same_next) {
        const struct signal *s = &t->rows[i];
        uint64_t seq = signal_seq_of(m, s);
        if (same_id(&s->id, id) && seq > after && !s->settled)
            rows[(*len)++] = (struct signal_row){
                .seq = seq, .number = s->number, .state = SIGNAL_PENDING, .until = s->due};
    }
    uint64_t n;
    for (bool more = ended_same_first(m, id, &n); more; more = ended_same_next(m, &n)) {
        const struct ended_signal *e = ended_at(m, n);
        if (same_id(&e->id, id) && e->seq > after)
            rows[(*len)++] = (struct signal_row){
                .seq = e->seq, .number = e->number, .state = (enum signal_state)e->state};
    }
    CHECK(*len < cap);
    rows_sort(rows, *len, sizeof *rows);
    return rows;
}

// Drops the first ones, which an earlier op took.
static size_t targets_after(uint64_t *seqs, size_t len, uint64_t after)
{
    size_t first = 0;
    while (first < len && seqs[first] <= after)
        first++;
    CHECK(first == len || seqs[first] > after);
    memmove(seqs, seqs + first, (len - first) * sizeof *seqs);
    return len - first;
}

// The messages that the op names, as a list that the caller frees. A long list is cut.
static uint64_t *targets_of(const struct machine *m, const struct op_signal *op, uint32_t *count)
{
    size_t cap = op->count, len = 0;
    if (op->target == SIGNAL_TO_WORKFLOW) cap = m->workflows.members_len;
    uint32_t w = op->target == SIGNAL_TO_WORKER ? worker_find(m, op->name) : 0;
    if (w) cap = m->workers[w].open;
    uint64_t *seqs = memory_new((cap + 1) * sizeof *seqs);
    for (uint32_t i = 0; i < op->count; i++)
        seqs[len++] = op_seq(op->seqs, i);
    if (op->target == SIGNAL_TO_WORKFLOW) len = workflow_unfinished(m, op->name, seqs);
    for (uint32_t h = 1; w && h < m->msgs_len; h++) {
        const struct msg *msg = msg_at(m, h);
        bool held = msg->seq && msg->state == STATE_LOCKED && lock_of(m, msg)->worker == w;
        if (held && !lock_of(m, msg)->ticket) seqs[len++] = msg->seq;
    }
    CHECK(len <= cap);
    if (op->target != SIGNAL_TO_MESSAGES) rows_sort(seqs, len, sizeof *seqs);
    if (op->after > 0) len = targets_after(seqs, len, op->after);
    *count = len < SIGNAL_TARGETS_MAX ? (uint32_t)len : SIGNAL_TARGETS_MAX;
    return seqs;
}

static struct signal signal_of(const struct machine *m, const struct op_signal *op)
{
    bool interrupt = op->kind == SIGNAL_INTERRUPT;
    CHECK(m->slot <= SIGNAL_SLOT_MAX);
    return (struct signal){.id = op->signal,
                           .slot = m->slot & SIGNAL_SLOT_MAX,
                           .sent_at = SIGNAL_TIME(m->now),
                           .due = m->deadline_base + (interrupt ? op->grace_ms : op->ttl_ms),
                           .op = m->op_index,
                           .kind = op->kind & 15,
                           .then = op->then & 15,
                           .once = (op->flags & SIGNAL_ONCE) != 0};
}

// An interrupt that needs no holder: the message, or its lock, ends in this op.
static void interrupt_now(struct machine *m, const struct op_signal *op, uint64_t seq, bool running)
{
    struct signal s = signal_of(m, op);
    struct event *e = emit_signal(m, EVENT_SIGNAL_SENT, &s, seq, SIGNAL_APPLIED);
    if (e) emit_failure_text(m, e, op->reason);
    (void)emit_signal(m, EVENT_SIGNAL_ENDED, &s, seq, SIGNAL_APPLIED);
    ended_add(m, &(struct ended_signal){.id = s.id,
                                        .seq = seq,
                                        .sent_at = SIGNAL_TIME(m->now),
                                        .at = m->now,
                                        .kind = SIGNAL_INTERRUPT,
                                        .state = SIGNAL_APPLIED});
    uint32_t h = ready_record(m, seq);
    CHECK(h);
    if (!running) {
        message_cancel(m, h, op->reason);
        return;
    }
    struct op_place why = {op->reason.len > 0 ? m->slot : 0, m->op_index, 0};
    (void)lock_interrupt(m, h,
                         &(struct interrupt){.then = op->then, .why = why, .text = op->reason});
}

static bool is_full(const struct machine *m, uint64_t seq, bool waits)
{
    const struct signals *t = &m->signals;
    uint32_t known = signal_box_find(m, seq);
    CHECK(t->pending + t->ended_ring.len <= SIGNALS_KNOWN_MAX);
    if (t->pending + t->ended_ring.len == SIGNALS_KNOWN_MAX) return true;
    if (waits && t->used >= SIGNALS_OF_SHARD_MAX) return true;
    if (!waits || !known) return false;
    const struct signal_box *box = &t->boxes[known];
    return box->rows >= SIGNALS_OF_MESSAGE_MAX || box->number == UINT32_MAX; // of the last one
}

static struct signal_row accept(struct machine *m, const struct op_signal *op, uint64_t seq,
                                uint32_t h, bool running)
{
    struct signals *t = &m->signals;
    uint32_t b = signal_box_need(m, seq);
    struct signal_box *box = &t->boxes[b];
    m->digest -= signal_box_hash(box);
    box->number++;
    m->digest += signal_box_hash(box);
    struct signal signal = signal_of(m, op);
    signal.number = box->number;
    uint32_t s = signal_add(m, b, &signal);
    struct event *e = emit_signal(m, EVENT_SIGNAL_SENT, &signal, seq, SIGNAL_PENDING);
    if (e) emit_failure_text(m, e, op->reason);
    if (running) signal_deliver(m, s);
    if (op->kind == SIGNAL_INTERRUPT) interrupt_limit_lock(m, h);
    CHECK(!running || msg_at(m, h)->state == STATE_LOCKED);
    return (struct signal_row){.seq = seq, .number = signal.number, .until = signal.due};
}

static struct signal_row signal_one(struct machine *m, const struct op_signal *op, uint64_t seq)
{
    struct signal_row row = {.seq = seq};
    uint32_t h = seq > 0 && seq < m->seq_next ? map_find(&m->by_seq, seq) : MAP_NONE;
    const struct msg *msg = h == MAP_NONE ? NULL : msg_at(m, h);
    bool plain = !msg && backlog_find(m, seq);
    bool dead = msg && (msg->state == STATE_DEAD || msg->state == STATE_OUTBOUND);
    bool running = msg && msg->state == STATE_LOCKED && !lock_of(m, msg)->ticket;
    bool interrupts = op->kind == SIGNAL_INTERRUPT;
    if (seq == 0 || seq >= m->seq_next)
        row.reason = REASON_UNKNOWN_MESSAGE;
    else if (dead || (!msg && !plain))
        row.reason = REASON_TERMINAL;
    else if (!running && (interrupts ? op->then != THEN_CANCEL : op->flags & SIGNAL_REFUSE_IDLE))
        row.reason = REASON_NOT_RUNNING;
    bool waits = !interrupts || (running && op->grace_ms > 0);
    if (row.reason == REASON_NONE && is_full(m, seq, waits)) row.reason = REASON_SIGNALS_FULL;
    if (row.reason != REASON_NONE) return row;
    if (waits) return accept(m, op, seq, h, running);
    interrupt_now(m, op, seq, running);
    row.state = SIGNAL_APPLIED;
    return row;
}

// A message that is named twice has one signal.
static void signal_each(struct machine *m, const struct op_signal *op, const uint64_t *seqs,
                        uint32_t count, struct signal_row *rows)
{
    struct map seen;
    map_init(&seen);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t before = map_find(&seen, seqs[i]);
        rows[i] = before == MAP_NONE ? signal_one(m, op, seqs[i]) : rows[before];
        if (before == MAP_NONE) map_add(&seen, seqs[i], i);
    }
    CHECK(seen.len <= count);
    map_done(&seen);
}

static enum reason answer_rows(struct machine *m, const struct signal_row *rows, size_t len)
{
    CHECK(len > 0 && len <= UINT32_MAX);
    result_begin(&m->result, rows[0].reason);
    buf_put_u32(&m->result, (uint32_t)len);
    bool applied = false;
    for (size_t i = 0; i < len; i++) {
        applied = applied || rows[i].reason == REASON_NONE;
        signal_row_put(&m->result, &rows[i]);
    }
    if (applied) m->result.data[0] = REASON_NONE;
    return (enum reason)m->result.data[0];
}

enum reason apply_signal(struct machine *m, struct bytes payload)
{
    struct op_signal op;
    if (signal_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    size_t known;
    struct signal_row *rows = known_rows(m, &op.signal, op.after, &known);
    if (known > 0) {
        size_t len = known < SIGNAL_TARGETS_MAX ? known : SIGNAL_TARGETS_MAX;
        enum reason reason = answer_rows(m, rows, len);
        memory_free(rows);
        return reason;
    }
    memory_free(rows);
    uint32_t count;
    uint64_t *seqs = targets_of(m, &op, &count);
    rows = memory_new((count + (size_t)1) * sizeof *rows);
    signal_each(m, &op, seqs, count, rows);
    enum reason none =
        op.target == SIGNAL_TO_WORKER ? REASON_UNKNOWN_WORKER : REASON_UNKNOWN_WORKFLOW;
    enum reason reason = count > 0 ? answer_rows(m, rows, count) : none;
    memory_free(rows);
    memory_free(seqs);
    CHECK(machine_is_sound(m));
    return reason;
}

// The first pending signal of the box that has this number, if it may end now.
static enum reason settle_find(const struct machine *m, uint32_t b, uint32_t number, uint32_t *row)
{
    const struct signals *t = &m->signals;
    bool earlier = false;
    if (!b || number == 0 || number > t->boxes[b].number) return REASON_UNKNOWN_SIGNAL;
    for (uint32_t s = t->boxes[b].first; s; s = t->rows[s].next) {
        if (t->rows[s].settled) continue;
        CHECK(t->rows[s].box == b);
        *row = s;
        if (t->rows[s].number == number)
            return earlier && !MUTANT(SIGNAL_ORDER_OFF) ? REASON_SIGNAL_ORDER : REASON_NONE;
        earlier = true;
    }
    return REASON_SIGNAL_SETTLED;
}

static enum reason settle_one(struct machine *m, const struct op_signal_settle *op,
                              const struct signal_answer *row, uint32_t index)
{
    uint32_t h, s = 0;
    if (!is_here(m, &op->queue, op->shard)) return REASON_FOREIGN_QUEUE;
    enum reason reason = lock_check(m, &row->ref, &h);
    if (reason == REASON_TOKEN_MISMATCH && MUTANT(SIGNAL_TOKEN_OFF)) reason = REASON_NONE;
    if (reason != REASON_NONE) return reason;
    CHECK(msg_at(m, h)->state == STATE_LOCKED);
    if (interrupt_is_over(m, row->ref.seq, op->arrived_at)) return REASON_LOCK_EXPIRED;
    if (lock_of(m, msg_at(m, h))->ticket) return REASON_UNKNOWN_SIGNAL; // nothing was delivered
    reason = settle_find(m, signal_box_find(m, row->ref.seq), row->number, &s);
    if (reason != REASON_NONE) return reason;
    struct op_place answer = {row->answer.len > 0 ? m->slot : 0, m->op_index, index};
    if (answer.slot == 0) answer = (struct op_place){0};
    bool ack = row->act == SIGNAL_ACK;
    signal_settle(m, s, ack ? SIGNAL_ACKED : SIGNAL_DECLINED, answer,
                  ack ? BYTES_EMPTY : row->answer);
    return REASON_NONE;
}

enum reason apply_settle(struct machine *m, struct bytes payload)
{
    struct op_signal_settle op;
    if (signal_settle_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    struct result_rows result = result_rows(m, op.count);
    struct reader rows = reader_of(op.rows);
    for (uint32_t i = 0; i < op.count; i++) {
        struct signal_answer row;
        CHECK(signal_answer_next(&rows, &row));
        enum reason reason = settle_one(m, &op, &row, i);
        result_rows_note(&result, reason, reason == REASON_NONE);
        worker_reason_put(&m->result, result.at, reason);
    }
    return result_rows_end(m, &result);
}

static uint32_t pending_row(const struct machine *m, const struct request_id *id, uint64_t seq)
{
    const struct signals *t = &m->signals;
    uint32_t b = signal_box_find(m, seq);
    for (uint32_t s = b ? t->boxes[b].first : 0; s; s = t->rows[s].next)
        if (!t->rows[s].settled && same_id(&t->rows[s].id, id)) return s;
    return 0;
}

static void withdraw_one(struct machine *m, const struct request_id *id, struct signal_row *row)
{
    uint32_t s = pending_row(m, id, row->seq);
    CHECK(s && m->signals.rows[s].number == row->number);
    bool interrupt = m->signals.rows[s].kind == SIGNAL_INTERRUPT;
    signal_end(m, s, SIGNAL_WITHDRAWN);
    if (interrupt) interrupt_lifted(m, map_find(&m->by_seq, row->seq));
    row->state = SIGNAL_WITHDRAWN;
    row->until = 0;
}

// Only the rows of one message, if the op names one. If there are too many for an answer, only
// pending ones, if there are any: a further op takes the others.
static size_t rows_to_withdraw(struct signal_row *rows, size_t len, uint64_t seq)
{
    size_t kept = 0, pending = 0;
    for (size_t i = 0; i < len; i++)
        if (seq == 0 || rows[i].seq == seq) rows[kept++] = rows[i];
    for (size_t i = 0; i < kept; i++)
        pending += rows[i].state == SIGNAL_PENDING;
    CHECK(pending <= kept);
    if (kept <= SIGNAL_TARGETS_MAX) return kept;
    len = kept;
    kept = 0;
    for (size_t i = 0; i < len; i++)
        if (pending == 0 || rows[i].state == SIGNAL_PENDING) rows[kept++] = rows[i];
    return kept < SIGNAL_TARGETS_MAX ? kept : SIGNAL_TARGETS_MAX;
}

enum reason apply_withdraw(struct machine *m, struct bytes payload)
{
    struct op_signal_withdraw op;
    if (signal_withdraw_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    size_t len;
    struct signal_row *rows = known_rows(m, &op.signal, 0, &len);
    len = rows_to_withdraw(rows, len, op.seq);
    for (size_t i = 0; i < len; i++) {
        if (rows[i].state == SIGNAL_PENDING)
            withdraw_one(m, &op.signal, &rows[i]);
        else
            rows[i].reason = REASON_SIGNAL_SETTLED;
    }
    enum reason reason = len > 0 ? answer_rows(m, rows, len) : REASON_UNKNOWN_SIGNAL;
    memory_free(rows);
    CHECK(machine_is_sound(m));
    return reason;
}
