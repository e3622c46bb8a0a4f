// SPDX-License-Identifier: Apache-2.0
// Why a message failed: the newest failures of every message, each with its time, its worker, and
// the place of the fail op that has the reason's text.
//
// The rows follow from the entries alone. They are not part of the digest, so binaries with and
// without them agree. A snapshot that was written without them loads without them. A message then
// has no failures from before it, except that the record of a dead message has the last one.
#include "queue/tables/failures.h"

#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

#define LAYOUT_OF struct failure_view
static const struct layout_field failure_fields[] = {U64(slot),
                                                     U32(op),
                                                     I64(at),
                                                     U32(attempt),
                                                     ENUM(kind, FAILURE_KIND_COUNT),
                                                     BYTES(worker, .max = WORKER_NAME_MAX)};
const struct layout failure_layout = LAYOUT(failure_fields);
#undef LAYOUT_OF

static uint32_t row_new(struct failures *f)
{
    uint32_t h = f->rows_free;
    if (h) {
        f->rows_free = f->rows[h].next;
        return h;
    }
    if (f->rows_len == 0) f->rows_len = 1; // row 0 is none
    (void)ARRAY_ROOM(f->rows, f->rows_len, f->rows_cap, 1);
    CHECK(f->rows_len < f->rows_cap);
    return f->rows_len++;
}

static uint32_t row_free(struct failures *f, uint32_t h)
{
    CHECK(h > 0 && h < f->rows_len);
    uint32_t next = f->rows[h].next;
    name_release(&f->names, f->rows[h].worker);
    f->rows[h] = (struct failure_row){.next = f->rows_free};
    f->rows_free = h;
    return next;
}

// The slot with the reason of the newest failure is kept as long as the message.
static void pin(struct machine *m, const struct failure_row *row)
{
    CHECK(row->slot <= m->slot);
    if (row->slot) msg_mark(m, row->slot);
}

static void unpin(struct machine *m, const struct failure_row *row)
{
    CHECK(row->slot <= m->slot);
    if (row->slot) msg_unmark(m, row->slot);
}

// Drops the oldest failures of a chain above FAILURES_KEPT.
static void chain_cut(struct failures *f, uint32_t first)
{
    uint32_t h = first;
    CHECK(first > 0 && first < f->rows_len);
    for (size_t kept = 1; h && kept < FAILURES_KEPT; kept++)
        h = f->rows[h].next;
    if (!h) return;
    uint32_t rest = f->rows[h].next;
    f->rows[h].next = 0;
    while (rest)
        rest = row_free(f, rest);
}

static void add(struct machine *m, uint64_t seq, const struct failure_view *v)
{
    struct failures *f = &m->failures;
    CHECK(f->messages == f->by_seq.len);
    uint32_t *first = map_at(&f->by_seq, seq);
    uint32_t before = first ? *first : 0;
    uint32_t h = row_new(f);
    f->rows[h] = (struct failure_row){.slot = v->slot,
                                      .at = v->at,
                                      .op = v->op,
                                      .attempt = v->attempt,
                                      .worker = name_hold(&f->names, v->worker),
                                      .next = before,
                                      .kind = (uint8_t)v->kind};
    pin(m, &f->rows[h]);
    if (!before) {
        map_add(&f->by_seq, seq, h);
        f->messages++;
        return;
    }
    unpin(m, &f->rows[before]);
    *first = h;
    chain_cut(f, h);
}

void failure_note(struct machine *m, uint32_t h, bool failed)
{
    const struct msg *msg = msg_at(m, h);
    const struct lock *lock = lock_of(m, msg);
    CHECK(msg->state == STATE_LOCKED && lock->worker > 0); // the lock ends after the note
    add(m, msg->seq,
        &(struct failure_view){.attempt = msg->deliveries,
                               .at = failed ? m->now : lock->deadline,
                               .worker = worker_name(m, lock->worker),
                               .kind = failed ? FAILURE_FAILED : FAILURE_EXPIRED,
                               .slot = failed ? m->slot : 0,
                               .op = failed ? m->op_index : 0});
}

