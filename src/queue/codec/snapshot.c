// SPDX-License-Identifier: Apache-2.0
// The state as bytes: scalars, ranges, records by seq, dedup keys and answers; never a body. Equal
// states have equal bytes, however they were reached. The last eight bytes are the digest. If the
// rows do not add up to it, the snapshot is corrupt.
#include "base/check.h"
#include "base/memory.h"
#include "queue/core/record_layouts.h"
#include "queue/tables/registry.h"

#include <string.h>

#define SNAPSHOT_MAGIC 0x4d514c53u // "SLQM" in the stored byte order

struct machine_head {
    uint32_t magic;
    uint8_t version;
    uint16_t rules;
    struct queue_id queue;
    uint32_t shard;
};

// The configuration comes after it.
#define LAYOUT_OF struct machine_head
static const struct layout_field head_fields[] = {
    U32(magic, .min = SNAPSHOT_MAGIC, .max = SNAPSHOT_MAGIC),
    U8(version, .min = SNAPSHOT_VERSION, .max = SNAPSHOT_VERSION),
    U16(rules, .min = RULES_FIRST),
    FIXED(queue),
    U32(shard),
};
const struct layout machine_head_layout = LAYOUT(head_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct machine
static const struct layout_field scalar_fields[] = {
    U64(config_version),
    FLAG(paused),
    FLAG(deleted),
    FLAG(backlog.open),
    U64(slot),
    I64(now),
    U64(seq_next),
    U64(fence),
    U64(order),
    U64(deaths),
    U64(serial),
    U64(duplicates),
    U64(event_count),
    U64(refused_claims),
    U64(counts[STATE_READY]),
    U64(counts[STATE_DELAYED]),
    U64(counts[STATE_LOCKED]),
    U64(counts[STATE_PROCESSED]),
    U64(counts[STATE_DEAD]),
    U64(counts[STATE_OUTBOUND]),
    U64(counts[STATE_MOVED]),
    U64(counts[STATE_REDRIVEN]),
    U64(counts[STATE_PURGED]),
    U64(counts[STATE_CANCELLED]),
};
const struct layout machine_layout = LAYOUT(scalar_fields);
#undef LAYOUT_OF

static struct machine_head head_of(const struct machine *m)
{
    return (struct machine_head){SNAPSHOT_MAGIC, SNAPSHOT_VERSION, m->rules, m->queue, m->shard};
}

uint64_t machine_digest(const struct machine *m)
{
    CHECK(m->edited == 0);
    struct machine_head head = head_of(m);
    uint64_t h = layout_flat_hash(&machine_head_layout, m->digest, &head);
    h = layout_flat_hash(&machine_layout, h, m);
    h = mix(mix(mix(h, m->sent), m->tickets), m->waiting);
    h = layout_hash(&workflows_layout, h, &m->workflows);
    h = layout_hash(&cost_ledger_layout, h, &m->spent);
    h = cursor_mix(m, mix(h, finished_digest(m)));
    struct buf config;
    buf_init(&config, 4096);
    config_encode(&m->config, &config);
    h = hash64_of(buf_bytes(&config), h);
    buf_done(&config);
    return h;
}

static void save_scalars(const struct machine *m, struct buf *out)
{
    struct machine_head head = head_of(m);
    layout_put(&machine_head_layout, out, &head);
    config_encode(&m->config, out);
    layout_put(&machine_layout, out, m);
}

static void save_backlog(const struct machine *m, struct buf *out)
{
    buf_put_u64(out, m->backlog.ring.len);
    for (size_t i = 0; i < m->backlog.ring.len; i++)
        layout_flat_put(&range_in_line, out, backlog_at(m, i));
}

static void save_lock(const struct machine *m, const struct msg *msg, struct buf *out)
{
    buf_put_u8(out, msg->lock != 0);
    if (!msg->lock) return;
    const struct lock *lock = lock_of(m, msg);
    if (msg->state == STATE_DEAD || msg->state == STATE_OUTBOUND) {
        layout_flat_put(&death_in_line, out, lock);
        return;
    }
    CHECK((lock->end == LOCK_CURRENT) == (msg->state == STATE_LOCKED));
    CHECK(lock->fence <= m->fence && lock->order <= m->order);
    layout_flat_put(&lock_in_line, out, lock);
    if (lock->end == LOCK_CURRENT) buf_put_sized(out, worker_name(m, lock->worker));
}

static void save_record(const struct machine *m, uint32_t h, struct buf *out)
{
    const struct msg *msg = msg_at(m, h);
    CHECK(msg->seq < m->seq_next && msg->slot <= m->slot); // as load_record asks
    layout_flat_put(&record_in_line, out, msg);
    buf_put_u8(out, requirement_number(m, msg->lane));
    if (is_strict(m)) buf_put_u64(out, m->scopes[msg->scope].group);
    if (msg->state == STATE_DELAYED) buf_put_i64(out, heap_get(&m->timers, h)->key);
    save_lock(m, msg, out);
}

static void save_records(const struct machine *m, struct buf *out)
{
    struct numbered_row *order = memory_new((m->msgs_used + 1) * sizeof *order);
    size_t len = 0;
    for (uint32_t h = 1; h < m->msgs_len; h++)
        if (msg_at(m, h)->seq) order[len++] = (struct numbered_row){msg_at(m, h)->seq, h};
    CHECK(len == m->msgs_used);
    rows_sort(order, len, sizeof *order);
    buf_put_u64(out, len);
    for (size_t i = 0; i < len; i++)
        save_record(m, order[i].at, out);
    memory_free(order);
}

static void ledger_save(const struct machine *m, struct buf *out)
{
    layout_put(&cost_ledger_layout, out, &m->spent);
}

static void ledger_load(struct machine *m, struct reader *r)
{
    (void)layout_read(&cost_ledger_layout, r, &m->spent);
}

// What follows the records, in this order.
static const struct part {
    const struct row_table *rows; // or the two functions
    void (*save)(const struct machine *m, struct buf *out);
    void (*load)(struct machine *m, struct reader *r);
} parts[] = {
    {.rows = &dedup_rows},
    {.rows = &request_rows},
    {.rows = &source_rows},
    {.rows = &body_rows},
    {.save = ledger_save, .load = ledger_load},
    {.save = failures_save, .load = failures_load},
    {.save = registry_save, .load = registry_load},
    {.save = bonds_save, .load = bonds_load},
    {.save = finished_save, .load = finished_load},
    {.save = cursor_save, .load = cursor_load},
    {.save = workflows_save, .load = workflows_load},
    {.save = signals_save, .load = signals_load},
    {.rows = &retained_rows},
    {.rows = &workflow_end_rows},
};
#define PARTS (sizeof parts / sizeof *parts)

void machine_save(const struct machine *m, struct buf *out)
{
    CHECK(machine_is_sound(m));
    CHECK(m->registrations.len == m->rows); // registry_save writes all of them
    save_scalars(m, out);
    save_backlog(m, out);
    requirements_save(m, out);
    save_records(m, out);
    for (size_t i = 0; i < PARTS; i++) {
        if (parts[i].rows) rows_save(parts[i].rows, m, out);
        if (parts[i].save) parts[i].save(m, out);
    }
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
    struct machine_head head;
    CHECK(m->sent == 0 && m->slot == 0); // it was reset
    if (!layout_read(&machine_head_layout, r, &head)) return;
    bool same = memcmp(&head.queue, &m->queue, sizeof m->queue) == 0 && head.shard == m->shard;
    if (!same || head.rules > rules_newest() || config_decode(r, &m->config) != ERR_OK ||
        m->config.rules > head.rules) {
        r->bad = true;
        return;
    }
    m->rules = head.rules;
    if (!layout_read(&machine_layout, r, m)) return;
    for (size_t i = 0; i < STATE_COUNT; i++)
        m->sent += m->counts[i];
}

static void load_backlog(struct machine *m, struct reader *r, uint64_t *ready)
{
    uint64_t count = rows_count(r, 8, 0, &range_layout), next = 1;
    CHECK(m->backlog.ring.len == 0);
    for (uint64_t i = 0; i < count && reader_ok(r); i++) {
        struct range row;
        if (!layout_flat_read(&range_in_line, r, &row)) return;
        if (row.seq < next || row.seq >= m->seq_next || row.count > m->seq_next - row.seq)
            r->bad = true;
        if (row.slot > m->slot || row.slots > m->slot - row.slot) r->bad = true;
        if (r->bad) return;
        next = row.seq + row.count;
        *ready += row.count;
        backlog_push(m, &row);
    }
    if (m->backlog.open && m->backlog.ring.len == 0) r->bad = true;
}

struct loaded_lists {
    struct numbered_row *tickets;
    struct numbered_row *dead_list;
    size_t tickets_len;
    size_t dead_list_len;
    uint64_t counts[STATE_COUNT];
    uint8_t lanes[REQUIREMENTS_MAX + 1]; // by that number
};

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
        if (layout_flat_read(&death_in_line, r, lock) && lock->reason_slot)
            msg_mark(m, lock->reason_slot);
        return;
    }
    if (!layout_flat_read(&lock_in_line, r, lock)) return;
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
    struct msg row = {0};
    if (!layout_flat_read(&record_in_line, r, &row)) return 0;
    uint8_t number = read_u8(r);
    uint64_t group = is_strict(m) ? read_u64(r) : 0;
    int64_t due = row.state == STATE_DELAYED ? read_i64(r) : 0;
    if (row.seq <= after || row.seq >= m->seq_next || row.slot > m->slot) r->bad = true;
    if (!state_ok(&row)) r->bad = true;
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

