// SPDX-License-Identifier: Apache-2.0
// Liveness, asked once at the end of the healed phase: every call was answered, every handle is at
// the tail, new ops were committed, and objects that are old and not needed are gone.
#include "check.h"

#include "journal/snapshot.h"

#include <inttypes.h>
#include <string.h>

static void check_tickets(struct world *w)
{
    uint64_t done = 0;
    for (size_t i = 0; i < w->tickets.len; i++) {
        const struct ticket *t = &w->tickets.rows[i];
        done += i >= w->healed_tickets && t->answered && t->err == ERR_OK;
        if (!t->answered && !t->orphan)
            findings_add(&w->findings, "liveness", "ticket %zu was never answered", i + 1);
    }
    bool ended = registers_ended(w->history.machine);
    if (done == 0 && !ended)
        findings_add(&w->findings, "liveness", "no op was done after the faults");
}

static void check_nodes(struct world *w)
{
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        const struct node *n = &w->nodes[i];
        const char *why = NULL;
        if (n->up && journal_halted(n->journal, &why))
            findings_add(&w->findings, "liveness", "n%u stays halted: %s", i, why);
        if (!n->up || journal_slot(n->journal) != w->history.len)
            findings_add(&w->findings, "liveness", "n%u is at slot %" PRIu64 " of %" PRIu64, i,
                         n->up ? journal_slot(n->journal) : 0, w->history.len);
    }
}

static void check_slots(struct world *w)
{
    for (uint64_t n = 1; n <= w->healed_len; n++) {
        const struct bucket_slot *s = bucket_slot(&w->bucket, n);
        if (!s || s->made_at != history_at(&w->history, n)->made_at) continue;
        if (w->history.fold.needs(w->history.fold.ctx, n, n)) continue;
        findings_add(&w->findings, "liveness", "slot %" PRIu64 " is old, not needed, and there", n);
    }
}

size_t count_snapshots(const struct world *w)
{
    size_t count = 0;
    for (size_t i = 0; i < w->bucket.objects_len; i++)
        count += strstr(w->bucket.objects[i]->key, "/snap/") != NULL;
    return count;
}

static void check_snapshots(struct world *w)
{
    size_t count = count_snapshots(w);
    size_t most = 4 + w->history.len / w->mix.rules.snapshot_every;
    uint64_t since = (w->history.len - w->floor_slot) / w->mix.rules.snapshot_every;
    if (count > since + 4 || count > most)
        findings_add(&w->findings, "liveness", "%zu snapshots were left", count);
}

#define SLOTS_LEFT_MAX     8
#define SNAPSHOTS_LEFT_MAX 8

// Of a journal that has ended, whatever came after the end included.
static void check_finished(struct world *w)
{
    uint64_t slots = 0, snapshots = count_snapshots(w);
    for (uint64_t n = 1; n <= w->history.len; n++) {
        const struct bucket_slot *s = bucket_slot(&w->bucket, n);
        slots += s && s->made_at == history_at(&w->history, n)->made_at;
    }
    if (w->finishes == 0)
        findings_add(&w->findings, "liveness", "no handle finished the journal that has ended");
    if (slots > SLOTS_LEFT_MAX || snapshots > SNAPSHOTS_LEFT_MAX)
        findings_add(&w->findings, "liveness",
                     "%" PRIu64 " slots and %" PRIu64 " snapshots were left of it", slots,
                     snapshots);
}

void check_live(struct world *w)
{
    if (registers_ended(w->history.machine)) {
        check_tickets(w);
        check_nodes(w);
        check_finished(w);
        return;
    }
    check_tickets(w);
    check_nodes(w);
    check_slots(w);
    check_snapshots(w);
}
