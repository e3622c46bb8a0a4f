// SPDX-License-Identifier: Apache-2.0
// Calls with the same request id get the same messages. Two processes whose calls overlap may claim
// in different shards. A later call then gets the messages of the first of these shards in the
// order of the id, or of a shard before it. A shard that cannot be asked is left out.
#include "check.h"

static uint32_t rank_of(const struct world *w, const struct sim_call *c, uint32_t shard)
{
    return (shard + w->life->shards - c->first_shard) % w->life->shards;
}

void check_has_turn(struct world *w, const struct sim_call *c)
{
    if (!c->has_turn)
        findings_add(&w->findings, "same id",
                     "call %u begins before an earlier one with its id has ended", call_of(w, c));
}

// When the wait of the receive ended, a fold of its process had an answer already.
void check_claim_starts(struct world *w, const struct sim_call *c)
{
    if (c->had_answer)
        findings_add(&w->findings, "same id",
                     "call %u claims, although its process has an answer to its id", call_of(w, c));
}

// A claim that may be done at an owner is made again in the same shard, before any other.
void check_claim_again(struct world *w, const struct sim_call *c, uint32_t shard)
{
    if (c->claim_left != NOT_INDEX && c->claim_left != shard)
        findings_add(&w->findings, "same id",
                     "call %u claims in shard %u, and its claim in shard %u has no result",
                     call_of(w, c), shard, c->claim_left);
}

void check_claim_made(struct world *w, uint32_t id, uint32_t shard)
{
    const struct sim_claim *made = &w->life->ids[id].claims[shard];
    const struct sim_call *c = call_at(w, made->call);
    for (uint32_t i = 0; i < w->life->shards; i++) {
        const struct sim_claim *other = &w->life->ids[id].claims[i];
        if (i == shard || !other->made) continue;
        const struct sim_call *o = call_at(w, other->call);
        w->life->figures[FIGURE_TWICE]++;
        if (other->commit <= c->began_commit)
            findings_add(&w->findings, "same id",
                         "call %u claims in shard %u: call %u had claimed in %u before it began",
                         made->call, shard, other->call, i);
        bool doubted = o->claim_doubted || c->claim_doubted; // a claim at an owner was late
        if (o->process == c->process && o->incarnation == c->incarnation && !doubted)
            findings_add(&w->findings, "same id", "calls %u and %u of one process both claim",
                         other->call, made->call);
    }
}

static bool was_asked(const struct world *w, const struct sim_call *c, uint32_t shard)
{
    return c->recalls[shard] == NOT_INDEX || !w->life->actions[c->recalls[shard]].err;
}

void check_repeated(struct world *w, const struct sim_call *c)
{
    uint32_t best = NOT_INDEX;
    if (c->unwanted_at) return;
    for (uint32_t i = 0; i < w->life->shards; i++) {
        const struct sim_claim *made = &w->life->ids[c->id].claims[i];
        bool before = made->made && made->commit <= c->began_commit;
        if (before && was_asked(w, c, i) && rank_of(w, c, i) < best) best = rank_of(w, c, i);
    }
    if (best == NOT_INDEX) return;
    if (c->refs_len == 0)
        findings_add(&w->findings, "same id", "call %u does not get the messages of its id",
                     call_of(w, c));
    else if (rank_of(w, c, c->from) > best)
        findings_add(&w->findings, "same id",
                     "call %u gets the messages of shard %u: an earlier shard has an answer",
                     call_of(w, c), c->from);
}