static void load_records(struct machine *m, struct reader *r, struct loaded_lists *l)
{
    uint64_t count = rows_count(r, 8, 0, &record_layout), after = 0;
    CHECK(m->msgs_used == 0 && m->by_seq.len == 0);
    if (r->bad) return;
    l->tickets = memory_new((size_t)count * sizeof *l->tickets);
    l->dead_list = memory_new((size_t)count * sizeof *l->dead_list);
    for (uint64_t i = 0; i < count && reader_ok(r); i++)
        after = load_record(m, r, after, l);
    if (r->bad) return;
    CHECK(l->tickets_len + l->dead_list_len <= m->msgs_used && m->msgs_used == count);
    rows_sort(l->tickets, l->tickets_len, sizeof *l->tickets);
    for (size_t i = 0; i < l->tickets_len; i++)
        ticket_link(m, lock_of(m, msg_at(m, l->tickets[i].at))->worker, l->tickets[i].at);
    m->tickets = l->tickets_len;
    rows_sort(l->dead_list, l->dead_list_len, sizeof *l->dead_list);
    for (size_t i = 0; i < l->dead_list_len; i++)
        dead_list_link(m, l->dead_list[i].at);
    for (uint32_t s = SCOPE_UNGROUPED; s < m->scopes_len; s++)
        scope_refresh(m, s);
}

static bool counts_ok(const struct machine *m, const struct loaded_lists *l)
{
    const enum message_state held[] = {STATE_READY, STATE_DELAYED, STATE_LOCKED, STATE_DEAD,
                                       STATE_OUTBOUND};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        if (m->counts[held[i]] != l->counts[held[i]]) return false;
    return true;
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
    for (size_t i = 0; i < PARTS && reader_ok(&r); i++) {
        if (parts[i].rows) rows_load(parts[i].rows, m, &r);
        if (parts[i].load) parts[i].load(m, &r);
    }
    if (!r.bad && !(retained_ok(m) && workflow_ended_ok(m))) r.bad = true;
    if (!r.bad && !bodies_live(m)) r.bad = true;
    memory_free(l.tickets);
    memory_free(l.dead_list);
    uint64_t digest = read_u64(&r);
    if (reader_end(&r) && counts_ok(m, &l) && digest == machine_digest(m)) return ERR_OK;
    machine_reset(m);
    return ERR_CORRUPT;
}
