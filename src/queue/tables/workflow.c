// SPDX-License-Identifier: Apache-2.0
// Workflows: messages with the same id are counted together. A run of a workflow begins with its
// first message. It ends when a message that is marked as the last was sent and none is open.
//
// clang-format off
//     (none) --first message--> OPEN --the last was sent, none is open--> COMPLETED, FAILED
//                                 ^                                             |
//                                 '------ a further message: the next run ------'
// clang-format on
//
// Each message of a workflow has a row of 16 bytes as long as it exists. A message without a
// workflow costs one test of a number.
//
// The ends of an op are settled together, by the number of the row. So events and lists do not
// depend on the order in which an op goes through its messages.
#include "queue/tables/workflow.h"

#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

#include <stdlib.h>
#include <string.h>

static const char *const state_names[WORKFLOW_STATE_COUNT] = {"open", "completed", "failed"};

const char *workflow_state_name(enum workflow_state state)
{
    CHECK((unsigned)state < WORKFLOW_STATE_COUNT);
    return state_names[state];
}

#define LAYOUT_OF struct workflow
static const struct layout_field workflow_fields[] = {
    BYTES(id, .min = 1, .max = MESSAGE_WORKFLOW_MAX),
    U64(serial, .min = 1),
    U64(open),
    U64(done),
    U64(failed),
    U64(cancelled),
    I64(begun),
    I64(seen),
    I64(since),
    U64(listed),
    U32(run, .min = 1, .max = WORKFLOW_RUN_MAX),
    ENUM(state, WORKFLOW_STATE_COUNT),
    FLAG(saw_last),
};
const struct layout workflow_layout = LAYOUT(workflow_fields);
#undef LAYOUT_OF

uint64_t workflow_hash(const struct workflow *w)
{
    return layout_flat_hash(&workflow_layout, 0, w);
}

static uint64_t workflow_member_hash(const struct machine *m, const struct workflow_member *member)
{
    uint64_t serial = m->workflows.rows[member->row].serial;
    return mix(mix(mix(0x776f726bu, member->seq), serial),
               (uint64_t)member->run << 1 | member->ended);
}

static uint32_t find(const struct machine *m, struct bytes id)
{
    const struct workflows *t = &m->workflows;
    uint64_t hash = hash64_of(id, 0);
    uint32_t w;
    for (size_t at = map_first(&t->by_hash, hash);
         (w = map_value(&t->by_hash, hash, &at)) != MAP_NONE;)
        if (bytes_equal((t->rows[w]).id, id)) return w;
    return 0;
}

static uint32_t member_find(const struct machine *m, uint64_t seq)
{
    const struct workflows *t = &m->workflows;
    uint32_t at = t->members_len > 0 ? map_find(&t->by_seq, seq) : MAP_NONE;
    CHECK(at == MAP_NONE || (at < t->members_len && t->members[at].seq == seq));
    return at;
}

struct bytes workflow_of(const struct machine *m, uint64_t seq)
{
    uint32_t at = member_find(m, seq);
    if (at == MAP_NONE) return BYTES_EMPTY;
    return (m->workflows.rows[m->workflows.members[at].row]).id;
}

// The rows that may be dropped are in two lists: ended ones, and ones that wait for a message.

static enum workflow_list list_of(const struct workflow *w)
{
    CHECK(w->state < WORKFLOW_STATE_COUNT);
    return w->state == WORKFLOW_OPEN ? LIST_IDLE : LIST_ENDED;
}

void workflow_list_add(struct machine *m, uint32_t w)
{
    struct workflows *t = &m->workflows;
    enum workflow_list list = list_of(&t->rows[w]);
    struct workflow *row = &t->rows[w];
    CHECK(row->listed > 0 && row->refs == 0);
    CHECK(!t->last[list] || t->rows[t->last[list]].listed < row->listed);
    row->prev = t->last[list];
    row->next = 0;
    *(t->last[list] ? &t->rows[t->last[list]].next : &t->first[list]) = w;
    t->last[list] = w;
}

