// SPDX-License-Identifier: Apache-2.0
// The registry of workers: the rows that OP_WORKERS changes. A row belongs to one process of the
// worker, its instance. It ends with its ttl, when the worker leaves, or some time after an
// operator evicted it. Locks do not depend on it, except that an eviction ends them.
//
// clang-format off
//                join            pause, drain
//     (none) ---------> RUNNING --------------> PAUSED, DRAINING
//        ^                 |  <----------------      |
//        |  leave, ttl     |  resume                 |
//        '-----------------+-------------------------'
//        '---- 10 min ---- EVICTED <----- evict -----'
// clang-format on
#include "queue/tables/registry.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "queue/codec/labels.h"

#include <string.h>

struct bytes registry_labels(const struct registration *row)
{
    CHECK(!row->labels == (row->labels_len == 0));
    return bytes_of(row->labels, row->labels_len);
}

// The counters of a row add to the digest in proportion, so that a step of one is a sum.
enum row_part { PART_SERVED = 1, PART_DONE, PART_FAILED };

static uint64_t part_weight(const struct worker *w, enum row_part part)
{
    return mix(w->serial, (uint64_t)part);
}

struct stored_worker {
    struct bytes name;
    struct worker worker;
    struct registration row;
    struct bytes labels;
};

#define LAYOUT_OF struct stored_worker
static const struct layout_field worker_fields[] = {
    BYTES(name, .min = 1, .max = WORKER_NAME_MAX),
    U64(row.instance, .min = 1),
    U32(worker.capacity, .min = 1, .max = WORKER_CAPACITY_MAX),
    I64(worker.expires_at),
    U64(worker.serial, .min = 1),
    I64(row.ttl_ms, .min = WORKER_TTL_MIN_MS, .max = WORKER_TTL_MAX_MS),
    U32(row.flags, .max = WORKER_FLAGS_ALL),
    U8(row.mode, .max = WORKER_IS_EVICTED),
    I64(row.since),
    I64(row.last_seen),
    U64(row.served),
    U64(row.done),
    U64(row.failed),
    BYTES(labels, .max = LABELS_TEXT_MAX),
};
const struct layout registration_layout = LAYOUT(worker_fields);
#undef LAYOUT_OF

static struct stored_worker stored(const struct machine *m, uint32_t w)
{
    const struct worker *worker = &m->workers[w];
    CHECK(worker->row && worker->row->instance != 0);
    return (struct stored_worker){.name = worker_name(m, w),
                                  .worker = *worker,
                                  .row = *worker->row,
                                  .labels = registry_labels(worker->row)};
}

uint64_t registry_hash(const struct machine *m, uint32_t w)
{
    struct stored_worker s = stored(m, w);
    uint64_t counters = s.row.served * part_weight(&s.worker, PART_SERVED) +
                        s.row.done * part_weight(&s.worker, PART_DONE) +
                        s.row.failed * part_weight(&s.worker, PART_FAILED);
    s.row.served = s.row.done = s.row.failed = 0;
    return layout_hash(&registration_layout, 0, &s) + counters;
}

// An edit of a row: between the two, the row is not in the digest.
static struct registration *edit_begin(struct machine *m, uint32_t w)
{
    CHECK(has_row(m, w));
    m->digest -= registry_hash(m, w);
    return m->workers[w].row;
}

static void edit_end(struct machine *m, uint32_t w)
{
    m->digest += registry_hash(m, w);
    idle_refresh(m, w);
}

static void set_labels(struct registration *row, struct bytes labels)
{
    CHECK(labels.len <= LABELS_TEXT_MAX);
    memory_free(row->labels);
    row->labels = NULL;
    row->labels_len = (uint16_t)labels.len;
    if (labels.len == 0) return;
    row->labels = memory_new(labels.len);
    memcpy(row->labels, labels.data, labels.len);
}

static void set_end(struct machine *m, uint32_t w, int64_t expires_at)
{
    CHECK(m->workers[w].capacity > 0 && m->workers[w].serial > 0);
    if (heap_has(&m->registrations, w)) heap_remove(&m->registrations, w);
    m->workers[w].expires_at = expires_at;
    heap_push(&m->registrations, expires_at, m->workers[w].serial, w);
}

