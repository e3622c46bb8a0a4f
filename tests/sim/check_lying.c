// SPDX-License-Identifier: Apache-2.0
// A store that breaks its contract cannot be survived, only noticed. There are then several
// versions of some slot; a handle that folded one of them must not go on beside a handle that
// folded another. Asked at the end, after many more commits: all handles that have not halted agree
// on every slot they both stand on. A handle that slept, came back under the floor and started over
// from a snapshot no longer stands on what it folded before; if that was a losing version, no
// handle halts. Those are counted as escapes.
#include "base/hash.h"
#include "base/memory.h"
#include "check.h"

#include <inttypes.h>

static void note_version(struct world *w, uint64_t slot, struct hash128 version)
{
    if (slot > w->versions_len) {
        w->versions = memory_resize(w->versions, slot * sizeof *w->versions);
        while (w->versions_len < slot)
            w->versions[w->versions_len++] = (struct hash128){0};
    }
    struct hash128 *first = &w->versions[slot - 1];
    if (hash128_equal(*first, (struct hash128){0})) *first = version;
    w->forks += !hash128_equal(*first, version);
}

void check_lying_folded(struct node *n, const struct fold_entry *e)
{
    note_version(n->world, e->slot, hash128_of(e->bytes));
    while (n->folded_cap < e->slot) {
        uint64_t old = n->folded_cap;
        n->folded_cap = old ? old * 2 : 64;
        n->folded = memory_resize(n->folded, n->folded_cap * sizeof *n->folded);
    }
    // Slots that a snapshot jumped over stay unknown.
    while (n->folded_len < e->slot)
        n->folded[n->folded_len++] = (struct hash128){0};
    n->folded[e->slot - 1] = hash128_of(e->bytes);
    if (n->jumped) n->stands_from = e->slot;
    n->jumped = false;
}

static bool counts(const struct node *n)
{
    return n->up && !journal_halted(n->journal, NULL);
}

// The first slot that is still part of its state. A handle that has folded nothing since it loaded
// a snapshot stands on none.
static uint64_t stands_from(const struct node *n)
{
    return n->jumped ? journal_slot(n->journal) + 1 : n->stands_from;
}

static void compare_slot(struct world *w, const struct node *a, const struct node *b, uint64_t slot)
{
    const struct hash128 none = {0};
    struct hash128 mine = a->folded[slot - 1];
    struct hash128 theirs = b->folded[slot - 1];
    if (hash128_equal(mine, none) || hash128_equal(theirs, none)) return;
    if (hash128_equal(mine, theirs)) return;
    if (slot < stands_from(a) || slot < stands_from(b)) {
        w->escapes++;
        return;
    }
    findings_add(&w->findings, "I1",
                 "n%u and n%u go on after folding different slots %" PRIu64 " (lies told: %u)",
                 a->index, b->index, slot, w->bucket.lies.told_total);
}

static void compare(struct world *w, const struct node *a, const struct node *b)
{
    uint64_t common = a->folded_len < b->folded_len ? a->folded_len : b->folded_len;
    for (uint64_t slot = 1; slot <= common; slot++)
        compare_slot(w, a, b, slot);
    bool same_slot = journal_slot(a->journal) == journal_slot(b->journal);
    if (same_slot && journal_digest(a->journal) != journal_digest(b->journal))
        findings_add(&w->findings, "I1", "n%u and n%u differ at slot %" PRIu64, a->index, b->index,
                     journal_slot(a->journal));
}

void check_lying(struct world *w)
{
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        const struct node *a = &w->nodes[i];
        for (uint32_t k = i + 1; k < w->mix.nodes; k++) {
            const struct node *b = &w->nodes[k];
            if (counts(a) && counts(b)) compare(w, a, b);
        }
    }
}

void check_resumed(struct world *w, struct node *n)
{
    uint64_t slot = journal_slot(n->journal);
    w->resumed++;
    if (!w->lying || slot == 0 || n->jumped || slot > n->folded_len) return;
    const struct bucket_slot *s = bucket_slot(&w->bucket, slot);
    if (s && hash128_equal(hash128_of(s->body), n->folded[slot - 1])) return;
    // No handle can know what the store does after it looked.
    if ((s ? s->made_at : w->bucket.lies.lost_at) >= n->looked_at) return;
    findings_add(&w->findings, "resumed",
                 "n%u.%u goes on after slot %" PRIu64 ", which the store %s (lies told: %u)",
                 n->index, n->life, slot, s ? "replaced" : "lost", w->bucket.lies.told_total);
}
