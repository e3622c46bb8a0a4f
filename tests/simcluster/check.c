// SPDX-License-Identifier: Apache-2.0
// The checkers. They read the world and the nodes and change neither. docs/simulation.md lists the
// promises by these names.
#include "base/check.h"
#include "base/interval.h"
#include "world.h"

#include <inttypes.h>
#include <string.h>

// epochs: the service gives each epoch away once, and epochs rise.
void check_granted(struct world *w, uint32_t life, uint64_t epoch)
{
    CHECK(epoch < EPOCHS_MAX);
    if (w->leaders[epoch] != NONE)
        findings_add(&w->findings, "epochs", "epoch %" PRIu64 " was given away twice", epoch);
    for (uint64_t later = epoch + 1; later < EPOCHS_MAX; later++) {
        if (w->leaders[later] == NONE) break;
        findings_add(&w->findings, "epochs", "epoch %" PRIu64 " after a later one", epoch);
    }
    // first-leader: of nodes that start at once, the first by name leads first.
    if (w->mix.cold && epoch == 1 && w->service.sessions[life].node != 0)
        findings_add(&w->findings, "first-leader", "life %u leads the first epoch", life);
    w->leaders[epoch] = life;
}

// one-leader: a node leads only an epoch that the service gave to this life.
void check_leader(struct world *w, struct node *n)
{
    if (!cluster_leads(n->cluster)) return;
    uint64_t epoch = cluster_epoch(n->cluster);
    if (epoch >= EPOCHS_MAX || w->leaders[epoch] != n->life)
        findings_add(&w->findings, "one-leader", "n%u.%u leads epoch %" PRIu64 " of another node",
                     n->index, n->life, epoch);
}

// step-down: a node that leads and can act holds the lease by the service's clock.
void check_leases(struct world *w)
{
    const struct service *s = &w->service;
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        const struct node *n = &w->nodes[i];
        bool resumes = w->now <= n->paused_until; // its tick comes in this millisecond
        if (!node_acts(w, n) || resumes || !cluster_leads(n->cluster)) continue;
        const struct session *session = &s->sessions[n->life];
        bool holds = s->leader == n->life && session->alive && w->now <= session->expires;
        if (!holds)
            findings_add(&w->findings, "step-down",
                         "n%u.%u leads epoch %" PRIu64 " without a lease", n->index, n->life,
                         cluster_epoch(n->cluster));
    }
}

// newest-plan: the plan that a node goes by is the newest that it has seen.
void check_plan(struct world *w, struct node *n)
{
    const struct plan *plan = cluster_plan(n->cluster);
    struct plan none = {.epoch = 0};
    if (plan_compare_version(plan, n->plan ? n->plan : &none) == 0) return;
    findings_add(&w->findings, "newest-plan",
                 "n%u.%u goes by plan %" PRIu64 ".%" PRIu64 " and has seen another", n->index,
                 n->life, plan->epoch, plan->number);
}

// claims: only with a service that answers, and only what the newest plan gives this incarnation,
// or what it does not have.
static void check_claim(struct world *w, struct node *n, uint32_t shard)
{
    bool reached = n->contact_at != TIME_UNKNOWN && w->now - n->contact_at < w->mix.lease_ms;
    if (cluster_degraded(n->cluster) || !reached)
        findings_add(&w->findings, "degraded", "n%u.%u claims s%u without the service", n->index,
                     n->life, shard);
    const struct member_id *owner = n->plan ? plan_owner(n->plan, &w->keys[shard]) : NULL;
    bool first = w->mix.lazy && !(n->plan && plan_find(n->plan, &w->keys[shard]));
    bool planned = (owner && member_id_equal(owner, &n->id)) || cluster_lone(n->cluster) || first;
    if (w->mix.lazy && !n->used[shard] && !n->doubt[shard])
        findings_add(&w->findings, "lazy", "n%u.%u claims s%u, which is not used", n->index,
                     n->life, shard);
    if (!planned && !n->doubt[shard] && n->taking[shard] == 0)
        findings_add(&w->findings, "claims", "n%u.%u claims s%u, which is not its own by the plan",
                     n->index, n->life, shard);
}

// cold-start: a node asks for the lead only after it has observed for one lease.
static void check_lead(struct world *w, const struct node *n)
{
    if (n->viewed_at == TIME_UNKNOWN || w->now - n->viewed_at < w->mix.lease_ms)
        findings_add(&w->findings, "cold-start", "n%u.%u asks for the lead too early", n->index,
                     n->life);
}

