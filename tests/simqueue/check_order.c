// SPDX-License-Identifier: Apache-2.0
// I6: in a strict queue a scope (group) has at most one open message, and the one that is opened
// is the oldest (fifo) or newest (lifo) that is not finished. A message stays open over retries,
// expiry and release.
#include "check.h"

#include <inttypes.h>

void check_opened(struct ghost *g, const struct row *row, uint64_t seq)
{
    if (!g->config.ordering_guarantee) return;
    bool lifo = g->config.ordering_mode == ORDERING_LIFO;
    for (uint64_t i = 0; i < g->rows_len; i++) {
        const struct row *other = &g->rows[i];
        bool unfinished = other->state == STATE_READY || other->state == STATE_LOCKED;
        if (other == row || other->group != row->group || !unfinished) continue;
        if (other->opened)
            verdict_fail(&g->world->verdict, "I6",
                         "lane %u: slot %" PRIu64 ": %" PRIu64 " is handed out while %" PRIu64
                         " of its group is open",
                         g->lane, g->slot, seq, i + 1);
        bool first = lifo ? i + 1 > seq : i + 1 < seq;
        if (first && !row->opened)
            verdict_fail(&g->world->verdict, "I6",
                         "lane %u: slot %" PRIu64 ": %" PRIu64 " overtakes %" PRIu64
                         " of its group",
                         g->lane, g->slot, seq, i + 1);
    }
}
