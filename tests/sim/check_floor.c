// SPDX-License-Identifier: Apache-2.0
// I8: floor objects are contiguous and rise; when one is made two snapshots at or above it exist,
// the history goes on after it, and its maker had read the slot that proves this. A canonical
// slot is dropped only at or under the durable floor, older than R in true store time, and not
// needed. A snapshot is deleted only under the floor, or while two newer ones exist, or at the
// floor of a journal that has ended, while there is a newer one of the end.
#include "check.h"

#include "journal/snapshot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char snap_prefix[] = WORLD_PREFIX "/snap/";
static const char floor_prefix[] = WORLD_PREFIX "/floor/";

static bool key_number(const char *key, const char *prefix, uint64_t *number)
{
    size_t len = strlen(prefix);
    if (strncmp(key, prefix, len) != 0) return false;
    char *end = NULL;
    *number = strtoull(key + len, &end, 10);
    return end != key + len && *end == 0;
}

static uint32_t snapshots_from(const struct world *w, uint64_t slot)
{
    uint32_t count = 0;
    for (size_t i = 0; i < w->bucket.objects_len; i++) {
        uint64_t number;
        if (!key_number(w->bucket.objects[i]->key, snap_prefix, &number)) continue;
        count += number >= slot;
    }
    return count;
}

void check_floor_made(struct world *w, const char *key, struct bytes body)
{
    uint64_t index;
    struct floor f;
    if (!key_number(key, floor_prefix, &index)) return;
    if (floor_decode(body, &f) || f.index != index) {
        findings_add(&w->findings, "I8", "floor %" PRIu64 " was written damaged", index);
        return;
    }
    if (index != w->floor_index + 1)
        findings_add(&w->findings, "I8", "floor %" PRIu64 " follows %" PRIu64, index,
                     w->floor_index);
    if (f.slot <= w->floor_slot)
        findings_add(&w->findings, "I8", "floor %" PRIu64 " does not rise from %" PRIu64, f.slot,
                     w->floor_slot);
    if (f.slot >= w->history.len)
        findings_add(&w->findings, "I8", "floor %" PRIu64 " has nothing after it", f.slot);
    if (snapshots_from(w, f.slot) < 2)
        findings_add(&w->findings, "I8", "floor %" PRIu64 " rests on fewer than two snapshots",
                     f.slot);
    trace_line(&w->trace, w->now, "  floor %" PRIu64 " at slot %" PRIu64, index, f.slot);
    w->floor_index = index;
    w->floor_slot = f.slot;
}

void check_floor_sent(struct world *w, struct node *n, const struct request *q)
{
    uint64_t index;
    struct floor f;
    if (q->kind != REQUEST_PUT_NEW || !key_number(q->key, floor_prefix, &index)) return;
    if (floor_decode(q->body, &f)) return; // seen when it is made
    if (n->proved != f.slot + 1)
        findings_add(&w->findings, "I8",
                     "n%u.%u raises the floor to %" PRIu64 " without having read the slot after it",
                     n->index, n->life, f.slot);
}

void check_slot_dropped(struct world *w, uint64_t slot, int64_t made_at)
{
    const struct history_slot *h = history_at(&w->history, slot);
    // Another life of a dropped slot belongs to no handle. A late drop may take it at any age.
    if (!h || h->made_at != made_at) return;
    w->dropped++;
    if (slot > w->floor_slot)
        findings_add(&w->findings, "I8", "slot %" PRIu64 " dropped above the floor %" PRIu64, slot,
                     w->floor_slot);
    if (w->now - made_at < w->mix.rules.retain_ms)
        findings_add(&w->findings, "I8", "slot %" PRIu64 " dropped after %" PRId64 " ms", slot,
                     w->now - made_at);
    if (w->history.fold.needs(w->history.fold.ctx, slot, slot))
        findings_add(&w->findings, "I8", "slot %" PRIu64 " dropped while it is needed", slot);
}

// Its floor has come to the end, and a snapshot over it says so.
static bool is_spare(const struct world *w, uint64_t number)
{
    uint64_t ended = w->history.ended;
    bool at_the_end = ended > 0 && number == w->floor_slot && number + 1 >= ended;
    return at_the_end && snapshots_from(w, number + 1) > 0;
}

void check_object_deleted(struct world *w, const char *key)
{
    uint64_t number;
    if (!key_number(key, snap_prefix, &number)) {
        findings_add(&w->findings, "I8", "%s deleted", key);
    } else if (number >= w->floor_slot && snapshots_from(w, number + 1) < 2 &&
               !is_spare(w, number)) {
        findings_add(&w->findings, "I8", "snapshot %" PRIu64 " deleted, one of the two newest",
                     number);
    }
}
