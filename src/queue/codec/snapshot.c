// SPDX-License-Identifier: Apache-2.0
// The state as bytes: scalars, ranges, records by seq, dedup keys and answers; never a body. Equal
// states have equal bytes, however they were reached. The last eight bytes are the digest. If the
// rows do not add up to it, the snapshot is corrupt.
#include "base/check.h"
#include "base/memory.h"
#include "queue/tables/registry.h"

#include <stdlib.h>
#include <string.h>

#define SNAPSHOT_MAGIC 0x4d514c53u // "SLQM" in the stored byte order

uint64_t machine_digest(const struct machine *m)
{
    CHECK(m->edited == 0);
    const uint64_t scalars[] = {m->config_version,
                                (uint64_t)m->paused | (uint64_t)m->deleted << 1 |
                                    (uint64_t)m->backlog.open << 2,
                                m->slot,
                                (uint64_t)m->now,
                                m->seq_next,
                                m->fence,
                                m->order,
                                m->deaths,
                                m->serial,
                                m->sent,
                                m->tickets,
                                m->waiting,
                                m->duplicates,
                                m->rules,
                                m->event_count,
                                m->refused_claims,
                                m->workflows.serial,
                                m->workflows.listings};
    uint64_t h = m->digest;
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        h = mix(h, scalars[i]);
    for (size_t i = 0; i < STATE_COUNT; i++)
        h = mix(h, m->counts[i]);
    h = spent_mix(&m->spent, h);
    h = cursor_mix(m, mix(h, finished_digest(m)));
    struct buf config;
    buf_init(&config, 4096);
    config_encode(&m->config, &config);
    h = mix(h, hash64_of(buf_bytes(&config), m->shard));
    buf_done(&config);
    return h;
}

static void save_scalars(const struct machine *m, struct buf *out)
{
    buf_put_u32(out, SNAPSHOT_MAGIC);
    buf_put_u8(out, SNAPSHOT_VERSION);
    buf_put_u16(out, machine_rules(m));
    buf_put(out, bytes_of(m->queue.bytes, sizeof m->queue.bytes));
    buf_put_u32(out, m->shard);
    config_encode(&m->config, out);
    buf_put_u64(out, m->config_version);
    buf_put_u8(out, m->paused);
    buf_put_u8(out, m->deleted);
    buf_put_u8(out, m->backlog.open);
    buf_put_u64(out, m->slot);
    buf_put_i64(out, m->now);
    buf_put_u64(out, m->seq_next);
    buf_put_u64(out, m->fence);
    buf_put_u64(out, m->order);
    buf_put_u64(out, m->deaths);
    buf_put_u64(out, m->serial);
    buf_put_u64(out, m->duplicates);
    buf_put_u64(out, m->event_count);
    buf_put_u64(out, m->refused_claims);
    for (size_t i = 0; i < STATE_COUNT; i++)
        buf_put_u64(out, m->counts[i]);
}

static void save_backlog(const struct machine *m, struct buf *out)
{
    buf_put_u64(out, m->backlog.len);
    for (size_t i = 0; i < m->backlog.len; i++) {
        const struct range *r = backlog_at(m, i);
        CHECK(r->count > 0 && r->slots < PLACE_SPAN);
        buf_put_u64(out, r->seq);
        buf_put_u64(out, r->slot);
        buf_put_u32(out, r->count);
        buf_put_u32(out, r->skip);
        buf_put_u8(out, (uint8_t)r->slots);
    }
}

static void save_lock(const struct machine *m, const struct msg *msg, struct buf *out)
{
    buf_put_u8(out, msg->lock != 0);
    if (!msg->lock) return;
    const struct lock *lock = lock_of(m, msg);
    if (msg->state == STATE_DEAD || msg->state == STATE_OUTBOUND) {
        buf_put_u64(out, lock->number);
        buf_put_i64(out, lock->died_at);
        buf_put_u64(out, lock->reason_slot);
        buf_put_u32(out, lock->reason_op);
        buf_put_u8(out, lock->cause);
        return;
    }
    CHECK((lock->end == LOCK_CURRENT) == (msg->state == STATE_LOCKED));
    CHECK(lock->fence <= m->fence && lock->order <= m->order);
    buf_put_hash128(out, lock->token);
    buf_put_u64(out, lock->fence);
    buf_put_i64(out, lock->deadline);
    buf_put_u64(out, lock->order);
    buf_put_u8(out, lock->end);
    buf_put_u8(out, lock->ticket);
    if (lock->end == LOCK_CURRENT) buf_put_sized(out, worker_name(m, lock->worker));
}