void failures_drop(struct machine *m, uint64_t seq)
{
    struct failures *f = &m->failures;
    if (f->messages == 0) return;
    uint32_t h = map_find(&f->by_seq, seq);
    if (h == MAP_NONE) return;
    map_remove(&f->by_seq, seq, h);
    f->messages--;
    CHECK(f->messages == f->by_seq.len);
    unpin(m, &f->rows[h]);
    while (h)
        h = row_free(f, h);
}

void failures_clear(struct machine *m)
{
    struct failures *f = &m->failures;
    CHECK(f->messages == f->by_seq.len);
    name_table_clear(&f->names);
    memory_free(f->rows);
    map_done(&f->by_seq);
    *f = (struct failures){0};
}

const char *failure_kind_name(enum failure_kind kind)
{
    CHECK((unsigned)kind < FAILURE_KIND_COUNT);
    return kind == FAILURE_EXPIRED ? "lock-expired" : "failed";
}

static struct failure_view view_of(const struct failures *f, const struct failure_row *row)
{
    CHECK(row->kind < FAILURE_KIND_COUNT);
    return (struct failure_view){.attempt = row->attempt,
                                 .at = row->at,
                                 .worker = name_text(&f->names, row->worker),
                                 .kind = (enum failure_kind)row->kind,
                                 .slot = row->slot,
                                 .op = row->op};
}

// For a message that died before failures were kept: its record has all fields except the worker.
static struct failure_view view_dead_entry(const struct machine *m, const struct msg *msg)
{
    CHECK(msg->lock && (msg->state == STATE_DEAD || msg->state == STATE_OUTBOUND));
    const struct lock *dead_entry = lock_of(m, msg);
    return (struct failure_view){.attempt = msg->deliveries,
                                 .at = dead_entry->died_at,
                                 .kind = dead_entry->reason_slot ? FAILURE_FAILED : FAILURE_EXPIRED,
                                 .slot = dead_entry->reason_slot,
                                 .op = dead_entry->reason_op};
}

// The lock has expired by `now`, but no entry has recorded it yet.
static bool is_expired(const struct machine *m, uint32_t h, int64_t now)
{
    const struct msg *msg = msg_at(m, h);
    return msg->state == STATE_LOCKED && !lock_of(m, msg)->ticket &&
           heap_get(&m->timers, h)->key <= now;
}

size_t machine_failures(const struct machine *m, uint64_t seq, int64_t now,
                        struct failure_view out[static FAILURES_KEPT + 1])
{
    const struct failures *f = &m->failures;
    uint32_t h = map_find(&m->by_seq, seq);
    if (h == MAP_NONE) return 0;
    const struct msg *msg = msg_at(m, h);
    uint32_t first = map_find(&f->by_seq, seq);
    size_t len = 0;
    for (uint32_t row = first == MAP_NONE ? 0 : first; row; row = f->rows[row].next)
        len++;
    CHECK(len <= FAILURES_KEPT);
    size_t at = len;
    for (uint32_t row = first == MAP_NONE ? 0 : first; row; row = f->rows[row].next)
        out[--at] = view_of(f, &f->rows[row]);
    bool dead = msg->state == STATE_DEAD || msg->state == STATE_OUTBOUND;
    if (dead && len == 0) out[len++] = view_dead_entry(m, msg);
    if (is_expired(m, h, now))
        out[len++] = (struct failure_view){.attempt = msg->deliveries,
                                           .at = lock_of(m, msg)->deadline,
                                           .worker = worker_name(m, lock_of(m, msg)->worker),
                                           .kind = FAILURE_EXPIRED};
    return len;
}

// In a snapshot the failures are not covered by the digest. A separate hash protects them.

