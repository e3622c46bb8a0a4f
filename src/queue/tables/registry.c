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

#include <stdlib.h>
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

uint64_t registry_hash(const struct worker *w)
{
    const struct registration *row = w->row;
    CHECK(row && row->instance != 0);
    uint64_t h = mix(mix(mix(w->hash, w->serial), (uint64_t)w->expires_at), w->capacity);
    h = mix(mix(h, row->instance), (uint64_t)row->ttl_ms);
    h = mix(mix(h, (uint64_t)row->since), (uint64_t)row->last_seen);
    h = mix(mix(h, row->flags), row->mode);
    h = mix(h, hash64_of(registry_labels(row), 0));
    return h + row->served * part_weight(w, PART_SERVED) + row->done * part_weight(w, PART_DONE) +
           row->failed * part_weight(w, PART_FAILED);
}

// An edit of a row: between the two, the row is not in the digest.
static struct registration *edit_begin(struct machine *m, uint32_t w)
{
    CHECK(has_row(m, w));
    m->digest -= registry_hash(&m->workers[w]);
    return m->workers[w].row;
}

static void edit_end(struct machine *m, uint32_t w)
{
    m->digest += registry_hash(&m->workers[w]);
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

struct fence_row {
    uint64_t fence;
    uint32_t h;
};

static int by_fence(const void *a, const void *b)
{
    const struct fence_row *x = a, *y = b;
    return (x->fence > y->fence) - (x->fence < y->fence);
}

// The worker's locks and tickets, in the order in which they were given. The caller frees them.
static struct fence_row *locks_of(const struct machine *m, uint32_t w, size_t *len)
{
    struct fence_row *found = memory_new((m->workers[w].open + 1U) * sizeof *found);
    *len = 0;
    for (uint32_t h = 1; h < m->msgs_len; h++) {
        const struct msg *msg = msg_at(m, h);
        if (!msg->seq || msg->state != STATE_LOCKED || lock_of(m, msg)->worker != w) continue;
        CHECK(*len < m->workers[w].open);
        found[(*len)++] = (struct fence_row){lock_of(m, msg)->fence, h};
    }
    CHECK(*len == m->workers[w].open);
    qsort(found, *len, sizeof *found, by_fence);
    return found;
}

// The messages return to their places, and no attempt counts. The tokens are of no use from now on.
static void end_locks(struct machine *m, uint32_t w)
{
    size_t len;
    struct fence_row *found = locks_of(m, w, &len);
    for (size_t i = 0; i < len && !MUTANT(EVICT_KEEPS_LOCKS); i++) {
        bool ticket = lock_of(m, msg_at(m, found[i].h))->ticket;
        struct outcome_row row;
        if (m->signals.boxes_used > 0 && interrupt_take(m, found[i].h, false, BYTES_EMPTY, &row))
            continue;
        struct event *e =
            emit(m, ticket ? EVENT_TICKETS_RECOVERED : EVENT_MESSAGE_RELEASED, found[i].h);
        if (e) {
            e->reason = REASON_WORKER_EVICTED;
            emit_worker(m, e, w);
        }
        lock_give_back(m, found[i].h, 0, LOCK_END_RELEASED);
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
    enum reason first = REASON_NONE;
    uint32_t applied = 0;
    result_begin(&m->result, REASON_NONE);
    buf_put_u32(&m->result, op.count);
    size_t rows_at = m->result.len;
    struct reader rows = reader_of(op.rows);
    for (uint32_t i = 0; i < op.count; i++) {
        struct worker_change c;
        CHECK(worker_change_next(&rows, &c)); // the decoder has checked it
        enum reason reason = change(m, &c);
        if (reason == REASON_NONE) applied++;
        if (first == REASON_NONE) first = reason;
        worker_reason_put(&m->result, rows_at, reason);
    }
    CHECK(m->registrations.len <= WORKERS_MAX);
    if (applied > 0 || op.count == 0) return REASON_NONE;
    m->result.data[0] = (uint8_t)first;
    return first;
}

static void save_row(const struct machine *m, uint32_t w, struct buf *out)
{
    const struct worker *worker = &m->workers[w];
    const struct registration *row = worker->row;
    CHECK(row && row->result_row == 0);
    buf_put_sized(out, worker_name(m, w));
    buf_put_u64(out, row->instance);
    buf_put_u32(out, worker->capacity);
    buf_put_i64(out, worker->expires_at);
    buf_put_u64(out, worker->serial);
    buf_put_i64(out, row->ttl_ms);
    buf_put_u32(out, row->flags);
    buf_put_u8(out, row->mode);
    buf_put_i64(out, row->since);
    buf_put_i64(out, row->last_seen);
    buf_put_u64(out, row->served);
    buf_put_u64(out, row->done);
    buf_put_u64(out, row->failed);
    buf_put_sized(out, registry_labels(row));
}

void registry_save(const struct machine *m, struct buf *out)
{
    uint32_t saved = 0;
    buf_put_u64(out, m->rows);
    for (uint32_t i = 0; i < m->names_len; i++) {
        if (!has_row(m, m->names[i])) continue;
        save_row(m, m->names[i], out);
        saved++;
    }
    CHECK(saved == m->rows);
}

static bool load_row(struct machine *m, struct reader *r)
{
    struct bytes name = read_sized(r, WORKER_NAME_MAX);
    struct registration row = {.instance = read_u64(r)};
    uint32_t capacity = read_u32(r);
    int64_t expires_at = read_i64(r);
    uint64_t serial = read_u64(r);
    row.ttl_ms = read_i64(r);
    row.flags = read_u32(r);
    row.mode = read_u8(r);
    row.since = read_i64(r);
    row.last_seen = read_i64(r);
    row.served = read_u64(r);
    row.done = read_u64(r);
    row.failed = read_u64(r);
    struct bytes labels = read_sized(r, LABELS_TEXT_MAX);
    if (r->bad || name.len == 0 || row.instance == 0 || row.mode > WORKER_IS_EVICTED) return false;
    if (capacity == 0 || capacity > WORKER_CAPACITY_MAX || row.flags > WORKER_FLAGS_ALL)
        return false;
    if (row.ttl_ms < WORKER_TTL_MIN_MS || row.ttl_ms > WORKER_TTL_MAX_MS) return false;
    if (serial == 0 || serial > m->serial || row.served > m->order) return false;
    if (labels.len > 0 && !labels_are_canonical(labels)) return false;
    uint32_t w = worker_need(m, name);
    struct worker *worker = &m->workers[w];
    if (worker->capacity > 0 || map_find(&m->by_serial, serial) != MAP_NONE) return false;
    worker->capacity = capacity;
    worker->serial = serial;
    worker->row = NEW(struct registration);
    *worker->row = row;
    worker->row->matches = requirements_met(m, labels);
    map_add(&m->by_serial, serial, w);
    m->rows++;
    m->rows_evicted += row.mode == WORKER_IS_EVICTED;
    set_labels(worker->row, labels);
    set_end(m, w, expires_at);
    edit_end(m, w);
    return true;
}

void registry_load(struct machine *m, struct reader *r)
{
    uint64_t count = read_u64(r);
    CHECK(m->rows == 0 && m->rows_evicted == 0);
    if (count > WORKERS_MAX) r->bad = true;
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
