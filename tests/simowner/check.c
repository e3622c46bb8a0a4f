// SPDX-License-Identifier: Apache-2.0
// The checkers. They compare what a process decided with what is true in the world.
// docs/simulation.md lists the promises by these names.
#include "world.h"

#include <inttypes.h>

#define BROKEN(name, ...) findings_add(&w->findings, name, __VA_ARGS__)
// For so long a node counts as away that answers again: the age of an answer, and its way.
#define MEMORY_MS         (OWNERSHIP_MEMORY_MS + 2 * ASK_MS)

// often: a process reads a journal and asks a peer about once a second for each shard. One check
// may come early: at the end of a lease. What another process says makes one more.
static void check_often(struct world *w, const struct process *p, uint32_t shard)
{
    const struct seen_shard *s = &p->shards[shard];
    int64_t most = 3 + s->wants + 3 * (w->now - s->since) / (2 * OWNERSHIP_CHECK_MS);
    if (s->reads > most || s->asks > most)
        BROKEN("often", "p%u reads s%u %u times and asks %u times in %" PRId64 " ms", p->index,
               shard, s->reads, s->asks, w->now - s->since);
}

void check_facts_move(struct world *w, struct process *p, uint32_t shard, enum ownership_move move)
{
    struct seen_shard *s = &p->shards[shard];
    s->reads += move == OWNERSHIP_READ;
    s->asks += move == OWNERSHIP_ASK_PEER;
    check_often(w, p, shard);
    // joining: a node that joins takes nothing, and asks for nothing.
    if (s->facts.kind == OWNERSHIP_JOINING && move != OWNERSHIP_UNCHANGED)
        BROKEN("joining", "p%u joins, and checks s%u", p->index, shard);
    // known: a client does not ask the owner that it knows, unless it was away.
    if (s->facts.kind == OWNERSHIP_CLIENT && move == OWNERSHIP_ASK_PEER &&
        s->known == s->before.owner && p->peers[s->known].probe_at == 0)
        BROKEN("known", "p%u asks the owner of s%u, which it knows", p->index, shard);
}

// left-alone: an owner that lives and proves itself is not replaced.
static void check_replaced(struct world *w, const struct process *p, uint32_t shard)
{
    const struct journal *before = &p->shards[shard].before;
    const struct process *owner = world_live(w, before->owner);
    if (!w->lives[before->owner].named) return;
    enum ownership_answer last = p->peers[before->owner].last;
    if (last == OWNERSHIP_PROVEN || last == OWNERSHIP_NOT_ASKED)
        BROKEN("left-alone", "p%u replaces the owner of s%u, which did not fail to prove itself",
               p->index, shard);
    if (!owner) return;
    int64_t since = p->good_since > owner->good_since ? p->good_since : owner->good_since;
    if (w->now - since > MEMORY_MS)
        BROKEN("left-alone", "p%u replaces p%u, which it reaches, in s%u", p->index, owner->index,
               shard);
}

static bool is_same_node(const struct world *w, const struct process *p, const struct journal *j)
{
    return p->node && j->epoch > 0 && w->lives[j->owner].process == p->index &&
           w->lives[j->owner].named;
}

static void check_claims(struct world *w, const struct process *p, uint32_t shard,
                         enum ownership_move move)
{
    const struct seen_shard *s = &p->shards[shard];
    enum ownership_kind kind = s->facts.kind;
    // kind: only a node alone takes, and only a member asks the cluster.
    if (kind != (move == OWNERSHIP_TAKE ? OWNERSHIP_ALONE : OWNERSHIP_MEMBER))
        BROKEN("kind", "p%u of kind %d takes s%u", p->index, (int)kind, shard);
    // deleted: a shard of a deleted queue gets no owner.
    if (s->before.deleted) BROKEN("deleted", "p%u takes s%u, which is deleted", p->index, shard);
    if (s->before.epoch == 0 || is_same_node(w, p, &s->before)) return;
    check_replaced(w, p, shard);
    // lease: an owner is not replaced before it was silent for its lease.
    if (move == OWNERSHIP_TAKE && w->now - s->before.wrote_at < OWNERSHIP_LEASE_MS)
        BROKEN("lease", "p%u takes s%u, whose owner wrote %" PRId64 " ms ago", p->index, shard,
               w->now - s->before.wrote_at);
}

