// SPDX-License-Identifier: Apache-2.0
// I3: at most one current token per message; fences rise; only the current token moves a message;
// a lock ends by a word of its holder or by its deadline, and not before the store's clock passed
// that. So no two workers hold one message at the same moment. I4: what is finished stays finished.
#include "base/memory.h"
#include "check.h"

#include <inttypes.h>
#include <string.h>

static void wrong(struct reference *g, const char *invariant, uint64_t seq, const char *what)
{
    findings_add(&g->world->findings, invariant,
                 "lane %u: slot %" PRIu64 ": message %" PRIu64 " %s", g->lane, g->slot, seq, what);
}

void check_grant(struct reference *g, const struct row *row, const struct grant *grant, bool chosen)
{
    if (row->state == STATE_PROCESSED) {
        wrong(g, "I4", grant->seq, "was acked and is handed out again");
    } else if (row->state == STATE_LOCKED) {
        wrong(g, "I3", grant->seq, "gets a second token while the first is current");
    } else if (row->state != STATE_READY) {
        wrong(g, "I4", grant->seq, "is finished and is handed out again");
    }
    if (grant->fence <= g->fence)
        wrong(g, "I3", grant->seq, "is given with a fence that does not rise");
    if (hash128_equal(grant->token, row->token))
        wrong(g, "I3", grant->seq, "gets its old token again");
    if (row->ready_at > g->now) wrong(g, "I6", grant->seq, "is handed out before it is due");
    if (g->paused && !chosen) wrong(g, "I6", grant->seq, "is handed out while the queue is paused");
    if (grant->deadline <= g->now)
        wrong(g, "I3", grant->seq, "is given with a deadline in the past");
}

void check_word(struct reference *g, const struct op_outcome *op, const struct lock_ref *ref,
                enum reason reason)
{
    const struct row *row = reference_row(g, ref->seq);
    const struct lane *l = &g->world->life->lanes[g->lane];
    bool ours =
        memcmp(op->queue.bytes, l->id.bytes, sizeof l->id.bytes) == 0 && op->shard == l->shard;
    bool same = row && ours && hash128_equal(row->token, ref->token);
    bool current = same && row->state == STATE_LOCKED;
    if (reason == REASON_NONE && !current) wrong(g, "I3", ref->seq, "moved by a stale token");
    // A renewal cannot pass the end of an interrupt.
    int64_t limit = current ? signals_limit(g, row) : TIME_NEVER;
    bool over = reason == REASON_LOCK_EXPIRED && (limit <= g->now || op->arrived_at >= limit);
    if (reason == REASON_NONE && op->arrived_at >= limit)
        wrong(g, "signal", ref->seq, "moved by a word that came after the end of an interrupt");
    if (reason != REASON_NONE && current && !over)
        wrong(g, "I3", ref->seq, "refused its current token");
    bool just_expired = same && row->expired_slot == g->slot && op->arrived_at < row->deadline;
    if (just_expired && reason == REASON_LOCK_EXPIRED)
        wrong(g, "I3", ref->seq, "expired although a word had arrived in time");
}

void check_expiry(struct reference *g, const struct row *row, uint64_t seq)
{
    if (row->deadline > g->now) wrong(g, "I3", seq, "expired before its deadline");
    if (g->world->now < row->deadline)
        wrong(g, "I3", seq, "expired before the store's clock reached its deadline");
}

void check_deadlines(struct reference *g)
{
    for (uint64_t i = 0; i < g->rows_len; i++)
        if (g->rows[i].state == STATE_LOCKED && g->rows[i].deadline <= g->now)
            wrong(g, "I3", i + 1, "is locked past its deadline");
}

// The worker was evicted, or its lock interrupted, before it heard of the grant.
static bool was_evicted(struct reference *g, const struct grant *grant)
{
    const struct row *row = reference_row(g, grant->seq);
    if (token_was_interrupted(g, grant->token)) return true;
    return row && hash128_equal(row->evicted, grant->token);
}

void check_hold(struct world *w, struct lane *l, uint32_t worker, const struct grant *grant)
{
    struct reference *g = &l->reference;
    struct hold *own = NULL;
    for (size_t i = 0; i < g->holds_len; i++) {
        struct hold *h = &g->holds[i];
        if (h->seq != grant->seq) continue;
        bool same = hash128_equal(h->token, grant->token);
        if (same) own = h;
        bool other = (!same || h->worker != worker) && !h->ended && h->deadline > w->now;
        if (other && !was_evicted(g, grant) && grant->deadline > w->now)
            findings_add(&w->findings, "I3",
                         "lane %u: workers %u and %u both hold message %" PRIu64, l->index,
                         h->worker, worker, grant->seq);
    }
    if (own) {
        if (own->deadline < grant->deadline) own->deadline = grant->deadline;
        return;
    }
    if (g->holds_len == g->holds_cap) {
        g->holds_cap = g->holds_cap ? g->holds_cap * 2 : 64;
        g->holds = memory_resize(g->holds, g->holds_cap * sizeof *g->holds);
    }
    g->holds[g->holds_len++] = (struct hold){.seq = grant->seq,
                                             .token = grant->token,
                                             .deadline = grant->deadline,
                                             .worker = worker,
                                             .ended = was_evicted(g, grant)};
}
