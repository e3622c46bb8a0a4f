// SPDX-License-Identifier: Apache-2.0
// Results, reasons and bodies of finished messages: a ring of rows beside that of finished.c. A row
// goes with the row about its finished message. The state has places, not bytes: the collector
// keeps the slots that the rows name.
#include "queue/tables/retained.h"

#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

#include <string.h>

#define LAYOUT_OF struct retained_row
#define OF_OP     WHEN(flags, RETAINED_RESULT | RETAINED_REASON)
static const struct layout_field row_fields[] = {
    U64(seq),
    U8(flags, .min = 1, .max = RETAINED_FLAGS_ALL),
    U64(slot, .min = 1, OF_OP),
    U32(op, OF_OP),
    U32(index, OF_OP),
    U32(bytes, .max = RESULT_CONTENT_MAX, OF_OP),
    U64(body_slot, .min = 1, WHEN(flags, RETAINED_BODY)),
    U32(body_skip, WHEN(flags, RETAINED_BODY)),
};
const struct layout retained_row_layout = LAYOUT(row_fields);
#undef LAYOUT_OF

static struct retained_row *row_at(const struct retained_table *t, uint32_t index)
{
    return RING_AT(&t->ring, t->rows, index);
}

const struct retained_row *retained_at(const struct machine *m, uint32_t index)
{
    return row_at(&m->retained, index);
}

static uint64_t row_hash(const struct retained_row *row)
{
    return layout_hash(&retained_row_layout, 0x72657461u, row);
}

static void drop_first(struct machine *m)
{
    struct retained_table *t = &m->retained;
    struct retained_row row = *row_at(t, 0);
    m->digest -= row_hash(&row);
    ring_drop(&t->ring, 1);
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
    if (t->ring.len == RETAINED_MAX) drop_first(m);
    *RING_ADD(&t->ring, t->rows) = *row;
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
    while (m->retained.ring.len > 0 && row_at(&m->retained, 0)->seq - seq < count)
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

static uint64_t seq_at(const struct machine *m, uint32_t index)
{
    return retained_at(m, index)->seq;
}

bool retained_ok(const struct machine *m)
{
    return finished_in_order(m, m->retained.ring.len, seq_at);
}

static bool load_row(struct machine *m, void *row)
{
    if (!row_ok(m, row)) return false;
    add(m, row);
    return true;
}

const struct row_table retained_rows = {.layout = &retained_row_layout,
                                        .count_bytes = 4,
                                        .count_max = RETAINED_MAX,
                                        ROWS_OF_RING(retained.rows, retained.ring),
                                        .add = load_row};

void retained_check(const struct machine *m)
{
    const struct retained_table *t = &m->retained;
    uint64_t results = 0, bytes = 0, bodies = 0, uploads = 0;
    for (uint32_t i = 0; i < t->ring.len; i++) {
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
    CHECK(retained_ok(m));
    CHECK(results == t->results && bytes == t->result_bytes && bodies == t->bodies);
    CHECK(uploads == t->uploads.len);
}

uint64_t retained_marks(const struct machine *m)
{
    const struct retained_table *t = &m->retained;
    uint64_t marks = t->bodies;
    for (uint32_t i = 0; i < t->ring.len; i++)
        marks += row_at(t, i)->slot != 0;
    CHECK(marks <= 2 * (uint64_t)t->ring.len);
    return marks;
}

bool retained_lives_at(const struct machine *m, uint64_t slot, uint32_t op)
{
    const struct retained_table *t = &m->retained;
    for (uint32_t i = 0; i < t->ring.len; i++)
        if (row_at(t, i)->slot == slot && row_at(t, i)->op == op) return true;
    return false;
}

bool retained_body_lives_at(const struct machine *m, struct place place)
{
    const struct retained_table *t = &m->retained;
    for (uint32_t i = 0; t->bodies > 0 && i < t->ring.len; i++) {
        const struct retained_row *row = row_at(t, i);
        if (row->body_slot == place.slot && row->body_skip == place.skip) return true;
    }
    return false;
}
