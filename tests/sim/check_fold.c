// SPDX-License-Identifier: Apache-2.0
// I1: one history for all readers. Every entry that any handle folds is the canonical one, byte for
// byte; after it the machine has the state of the reference machine, and the handle has the state
// of the first handle that folded this slot. Part of I7: no entry of another epoch reaches the
// machine, and every handle has the epoch of the slot.
#include "base/check.h"
#include "check.h"

#include <inttypes.h>

void check_fold_entry(struct world *w, struct node *n, const struct fold_entry *e)
{
    if (w->lying) {
        check_lying_folded(n, e);
        return;
    }
    const struct history_slot *h = history_at(&w->history, e->slot);
    if (!h || !bytes_equal(h->bytes, e->bytes)) {
        findings_add(&w->findings, "I1",
                     "n%u.%u folds a slot %" PRIu64 " that is not the history's", n->index, n->life,
                     e->slot);
        return;
    }
    if (h->is_void && e->ops_len > 0)
        findings_add(&w->findings, "I7",
                     "n%u.%u lets slot %" PRIu64 " of stale epoch %" PRIu64 " take effect",
                     n->index, n->life, e->slot, e->epoch);
    if (n->inner.digest(n->inner.ctx) != h->machine_digest)
        findings_add(&w->findings, "I1", "n%u.%u has another machine after slot %" PRIu64, n->index,
                     n->life, e->slot);
}

static void compare_state(struct world *w, struct node *n, uint64_t slot)
{
    struct history_slot *h = &w->history.slots[slot - 1];
    uint64_t digest = journal_digest(n->journal);
    if (h->first_digest == 0) h->first_digest = digest;
    if (h->first_digest != digest)
        findings_add(&w->findings, "I1", "n%u.%u has another state after slot %" PRIu64, n->index,
                     n->life, slot);
    if (n->inner.digest(n->inner.ctx) != h->machine_digest)
        findings_add(&w->findings, "I1", "n%u.%u has another machine at slot %" PRIu64, n->index,
                     n->life, slot);
    if (journal_epoch(n->journal) != h->epoch)
        findings_add(&w->findings, "I7",
                     "n%u.%u is at epoch %" PRIu64 " after slot %" PRIu64 ", which has %" PRIu64,
                     n->index, n->life, journal_epoch(n->journal), slot, h->epoch);
}

void check_fold_state(struct world *w, struct node *n)
{
    const char *why = NULL;
    bool halted = journal_halted(n->journal, &why);
    w->halted += halted && !n->halt_seen;
    if (n->halt_seen && !halted) check_resumed(w, n);
    n->halt_seen = halted;
    if (w->lying) return;
    uint64_t slot = journal_slot(n->journal);
    if (halted && w->mix.garbled == 0) {
        findings_add(&w->findings, "I1", "n%u.%u halted on an honest store: %s", n->index, n->life,
                     why);
    } else if (slot > w->history.len) {
        findings_add(&w->findings, "I1", "n%u.%u is at slot %" PRIu64 ", past the history",
                     n->index, n->life, slot);
    } else if (slot > 0) {
        compare_state(w, n, slot);
    }
}
