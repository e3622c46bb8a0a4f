// SPDX-License-Identifier: Apache-2.0
// The checks of a process: it collects facts, and does what cluster/ownership.c decides. In the
// product this is queues/where.c. The model of the cluster is here, too.
#include "base/check.h"
#include "world.h"

#include <inttypes.h>

enum ownership_kind process_kind(const struct world *w, const struct process *p)
{
    if (!p->node) return OWNERSHIP_CLIENT;
    if (!w->mix.cluster) return OWNERSHIP_ALONE;
    return w->now >= p->joined_at ? OWNERSHIP_MEMBER : OWNERSHIP_JOINING;
}

bool process_owns(const struct process *p, uint32_t shard)
{
    const struct journal *j = &p->folds[shard].journal;
    return j->epoch > 0 && j->owner == p->life;
}

void owner_fold(struct world *w, struct process *p, uint32_t shard)
{
    p->folds[shard].journal = w->journals[shard];
}

static int64_t seen_at(const struct fold *f)
{
    bool unseen = f->journal.epoch == f->unseen_epoch && f->journal.writes <= f->unseen;
    return unseen ? TIME_UNKNOWN : f->journal.wrote_at;
}

static void collect(struct world *w, struct process *p, uint32_t shard)
{
    struct seen_shard *s = &p->shards[shard];
    const struct journal *j = &p->folds[shard].journal;
    struct ownership_facts *f = &s->facts;
    s->before = *j;
    f->kind = process_kind(w, p);
    f->mine = process_owns(p, shard);
    f->deleted = j->deleted;
    f->epoch = j->epoch;
    f->named = j->epoch > 0 && w->lives[j->owner].named;
    f->same_node = p->node && f->named && w->lives[j->owner].process == p->index;
    f->knows = s->known != NONE;
    f->knows_this = f->knows && s->known == j->owner;
    f->known_away = f->knows_this && p->peers[s->known].probe_at != 0;
    f->seen_at = seen_at(&p->folds[shard]);
}

// The cluster: the owner keeps a shard as long as it is seen. Otherwise the next member gets it.
static bool is_member(const struct world *w, const struct process *p)
{
    bool seen = process_runs(w, p) || w->now - p->ended_at < ALIVE_MS;
    return p->node && p->up && seen && w->now >= p->joined_at;
}

static struct process *planned(struct world *w, uint32_t shard)
{
    const struct journal *j = &w->journals[shard];
    struct process *owner = j->epoch > 0 ? world_live(w, j->owner) : NULL;
    if (owner && is_member(w, owner)) return owner;
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        struct process *p = &w->processes[(shard + i) % w->mix.nodes];
        if (is_member(w, p)) return p;
    }
    return NULL;
}

static void send_own(struct world *w, struct process *p, uint32_t shard, uint64_t expected)
{
    struct event own = {.kind = EVENT_OWN,
                        .process = p->index,
                        .life = p->life,
                        .shard = shard,
                        .number = expected};
    world_after(w, world_hop(w), &own);
}

void owner_hint(struct world *w, struct process *p, uint32_t shard)
{
    if (process_kind(w, p) != OWNERSHIP_MEMBER || planned(w, shard) != p) return;
    if (w->now < p->store_cut_until) return;
    owner_fold(w, p, shard); // src/member reads the journal first
    if (!process_owns(p, shard)) send_own(w, p, shard, p->folds[shard].journal.epoch);
}

static void tell_cluster(struct world *w, struct process *p, uint32_t shard)
{
    struct process *to = planned(w, shard);
    if (!to) return;
    struct event hint = {
        .kind = EVENT_HINT, .process = to->index, .life = to->life, .shard = shard};
    if (to == p)
        owner_hint(w, p, shard);
    else if (process_is_reached(w, p, to))
        world_after(w, world_hop(w), &hint);
}

void owner_owns(struct world *w, struct process *p, uint32_t shard, uint64_t expected)
{
    struct journal *j = &w->journals[shard];
    if (w->now < p->store_cut_until || j->epoch != expected || j->deleted) return;
    check_own(w, p, shard);
    w->takes++;
    w->replaced += j->epoch > 0;
    *j = (struct journal){.epoch = j->epoch + 1, .owner = p->life, .writes = 1, .wrote_at = w->now};
    owner_fold(w, p, shard);
    trace_line(&w->trace, w->now, "p%u.%u owns s%u, epoch %" PRIu64, p->index, p->life, shard,
               j->epoch);
}

