// SPDX-License-Identifier: Apache-2.0
// The finished messages of workflows: a ring of rows beside that of finished.c, in its order. A row
// goes with the row about its finished message. So a reader finds the messages of a workflow that
// have ended, within `retention`. Only messages of a workflow have rows here.
#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

#define LAYOUT_OF struct workflow_end_row
static const struct layout_field row_fields[] = {U64(seq, .min = 1), U64(serial, .min = 1),
                                                 U32(run, .min = 1, .max = WORKFLOW_RUN_MAX)};
const struct layout workflow_end_layout = LAYOUT(row_fields);
#undef LAYOUT_OF

static struct workflow_end_row *row_at(const struct workflows *t, uint32_t index)
{
    return RING_AT(&t->ended_ring, t->ended, index);
}

static uint64_t row_hash(const struct workflow_end_row *row)
{
    return layout_flat_hash(&workflow_end_layout, 0x656e646564u, row);
}

static void drop_first(struct machine *m)
{
    struct workflows *t = &m->workflows;
    m->digest -= row_hash(row_at(t, 0));
    ring_drop(&t->ended_ring, 1);
}

static void add(struct machine *m, const struct workflow_end_row *row)
{
    struct workflows *t = &m->workflows;
    CHECK(row->seq > 0 && row->serial > 0 && row->run > 0);
    if (t->ended_ring.len == WORKFLOW_ENDED_MAX) drop_first(m);
    *RING_ADD(&t->ended_ring, t->ended) = *row;
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

// A purge of the backlog may have more messages than there are members.
static void note_many(struct machine *m, uint64_t seq, uint32_t count)
{
    const struct workflows *t = &m->workflows;
    uint64_t *seqs = memory_new(t->members_len * sizeof *seqs);
    size_t len = 0;
    for (uint32_t i = 0; i < t->members_len; i++)
        if (t->members[i].seq - seq < count) seqs[len++] = t->members[i].seq;
    CHECK(len <= t->members_len);
    rows_sort(seqs, len, sizeof *seqs);
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
    while (m->workflows.ended_ring.len > 0 && row_at(&m->workflows, 0)->seq - seq < count)
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
    for (uint32_t i = 0; i < t->ended_ring.len && len < max; i++) {
        const struct workflow_end_row *row = row_at(t, i);
        if (row->serial != w.number || row->run != w.run) continue;
        if (map_find(&m->by_seq, row->seq) != MAP_NONE) continue; // a dead letter on its way
        CHECK(finished_seek(m, &at, row->seq));
        if (!finished_is_over(m, at, now)) out[len++] = row->seq;
    }
    return len;
}

static uint64_t seq_at(const struct machine *m, uint32_t index)
{
    return row_at(&m->workflows, index)->seq;
}

static bool load_row(struct machine *m, void *from)
{
    const struct workflow_end_row *row = from;
    if (row->serial > m->workflows.serial) return false;
    add(m, row);
    return true;
}

const struct row_table workflow_end_rows = {.layout = &workflow_end_layout,
                                            .count_bytes = 4,
                                            .count_max = WORKFLOW_ENDED_MAX,
                                            ROWS_OF_RING(workflows.ended, workflows.ended_ring),
                                            .add = load_row};

bool workflow_ended_ok(const struct machine *m)
{
    return finished_in_order(m, m->workflows.ended_ring.len, seq_at);
}
