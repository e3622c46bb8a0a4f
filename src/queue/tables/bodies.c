// SPDX-License-Identifier: Apache-2.0
// The uploaded bodies that unfinished messages refer to: 16 bytes each, found by message and by
// name. Two messages may share a body. It is held until both are finished.
//
// A body may be deleted when no later entry can refer to it. The fold refuses a reference whose
// body is older than BODY_AGE_MAX_MS by the fold's own time, which never runs backwards. So once a
// body is that old and no message holds it, no entry can refer to it, however late it is written.
#include "queue/tables/bodies.h"

#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "queue/core/state.h"

#define LAYOUT_OF struct body_row
static const struct layout_field row_fields[] = {U64(seq), U64(key)};
const struct layout body_row_layout = LAYOUT(row_fields);
#undef LAYOUT_OF

static bool bodies_are_sound(const struct bodies *b)
{
    return b->len <= b->cap && b->by_seq.len == b->len && b->by_key.len == b->len;
}
static uint64_t row_hash(const struct body_row *row)
{
    return layout_flat_hash(&body_row_layout, 0x626f6479u, row);
}

bool body_is_stale(const struct machine *m, const struct body_reference *r)
{
    bool past = r->name.len > 0 && r->uploaded_at < m->now;
    return past && m->now - r->uploaded_at > BODY_AGE_MAX_MS;
}

void body_hold(struct machine *m, uint64_t seq, uint64_t key)
{
    struct bodies *b = &m->bodies;
    CHECK(seq > 0);
    CHECK(bodies_are_sound(b));
    CHECK(map_find(&b->by_seq, seq) == MAP_NONE); // a message has one body
    uint32_t at = b->len;
    *ARRAY_ADD(b->rows, b->len, b->cap) = (struct body_row){seq, key};
    map_add(&b->by_seq, seq, at);
    map_add(&b->by_key, key, at);
    m->digest += row_hash(&b->rows[at]);
}

static void row_unlink(struct bodies *b, uint32_t at)
{
    CHECK(b->rows[at].seq > 0);
    map_remove(&b->by_seq, b->rows[at].seq, at);
    map_remove(&b->by_key, b->rows[at].key, at);
}

// The last row moves to the place of the dropped row.
static void row_drop(struct machine *m, uint32_t at)
{
    struct bodies *b = &m->bodies;
    CHECK(at < b->len);
    CHECK(bodies_are_sound(b));
    m->digest -= row_hash(&b->rows[at]);
    row_unlink(b, at);
    uint32_t last = --b->len;
    if (at == last) return;
    row_unlink(b, last);
    b->rows[at] = b->rows[last];
    map_add(&b->by_seq, b->rows[at].seq, at);
    map_add(&b->by_key, b->rows[at].key, at);
}

void body_release(struct machine *m, uint64_t seq)
{
    if (m->bodies.len == 0) return;
    uint32_t at = map_find(&m->bodies.by_seq, seq);
    if (at == MAP_NONE) return;
    CHECK(m->bodies.rows[at].seq == seq);
    row_drop(m, at);
}

void body_rename(struct machine *m, uint64_t from, uint64_t to)
{
    if (m->bodies.len == 0) return;
    uint32_t at = map_find(&m->bodies.by_seq, from);
    if (at == MAP_NONE) return;
    CHECK(to > from); // a message that is redriven gets a new number
    CHECK(m->bodies.rows[at].seq == from);
    uint64_t key = m->bodies.rows[at].key;
    row_drop(m, at);
    body_hold(m, to, key);
}

void bodies_release_backlog(struct machine *m)
{
    CHECK(bodies_are_sound(&m->bodies));
    for (uint32_t i = m->bodies.len; i-- > 0;)
        if (backlog_find(m, m->bodies.rows[i].seq)) row_drop(m, i);
}

void bodies_clear(struct machine *m)
{
    struct bodies *b = &m->bodies;
    CHECK(b->by_seq.len == b->len && b->by_key.len == b->len);
    memory_free(b->rows);
    map_done(&b->by_seq);
    map_done(&b->by_key);
    *b = (struct bodies){0};
}

enum body_hold machine_holds(const struct machine *m, struct bytes name)
{
    struct body_name parsed;
    if (!body_name_parse(name, &parsed)) return BODY_HELD; // not a name of ours: keep it
    if (m->deleted) return BODY_FREE;
    if (map_find(&m->bodies.by_key, parsed.random[0]) != MAP_NONE) return BODY_HELD;
    struct body_reference r = {.name = name, .uploaded_at = parsed.uploaded_at};
    return body_is_stale(m, &r) || MUTANT(SWEEP_UNCOMMITTED) ? BODY_FREE : BODY_YET;
}

bool machine_body(const struct machine *m, size_t i, uint64_t *seq, uint64_t *key)
{
    if (i >= m->bodies.len) return false;
    CHECK(m->bodies.rows[i].seq < m->seq_next);
    *seq = m->bodies.rows[i].seq;
    *key = m->bodies.rows[i].key;
    return true;
}

static bool is_live(const struct machine *m, uint64_t seq)
{
    return map_find(&m->by_seq, seq) != MAP_NONE || backlog_find(m, seq) || retained_upload(m, seq);
}

// bodies_live compares the messages.
static bool load_row(struct machine *m, void *from)
{
    const struct body_row *row = from;
    body_hold(m, row->seq, row->key);
    return true;
}

const struct row_table body_rows = {.layout = &body_row_layout,
                                    .count_bytes = 8,
                                    .rising = true,
                                    .key = offsetof(struct body_row, seq),
                                    ROWS_OF_ARRAY(bodies.rows, bodies.len),
                                    .add = load_row};

bool bodies_live(const struct machine *m)
{
    const struct bodies *b = &m->bodies;
    CHECK(bodies_are_sound(b));
    for (uint32_t i = 0; i < b->len; i++)
        if (!is_live(m, b->rows[i].seq)) return false;
    return true;
}

void bodies_check(const struct machine *m)
{
    const struct bodies *b = &m->bodies;
    CHECK(b->by_seq.len == b->len && b->by_key.len == b->len);
    for (uint32_t i = 0; i < b->len; i++) {
        CHECK(map_find(&b->by_seq, b->rows[i].seq) == i);
        CHECK(map_find(&b->by_key, b->rows[i].key) != MAP_NONE);
    }
    CHECK(bodies_live(m));
    CHECK(!m->deleted || b->len == 0);
}
