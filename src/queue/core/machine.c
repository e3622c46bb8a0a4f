// SPDX-License-Identifier: Apache-2.0
// Applies an entry: time advances first, then each op in order. Locks that an op of the entry
// reached in time expire only after the ops.
#include "queue/core/machine.h"

#include "base/check.h"
#include "base/memory.h"
#include "queue/tables/registry.h"

#include <string.h>

#define RESULT_MAX ((size_t)16 << 20)

static void rows_init(struct machine *m)
{
    m->msgs_len = m->locks_len = m->workers_len = 1; // row 0 is none
    m->msgs_cap = m->locks_cap = m->workers_cap = m->scopes_cap = 16;
    m->msgs = memory_zeroed(m->msgs_cap, sizeof *m->msgs);
    m->locks = memory_zeroed(m->locks_cap, sizeof *m->locks);
    m->workers = memory_zeroed(m->workers_cap, sizeof *m->workers);
    m->scopes = memory_zeroed(m->scopes_cap, sizeof *m->scopes);
    m->scopes_len = SCOPE_UNGROUPED + 1;
}

static void init(struct machine *m, const struct queue_id *queue, uint32_t shard,
                 const struct queue_config *birth)
{
    *m = (struct machine){.queue = *queue, .shard = shard, .birth = *birth, .config = *birth};
    m->config_version = 1;
    m->rules = birth->rules;
    CHECK(m->rules >= RULES_FIRST && m->rules <= rules_newest());
    m->seq_next = 1;
    m->now = TIME_UNKNOWN;
    rows_init(m);
    buf_init(&m->result, RESULT_MAX);
}

static void done(struct machine *m)
{
    CHECK(m->edited == 0 && !m->events);
    backlog_clear(m);
    dedup_clear(m);
    requests_clear(m);
    bodies_clear(m);
    failures_clear(m);
    finished_clear(m);
    workflows_clear(m);
    signals_clear(m);
    retained_clear(m);
    memory_free(m->sources);
    memory_free(m->msgs);
    memory_free(m->locks);
    memory_free(m->scopes);
    for (uint32_t w = 1; w < m->workers_len; w++) {
        if (!m->workers[w].row) continue;
        memory_free(m->workers[w].row->labels);
        lane_free(&m->workers[w].row->ready);
        memory_free(m->workers[w].row);
    }
    memory_free(m->workers);
    memory_free(m->names);
    memory_free(m->held);
    map_done(&m->by_seq);
    map_done(&m->by_group);
    map_done(&m->marks);
    heap_done(&m->ready);
    heap_done(&m->timers);
    heap_done(&m->open);
    heap_done(&m->registrations);
    heap_done(&m->idle);
    requirements_clear(m);
    bonds_clear(m);
    map_done(&m->by_serial);
    buf_done(&m->result);
}

struct machine *machine_new(const struct queue_id *queue, uint32_t shard,
                            const struct queue_config *birth)
{
    struct machine *m = NEW(struct machine);
    init(m, queue, shard, birth);
    return m;
}

void machine_free(struct machine *m)
{
    if (!m) return;
    done(m);
    memory_free(m->changes.seqs);
    memory_free(m);
}

void machine_reset(struct machine *m)
{
    struct queue_id queue = m->queue;
    struct queue_config birth = m->birth;
    struct changes changes = m->changes;
    done(m);
    init(m, &queue, m->shard, &birth);
    m->changes = changes;
    changes_forget(m);
}

// Handles every timer that is due, ordered by time, then by sequence number.
static void advance(struct machine *m)
{
    m->op_index = EVENT_OP_TIME;
    const struct heap_row *top;
    while ((top = heap_top(&m->timers)) && top->key <= m->now)
        lock_expire(m, top->ref);
    if (m->signals.used > 0 || m->signals.ended_ring.len > 0) signals_expire(m);
    dedup_expire(m);
    requests_expire(m);
    if (finished_due(m)) finished_expire(m);
    workflows_settle(m);
    if (workflows_due(m)) workflows_expire(m);
}

// Keeps a time far from the ends of int64_t, so that no deadline overflows, whatever an entry
// contains.
static int64_t sane_time(int64_t t)
{
    const int64_t far = INT64_C(1) << 52;
    return t < -far ? -far : t > far ? far : t;
}

// If the messages of a slot cannot be counted, a range must not continue over the slot.
static void enter_slot(struct machine *m, const struct machine_entry *e)
{
    CHECK(e->slot > m->slot);
    if (e->slot != m->slot + 1 || e->ops_len == 0) backlog_break(m);
    m->slot = e->slot;
    int64_t now = sane_time(e->now), hi = sane_time(e->time.hi);
    if (now > m->now) m->now = now;
    m->deadline_base = hi > m->now ? hi : m->now;
    CHECK(m->deadline_base >= m->now);
    m->epoch = e->epoch;
    m->ordinal = 0;
    m->time_n = 0;
    if (m->cursor.published) cursor_enter(m, e->bytes.len);
}

static enum reason dispatch_signals(struct machine *m, const struct op *op)
{
    CHECK(m->result.len == 0);
    switch (op->kind) {
    case OP_SIGNAL:
        return apply_signal(m, op->payload);
    case OP_SIGNAL_SETTLE:
        return apply_settle(m, op->payload);
    case OP_SIGNAL_WITHDRAW:
        return apply_withdraw(m, op->payload);
    case OP_CANCEL:
        return apply_cancel(m, op->payload);
    case OP_LOCK:
        return apply_lock(m, op->payload);
    default:
        return REASON_UNKNOWN_OP;
    }
}

