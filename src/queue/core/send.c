// SPDX-License-Identifier: Apache-2.0
// Messages enter the queue. Each message of a batch is checked alone: it is accepted, or its row
// has a reason.
#include "base/check.h"
#include "base/mutant.h"
#include "queue/tables/registry.h"

uint64_t messages_held(const struct machine *m)
{
    return m->counts[STATE_READY] + m->counts[STATE_DELAYED] + m->counts[STATE_LOCKED] +
           m->counts[STATE_DEAD];
}

// Computes when the message becomes ready; 0: at once.
static enum reason due_of(const struct machine *m, const struct message *msg, int64_t *due)
{
    *due = 0;
    if (msg->when == WHEN_NOW) return REASON_NONE;
    if (is_strict(m)) return REASON_STRICT_DELAY;
    int64_t at = msg->when == WHEN_DELAY ? m->deadline_base + msg->when_ms : msg->when_ms;
    if (at > m->deadline_base + DELAY_MAX_MS) return REASON_OUT_OF_RANGE;
    if (at > m->now) *due = at;
    return REASON_NONE;
}

static enum reason admit(const struct machine *m, const struct message *msg, int64_t *due)
{
    const struct queue_config *c = &m->config;
    if (message_body_len(msg) > c->message_bytes_max) return REASON_TOO_LARGE;
    if (body_is_stale(m, &msg->reference) && !MUTANT(BODY_STALE_OFF)) return REASON_BODY_STALE;
    if (is_strict(m) && msg->priority > 0) return REASON_STRICT_PRIORITY;
    enum reason refused = workflow_admit(m, msg);
    if (refused != REASON_NONE) return refused;
    return due_of(m, msg, due);
}

static void hold_reference(struct machine *m, uint64_t seq, const struct body_reference *r)
{
    struct body_name name;
    CHECK(seq < m->seq_next);
    if (r->name.len == 0) return;
    CHECK(body_name_parse(r->name, &name)); // the decoder has checked it
    body_hold(m, seq, name.random[0]);
}

// The name of the scope in a strict queue.
static struct bytes scope_name(const struct machine *m, const struct message *msg)
{
    return m->config.workflow_order && msg->group.len == 0 ? msg->workflow : msg->group;
}

uint64_t message_enter(struct machine *m, const struct message *msg, int64_t due, uint32_t skip,
                       bool in_workflow)
{
    uint64_t seq = m->seq_next++;
    CHECK(due == 0 || due > m->now);
    hold_reference(m, seq, &msg->reference);
    // In a strict queue, messages behind one with a requirement wait in their scope.
    bool grouped = is_strict(m) && (scope_name(m, msg).len > 0 || m->required > 0);
    enum message_state state = due > 0 ? STATE_DELAYED : STATE_READY;
    uint32_t h = 0;
    count_move(m, STATE_NONE, state, 1);
    if (!grouped && due == 0 && msg->priority == 0 && msg->requires.len == 0) {
        backlog_add(m, seq, skip);
    } else {
        backlog_break(m);
        CLEANUP(msg_edit_end)
        struct msg_edit edit =
            msg_new(m, seq, (struct place){m->slot, skip}, group_hash(scope_name(m, msg)));
        h = edit.h;
        struct msg *record = msg_at(m, h);
        record->priority = msg->priority;
        record->state = (uint8_t)state;
        if (msg->requires.len > 0)
            requirement_ref(m, record->lane = requirement_find(m, msg->requires));
        if (state == STATE_DELAYED) {
            heap_push(&m->timers, due, seq, h);
        } else {
            if (record->scope) scope_enter(m, h);
            ready_offer(m, h);
        }
    }
    if (in_workflow) workflow_join(m, seq, msg->workflow, msg->workflow_last);
    struct event *e = emit(m, EVENT_MESSAGE_ENQUEUED, h);
    if (!e) return seq;
    e->seq = seq;
    e->place = (struct place){m->slot, skip};
    if (!h) emit_key(m, e, seq, 0);
    return seq;
}

static enum reason send_one(struct machine *m, const struct message *msg, uint32_t skip,
                            uint64_t *seq)
{
    int64_t due;
    *seq = 0;
    enum reason reason = admit(m, msg, &due);
    if (reason != REASON_NONE) return reason;
    bool named = msg->dedup.len > 0 && m->config.dedup_window_ms > 0;
    struct hash128 key = {0};
    if (named) {
        key = hash128_of(msg->dedup);
        if (dedup_find(m, key, seq)) {
            m->duplicates++;
            return REASON_DUPLICATE;
        }
    }
    if (messages_held(m) >= m->config.capacity) return REASON_FULL;
    if (named && m->dedup.ring.len >= m->config.capacity) return REASON_DEDUP_FULL;
    if (msg->requires.len > 0 && requirement_need(m, msg->requires) == 0)
        return REASON_REQUIRES_FULL;
    bool in_workflow = msg->workflow.len > 0;
    if (in_workflow && !workflow_has_room(m, msg->workflow)) return REASON_WORKFLOWS_FULL;
    *seq = message_enter(m, msg, due, skip, in_workflow);
    if (named)
        dedup_add(m,
                  &(struct dedup_row){.key = key,
                                      .seq = *seq,
                                      .expires_at = m->deadline_base + m->config.dedup_window_ms});
    return REASON_NONE;
}

enum reason apply_send(struct machine *m, struct bytes payload)
{
    struct op_send op;
    if (send_open(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted && !MUTANT(DELETED_SENDS)) {
        m->ordinal += op.count;
        backlog_break(m);
        return REASON_DELETED;
    }
    struct result_rows result = result_rows(m, op.count);
    for (uint32_t i = 0; i < op.count; i++) {
        struct message msg;
        uint64_t seq;
        send_next(&op, &msg);
        enum reason reason = send_one(m, &msg, m->ordinal++, &seq);
        if (reason != REASON_NONE) backlog_break(m);
        result_rows_note(&result, reason, reason_err(reason) == ERR_OK);
        send_row_put(&m->result, result.at, reason, seq);
    }
    CHECK(op.count <= m->ordinal);
    return result_rows_end(m, &result);
}
