// SPDX-License-Identifier: Apache-2.0
// An entry in the order in which it happened: what time did first, each op with its result and its
// events, and what time did after. An op whose request id has been answered before must do nothing
// and answer the same.
#include "base/check.h"
#include "base/memory.h"
#include "check.h"

#include <inttypes.h>

static void odd_event(struct reference *g, const struct event *e, const char *what)
{
    findings_add(&g->world->findings, "I9",
                 "lane %u: slot %" PRIu64 ": %s of message %" PRIu64 ": %s", g->lane, e->slot,
                 event_name(e->kind), e->seq, what);
}

static void on_expired(struct reference *g, const struct event *e)
{
    struct row *row = reference_row(g, e->seq);
    if (!row || row->state != STATE_LOCKED || row->ticket) {
        odd_event(g, e, "it is not locked");
        return;
    }
    check_expiry(g, row, e->seq);
    check_attempts(g, row, e->seq, e->deliveries, e->retries);
    const struct reference_signal *in = signals_interrupt(g, row);
    g->expired++;
    row->expired_slot = g->slot;
    g->dying_as = OUTCOME_DEAD_LETTERED;
    if (in) {
        g->dying_as = signals_stop(g, row, in);
        g->dying = e->seq;
        return;
    }
    struct route r = check_route(g, row, false);
    walk_ended(g, row, &r, BYTES_EMPTY, false);
    if (r.state != STATE_READY) g->dying = e->seq;
    if (r.counted) g->retrying = e->seq;
}

void walk_recovered(struct reference *g, const struct event *e)
{
    struct row *row = reference_row(g, e->seq);
    if (!row || row->state != STATE_LOCKED || !row->ticket) {
        odd_event(g, e, "it is no ticket");
        return;
    }
    row->expired_slot = row->deadline <= g->now ? g->slot : 0;
    row->ready_at = 0;
    reference_move(g, row, STATE_READY);
    row->ticket = false;
}

static void on_time(struct reference *g, const struct event *e)
{
    if (signals_event(e)) {
        signals_told(g, e);
        return;
    }
    bool told = e->kind == EVENT_MESSAGE_OUTCOME && e->seq == g->dying;
    bool retries = e->kind == EVENT_MESSAGE_OUTCOME && e->seq == g->retrying;
    if (g->dying != 0 && !told) odd_event(g, e, "a death was not told");
    if (g->retrying != 0 && !retries) odd_event(g, e, "a retry was not told");
    if (e->kind == EVENT_LOCK_EXPIRED) {
        on_expired(g, e);
    } else if (e->kind == EVENT_TICKETS_RECOVERED) {
        walk_recovered(g, e);
    } else if (told && e->status == g->dying_as) {
        g->dying = 0;
    } else if (retries && e->status == OUTCOME_RETRYING) {
        g->retrying = 0;
    } else if (!walk_workflow(g, e)) {
        odd_event(g, e, "time does not do that");
    }
}

static void on_repeat(struct reference *g, const struct walk_op *o, const struct seen *seen)
{
    if (o->events_len + o->signals_len > 0)
        findings_add(&g->world->findings, "I2",
                     "lane %u: a request id takes effect again in slot %" PRIu64
                     " (kind %u, then %u)",
                     g->lane, g->slot, seen->kind, o->op->kind);
    if (seen->kind == o->op->kind && !bytes_equal(seen->body, o->body))
        findings_add(&g->world->findings, "I2",
                     "lane %u: a request id gets another answer in slot %" PRIu64, g->lane,
                     g->slot);
}

static void on_op(struct reference *g, const struct walk_op *o)
{
    struct request_id id;
    bool named = op_request(o->op, &id) && request_id_set(&id);
    const struct seen *seen = named ? reference_seen(g, &id) : NULL;
    check_committed(g, o->entry, o);
    check_joined(g, o);
    if (seen) {
        on_repeat(g, o, seen);
        return;
    }
    if (o->body.len > 0) check_epoch(g, o->entry, o->op, (enum reason)o->body.data[0]);
    if (g->deleted_slot != 0) {
        check_after_deletion(g, o);
    } else {
        walk_op(g, o);
        for (size_t i = 0; i < o->signals_len; i++)
            signals_told(g, &o->signals[i]);
        for (size_t i = 0; i < o->events_len; i++)
            if (o->events[i].kind != EVENT_WORKFLOW_SUBMITTED)
                (void)walk_workflow(g, &o->events[i]);
        check_workflow_ends(g);
    }
    bool claims = op_is_claim(o->op->kind);
    bool refused = o->events_len > 0 && o->events[0].kind == EVENT_CLAIM_REJECTED;
    bool empty = claims && (o->events_len == 0 || refused); // not worth remembering
    if (named && !empty) reference_remember(g, &id, o->op->kind, o->body);
}

static bool is_of(const struct reference *g, size_t at, uint32_t op)
{
    return at < g->events.len && g->events.rows[at].op == op;
}

static void walk_one(struct reference *g, const struct entry *e, uint32_t i,
                     const struct op_result *result, size_t *at)
{
    struct walk_op o = {.entry = e, .op = &e->ops[i], .index = i};
    if (result->body_len > 0) o.body = bytes_of(g->text.data + result->body_at, result->body_len);
    size_t from = *at;
    while (is_of(g, *at, i))
        ++*at;
    struct event *rows = memory_new((*at - from + 1) * sizeof *rows);
    for (size_t k = from; k < *at; k++)
        if (!signals_event(&g->events.rows[k])) rows[o.events_len++] = g->events.rows[k];
    o.events = rows;
    o.signals = rows + o.events_len;
    for (size_t k = from; k < *at; k++)
        if (signals_event(&g->events.rows[k]))
            rows[o.events_len + o.signals_len++] = g->events.rows[k];
    on_op(g, &o);
    memory_free(rows);
}

// If the ops have no events, those of the time before and after them are one row. Only a lock that
// an answer to a signal or the repeat of an outcome reached in time ends after such ops.
static bool is_after_ops(struct reference *g, const struct entry *e, const struct event *event)
{
    const struct row *row = reference_row(g, event->seq);
    if (event->kind != EVENT_LOCK_EXPIRED || !row) return false;
    for (size_t i = 0; i < e->ops_len; i++)
        if (signals_hold_lock(g, &e->ops[i], row)) return true;
    return false;
}

void walk_entry(struct reference *g, const struct entry *e, const struct op_result *results,
                size_t events_from)
{
    size_t at = events_from;
    g->dying = g->retrying = 0;
    g->dry = g->ownerless = false;
    g->expired = 0;
    for (; is_of(g, at, EVENT_OP_TIME) && !is_after_ops(g, e, &g->events.rows[at]); at++)
        on_time(g, &g->events.rows[at]);
    check_workflow_ends(g);
    for (uint32_t i = 0; i < e->ops_len; i++)
        if (e->ops[i].kind >= OP_KIND_MACHINE) walk_one(g, e, i, &results[i], &at);
    for (; is_of(g, at, EVENT_OP_TIME); at++)
        on_time(g, &g->events.rows[at]);
    check_workflow_ends(g);
    fleet_expire(g);
    if (at != g->events.len) odd_event(g, &g->events.rows[at], "no op did that");
    if (g->dying != 0 || g->retrying != 0)
        findings_add(&g->world->findings, "I9", "lane %u: slot %" PRIu64 ": a death was not told",
                     g->lane, g->slot);
}
