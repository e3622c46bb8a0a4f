// SPDX-License-Identifier: Apache-2.0
// The driver of a node: it passes events with the node's clock, performs effects through the
// network, and commits entries for the shards that the node takes.
#include "base/check.h"
#include "base/memory.h"
#include "cluster/ownership.h"
#include "world.h"

#include <inttypes.h>
#include <string.h>

struct interval node_now(const struct world *w, const struct node *n)
{
    return (struct interval){.lo = w->now - n->late_by, .hi = w->now + n->early_by};
}

bool node_acts(const struct world *w, const struct node *n)
{
    return n->up && w->now >= n->paused_until;
}

void node_start(struct world *w, struct node *n)
{
    if (n->up || w->lives == LIVES_MAX) return;
    uint8_t incarnation[32] = {(uint8_t)(w->lives + 1)};
    char name[16];
    (void)snprintf(name, sizeof name, "node-%u", n->index);
    struct node fresh = {.index = n->index, .life = w->lives++, .up = true};
    fresh.cut_until = n->cut_until;
    fresh.store_cut_until = n->store_cut_until;
    fresh.peer_cut_until = n->peer_cut_until;
    fresh.late_by = n->late_by;
    fresh.early_by = n->early_by;
    fresh.viewed_at = fresh.contact_at = TIME_UNKNOWN;
    member_id_set(&fresh.id, name, incarnation);
    *n = fresh;
    struct cluster_config config;
    cluster_config_defaults(&config, &n->id, w->mix.lease_ms);
    config.moves_max = w->mix.moves_max;
    config.move_round_ms = w->mix.lease_ms / 2;
    config.move_cool_down_ms = 2 * w->mix.lease_ms;
    config.plan_ms = w->mix.lease_ms;
    config.retry_ms = w->mix.lease_ms / 10;
    config.seed = rng_next(&w->rng);
    config.lazy = w->mix.lazy;
    n->cluster = cluster_new(&config);
    trace_line(&w->trace, w->now, "n%u.%u starts", n->index, n->life);
    struct cluster_event shards = {
        .kind = CLUSTER_SHARDS, .shards = w->keys, .shards_len = w->mix.shards};
    node_step(w, n, &shards);
}

const char *effect_name(enum cluster_effect_kind kind)
{
    static const char *const names[] = {
        [CLUSTER_JOIN] = "join",
        [CLUSTER_HEARTBEAT] = "heartbeat",
        [CLUSTER_LEAVE] = "leave",
        [CLUSTER_LIST] = "list",
        [CLUSTER_LEAD] = "lead",
        [CLUSTER_RENEW] = "renew",
        [CLUSTER_RESIGN] = "resign",
        [CLUSTER_PUBLISH] = "publish",
        [CLUSTER_CLAIM] = "claim",
        [CLUSTER_RELEASE] = "release",
        [CLUSTER_OWN] = "own",
        [CLUSTER_HAND_OVER] = "hand over",
        [CLUSTER_TAKE] = "take",
        [CLUSTER_STOP_TAKING] = "stop taking",
        [CLUSTER_REPORT_PLAN] = "report plan",
        [CLUSTER_NOTE] = "note",
    };
    CHECK((size_t)kind < sizeof names / sizeof *names);
    return names[kind];
}

static void node_use(struct world *w, struct node *n, uint32_t shard, enum cluster_event_kind kind)
{
    struct cluster_event used = {.kind = kind, .shard = w->keys[shard]};
    if (!w->mix.lazy || !node_acts(w, n)) return;
    n->used[shard] = true;
    node_step(w, n, &used);
}

// A hint to the node with this identity, which may be lost.
static void use_at(struct world *w, const struct member_id *id, uint32_t shard)
{
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        struct node *n = &w->nodes[i];
        if (n->up && member_id_equal(&n->id, id) && !rng_chance(&w->rng, 1000))
            node_use(w, n, shard, CLUSTER_USED_AWAY);
    }
}

static struct node *owner_of(struct world *w, uint32_t shard)
{
    const struct register_log *log = &w->logs[shard];
    for (uint32_t i = 0; log->epoch != 0 && i < w->mix.nodes; i++)
        if (w->nodes[i].up && w->nodes[i].life == log->owners[log->epoch]) return &w->nodes[i];
    return NULL;
}

// What the node decides when a call uses the shard.
static enum ownership_move check_shard(struct world *w, struct node *n, uint32_t shard)
{
    struct ownership_silence silence = {0};
    const struct node *owner = owner_of(w, shard);
    bool reached = owner && node_acts(w, owner) && w->now >= owner->peer_cut_until;
    struct ownership_facts f = {
        .kind = OWNERSHIP_MEMBER,
        .journal = OWNERSHIP_CURRENT,
        .mine = owner == n,
        .unserved = cluster_serves(n->cluster, &w->keys[shard]) == 0,
        .epoch = w->logs[shard].epoch,
        .named = true,
        .answer = reached ? OWNERSHIP_PROVEN : OWNERSHIP_AWAY,
        .seen_at = TIME_UNKNOWN,
    };
    return ownership_decide(&f, &silence).move;
}

