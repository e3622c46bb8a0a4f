// SPDX-License-Identifier: Apache-2.0
// The table of workflows in a snapshot, and its invariants. Rows are saved by number, and their
// messages by number. So equal states have equal bytes.
#include "queue/tables/workflow.h"

#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

#define LAYOUT_OF struct workflows
static const struct layout_field head_fields[] = {U64(serial), U64(listings)};
const struct layout workflows_layout = LAYOUT(head_fields);
#undef LAYOUT_OF

struct stored_member {
    uint64_t seq;
    uint32_t place; // of its workflow in the saved order
    uint32_t run;   // times 2, plus 1 if the message has ended
};

#define LAYOUT_OF struct stored_member
static const struct layout_field member_fields[] = {U64(seq, .min = 1), U32(place),
                                                    U32(run, .min = 2)};
const struct layout workflow_member_layout = LAYOUT(member_fields);
#undef LAYOUT_OF

void workflows_save(const struct machine *m, struct buf *out)
{
    const struct workflows *t = &m->workflows;
    size_t most = (t->used > t->members_len ? t->used : t->members_len) + (size_t)1, len = 0;
    struct numbered_row *order = memory_new(most * sizeof *order);
    uint32_t *place = memory_zeroed(t->len + (size_t)1, sizeof *place); // in the saved order
    for (uint32_t w = 1; w < t->len; w++)
        if (t->rows[w].id.len > 0) order[len++] = (struct numbered_row){t->rows[w].serial, w};
    CHECK(len == t->used);
    rows_sort(order, len, sizeof *order);
    layout_put(&workflows_layout, out, t);
    buf_put_u32(out, t->used);
    for (size_t i = 0; i < len; i++) {
        CHECK(!t->rows[order[i].at].pending);
        place[order[i].at] = (uint32_t)i;
        layout_put(&workflow_layout, out, &t->rows[order[i].at]);
    }
    len = 0;
    for (uint32_t i = 0; i < t->members_len; i++)
        order[len++] = (struct numbered_row){t->members[i].seq, i};
    rows_sort(order, len, sizeof *order);
    buf_put_u64(out, len);
    for (size_t i = 0; i < len; i++) {
        const struct workflow_member *member = &t->members[order[i].at];
        layout_put(&workflow_member_layout, out,
                   &(struct stored_member){.seq = member->seq,
                                           .place = place[member->row],
                                           .run = member->run << 1 | member->ended});
    }
    memory_free(place);
    memory_free(order);
}

static uint64_t load_row(struct machine *m, struct reader *r, uint64_t after)
{
    struct workflows *t = &m->workflows;
    struct workflow row = {0};
    struct workflow_view known;
    if (!layout_read(&workflow_layout, r, &row)) return 0;
    if (row.serial <= after || row.serial > t->serial || row.listed > t->listings) r->bad = true;
    if (row.state != WORKFLOW_OPEN && row.open > 0) r->bad = true;
    if (row.begun > m->now || row.seen > m->now || row.since > m->now) r->bad = true;
    if (row.listed == 0 && row.since != 0) r->bad = true;
    if (r->bad || machine_workflow(m, row.id, &known)) {
        r->bad = true;
        return 0;
    }
    uint32_t w = workflow_row_new(m, row.id);
    row.id = t->rows[w].id;
    row.hash = t->rows[w].hash;
    t->rows[w] = row;
    m->digest += workflow_hash(&t->rows[w]);
    return row.serial;
}

static bool is_dead(const struct machine *m, uint64_t seq)
{
    uint32_t h = map_find(&m->by_seq, seq);
    if (h == MAP_NONE) return false;
    return msg_at(m, h)->state == STATE_DEAD || msg_at(m, h)->state == STATE_OUTBOUND;
}

static bool is_live(const struct machine *m, uint64_t seq)
{
    return map_find(&m->by_seq, seq) != MAP_NONE || backlog_find(m, seq);
}

static uint64_t load_member(struct machine *m, struct reader *r, uint64_t after)
{
    struct workflows *t = &m->workflows;
    struct stored_member row;
    if (!layout_read(&workflow_member_layout, r, &row)) return 0;
    if (row.seq <= after || row.place >= t->used || !is_live(m, row.seq)) {
        r->bad = true;
        return 0;
    }
    struct workflow_member member = {.seq = row.seq,
                                     .row = (row.place + 1) & WORKFLOW_ROW_MASK,
                                     .run = row.run >> 1,
                                     .ended = row.run & 1};
    if (member.run > t->rows[member.row].run) r->bad = true;
    if (member.ended != is_dead(m, row.seq)) r->bad = true;
    if (!member.ended && member.run != t->rows[member.row].run) r->bad = true;
    if (r->bad) return 0;
    workflow_member_add(m, &member);
    return row.seq;
}

