// SPDX-License-Identifier: Apache-2.0
// Dispatch: the shard's owner grants tickets to registered workers. The next message in order goes
// to the row that was served longest ago, of those that run and have room. So each of n such rows
// gets one of any n grants, whatever its name, and a new row waits behind the others.
#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "queue/tables/registry.h"

// The rows to which the setting `dispatch` gives tickets.
static bool gets_tickets(const struct machine *m, const struct registration *row)
{
    CHECK(row->instance != 0);
    return m->config.dispatch != DISPATCH_AUTO || (row->flags & WORKER_MAILBOX);
}

static bool is_idle(const struct machine *m, const struct worker *w)
{
    CHECK(w->row && w->capacity > 0);
    if (w->row->mode != WORKER_RUNNING && !MUTANT(WORKER_MODE_OFF)) return false;
    if (w->open >= w->capacity && !MUTANT(ROOM_OFF)) return false;
    return w->expires_at > m->now && gets_tickets(m, w->row);
}

void idle_refresh(struct machine *m, uint32_t w)
{
    const struct worker *worker = &m->workers[w];
    bool idle = is_idle(m, worker), known = heap_has(&m->idle, w);
    int64_t key = MUTANT(FAIR_OFF) ? 0 : (int64_t)worker->row->served;
    if (known && idle && heap_get(&m->idle, w)->key == key) return;
    if (known) heap_remove(&m->idle, w);
    if (idle) heap_push(&m->idle, key, worker->serial, w);
}

void idle_rebuild(struct machine *m)
{
    for (uint32_t i = 0; i < m->names_len; i++)
        if (has_row(m, m->names[i])) idle_refresh(m, m->names[i]);
    CHECK(m->idle.len <= m->rows);
}

// A row whose time is up stays until the end of the entry. It gets nothing, unless its heartbeat
// follows.
static bool can_take(const struct machine *m, uint32_t w)
{
    return w && heap_has(&m->idle, w) && m->workers[w].expires_at > m->now;
}

// The row that was served longest ago, of those whose labels meet the requirement; lane 0: of all.
static uint32_t idle_first(const struct machine *m, uint32_t lane)
{
    const struct heap_row *top = heap_top(&m->idle), *best = NULL;
    if (lane == 0 && (!top || can_take(m, top->ref))) return top ? top->ref : 0;
    uint64_t bit = lane ? UINT64_C(1) << (lane - 1) : 0;
    for (size_t i = 0; i < m->idle.len; i++) {
        const struct heap_row *row = &m->idle.rows[i];
        bool met = (m->workers[row->ref].row->matches & bit) == bit || MUTANT(REQUIRES_OFF);
        if (met && can_take(m, row->ref) && (!best || heap_row_before(row, best))) best = row;
    }
    return best ? best->ref : 0;
}

// The next grant: the first message in order that a row can take, and that row.
struct choice {
    struct heap_row head;
    uint32_t row; // 0: none
};

static void choose(struct choice *c, const struct heap_row *head, uint32_t row)
{
    CHECK(head && row);
    if (c->row && !heap_row_before(head, &c->head)) return;
    *c = (struct choice){*head, row};
}

static void choose_backlog(const struct machine *m, struct choice *c, uint32_t first)
{
    struct heap_row head;
    uint32_t bound = has_affinity(m) ? scope_row(m, &m->scopes[SCOPE_UNGROUPED]) : 0;
    uint32_t row = bound ? bound : first;
    if (can_take(m, row) && backlog_head(m, row, &head)) choose(c, &head, row);
}

// barren: lanes without a row that can take from them. No row gets room within an op.
static void choose_required(const struct machine *m, struct choice *c, uint64_t *barren)
{
    uint64_t lanes = m->lanes_ready & ~*barren;
    for (uint32_t lane = 1; lanes; lane++, lanes >>= 1) {
        if (!(lanes & 1)) continue;
        const struct heap_row *head = heap_top(&m->requirements[lane].ready);
        if (c->row && !heap_row_before(head, &c->head)) continue;
        uint32_t row = idle_first(m, lane);
        if (row) choose(c, head, row);
        if (!row) *barren |= UINT64_C(1) << (lane - 1);
    }
}

