// SPDX-License-Identifier: Apache-2.0
// What a look at a finished message says: how it ended, when, by which worker and after how many
// deliveries. The reference model keeps the same by plain rules. The machines of handles are
// compared, too: most of them began with a snapshot.
#include "base/hash.h"
#include "check.h"

#include <inttypes.h>

#define PART 16 // one message of so many is compared after an entry

static bool is_end(enum message_state to, enum finished_outcome *out)
{
    *out = to == STATE_PROCESSED  ? FINISHED_PROCESSED
           : to == STATE_OUTBOUND ? FINISHED_DEAD_LETTERED
           : to == STATE_PURGED   ? FINISHED_PURGED
                                  : FINISHED_REDRIVEN;
    return to == STATE_PROCESSED || to == STATE_OUTBOUND || to == STATE_PURGED ||
           to == STATE_REDRIVEN;
}

void end_note(struct reference *g, struct row *row, enum message_state to)
{
    enum finished_outcome outcome;
    if (!is_end(to, &outcome) || g->rules < RULES_WORKERS || g->config.retention_ms == 0) return;
    bool by_worker = outcome == FINISHED_PROCESSED || outcome == FINISHED_DEAD_LETTERED;
    row->end_kept = true;
    row->outcome = outcome;
    row->ended_at = g->now;
    row->end_deliveries = row->deliveries;
    row->ended_by = by_worker ? row->holder : 0;
}

void ends_expire(struct reference *g)
{
    for (uint64_t i = 0; i < g->rows_len; i++) {
        struct row *row = &g->rows[i];
        if (row->ended_at + g->config.retention_ms <= g->now || g->deleted_slot != 0)
            row->end_kept = false;
    }
}

static bool is_same(const struct row *row, const struct finished_view *v)
{
    uint32_t worker = v->worker.len > 0 ? (uint32_t)hash64_of(v->worker, 0) : 0;
    return v->outcome == row->outcome && v->at == row->ended_at &&
           v->attempts == row->end_deliveries && worker == row->ended_by;
}

void check_ends(struct reference *g, const struct machine *m)
{
    for (uint64_t i = g->slot % PART; i < g->rows_len; i += PART) {
        const struct row *row = &g->rows[i];
        struct finished_view v;
        bool kept = machine_finished(m, i + 1, g->now, &v);
        if (kept != row->end_kept || (kept && !is_same(row, &v)))
            findings_add(&g->world->findings, "ends",
                         "lane %u: slot %" PRIu64 ": message %" PRIu64 " (%s) ended as %s, not %s",
                         g->lane, g->slot, i + 1, message_state_name(row->state),
                         kept ? finished_outcome_name(v.outcome) : "not known",
                         row->end_kept ? finished_outcome_name(row->outcome) : "not known");
    }
}
