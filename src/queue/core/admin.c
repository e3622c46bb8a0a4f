// SPDX-License-Identifier: Apache-2.0
// The operations of an operator on a whole queue: configure, pause, purge, redrive, delete.
#include "base/check.h"
#include "base/memory.h"
#include "queue/tables/registry.h"

#include <stdlib.h>
#include <string.h>

static enum reason config_allowed(const struct machine *m, const struct op_configure *op)
{
    const struct queue_config *now = &m->config, *next = &op->config;
    if (config_check(next, NULL, NULL) != ERR_OK) return REASON_CONFIG_INVALID;
    if (op->expected != 0 && op->expected != m->config_version) return REASON_CONFIG_CHANGED;
    if (next->shards != now->shards) return REASON_SHARDS_FIXED;
    // Records of a strict queue know their group, other records do not. So no record may be left,
    // not even an outbound one.
    if (next->ordering_guarantee != now->ordering_guarantee &&
        (messages_held(m) > 0 || m->counts[STATE_OUTBOUND] > 0))
        return REASON_NOT_EMPTY;
    if (next->workflow_order != now->workflow_order &&
        (messages_held(m) > 0 || m->counts[STATE_OUTBOUND] > 0))
        return REASON_NOT_EMPTY;
    // A letter that may have reached the old destination must not also reach a new one.
    if (m->counts[STATE_OUTBOUND] > 0 &&
        strcmp(next->dead_letter_queue, now->dead_letter_queue) != 0)
        return REASON_OUTBOX_BUSY;
    return REASON_NONE;
}

