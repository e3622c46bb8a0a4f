// SPDX-License-Identifier: Apache-2.0
// Reads the machine without changing it. For a later `now`, the state is projected: the effect of
// the next entry's advance on each message is computed, but not applied.
#include "base/check.h"
#include "base/memory.h"
#include "queue/tables/registry.h"

#include <stdlib.h>

int64_t machine_now(const struct machine *m)
{
    return m->now;
}

uint64_t machine_slot(const struct machine *m)
{
    return m->slot;
}

const struct queue_config *machine_config(const struct machine *m)
{
    return &m->config;
}

uint64_t machine_config_version(const struct machine *m)
{
    return m->config_version;
}

bool machine_paused(const struct machine *m)
{
    return m->paused;
}

bool machine_deleted(const struct machine *m)
{
    return m->deleted;
}

int64_t machine_wake_at(const struct machine *m)
{
    const struct heap_row *timer = heap_top(&m->timers), *leaver = heap_top(&m->registrations);
    int64_t at = timer ? timer->key : TIME_NEVER, signal = signals_wake_at(m);
    if (signal < at) at = signal;
    return leaver && leaver->key < at ? leaver->key : at;
}

bool machine_has_locks(const struct machine *m)
{
    CHECK(m->counts[STATE_LOCKED] <= m->timers.len);
    return m->counts[STATE_LOCKED] > 0;
}

// Slots first .. last hold a record's bytes if a record starts there, or up to PLACE_SPAN - 1 slots
// before.
static bool marks_any(const struct machine *m, uint64_t first, uint64_t last)
{
    uint64_t from = first >= PLACE_SPAN ? (first - PLACE_SPAN + 1) / PLACE_SPAN : 0;
    uint64_t to = last / PLACE_SPAN;
    CHECK(first <= last);
    if (to - from < m->marks.len) {
        for (uint64_t at = from; at <= to; at++)
            if (map_find(&m->marks, at) != MAP_NONE) return true;
        return false;
    }
    // Any match is enough: the order does not matter.
    for (size_t i = 0; m->marks.rows && i <= m->marks.mask; i++)
        if (m->marks.rows[i].value != MAP_NONE && m->marks.rows[i].key >= from &&
            m->marks.rows[i].key <= to)
            return true;
    return false;
}

bool machine_needs(const struct machine *m, uint64_t first, uint64_t last)
{
    CHECK(!m->backlog.open || m->backlog.ring.len > 0);
    if (machine_backlog_in(m, first, last)) return true;
    // The last range may still grow. Its readers then walk over the slots in between.
    const struct range *open = m->backlog.open ? backlog_at(m, m->backlog.ring.len - 1) : NULL;
    if (open && open->slot <= last && open->slot + PLACE_SPAN > first) return true;
    return marks_any(m, first, last);
}

// Returns the record's state after the machine has advanced to now.
static enum message_state state_at(const struct machine *m, uint32_t h, int64_t now)
{
    const struct msg *msg = msg_at(m, h);
    if (!heap_has(&m->timers, h) || heap_get(&m->timers, h)->key > now)
        return (enum message_state)msg->state;
    CHECK(msg->state == STATE_DELAYED || msg->state == STATE_LOCKED);
    if (msg->state == STATE_DELAYED || lock_of(m, msg)->ticket) return STATE_READY;
    const struct signal *in = m->signals.used > 0 ? interrupt_of(m, msg->seq) : NULL;
    if (in) return interrupt_state(m, (enum signal_then)in->then);
    return failure_policy(m, msg, false).state;
}

static void stats_project(const struct machine *m, size_t at, int64_t now,
                          struct machine_stats *out)
{
    // In a heap, all rows below it are later too.
    if (at >= m->timers.len || m->timers.rows[at].key > now) return;
    uint32_t h = m->timers.rows[at].ref;
    const struct msg *msg = msg_at(m, h);
    CHECK(out->counts[msg->state] > 0);
    out->counts[msg->state]--;
    out->counts[state_at(m, h, now)]++;
    CHECK(out->waiting > 0 || !(msg->flags & MSG_WAITING));
    if (msg->flags & MSG_WAITING) out->waiting--;
    if (msg->state == STATE_LOCKED && lock_of(m, msg)->ticket) out->tickets--;
    stats_project(m, 2 * at + 1, now, out);
    stats_project(m, 2 * at + 2, now, out);
}

uint64_t machine_expired(const struct machine *m)
{
    return m->expired;
}

