// SPDX-License-Identifier: Apache-2.0
// The cancel of chosen messages. A message that no worker holds ends as CANCELLED, also one with a
// ticket that is not taken. A dead message is purged. A message that a worker holds is refused: an
// interrupt stops it.
#include "base/check.h"
#include "queue/core/state.h"

static void emit_outcome(struct machine *m, uint32_t h, enum outcome_status status,
                         struct bytes text)
{
    struct event *e = emit(m, EVENT_MESSAGE_OUTCOME, h);
    CHECK(msg_at(m, h)->seq > 0);
    if (!e) return;
    e->status = status;
    e->until = 0;
    emit_failure_text(m, e, text);
}

void message_cancel(struct machine *m, uint32_t h, struct bytes text)
{
    const struct msg *msg = msg_at(m, h);
    CHECK(msg->state != STATE_LOCKED || lock_of(m, msg)->ticket || MUTANT(CANCEL_LOCKED));
    emit_outcome(m, h, OUTCOME_CANCELLED, text);
    finished_note(m, msg->seq, 1, msg->deliveries, BYTES_EMPTY, FINISHED_CANCELLED);
    struct op_place why = {text.len > 0 ? m->slot : 0, m->op_index, 0};
    retained_note(m, h, &(struct retained_source){.place = why});
    record_drop(m, h, STATE_CANCELLED);
}

static void purge_dead(struct machine *m, uint32_t h, struct bytes text)
{
    const struct msg *msg = msg_at(m, h);
    CHECK(msg->state == STATE_DEAD);
    emit_outcome(m, h, OUTCOME_PURGED, text);
    finished_note(m, msg->seq, 1, msg->deliveries, BYTES_EMPTY, FINISHED_PURGED);
    record_drop(m, h, STATE_PURGED);
}

static struct outcome_row cancel_one(struct machine *m, uint64_t seq, struct bytes text)
{
    if (seq == 0 || seq >= m->seq_next)
        return (struct outcome_row){.reason = REASON_UNKNOWN_MESSAGE};
    uint32_t h = ready_record(m, seq);
    if (!h || msg_at(m, h)->state == STATE_OUTBOUND)
        return (struct outcome_row){.reason = REASON_TERMINAL};
    const struct msg *msg = msg_at(m, h);
    CHECK(msg->seq == seq);
    if (msg->state == STATE_LOCKED && !lock_of(m, msg)->ticket && !MUTANT(CANCEL_LOCKED))
        return (struct outcome_row){.reason = REASON_LOCKED};
    if (msg->state == STATE_DEAD) {
        purge_dead(m, h, text);
        return (struct outcome_row){.status = OUTCOME_PURGED};
    }
    message_cancel(m, h, text);
    return (struct outcome_row){.status = OUTCOME_CANCELLED};
}

enum reason apply_cancel(struct machine *m, struct bytes payload)
{
    struct op_cancel op;
    if (cancel_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    struct result_rows result = result_rows(m, op.count);
    for (uint32_t i = 0; i < op.count; i++) {
        struct outcome_row row = cancel_one(m, op_seq(op.seqs, i), op.reason);
        result_rows_note(&result, row.reason, row.reason == REASON_NONE);
        outcome_row_put(&m->result, result.at, &row);
    }
    CHECK(machine_is_sound(m));
    return result_rows_end(m, &result);
}
