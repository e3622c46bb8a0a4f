// SPDX-License-Identifier: Apache-2.0
// Workflows: a run is announced before its first message, and once. Its counts add up. It ends when
// its last message was sent and all are terminal, then at once, and once. Every event of a message
// has its workflow. The publisher's cursor only rises, and no floor passes it.
#include "base/hash.h"
#include "check.h"

#include <inttypes.h>
#include <stdio.h>

static void wrong(struct reference *g, uint32_t i, const char *what)
{
    findings_add(&g->world->findings, "workflow", "lane %u: slot %" PRIu64 ": workflow f%u: %s",
                 g->lane, g->slot, i, what);
}

static uint32_t index_of(struct bytes id)
{
    bool known = id.len == 2 && id.data[0] == 'f' && id.data[1] >= '0' &&
                 id.data[1] < '0' + REFERENCE_WORKFLOWS;
    return known ? (uint32_t)(id.data[1] - '0') : NO_INDEX;
}

static bool is_live(const struct row *row)
{
    return row->state == STATE_READY || row->state == STATE_LOCKED || row->state == STATE_DEAD ||
           row->state == STATE_OUTBOUND;
}

static bool has_messages(const struct reference *g, uint32_t i)
{
    for (uint64_t k = 0; k < g->rows_len; k++)
        if (g->rows[k].workflow == i + 1 && is_live(&g->rows[k])) return true;
    return false;
}

static void began(struct reference *g, const struct event *e, uint32_t i)
{
    struct reference_workflow *w = &g->workflows[i];
    if (w->open) wrong(g, i, "it is submitted twice");
    bool forgotten = w->run > 0 && e->count == 1 && !has_messages(g, i);
    if (e->count != w->run + 1U && !forgotten) wrong(g, i, "the run has another number");
    *w = (struct reference_workflow){.run = (uint32_t)e->count, .open = true, .just_began = true};
}

static void ended(struct reference *g, const struct event *e, uint32_t i)
{
    struct reference_workflow *w = &g->workflows[i];
    bool failed = e->kind == EVENT_WORKFLOW_FAILED;
    if (!w->open || !w->saw_last || w->pending > 0) wrong(g, i, "it ends too early, or twice");
    if (failed != (w->failed > 0)) wrong(g, i, "it ends otherwise than its messages");
    if (e->count != (failed ? w->failed : w->done)) wrong(g, i, "its end has another count");
    w->open = false;
}

bool walk_workflow(struct reference *g, const struct event *e)
{
    bool end = e->kind == EVENT_WORKFLOW_COMPLETED || e->kind == EVENT_WORKFLOW_FAILED;
    if (!end && e->kind != EVENT_WORKFLOW_SUBMITTED) return false;
    uint32_t i = index_of(event_workflow(&g->events, e));
    if (i == NO_INDEX) {
        wrong(g, 0, "an event names no workflow");
    } else if (end) {
        ended(g, e, i);
    } else {
        began(g, e, i);
    }
    return true;
}

static void join(struct reference *g, struct row *row, uint32_t i)
{
    struct reference_workflow *w = &g->workflows[i];
    const struct lane *l = &g->world->life->lanes[g->lane];
    char id[4];
    (void)snprintf(id, sizeof id, "f%u", i);
    bool first = g->config.ordering_guarantee && !g->config.workflow_order;
    uint64_t shard = first ? 0 : hash64_of(bytes_str(id), 0) % l->birth.shards;
    if (l->birth.shards > 1 && shard != l->shard) wrong(g, i, "it is in another shard");
    if (!w->open) wrong(g, i, "a message before it is submitted");
    row->workflow = i + 1;
    row->run = w->run;
    w->pending++;
}

// With workflowOrder, the workflow is the scope of the order, also for dead letters.
void workflow_scope(const struct reference *g, struct row *row, const struct message *m)
{
    uint32_t i = index_of(m->workflow);
    if (g->config.workflow_order && m->group.len == 0 && i != NO_INDEX) row->group = 100 + i;
}

void workflow_sent(struct reference *g, struct row *row, const struct message *m)
{
    uint32_t i = index_of(m->workflow);
    if (i == NO_INDEX) return;
    join(g, row, i);
    g->workflows[i].saw_last = g->workflows[i].saw_last || m->workflow_last;
    g->workflows[i].just_began = false;
    workflow_scope(g, row, m);
}