void machine_stats(const struct machine *m, int64_t now, struct machine_stats *out)
{
    *out = (struct machine_stats){.sent = m->sent,
                                  .tickets = m->tickets,
                                  .waiting = m->waiting,
                                  .granted = m->fence,
                                  .duplicates = m->duplicates,
                                  .refused = m->refused_claims,
                                  .workers = m->registrations.len,
                                  .ranges = m->backlog.ring.len,
                                  .records = m->msgs_used,
                                  .requests = m->requests.ring.len,
                                  .bodies = m->bodies.len,
                                  .finished = m->finished.len,
                                  .signals = m->signals.pending,
                                  .ended = m->signals.ended_ring.len,
                                  .results = m->retained.results,
                                  .result_bytes = m->retained.result_bytes,
                                  .retained = m->retained.bodies,
                                  .takes_letters = m->sources_len > 0};
    if (m->outbox_first) out->outbound_since = lock_of(m, msg_at(m, m->outbox_first))->died_at;
    for (size_t s = 0; s < STATE_COUNT; s++)
        out->counts[s] = m->counts[s];
    stats_project(m, 0, now, out);
    CHECK(out->tickets <= out->counts[STATE_LOCKED]);
    CHECK(out->waiting <= out->counts[STATE_DELAYED]);
}

bool machine_owner_only(const struct machine *m)
{
    return is_owner_only(m);
}

bool machine_claimable(const struct machine *m, int64_t now, struct bytes worker)
{
    if (m->paused || m->deleted) return false;
    uint32_t w = worker.len > 0 ? worker_find(m, worker) : 0;
    if (w && has_row(m, w) && registry_refuses(m, w) != REASON_NONE) return false;
    struct reach_lanes reach = reach_of(m, w);
    if (w && m->workers[w].first_ticket) return true;
    if (!gives_only_tickets(m) && ready_any(m, &reach)) return true;
    const struct heap_row *top = heap_top(&m->timers);
    return top && top->key <= now;
}

enum reason machine_refuses(const struct machine *m, uint16_t kind, uint32_t count)
{
    CHECK(kind >= OP_KIND_MACHINE);
    if (m->deleted) return REASON_DELETED;
    bool grants = kind == OP_CLAIM || kind == OP_TAKE || kind == OP_PUBLISH;
    if (grants && m->paused) return REASON_PAUSED;
    if (kind == OP_SEND && messages_held(m) + count > m->config.capacity) return REASON_FULL;
    return REASON_NONE;
}

enum reason machine_refuses_worker(const struct machine *m, struct bytes worker)
{
    if (m->rows == 0 || worker.len == 0) return REASON_NONE;
    uint32_t w = worker_find(m, worker);
    CHECK(w < m->workers_len);
    return w && has_row(m, w) ? registry_refuses(m, w) : REASON_NONE;
}

static void view_record(const struct machine *m, uint32_t h, int64_t now, struct message_view *out)
{
    const struct msg *msg = msg_at(m, h);
    CHECK(msg->seq > 0 && msg->seq < m->seq_next);
    *out = (struct message_view){.seq = msg->seq,
                                 .state = state_at(m, h, now),
                                 .place = {msg->slot, msg->skip},
                                 .deliveries = msg->deliveries,
                                 .retries = msg->retries,
                                 .priority = msg->priority};
    if (out->state == msg->state && heap_has(&m->timers, h))
        out->until = heap_get(&m->timers, h)->key;
    if (!msg->lock) return;
    const struct lock *lock = lock_of(m, msg);
    if (msg->state == STATE_DEAD || msg->state == STATE_OUTBOUND) {
        out->died_at = lock->died_at;
        out->cause = (enum dead_cause)lock->cause;
        out->reason_slot = lock->reason_slot;
        out->reason_op = lock->reason_op;
        if (msg->state == STATE_OUTBOUND) out->outbox_number = lock->number;
        return;
    }
    out->fence = lock->fence;
    if (out->state != STATE_LOCKED) return;
    CHECK(lock->end == LOCK_CURRENT && lock->worker > 0);
    out->ticket = lock->ticket;
    out->order = lock->order;
    out->worker = worker_name(m, lock->worker);
}

static void view_plain(const struct range *r, uint64_t seq, struct message_view *out)
{
    CHECK(seq >= r->seq && seq - r->seq < r->count);
    *out = (struct message_view){
        .seq = seq,
        .state = STATE_READY,
        .place = {r->slot, r->skip + (uint32_t)(seq - r->seq)},
    };
}

enum err machine_find(const struct machine *m, uint64_t seq, int64_t now, struct message_view *out)
{
    if (seq == 0 || seq >= m->seq_next) return ERR_NOT_FOUND;
    uint32_t h = map_find(&m->by_seq, seq);
    if (h != MAP_NONE) {
        view_record(m, h, now, out);
        CHECK(out->seq == seq);
        return ERR_OK;
    }
    const struct range *r = backlog_find(m, seq);
    if (!r) return ERR_CONFLICT;
    view_plain(r, seq, out);
    return ERR_OK;
}

