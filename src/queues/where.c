// SPDX-License-Identifier: Apache-2.0
// Collects the facts of a shard's ownership, and does what cluster/ownership.c decides.
#include "queues/where.h"

#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"
#include "peer/link.h"
#include "queues/owner_inside.h"

#include <stdio.h>
#include <string.h>

#define CHECKING_MS (2 * PEER_ASK_MS) // while a thread checks a shard, no other thread does

static void set_address(struct open_queue *q, struct shard_ownership *r, const char *address)
{
    LOCKED(&q->engine->lock);
    if (strcmp(r->owner_address, address) != 0) atomic_store(&r->target, NULL);
    (void)snprintf(r->owner_address, sizeof r->owner_address, "%s", address);
    atomic_store(&r->has_owner, *address != 0);
}

static bool get_address(struct open_queue *q, struct shard_ownership *r,
                        char out[JOURNAL_ADDRESS_MAX + 1])
{
    LOCKED(&q->engine->lock);
    memcpy(out, r->owner_address, JOURNAL_ADDRESS_MAX + 1);
    return *out;
}

// One check of a shard.
struct check {
    struct open_queue *queue;
    struct shard_ownership *ownership;
    struct shard_runner *runner;
    const struct owner_identity *self; // NULL: it is no node
    struct owner_cluster *cluster;     // NULL: it is no member
    struct runner_owner owner;         // by the last fold
    struct owner_name name;            // ... if it can be read
    struct ownership_facts facts;
};

static void copy_deleted(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    *(bool *)ctx = machine_deleted(m);
}

static uint32_t shard_of(const struct check *c)
{
    return (uint32_t)(c->ownership - c->queue->ownerships);
}

// The facts of the last fold.
static void collect(struct check *c)
{
    struct ownership_facts *f = &c->facts;
    char known[JOURNAL_ADDRESS_MAX + 1];
    runner_owner(c->runner, &c->owner);
    runner_inspect(c->runner, copy_deleted, &f->deleted);
    f->mine = c->owner.mine;
    f->unserved = f->mine && c->cluster && !c->cluster->serves(c->cluster, c->queue, shard_of(c));
    f->epoch = c->owner.epoch;
    f->named = f->epoch != 0 && owner_parse(c->owner.address, &c->name);
    f->same_node = c->self && f->named && strcmp(c->name.node, c->self->name.node) == 0;
    f->knows = get_address(c->queue, c->ownership, known);
    f->knows_this = f->knows && f->named && strcmp(known, c->owner.address) == 0;
    f->known_away = f->knows_this && peers_recall(c->queue->engine->peers, &c->name) == PEER_AWAY;
    f->seen_at = c->owner.seen_at;
}

static struct check check_of(struct open_queue *q, uint32_t shard, struct shard_runner *runner)
{
    struct engine *e = q->engine;
    struct check c = {.queue = q, .ownership = &q->ownerships[shard], .runner = runner};
    c.self = atomic_load(&e->self);
    c.cluster = atomic_load(&e->cluster);
    c.facts.kind = !c.self                  ? OWNERSHIP_CLIENT
                   : c.cluster              ? OWNERSHIP_MEMBER
                   : atomic_load(&e->joins) ? OWNERSHIP_JOINING
                                            : OWNERSHIP_ALONE;
    collect(&c);
    return c;
}

static void ask_peer(struct check *c)
{
    static const enum ownership_answer answers[] = {
        [PEER_PROVEN] = OWNERSHIP_PROVEN,
        [PEER_DECLINES] = OWNERSHIP_DECLINES,
        [PEER_AWAY] = OWNERSHIP_AWAY,
        [PEER_DOUBTED] = OWNERSHIP_DOUBTED,
    };
    struct ownership_facts *f = &c->facts;
    f->answer = answers[peers_ask(c->queue->engine->peers, &c->name, &f->answer_age_ms)];
}

// Facts that a decision asks for are collected until it asks for no more. Entries that were written
// during a challenge are folded when the own op commits.
static struct ownership_decision decide(struct check *c)
{
    struct ownership_decision d;
    for (;;) {
        c->facts.now = runner_time(c->runner).lo;
        d = ownership_decide(&c->facts, &c->ownership->silence);
        if (d.move == OWNERSHIP_READ) {
            bool failed = runner_sync(c->runner);
            c->facts.journal = failed ? OWNERSHIP_UNREADABLE : OWNERSHIP_CURRENT;
            collect(c);
        } else if (d.move == OWNERSHIP_ASK_PEER) {
            ask_peer(c);
        } else {
            return d;
        }
    }
}

