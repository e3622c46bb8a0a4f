// SPDX-License-Identifier: Apache-2.0
// Signals, by plain rules: each one that was accepted ends once, and its end is told once. It ends
// by the holder of the current token, in order; by its time; by its sender; or with its lock or its
// message. Only the holder gets it. An interrupt ends its lock in time, and what is left of the
// message is what it says. An answer is what the holder said.
#include "check.h"

#include "base/hash.h"
#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

void signal_wrong(struct reference *g, uint64_t seq, uint32_t number, const char *what)
{
    findings_add(&g->world->findings, "signal",
                 "lane %u: slot %" PRIu64 ": signal %u of message %" PRIu64 " %s", g->lane, g->slot,
                 number, seq, what);
}

static bool same_id(const struct request_id *a, const struct request_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static uint64_t seq_of(const struct reference *g, const struct row *row)
{
    return (uint64_t)(row - g->rows) + 1;
}

static bool is_running(const struct row *row)
{
    return row->state == STATE_LOCKED && !row->ticket;
}

struct reference_signal *signal_find(struct reference *g, const struct request_id *id, uint64_t seq)
{
    for (uint32_t i = g->signals_len; i > 0; i--)
        if (g->signals[i - 1].seq == seq && same_id(&g->signals[i - 1].id, id))
            return &g->signals[i - 1];
    return NULL;
}

// The pending signal of a message with the lowest number, or with this one.
static struct reference_signal *pending(struct reference *g, uint64_t seq, uint32_t number)
{
    for (uint32_t i = 0; i < g->signals_len; i++) {
        struct reference_signal *s = &g->signals[i];
        bool wanted = number == 0 || s->number == number;
        if (s->seq == seq && s->state == SIGNAL_PENDING && wanted) return s;
    }
    return NULL;
}

static void end(struct reference *g, struct reference_signal *s, enum signal_state state)
{
    if (s->state != SIGNAL_PENDING) signal_wrong(g, s->seq, s->number, "ends twice");
    s->state = state;
    s->ended_slot = g->slot;
    s->ended_at = g->now;
}

static struct reference_signal *push(struct reference *g, const struct op_signal *op, uint64_t seq,
                                     uint32_t index)
{
    if (g->signals_len == g->signals_cap) {
        g->signals_cap = g->signals_cap ? g->signals_cap * 2 : 64;
        g->signals = memory_resize(g->signals, g->signals_cap * sizeof *g->signals);
    }
    struct reference_signal *s = &g->signals[g->signals_len++];
    bool interrupt = op->kind == SIGNAL_INTERRUPT;
    *s = (struct reference_signal){.id = op->request,
                                   .seq = seq,
                                   .kind = op->kind,
                                   .then = op->then,
                                   .once = (op->flags & SIGNAL_ONCE) != 0,
                                   .due = g->from + (interrupt ? op->grace_ms : op->ttl_ms),
                                   .sent_slot = g->slot,
                                   .op = index,
                                   .reason = hash128_of(op->reason)};
    return s;
}

// Interrupts in force: those of the current lock that were not withdrawn.

static bool is_in_force(const struct reference_signal *s, const struct row *row)
{
    return s->kind == SIGNAL_INTERRUPT && is_running(row) && s->state != SIGNAL_WITHDRAWN &&
           s->state != SIGNAL_APPLIED && hash128_equal(s->token, row->token);
}

const struct reference_signal *signals_interrupt(const struct reference *g, const struct row *row)
{
    const struct reference_signal *newest = NULL;
    for (uint32_t i = 0; i < g->signals_len; i++)
        if (g->signals[i].seq == seq_of(g, row) && is_in_force(&g->signals[i], row))
            newest = &g->signals[i];
    return newest;
}

int64_t signals_limit(const struct reference *g, const struct row *row)
{
    int64_t limit = TIME_NEVER;
    for (uint32_t i = 0; i < g->signals_len; i++) {
        const struct reference_signal *s = &g->signals[i];
        if (s->seq == seq_of(g, row) && is_in_force(s, row) && s->due < limit) limit = s->due;
    }
    return limit;
}

enum outcome_status signals_stop(struct reference *g, struct row *row,
                                 const struct reference_signal *by)
{
    struct reference_signal in = *by;
    enum message_state dead = g->config.failure_mode == FAILURE_RETRY ? STATE_DEAD : STATE_OUTBOUND;
    walk_end_holds(g, row->token);
    if (in.then == THEN_CANCEL) {
        reference_move(g, row, STATE_CANCELLED);
        row->opened = false;
        return OUTCOME_CANCELLED;
    }
    struct route r = {.state = in.then == THEN_RETRY ? STATE_READY : dead, .cause = DEAD_FAILED};
    walk_ended(g, row, &r, BYTES_EMPTY, false);
    if (in.then == THEN_RETRY) return OUTCOME_RETRYING;
    row->reason = in.reason;
    row->reason_slot = in.sent_slot;
    return OUTCOME_DEAD_LETTERED;
}

// Before a message moves: what becomes of its signals, its progress and its token.
void signals_moved(struct reference *g, struct row *row, enum message_state to)
{
    uint64_t seq = seq_of(g, row);
    bool lock_ends = is_running(row) && to != STATE_LOCKED;
    bool message_ends = to != STATE_LOCKED && to != STATE_READY;
    if (row->state == STATE_LOCKED && to != STATE_LOCKED) token_ended(g, row->token);
    if (lock_ends) row->has_progress = false;
    for (uint32_t i = 0; i < g->signals_len; i++) {
        struct reference_signal *s = &g->signals[i];
        if (s->seq != seq || s->state != SIGNAL_PENDING) continue;
        bool missed = lock_ends && (s->once || s->kind == SIGNAL_INTERRUPT);
        if (missed || message_ends) end(g, s, SIGNAL_MISSED);
    }
}

// What the table says about a signal to this message.
static enum reason expected(const struct op_signal *op, const struct row *row)
{
    bool interrupts = op->kind == SIGNAL_INTERRUPT;
    if (!row) return REASON_UNKNOWN_MESSAGE;
    if (row->state != STATE_READY && row->state != STATE_LOCKED) return REASON_TERMINAL;
    if (is_running(row)) return REASON_NONE;
    bool refused = interrupts ? op->then != THEN_CANCEL : (op->flags & SIGNAL_REFUSE_IDLE) != 0;
    return refused ? REASON_NOT_RUNNING : REASON_NONE;
}

static void interrupt_now(struct reference *g, const struct walk_op *o, const struct op_signal *op,
                          struct row *row, size_t *at)
{
    struct reference_signal *s = push(g, op, seq_of(g, row), o->index);
    end(g, s, SIGNAL_APPLIED);
    const struct event *e = walk_next_event(g, o, at, EVENT_MESSAGE_OUTCOME, s->seq);
    enum outcome_status status = OUTCOME_CANCELLED;
    if (is_running(row)) {
        token_interrupted(g, row->token);
        status = signals_stop(g, row, s);
    } else {
        if (row->ticket) walk_end_holds(g, row->token);
        reference_move(g, row, STATE_CANCELLED);
        row->ticket = row->opened = false;
    }
    if (e && e->status != status) signal_wrong(g, seq_of(g, row), 0, "ends its message otherwise");
}

static void accept(struct reference *g, const struct walk_op *o, const struct op_signal *op,
                   struct row *row, const struct signal_row *answer)
{
    struct reference_signal *s = push(g, op, seq_of(g, row), o->index);
    s->number = ++row->signals;
    if (answer->number != s->number) signal_wrong(g, s->seq, answer->number, "has another number");
    if (answer->until != s->due) signal_wrong(g, s->seq, s->number, "has another end");
    if (op->kind != SIGNAL_INTERRUPT) return;
    s->token = row->token;
    if (s->due < row->deadline) row->deadline = s->due;
    token_interrupted(g, row->token);
    walk_end_holds(g, row->token); // its holder may not know that the lock is shorter
}

static void on_one(struct reference *g, const struct walk_op *o, const struct op_signal *op,
                   const struct signal_row *answer, size_t *at)
{
    struct row *row = reference_row(g, answer->seq);
    enum reason reason = expected(op, row);
    if (answer->reason != reason) {
        signal_wrong(g, answer->seq, answer->number, reason_name(answer->reason));
        return;
    }
    if (reason != REASON_NONE) return;
    bool at_once = op->kind == SIGNAL_INTERRUPT && (!is_running(row) || op->grace_ms == 0);
    if (at_once != (answer->state == SIGNAL_APPLIED))
        signal_wrong(g, answer->seq, answer->number, "is applied at the wrong time");
    else if (at_once)
        interrupt_now(g, o, op, row, at);
    else
        accept(g, o, op, row, answer);
}

static bool is_target(const struct op_signal *op, const struct row *row)
{
    if (op->target == SIGNAL_TO_WORKER)
        return is_running(row) && row->holder == (uint32_t)hash64_of(op->name, 0);
    bool open = row->state == STATE_READY || row->state == STATE_LOCKED;
    return open && op->name.len == 2 && row->workflow == (uint32_t)(op->name.data[1] - '0') + 1;
}

static void on_signal(struct reference *g, const struct walk_op *o)
{
    struct op_signal op;
    struct result result;
    if (signal_decode(o->op->payload, &op) || result_open(o->body, OP_SIGNAL, &result)) return;
    uint64_t wanted = op.count, last = 0;
    for (uint64_t i = 0; op.target != SIGNAL_TO_MESSAGES && i < g->rows_len; i++)
        wanted += is_target(&op, &g->rows[i]);
    if (result.count != wanted) signal_wrong(g, 0, 0, "goes to other messages than it names");
    size_t at = 0;
    struct signal_row row;
    uint64_t seen[HELD_LOCKS_MAX] = {0};
    for (uint32_t i = 0; i < result.count && signal_row_next(&result, &row); i++) {
        bool named = op.target == SIGNAL_TO_MESSAGES;
        bool right = named ? row.seq == op_seq(op.seqs, i)
                           : row.seq > last && row.seq <= g->rows_len &&
                                 is_target(&op, &g->rows[row.seq - 1]);
        if (!right) signal_wrong(g, row.seq, row.number, "was not meant");
        last = row.seq;
        bool again = false;
        for (uint32_t k = 0; named && k < i && k < HELD_LOCKS_MAX; k++)
            again = again || seen[k] == row.seq;
        if (i < HELD_LOCKS_MAX) seen[i] = row.seq;
        if (right && !again) on_one(g, o, &op, &row, &at);
    }
}

static enum reason settle_expected(struct reference *g, const struct signal_answer *row,
                                   int64_t arrived_at)
{
    const struct row *to = &g->rows[row->ref.seq - 1];
    if (arrived_at >= signals_limit(g, to)) return REASON_LOCK_EXPIRED;
    if (to->ticket || row->number == 0 || row->number > to->signals) return REASON_UNKNOWN_SIGNAL;
    if (!pending(g, row->ref.seq, row->number)) return REASON_SIGNAL_SETTLED;
    return pending(g, row->ref.seq, 0)->number == row->number ? REASON_NONE : REASON_SIGNAL_ORDER;
}

static void on_settle(struct reference *g, const struct walk_op *o)
{
    struct op_signal_settle op;
    struct result result;
    if (signal_settle_decode(o->op->payload, &op) ||
        result_open(o->body, OP_SIGNAL_SETTLE, &result))
        return;
    struct reader rows = reader_of(op.rows);
    struct signal_answer row;
    enum reason reason;
    for (uint32_t i = 0; i < op.count && signal_answer_next(&rows, &row); i++) {
        if (!worker_reason_next(&result, &reason)) {
            signal_wrong(g, row.ref.seq, row.number, "has no answer");
            return;
        }
        const struct row *to = reference_row(g, row.ref.seq);
        bool current = to && to->state == STATE_LOCKED && hash128_equal(to->token, row.ref.token);
        if (!current && reason == REASON_NONE)
            signal_wrong(g, row.ref.seq, row.number, "ends by a stale token");
        if (current && reason != settle_expected(g, &row, op.arrived_at))
            signal_wrong(g, row.ref.seq, row.number,
                         reason == REASON_NONE ? "ends out of order, or again" : "is refused");
        struct reference_signal *s = pending(g, row.ref.seq, row.number);
        if (reason != REASON_NONE || !s) continue;
        end(g, s, row.act == SIGNAL_ACK ? SIGNAL_ACKED : SIGNAL_DECLINED);
        s->answer = hash128_of(row.answer);
    }
}

static void lift(struct reference *g, struct row *row)
{
    int64_t deadline = g->from + g->config.visibility_timeout_ms, limit = signals_limit(g, row);
    if (limit < deadline) deadline = limit;
    if (deadline > g->now && deadline > row->deadline) row->deadline = deadline;
}

static void on_withdraw(struct reference *g, const struct walk_op *o)
{
    struct op_signal_withdraw op;
    struct result result;
    struct signal_row row;
    if (signal_withdraw_decode(o->op->payload, &op) ||
        result_open(o->body, OP_SIGNAL_WITHDRAW, &result))
        return;
    for (uint32_t i = 0; i < result.count && signal_row_next(&result, &row); i++) {
        struct reference_signal *s = signal_find(g, &op.signal, row.seq);
        bool was_pending = s && s->state == SIGNAL_PENDING;
        if (!s || was_pending != (row.reason == REASON_NONE)) {
            signal_wrong(g, row.seq, row.number, "is withdrawn otherwise");
            continue;
        }
        if (!was_pending) continue;
        end(g, s, SIGNAL_WITHDRAWN);
        if (s->kind == SIGNAL_INTERRUPT) lift(g, &g->rows[row.seq - 1]);
    }
    for (uint32_t i = 0; i < g->signals_len; i++) {
        const struct reference_signal *s = &g->signals[i];
        bool meant = same_id(&s->id, &op.signal) && (op.seq == 0 || op.seq == s->seq);
        if (meant && s->state == SIGNAL_PENDING)
            signal_wrong(g, s->seq, s->number, "was not withdrawn");
    }
}

static void on_cancel(struct reference *g, const struct walk_op *o)
{
    struct op_cancel op;
    struct result result;
    struct outcome_row answer;
    if (cancel_decode(o->op->payload, &op) || result_open(o->body, OP_CANCEL, &result)) return;
    size_t at = 0;
    for (uint32_t i = 0; i < op.count && outcome_row_next(&result, &answer); i++) {
        uint64_t seq = op_seq(op.seqs, i);
        struct row *row = reference_row(g, seq);
        bool dead = row && row->state == STATE_DEAD;
        bool idle =
            row && (row->state == STATE_READY || (row->state == STATE_LOCKED && row->ticket));
        enum reason reason = !row              ? REASON_UNKNOWN_MESSAGE
                             : dead || idle    ? REASON_NONE
                             : is_running(row) ? REASON_LOCKED
                                               : REASON_TERMINAL;
        if (answer.reason != reason) signal_wrong(g, seq, 0, "(a cancel) is answered otherwise");
        if (answer.reason != REASON_NONE || !row) continue;
        if (!walk_next_event(g, o, &at, EVENT_MESSAGE_OUTCOME, seq)) return;
        if (row->state == STATE_LOCKED) walk_end_holds(g, row->token);
        reference_move(g, row, dead ? STATE_PURGED : STATE_CANCELLED);
        row->ticket = row->opened = false;
    }
}

void signals_walk(struct reference *g, const struct walk_op *o)
{
    switch (o->op->kind) {
    case OP_SIGNAL:
        on_signal(g, o);
        break;
    case OP_SIGNAL_SETTLE:
        on_settle(g, o);
        break;
    case OP_SIGNAL_WITHDRAW:
        on_withdraw(g, o);
        break;
    default:
        on_cancel(g, o);
        break;
    }
}

static bool is_here(const struct reference *g, const struct queue_id *queue, uint32_t shard)
{
    const struct lane *l = &g->world->life->lanes[g->lane];
    return shard == l->shard && memcmp(queue->bytes, l->id.bytes, sizeof l->id.bytes) == 0;
}

static bool is_lock_of(const struct reference *g, const struct lock_ref *ref, const struct row *row)
{
    return ref->seq == seq_of(g, row) && hash128_equal(ref->token, row->token);
}

static bool settle_holds(const struct reference *g, const struct op *op, const struct row *row)
{
    struct op_signal_settle settle;
    struct signal_answer answer;
    if (signal_settle_decode(op->payload, &settle)) return false;
    if (!is_here(g, &settle.queue, settle.shard)) return false;
    struct reader rows = reader_of(settle.rows);
    bool held = false;
    for (uint32_t i = 0; i < settle.count && signal_answer_next(&rows, &answer); i++)
        held = held || is_lock_of(g, &answer.ref, row);
    return held && settle.arrived_at < row->deadline;
}

// A repeat of an outcome does nothing, but it holds its lock as the first one did.
static bool repeat_holds(const struct reference *g, const struct op *op, const struct row *row)
{
    struct op_outcome outcome;
    if (outcome_decode(op->payload, &outcome) || !reference_seen(g, &outcome.request)) return false;
    if (!is_here(g, &outcome.queue, outcome.shard)) return false;
    bool held = false;
    for (uint32_t i = 0; i < outcome.count; i++) {
        struct lock_ref ref = outcome_ref(&outcome, i);
        held = held || is_lock_of(g, &ref, row);
    }
    return held && outcome.arrived_at < row->deadline;
}

// Whether this op came before the lock's deadline: then the lock ends after the ops.
bool signals_hold_lock(const struct reference *g, const struct op *op, const struct row *row)
{
    if (op->kind == OP_SIGNAL_SETTLE) return settle_holds(g, op, row);
    return op->kind >= OP_RENEW && op->kind <= OP_RELEASE && repeat_holds(g, op, row);
}

bool signals_event(const struct event *e)
{
    return e->kind == EVENT_SIGNAL_SENT || e->kind == EVENT_SIGNAL_DELIVERED ||
           e->kind == EVENT_SIGNAL_ACKED || e->kind == EVENT_SIGNAL_ENDED;
}

// After the op that it belongs to, or when its time has come.
void signals_told(struct reference *g, const struct event *e)
{
    struct reference_signal *s = signal_find(g, &e->signal, e->seq);
    if (!s) {
        signal_wrong(g, e->seq, (uint32_t)e->count, "was never accepted");
        return;
    }
    if (e->count != s->number || e->signal_kind != s->kind)
        signal_wrong(g, e->seq, s->number, "is told as another one");
    if (e->kind == EVENT_SIGNAL_SENT) {
        if (s->sent++ > 0) signal_wrong(g, e->seq, s->number, "is sent twice");
    } else if (e->kind == EVENT_SIGNAL_DELIVERED) {
        const struct row *row = &g->rows[e->seq - 1];
        if (s->state != SIGNAL_PENDING && s->ended_slot != g->slot)
            signal_wrong(g, e->seq, s->number, "is delivered after its end");
        s->delivered = row->token;
        s->deliveries++;
    } else {
        bool timely = e->signal_state == SIGNAL_EXPIRED && s->kind != SIGNAL_INTERRUPT;
        if (timely && s->state == SIGNAL_PENDING && s->due <= g->now) end(g, s, SIGNAL_EXPIRED);
        if (e->signal_state != s->state) signal_wrong(g, e->seq, s->number, "ends otherwise");
        if (s->told++ > 0) signal_wrong(g, e->seq, s->number, "has a second end");
    }
}

static struct bytes answer_at(const struct reference *g, struct op_place place, struct buf *copy)
{
    struct entry e;
    const char *why = NULL;
    struct op_signal_settle op;
    struct signal_answer row = {0};
    const struct reference_slot *slot = reference_at(g, place.slot);
    if (!slot || entry_decode(slot->bytes, &e, &why)) return BYTES_EMPTY;
    if (place.op < e.ops_len && !signal_settle_decode(e.ops[place.op].payload, &op)) {
        struct reader rows = reader_of(op.rows);
        for (uint32_t i = 0; i <= place.index && i < op.count; i++)
            (void)signal_answer_next(&rows, &row);
        buf_put(copy, row.answer);
    }
    entry_done(&e);
    return buf_bytes(copy);
}

void signals_forget(struct reference *g)
{
    int64_t keep = g->config.retention_ms;
    if (keep < REQUEST_KEEP_MS) keep = REQUEST_KEEP_MS;
    for (uint32_t i = 0; i < g->signals_len; i++) {
        struct reference_signal *s = &g->signals[i];
        if (s->state != SIGNAL_PENDING && s->ended_at + keep <= g->now) s->dropped = true;
    }
}

static void check_one(struct reference *g, const struct reference_signal *s)
{
    struct signal_view v;
    bool known = machine_signal_find(g->machine, &s->id, s->seq, &v);
    if (known == s->dropped) {
        signal_wrong(g, s->seq, s->number, known ? "is kept for too long" : "is forgotten");
        return;
    }
    if (!known) return;
    if (v.state != s->state || v.number != s->number || v.deliveries != s->deliveries)
        signal_wrong(g, s->seq, s->number, "is in another state");
    bool answered = s->state == SIGNAL_ACKED || s->state == SIGNAL_DECLINED;
    if (!answered) return;
    CLEANUP(buf_done) struct buf copy;
    buf_init(&copy, 4096);
    if (!hash128_equal(hash128_of(answer_at(g, v.answer, &copy)), s->answer))
        signal_wrong(g, s->seq, s->number, "has another answer");
}

// After an entry.
void check_signals(struct reference *g)
{
    uint32_t waiting = 0;
    if (!g->world->life->signals || g->deleted_slot != 0) return;
    for (uint32_t i = 0; i < g->signals_len; i++) {
        const struct reference_signal *s = &g->signals[i];
        const struct row *row = &g->rows[s->seq - 1];
        bool due = s->kind != SIGNAL_INTERRUPT && s->due <= g->now;
        if (s->state == SIGNAL_PENDING && due)
            signal_wrong(g, s->seq, s->number, "does not expire");
        if (s->ended_slot == g->slot && s->told != 1)
            signal_wrong(g, s->seq, s->number, "ends and that is not told");
        if (s->sent_slot == g->slot && s->sent != 1)
            signal_wrong(g, s->seq, s->number, "was sent and that is not told");
        if (s->state == SIGNAL_PENDING && is_running(row) &&
            !hash128_equal(s->delivered, row->token))
            signal_wrong(g, s->seq, s->number, "does not come to the holder");
        waiting += s->state == SIGNAL_PENDING;
        if ((i + g->slot) % 8 == 0) check_one(g, s);
    }
    if (machine_signal_count(g->machine) != waiting)
        signal_wrong(g, 0, machine_signal_count(g->machine),
                     "(so many) wait in the machine, others here");
}

// A slot is dropped.
void check_signals_dropped(struct reference *g, uint64_t slot)
{
    for (uint32_t i = 0; i < g->signals_len; i++) {
        const struct reference_signal *s = &g->signals[i];
        if (s->sent_slot == slot && s->state == SIGNAL_PENDING)
            signal_wrong(g, s->seq, s->number, "waits, and its payload is dropped");
    }
    for (uint64_t i = 0; i < g->rows_len; i++) {
        const struct row *row = &g->rows[i];
        if (row->end_kept && row->has_result && row->result_slot == slot)
            signal_wrong(g, i + 1, 0, "(none): the result is dropped");
    }
}
