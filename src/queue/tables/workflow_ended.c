// SPDX-License-Identifier: Apache-2.0
// The finished messages of workflows: a ring of rows beside that of finished.c, in its order. A row
// goes with the row about its finished message. So a reader finds the messages of a workflow that
// have ended, within `retention`. Only messages of a workflow have rows here.
#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

#include <stdlib.h>

static struct workflow_end_row *row_at(const struct workflows *t, uint32_t index)
{
    uint32_t at = t->ended_head + index;
    CHECK(index < t->ended_len);
    return &t->ended[at < t->ended_cap ? at : at - t->ended_cap];
}

static uint64_t row_hash(const struct workflow_end_row *row)
{
    return mix(mix(mix(0x656e646564u, row->seq), row->serial), row->run);
}

static void grow(struct workflows *t)
{
    uint32_t cap = t->ended_cap < 16 ? 16 : t->ended_cap * 2;
    CHECK(t->ended_len == t->ended_cap);
    struct workflow_end_row *rows = memory_new(cap * sizeof *rows);
    for (uint32_t i = 0; i < t->ended_len; i++)
        rows[i] = *row_at(t, i);
    memory_free(t->ended);
    t->ended = rows;
    t->ended_head = 0;
    t->ended_cap = cap;
}

static void drop_first(struct machine *m)
{
    struct workflows *t = &m->workflows;
    m->digest -= row_hash(row_at(t, 0));
    t->ended_head = t->ended_head + 1 < t->ended_cap ? t->ended_head + 1 : 0;
    t->ended_len--;
}

static void add(struct machine *m, const struct workflow_end_row *row)
{
    struct workflows *t = &m->workflows;
    CHECK(row->seq > 0 && row->serial > 0 && row->run > 0);
    if (t->ended_len == WORKFLOW_ENDED_MAX) drop_first(m);
    if (t->ended_len == t->ended_cap) grow(t);
    t->ended_len++;
    *row_at(t, t->ended_len - 1) = *row;
    m->digest += row_hash(row);
}

static void add_member(struct machine *m, uint32_t at)
{
    const struct workflow_member *member = &m->workflows.members[at];
    CHECK(member->row > 0);
    add(m, &(struct workflow_end_row){.seq = member->seq,
                                      .serial = m->workflows.rows[member->row].serial,
                                      .run = member->run});
}

static int by_seq(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// A purge of the backlog may have more messages than there are members.
static void note_many(struct machine *m, uint64_t seq, uint32_t count)
{
    const struct workflows *t = &m->workflows;
    uint64_t *seqs = memory_new(t->members_len * sizeof *seqs);
    size_t len = 0;
    for (uint32_t i = 0; i < t->members_len; i++)
        if (t->members[i].seq - seq < count) seqs[len++] = t->members[i].seq;
    CHECK(len <= t->members_len);
    qsort(seqs, len, sizeof *seqs, by_seq);
    for (size_t i = 0; i < len; i++)
        add_member(m, map_find(&t->by_seq, seqs[i]));
    memory_free(seqs);
}

void workflow_ended_note(struct machine *m, uint64_t seq, uint32_t count)
{
    const struct workflows *t = &m->workflows;
    CHECK(count > 0);
    if (count > t->members_len) {
        note_many(m, seq, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = map_find(&t->by_seq, seq + i);
        if (at != MAP_NONE) add_member(m, at);
    }
}

void workflow_ended_leave(struct machine *m, uint64_t seq, uint32_t count)
{
    CHECK(count > 0);
    while (m->workflows.ended_len > 0 && row_at(&m->workflows, 0)->seq - seq < count)
        drop_first(m);
}

size_t machine_workflow_finished(const struct machine *m, struct bytes id, int64_t now,
                                 uint64_t *out, size_t max)
{
    const struct workflows *t = &m->workflows;
    struct workflow_view w;
    uint32_t at = 0;
    size_t len = 0;
    if (!machine_workflow(m, id, &w)) return 0;
    for (uint32_t i = 0; i < t->ended_len && len < max; i++) {
        const struct workflow_end_row *row = row_at(t, i);
        if (row->serial != w.number || row->run != w.run) continue;
        if (map_find(&m->by_seq, row->seq) != MAP_NONE) continue; // a dead letter on its way
        CHECK(finished_seek(m, &at, row->seq));
        if (!finished_is_over(m, at, now)) out[len++] = row->seq;
    }
    return len;
}

void workflow_ended_save(const struct machine *m, struct buf *out)
{
    const struct workflows *t = &m->workflows;
    buf_put_u32(out, t->ended_len);
    for (uint32_t i = 0; i < t->ended_len; i++) {
        buf_put_u64(out, row_at(t, i)->seq);
        buf_put_u64(out, row_at(t, i)->serial);
        buf_put_u32(out, row_at(t, i)->run);
    }
}

// The rows are of messages in the rows about finished messages, in their order. No message is
// twice.
static bool is_in_order(const struct machine *m)
{
    const struct workflows *t = &m->workflows;
    uint32_t at = 0;
    uint64_t last = 0;
    CHECK(t->ended_len <= WORKFLOW_ENDED_MAX);
    for (uint32_t i = 0; i < t->ended_len; i++) {
        uint64_t seq = row_at(t, i)->seq;
        uint32_t before = at;
        if (!finished_seek(m, &at, seq) || (at == before && seq <= last)) return false;
        last = seq;
    }
    return true;
}

#define ROW_BYTES 20

void workflow_ended_load(struct machine *m, struct reader *r)
{
    uint32_t count = read_u32(r);
    CHECK(m->workflows.ended_len == 0);
    if (count > WORKFLOW_ENDED_MAX || count > r->left / ROW_BYTES) r->bad = true;
    for (uint32_t i = 0; i < count && reader_ok(r); i++) {
        struct workflow_end_row row = {
            .seq = read_u64(r), .serial = read_u64(r), .run = read_u32(r)};
        if (row.seq == 0 || row.serial == 0 || row.serial > m->workflows.serial) r->bad = true;
        if (row.run == 0 || row.run > WORKFLOW_RUN_MAX) r->bad = true;
        if (!r->bad) add(m, &row);
    }
    if (!r->bad && !is_in_order(m)) r->bad = true;
}

void workflow_ended_check(const struct machine *m)
{
    CHECK(is_in_order(m));
}