// The caller has removed the row from the digest.
static void list_remove(struct machine *m, uint32_t w)
{
    struct workflows *t = &m->workflows;
    struct workflow *row = &t->rows[w];
    enum workflow_list list = list_of(row);
    CHECK(row->listed > 0);
    *(row->prev ? &t->rows[row->prev].next : &t->first[list]) = row->next;
    *(row->next ? &t->rows[row->next].prev : &t->last[list]) = row->prev;
    row->prev = row->next = 0;
    row->listed = 0;
    row->since = 0;
}

static void row_drop(struct machine *m, uint32_t w)
{
    struct workflows *t = &m->workflows;
    struct workflow *row = &t->rows[w];
    CHECK(row->refs == 0 && row->open == 0 && t->used > 0);
    m->digest -= workflow_hash(row);
    if (row->listed) list_remove(m, w);
    map_remove(&t->by_hash, row->hash, w);
    bytes_free(row->id);
    *row = (struct workflow){.next = t->free};
    t->free = w;
    t->used--;
}

// The new row is not in the digest.
uint32_t workflow_row_new(struct machine *m, struct bytes id)
{
    struct workflows *t = &m->workflows;
    CHECK(id.len > 0 && id.len <= MESSAGE_WORKFLOW_MAX && t->used < WORKFLOWS_MAX);
    uint32_t w = t->free;
    if (w) {
        t->free = t->rows[w].next;
    } else {
        if (t->len == 0) t->len = 1; // row 0 is none
        (void)ARRAY_ROOM(t->rows, t->len, t->cap, 1);
        w = t->len++;
    }
    struct workflow *row = &t->rows[w];
    *row = (struct workflow){.hash = hash64_of(id, 0), .id = bytes_copy(id)};
    map_add(&t->by_hash, row->hash, w);
    t->used++;
    return w;
}

bool workflow_has_room(const struct machine *m, struct bytes id)
{
    const struct workflows *t = &m->workflows;
    CHECK(t->used <= WORKFLOWS_MAX);
    return t->used < WORKFLOWS_MAX || t->first[LIST_ENDED] || t->first[LIST_IDLE] || find(m, id);
}

enum reason workflow_admit(const struct machine *m, const struct message *msg)
{
    const struct queue_config *c = &m->config;
    if (c->workflow_order && msg->group.len > 0) return REASON_WORKFLOW_ORDER_GROUP;
    if (msg->workflow.len == 0)
        return msg->workflow_last ? REASON_LAST_WITHOUT_WORKFLOW : REASON_NONE;
    if (c->shards == 1) return REASON_NONE;
    if (msg->group.len > 0) return REASON_WORKFLOW_GROUP;
    bool first = is_strict(m) && !c->workflow_order; // messages without a group are in one shard
    uint32_t shard = first ? 0 : (uint32_t)(hash64_of(msg->workflow, 0) % c->shards);
    return shard == m->shard || MUTANT(WORKFLOW_ANY_SHARD) ? REASON_NONE : REASON_WORKFLOW_SHARD;
}

static void emit_row(struct machine *m, enum event_kind kind, const struct workflow *row,
                     uint64_t count)
{
    struct event *e = emit(m, kind, 0);
    if (!e) return;
    e->count = count;
    e->key = EVENT_KEY_WORKFLOW;
    emit_workflow(m, e, row->id);
}

static void begin_run(struct machine *m, struct workflow *row, bool saw_last)
{
    CHECK(row->open == 0);
    if (row->run < WORKFLOW_RUN_MAX) row->run++; // all runs after the last number have that number
    row->done = row->failed = row->cancelled = 0;
    row->saw_last = saw_last;
    row->state = WORKFLOW_OPEN;
    row->begun = m->now;
    if (!MUTANT(WORKFLOW_UNANNOUNCED)) emit_row(m, EVENT_WORKFLOW_SUBMITTED, row, row->run);
}