// Without a cluster, the token is the recorded one plus 1. If the store fails or another node is
// faster, the next check finds out.
static void take(const struct check *c)
{
    struct journal_owner owner = {.token = c->owner.token + 1,
                                  .address = bytes_str(c->self->address)};
    enum err err = runner_own(c->runner, c->owner.epoch, &owner);
    (void)err;
    engine_wake(c->queue->engine); // workers with mailboxes may be registered
}

static void perform(const struct check *c, const struct ownership_decision *d)
{
    struct open_queue *q = c->queue;
    uint32_t shard = shard_of(c);
    if (d->move != OWNERSHIP_UNCHANGED)
        set_address(q, c->ownership, d->move == OWNERSHIP_LEAVE ? c->owner.address : "");
    if (d->tell_cluster) c->cluster->seen(c->cluster, q, shard, c->owner.epoch);
    if (d->away) runner_owner_away(c->runner);
    if (d->move == OWNERSHIP_TAKE) take(c);
    if (d->move == OWNERSHIP_ASK_CLUSTER) c->cluster->used(c->cluster, q, shard);
}

// Call it with the ownership's lock.
static void check(struct check *c)
{
    _Atomic int64_t *check_at = &c->ownership->check_at;
    c->facts.wanted = true;
    c->facts.first = atomic_load(check_at) == 0;
    // The first time, the callers at a node wait. An op that is written directly before the shard
    // is owned would be followed by the pause that direct writers make for owners.
    if (!c->facts.first || !c->self) atomic_store(check_at, clock_boot_ms() + CHECKING_MS);
    struct ownership_decision d = decide(c);
    perform(c, &d);
    atomic_store(check_at, clock_boot_ms() + d.again_ms);
}

bool where_is_due(struct open_queue *q, uint32_t shard, struct shard_runner *runner)
{
    struct shard_ownership *r = &q->ownerships[shard];
    if (!atomic_load(&q->engine->self) && !q->engine->links) return false;
    int64_t now = clock_boot_ms(), check_at = atomic_load(&r->check_at);
    if (check_at == 0 || atomic_load(&r->wanted)) return true;
    // If many callers come at once, one of them checks.
    if (now < check_at ||
        !atomic_compare_exchange_strong(&r->check_at, &check_at, now + CHECKING_MS))
        return false;
    struct check c = check_of(q, shard, runner);
    struct ownership_decision d = ownership_decide(&c.facts, &r->silence);
    bool over = d.move == OWNERSHIP_WAIT || d.move == OWNERSHIP_UNCHANGED;
    if (over)
        atomic_store(&r->check_at, now + d.again_ms);
    else
        atomic_store(&r->wanted, true);
    return !over;
}

static void check_if_due(struct open_queue *q, uint32_t shard, struct shard_runner *runner)
{
    struct shard_ownership *r = &q->ownerships[shard];
    if (!where_is_due(q, shard, runner)) return;
    bool first = atomic_load(&r->check_at) == 0;
    if (!first && pthread_mutex_trylock(&r->lock) != 0) return;
    if (first) (void)pthread_mutex_lock(&r->lock);
    bool wanted = atomic_exchange(&r->wanted, false);
    if (wanted || atomic_load(&r->check_at) == 0) {
        struct check c = check_of(q, shard, runner);
        check(&c);
    }
    (void)pthread_mutex_unlock(&r->lock);
}

// Prepares the target, which may have to resolve a name.
static void set_target(struct open_queue *q, struct shard_ownership *r)
{
    struct owner_name name;
    char address[JOURNAL_ADDRESS_MAX + 1], now[JOURNAL_ADDRESS_MAX + 1];
    struct links *links = q->engine->links;
    if (!links || !atomic_load(&r->has_owner) || atomic_load(&r->target)) return;
    if (!get_address(q, r, address) || !owner_parse(address, &name)) return;
    struct link_target *t = links_target(links, &name);
    (void)get_address(q, r, now);
    if (strcmp(now, address) == 0) atomic_store(&r->target, t);
}

void where_check(struct open_queue *q, uint32_t shard, struct shard_runner *runner)
{
    check_if_due(q, shard, runner);
    set_target(q, &q->ownerships[shard]);
}