static void set_mode(struct machine *m, struct registration *row, enum worker_mode mode)
{
    CHECK((unsigned)mode <= WORKER_IS_EVICTED);
    CHECK(m->rows_evicted > 0 || row->mode != WORKER_IS_EVICTED);
    m->rows_evicted -= row->mode == WORKER_IS_EVICTED;
    row->mode = (uint8_t)mode;
    m->rows_evicted += mode == WORKER_IS_EVICTED;
    m->orders += mode != WORKER_RUNNING;
}

void registry_drop(struct machine *m, uint32_t w)
{
    struct registration *row = m->workers[w].row;
    CHECK(row && m->rows > 0 && row->result_row == 0);
    map_remove(&m->by_serial, m->workers[w].serial, w);
    m->workers[w].serial = 0; // from here on no group is bound to it
    lane_flush(m, w);
    lane_free(&row->ready);
    set_mode(m, row, WORKER_RUNNING);
    m->rows--;
    if (heap_has(&m->idle, w)) heap_remove(&m->idle, w);
    memory_free(row->labels);
    memory_free(row);
    m->workers[w].row = NULL;
}

void registry_note_ticket(struct machine *m, uint32_t w, uint64_t order)
{
    struct worker *worker = &m->workers[w];
    CHECK(worker->row && (order == 0 || order > worker->row->served));
    if (order > 0) {
        m->digest += (order - worker->row->served) * part_weight(worker, PART_SERVED);
        worker->row->served = order;
    }
    idle_refresh(m, w);
}

void registry_note_end(struct machine *m, uint32_t w, bool done)
{
    struct worker *worker = &m->workers[w];
    CHECK(worker->row && worker->open > 0);
    (done ? &worker->row->done : &worker->row->failed)[0]++;
    m->digest += part_weight(worker, done ? PART_DONE : PART_FAILED);
}

enum reason registry_refuses(const struct machine *m, uint32_t w)
{
    static const enum reason reasons[] = {REASON_NONE, REASON_WORKER_PAUSED, REASON_WORKER_DRAINING,
                                          REASON_WORKER_EVICTED};
    CHECK(has_row(m, w) && m->workers[w].row->mode <= WORKER_IS_EVICTED);
    return MUTANT(WORKER_MODE_OFF) ? REASON_NONE : reasons[m->workers[w].row->mode];
}

// A row whose time is up is still present until the end of the entry. A heartbeat before that came
// in time, but another process may have the name.
static bool is_over(const struct machine *m, uint32_t w)
{
    CHECK(has_row(m, w));
    return m->workers[w].expires_at <= m->now;
}

static void put_facts(struct machine *m, uint32_t w, const struct worker_change *c)
{
    struct worker *worker = &m->workers[w];
    CHECK(c->act == WORKER_JOIN && c->instance == worker->row->instance);
    worker->capacity = c->capacity;
    worker->row->ttl_ms = c->ttl_ms;
    worker->row->flags = c->flags;
    worker->row->last_seen = m->now;
    set_labels(worker->row, c->labels);
    set_end(m, w, m->deadline_base + c->ttl_ms);
    uint64_t met = requirements_met(m, c->labels);
    if (met == worker->row->matches) return;
    worker->row->matches = met;
    scopes_reoffer(m, w);
}

static enum reason join_new(struct machine *m, const struct worker_change *c)
{
    uint32_t w = worker_find(m, c->name);
    if (w && has_row(m, w)) worker_unregister(m, w); // over or evicted
    if (m->registrations.len >= WORKERS_MAX) return REASON_WORKERS_FULL;
    w = worker_need(m, c->name);
    struct worker *worker = &m->workers[w];
    CHECK(worker->capacity == 0 && !worker->row);
    worker->serial = ++m->serial;
    worker->row = NEW(struct registration);
    *worker->row = (struct registration){.instance = c->instance, .since = m->now};
    worker->row->served = m->order; // it waits behind the rows that were served before
    map_add(&m->by_serial, worker->serial, w);
    m->rows++;
    put_facts(m, w, c);
    edit_end(m, w);
    return REASON_NONE;
}