enum reason apply_configure(struct machine *m, struct bytes payload)
{
    struct op_configure op;
    CHECK(machine_is_sound(m));
    if (configure_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    // A program that does not know the setting cannot read the op.
    if (op.config.rules > m->rules) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    enum reason reason = config_allowed(m, &op);
    if (reason != REASON_NONE) return reason;
    bool reorder = op.config.ordering_mode != m->config.ordering_mode;
    bool redirect = op.config.dispatch != m->config.dispatch;
    if (redirect) bonds_forget(m);
    m->config = op.config;
    m->config_version++;
    if (reorder) ready_rebuild(m);
    if (redirect) idle_rebuild(m);
    CHECK(m->config.rules <= m->rules);
    struct event *e = emit(m, EVENT_QUEUE_CONFIGURED, 0);
    if (e) e->count = m->config_version;
    result_begin(&m->result, REASON_NONE);
    buf_put_u64(&m->result, m->config_version);
    return REASON_NONE;
}

enum reason apply_pause(struct machine *m, struct bytes payload, bool pause)
{
    struct op_plain op;
    CHECK(machine_is_sound(m));
    if (plain_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    if (m->paused != pause) (void)emit(m, pause ? EVENT_QUEUE_PAUSED : EVENT_QUEUE_RESUMED, 0);
    m->paused = pause;
    result_begin(&m->result, REASON_NONE);
    return REASON_NONE;
}

static void dead_list_open(struct machine *m, uint32_t h)
{
    CHECK(msg_at(m, h)->state == STATE_DEAD && msg_at(m, h)->lock);
    dead_list_unlink(m, h);
    const struct lock *dead_entry = lock_of(m, msg_at(m, h));
    if (dead_entry->reason_slot) msg_unmark(m, dead_entry->reason_slot);
}

static void delay_drop(struct machine *m, uint32_t h)
{
    CHECK(msg_at(m, h)->state == STATE_DELAYED);
    heap_remove(&m->timers, h);
    open_leave(m, h);
    if (!(msg_at(m, h)->flags & MSG_WAITING)) return;
    CHECK(m->waiting > 0);
    m->waiting--;
}

void record_drop(struct machine *m, uint32_t h, enum message_state to)
{
    enum message_state state = (enum message_state)msg_at(m, h)->state;
    CLEANUP(msg_edit_end) struct msg_edit edit = msg_edit(m, h);
    switch (state) {
    case STATE_READY:
        ready_withdraw(m, h);
        break;
    case STATE_DELAYED:
        delay_drop(m, h);
        break;
    case STATE_LOCKED:
        lock_abandon(m, h);
        break;
    default:
        dead_list_open(m, h);
        break;
    }
    msg_move(m, h, to);
    if (state != STATE_DEAD) scope_leave(m, h);
    msg_free(m, h);
}

struct purged_row {
    uint64_t seq;
    uint32_t count;
    uint32_t attempts;
};

// Rows about finished messages have an order, so messages are noted by number.
static void note_purged(struct machine *m, unsigned states)
{
    size_t ranges = states & (1u << STATE_READY) ? m->backlog.ring.len : 0, len = 0;
    struct purged_row *rows = memory_new((ranges + m->msgs_used + 1) * sizeof *rows);
    for (size_t i = 0; i < ranges; i++)
        rows[len++] = (struct purged_row){backlog_at(m, i)->seq, backlog_at(m, i)->count, 0};
    for (uint32_t h = 1; h < m->msgs_len; h++) {
        const struct msg *msg = msg_at(m, h);
        if (msg->seq != 0 && (states & (1u << msg->state)))
            rows[len++] = (struct purged_row){msg->seq, 1, msg->deliveries};
    }
    CHECK(len <= ranges + m->msgs_used);
    rows_sort(rows, len, sizeof *rows);
    for (size_t i = 0; i < len; i++)
        finished_note(m, rows[i].seq, rows[i].count, rows[i].attempts, BYTES_EMPTY,
                      FINISHED_PURGED);
    memory_free(rows);
}

// Purges in the order of the rows. That order is not visible afterwards.
static uint64_t purge(struct machine *m, unsigned states)
{
    uint64_t before = m->counts[STATE_PURGED];
    CHECK(!(states & (1u << STATE_OUTBOUND))); // letters may have arrived already
    signals_purge(m, states);
    if (states & (1u << STATE_READY)) {
        uint64_t plain = 0;
        for (size_t i = 0; i < m->backlog.ring.len; i++)
            plain += backlog_at(m, i)->count;
        CHECK(plain <= m->counts[STATE_READY]);
        count_move(m, STATE_READY, STATE_PURGED, plain);
        bodies_release_backlog(m);
        workflows_purge_backlog(m);
        backlog_clear(m);
        changes_forget(m);
        if (is_strict(m)) scope_refresh(m, SCOPE_UNGROUPED);
    }
    for (uint32_t h = 1; h < m->msgs_len; h++) {
        const struct msg *msg = msg_at(m, h);
        if (msg->seq != 0 && (states & (1u << msg->state))) record_drop(m, h, STATE_PURGED);
    }
    CHECK(m->counts[STATE_PURGED] >= before);
    CHECK(machine_is_sound(m));
    return m->counts[STATE_PURGED] - before;
}

enum reason apply_purge(struct machine *m, struct bytes payload)
{
    struct op_purge op;
    if (purge_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    unsigned states = op.dead ? 1u << STATE_DEAD : 1u << STATE_READY | 1u << STATE_DELAYED;
    note_purged(m, states);
    uint64_t purged = purge(m, states);
    struct event *e = emit(m, EVENT_QUEUE_PURGED, 0);
    if (e) e->count = purged;
    result_begin(&m->result, REASON_NONE);
    buf_put_u64(&m->result, purged);
    return REASON_NONE;
}

enum reason apply_delete(struct machine *m, struct bytes payload)
{
    struct op_plain op;
    if (plain_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    if (m->counts[STATE_OUTBOUND] > 0) return REASON_OUTBOX_BUSY;
    uint64_t purged =
        purge(m, 1u << STATE_READY | 1u << STATE_DELAYED | 1u << STATE_LOCKED | 1u << STATE_DEAD);
    const struct heap_row *top;
    while ((top = heap_top(&m->registrations)))
        worker_unregister(m, top->ref);
    dedup_clear(m);
    finished_drop_all(m);
    workflows_drop_all(m);
    ended_drop_all(m);
    bonds_forget(m);
    CHECK(messages_held(m) == 0 && m->msgs_used == 0);
    CHECK(m->timers.len == 0 && m->tickets == 0 && m->waiting == 0);
    CHECK(m->bodies.len == 0 && m->failures.messages == 0 && m->marks.len == 0);
    CHECK(!m->dead_first && !m->outbox_first && m->ready.len == 0);
    m->deleted = true;
    struct event *e = emit(m, EVENT_QUEUE_DELETED, 0);
    if (e) e->count = purged;
    result_begin(&m->result, REASON_NONE);
    buf_put_u64(&m->result, purged);
    return REASON_NONE;
}

// The dead message ends here. A new message with a new number takes over its bytes.
static void redrive_one(struct machine *m, uint32_t h)
{
    struct msg *msg = msg_at(m, h);
    uint64_t from = msg->seq;
    CHECK(msg->state == STATE_DEAD && from < m->seq_next);
    finished_note(m, from, 1, msg->deliveries, BYTES_EMPTY, FINISHED_REDRIVEN);
    CLEANUP(msg_edit_end) struct msg_edit edit = msg_edit(m, h);
    dead_list_open(m, h);
    lock_drop(m, h);
    msg_move(m, h, STATE_REDRIVEN);
    map_remove(&m->by_seq, from, h);
    backlog_break(m);
    msg->seq = m->seq_next++;
    CHECK(msg->seq > from); // the new message comes last
    body_rename(m, from, msg->seq);
    workflow_redrive(m, from, msg->seq);
    failures_drop(m, from);
    msg->retries = msg->deliveries = 0;
    msg->flags = 0;
    map_add(&m->by_seq, msg->seq, h);
    count_move(m, STATE_NONE, STATE_READY, 1);
    msg->state = STATE_READY;
    if (msg->scope) scope_enter(m, h);
    ready_offer(m, h);
    struct event *e = emit(m, EVENT_MESSAGE_ENQUEUED, h);
    if (e) e->from = from;
}

enum reason apply_redrive(struct machine *m, struct bytes payload)
{
    struct op_redrive op;
    if (redrive_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    uint64_t first = m->seq_next;
    CHECK(machine_is_sound(m));
    for (uint32_t i = 0; i < op.count; i++) {
        uint32_t h = map_find(&m->by_seq, op_seq(op.seqs, i));
        if (h != MAP_NONE && msg_at(m, h)->state == STATE_DEAD) redrive_one(m, h);
    }
    for (uint32_t i = 0; op.count == 0 && i < op.max && m->dead_first; i++)
        redrive_one(m, m->dead_first);
    uint64_t moved = m->seq_next - first;
    CHECK(moved <= (op.count > 0 ? op.count : op.max));
    enum reason reason = op.count > 0 && moved == 0 ? REASON_NOT_DEAD : REASON_NONE;
    result_begin(&m->result, reason);
    buf_put_u64(&m->result, first);
    buf_put_u32(&m->result, (uint32_t)moved);
    return reason;
}
