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
    *out = to == STATE_PROCESSED   ? FINISHED_PROCESSED
           : to == STATE_OUTBOUND  ? FINISHED_DEAD_LETTERED
           : to == STATE_PURGED    ? FINISHED_PURGED
           : to == STATE_CANCELLED ? FINISHED_CANCELLED
                                   : FINISHED_REDRIVEN;
    return to == STATE_PROCESSED || to == STATE_OUTBOUND || to == STATE_PURGED ||
           to == STATE_REDRIVEN || to == STATE_CANCELLED;
}

void end_note(struct reference *g, struct row *row, enum message_state to)
{
    enum finished_outcome outcome;
    if (!is_end(to, &outcome) || g->config.retention_ms == 0) return;
    bool held = row->state == STATE_LOCKED && !row->ticket;
    bool by_worker = outcome == FINISHED_PROCESSED || outcome == FINISHED_DEAD_LETTERED ||
                     (outcome == FINISHED_CANCELLED && held);
    bool keeps = outcome == FINISHED_PROCESSED || outcome == FINISHED_DEAD_LETTERED ||
                 outcome == FINISHED_CANCELLED;
    row->body_kept = keeps && g->config.retain_body;
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
    signals_forget(g);
}

static bool is_same(const struct row *row, const struct finished_view *v)
{
    uint32_t worker = v->worker.len > 0 ? (uint32_t)hash64_of(v->worker, 0) : 0;
    return v->outcome == row->outcome && v->at == row->ended_at &&
           v->attempts == row->end_deliveries && worker == row->ended_by;
}

// The result is what the ack said.
static bool has_result(const struct reference *g, const struct row *row,
                       const struct finished_view *v)
{
    struct entry e;
    const char *why = NULL;
    struct op_outcome op;
    const struct reference_slot *slot = reference_at(g, v->result.slot);
    if (!row->has_result || v->result.slot == 0) return row->has_result == (v->result.slot > 0);
    if (v->result.slot != row->result_slot || !slot || entry_decode(slot->bytes, &e, &why))
        return false;
    bool same =
        v->result.op < e.ops_len && !outcome_decode(e.ops[v->result.op].payload, &op) &&
        v->result.index < op.count &&
        hash128_equal(hash128_of(outcome_extra_of(&op, v->result.index).result), row->result);
    entry_done(&e);
    return same;
}

static void check_progress(struct reference *g, const struct machine *m, uint64_t seq)
{
    const struct row *row = &g->rows[seq - 1];
    struct progress_view v;
    bool has = machine_progress(m, seq, &v);
    if (has != row->has_progress || (has && v.percent != row->percent))
        findings_add(&g->world->findings, "ends",
                     "lane %u: slot %" PRIu64 ": message %" PRIu64 " has another progress", g->lane,
                     g->slot, seq);
}

void check_ends(struct reference *g, const struct machine *m)
{
    for (uint64_t i = g->slot % PART; i < g->rows_len; i += PART) {
        const struct row *row = &g->rows[i];
        struct finished_view v;
        bool kept = machine_finished(m, i + 1, g->now, &v);
        check_progress(g, m, i + 1);
        if (kept && row->end_kept &&
            (!has_result(g, row, &v) || (v.body.slot > 0) != row->body_kept))
            findings_add(&g->world->findings, "result",
                         "lane %u: slot %" PRIu64 ": message %" PRIu64
                         " has another result, or its body is kept otherwise",
                         g->lane, g->slot, i + 1);
        if (kept != row->end_kept || (kept && !is_same(row, &v)))
            findings_add(&g->world->findings, "ends",
                         "lane %u: slot %" PRIu64 ": message %" PRIu64 " (%s) ended as %s, not %s",
                         g->lane, g->slot, i + 1, message_state_name(row->state),
                         kept ? finished_outcome_name(v.outcome) : "not known",
                         row->end_kept ? finished_outcome_name(row->outcome) : "not known");
    }
}
