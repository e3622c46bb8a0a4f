// SPDX-License-Identifier: Apache-2.0
// I1: after slot n every handle has the reference machine's state and the same whole state. I7:
// every handle has the epoch of the slot, and an entry of a former owner changes nothing. With
// consume=owner, only an entry of the owner's epoch grants anything.
#include "check.h"

#include <inttypes.h>

static void compare(struct world *w, struct node *n, uint64_t slot)
{
    struct handle *h = &w->life->handles[n->index];
    struct reference *g = &w->life->lanes[h->lane].reference;
    struct reference_slot *s = &g->slots[slot - 1];
    uint64_t digest = journal_digest(n->journal);
    if (s->first_digest == 0) s->first_digest = digest;
    bool machine_differs = machine_digest(shard_machine(h->shard)) != s->machine_digest;
    if (s->is_void && machine_differs)
        findings_add(&w->findings, "I7",
                     "n%u.%u lets slot %" PRIu64 " of a stale epoch take effect", n->index, n->life,
                     slot);
    if (journal_epoch(n->journal) != s->epoch)
        findings_add(&w->findings, "I7",
                     "n%u.%u is at epoch %" PRIu64 " after slot %" PRIu64 ", which has %" PRIu64,
                     n->index, n->life, journal_epoch(n->journal), slot, s->epoch);
    if (slot == g->len && w->steps % 16 == 0) check_ends(g, shard_machine(h->shard));
    if (machine_differs)
        findings_add(&w->findings, "I1", "n%u.%u has another machine after slot %" PRIu64, n->index,
                     n->life, slot);
    if (s->first_digest != digest)
        findings_add(&w->findings, "I1", "n%u.%u has another state after slot %" PRIu64, n->index,
                     n->life, slot);
}

void check_state(struct world *w, struct node *n)
{
    struct handle *h = &w->life->handles[n->index];
    const char *why = NULL;
    uint64_t slot = journal_slot(n->journal);
    check_rules(w, n);
    if (is_stopped(w, n)) {
        releases_stopped(w, n);
    } else if (journal_halted(n->journal, &why)) {
        findings_add(&w->findings, "I1", "n%u.%u halted on an honest store: %s", n->index, n->life,
                     why);
    } else if (slot > w->life->lanes[h->lane].reference.len) {
        findings_add(&w->findings, "I1", "n%u.%u is at slot %" PRIu64 ", past the history",
                     n->index, n->life, slot);
    } else if (slot > 0) {
        compare(w, n, slot);
        if (w->steps % 64 == 0) machine_check(shard_machine(h->shard));
    }
}

void check_epoch(struct reference *g, const struct entry *e, const struct op *op,
                 enum reason reason)
{
    bool claims = op_is_claim(op->kind);
    bool only = g->config.consume == CONSUME_OWNER && (claims || op->kind == OP_PUBLISH);
    if (only && reason == REASON_NONE && e->epoch == 0)
        findings_add(&g->world->findings, "consume",
                     "lane %u: slot %" PRIu64 ": a grant outside the owner's epoch", g->lane,
                     g->slot);
    if (claims && reason == REASON_NOT_OWNER && (!only || e->epoch != 0))
        findings_add(&g->world->findings, "consume",
                     "lane %u: slot %" PRIu64 ": a claim of the owner was refused", g->lane,
                     g->slot);
    bool owners = op->kind == OP_PUBLISH || op->kind == OP_DISPATCH;
    if (owners && reason == REASON_NONE && e->epoch == 0)
        findings_add(&g->world->findings, "I7",
                     "lane %u: slot %" PRIu64 ": tickets were moved without being the owner",
                     g->lane, g->slot);
}
