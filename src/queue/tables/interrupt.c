// SPDX-License-Identifier: Apache-2.0
// Interrupts. An interrupt limits the deadline of the lock that it is bound to. Until then the
// holder may still ack its message. If the lock ends in another way, the message goes where the
// interrupt says: cancelled, ready again, or dead.
#include "base/check.h"
#include "queue/tables/registry.h"

const struct signal *interrupt_of(const struct machine *m, uint64_t seq)
{
    const struct signals *t = &m->signals;
    const struct signal *newest = NULL;
    uint32_t b = signal_box_find(m, seq);
    for (uint32_t s = b ? t->boxes[b].first : 0; s; s = t->rows[s].next)
        if (t->rows[s].kind == SIGNAL_INTERRUPT) newest = &t->rows[s];
    CHECK(!newest || signal_seq_of(m, newest) == seq);
    return newest;
}

int64_t interrupt_limit(const struct machine *m, uint64_t seq)
{
    const struct signals *t = &m->signals;
    int64_t limit = TIME_NEVER;
    uint32_t b = signal_box_find(m, seq);
    for (uint32_t s = b ? t->boxes[b].first : 0; s; s = t->rows[s].next)
        if (t->rows[s].kind == SIGNAL_INTERRUPT && t->rows[s].due < limit) limit = t->rows[s].due;
    CHECK(limit == TIME_NEVER || b);
    return limit;
}

// The clock of the entry's writer may be behind, so the fold's time is not enough: a worker must
// not finish a message of which a reader knows that its grace is over.
bool interrupt_is_over(const struct machine *m, uint64_t seq, int64_t arrived_at)
{
    CHECK(seq > 0);
    return m->signals.used > 0 && arrived_at >= interrupt_limit(m, seq);
}

enum message_state interrupt_state(const struct machine *m, enum signal_then then)
{
    CHECK((unsigned)then < SIGNAL_THEN_COUNT);
    if (then == THEN_CANCEL) return STATE_CANCELLED;
    if (then == THEN_RETRY) return STATE_READY;
    return m->config.failure_mode == FAILURE_RETRY ? STATE_DEAD : STATE_OUTBOUND;
}

void interrupt_limit_lock(struct machine *m, uint32_t h)
{
    const struct msg *msg = msg_at(m, h);
    int64_t limit = interrupt_limit(m, msg->seq);
    CHECK(msg->state == STATE_LOCKED && limit != TIME_NEVER);
    // If an earlier one is over, the lock's deadline has passed, too. An op of this entry holds it.
    if (limit < lock_of(m, msg)->deadline && !MUTANT(INTERRUPT_ENDLESS)) lock_extend(m, h, limit);
}

// The lock gets its usual time again, unless another interrupt limits it.
void interrupt_lifted(struct machine *m, uint32_t h)
{
    const struct msg *msg = msg_at(m, h);
    int64_t deadline = m->deadline_base + m->config.visibility_timeout_ms;
    int64_t limit = interrupt_limit(m, msg->seq);
    CHECK(msg->state == STATE_LOCKED);
    if (limit < deadline) deadline = limit;
    bool later = deadline > m->now && deadline > lock_of(m, msg)->deadline;
    if (later) lock_extend(m, h, deadline);
}

// The event of a message whose lock an interrupt ended. The lock's end clears the worker.
static void emit_end(struct machine *m, uint32_t h, const struct interrupt *in,
                     enum outcome_status status)
{
    struct event *e = emit(m, EVENT_MESSAGE_OUTCOME, h);
    CHECK(msg_at(m, h)->seq > 0);
    if (!e) return;
    e->status = status;
    e->until = 0;
    e->reason = in->expired ? REASON_LOCK_EXPIRED : REASON_NONE;
    emit_worker(m, e, lock_of(m, msg_at(m, h))->worker);
    emit_failure_text(m, e, in->text);
}

enum outcome_status lock_interrupt(struct machine *m, uint32_t h, const struct interrupt *in)
{
    const struct msg *msg = msg_at(m, h);
    enum message_state state = interrupt_state(m, in->then);
    CHECK(msg->state == STATE_LOCKED && !lock_of(m, msg)->ticket);
    enum outcome_status status = state == STATE_CANCELLED ? OUTCOME_CANCELLED
                                 : state == STATE_READY   ? OUTCOME_RETRYING
                                                          : OUTCOME_DEAD_LETTERED;
    emit_end(m, h, in, status);
    struct bytes worker = worker_name(m, lock_of(m, msg)->worker);
    if (state == STATE_CANCELLED)
        finished_note(m, msg->seq, 1, msg->deliveries, worker, FINISHED_CANCELLED);
    if (state == STATE_OUTBOUND)
        finished_note(m, msg->seq, 1, msg->deliveries, worker, FINISHED_DEAD_LETTERED);
    if (state == STATE_CANCELLED || state == STATE_OUTBOUND)
        retained_note(m, h, &(struct retained_source){.place = in->why});
    CLEANUP(msg_edit_end) struct msg_edit edit = msg_edit(m, h);
    lock_stop(m, h, state, in->expired, in->why);
    return status;
}

bool interrupt_take(struct machine *m, uint32_t h, bool expired, struct bytes text,
                    struct outcome_row *row)
{
    const struct signal *s = interrupt_of(m, msg_at(m, h)->seq);
    if (!s || lock_of(m, msg_at(m, h))->ticket) return false;
    CHECK(s->kind == SIGNAL_INTERRUPT);
    row->status = lock_interrupt(m, h,
                                 &(struct interrupt){.then = (enum signal_then)s->then,
                                                     .why = {s->slot, s->op, 0},
                                                     .text = text,
                                                     .expired = expired});
    row->until = 0;
    return true;
}
