// SPDX-License-Identifier: Apache-2.0
// Results, reasons and bodies of finished messages: a ring of rows beside that of finished.c. A row
// goes with the row about its finished message. The state has places, not bytes: the collector
// keeps the slots that the rows name.
#include "queue/tables/retained.h"

#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

#include <string.h>

static struct retained_row *row_at(const struct retained_table *t, uint32_t index)
{
    uint32_t at = t->head + index;
    CHECK(index < t->len);
    return &t->rows[at < t->cap ? at : at - t->cap];
}

const struct retained_row *retained_at(const struct machine *m, uint32_t index)
{
    return row_at(&m->retained, index);
}

static uint64_t row_hash(const struct retained_row *row)
{
    uint64_t h = mix(mix(0x72657461u, row->seq), row->slot);
    h = mix(mix(h, (uint64_t)row->op << 32 | row->index), row->body_slot);
    return mix(h, ((uint64_t)row->body_skip << 32 | row->bytes) ^ (uint64_t)row->flags << 56);
}

static void grow(struct retained_table *t)
{
    uint32_t cap = t->cap < 16 ? 16 : t->cap * 2;
    CHECK(t->len == t->cap);
    struct retained_row *rows = memory_new(cap * sizeof *rows);
    for (uint32_t i = 0; i < t->len; i++)
        rows[i] = *row_at(t, i);
    memory_free(t->rows);
    t->rows = rows;
    t->head = 0;
    t->cap = cap;
}

static void drop_first(struct machine *m)
{
    struct retained_table *t = &m->retained;
    struct retained_row row = *row_at(t, 0);
    m->digest -= row_hash(&row);
    t->head = t->head + 1 < t->cap ? t->head + 1 : 0;
    t->len--;
    if (row.slot) msg_unmark(m, row.slot);
    if (row.flags & RETAINED_RESULT) {
        CHECK(t->results > 0 && t->result_bytes >= row.bytes);
        t->results--;
        t->result_bytes -= row.bytes;
    }
    if (!(row.flags & RETAINED_BODY)) return;
    CHECK(t->bodies > 0);
    t->bodies--;
    msg_unmark(m, row.body_slot);
    if (!retained_upload(m, row.seq)) return;
    map_remove(&t->uploads, row.seq, 1);
    // A dead letter on its way still has its record.
    if (map_find(&m->by_seq, row.seq) == MAP_NONE) body_release(m, row.seq);
}

static void add(struct machine *m, const struct retained_row *row)
{
    struct retained_table *t = &m->retained;
    CHECK(row->flags > 0 && row->flags <= RETAINED_FLAGS_ALL);
    if (t->len == RETAINED_MAX) drop_first(m);
    if (t->len == t->cap) grow(t);
    t->len++;
    *row_at(t, t->len - 1) = *row;
    m->digest += row_hash(row);
    if (row->slot) msg_mark(m, row->slot);
    if (row->flags & RETAINED_RESULT) {
        t->results++;
        t->result_bytes += row->bytes;
    }
    if (!(row->flags & RETAINED_BODY)) return;
    t->bodies++;
    msg_mark(m, row->body_slot);
    if (map_find(&m->bodies.by_seq, row->seq) != MAP_NONE) map_add(&t->uploads, row->seq, 1);
}

void retained_note(struct machine *m, uint32_t h, const struct retained_source *what)
{
    if (m->config.retention_ms == 0) return;
    const struct msg *msg = msg_at(m, h);
    CHECK(msg->seq > 0 && what->place.slot <= m->slot);
    struct retained_row row = {.seq = msg->seq};
    if (what->place.slot) {
        row.slot = what->place.slot;
        row.op = what->place.op;
        row.index = MUTANT(RESULT_OTHER) ? 0 : what->place.index;
        row.bytes = what->bytes;
        row.flags = what->result ? RETAINED_RESULT : RETAINED_REASON;
    }
    if (m->config.retain_body) {
        row.body_slot = msg->slot;
        row.body_skip = msg->skip;
        row.flags |= RETAINED_BODY;
    }
    if (row.flags) add(m, &row);
}

void retained_leave(struct machine *m, uint64_t seq, uint32_t count)
{
    CHECK(count > 0);
    while (m->retained.len > 0 && row_at(&m->retained, 0)->seq - seq < count)
        drop_first(m);
}

bool retained_upload(const struct machine *m, uint64_t seq)
{
    const struct map *uploads = &m->retained.uploads;
    return uploads->len > 0 && map_find(uploads, seq) != MAP_NONE;
}

void retained_view(const struct retained_row *row, struct finished_view *out)
{
    struct op_place place = {row->slot, row->op, row->index};
    CHECK(row->seq == out->seq);
    if (row->flags & RETAINED_RESULT) out->result = place;
    if (row->flags & RETAINED_REASON) out->reason = place;
    if (row->flags & RETAINED_BODY) out->body = (struct place){row->body_slot, row->body_skip};
}

void retained_clear(struct machine *m)
{
    memory_free(m->retained.rows);
    map_done(&m->retained.uploads);
    m->retained = (struct retained_table){0};
}

