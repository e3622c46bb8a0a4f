// SPDX-License-Identifier: Apache-2.0
// Workers, as far as locks and tickets need them. A row exists while the worker is registered or
// holds a lock or ticket. A sorted list finds rows by name. registry.c has the rest of a registered
// worker.
#include "queue/tables/workers.h"

#include "base/array.h"
#include "base/check.h"
#include "queue/tables/registry.h"

#include <string.h>

struct bytes worker_name(const struct machine *m, uint32_t w)
{
    return bytes_of(m->workers[w].name, m->workers[w].name_len);
}

// Returns the index of the first name that is not less than this one.
static uint32_t name_place(const struct machine *m, struct bytes name)
{
    uint32_t lo = 0, hi = m->names_len;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (bytes_compare(worker_name(m, m->names[mid]), name) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

uint32_t worker_find(const struct machine *m, struct bytes name)
{
    uint32_t at = name_place(m, name);
    if (at == m->names_len || !bytes_equal(worker_name(m, m->names[at]), name)) return 0;
    return m->names[at];
}

uint32_t worker_need(struct machine *m, struct bytes name)
{
    CHECK(name.len > 0 && name.len <= WORKER_NAME_MAX);
    uint32_t at = name_place(m, name);
    if (at < m->names_len && bytes_equal(worker_name(m, m->names[at]), name)) return m->names[at];
    uint32_t w = m->workers_free;
    if (w) {
        m->workers_free = m->workers[w].free_next;
    } else {
        (void)ARRAY_ROOM(m->workers, m->workers_len, m->workers_cap, 1);
        w = m->workers_len++;
    }
    CHECK(w > 0 && w < m->workers_len);
    m->workers[w] = (struct worker){.hash = hash64_of(name, 0), .name_len = (uint8_t)name.len};
    memcpy(m->workers[w].name, name.data, name.len);
    *ARRAY_INSERT(m->names, m->names_len, m->names_cap, at) = w;
    return w;
}

void worker_settle(struct machine *m, uint32_t w)
{
    struct worker *row = &m->workers[w];
    if (row->open > 0 || row->capacity > 0) return;
    CHECK(!row->first_ticket && !row->last_ticket && !row->row);
    uint32_t at = name_place(m, worker_name(m, w));
    CHECK(at < m->names_len && m->names[at] == w);
    m->names_len--;
    memmove(m->names + at, m->names + at + 1, (m->names_len - at) * sizeof *m->names);
    *row = (struct worker){.free_next = m->workers_free};
    m->workers_free = w;
}

static void tickets_recover(struct machine *m, uint32_t w);

// Its locks stay: the worker's jobs may still run.
void worker_unregister(struct machine *m, uint32_t w)
{
    struct worker *row = &m->workers[w];
    CHECK(row->capacity > 0 && row->row);
    tickets_recover(m, w);
    m->digest -= registry_hash(m, w);
    heap_remove(&m->registrations, w);
    registry_drop(m, w);
    row->capacity = 0;
    row->expires_at = 0;
    row->serial = 0;
    worker_settle(m, w);
}

void workers_expire(struct machine *m)
{
    const struct heap_row *top;
    while ((top = heap_top(&m->registrations)) && top->key <= m->now)
        worker_unregister(m, top->ref);
}

void ticket_link(struct machine *m, uint32_t w, uint32_t h)
{
    struct worker *row = &m->workers[w];
    struct lock *lock = lock_of(m, msg_at(m, h));
    CHECK(!row->first_ticket == !row->last_ticket);
    CHECK(lock->ticket && lock->worker == w && row->open > 0);
    lock->next = 0;
    lock->prev = row->last_ticket;
    if (row->last_ticket) {
        lock_of(m, msg_at(m, row->last_ticket))->next = h;
    } else {
        row->first_ticket = h;
    }
    row->last_ticket = h;
}

void ticket_unlink(struct machine *m, uint32_t h)
{
    struct lock *lock = lock_of(m, msg_at(m, h));
    struct worker *row = &m->workers[lock->worker];
    CHECK(lock->ticket && row->first_ticket && row->last_ticket);
    *(lock->prev ? &lock_of(m, msg_at(m, lock->prev))->next : &row->first_ticket) = lock->next;
    *(lock->next ? &lock_of(m, msg_at(m, lock->next))->prev : &row->last_ticket) = lock->prev;
    lock->prev = lock->next = 0;
}

// Returns all tickets of the worker to the queue.
static void tickets_recover(struct machine *m, uint32_t w)
{
    m->workers[w].open++; // keeps the row while its tickets are returned
    while (m->workers[w].first_ticket) {
        uint32_t h = m->workers[w].first_ticket;
        struct event *e = emit(m, EVENT_TICKETS_RECOVERED, h);
        if (e) {
            e->reason = REASON_UNKNOWN_WORKER; // it left, or its time is up
            emit_worker(m, e, w);
        }
        lock_give_back(m, h, 0, LOCK_END_RELEASED);
    }
    CHECK(!m->workers[w].last_ticket && m->workers[w].open > 0);
    m->workers[w].open--;
    if (has_row(m, w)) idle_refresh(m, w);
}
