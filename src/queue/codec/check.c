// SPDX-License-Identifier: Apache-2.0
// The invariants of the machine, each computed from scratch. For tests and the simulator.
#include "base/check.h"
#include "base/memory.h"
#include "queue/tables/registry.h"

#include <stdlib.h>
#include <string.h>

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
    for (size_t i = 0; i < m->backlog.ring.len; i++) {
        const struct range *r = backlog_at(m, i);
        CHECK(r->count > 0 && r->slots < PLACE_SPAN);
        CHECK(r->seq >= next);
        CHECK(r->slot + r->slots <= m->slot);
        next = r->seq + r->count;
        counts[STATE_READY] += r->count;
    }
    CHECK(next <= m->seq_next);
    CHECK(!m->backlog.open || next == m->seq_next); // the last range can grow
    CHECK(m->backlog.ring.len <= m->backlog.ring.cap);
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
    CHECK(m->counts[STATE_DEAD] + m->counts[STATE_OUTBOUND] + m->counts[STATE_MOVED] +
              m->counts[STATE_REDRIVEN] <=
          m->deaths);
    CHECK(m->order <= m->fence); // a ticket is a lock, too
    CHECK(m->slot > 0 || m->sent == 0);
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
    if (!msg->scope && msg->state == STATE_READY) CHECK(offer_has(m, h));
    CHECK(!msg->scope || offer_has(m, h) == (m->scopes[msg->scope].offered == h));
}

// I3: each locked message has one current token, no two are alike, and fences rise.
static void check_locks(const struct machine *m)
{
    uint64_t *fences = memory_new((m->msgs_used + 1) * sizeof *fences);
    uint64_t len = 0, tickets = 0, waiting = 0, ready = 0, open = 0;
    for (uint32_t h = 1; h < m->msgs_len; h++) {
        const struct msg *msg = msg_at(m, h);
        if (!msg->seq) continue;
        CHECK(map_find(&m->by_seq, msg->seq) == h);
        CHECK(!backlog_find(m, msg->seq));
        check_heaps(m, h);
        waiting += (msg->flags & MSG_WAITING) != 0;
        ready += heap_has(&m->ready, h);
        open += heap_has(&m->open, h);
        if (msg->state != STATE_LOCKED) continue;
        const struct lock *lock = lock_of(m, msg);
        CHECK(msg->lock && lock->end == LOCK_CURRENT);
        CHECK(lock->fence > 0 && lock->fence <= m->fence);
        CHECK(lock->worker && m->workers[lock->worker].open > 0);
        CHECK(heap_get(&m->timers, h)->key == lock->deadline);
        fences[len++] = lock->fence;
        tickets += lock->ticket;
    }
    CHECK(tickets == m->tickets);
    CHECK(waiting == m->waiting);
    CHECK(ready == m->ready.len && open == m->open.len); // the heaps hold nothing else
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
    uint32_t *refs = memory_zeroed(m->scopes_len, sizeof *refs);
    for (uint32_t h = 1; h < m->msgs_len; h++)
        if (msg_at(m, h)->seq) refs[msg_at(m, h)->scope]++;
    for (uint32_t s = SCOPE_UNGROUPED; s < m->scopes_len; s++) {
        const struct scope *scope = &m->scopes[s];
        uint64_t before = 0;
        uint32_t open = 0;
        for (uint32_t h = scope->first; h; h = msg_at(m, h)->next) {
            const struct msg *msg = msg_at(m, h);
            CHECK(msg->scope == s && msg->seq > before && !is_dead(msg));
            CHECK(msg->next ? msg_at(m, msg->next)->prev == h : scope->last == h);
            CHECK(((msg->flags & MSG_OPENED) != 0) == (scope->opened == h));
            if (msg->state != STATE_READY) CHECK(scope->opened == h);
            open += msg->state == STATE_LOCKED;
            before = msg->seq;
        }
        CHECK(open <= 1);
        CHECK(scope->refs > 0 || (!scope->first && !scope->last));
        CHECK(scope->refs == refs[s]);
        CHECK(!scope->group || scope->refs == 0 || map_find(&m->by_group, scope->group) == s);
        CHECK(!scope->opened || (msg_at(m, scope->opened)->flags & MSG_OPENED));
        bool lifo = m->config.ordering_mode == ORDERING_LIFO;
        uint32_t best = lifo ? scope->last : scope->first;
        if (scope->opened)
            best = msg_at(m, scope->opened)->state == STATE_READY ? scope->opened : 0;
        if (best && !scope->opened && backlog_blocks(m, best)) best = 0;
        CHECK(scope->offered == best);
        CHECK(!best || offer_has(m, best));
    }
    memory_free(refs);
}