void retained_save(const struct machine *m, struct buf *out)
{
    const struct retained_table *t = &m->retained;
    buf_put_u32(out, t->len);
    for (uint32_t i = 0; i < t->len; i++) {
        const struct retained_row *row = row_at(t, i);
        buf_put_u64(out, row->seq);
        buf_put_u8(out, row->flags);
        if (row->slot) {
            buf_put_u64(out, row->slot);
            buf_put_u32(out, row->op);
            buf_put_u32(out, row->index);
            buf_put_u32(out, row->bytes);
        }
        if (row->flags & RETAINED_BODY) {
            buf_put_u64(out, row->body_slot);
            buf_put_u32(out, row->body_skip);
        }
    }
}

static bool row_ok(const struct machine *m, const struct retained_row *row)
{
    bool op = (row->flags & (RETAINED_RESULT | RETAINED_REASON)) != 0;
    bool both = (row->flags & RETAINED_RESULT) && (row->flags & RETAINED_REASON);
    bool body = (row->flags & RETAINED_BODY) != 0;
    if (row->flags == 0 || row->flags > RETAINED_FLAGS_ALL || both) return false;
    if (row->bytes > (row->flags & RETAINED_RESULT ? RESULT_CONTENT_MAX : 0)) return false;
    if (op != (row->slot > 0) || body != (row->body_slot > 0)) return false;
    return row->slot <= m->slot && row->body_slot <= m->slot;
}

// The rows are of messages in the rows about finished messages, in their order. No message is
// twice.
static bool is_in_order(const struct machine *m)
{
    const struct retained_table *t = &m->retained;
    uint32_t at = 0;
    uint64_t last = 0;
    for (uint32_t i = 0; i < t->len; i++) {
        uint64_t seq = row_at(t, i)->seq;
        uint32_t before = at;
        if (!finished_seek(m, &at, seq) || (at == before && seq <= last)) return false;
        last = seq;
    }
    return true;
}

static void load_row(struct machine *m, struct reader *r)
{
    struct retained_row row = {.seq = read_u64(r), .flags = read_u8(r)};
    if (row.flags & (RETAINED_RESULT | RETAINED_REASON)) {
        row.slot = read_u64(r);
        row.op = read_u32(r);
        row.index = read_u32(r);
        row.bytes = read_u32(r);
    }
    if (row.flags & RETAINED_BODY) {
        row.body_slot = read_u64(r);
        row.body_skip = read_u32(r);
    }
    CHECK(m->retained.len < RETAINED_MAX);
    if (r->bad || !row_ok(m, &row)) r->bad = true;
    if (!r->bad) add(m, &row);
}

#define ROW_BYTES_MIN 21

void retained_load(struct machine *m, struct reader *r)
{
    CHECK(m->retained.len == 0);
    uint32_t count = read_u32(r);
    if (count > RETAINED_MAX || count > r->left / ROW_BYTES_MIN) r->bad = true;
    for (uint32_t i = 0; i < count && reader_ok(r); i++)
        load_row(m, r);
    if (!r->bad && !is_in_order(m)) r->bad = true;
}

void retained_check(const struct machine *m)
{
    const struct retained_table *t = &m->retained;
    uint64_t results = 0, bytes = 0, bodies = 0, uploads = 0;
    for (uint32_t i = 0; i < t->len; i++) {
        const struct retained_row *row = row_at(t, i);
        CHECK(row_ok(m, row));
        results += (row->flags & RETAINED_RESULT) != 0;
        bytes += row->bytes;
        bodies += (row->flags & RETAINED_BODY) != 0;
        if (!retained_upload(m, row->seq)) continue;
        CHECK(row->flags & RETAINED_BODY);
        CHECK(map_find(&m->bodies.by_seq, row->seq) != MAP_NONE);
        uploads++;
    }
    CHECK(is_in_order(m));
    CHECK(results == t->results && bytes == t->result_bytes && bodies == t->bodies);
    CHECK(uploads == t->uploads.len);
}

uint64_t retained_marks(const struct machine *m)
{
    const struct retained_table *t = &m->retained;
    uint64_t marks = t->bodies;
    for (uint32_t i = 0; i < t->len; i++)
        marks += row_at(t, i)->slot != 0;
    CHECK(marks <= 2 * (uint64_t)t->len);
    return marks;
}

bool retained_lives_at(const struct machine *m, uint64_t slot, uint32_t op)
{
    const struct retained_table *t = &m->retained;
    for (uint32_t i = 0; i < t->len; i++)
        if (row_at(t, i)->slot == slot && row_at(t, i)->op == op) return true;
    return false;
}

bool retained_body_lives_at(const struct machine *m, struct place place)
{
    const struct retained_table *t = &m->retained;
    for (uint32_t i = 0; t->bodies > 0 && i < t->len; i++) {
        const struct retained_row *row = row_at(t, i);
        if (row->body_slot == place.slot && row->body_skip == place.skip) return true;
    }
    return false;
}