static void finish(struct world *w, struct process *p, uint32_t shard,
                   const struct ownership_decision *d)
{
    struct seen_shard *s = &p->shards[shard];
    struct op op = s->op;
    s->checking = false;
    s->op.used = false;
    if (d->move != OWNERSHIP_UNCHANGED)
        s->known = d->move == OWNERSHIP_LEAVE ? s->before.owner : NONE;
    if (d->move == OWNERSHIP_TAKE) send_own(w, p, shard, s->before.epoch);
    if (d->move == OWNERSHIP_ASK_CLUSTER) tell_cluster(w, p, shard);
    s->check_at = w->now + d->again_ms;
    if (op.used) route_op(w, p, shard, op);
}

static void advance(struct world *w, struct process *p, uint32_t shard)
{
    static const char *const names[] = {
        "reads", "asks the peer",      "takes", "leaves", "asks the cluster",
        "waits", "keeps what it knows"};
    struct seen_shard *s = &p->shards[shard];
    s->facts.now = w->now - p->late_by;
    struct ownership_decision d = ownership_decide(&s->facts, &s->silence);
    trace_line(&w->trace, w->now, "p%u.%u s%u: %s, next in %" PRId64 " ms", p->index, p->life,
               shard, names[d.move], d.again_ms);
    check_facts_move(w, p, shard, d.move);
    struct event read = {.kind = EVENT_READ, .process = p->index, .life = p->life, .shard = shard};
    if (w->findings.broken) return;
    if (d.move == OWNERSHIP_READ) {
        world_after(w, world_hop(w), &read);
    } else if (d.move == OWNERSHIP_ASK_PEER) {
        w->asks++;
        peer_ask(w, p, shard, s->before.owner);
    } else {
        check_decision(w, p, shard, &d);
        if (!w->findings.broken) finish(w, p, shard, &d);
    }
}

// The first fold of a process may begin with a snapshot that is newer than the owner's entries.
void owner_read(struct world *w, struct process *p, uint32_t shard)
{
    struct seen_shard *s = &p->shards[shard];
    struct fold *f = &p->folds[shard];
    bool fails = w->now < p->store_cut_until, first = f->journal.epoch == 0;
    s->facts.journal = fails ? OWNERSHIP_UNREADABLE : OWNERSHIP_CURRENT;
    s->read = !fails;
    if (!fails) owner_fold(w, p, shard);
    if (!fails && first && rng_chance(&w->rng, w->mix.snapshots)) {
        f->unseen = f->journal.writes;
        f->unseen_epoch = f->journal.epoch;
    }
    collect(w, p, shard);
    advance(w, p, shard);
}

void owner_asked(struct world *w, struct process *p, uint32_t shard, enum ownership_answer answer,
                 int64_t age_ms)
{
    p->shards[shard].facts.answer_age_ms = age_ms;
    p->shards[shard].facts.answer = answer;
    advance(w, p, shard);
}

static bool is_due(struct world *w, struct process *p, uint32_t shard)
{
    struct seen_shard *s = &p->shards[shard];
    if (s->check_at == 0 || s->wanted) return true;
    if (w->now < s->check_at) return false;
    s->facts = (struct ownership_facts){.wanted = false};
    collect(w, p, shard);
    struct ownership_decision d = ownership_decide(&s->facts, &s->silence);
    bool over = d.move == OWNERSHIP_WAIT || d.move == OWNERSHIP_UNCHANGED;
    if (over) s->check_at = w->now + d.again_ms;
    return !over;
}

void owner_use(struct world *w, struct process *p, uint32_t shard, const struct op *op)
{
    struct seen_shard *s = &p->shards[shard];
    if (!s->checking && is_due(w, p, shard)) {
        s->facts = (struct ownership_facts){.wanted = true, .first = s->check_at == 0};
        s->checking = true;
        s->wanted = s->read = false;
        s->op = *op;
        collect(w, p, shard);
        advance(w, p, shard);
    } else if (!s->checking || s->check_at != 0) {
        route_op(w, p, shard, *op);
    }
}

void owner_want(struct process *p, uint32_t shard)
{
    p->shards[shard].wanted = true;
    p->shards[shard].wants++;
}
