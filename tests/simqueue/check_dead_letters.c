// SPDX-License-Identifier: Apache-2.0
// I10: a dead letter arrives once, in the order of the outbox, as it was; its source forgets it
// only after that.
#include "base/hash.h"
#include "check.h"

#include <inttypes.h>
#include <string.h>

static void wrong(struct reference *g, const struct op_arrive *a, const char *what)
{
    findings_add(&g->world->findings, "I10",
                 "lane %u: slot %" PRIu64 ": letter %" PRIu64 " from \"%.*s\" %s", g->lane, g->slot,
                 a->number, (int)a->origin.len, (const char *)a->origin.data, what);
}

static struct row *letter(struct world *w, const struct op_arrive *a, struct lane **lane)
{
    for (uint32_t i = 0; i < w->life->lanes_len; i++) {
        struct lane *l = &w->life->lanes[i];
        bool other = memcmp(l->id.bytes, a->source.bytes, sizeof l->id.bytes) != 0;
        if (other || l->shard != a->source_shard) continue;
        *lane = l;
        for (uint64_t k = 0; k < l->reference.rows_len; k++)
            if (l->reference.rows[k].number == a->number) return &l->reference.rows[k];
    }
    return NULL;
}

static bool is_true(const struct row *row, const struct lane *from, const struct op_arrive *a)
{
    return bytes_equal(a->origin, bytes_str(from->name)) &&
           a->origin_seq == (uint64_t)(row - from->reference.rows) + 1 &&
           a->retries == row->retries && a->deliveries == row->deliveries &&
           a->cause == row->cause && a->died_at == row->died_at && a->source_shard == from->shard &&
           hash128_equal(hash128_of(a->reason), row->reason) &&
           hash128_equal(body_hash(&a->message), row->body);
}

void check_arrival(struct reference *g, const struct op_arrive *a, enum reason reason)
{
    struct lane *from = NULL;
    struct row *row = letter(g->world, a, &from);
    if (!row || (row->state != STATE_OUTBOUND && row->state != STATE_MOVED)) {
        wrong(g, a, "was never sent off");
        return;
    }
    if (!is_true(row, from, a)) wrong(g, a, "says something else than its message");
    if (reason == REASON_ARRIVED_BEFORE && !row->arrived)
        wrong(g, a, "is taken for one that arrived");
    if (reason == REASON_NONE && row->arrived) wrong(g, a, "arrives twice");
    if (reason == REASON_NONE) row->arrived = true;
}

void check_forgotten(struct reference *g, const struct row *row, uint64_t seq)
{
    if (!row->arrived)
        findings_add(&g->world->findings, "I10",
                     "lane %u: slot %" PRIu64 ": message %" PRIu64
                     " is forgotten, but did not arrive",
                     g->lane, g->slot, seq);
}