static void save_message(const struct machine *m, uint64_t seq, struct buf *out)
{
    struct failure_view rows[FAILURES_KEPT + 1];
    size_t len = machine_failures(m, seq, TIME_UNKNOWN, rows);
    CHECK(len > 0 && len <= FAILURES_KEPT);
    buf_put_u64(out, seq);
    buf_put_u8(out, (uint8_t)len);
    for (size_t i = 0; i < len; i++)
        layout_put(&failure_layout, out, &rows[i]);
}

void failures_save(const struct machine *m, struct buf *out)
{
    const struct failures *f = &m->failures;
    size_t start = out->len;
    CHECK(f->messages == f->by_seq.len);
    uint64_t *seqs = memory_new((f->messages + 1) * sizeof *seqs);
    size_t len = 0;
    for (uint32_t h = 1; h < m->msgs_len; h++) {
        uint64_t seq = msg_at(m, h)->seq;
        if (seq && map_find(&f->by_seq, seq) != MAP_NONE) seqs[len++] = seq;
    }
    CHECK(len == f->messages);
    rows_sort(seqs, len, sizeof *seqs);
    buf_put_u64(out, len);
    for (size_t i = 0; i < len; i++)
        save_message(m, seqs[i], out);
    memory_free(seqs);
    if (!out->bad) buf_put_u64(out, hash64_of(bytes_of(out->data + start, out->len - start), 0));
}

static void load_failure(struct machine *m, uint64_t seq, struct reader *r)
{
    struct failure_view v;
    if (!layout_read(&failure_layout, r, &v)) return;
    if (v.slot > m->slot || (v.kind == FAILURE_FAILED) != (v.slot > 0)) r->bad = true;
    if (reader_ok(r)) add(m, seq, &v);
}

void failures_load(struct machine *m, struct reader *r)
{
    CHECK(m->failures.messages == 0);
    const uint8_t *start = r->at;
    uint64_t count = read_u64(r), after = 0;
    for (uint64_t i = 0; i < count && reader_ok(r); i++) {
        uint64_t seq = read_u64(r);
        uint8_t len = read_u8(r);
        if (seq <= after || map_find(&m->by_seq, seq) == MAP_NONE) r->bad = true;
        if (len == 0 || len > FAILURES_KEPT) r->bad = true;
        for (uint8_t j = 0; j < len && reader_ok(r); j++)
            load_failure(m, seq, r);
        after = seq;
    }
    if (r->bad) return;
    uint64_t hash = hash64_of(bytes_of(start, (size_t)(r->at - start)), 0);
    if (read_u64(r) != hash) r->bad = true;
}

void failures_check(const struct machine *m)
{
    const struct failures *f = &m->failures;
    size_t messages = 0, rows = 0, named = 0;
    for (uint32_t h = 1; h < m->msgs_len; h++) {
        uint64_t seq = msg_at(m, h)->seq;
        uint32_t first = seq ? map_find(&f->by_seq, seq) : MAP_NONE;
        if (first == MAP_NONE) continue;
        size_t len = 0;
        for (uint32_t row = first; row; row = f->rows[row].next) {
            CHECK(f->rows[row].slot <= m->slot);
            CHECK(f->rows[row].attempt <= msg_at(m, h)->deliveries && f->rows[row].at <= m->now);
            CHECK((f->rows[row].kind == FAILURE_FAILED) == (f->rows[row].slot > 0));
            uint32_t older = f->rows[row].next;
            CHECK(!older || f->rows[older].attempt < f->rows[row].attempt);
            named += f->rows[row].worker != 0;
            len++;
        }
        CHECK(len > 0 && len <= FAILURES_KEPT);
        messages++;
        rows += len;
    }
    CHECK(messages == f->messages && messages == f->by_seq.len);
    for (uint32_t h = f->rows_free; h; h = f->rows[h].next)
        rows++;
    CHECK(f->rows_len == 0 || rows == f->rows_len - 1);
    name_table_check(&f->names, named);
}
