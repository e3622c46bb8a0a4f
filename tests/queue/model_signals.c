// SPDX-License-Identifier: Apache-2.0
// The plain model: the ops of version 6 of the rules.
#include "model_parts.h"

#include "base/check.h"

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
}

static void model_cancel(struct model *m, uint64_t seq, struct bytes text)
{
    say_outcome(m, seq, OUTCOME_CANCELLED, text);
    finish(m, seq, STATE_CANCELLED, FINISHED_CANCELLED);
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
        struct outcome_row row = cancel_one(m, cancel_seq(&op, i), op.reason);
        any = any || row.reason == REASON_NONE;
        if (first == REASON_NONE) first = row.reason;
        outcome_row_put(&m->body, rows_at, &row);
    }
    return any ? REASON_NONE : first;
}

enum reason model_signals(struct model *m, const struct op *op)
{
    if (m->rules < 6) return REASON_UNKNOWN_OP;
    switch (op->kind) {
    case OP_CANCEL:
        return do_cancel(m, op->payload);
    default:
        return REASON_UNKNOWN_OP;
    }
}
