// SPDX-License-Identifier: Apache-2.0
// A queue is deleted shard by shard. A deletion loses no dead letter that is on its way to another
// queue. After it no op has an effect, and every answer says so. Collectors finish the journal.
#include "check.h"

#include <inttypes.h>

void check_deletion(struct reference *g)
{
    if (g->counts[STATE_OUTBOUND] > 0)
        findings_add(&g->world->findings, "deleted",
                     "lane %u: slot %" PRIu64 ": deleted with letters on their way", g->lane,
                     g->slot);
}

void check_after_deletion(struct reference *g, const struct walk_op *o)
{
    // Letters that arrived: there are none. The last events can still be published.
    bool forgets = o->op->kind == OP_OUTBOX || o->op->kind == OP_PUBLISHED;
    if (o->op->kind == OP_PUBLISHED) walk_published(g, o);
    bool told = o->body.len == 0 || o->body.data[0] == REASON_DELETED || forgets;
    if (o->events_len > 0 || !told)
        findings_add(&g->world->findings, "deleted",
                     "lane %u: slot %" PRIu64 ": an op of kind %u takes effect after slot %" PRIu64
                     " deleted the queue",
                     g->lane, g->slot, o->op->kind, g->deleted_slot);
}

// Refused without an entry: the handle has folded the deletion.
bool deletion_was_seen(const struct reference *g, const struct node *n)
{
    return g->deleted_slot != 0 && journal_slot(n->journal) >= g->deleted_slot;
}

// Under the floor, and old enough to be dropped. A collector raises the floor first and drops the
// slots a moment later, so the healed phase goes on while there are such slots.
uint64_t slots_left(const struct world *w, const struct lane *l)
{
    int64_t old = w->now - w->mix.rules.retain_ms - MINUTE;
    uint64_t left = 0;
    for (uint64_t slot = 1; slot <= l->reference.floor; slot++) {
        const struct bucket_slot *s = bucket_slot(&l->bucket, slot);
        left += s && s->made_at < old;
    }
    return left;
}

// The floor is over the deletion, or all that is over it is one slot, and nothing old is left under
// it. Entries that a new owner writes after the deletion may stay.
void check_finished(struct world *w, const struct lane *l)
{
    const struct reference *g = &l->reference;
    bool over = g->floor >= g->deleted_slot || g->floor + 1 >= g->len;
    if (!l->finished || !over)
        findings_add(&w->findings, "liveness", "the journal of lane %u is never finished",
                     l->index);
    if (slots_left(w, l) > 0)
        findings_add(&w->findings, "liveness", "%" PRIu64 " slots of the deleted lane %u are left",
                     slots_left(w, l), l->index);
}
