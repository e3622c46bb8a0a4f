// SPDX-License-Identifier: Apache-2.0
// A queue is deleted shard by shard. Nothing is lost on its way to another queue by that; from then
// on nothing has an effect, and whoever asks is told so. Its journal is collected to the end.
#include "check.h"

#include <inttypes.h>

void check_deletion(struct ghost *g)
{
    if (g->counts[STATE_OUTBOUND] > 0)
        verdict_fail(&g->world->verdict, "deleted",
                     "lane %u: slot %" PRIu64 ": deleted with letters on their way", g->lane,
                     g->slot);
}

void check_after_deletion(struct ghost *g, const struct walk_op *o)
{
    bool forgets = o->op->kind == OP_OUTBOX; // letters that arrived: there are none
    bool told = o->body.len == 0 || o->body.data[0] == REASON_DELETED || forgets;
    if (o->events_len > 0 || !told)
        verdict_fail(&g->world->verdict, "deleted",
                     "lane %u: slot %" PRIu64 ": an op of kind %u takes effect after slot %" PRIu64
                     " deleted the queue",
                     g->lane, g->slot, o->op->kind, g->deleted_slot);
}

// Refused without an entry: the handle has folded the deletion.
bool deletion_was_seen(const struct ghost *g, const struct node *n)
{
    return g->deleted_slot != 0 && journal_slot(n->journal) >= g->deleted_slot;
}

static uint64_t slots_left(const struct lane *l)
{
    uint64_t left = 0;
    for (uint64_t slot = 1; slot <= l->ghost.len; slot++)
        left += bucket_slot(&l->bucket, slot) != NULL;
    return left;
}

void check_finished(struct world *w, const struct lane *l)
{
    if (!l->finished)
        verdict_fail(&w->verdict, "liveness", "the journal of lane %u is never finished", l->index);
    if (slots_left(l) > 8)
        verdict_fail(&w->verdict, "liveness", "%" PRIu64 " slots of the deleted lane %u are left",
                     slots_left(l), l->index);
}