static enum reason join(struct machine *m, uint32_t w, const struct worker_change *c)
{
    const struct registration *row = w ? m->workers[w].row : NULL;
    if (!row) return join_new(m, c);
    bool same = row->instance == c->instance;
    bool evicted = row->mode == WORKER_IS_EVICTED, over = is_over(m, w);
    if (same && evicted && !over && !MUTANT(EVICT_REJOINS)) return REASON_WORKER_EVICTED;
    if (!same && !evicted && !over && !MUTANT(WORKER_NAME_OFF)) return REASON_WORKER_NAME_TAKEN;
    if (!same || evicted) return join_new(m, c);
    (void)edit_begin(m, w);
    put_facts(m, w, c);
    edit_end(m, w);
    return REASON_NONE;
}

static enum reason beat_or_leave(struct machine *m, uint32_t w, const struct worker_change *c)
{
    const struct registration *row = w ? m->workers[w].row : NULL;
    if (!row || row->instance != c->instance) return REASON_UNKNOWN_WORKER;
    if (row->mode == WORKER_IS_EVICTED) return REASON_WORKER_EVICTED;
    if (c->act == WORKER_LEAVE) {
        worker_unregister(m, w);
        return REASON_NONE;
    }
    CHECK(c->act == WORKER_BEAT);
    edit_begin(m, w)->last_seen = m->now;
    set_end(m, w, m->deadline_base + row->ttl_ms);
    edit_end(m, w);
    return REASON_NONE;
}

// The worker's locks and tickets, in the order in which they were given. The caller frees them.
static struct numbered_row *locks_of(const struct machine *m, uint32_t w, size_t *len)
{
    struct numbered_row *found = memory_new((m->workers[w].open + 1U) * sizeof *found);
    *len = 0;
    for (uint32_t h = 1; h < m->msgs_len; h++) {
        const struct msg *msg = msg_at(m, h);
        if (!msg->seq || msg->state != STATE_LOCKED || lock_of(m, msg)->worker != w) continue;
        CHECK(*len < m->workers[w].open);
        found[(*len)++] = (struct numbered_row){lock_of(m, msg)->fence, h};
    }
    CHECK(*len == m->workers[w].open);
    rows_sort(found, *len, sizeof *found);
    return found;
}

// The messages return to their places, and no attempt counts. The tokens are of no use from now on.
static void end_locks(struct machine *m, uint32_t w)
{
    size_t len;
    struct numbered_row *found = locks_of(m, w, &len);
    for (size_t i = 0; i < len && !MUTANT(EVICT_KEEPS_LOCKS); i++) {
        bool ticket = lock_of(m, msg_at(m, found[i].at))->ticket;
        struct outcome_row row;
        if (m->signals.boxes_used > 0 && interrupt_take(m, found[i].at, false, BYTES_EMPTY, &row))
            continue;
        struct event *e =
            emit(m, ticket ? EVENT_TICKETS_RECOVERED : EVENT_MESSAGE_RELEASED, found[i].at);
        if (e) {
            e->reason = REASON_WORKER_EVICTED;
            emit_worker(m, e, w);
        }
        lock_give_back(m, found[i].at, 0, LOCK_END_RELEASED);
    }
    memory_free(found);
}

static enum reason operate(struct machine *m, uint32_t w, enum worker_act act)
{
    if (!w || !has_row(m, w)) return REASON_UNKNOWN_WORKER;
    bool evicted = m->workers[w].row->mode == WORKER_IS_EVICTED;
    if (evicted) return act == WORKER_EVICT ? REASON_NONE : REASON_WORKER_EVICTED;
    static const enum worker_mode modes[WORKER_ACT_COUNT] = {[WORKER_PAUSE] = WORKER_IS_PAUSED,
                                                             [WORKER_RESUME] = WORKER_RUNNING,
                                                             [WORKER_DRAIN] = WORKER_IS_DRAINING,
                                                             [WORKER_EVICT] = WORKER_IS_EVICTED};
    CHECK(act >= WORKER_PAUSE && act < WORKER_ACT_COUNT);
    set_mode(m, edit_begin(m, w), modes[act]);
    if (act == WORKER_EVICT) set_end(m, w, m->deadline_base + WORKER_EVICTED_KEEP_MS);
    edit_end(m, w);
    if (act == WORKER_EVICT) lane_flush(m, w);
    if (act == WORKER_EVICT) end_locks(m, w);
    return REASON_NONE;
}