// moves: a plan moves at most moves_max shards from living owners.
static void check_moves(struct world *w, const struct node *n, const struct plan *plan)
{
    uint32_t moves = 0;
    for (size_t i = 0; i < plan->rows_len; i++) {
        enum move_reason reason = plan->rows[i].reason;
        moves += reason == MOVE_OWNER_LEAVES || reason == MOVE_OVER_BOUND ||
                 reason == MOVE_UNDER_SHARE || reason == MOVE_QUEUE_BOUND ||
                 reason == MOVE_QUEUE_SHARE || reason == MOVE_TRAFFIC;
    }
    if (moves > w->mix.moves_max)
        findings_add(&w->findings, "moves", "n%u.%u moves %u shards in one round", n->index,
                     n->life, moves);
}

// owner: a node serves with an epoch that the journal gave to this very life.
static void check_take(struct world *w, const struct node *n, uint32_t shard, uint64_t epoch)
{
    const struct register_log *log = &w->logs[shard];
    if (epoch == 0 || epoch > log->epoch || log->owners[epoch] != n->life)
        findings_add(&w->findings, "owner",
                     "n%u.%u serves s%u with epoch %" PRIu64 ", which it does not own", n->index,
                     n->life, shard, epoch);
}

// told: after a node stops serving a shard, it says once that it handed it over or lost it.
static void check_told(struct world *w, struct node *n, const struct cluster_effect *e)
{
    bool says = e->kind == CLUSTER_NOTE && (e->note == NOTE_LOST || e->note == NOTE_HANDED_OVER);
    if (!says && e->kind != CLUSTER_TAKE && e->kind != CLUSTER_STOP_TAKING) return;
    uint32_t shard = world_shard(w, &e->shard);
    bool wrong = e->kind == CLUSTER_TAKE ? n->untold[shard] : says != n->untold[shard];
    if (wrong)
        findings_add(&w->findings, "told", "n%u.%u does not say once how it lost s%u", n->index,
                     n->life, shard);
    n->untold[shard] = e->kind == CLUSTER_STOP_TAKING;
}

void check_effect(struct world *w, struct node *n, const struct cluster_effect *e)
{
    check_told(w, n, e);
    if (e->kind == CLUSTER_CLAIM) check_claim(w, n, world_shard(w, &e->shard));
    if (e->kind == CLUSTER_LEAD) check_lead(w, n);
    if (e->kind == CLUSTER_PUBLISH) check_moves(w, n, e->plan);
    if (e->kind == CLUSTER_TAKE) check_take(w, n, world_shard(w, &e->shard), e->number);
}

// tokens: a journal accepts an own only with a higher token than every one before.
void check_own(struct world *w, uint32_t shard, uint32_t life, uint64_t token)
{
    struct register_log *log = &w->logs[shard];
    if (token <= log->highest)
        findings_add(&w->findings, "tokens", "s%u accepts token %" PRIu64 " after %" PRIu64, shard,
                     token, log->highest);
    else
        log->highest = token;
    (void)life;
}

// owner: the entries of an epoch come from its one owner.
void check_commit(struct world *w, uint32_t shard, uint32_t life)
{
    const struct register_log *log = &w->logs[shard];
    if (log->owners[log->epoch] != life)
        findings_add(&w->findings, "owner",
                     "s%u has an entry of life %u in epoch %" PRIu64 " of life %u", shard, life,
                     log->epoch, log->owners[log->epoch]);
}

// A lone node that is lazy needs no leader and no plan.
static bool is_lone(const struct world *w)
{
    return w->mix.lazy && w->mix.nodes == 1;
}

static void check_shard(struct world *w, uint32_t shard)
{
    const struct register_log *log = &w->logs[shard];
    const struct service *s = &w->service;
    const struct member_id *planned =
        s->plans_len > 0 ? plan_owner(s->plans[s->plans_len - 1], &w->keys[shard]) : NULL;
    uint32_t serving = 0;
    bool right = false;
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        const struct node *n = &w->nodes[i];
        if (!n->up || cluster_serves(n->cluster, &w->keys[shard]) == 0) continue;
        serving++;
        right = cluster_serves(n->cluster, &w->keys[shard]) == log->epoch &&
                log->owners[log->epoch] == n->life &&
                (is_lone(w) || (planned && member_id_equal(planned, &n->id)));
    }
    if (serving != 1 || !right)
        findings_add(&w->findings, "healed", "s%u is served by %u nodes%s", shard, serving,
                     right ? "" : ", and not by the right one");
}