enum op_route_owner where_target(struct open_queue *q, uint32_t shard, struct link_target **out)
{
    *out = atomic_load(&q->ownerships[shard].target);
    if (!*out) return OP_ROUTE_OWNER_NONE;
    enum peer peer = peers_recall(q->engine->peers, link_target_name(*out));
    return peer == PEER_PROVEN ? OP_ROUTE_OWNER_PROVEN : OP_ROUTE_OWNER_AWAY;
}

bool owner_of_shard(struct open_queue *q, uint32_t shard, char url[JOURNAL_ADDRESS_MAX])
{
    const struct owner_identity *self = atomic_load(&q->engine->self);
    struct shard_runner *r = self ? runner_if_open(q, shard) : NULL;
    struct link_target *t;
    struct runner_owner o;
    if (!r) return false;
    runner_owner(r, &o);
    bool proven = !o.mine && where_target(q, shard, &t) == OP_ROUTE_OWNER_PROVEN;
    if (!o.mine && !proven) return false;
    const struct owner_name *name = o.mine ? &self->name : link_target_name(t);
    (void)snprintf(url, JOURNAL_ADDRESS_MAX, "%s", name->url);
    return true;
}

// Whether a doubted node is away is found out once, for all queues.
struct peer_doubt {
    struct open_queue *queue; // with a hold
    struct link_target *target;
};

static void forget(struct open_queue *q, const struct link_target *t)
{
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct shard_ownership *r = &q->ownerships[i];
        struct shard_runner *runner = runner_if_open(q, i);
        if (atomic_load(&r->target) != t) continue;
        set_address(q, r, "");
        if (runner) runner_owner_away(runner); // a direct writer pauses for a live owner
    }
}

// Every open shard of the node is checked again: this node may have to take it.
static void check_shards(struct open_queue *q)
{
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct shard_runner *r = runner_if_open(q, i);
        if (!r) continue;
        where_moved(q, i);
        where_check(q, i, r);
    }
}

static void find_out(void *ctx)
{
    struct peer_doubt *e = ctx;
    struct engine *s = e->queue->engine;
    enum peer peer = peers_find_out(s->peers, link_target_name(e->target));
    if (peer != PEER_PROVEN) forget(e->queue, e->target);
    link_doubt_over(e->target);
    if (peer != PEER_PROVEN) {
        link_target_away(s->links, e->target);
        check_shards(e->queue);
    }
    queue_let_go(&e->queue);
    memory_free(e);
}

void where_doubt(struct open_queue *q, struct link_target *t)
{
    struct engine *s = q->engine;
    if (!link_doubt_begin(t)) return;
    peers_doubt(s->peers, link_target_name(t));
    struct peer_doubt *e = NEW(struct peer_doubt);
    *e = (struct peer_doubt){.queue = q, .target = t};
    queue_hold(q);
    engine_run(s, q->row.name, find_out, e);
}

void where_moved(struct open_queue *q, uint32_t shard)
{
    atomic_store(&q->ownerships[shard].wanted, true);
}

enum err owner_take(struct open_queue *q, uint32_t shard, const uint8_t coord[16], uint64_t *token,
                    uint64_t *epoch)
{
    const struct owner_identity *self = atomic_load(&q->engine->self);
    struct shard_runner *r;
    struct runner_owner o;
    bool deleted = false;
    if (!self || queue_runner(q, shard, &r, NULL)) return ERR_UNAVAILABLE;
    enum err err = runner_sync(r);
    if (err) return err;
    runner_inspect(r, copy_deleted, &deleted);
    if (deleted) return ERR_NOT_FOUND;
    runner_owner(r, &o);
    *epoch = o.epoch;
    bool same = o.epoch == 0 || memcmp(o.coord, coord, sizeof o.coord) == 0;
    if (!same) return ERR_DENIED;
    if (o.mine && o.token == *token) return ERR_OK;
    if (o.epoch != 0 && o.token >= *token) {
        *token = o.token;
        return ERR_FENCED;
    }
    struct journal_owner owner = {.token = *token, .address = bytes_str(self->address)};
    memcpy(owner.coord, coord, sizeof owner.coord);
    err = runner_own(r, o.epoch, &owner);
    if (err) return err;
    engine_wake(q->engine); // workers with mailboxes may be registered
    runner_owner(r, &o);
    *epoch = o.epoch;
    return o.mine ? ERR_OK : ERR_CONFLICT;
}

void owner_moved(struct open_queue *q, uint32_t shard)
{
    struct shard_runner *r = runner_if_open(q, shard);
    if (!r) return;
    where_moved(q, shard);
    where_check(q, shard, r);
    q->engine->hooks.moved(q);
}