static void choose_bound(const struct machine *m, struct choice *c)
{
    for (size_t i = 0; m->bound_ready > 0 && i < m->idle.len; i++) {
        uint32_t row = m->idle.rows[i].ref;
        const struct heap_row *head = heap_top(&m->workers[row].row->ready);
        if (head && can_take(m, row)) choose(c, head, row);
    }
}

static uint32_t next_row(const struct machine *m, uint64_t *barren)
{
    struct choice c = {0};
    uint32_t first = idle_first(m, 0);
    if (!first) return 0;
    if (heap_top(&m->ready)) choose(&c, heap_top(&m->ready), first);
    choose_backlog(m, &c, first);
    choose_required(m, &c, barren);
    choose_bound(m, &c);
    return c.row;
}

// The workers that a result names, in the order of their first grant.
struct named_workers {
    uint32_t *rows;
    uint32_t len;
    uint32_t cap;
};

static uint32_t named_row(struct machine *m, struct named_workers *n, uint32_t w)
{
    struct registration *row = m->workers[w].row;
    CHECK(row && row->result_row <= n->len);
    if (row->result_row > 0) return row->result_row - 1;
    *ARRAY_ADD(n->rows, n->len, n->cap) = w;
    row->result_row = n->len;
    return n->len - 1;
}

static void named_end(struct machine *m, struct named_workers *n)
{
    buf_put_u32(&m->result, n->len);
    for (uint32_t i = 0; i < n->len; i++) {
        CHECK(m->workers[n->rows[i]].row->result_row == i + 1);
        m->workers[n->rows[i]].row->result_row = 0;
        buf_put_sized(&m->result, worker_name(m, n->rows[i]));
    }
    memory_free(n->rows);
}

static uint32_t grant_one(struct machine *m, const struct op_dispatch *op, int64_t deadline,
                          struct named_workers *n, uint64_t *barren)
{
    uint32_t w = next_row(m, barren);
    if (!w) return 0;
    uint32_t h = lock_grant(m, w, op->seed, deadline, true);
    CHECK(h); // the row reaches the message that was chosen, and none before it
    CHECK(lock_of(m, msg_at(m, h))->ticket && lock_of(m, msg_at(m, h))->worker == w);
    struct event *e = emit(m, EVENT_TICKETS_PUBLISHED, h);
    if (e) emit_worker(m, e, w);
    grant_report(m, h, named_row(m, n, w));
    return h;
}

enum reason apply_dispatch(struct machine *m, struct bytes payload)
{
    struct op_dispatch op;
    if (dispatch_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    if (m->epoch == 0 && !MUTANT(DISPATCH_ANY)) return REASON_NOT_OWNER;
    if (m->paused) return REASON_PAUSED;
    int64_t deadline = m->deadline_base + (op.ticket_ms > 0 ? op.ticket_ms : TICKET_DEFAULT_MS);
    struct named_workers n = {0};
    uint64_t barren = 0;
    uint32_t count = 0;
    result_begin(&m->result, REASON_NONE);
    size_t count_at = m->result.len;
    buf_put_u32(&m->result, 0);
    struct overtaken_batch o = overtaking_begin(m);
    for (uint32_t h; count < op.max && (h = grant_one(m, &op, deadline, &n, &barren)); count++)
        overtaking_look(m, &o, h);
    overtaking_end(m, &o);
    CHECK(n.len <= count);
    buf_set_u32(&m->result, count_at, count);
    named_end(m, &n);
    return REASON_NONE;
}

bool machine_dispatches(const struct machine *m)
{
    CHECK(m->idle.len <= m->rows);
    return !m->paused && !m->deleted && m->idle.len > 0;
}

bool machine_dispatchable(const struct machine *m)
{
    uint64_t barren = 0;
    CHECK(m->edited == 0);
    return machine_dispatches(m) && next_row(m, &barren) != 0;
}

void dispatch_check(const struct machine *m)
{
    size_t idle = 0;
    for (uint32_t i = 0; i < m->names_len; i++) {
        uint32_t w = m->names[i];
        bool expected = has_row(m, w) && is_idle(m, &m->workers[w]);
        CHECK(heap_has(&m->idle, w) == expected);
        if (!expected) continue;
        CHECK(MUTANT(FAIR_OFF) || heap_get(&m->idle, w)->key == (int64_t)m->workers[w].row->served);
        CHECK(heap_get(&m->idle, w)->tie == m->workers[w].serial);
        idle++;
    }
    CHECK(idle == m->idle.len);
}
