// SPDX-License-Identifier: Apache-2.0
// The version of the rules: an entry names the version that it needs. A handle folds no entry of a
// version that its program does not know. It stops before such an entry, and nowhere else. The
// version rises by one, with an event.
#include "check.h"

#include <inttypes.h>

void check_entry_rules(struct reference *g, const struct entry *e)
{
    uint16_t needed = machine_rules_needed(g->machine, e->ops, e->ops_len);
    if (e->rules != needed)
        findings_add(&g->world->findings, "rules",
                     "lane %u: slot %" PRIu64 " names version %u and needs %u", g->lane, g->slot,
                     e->rules, needed);
    g->slots[g->slot - 1].rules = needed;
    if (machine_rules(g->machine) != g->rules)
        findings_add(&g->world->findings, "rules",
                     "lane %u: version %u before slot %" PRIu64 ", the ops say %u", g->lane,
                     machine_rules(g->machine), g->slot, g->rules);
}

void check_rules(struct world *w, const struct node *n)
{
    const struct handle *h = &w->life->handles[n->index];
    uint16_t rules = machine_rules(shard_machine(h->shard));
    if (rules > h->rules_newest)
        findings_add(&w->findings, "rules", "n%u.%u folded version %u and knows %u", n->index,
                     n->life, rules, h->rules_newest);
}

// It may have stopped at a snapshot, before it folded anything. A raise of a former owner has no
// effect, but its entry needs the new version.
bool is_stopped(const struct world *w, const struct node *n)
{
    const struct handle *h = &w->life->handles[n->index];
    const struct reference *g = &w->life->lanes[h->lane].reference;
    if (journal_halt_err(n->journal) != ERR_UNAVAILABLE) return false;
    const struct reference_slot *next = reference_at(g, journal_slot(n->journal) + 1);
    return g->rules > h->rules_newest || (next && next->rules > h->rules_newest);
}

void check_raise(struct reference *g, const struct walk_op *o)
{
    struct op_raise op;
    bool raised = o->body.len > 0 && o->body.data[0] == REASON_NONE &&
                  !raise_decode(o->op->payload, &op) && op.to == g->rules + 1;
    bool told = o->events_len == 1 && o->events[0].kind == EVENT_QUEUE_UPGRADED &&
                o->events[0].count == g->rules + 1U;
    if (raised != told)
        findings_add(&g->world->findings, "rules",
                     "lane %u: slot %" PRIu64 ": a raise that was told otherwise", g->lane,
                     g->slot);
    if (raised) g->rules++;
}