// A message that dies fails its run until it is sent again. If the run was over, it is the last one
// of the next run.
void workflow_redriven(struct reference *g, struct row *row, const struct row *was)
{
    if (was->workflow == 0) return;
    struct reference_workflow *w = &g->workflows[was->workflow - 1];
    if (w->just_began)
        w->saw_last = true;
    else if (was->run == w->run)
        w->failed--;
    w->just_began = false;
    join(g, row, was->workflow - 1);
}

void workflow_moved(struct reference *g, const struct row *row, enum message_state to)
{
    if (row->workflow == 0) return;
    struct reference_workflow *w = &g->workflows[row->workflow - 1];
    bool open = row->state == STATE_READY || row->state == STATE_LOCKED;
    bool ends = to != STATE_READY && to != STATE_LOCKED;
    if (!open || !ends) return;
    w->pending--;
    w->done += to == STATE_PROCESSED;
    w->failed += to == STATE_DEAD || to == STATE_OUTBOUND;
    w->cancelled += to == STATE_PURGED || to == STATE_CANCELLED;
}

void check_workflow_ends(struct reference *g)
{
    for (uint32_t i = 0; i < REFERENCE_WORKFLOWS && g->deleted_slot == 0; i++) {
        const struct reference_workflow *w = &g->workflows[i];
        if (w->open && w->saw_last && w->pending == 0) wrong(g, i, "its end is not told");
    }
}

static void check_texts(struct reference *g, size_t events_from)
{
    for (size_t i = events_from; i < g->events.len; i++) {
        const struct event *e = &g->events.rows[i];
        const struct row *row = reference_row(g, e->seq);
        uint32_t named = index_of(event_workflow(&g->events, e)) + 1; // NO_INDEX: 0
        bool late = e->kind == EVENT_OUTCOME_REJECTED || e->kind == EVENT_LOCK_RENEWAL_REJECTED;
        bool right = !row || named == row->workflow || (late && named == 0);
        if (!right) wrong(g, row->workflow - 1, "an event does not name it");
    }
}

void check_workflows(struct reference *g, size_t events_from)
{
    if (!g->world->life->workflows) return;
    check_texts(g, events_from);
    for (uint32_t i = 0; i < REFERENCE_WORKFLOWS && g->deleted_slot == 0; i++) {
        const struct reference_workflow *w = &g->workflows[i];
        struct workflow_view v;
        char id[4];
        (void)snprintf(id, sizeof id, "f%u", i);
        if (!machine_workflow(g->machine, bytes_str(id), &v)) {
            if (w->pending > 0 || has_messages(g, i)) wrong(g, i, "it is forgotten");
            continue;
        }
        if (v.open != w->pending || v.done != w->done || v.failed != w->failed ||
            v.cancelled != w->cancelled || v.run != w->run || (v.state == WORKFLOW_OPEN) != w->open)
            wrong(g, i, "the counts do not add up");
    }
}

// By rules of its own: what the owner reports counts, and only forward.
void walk_published(struct reference *g, const struct walk_op *o)
{
    struct op_published op;
    if (o->body.len == 0 || published_decode(o->op->payload, &op)) return;
    bool applied = o->body.data[0] == REASON_NONE;
    bool forward = op.slot >= g->cursor_slot && op.sequence >= g->cursor_sequence;
    if (applied && o->entry->epoch == 0) wrong(g, 0, "a report that is not the owner's counts");
    if (applied && !g->published_slot) g->published_slot = g->slot;
    if (applied && forward) {
        g->cursor_slot = op.slot;
        g->cursor_sequence = op.sequence;
    }
    uint64_t slot, sequence;
    bool published = machine_published(g->machine, &slot, &sequence);
    // The machine is at the end of the entry, which may have more reports.
    if (slot < g->cursor_slot || sequence < g->cursor_sequence ||
        published != (g->published_slot != 0))
        wrong(g, 0, "the cursor went back");
}

// With publish=hold, all events up to the floor are published. Until the first report of a shard,
// the floor rises freely: a floor of that time may be made later.
void check_floor_published(struct reference *g)
{
    bool holds = g->config.publish == PUBLISH_HOLD && g->deleted_slot == 0;
    if (!holds || !g->published_slot || g->floor <= g->published_slot) return;
    const struct reference_slot *s = reference_at(g, g->floor);
    if (s && s->events_end > g->cursor_sequence)
        findings_add(&g->world->findings, "I8",
                     "lane %u: the floor %" PRIu64 " passes the publisher's cursor at %" PRIu64,
                     g->lane, g->floor, g->cursor_slot);
}