// A list of dead messages, by number. Returns its length.
static uint64_t check_dead_list(const struct machine *m, uint32_t first, uint32_t last,
                                enum message_state state)
{
    uint64_t number = 0, len = 0;
    uint32_t before = 0;
    for (uint32_t h = first; h; h = msg_at(m, h)->next) {
        const struct lock *dead_entry = lock_of(m, msg_at(m, h));
        CHECK(msg_at(m, h)->state == state && msg_at(m, h)->prev == before);
        CHECK(dead_entry->number > number && dead_entry->number <= m->deaths);
        CHECK(dead_entry->died_at <= m->now && dead_entry->reason_slot <= m->slot);
        CHECK(dead_entry->cause < DEAD_CAUSE_COUNT);
        number = dead_entry->number;
        before = h;
        len++;
    }
    CHECK(last == before);
    return len;
}

// The fields of a record agree with its state.
static void check_record(const struct machine *m, const struct msg *msg)
{
    CHECK(msg->seq < m->seq_next && msg->slot <= m->slot);
    CHECK(msg->retries <= msg->deliveries);
    CHECK(msg->priority <= MESSAGE_PRIORITY_MAX && (msg->priority == 0 || !is_strict(m)));
    CHECK((msg->scope != 0) == is_strict(m) && msg->scope < m->scopes_len);
    CHECK(!(msg->flags & MSG_WAITING) || msg->state == STATE_DELAYED);
    CHECK(!(msg->flags & MSG_OPENED) || msg->scope);
    CHECK(!is_dead(msg) || msg->flags == 0);
    CHECK(msg->lock < m->locks_len && (msg->lock || !is_dead(msg)));
    const struct lock *lock = lock_of(m, msg);
    if (msg->state != STATE_LOCKED) {
        bool ended = lock->end != LOCK_CURRENT && !lock->ticket && lock->worker == 0;
        CHECK(!msg->lock || is_dead(msg) || ended);
        return;
    }
    CHECK(lock->ticket || msg->deliveries > 0);
    CHECK(lock->order <= m->order && (lock->order > 0 || !lock->ticket));
}

// Each row of a table is in use or in its list of free rows.
static void check_free_rows(const struct machine *m)
{
    uint32_t msgs = 0, locks = 0, scopes = 0, workers = 0;
    for (uint32_t h = 1; h < m->msgs_len; h++) {
        if (msg_at(m, h)->seq) check_record(m, msg_at(m, h));
        locks += msg_at(m, h)->seq && msg_at(m, h)->lock;
    }
    for (uint32_t h = m->msgs_free; h; h = msg_at(m, h)->next) {
        CHECK(h < m->msgs_len && msg_at(m, h)->seq == 0);
        msgs++;
    }
    for (uint32_t l = m->locks_free; l; l = m->locks[l].free_next)
        locks++;
    for (uint32_t s = m->scopes_free; s; s = m->scopes[s].free_next) {
        CHECK(s > SCOPE_UNGROUPED && m->scopes[s].refs == 0);
        scopes++;
    }
    for (uint32_t w = m->workers_free; w; w = m->workers[w].free_next) {
        CHECK(m->workers[w].name_len == 0 && m->workers[w].open == 0);
        workers++;
    }
    CHECK(m->msgs_len <= m->msgs_cap && m->locks_len <= m->locks_cap);
    CHECK(m->scopes_len <= m->scopes_cap && m->workers_len <= m->workers_cap);
    CHECK(m->names_len <= m->names_cap && m->registrations.len <= m->names_len);
    CHECK(msgs + m->msgs_used + 1 == m->msgs_len);
    CHECK(locks + 1 == m->locks_len);
    CHECK(scopes + m->by_group.len + SCOPE_UNGROUPED + 1 == m->scopes_len);
    CHECK(workers + m->names_len + 1 == m->workers_len);
}

// A span of slots is marked as often as records, reasons and newest failures need it.
static void check_marks(const struct machine *m)
{
    uint64_t needed = 0, marked = 0, spans = 0;
    for (uint32_t h = 1; h < m->msgs_len; h++) {
        const struct msg *msg = msg_at(m, h);
        if (!msg->seq) continue;
        uint32_t newest = map_find(&m->failures.by_seq, msg->seq);
        CHECK(map_find(&m->marks, msg->slot / PLACE_SPAN) != MAP_NONE);
        bool reason = is_dead(msg) && lock_of(m, msg)->reason_slot;
        bool failure = newest != MAP_NONE && m->failures.rows[newest].slot;
        needed += 1U + reason + failure;
    }
    needed += signals_marks(m) + retained_marks(m);
    for (size_t i = 0; m->marks.rows && i <= m->marks.mask; i++) {
        if (m->marks.rows[i].value == MAP_NONE) continue;
        CHECK(m->marks.rows[i].value > 0 && m->marks.rows[i].key <= m->slot / PLACE_SPAN);
        marked += m->marks.rows[i].value;
        spans++;
    }
    CHECK(marked == needed);
    CHECK(spans == m->marks.len);
}

