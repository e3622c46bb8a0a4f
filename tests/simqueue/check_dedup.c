// SPDX-License-Identifier: Apache-2.0
// Within its window a dedup key has one message, and later sends are answered with that one. Also
// here, since it is about the same answers: a full queue takes nothing.
#include "check.h"

#include <inttypes.h>

void check_dedup(struct reference *g, const struct message *m, const struct send_row *row)
{
    struct findings *v = &g->world->findings;
    if (row->reason == REASON_NONE && reference_held(g) >= g->config.capacity)
        findings_add(v, "I5", "lane %u: slot %" PRIu64 ": a full queue takes a message", g->lane,
                     g->slot);
    if (m->dedup.len != 2 || g->config.dedup_window_ms == 0) return;
    struct reference_dedup *d = &g->dedup[m->dedup.data[1] - '0']; // "k0" ...
    bool known = d->seq != 0 && d->expires_at > g->now;
    if (row->reason == REASON_NONE) {
        if (known)
            findings_add(v, "dedup",
                         "lane %u: slot %" PRIu64 ": message %" PRIu64 " repeats %" PRIu64, g->lane,
                         g->slot, row->seq, d->seq);
        *d = (struct reference_dedup){row->seq, g->from + g->config.dedup_window_ms};
    } else if (row->reason == REASON_DUPLICATE && (!known || d->seq != row->seq)) {
        findings_add(v, "dedup",
                     "lane %u: slot %" PRIu64 ": answered with message %" PRIu64
                     " for a key that has none or another",
                     g->lane, g->slot, row->seq);
    }
}
