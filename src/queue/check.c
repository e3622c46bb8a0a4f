// SPDX-License-Identifier: Apache-2.0
// The invariants of the machine, each computed from scratch. For tests and the simulator.
#include "base/check.h"
#include "base/memory.h"
#include "queue/state.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool is_dead(const struct msg *msg)
{
    return msg->state == STATE_DEAD || msg->state == STATE_OUTBOUND;
}

// I5: every message that was sent is in exactly one state, and the counts agree.
static void check_counts(const struct machine *m)
{
    uint64_t counts[STATE_COUNT] = {0}, sum = 0, next = 1;
    for (size_t i = 0; i < m->backlog.len; i++) {
        const struct range *r = backlog_at(m, i);
        CHECK(r->count > 0 && r->slots < PLACE_SPAN);
        CHECK(r->seq >= next);
        CHECK(r->slot + r->slots <= m->slot);
        next = r->seq + r->count;
        counts[STATE_READY] += r->count;
    }
    CHECK(next <= m->seq_next);
    for (uint32_t h = 1; h < m->msgs_len; h++)
        if (msg_at(m, h)->seq) counts[msg_at(m, h)->state]++;
    for (size_t s = 0; s < STATE_COUNT; s++) {
        bool held = s <= STATE_LOCKED || s == STATE_DEAD || s == STATE_OUTBOUND;
        CHECK(!held || counts[s] == m->counts[s]);
        CHECK(held || counts[s] == 0);
        sum += m->counts[s];
    }
    CHECK(sum == m->sent);
    CHECK(m->seq_next == m->sent + 1);
}

static void check_heaps(const struct machine *m, uint32_t h)
{
    const struct msg *msg = msg_at(m, h);
    bool timed = msg->state == STATE_DELAYED || msg->state == STATE_LOCKED;
    CHECK(heap_has(&m->timers, h) == timed);
    CHECK(!timed || heap_get(&m->timers, h)->key > m->now);
    CHECK(!heap_has(&m->ready, h) || msg->state == STATE_READY);
    bool open = msg->state == STATE_LOCKED || (msg->flags & MSG_WAITING);
    CHECK(heap_has(&m->open, h) == (open && !is_strict(m)));
    if (!msg->scope && msg->state == STATE_READY) CHECK(heap_has(&m->ready, h));
}

// I3: each locked message has one current token, no two are alike, and fences rise.
static void check_locks(const struct machine *m)
{
    uint64_t *fences = memory_new((m->msgs_used + 1) * sizeof *fences);
    uint64_t len = 0, tickets = 0, waiting = 0;
    for (uint32_t h = 1; h < m->msgs_len; h++) {
        const struct msg *msg = msg_at(m, h);
        if (!msg->seq) continue;
        CHECK(map_find(&m->by_seq, msg->seq) == h);
        CHECK(!backlog_find(m, msg->seq));
        check_heaps(m, h);
        waiting += (msg->flags & MSG_WAITING) != 0;
        if (msg->state != STATE_LOCKED) continue;
        const struct lock *lock = lock_of(m, msg);
        CHECK(msg->lock && lock->end == LOCK_CURRENT);
        CHECK(lock->fence > 0 && lock->fence <= m->fence);
        CHECK(lock->worker && m->workers[lock->worker].open > 0);
        fences[len++] = lock->fence;
        tickets += lock->ticket;
    }
    CHECK(tickets == m->tickets);
    CHECK(waiting == m->waiting);
    CHECK(m->timers.len == m->counts[STATE_LOCKED] + m->counts[STATE_DELAYED]);
    qsort(fences, len, sizeof *fences, by_value);
    for (uint64_t i = 1; i < len; i++)
        CHECK(fences[i - 1] < fences[i]);
    memory_free(fences);
}

// I6: a scope has at most one open message. It offers that message, or the first in order, and no
// other.
static void check_scopes(const struct machine *m)
{
    for (uint32_t s = SCOPE_UNGROUPED; s < m->scopes_len; s++) {
        const struct scope *scope = &m->scopes[s];
        uint64_t before = 0;
        uint32_t open = 0;
        for (uint32_t h = scope->first; h; h = msg_at(m, h)->next) {
            const struct msg *msg = msg_at(m, h);
            CHECK(msg->scope == s && msg->seq > before && !is_dead(msg));
            CHECK(((msg->flags & MSG_OPENED) != 0) == (scope->opened == h));
            if (msg->state != STATE_READY) CHECK(scope->opened == h);
            open += msg->state == STATE_LOCKED;
            before = msg->seq;
        }
        CHECK(open <= 1);
        bool lifo = m->config.ordering_mode == ORDERING_LIFO;
        uint32_t best = lifo ? scope->last : scope->first;
        if (scope->opened)
            best = msg_at(m, scope->opened)->state == STATE_READY ? scope->opened : 0;
        CHECK(scope->offered == best);
        CHECK(!best || heap_has(&m->ready, best));
    }
}

static void check_lists(const struct machine *m)
{
    uint64_t number = 0, outbound = 0, dead = 0;
    for (uint32_t h = m->outbox_first; h; h = msg_at(m, h)->next) {
        CHECK(msg_at(m, h)->state == STATE_OUTBOUND);
        CHECK(lock_of(m, msg_at(m, h))->number > number);
        number = lock_of(m, msg_at(m, h))->number;
        outbound++;
    }
    for (uint32_t h = m->dead_first; h; h = msg_at(m, h)->next)
        dead += msg_at(m, h)->state == STATE_DEAD;
    CHECK(outbound == m->counts[STATE_OUTBOUND]);
    CHECK(dead == m->counts[STATE_DEAD]);
    for (uint32_t i = 0; i < m->names_len; i++) {
        const struct worker *w = &m->workers[m->names[i]];
        uint64_t order = 0;
        CHECK(w->open > 0 || w->capacity > 0);
        if (i > 0)
            CHECK(bytes_compare(worker_name(m, m->names[i - 1]), worker_name(m, m->names[i])) < 0);
        for (uint32_t h = w->first_ticket; h; h = lock_of(m, msg_at(m, h))->next) {
            CHECK(lock_of(m, msg_at(m, h))->ticket);
            CHECK(lock_of(m, msg_at(m, h))->order > order);
            order = lock_of(m, msg_at(m, h))->order;
        }
    }
}

void machine_check(const struct machine *m)
{
    check_counts(m);
    check_locks(m);
    check_scopes(m);
    check_lists(m);
    bodies_check(m);
    failures_check(m);
    registry_check(m);
    dispatch_check(m);
    finished_check(m);
}