static void load_lists(struct machine *m, struct reader *r)
{
    struct workflows *t = &m->workflows;
    struct numbered_row *order = memory_new((t->used + (size_t)1) * sizeof *order);
    size_t len = 0;
    for (uint32_t w = 1; w < t->len; w++) {
        if ((t->rows[w].listed > 0) != (t->rows[w].refs == 0)) r->bad = true;
        if (t->rows[w].listed) order[len++] = (struct numbered_row){t->rows[w].listed, w};
    }
    rows_sort(order, len, sizeof *order);
    for (size_t i = 1; i < len; i++)
        if (order[i].number == order[i - 1].number) r->bad = true;
    for (size_t i = 0; i < len && !r->bad; i++)
        workflow_list_add(m, order[i].at);
    memory_free(order);
}

static void load_counts(struct machine *m, struct reader *r)
{
    struct workflows *t = &m->workflows;
    uint64_t *open = memory_zeroed(t->len + (size_t)1, sizeof *open);
    for (uint32_t i = 0; i < t->members_len; i++)
        open[t->members[i].row] += !t->members[i].ended;
    for (uint32_t w = 1; w < t->len; w++)
        if (open[w] != t->rows[w].open) r->bad = true;
    memory_free(open);
}

void workflows_load(struct machine *m, struct reader *r)
{
    struct workflows *t = &m->workflows;
    CHECK(t->len == 0 && t->members_len == 0);
    if (!layout_read(&workflows_layout, r, t)) return;
    uint64_t rows = rows_count(r, 4, WORKFLOWS_MAX, &workflow_layout), after = 0;
    for (uint64_t i = 0; i < rows && reader_ok(r); i++)
        after = load_row(m, r, after);
    uint64_t members = rows_count(r, 8, 0, &workflow_member_layout);
    after = 0;
    for (uint64_t i = 0; i < members && reader_ok(r); i++)
        after = load_member(m, r, after);
    if (reader_ok(r)) load_counts(m, r);
    if (reader_ok(r)) load_lists(m, r);
}

static uint32_t check_list(const struct machine *m, enum workflow_list list)
{
    const struct workflows *t = &m->workflows;
    uint64_t listed = 0;
    uint32_t len = 0, before = 0;
    for (uint32_t w = t->first[list]; w; w = t->rows[w].next) {
        const struct workflow *row = &t->rows[w];
        CHECK(row->listed > listed && row->refs == 0 && row->prev == before);
        CHECK((row->state == WORKFLOW_OPEN) == (list == LIST_IDLE));
        CHECK(row->since <= m->now && row->listed <= t->listings);
        listed = row->listed;
        before = w;
        len++;
    }
    CHECK(t->last[list] == before);
    return len;
}

void workflows_check(const struct machine *m)
{
    const struct workflows *t = &m->workflows;
    CHECK(t->pending_len == 0 && t->by_seq.len == t->members_len && t->by_hash.len == t->used);
    uint64_t *open = memory_zeroed(t->len + (size_t)1, sizeof *open);
    uint32_t *refs = memory_zeroed(t->len + (size_t)1, sizeof *refs), used = 0, listed = 0;
    for (uint32_t i = 0; i < t->members_len; i++) {
        const struct workflow_member *member = &t->members[i];
        CHECK(map_find(&t->by_seq, member->seq) == i && is_live(m, member->seq));
        CHECK(member->ended == is_dead(m, member->seq));
        CHECK(member->ended || member->run == t->rows[member->row].run);
        open[member->row] += !member->ended;
        refs[member->row]++;
    }
    for (uint32_t w = 1; w < t->len; w++) {
        const struct workflow *row = &t->rows[w];
        if (row->id.len == 0) continue;
        used++;
        listed += row->listed > 0;
        CHECK(row->open == open[w] && row->refs == refs[w] && !row->pending);
        CHECK((row->listed > 0) == (row->refs == 0));
        CHECK(row->serial <= t->serial && row->run > 0);
        if (row->state == WORKFLOW_OPEN) CHECK(row->open > 0 || !row->saw_last);
        if (row->state != WORKFLOW_OPEN) CHECK(row->open == 0 && row->saw_last);
        if (row->state == WORKFLOW_COMPLETED) CHECK(row->failed == 0);
    }
    CHECK(used == t->used && check_list(m, LIST_ENDED) + check_list(m, LIST_IDLE) == listed);
    memory_free(open);
    memory_free(refs);
}
