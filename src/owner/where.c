// SPDX-License-Identifier: Apache-2.0
#include "owner/where.h"

#include "base/memory.h"
#include "os/clock.h"
#include "owner/inside.h"
#include "owner/link.h"

#include <stdio.h>
#include <string.h>

#define SYNC_MS  5000 // how often the journal is read while another node owns the shard ...
#define CHECK_MS 1000 // ... and how often the folded state is looked at otherwise

static bool is_node(const struct open_queue *q)
{
    return atomic_load(&q->handle->self);
}

// For a process that is not a node. If no node owns the shard, nothing is to be found out.
static bool find_is_due(struct open_queue *q, struct shard_ownership *r, struct shard_runner *d)
{
    struct runner_owner o;
    int64_t now = clock_boot_ms(), check_at = atomic_load(&r->check_at);
    if (!q->handle->links || (check_at != 0 && now < check_at)) return false;
    if (check_at == 0) return true;
    runner_owner(d, &o);
    if (o.epoch != 0) return true;
    atomic_store(&r->check_at, now + CHECK_MS);
    return false;
}

bool where_is_due(struct open_queue *q, uint32_t shard, struct shard_runner *d)
{
    return is_node(q) ? owner_is_due(q, shard, d) : find_is_due(q, &q->ownerships[shard], d);
}

void owner_set_address(struct open_queue *q, struct shard_ownership *r, const char *address)
{
    (void)pthread_mutex_lock(&q->handle->lock);
    if (strcmp(r->owner_address, address) != 0) atomic_store(&r->target, NULL);
    (void)snprintf(r->owner_address, sizeof r->owner_address, "%s", address);
    atomic_store(&r->has_owner, *address != 0);
    (void)pthread_mutex_unlock(&q->handle->lock);
}

static bool get_address(struct open_queue *q, struct shard_ownership *r,
                        char out[JOURNAL_ADDRESS_MAX + 1])
{
    (void)pthread_mutex_lock(&q->handle->lock);
    memcpy(out, r->owner_address, JOURNAL_ADDRESS_MAX + 1);
    (void)pthread_mutex_unlock(&q->handle->lock);
    return *out;
}

// Reads the owner from the journal and checks that the node answers. A known owner is not asked
// again: each connection to it proves its identity.
static void find_owner(struct open_queue *q, struct shard_ownership *r, struct shard_runner *d)
{
    struct runner_owner o;
    struct owner_name name;
    char known[JOURNAL_ADDRESS_MAX + 1];
    bool has = get_address(q, r, known), first = atomic_load(&r->check_at) == 0;
    atomic_store(&r->check_at, clock_boot_ms() + CHECKING_MS); // other callers go on meanwhile
    // A process that writes to the shard itself folds its journal anyway.
    bool read = !((first || has) && runner_sync(d));
    runner_owner(d, &o);
    bool named = o.epoch != 0 && owner_parse(o.address, &name);
    enum peer peer = PEER_DECLINES;
    if (named && has && strcmp(known, o.address) == 0)
        peer = PEER_PROVEN;
    else if (named && read)
        peer = peers_ask(q->handle->peers, &name);
    if (peer == PEER_AWAY) runner_owner_away(d);
    // If the store is unreachable, the owner is not known to have changed.
    if (read) owner_set_address(q, r, peer == PEER_PROVEN ? o.address : "");
    has = get_address(q, r, known);
    atomic_store(&r->check_at, clock_boot_ms() + (has ? SYNC_MS : CHECK_MS));
}

// Prepares the target, which may have to resolve a name.
static void set_target(struct open_queue *q, struct shard_ownership *r)
{
    struct owner_name name;
    char address[JOURNAL_ADDRESS_MAX + 1], now[JOURNAL_ADDRESS_MAX + 1];
    struct links *links = q->handle->links;
    if (!links || !atomic_load(&r->has_owner) || atomic_load(&r->target)) return;
    if (!get_address(q, r, address) || !owner_parse(address, &name)) return;
    struct link_target *t = links_target(links, &name);
    (void)get_address(q, r, now);
    if (strcmp(now, address) == 0) atomic_store(&r->target, t);
}

void where_check(struct open_queue *q, uint32_t shard, struct shard_runner *d)
{
    struct shard_ownership *r = &q->ownerships[shard];
    if (is_node(q)) {
        owner_check(q, shard, d);
    } else if (find_is_due(q, r, d)) {
        (void)pthread_mutex_lock(&r->lock);
        if (find_is_due(q, r, d)) find_owner(q, r, d);
        (void)pthread_mutex_unlock(&r->lock);
    }
    set_target(q, r);
}

enum route_owner where_target(struct open_queue *q, uint32_t shard, struct link_target **out)
{
    *out = atomic_load(&q->ownerships[shard].target);
    if (!*out) return ROUTE_OWNER_NONE;
    enum peer peer = peers_recall(q->handle->peers, link_target_name(*out));
    return peer == PEER_PROVEN ? ROUTE_OWNER_PROVEN : ROUTE_OWNER_AWAY;
}

bool owner_of_shard(struct open_queue *q, uint32_t shard, char url[JOURNAL_ADDRESS_MAX])
{
    const struct owner_self *self = atomic_load(&q->handle->self);
    struct shard_runner *d = self ? runner_if_open(q, shard) : NULL;
    struct link_target *t;
    struct runner_owner o;
    if (!d) return false;
    runner_owner(d, &o);
    bool proven = !o.mine && where_target(q, shard, &t) == ROUTE_OWNER_PROVEN;
    if (!o.mine && !proven) return false;
    const struct owner_name *name = o.mine ? &self->name : link_target_name(t);
    (void)snprintf(url, JOURNAL_ADDRESS_MAX, "%s", name->url);
    return true;
}

// Whether a doubted node is away is found out once, for all queues.
struct doubt {
    struct open_queue *queue; // with a hold
    struct link_target *target;
};

static void forget(struct open_queue *q, const struct link_target *t)
{
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct shard_ownership *r = &q->ownerships[i];
        struct shard_runner *d = runner_if_open(q, i);
        if (atomic_load(&r->target) != t) continue;
        owner_set_address(q, r, "");
        if (d) runner_owner_away(d); // a direct writer pauses for a live owner
    }
}

// Every open shard of the node is checked again: this node may have to take it.
static void check_shards(struct open_queue *q)
{
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct shard_runner *d = runner_if_open(q, i);
        if (!d) continue;
        where_moved(q, i);
        where_check(q, i, d);
    }
}

static void find_out(void *ctx)
{
    struct doubt *e = ctx;
    struct sluice *s = e->queue->handle;
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
    struct sluice *s = q->handle;
    if (!link_doubt_begin(t)) return;
    peers_doubt(s->peers, link_target_name(t));
    struct doubt *e = NEW(struct doubt);
    *e = (struct doubt){.queue = q, .target = t};
    queue_hold(q);
    async_run(s, q->row.name, find_out, e);
}

void where_moved(struct open_queue *q, uint32_t shard)
{
    struct shard_ownership *r = &q->ownerships[shard];
    if (is_node(q))
        atomic_store(&r->wanted, true);
    else
        atomic_store(&r->check_at, 1); // long past, but not the first time
}