static enum reason change(struct machine *m, const struct worker_change *c)
{
    uint32_t w = worker_find(m, c->name);
    switch (c->act) {
    case WORKER_JOIN:
        return join(m, w, c);
    case WORKER_BEAT:
    case WORKER_LEAVE:
        return beat_or_leave(m, w, c);
    default:
        return operate(m, w, c->act);
    }
}

enum reason apply_workers(struct machine *m, struct bytes payload)
{
    struct op_workers op;
    if (workers_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    struct result_rows result = result_rows(m, op.count);
    struct reader rows = reader_of(op.rows);
    for (uint32_t i = 0; i < op.count; i++) {
        struct worker_change c;
        CHECK(worker_change_next(&rows, &c)); // the decoder has checked it
        enum reason reason = change(m, &c);
        result_rows_note(&result, reason, reason == REASON_NONE);
        worker_reason_put(&m->result, result.at, reason);
    }
    CHECK(m->registrations.len <= WORKERS_MAX);
    return result_rows_end(m, &result);
}

void registry_save(const struct machine *m, struct buf *out)
{
    uint32_t saved = 0;
    buf_put_u64(out, m->rows);
    for (uint32_t i = 0; i < m->names_len; i++) {
        if (!has_row(m, m->names[i])) continue;
        struct stored_worker row = stored(m, m->names[i]);
        layout_put(&registration_layout, out, &row);
        saved++;
    }
    CHECK(saved == m->rows);
}

static bool load_row(struct machine *m, struct reader *r)
{
    struct stored_worker s = {0};
    if (!layout_read(&registration_layout, r, &s)) return false;
    if (s.worker.serial > m->serial || s.row.served > m->order) return false;
    if (s.labels.len > 0 && !labels_are_canonical(s.labels)) return false;
    uint32_t w = worker_need(m, s.name);
    struct worker *worker = &m->workers[w];
    if (worker->capacity > 0 || map_find(&m->by_serial, s.worker.serial) != MAP_NONE) return false;
    worker->capacity = s.worker.capacity;
    worker->serial = s.worker.serial;
    worker->row = NEW(struct registration);
    *worker->row = s.row;
    worker->row->matches = requirements_met(m, s.labels);
    map_add(&m->by_serial, worker->serial, w);
    m->rows++;
    m->rows_evicted += s.row.mode == WORKER_IS_EVICTED;
    set_labels(worker->row, s.labels);
    set_end(m, w, s.worker.expires_at);
    edit_end(m, w);
    return true;
}

void registry_load(struct machine *m, struct reader *r)
{
    uint64_t count = rows_count(r, 8, WORKERS_MAX, &registration_layout);
    CHECK(m->rows == 0 && m->rows_evicted == 0);
    for (uint64_t i = 0; i < count && reader_ok(r); i++)
        if (!load_row(m, r)) r->bad = true;
}

void registry_check(const struct machine *m)
{
    uint32_t rows = 0, evicted = 0;
    for (uint32_t i = 0; i < m->names_len; i++) {
        const struct worker *w = &m->workers[m->names[i]];
        CHECK((w->row != NULL) == heap_has(&m->registrations, m->names[i]));
        CHECK((w->row != NULL) == (w->capacity > 0));
        if (!w->row) continue;
        rows++;
        evicted += w->row->mode == WORKER_IS_EVICTED;
        CHECK(w->serial > 0 && w->serial <= m->serial);
        CHECK(w->row->served <= m->order);
        bool leaks = MUTANT(EVICT_KEEPS_LOCKS) || MUTANT(WORKER_MODE_OFF);
        CHECK(w->row->mode != WORKER_IS_EVICTED || w->open == 0 || leaks);
        CHECK(w->row->labels_len == 0 || labels_are_canonical(registry_labels(w->row)));
    }
    CHECK(rows == m->rows && evicted == m->rows_evicted);
}