static uint32_t row_need(struct machine *m, struct bytes id)
{
    struct workflows *t = &m->workflows;
    uint32_t w = find(m, id);
    if (w) {
        m->digest -= workflow_hash(&t->rows[w]);
        return w;
    }
    // The row that ended longest ago makes room, else the one that waits longest.
    if (t->used == WORKFLOWS_MAX) {
        CHECK(t->first[LIST_ENDED] || t->first[LIST_IDLE]); // workflow_has_room was asked
        row_drop(m, t->first[LIST_ENDED] ? t->first[LIST_ENDED] : t->first[LIST_IDLE]);
    }
    w = workflow_row_new(m, id);
    t->rows[w].serial = ++t->serial;
    return w;
}

void workflow_member_add(struct machine *m, const struct workflow_member *member)
{
    struct workflows *t = &m->workflows;
    CHECK(map_find(&t->by_seq, member->seq) == MAP_NONE);
    map_add(&t->by_seq, member->seq, t->members_len);
    *ARRAY_ADD(t->members, t->members_len, t->members_cap) = *member;
    t->rows[member->row].refs++;
    m->digest += workflow_member_hash(m, member);
}

// The last member moves to the place of the dropped one.
static void member_drop(struct machine *m, uint32_t at)
{
    struct workflows *t = &m->workflows;
    CHECK(at < t->members_len && t->rows[t->members[at].row].refs > 0);
    m->digest -= workflow_member_hash(m, &t->members[at]);
    t->rows[t->members[at].row].refs--;
    map_remove(&t->by_seq, t->members[at].seq, at);
    uint32_t last = --t->members_len;
    if (at == last) return;
    map_remove(&t->by_seq, t->members[last].seq, last);
    t->members[at] = t->members[last];
    map_add(&t->by_seq, t->members[at].seq, at);
}

// A new message, or a dead one that is sent again, enters the run.
static void enter_run(struct machine *m, uint32_t w, uint64_t seq, bool last, bool counted)
{
    struct workflow *row = &m->workflows.rows[w];
    if (row->listed) list_remove(m, w);
    if (row->run == 0 || row->state != WORKFLOW_OPEN) {
        begin_run(m, row, last);
    } else if (counted) {
        CHECK(row->failed > 0 || row->run == WORKFLOW_RUN_MAX);
        row->failed -= row->failed > 0;
    }
    row->saw_last = row->saw_last || last;
    row->open++;
    row->seen = m->now;
    m->digest += workflow_hash(row);
    workflow_member_add(
        m, &(struct workflow_member){.seq = seq, .row = w & WORKFLOW_ROW_MASK, .run = row->run});
}

void workflow_join(struct machine *m, uint64_t seq, struct bytes id, bool last)
{
    CHECK(id.len > 0);
    enter_run(m, row_need(m, id), seq, last && !MUTANT(WORKFLOW_LAST_OFF), false);
}

// The message is dead: its end counts for its run. If that run is over, its next run begins, and it
// ends with this message.
void workflow_redrive(struct machine *m, uint64_t from, uint64_t to)
{
    uint32_t at = member_find(m, from);
    if (at == MAP_NONE) return;
    struct workflow_member was = m->workflows.members[at];
    CHECK(was.ended);
    member_drop(m, at);
    struct workflow *row = &m->workflows.rows[was.row];
    m->digest -= workflow_hash(row);
    bool over = row->state != WORKFLOW_OPEN;
    enter_run(m, was.row, to, over, was.run == row->run);
}

static void note_pending(struct machine *m, uint32_t w)
{
    struct workflows *t = &m->workflows;
    CHECK(w > 0 && w < t->len && t->pending_len <= t->pending_cap);
    if (t->rows[w].pending) return;
    t->rows[w].pending = true;
    *ARRAY_ADD(t->pending, t->pending_len, t->pending_cap) = w;
}