void check_decision(struct world *w, struct process *p, uint32_t shard,
                    const struct ownership_decision *d)
{
    const struct seen_shard *s = &p->shards[shard];
    bool claims = d->move == OWNERSHIP_TAKE || d->move == OWNERSHIP_ASK_CLUSTER;
    // wake: the next check is neither in the past nor far away.
    if (d->again_ms <= 0 || d->again_ms > OWNERSHIP_LEASE_MS + OWNERSHIP_RETRY_MS)
        BROKEN("wake", "p%u checks s%u again in %" PRId64 " ms", p->index, shard, d->again_ms);
    // read: what a node decides rests on a journal that it has read.
    if (p->node && (claims || d->move == OWNERSHIP_LEAVE) && !s->read)
        BROKEN("read", "p%u decides about s%u without its journal", p->index, shard);
    // restart: a node takes what an earlier start of it owned, at once.
    bool own = s->facts.kind == OWNERSHIP_ALONE && s->read && !s->before.deleted &&
               is_same_node(w, p, &s->before) && s->before.owner != p->life;
    if (own && d->move != OWNERSHIP_TAKE)
        BROKEN("restart", "p%u does not take its s%u", p->index, shard);
    if (claims) check_claims(w, p, shard, d->move);
}

// kind: whatever was decided, the journal has no owner that is a client or joins.
void check_own(struct world *w, const struct process *p, uint32_t shard)
{
    if (!p->node || (w->mix.cluster && w->now < p->joined_at))
        BROKEN("kind", "p%u owns s%u, and is no node or joins", p->index, shard);
}

// route: an op goes to a proven owner that may have it, once.
void check_request(struct world *w, const struct process *p, const struct op *op, uint32_t life)
{
    const char *wrong = NULL;
    if (life == NONE)
        wrong = "to an owner that is away";
    else if (op->has_token && !w->processes[w->lives[life].process].token_host)
        wrong = "with a token to another host";
    else if (op->lacks_token)
        wrong = "without a token";
    else if (op->large)
        wrong = "that is too large";
    else if (op->tried)
        wrong = "a second time";
    if (wrong) BROKEN("route", "p%u sends an op %s", p->index, wrong);
}

static struct process *live_owner(struct world *w, uint32_t shard)
{
    const struct journal *j = &w->journals[shard];
    struct process *owner = j->epoch > 0 ? world_live(w, j->owner) : NULL;
    return owner && process_runs(w, owner) ? owner : NULL;
}

// routed: without faults, no process writes beside a live owner that it can send to.
void check_direct(struct world *w, const struct process *p, uint32_t shard, const struct op *op)
{
    const struct process *owner = live_owner(w, shard);
    if (!w->healed || w->now < w->heal_at + TAKEN_MS || !owner || op->tried || op->large) return;
    bool sends = !op->lacks_token && (!op->has_token || owner->token_host);
    if (process_kind(w, p) != OWNERSHIP_JOINING && sends && w->lives[owner->life].named)
        BROKEN("routed", "p%u writes to s%u, which p%u owns", p->index, shard, owner->index);
}

static bool can_own(const struct world *w, const struct process *p)
{
    return p->node && process_runs(w, p) && process_kind(w, p) != OWNERSHIP_JOINING;
}

static void check_shard(struct world *w, uint32_t shard)
{
    const struct process *owner = live_owner(w, shard);
    uint32_t able = 0, owners = 0;
    for (uint32_t i = 0; i < w->processes_len; i++) {
        const struct process *p = &w->processes[i];
        if (!process_runs(w, p)) continue;
        able += can_own(w, p);
        owners += process_owns(p, shard);
        bool finds = owner && p != owner && w->lives[owner->life].named &&
                     process_kind(w, p) != OWNERSHIP_JOINING;
        // found: every process knows the owner.
        if (finds && p->shards[shard].known != owner->life)
            BROKEN("found", "p%u does not know that p%u owns s%u", i, owner->index, shard);
    }
    // taken: a shard whose owner died gets another one in time.
    if (able > 0 && !owner) BROKEN("taken", "no live node owns s%u", shard);
    // one-owner: one process believes that it is the owner.
    if (owners > 1) BROKEN("one-owner", "%u processes own s%u", owners, shard);
}

void check_healed(struct world *w)
{
    for (uint32_t i = 0; i < w->mix.shards; i++)
        if (!w->journals[i].deleted) check_shard(w, i);
}