// Returns the records of a state after a seq, sorted. The caller frees them with memory_free.
static uint64_t *records_of(const struct machine *m, enum message_state state, uint64_t after,
                            int64_t now, size_t *len)
{
    uint64_t *seqs = memory_new((m->msgs_used + 1) * sizeof *seqs);
    *len = 0;
    for (uint32_t h = 1; h < m->msgs_len; h++) {
        uint64_t seq = msg_at(m, h)->seq;
        if (seq > after && state_at(m, h, now) == state) seqs[(*len)++] = seq;
    }
    CHECK(*len <= m->msgs_used);
    rows_sort(seqs, *len, sizeof *seqs);
    return seqs;
}

size_t machine_list(const struct machine *m, enum message_state state, uint64_t after, int64_t now,
                    struct message_view *out, size_t max)
{
    size_t seqs_len, at = 0, len = 0, range = 0;
    CHECK((unsigned)state < STATE_COUNT);
    uint64_t *seqs = records_of(m, state, after, now, &seqs_len);
    size_t ranges = state == STATE_READY ? m->backlog.ring.len : 0;
    while (len < max && (at < seqs_len || range < ranges)) {
        const struct range *r = range < ranges ? backlog_at(m, range) : NULL;
        if (r && r->seq + r->count <= after + 1) {
            range++;
            continue;
        }
        uint64_t plain = !r ? UINT64_MAX : r->seq > after ? r->seq : after + 1;
        if (!r || (at < seqs_len && seqs[at] < plain)) {
            view_record(m, map_find(&m->by_seq, seqs[at++]), now, &out[len++]);
        } else {
            view_plain(r, plain, &out[len++]);
            after = plain;
        }
        CHECK(len == 1 || out[len - 2].seq < out[len - 1].seq);
    }
    memory_free(seqs);
    return len;
}

size_t machine_tickets(const struct machine *m, struct bytes worker, struct grant *out, size_t max)
{
    uint32_t w = worker_find(m, worker);
    size_t len = 0;
    for (uint32_t h = w ? m->workers[w].first_ticket : 0; h && len < max;) {
        const struct lock *lock = lock_of(m, msg_at(m, h));
        CHECK(lock->ticket && lock->worker == w);
        out[len++] = grant_of(m, h);
        h = lock->next;
    }
    CHECK(len == 0 || len <= m->workers[w].open);
    return len;
}

size_t machine_outbox(const struct machine *m, struct message_view *out, size_t max)
{
    size_t len = 0;
    for (uint32_t h = m->outbox_first; h && len < max; h = msg_at(m, h)->next) {
        CHECK(msg_at(m, h)->state == STATE_OUTBOUND);
        view_record(m, h, m->now, &out[len++]);
        CHECK(len == 1 || out[len - 2].outbox_number <= out[len - 1].outbox_number);
    }
    return len;
}

const char *worker_mode_name(enum worker_mode mode)
{
    static const char *const names[] = {"running", "paused", "draining", "evicted"};
    CHECK((unsigned)mode < sizeof names / sizeof *names);
    return names[mode];
}

bool machine_requires(const struct machine *m)
{
    return m->lanes_ready != 0;
}

uint64_t machine_orders(const struct machine *m)
{
    return m->orders;
}

uint32_t machine_rows(const struct machine *m)
{
    CHECK(m->rows >= m->rows_evicted);
    return m->rows - m->rows_evicted;
}

static void view_worker(const struct machine *m, uint32_t at, struct worker_view *out)
{
    const struct worker *w = &m->workers[at];
    const struct registration *row = w->row;
    CHECK(w->open > 0 || w->capacity > 0);
    *out = (struct worker_view){.name = worker_name(m, at),
                                .capacity = w->capacity,
                                .open = w->open,
                                .expires_at = w->expires_at};
    if (!row) return;
    out->instance = row->instance;
    out->ttl_ms = row->ttl_ms;
    out->flags = row->flags;
    out->labels = registry_labels(row);
    out->since = row->since;
    out->last_seen = row->last_seen;
    out->mode = (enum worker_mode)row->mode;
    out->done = row->done;
    out->failed = row->failed;
}

bool machine_worker(const struct machine *m, size_t index, struct worker_view *out)
{
    if (index >= m->names_len) return false;
    CHECK(m->names[index] > 0);
    view_worker(m, m->names[index], out);
    return true;
}

bool machine_worker_find(const struct machine *m, struct bytes name, struct worker_view *out)
{
    uint32_t w = worker_find(m, name);
    if (w) view_worker(m, w, out);
    return w != 0;
}