static void note_end(struct machine *m, uint32_t at, enum workflow_end end)
{
    struct workflow_member *member = &m->workflows.members[at];
    struct workflow *row = &m->workflows.rows[member->row];
    if (member->ended) return;
    CHECK(member->run == row->run && row->open > 0 && row->state == WORKFLOW_OPEN);
    m->digest -= workflow_hash(row) + workflow_member_hash(m, member);
    member->ended = 1;
    row->open--;
    row->seen = m->now;
    if (end == WORKFLOW_DONE || (end == WORKFLOW_DIED && MUTANT(WORKFLOW_FAILED_IS_DONE)))
        row->done++;
    else if (end == WORKFLOW_DIED)
        row->failed++;
    else
        row->cancelled++;
    m->digest += workflow_hash(row) + workflow_member_hash(m, member);
    note_pending(m, member->row);
}

void workflow_note_end(struct machine *m, uint64_t seq, enum workflow_end end)
{
    CHECK(end == WORKFLOW_DONE || end == WORKFLOW_DIED || end == WORKFLOW_PURGED);
    uint32_t at = member_find(m, seq);
    if (at != MAP_NONE) note_end(m, at, end);
}

void workflow_leave(struct machine *m, uint64_t seq)
{
    uint32_t at = member_find(m, seq);
    if (at == MAP_NONE) return;
    note_end(m, at, WORKFLOW_PURGED); // every other end was noted
    CHECK(m->workflows.members[at].ended);
    note_pending(m, m->workflows.members[at].row);
    member_drop(m, at);
}

void workflows_purge_backlog(struct machine *m)
{
    for (uint32_t i = m->workflows.members_len; i-- > 0;)
        if (backlog_find(m, m->workflows.members[i].seq))
            workflow_leave(m, m->workflows.members[i].seq);
}

static void end_run(struct machine *m, struct workflow *row)
{
    CHECK(row->open == 0 || MUTANT(WORKFLOW_ENDS_EARLY));
    row->state = row->failed > 0 ? WORKFLOW_FAILED : WORKFLOW_COMPLETED;
    bool failed = row->state == WORKFLOW_FAILED;
    emit_row(m, failed ? EVENT_WORKFLOW_FAILED : EVENT_WORKFLOW_COMPLETED, row,
             failed ? row->failed : row->done);
}

static void settle(struct machine *m, uint32_t w)
{
    struct workflows *t = &m->workflows;
    struct workflow *row = &t->rows[w];
    CHECK(row->id.len > 0 && row->pending); // a row that waits to be settled is not dropped
    row->pending = false;
    m->digest -= workflow_hash(row);
    bool over = row->open == 0 || (MUTANT(WORKFLOW_ENDS_EARLY) && row->open == 1);
    if (row->state == WORKFLOW_OPEN && row->saw_last && over) end_run(m, row);
    bool lists = row->refs == 0 && row->listed == 0;
    if (lists) {
        row->listed = ++t->listings;
        row->since = m->now;
    }
    m->digest += workflow_hash(row);
    if (lists) workflow_list_add(m, w);
}

void workflows_settle(struct machine *m)
{
    struct workflows *t = &m->workflows;
    if (t->pending_len == 0) return;
    struct numbered_row *rows = memory_new(t->pending_len * sizeof *rows);
    uint32_t len = t->pending_len;
    for (uint32_t i = 0; i < len; i++)
        rows[i] = (struct numbered_row){t->rows[t->pending[i]].serial, t->pending[i]};
    t->pending_len = 0;
    rows_sort(rows, len, sizeof *rows);
    for (uint32_t i = 0; i < len; i++)
        settle(m, rows[i].at);
    CHECK(t->pending_len == 0); // an end of a run ends no message
    memory_free(rows);
}

static bool is_due(const struct machine *m, enum workflow_list list)
{
    const struct workflows *t = &m->workflows;
    CHECK(!t->first[list] == !t->last[list]);
    if (!t->first[list]) return false;
    int64_t keep = list == LIST_ENDED ? m->config.retention_ms : WORKFLOW_IDLE_KEEP_MS;
    return t->rows[t->first[list]].since + keep <= m->now;
}

bool workflows_due(const struct machine *m)
{
    return is_due(m, LIST_ENDED) || is_due(m, LIST_IDLE);
}

