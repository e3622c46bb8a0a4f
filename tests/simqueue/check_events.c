// SPDX-License-Identifier: Apache-2.0
// I9: within a slot the events of an op, and those of time, are numbered from 0 without a gap, so
// ids are unique; every handle reports the reference model's events, all of them, from where it
// began; and a fold of the whole history from the beginning reports them once more.
#include "base/check.h"
#include "base/memory.h"
#include "check.h"

#include <inttypes.h>

void check_event_ids(struct reference *g, size_t from)
{
    for (size_t i = from; i < g->events.len; i++) {
        const struct event *e = &g->events.rows[i];
        uint32_t before = 0;
        for (size_t k = from; k < i; k++)
            before += g->events.rows[k].op == e->op;
        uint64_t last = i > 0 ? g->events.rows[i - 1].sequence : 0;
        uint64_t next = last + 1;
        if (e->sequence != next)
            findings_add(&g->world->findings, "I9",
                         "lane %u: slot %" PRIu64 ": event %zu is number %" PRIu64
                         " of the shard instead of %" PRIu64,
                         g->lane, g->slot, i - from, e->sequence, next);
        if (e->slot != g->slot || e->n != before)
            findings_add(&g->world->findings, "I9",
                         "lane %u: slot %" PRIu64 ": event %zu has number %u instead of %u",
                         g->lane, g->slot, i - from, e->n, before);
    }
}

static bool same(const struct events *a, const struct event *x, const struct events *b,
                 const struct event *y)
{
    return x->slot == y->slot && x->op == y->op && x->n == y->n && x->kind == y->kind &&
           x->status == y->status && x->reason == y->reason && x->at == y->at && x->seq == y->seq &&
           x->place.slot == y->place.slot && x->place.skip == y->place.skip &&
           x->deliveries == y->deliveries && x->retries == y->retries && x->fence == y->fence &&
           x->until == y->until && x->order == y->order && x->count == y->count &&
           x->sequence == y->sequence && x->from == y->from &&
           bytes_equal(event_worker(a, x), event_worker(b, y)) &&
           bytes_equal(event_failure_text(a, x), event_failure_text(b, y)) &&
           bytes_equal(event_workflow(a, x), event_workflow(b, y)) && x->key == y->key &&
           x->group == y->group;
}

void check_events_heard(struct world *w, struct node *n)
{
    struct handle *h = &w->life->handles[n->index];
    const struct reference *g = &w->life->lanes[h->lane].reference;
    const struct events *heard = shard_events(h->shard);
    for (size_t i = 0; i < heard->len; i++) {
        size_t at = h->events_at++;
        if (at >= g->events.len || !same(heard, &heard->rows[i], &g->events, &g->events.rows[at])) {
            findings_add(&w->findings, "I9",
                         "n%u.%u tells another event than the history's number %zu", n->index,
                         n->life, at);
            return;
        }
    }
    const struct reference_slot *s = reference_at(g, journal_slot(n->journal));
    if (s && h->events_at != s->events_end)
        findings_add(&w->findings, "I9", "n%u.%u at slot %" PRIu64 " has told %zu events of %zu",
                     n->index, n->life, journal_slot(n->journal), h->events_at, s->events_end);
    shard_events_taken(h->shard);
}

static void fold_slot(struct machine *m, const struct reference_slot *s, int64_t *now,
                      struct events *events)
{
    struct entry e;
    const char *why;
    CHECK(entry_decode(s->bytes, &e, &why) == ERR_OK);
    if (e.time.lo > *now) *now = e.time.lo;
    struct machine_entry view = {.slot = e.slot,
                                 .time = e.time,
                                 .now = *now,
                                 .epoch = e.epoch,
                                 .bytes = s->bytes,
                                 .ops = e.ops,
                                 .ops_len = e.ops_len};
    if (!s->is_void) machine_apply(m, &view, NULL, NULL, events);
    entry_done(&e);
}

void check_events_again(struct reference *g)
{
    const struct lane *l = &g->world->life->lanes[g->lane];
    struct machine *m = machine_new(&l->id, l->shard, &l->birth);
    struct events events;
    events_init(&events);
    int64_t now = TIME_UNKNOWN;
    for (uint64_t i = 0; i < g->len; i++)
        fold_slot(m, &g->slots[i], &now, &events);
    bool equal = events.len == g->events.len && machine_digest(m) == machine_digest(g->machine);
    for (size_t i = 0; i < events.len && equal; i++)
        equal = same(&events, &events.rows[i], &g->events, &g->events.rows[i]);
    if (!equal)
        findings_add(&g->world->findings, "I9",
                     "lane %u: a fold from the beginning tells other events", g->lane);
    events_done(&events);
    machine_free(m);
}
