// SPDX-License-Identifier: Apache-2.0
// The plain model: the version of the rules, the cost ledger, and the publisher's cursor. It
// remembers every entry since the shard is published.
#include "model_parts.h"

#include "base/check.h"

void model_enter_published(struct model *m, uint64_t bytes)
{
    if (!m->published) return;
    CHECK(m->entries_len < MODEL_ROWS_MAX);
    m->entries[m->entries_len++] =
        (struct model_entry){m->slot, m->now, bytes, m->event_count == m->cursor_sequence};
}

enum reason model_published(struct model *m, struct bytes payload)
{
    struct op_published op;
    if (published_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->epoch == 0) return REASON_NOT_OWNER;
    if (op.slot >= m->slot || op.sequence > m->event_count) return REASON_OUT_OF_RANGE;
    bool forward = op.slot >= m->cursor_slot && op.sequence >= m->cursor_sequence;
    bool back = op.slot <= m->cursor_slot && op.sequence <= m->cursor_sequence;
    if (!forward && !back) return REASON_OUT_OF_RANGE;
    if (forward) {
        m->cursor_slot = op.slot;
        m->cursor_sequence = op.sequence;
    }
    bool before = m->published;
    m->published = (op.flags & PUBLISHED_STOP) == 0;
    if (!m->published || !before) m->entries_len = 0;
    if (m->published && !before)
        m->entries[m->entries_len++] = (struct model_entry){m->slot, m->now, 0, false};
    buf_put_u8(&m->body, 0);
    buf_put_u64(&m->body, m->cursor_sequence);
    return REASON_NONE;
}

// The first entry that may have an unpublished event, as far as the model remembers entries.
static size_t first_unpublished(const struct model *m)
{
    size_t at = m->entries_len;
    while (at > 0 && m->entries[at - 1].slot > m->cursor_slot && !m->entries[at - 1].all_before)
        at--;
    return at > 0 && m->entries[at - 1].slot > m->cursor_slot ? at - 1 : at;
}

// The bounds between which the machine's answer must be.
void model_unpublished(const struct model *m, uint64_t *events, int64_t *age, uint64_t *bytes)
{
    *events = m->event_count - m->cursor_sequence;
    *age = 0;
    *bytes = 0;
    size_t first = first_unpublished(m);
    if (*events == 0 || first == m->entries_len) return;
    *age = m->now - m->entries[first].at;
    for (size_t i = first; i < m->entries_len; i++)
        *bytes += m->entries[i].bytes;
}

// Returns whether a floor at this slot loses no event, or only such that publish=skip gives up.
bool model_floor_ok(const struct model *m, uint64_t slot)
{
    if (!m->published || m->config.publish == PUBLISH_OFF) return true;
    if (m->event_count == m->cursor_sequence) return slot <= m->slot;
    if (slot <= m->cursor_slot) return true;
    if (m->config.publish == PUBLISH_HOLD && !m->deleted) return false;
    uint64_t after = 0; // bytes of the entries that stay
    int64_t youngest = TIME_UNKNOWN;
    for (size_t i = 0; i < m->entries_len; i++) {
        if (m->entries[i].slot > slot) after += m->entries[i].bytes;
        if (m->entries[i].slot <= slot) youngest = m->entries[i].at;
    }
    bool old = youngest == TIME_UNKNOWN || m->now - youngest >= m->config.publish_keep_ms;
    return old || after >= m->config.publish_keep_bytes;
}

enum reason model_spent(struct model *m, struct bytes payload)
{
    struct op_spent op;
    if (spent_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    cost_add(&m->spent, &op.cost);
    return REASON_NONE;
}

enum reason model_raise(struct model *m, struct bytes payload)
{
    struct op_raise op;
    if (raise_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (op.to > RULES_KNOWN + 1) return REASON_UNKNOWN_OP;
    if (m->deleted) return REASON_DELETED;
    if (op.to > m->rules + 1) return REASON_RULES_SKIPPED;
    if (op.to == m->rules + 1) {
        m->rules++;
        say(m, EVENT_QUEUE_UPGRADED, 0)->count = m->rules;
    }
    buf_put_u8(&m->body, 0);
    buf_put_u64(&m->body, m->rules);
    return REASON_NONE;
}

enum reason model_outbox(struct model *m, struct bytes payload)
{
    struct op_outbox op;
    if (outbox_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    uint64_t gone = 0;
    for (;;) {
        uint64_t first = 0;
        for (uint64_t seq = 1; seq <= m->sent; seq++)
            if (at(m, seq)->state == STATE_OUTBOUND && at(m, seq)->death <= op.upto &&
                (!first || at(m, seq)->death < at(m, first)->death))
                first = seq;
        if (!first) break;
        say(m, EVENT_MESSAGE_MOVED, first);
        at(m, first)->state = STATE_MOVED;
        gone++;
    }
    buf_put_u8(&m->body, 0);
    buf_put_u64(&m->body, gone);
    return REASON_NONE;
}