void workflows_expire(struct machine *m)
{
    for (int list = 0; list < LIST_COUNT; list++)
        while (is_due(m, (enum workflow_list)list))
            row_drop(m, m->workflows.first[list]);
}

void workflows_clear(struct machine *m)
{
    struct workflows *t = &m->workflows;
    for (uint32_t w = 1; w < t->len; w++)
        bytes_free(t->rows[w].id);
    memory_free(t->rows);
    memory_free(t->members);
    memory_free(t->pending);
    memory_free(t->ended);
    map_done(&t->by_hash);
    map_done(&t->by_seq);
    *t = (struct workflows){0};
}

void workflows_drop_all(struct machine *m)
{
    struct workflows *t = &m->workflows;
    CHECK(t->members_len == 0); // the messages were purged
    for (uint32_t i = 0; i < t->pending_len; i++)
        t->rows[t->pending[i]].pending = false;
    t->pending_len = 0;
    for (uint32_t w = 1; w < t->len; w++)
        if (t->rows[w].id.len > 0) row_drop(m, w);
    CHECK(t->used == 0 && t->by_hash.len == 0);
}

static void view_of(const struct workflow *row, struct workflow_view *out)
{
    CHECK(row->state < WORKFLOW_STATE_COUNT);
    *out = (struct workflow_view){.id = row->id,
                                  .number = row->serial,
                                  .state = (enum workflow_state)row->state,
                                  .open = row->open,
                                  .done = row->done,
                                  .failed = row->failed,
                                  .cancelled = row->cancelled,
                                  .run = row->run,
                                  .begun = row->begun,
                                  .seen = row->seen,
                                  .saw_last = row->saw_last};
}

bool machine_workflow(const struct machine *m, struct bytes id, struct workflow_view *out)
{
    uint32_t w = id.len > 0 ? find(m, id) : 0;
    if (w) view_of(&m->workflows.rows[w], out);
    return w != 0;
}

// Keeps the max smallest numbers in a sorted list: max is small.
size_t machine_workflows(const struct machine *m, uint64_t after, struct workflow_view *out,
                         size_t max)
{
    const struct workflows *t = &m->workflows;
    size_t len = 0;
    for (uint32_t w = 1; w < t->len && max > 0; w++) {
        const struct workflow *row = &t->rows[w];
        if (row->id.len == 0 || row->serial <= after) continue;
        if (len == max && row->serial > out[len - 1].number) continue;
        size_t at = len < max ? len++ : len - 1;
        for (; at > 0 && out[at - 1].number > row->serial; at--)
            out[at] = out[at - 1];
        view_of(row, &out[at]);
    }
    CHECK(len <= max);
    return len;
}

size_t machine_workflow_messages(const struct machine *m, struct bytes id, uint64_t *out,
                                 size_t max)
{
    const struct workflows *t = &m->workflows;
    uint32_t w = id.len > 0 ? find(m, id) : 0;
    size_t len = 0;
    for (uint32_t i = 0; w && i < t->members_len && max > 0; i++) {
        uint64_t seq = t->members[i].seq;
        if (t->members[i].row != w || (len == max && seq > out[len - 1])) continue;
        size_t at = len < max ? len++ : len - 1;
        for (; at > 0 && out[at - 1] > seq; at--)
            out[at] = out[at - 1];
        out[at] = seq;
    }
    CHECK(len <= max);
    return len;
}

size_t workflow_unfinished(const struct machine *m, struct bytes id, uint64_t *out)
{
    const struct workflows *t = &m->workflows;
    uint32_t w = id.len > 0 ? find(m, id) : 0;
    size_t len = 0;
    for (uint32_t i = 0; w && i < t->members_len; i++)
        if (t->members[i].row == w && !t->members[i].ended) out[len++] = t->members[i].seq;
    CHECK(len <= t->members_len);
    return len;
}

uint32_t machine_workflow_count(const struct machine *m)
{
    CHECK(m->workflows.used <= WORKFLOWS_MAX);
    return m->workflows.used;
}
