// SPDX-License-Identifier: Apache-2.0
// I6. In a strict queue a scope (group) has at most one open message, and the one that is opened is
// the oldest (fifo) or newest (lifo) that is not finished; it stays open over retries, expiry and
// release. In other queues the best ready message is delivered: the highest priority, then the
// oldest or newest.
#include "check.h"

#include <inttypes.h>

static void wrong(struct reference *g, uint64_t seq, uint64_t other, const char *what)
{
    findings_add(&g->world->findings, "I6",
                 "lane %u: slot %" PRIu64 ": %" PRIu64 " is handed out %s %" PRIu64, g->lane,
                 g->slot, seq, what, other);
}

static bool comes_first(const struct reference *g, uint64_t seq, uint64_t other)
{
    return g->config.ordering_mode == ORDERING_LIFO ? other > seq : other < seq;
}

static void check_strict(struct reference *g, const struct row *row, uint64_t seq)
{
    for (uint64_t i = 0; i < g->rows_len; i++) {
        const struct row *other = &g->rows[i];
        bool unfinished = other->state == STATE_READY || other->state == STATE_LOCKED;
        if (other == row || other->group != row->group || !unfinished) continue;
        if (other->opened) wrong(g, seq, i + 1, "although its group has an open message,");
        if (!row->opened && comes_first(g, seq, i + 1)) wrong(g, seq, i + 1, "before");
    }
}

static void check_best(struct reference *g, const struct row *row, uint64_t seq, uint32_t labels)
{
    for (uint64_t i = 0; i < g->rows_len; i++) {
        const struct row *other = &g->rows[i];
        if (other == row || other->state != STATE_READY || other->ready_at > g->now) continue;
        if (other->needs & ~labels) continue; // this worker may not get it
        bool better = other->priority != row->priority ? other->priority > row->priority
                                                       : comes_first(g, seq, i + 1);
        if (better) wrong(g, seq, i + 1, "before the ready");
    }
}

void check_opened(struct reference *g, const struct row *row, uint64_t seq, uint32_t labels)
{
    if (g->config.ordering_guarantee) {
        check_strict(g, row, seq);
    } else {
        check_best(g, row, seq, labels);
    }
}