static uint32_t capacity_of(const struct world *w, uint32_t node)
{
    return node == w->unreachable ? 0 : node_capacity(node);
}

static uint32_t planned_of(const struct world *w, const struct plan *plan, uint32_t queue,
                           const struct member_id *id)
{
    uint32_t has = 0;
    for (uint32_t i = 0; i < w->mix.shards; i++) {
        const struct member_id *owner = plan_owner(plan, &w->keys[i]);
        has += w->keys[i].queue[0] == queue && owner && member_id_equal(owner, id);
    }
    return has;
}

// spread: after the faults each node has its share of each queue, rounded up or down.
static void check_spread(struct world *w, const struct plan *plan, uint32_t queue)
{
    uint32_t capacity = 0, shards = 0;
    for (uint32_t i = 0; i < w->mix.nodes; i++)
        capacity += capacity_of(w, i);
    for (uint32_t i = 0; i < w->mix.shards; i++)
        shards += w->keys[i].queue[0] == queue;
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        uint32_t whole = shards * capacity_of(w, i);
        uint32_t has = planned_of(w, plan, queue, &w->nodes[i].id);
        if (has < whole / capacity || has > (whole + capacity - 1) / capacity)
            findings_add(&w->findings, "spread", "n%u has %u of %u shards of queue %u", i, has,
                         shards, queue);
    }
}

// unreachable: shards leave a node that its peers report as out of reach.
static void check_unreachable(struct world *w, const struct plan *plan)
{
    for (uint32_t i = 0; w->unreachable != NONE && i < w->mix.shards; i++) {
        const struct member_id *owner = plan_owner(plan, &w->keys[i]);
        if (owner && member_id_equal(owner, &w->nodes[w->unreachable].id))
            findings_add(&w->findings, "unreachable", "n%u has s%u, and no peer reaches it",
                         w->unreachable, i);
    }
}

bool plan_rests(const struct world *w)
{
    return w->now - w->service.planned_at >= 4 * w->mix.lease_ms;
}

static void check_plan_healed(struct world *w)
{
    const struct service *s = &w->service;
    if (w->mix.shards == 0 || is_lone(w) || s->plans_len == 0) return;
    check_unreachable(w, s->plans[s->plans_len - 1]);
    for (uint32_t queue = 0; queue <= w->keys[w->mix.shards - 1].queue[0]; queue++)
        check_spread(w, s->plans[s->plans_len - 1], queue);
    // rest: with traffic that stays at one level, the plan comes to rest.
    if (w->mix.traffic && !plan_rests(w))
        findings_add(&w->findings, "rest", "the plan still changes, and the traffic does not");
}

// healed: after the faults there is one leader, every shard has its planned owner, no client waits,
// and the plan rests.
void check_healed(struct world *w)
{
    uint32_t leaders = 0, first = NONE;
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        const struct node *n = &w->nodes[i];
        if (!n->up) continue;
        if (first == NONE) first = i;
        leaders += cluster_leads(n->cluster);
        if (cluster_degraded(n->cluster))
            findings_add(&w->findings, "healed", "n%u is still degraded", i);
        for (uint32_t k = 0; k < w->mix.shards; k++)
            if (n->untold[k])
                findings_add(&w->findings, "told", "n%u never says that it lost s%u", i, k);
    }
    bool led = leaders == 1 && first != NONE && cluster_leads(w->nodes[first].cluster);
    if (is_lone(w) ? leaders != 0 : !led)
        findings_add(&w->findings, "healed", "%u nodes lead, or not the first by name", leaders);
    for (uint32_t i = 0; i < w->mix.shards; i++)
        check_shard(w, i);
    for (uint32_t i = 0; i < w->ops_len; i++) {
        if (!w->ops[i].applied)
            findings_add(&w->findings, "healed", "op %u on s%u was never applied", i,
                         w->ops[i].shard);
    }
    check_plan_healed(w);
    if (w->now - w->service.planned_at < 4 * w->mix.lease_ms)
        findings_add(&w->findings, "healed", "the plan still changes");
}