static enum reason dispatch(struct machine *m, const struct op *op)
{
    struct bytes p = op->payload;
    CHECK(m->result.len == 0);
    switch (op->kind) {
    case OP_SEND:
        return apply_send(m, p);
    case OP_CLAIM:
    case OP_TAKE:
        return apply_claim(m, op->kind, p);
    case OP_RENEW:
    case OP_ACK:
    case OP_FAIL:
    case OP_RELEASE:
        return apply_outcome(m, op->kind, p);
    case OP_PUBLISH:
        return apply_publish(m, p);
    case OP_CONFIGURE:
        return apply_configure(m, p);
    case OP_PAUSE:
        return apply_pause(m, p, true);
    case OP_RESUME:
        return apply_pause(m, p, false);
    case OP_PURGE:
        return apply_purge(m, p);
    case OP_REDRIVE:
        return apply_redrive(m, p);
    case OP_DELETE:
        return apply_delete(m, p);
    case OP_ARRIVE:
        return apply_arrive(m, p);
    case OP_OUTBOX:
        return apply_outbox(m, p);
    case OP_SPENT:
        return apply_spent(m, p);
    case OP_RAISE:
        return apply_raise(m, p);
    case OP_WORKERS:
        return apply_workers(m, p);
    case OP_DISPATCH:
        return apply_dispatch(m, p);
    case OP_PUBLISHED:
        return apply_published(m, p);
    default:
        return dispatch_signals(m, op);
    }
}

// If an op is not applied again, its messages still count for the place of later messages.
static void pass_over(struct machine *m, const struct op *op)
{
    uint32_t messages = ops_messages(op, 1);
    if (messages == 0) return;
    CHECK(messages <= UINT32_MAX - m->ordinal);
    m->ordinal += messages;
    backlog_break(m);
}

// A claim that got nothing changed nothing: sent again, it may get a message. A payload that cannot
// be read may have a wrong request id.
static bool is_remembered(const struct machine *m, uint16_t kind, enum reason reason)
{
    if (reason == REASON_MALFORMED || reason == REASON_UNKNOWN_OP) return false;
    if (!op_is_claim(kind)) return true;
    struct result result;
    CHECK(!result_open(buf_bytes(&m->result), kind, &result));
    return result.count > 0;
}

static bool has_request(const struct op *op, struct request_id *id)
{
    return op_request(op, id) && request_id_set(id);
}

static enum reason answer(struct machine *m, const struct op *op)
{
    buf_clear(&m->result);
    struct request_id id;
    bool named = has_request(op, &id);
    const struct request_row *row = named ? request_find(m, &id) : NULL;
    if (row && row->kind == op->kind) {
        CHECK(row->body.len > 0);
        pass_over(m, op);
        buf_put(&m->result, row->body);
        return (enum reason)row->body.data[0];
    }
    enum reason reason;
    if (row) {
        pass_over(m, op);
        reason = REASON_REQUEST_REUSED;
    } else {
        reason = dispatch(m, op);
        workflows_settle(m);
    }
    if (m->result.len == 0) result_begin(&m->result, reason);
    CHECK(!m->result.bad);
    if (!named || row || !is_remembered(m, op->kind, reason)) return reason;
    request_add(m, &(struct request_row){.id = id,
                                         .kind = op->kind,
                                         .expires_at = m->deadline_base + REQUEST_KEEP_MS,
                                         .body = buf_bytes(&m->result)});
    return reason;
}

static void put_result(struct op_result *result, struct buf *text, enum err err, struct bytes body)
{
    CHECK(text->len <= UINT32_MAX && body.len <= RESULT_MAX);
    *result = (struct op_result){
        .err = err, .body_at = (uint32_t)text->len, .body_len = (uint32_t)body.len};
    buf_put(text, body);
    if (text->bad) result->body_len = 0;
}

void machine_apply(struct machine *m, const struct machine_entry *e, struct op_result *results,
                   struct buf *text, struct events *events)
{
    CHECK(!m->events && (!results || text));
    enter_slot(m, e);
    m->events = events;
    outcomes_hold(m, e);
    advance(m);
    outcomes_unhold(m);
    for (size_t i = 0; i < e->ops_len; i++) {
        if (e->ops[i].kind < OP_KIND_MACHINE) continue;
        m->op_index = (uint32_t)i;
        m->event_n = 0;
        enum reason reason = answer(m, &e->ops[i]);
        if (results) put_result(&results[i], text, reason_err(reason), buf_bytes(&m->result));
    }
    advance(m);
    CHECK(!heap_top(&m->timers) || heap_top(&m->timers)->key > m->now);
    workers_expire(m); // last: a heartbeat in this entry came in time
    m->events = NULL;
    CHECK(machine_is_sound(m));
}

bool machine_recall(const struct machine *m, const struct op *op, struct op_result *result,
                    struct buf *text)
{
    struct request_id id;
    const struct request_row *row = has_request(op, &id) ? request_find(m, &id) : NULL;
    if (!row) return false;
    CHECK(row->body.len > 0);
    uint8_t reused = REASON_REQUEST_REUSED;
    struct bytes body = row->kind == op->kind ? row->body : bytes_of(&reused, 1);
    put_result(result, text, reason_err((enum reason)body.data[0]), body);
    return true;
}