// A client's call at the node. It goes to the node that the journal names, which checks the shard,
// too. A node that asks its cluster tells the node of its plan.
void node_call(struct world *w, struct node *n, uint32_t shard)
{
    if (!w->mix.lazy || !node_acts(w, n)) return;
    enum ownership_move move = check_shard(w, n, shard);
    if (move == OWNERSHIP_LEAVE) {
        n = owner_of(w, shard);
        move = check_shard(w, n, shard);
    }
    if (move != OWNERSHIP_ASK_CLUSTER) return;
    const struct member_id *owner = n->plan ? plan_owner(n->plan, &w->keys[shard]) : NULL;
    node_use(w, n, shard, CLUSTER_USED);
    if (owner) use_at(w, owner, shard);
}

void node_end(struct world *w, struct node *n)
{
    if (!n->up) return;
    trace_line(&w->trace, w->now, "n%u.%u ends", n->index, n->life);
    cluster_free(n->cluster);
    n->cluster = NULL;
    n->up = false;
}

static void send(struct world *w, struct node *n, const struct cluster_effect *e)
{
    struct flight *f = flight_new(w, n, FLIGHT_REQUEST);
    f->effect = *e;
    bool has_shard = e->kind >= CLUSTER_CLAIM && e->kind <= CLUSTER_HAND_OVER;
    f->shard = has_shard ? world_shard(w, &e->shard) : NONE;
    f->effect.plan = NULL;
    if (e->kind == CLUSTER_PUBLISH) {
        f->plan = NEW(struct plan);
        plan_init(f->plan);
        plan_copy(f->plan, e->plan);
    }
}

static void perform(struct world *w, struct node *n, const struct cluster_effect *e)
{
    uint32_t shard = e->kind == CLUSTER_TAKE || e->kind == CLUSTER_STOP_TAKING
                         ? world_shard(w, &e->shard)
                         : NONE;
    if (e->kind == CLUSTER_TAKE) n->taking[shard] = e->number;
    if (e->kind == CLUSTER_STOP_TAKING) n->taking[shard] = 0;
    if (e->request != 0) send(w, n, e);
    if (e->kind == CLUSTER_HAND_OVER) use_at(w, &e->to, world_shard(w, &e->shard));
    if (e->kind == CLUSTER_NOTE && e->note == NOTE_ELECTED) w->elections++;
}

static void show(struct world *w, const struct node *n, const struct cluster_effect *e)
{
    const char *what = effect_name(e->kind);
    if (e->kind == CLUSTER_NOTE) what = cluster_note_name(e->note);
    bool has_shard = e->kind >= CLUSTER_CLAIM && e->kind <= CLUSTER_STOP_TAKING;
    trace_line(&w->trace, w->now, "n%u.%u: %s %" PRIu64 "%s%.0u%s", n->index, n->life, what,
               e->number, has_shard ? " s" : "", has_shard ? world_shard(w, &e->shard) : 0,
               e->kind == CLUSTER_NOTE && e->note == NOTE_MEMBER ? life_name(e->life) : "");
}

void node_step(struct world *w, struct node *n, const struct cluster_event *e)
{
    CHECK(n->up);
    cluster_step(n->cluster, e, node_now(w, n));
    check_plan(w, n);
    struct cluster_effect effect;
    while (cluster_next_effect(n->cluster, &effect)) {
        idle_act(&n->idle);
        show(w, n, &effect);
        check_effect(w, n, &effect);
        perform(w, n, &effect);
    }
    check_leader(w, n);
    if (cluster_stopped(n->cluster)) {
        int64_t back = w->now + rng_range(&w->rng, 1, 4 * w->mix.lease_ms);
        node_end(w, n);
        world_at(w, back, EVENT_START, n->index, 0);
        return;
    }
    int64_t at = cluster_wake_at(n->cluster);
    n->tick_at = at > w->now + n->early_by ? at - n->early_by : w->now + 1;
    world_at(w, n->tick_at, EVENT_TICK, n->index, n->life);
}

void node_tick(struct world *w, struct node *n)
{
    struct cluster_event tick = {.kind = CLUSTER_TICK};
    uint32_t life = n->life;
    idle_begin(&n->idle);
    node_step(w, n, &tick);
    if (!n->up || n->life != life) return;
    idle_end(&n->idle, &w->findings, n->index, w->now, cluster_wake_at(n->cluster),
             node_now(w, n).hi);
}

// Returns an op that is not applied and not under way, or a new one; NONE if there are too many.
static uint32_t pick_op(struct world *w, uint32_t shard)
{
    for (uint32_t i = 0; i < w->ops_len; i++) {
        const struct op *op = &w->ops[i];
        if (op->shard == shard && !op->applied && !op->open) return i;
    }
    if (w->ops_len == OPS_MAX || w->healed) return NONE;
    w->ops[w->ops_len] = (struct op){.shard = shard};
    return w->ops_len++;
}

// A client commits through a node that takes the shard. Two nodes may believe that they do.
void node_commit(struct world *w)
{
    if (w->mix.shards == 0) return;
    uint32_t shard = (uint32_t)rng_below(&w->rng, w->mix.shards);
    uint32_t first = (uint32_t)rng_below(&w->rng, w->mix.nodes);
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        struct node *n = &w->nodes[(first + i) % w->mix.nodes];
        if (!node_acts(w, n) || n->taking[shard] == 0) continue;
        uint32_t op = pick_op(w, shard);
        if (op == NONE) return;
        w->ops[op].open = true;
        struct flight *f = flight_new(w, n, FLIGHT_COMMIT);
        f->op = op;
        f->shard = shard;
        f->effect.number = n->taking[shard];
        n->commits[shard]++;
        return;
    }
    node_call(w, &w->nodes[first], shard); // no node takes the shard
}