// The memory of dedup keys, of answers and of letters that arrived.
static void check_memory(const struct machine *m)
{
    uint64_t bytes = 0;
    CHECK(m->dedup.index.len == m->dedup.ring.len && m->requests.index.len == m->requests.ring.len);
    for (size_t i = 0; i < m->dedup.ring.len; i++) {
        CHECK(dedup_at(m, i)->seq > 0 && dedup_at(m, i)->seq < m->seq_next);
        CHECK(map_find(&m->dedup.index, dedup_at(m, i)->key.lo) != MAP_NONE);
    }
    CHECK(m->dedup.ring.len == 0 || dedup_at(m, 0)->expires_at > m->now);
    CHECK(m->requests.ring.len == 0 || request_at(m, 0)->expires_at > m->now);
    for (size_t i = 0; i < m->requests.ring.len; i++) {
        const struct request_row *row = request_at(m, i);
        CHECK(row->kind >= OP_KIND_MACHINE && request_id_set(&row->id));
        CHECK(row->body.len > 0 && row->body.data[0] < REASON_COUNT);
        CHECK(request_find(m, &row->id) == row); // an id has one answer
        bytes += row->body.len;
    }
    CHECK(bytes <= m->requests.bytes && m->requests.bytes <= REQUEST_BYTES_MAX);
    CHECK(m->sources_len <= m->sources_cap);
    for (size_t i = 1; i < m->sources_len; i++) {
        const struct letter_source *a = &m->sources[i - 1], *b = &m->sources[i];
        int order = memcmp(a->queue.bytes, b->queue.bytes, sizeof a->queue.bytes);
        CHECK(order < 0 || (order == 0 && a->shard < b->shard));
    }
    const struct cost_ledger *s = &m->spent;
    CHECK(s->this_hour.writes + s->last_hour.writes <= s->total.writes);
    CHECK(s->this_hour.reads + s->last_hour.reads <= s->total.reads);
    CHECK(s->this_hour.deletes + s->last_hour.deletes <= s->total.deletes);
}

static void check_lists(const struct machine *m)
{
    uint64_t outbound = check_dead_list(m, m->outbox_first, m->outbox_last, STATE_OUTBOUND);
    uint64_t dead = check_dead_list(m, m->dead_first, m->dead_last, STATE_DEAD);
    uint64_t open = 0, tickets = 0;
    CHECK(outbound == m->counts[STATE_OUTBOUND]);
    CHECK(dead == m->counts[STATE_DEAD]);
    for (uint32_t i = 0; i < m->names_len; i++) {
        const struct worker *w = &m->workers[m->names[i]];
        uint64_t order = 0;
        CHECK(w->open > 0 || w->capacity > 0);
        if (i > 0)
            CHECK(bytes_compare(worker_name(m, m->names[i - 1]), worker_name(m, m->names[i])) < 0);
        uint32_t last = 0;
        uint64_t before = tickets;
        for (uint32_t h = w->first_ticket; h; h = lock_of(m, msg_at(m, h))->next) {
            CHECK(lock_of(m, msg_at(m, h))->ticket);
            CHECK(lock_of(m, msg_at(m, h))->worker == m->names[i]);
            CHECK(lock_of(m, msg_at(m, h))->prev == last);
            CHECK(lock_of(m, msg_at(m, h))->order > order);
            order = lock_of(m, msg_at(m, h))->order;
            last = h;
            tickets++;
        }
        CHECK(w->last_ticket == last);
        CHECK(tickets - before <= w->open && w->name_len > 0);
        open += w->open;
    }
    CHECK(open == m->counts[STATE_LOCKED]);
    CHECK(tickets == m->tickets);
}

void machine_check(const struct machine *m)
{
    CHECK(machine_is_sound(m));
    CHECK(m->config.rules <= m->rules && m->rules <= rules_newest());
    CHECK(m->config_version == 1 || config_check(&m->config, NULL, NULL) == ERR_OK);
    check_counts(m);
    check_locks(m);
    check_scopes(m);
    check_lists(m);
    check_free_rows(m);
    check_marks(m);
    check_memory(m);
    bodies_check(m);
    failures_check(m);
    registry_check(m);
    dispatch_check(m);
    finished_check(m);
    cursor_check(m);
    workflows_check(m);
    CHECK(workflow_ended_ok(m));
    signals_check(m);
    retained_check(m);
    lanes_check(m);
    bonds_check(m);
}