static void save_record(const struct machine *m, uint32_t h, struct buf *out)
{
    const struct msg *msg = msg_at(m, h);
    CHECK(msg->seq < m->seq_next && msg->slot <= m->slot); // as load_record asks
    buf_put_u64(out, msg->seq);
    buf_put_u64(out, msg->slot);
    buf_put_u32(out, msg->skip);
    buf_put_u32(out, msg->retries);
    buf_put_u32(out, msg->deliveries);
    buf_put_u8(out, msg->state);
    buf_put_u8(out, msg->priority);
    buf_put_u8(out, msg->flags);
    buf_put_u8(out, requirement_number(m, msg->lane));
    if (is_strict(m)) buf_put_u64(out, m->scopes[msg->scope].group);
    if (msg->state == STATE_DELAYED) buf_put_i64(out, heap_get(&m->timers, h)->key);
    save_lock(m, msg, out);
}

struct numbered_row {
    uint64_t number;
    uint32_t h;
};

static int by_number(const void *a, const void *b)
{
    const struct numbered_row *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static void save_records(const struct machine *m, struct buf *out)
{
    struct numbered_row *order = memory_new((m->msgs_used + 1) * sizeof *order);
    size_t len = 0;
    for (uint32_t h = 1; h < m->msgs_len; h++)
        if (msg_at(m, h)->seq) order[len++] = (struct numbered_row){msg_at(m, h)->seq, h};
    CHECK(len == m->msgs_used);
    qsort(order, len, sizeof *order, by_number);
    buf_put_u64(out, len);
    for (size_t i = 0; i < len; i++)
        save_record(m, order[i].h, out);
    memory_free(order);
}

static void save_memory(const struct machine *m, struct buf *out)
{
    CHECK(m->dedup.index.len == m->dedup.len && m->requests.index.len == m->requests.len);
    buf_put_u64(out, m->dedup.len);
    for (size_t i = 0; i < m->dedup.len; i++) {
        const struct dedup_row *row = dedup_at(m, i);
        buf_put_hash128(out, row->key);
        buf_put_u64(out, row->seq);
        buf_put_i64(out, row->expires_at);
    }
    buf_put_u64(out, m->requests.len);
    for (size_t i = 0; i < m->requests.len; i++) {
        const struct request_row *row = request_at(m, i);
        buf_put(out, bytes_of(row->id.bytes, sizeof row->id.bytes));
        buf_put_u16(out, row->kind);
        buf_put_i64(out, row->expires_at);
        buf_put_sized(out, row->body);
    }
    buf_put_u64(out, m->sources_len);
    for (size_t i = 0; i < m->sources_len; i++) {
        const struct letter_source *s = &m->sources[i];
        buf_put(out, bytes_of(s->queue.bytes, sizeof s->queue.bytes));
        buf_put_u32(out, s->shard);
        buf_put_u64(out, s->number);
    }
}

void machine_save(const struct machine *m, struct buf *out)
{
    CHECK(machine_is_sound(m));
    save_scalars(m, out);
    save_backlog(m, out);
    requirements_save(m, out);
    save_records(m, out);
    save_memory(m, out);
    CHECK(m->registrations.len == m->rows); // registry_save writes all of them
    bodies_save(m, out);
    spent_save(&m->spent, out);
    failures_save(m, out);
    registry_save(m, out);
    bonds_save(m, out);
    finished_save(m, out);
    cursor_save(m, out);
    workflows_save(m, out);
    signals_save(m, out);
    retained_save(m, out);
    workflow_ended_save(m, out);
    buf_put_u64(out, machine_digest(m));
}

static bool read_bool(struct reader *r)
{
    uint8_t v = read_u8(r);
    if (v > 1) r->bad = true;
    return v == 1;
}

static void load_scalars(struct machine *m, struct reader *r)
{
    CHECK(m->sent == 0 && m->slot == 0); // it was reset
    if (read_u32(r) != SNAPSHOT_MAGIC) r->bad = true;
    if (read_u8(r) != SNAPSHOT_VERSION) r->bad = true;
    m->rules = read_u16(r);
    if (m->rules < RULES_FIRST || m->rules > rules_newest()) r->bad = true;
    struct bytes id = read_bytes(r, sizeof m->queue.bytes);
    if (!bytes_equal(id, bytes_of(m->queue.bytes, sizeof m->queue.bytes))) r->bad = true;
    if (read_u32(r) != m->shard) r->bad = true;
    if (r->bad || config_decode(r, &m->config) != ERR_OK) r->bad = true;
    m->config_version = read_u64(r);
    m->paused = read_bool(r);
    m->deleted = read_bool(r);
    m->backlog.open = read_bool(r);
    m->slot = read_u64(r);
    m->now = read_i64(r);
    m->seq_next = read_u64(r);
    m->fence = read_u64(r);
    m->order = read_u64(r);
    m->deaths = read_u64(r);
    m->serial = read_u64(r);
    m->duplicates = read_u64(r);
    m->event_count = read_u64(r);
    m->refused_claims = read_u64(r);
    for (size_t i = 0; i < STATE_COUNT; i++) {
        m->counts[i] = read_u64(r);
        m->sent += m->counts[i];
    }
    if (!r->bad && m->config.rules > m->rules) r->bad = true;
}

static void load_backlog(struct machine *m, struct reader *r, uint64_t *ready)
{
    CHECK(m->backlog.len == 0);
    uint64_t count = read_u64(r), next = 1;
    for (uint64_t i = 0; i < count && reader_ok(r); i++) {
        struct range row = {.seq = read_u64(r), .slot = read_u64(r)};
        row.count = read_u32(r);
        row.skip = read_u32(r);
        row.slots = read_u8(r);
        if (row.seq < next || row.count == 0 || row.slots >= PLACE_SPAN) r->bad = true;
        if (row.seq >= m->seq_next || row.count > m->seq_next - row.seq) r->bad = true;
        if (row.slot > m->slot || row.slots > m->slot - row.slot) r->bad = true;
        if (r->bad) return;
        next = row.seq + row.count;
        *ready += row.count;
        backlog_push(m, &row);
    }
    if (m->backlog.open && m->backlog.len == 0) r->bad = true;
}

struct loaded_lists {
    struct numbered_row *tickets;
    struct numbered_row *dead_list;
    size_t tickets_len;
    size_t dead_list_len;
    uint64_t counts[STATE_COUNT];
    uint8_t lanes[REQUIREMENTS_MAX + 1]; // by that number
};

static void load_dead_entry(struct machine *m, struct reader *r, struct lock *lock)
{
    lock->number = read_u64(r);
    lock->died_at = read_i64(r);
    lock->reason_slot = read_u64(r);
    lock->reason_op = read_u32(r);
    lock->cause = read_u8(r);
    if (lock->cause >= DEAD_CAUSE_COUNT) r->bad = true;
    if (lock->reason_slot) msg_mark(m, lock->reason_slot);
}

static void load_lock(struct machine *m, uint32_t h, struct reader *r)
{
    struct msg *msg = msg_at(m, h);
    bool dead = msg->state == STATE_DEAD || msg->state == STATE_OUTBOUND;
    if (!read_bool(r)) {
        if (dead || msg->state == STATE_LOCKED) r->bad = true;
        return;
    }
    CHECK(!msg->lock && m->edited == h);
    lock_need(m, h);
    struct lock *lock = lock_of(m, msg);
    if (dead) {
        load_dead_entry(m, r, lock);
        return;
    }
    lock->token = read_hash128(r);
    lock->fence = read_u64(r);
    lock->deadline = read_i64(r);
    lock->order = read_u64(r);
    lock->end = read_u8(r);
    lock->ticket = read_bool(r);
    if (lock->end > LOCK_END_RELEASED) r->bad = true;
    if ((lock->end == LOCK_CURRENT) != (msg->state == STATE_LOCKED)) r->bad = true;
    if (lock->end != LOCK_CURRENT || r->bad) return;
    struct bytes name = read_sized(r, WORKER_NAME_MAX);
    if (name.len == 0) r->bad = true;
    if (r->bad) return;
    lock->worker = worker_need(m, name);
    m->workers[lock->worker].open++;
}

// Adds the record to the lists and heaps of its state.
static void load_links(struct machine *m, uint32_t h, int64_t due, struct reader *r,
                       struct loaded_lists *l)
{
    struct msg *msg = msg_at(m, h);
    if (msg->state == STATE_DEAD || msg->state == STATE_OUTBOUND) {
        l->dead_list[l->dead_list_len++] = (struct numbered_row){lock_of(m, msg)->number, h};
        return;
    }
    CHECK(m->edited == h);
    if (msg->state == STATE_DELAYED) heap_push(&m->timers, due, msg->seq, h);
    if (msg->state == STATE_LOCKED) {
        const struct lock *lock = lock_of(m, msg);
        heap_push(&m->timers, lock->deadline, msg->seq, h);
        if (lock->ticket) l->tickets[l->tickets_len++] = (struct numbered_row){lock->order, h};
    }
    if (msg->flags & MSG_WAITING) m->waiting++;
    if (!msg->scope) {
        if (msg->state == STATE_LOCKED || (msg->flags & MSG_WAITING))
            heap_push(&m->open, order_key(msg), order_tie(m, msg), h);
        if (msg->state == STATE_READY) ready_offer(m, h);
        return;
    }
    scope_enter(m, h);
    struct scope *s = &m->scopes[msg->scope];
    if (msg->flags & MSG_OPENED) {
        if (s->opened) r->bad = true;
        s->opened = h;
    }
}

static bool state_ok(const struct msg *msg)
{
    switch (msg->state) {
    case STATE_READY:
    case STATE_LOCKED:
        return !(msg->flags & MSG_WAITING);
    case STATE_DELAYED:
        return true;
    case STATE_DEAD:
    case STATE_OUTBOUND:
        return msg->flags == 0;
    default:
        return false;
    }
}

static uint64_t load_record(struct machine *m, struct reader *r, uint64_t after,
                            struct loaded_lists *l)
{
    struct msg row = {.seq = read_u64(r), .slot = read_u64(r)};
    row.skip = read_u32(r);
    row.retries = read_u32(r);
    row.deliveries = read_u32(r);
    row.state = read_u8(r);
    row.priority = read_u8(r);
    row.flags = read_u8(r);
    uint8_t number = read_u8(r);
    uint64_t group = is_strict(m) ? read_u64(r) : 0;
    int64_t due = row.state == STATE_DELAYED ? read_i64(r) : 0;
    if (row.seq <= after || row.seq >= m->seq_next || row.slot > m->slot) r->bad = true;
    if (!state_ok(&row) || row.priority > MESSAGE_PRIORITY_MAX) r->bad = true;
    if ((row.flags & MSG_OPENED) && !is_strict(m)) r->bad = true;
    if (number > REQUIREMENTS_MAX || (number > 0 && !l->lanes[number])) r->bad = true;
    if (r->bad) return 0;
    CLEANUP(msg_edit_end)
    struct msg_edit edit = msg_new(m, row.seq, (struct place){row.slot, row.skip}, group);
    uint32_t h = edit.h;
    struct msg *msg = msg_at(m, h);
    row.scope = msg->scope;
    row.lane = l->lanes[number];
    *msg = row;
    if (row.lane) requirement_ref(m, row.lane);
    load_lock(m, h, r);
    if (r->bad) {
        msg_edit_discard(&edit);
        return 0;
    }
    load_links(m, h, due, r, l);
    l->counts[row.state]++;
    return row.seq;
}

#define RECORD_BYTES_MIN 32 // smallest size of a record: limits a false count

static void load_records(struct machine *m, struct reader *r, struct loaded_lists *l)
{
    uint64_t count = read_u64(r), after = 0;
    CHECK(m->msgs_used == 0 && m->by_seq.len == 0);
    if (count > r->left / RECORD_BYTES_MIN) r->bad = true;
    if (r->bad) return;
    l->tickets = memory_new((size_t)count * sizeof *l->tickets);
    l->dead_list = memory_new((size_t)count * sizeof *l->dead_list);
    for (uint64_t i = 0; i < count && reader_ok(r); i++)
        after = load_record(m, r, after, l);
    if (r->bad) return;
    CHECK(l->tickets_len + l->dead_list_len <= m->msgs_used && m->msgs_used == count);
    qsort(l->tickets, l->tickets_len, sizeof *l->tickets, by_number);
    for (size_t i = 0; i < l->tickets_len; i++)
        ticket_link(m, lock_of(m, msg_at(m, l->tickets[i].h))->worker, l->tickets[i].h);
    m->tickets = l->tickets_len;
    qsort(l->dead_list, l->dead_list_len, sizeof *l->dead_list, by_number);
    for (size_t i = 0; i < l->dead_list_len; i++)
        dead_list_link(m, l->dead_list[i].h);
    for (uint32_t s = SCOPE_UNGROUPED; s < m->scopes_len; s++)
        scope_refresh(m, s);
}

static void load_memory(struct machine *m, struct reader *r)
{
    uint64_t count = read_u64(r);
    for (uint64_t i = 0; i < count && reader_ok(r); i++) {
        CHECK(m->dedup.len == i);
        struct dedup_row row = {.key = read_hash128(r)};
        row.seq = read_u64(r);
        row.expires_at = read_i64(r);
        if (reader_ok(r)) dedup_add(m, &row);
    }
    count = read_u64(r);
    for (uint64_t i = 0; i < count && reader_ok(r); i++) {
        CHECK(m->requests.len <= i); // the oldest may have been dropped
        struct request_row row = {0};
        struct bytes id = read_bytes(r, sizeof row.id.bytes);
        if (id.len > 0) memcpy(row.id.bytes, id.data, id.len);
        row.kind = read_u16(r);
        row.expires_at = read_i64(r);
        row.body = read_sized(r, REQUEST_BYTES_MAX);
        if (row.body.len == 0 || row.body.data[0] >= REASON_COUNT) r->bad = true;
        if (reader_ok(r)) request_add(m, &row);
    }
    count = read_u64(r);
    for (uint64_t i = 0; i < count && reader_ok(r); i++) {
        struct queue_id queue = {0};
        struct bytes id = read_bytes(r, sizeof queue.bytes);
        if (id.len > 0) memcpy(queue.bytes, id.data, id.len);
        uint32_t shard = read_u32(r);
        uint64_t number = read_u64(r);
        if (reader_ok(r)) source_raise(m, source_need(m, &queue, shard), number);
    }
}

static bool counts_ok(const struct machine *m, const struct loaded_lists *l)
{
    const enum message_state held[] = {STATE_READY, STATE_DELAYED, STATE_LOCKED, STATE_DEAD,
                                       STATE_OUTBOUND};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        if (m->counts[held[i]] != l->counts[held[i]]) return false;
    return true;
}

static void load_spent(struct machine *m, struct reader *r)
{
    spent_load(&m->spent, r);
}

enum err machine_load(struct machine *m, struct bytes saved)
{
    machine_reset(m);
    struct reader r = reader_of(saved);
    struct loaded_lists l = {0};
    load_scalars(m, &r);
    if (reader_ok(&r)) load_backlog(m, &r, &l.counts[STATE_READY]);
    if (reader_ok(&r)) requirements_load(m, &r, l.lanes);
    if (reader_ok(&r)) load_records(m, &r, &l);
    if (reader_ok(&r)) load_memory(m, &r);
    void (*const tables[])(struct machine *, struct reader *) = {
        bodies_load,  load_spent,    failures_load,      registry_load,
        bonds_load,   finished_load, cursor_load,        workflows_load,
        signals_load, retained_load, workflow_ended_load};
    for (size_t i = 0; i < sizeof tables / sizeof *tables && reader_ok(&r); i++)
        tables[i](m, &r);
    if (!r.bad && !bodies_live(m)) r.bad = true;
    memory_free(l.tickets);
    memory_free(l.dead_list);
    uint64_t digest = read_u64(&r);
    if (reader_end(&r) && counts_ok(m, &l) && digest == machine_digest(m)) return ERR_OK;
    machine_reset(m);
    return ERR_CORRUPT;
}
