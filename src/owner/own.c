// SPDX-License-Identifier: Apache-2.0
// The ownership of one shard: when a node takes it, and when it leaves it to another node.
#include "local/inside.h"
#include "os/clock.h"
#include "owner/inside.h"
#include "owner/peer.h"
#include "owner/where.h"

#include <stdio.h>
#include <string.h>

#define CHECK_MS       1000           // how often an owner checks that it still is the owner
#define JOIN_MS        100            // ... and a node that joins a cluster, whether it has joined
#define OTHER_CHECK_MS OWNER_LEASE_MS // how often another node checks that the owner is alive
// Added to the end of a lease, so that the next check comes just after it.
#define RETRY_MS       (OWNER_LEASE_MS / 100)

static void copy_deleted(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    *(bool *)ctx = machine_deleted(m);
}

// Since when the recorded owner has been silent, in store time. If all its entries are older than
// the snapshot that this runner loaded, the silence counts from now.
static int64_t silent_since(struct shard_ownership *r, const struct runner_owner *o, int64_t now)
{
    if (o->seen_at != TIME_UNKNOWN) return o->seen_at;
    if (r->epoch != o->epoch) {
        r->epoch = o->epoch;
        r->epoch_known_from = now;
    }
    return r->epoch_known_from;
}

enum ownership_move {
    TAKE,  // this node may own the shard
    LEAVE, // another node owns it
    WAIT,  // another node owned it, and may come back
};

// *again_ms: when to check again, if the shard is not taken.
static enum ownership_move ownership_next(const struct owner_self *self, struct shard_ownership *r,
                                          struct shard_runner *d, const struct runner_owner *o,
                                          int64_t *again_ms)
{
    struct owner_name other;
    bool readable = owner_parse(o->address, &other);
    *again_ms = OTHER_CHECK_MS;
    if (o->epoch == 0) return TAKE;
    if (readable && strcmp(other.node, self->name.node) == 0) return TAKE;
    enum peer peer = readable ? peers_ask(self->peers, &other) : PEER_DECLINES;
    if (peer == PEER_PROVEN) return LEAVE;
    if (peer == PEER_DOUBTED) { // the thread that sends the challenge checks again
        *again_ms = CHECK_MS;
        return WAIT;
    }
    runner_owner_away(d);
    // Entries that were written during the challenge are folded when the own op commits.
    int64_t now = runner_time(d).lo;
    int64_t left = silent_since(r, o, now) + OWNER_LEASE_MS - now;
    if (left <= 0) return TAKE;
    *again_ms = left < OTHER_CHECK_MS ? left + RETRY_MS : OTHER_CHECK_MS;
    return WAIT;
}

// If the store fails or another node is faster, the next check finds out.
static void take_shard(struct sluice *s, const struct owner_self *self, struct shard_runner *d,
                       const struct runner_owner *o)
{
    struct journal_owner owner = {.token = o->token + 1, .address = bytes_str(self->address)};
    enum err err = runner_own(d, o->epoch, &owner);
    (void)err;
    upkeep_wake(s); // workers with mailboxes may be registered
}

enum err owner_take(struct open_queue *q, uint32_t shard, const uint8_t coord[16], uint64_t *token,
                    uint64_t *epoch)
{
    const struct owner_self *self = atomic_load(&q->handle->self);
    struct shard_runner *d;
    struct runner_owner o;
    bool deleted = false;
    if (!self || queue_runner(q, shard, &d, NULL)) return ERR_UNAVAILABLE;
    enum err err = runner_sync(d);
    if (err) return err;
    runner_inspect(d, copy_deleted, &deleted);
    if (deleted) return ERR_NOT_FOUND;
    runner_owner(d, &o);
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
    err = runner_own(d, o.epoch, &owner);
    if (err) return err;
    upkeep_wake(q->handle); // workers with mailboxes may be registered
    runner_owner(d, &o);
    *epoch = o.epoch;
    return o.mine ? ERR_OK : ERR_CONFLICT;
}

// The rules of a member: the node that the journal names stays the owner while it answers. If it
// does not, or if there is none, the cluster decides.
static int64_t check_as_member(const struct owner_self *self, struct owner_cluster *cluster,
                               struct open_queue *q, struct shard_ownership *r,
                               struct shard_runner *d)
{
    bool deleted = false;
    struct runner_owner o;
    struct owner_name other;
    uint32_t shard = (uint32_t)(r - q->ownerships);
    if (runner_sync(d)) return CHECK_MS;
    runner_owner(d, &o);
    runner_inspect(d, copy_deleted, &deleted);
    if (o.mine || deleted) {
        owner_set_address(q, r, "");
        return CHECK_MS;
    }
    bool named =
        o.epoch != 0 && owner_parse(o.address, &other) && strcmp(other.node, self->name.node) != 0;
    enum peer peer = named ? peers_ask(self->peers, &other) : PEER_DECLINES;
    owner_set_address(q, r, peer == PEER_PROVEN ? o.address : "");
    if (o.epoch != 0) cluster->seen(cluster, q, shard, o.epoch);
    if (peer == PEER_PROVEN) return OTHER_CHECK_MS;
    if (peer == PEER_DOUBTED) return CHECK_MS; // the thread that sends the challenge checks again
    if (o.epoch != 0) runner_owner_away(d);
    cluster->used(cluster, q, shard);
    return CHECK_MS;
}

// Returns when to check again, in ms.
static int64_t check_ownership(const struct owner_self *self, struct open_queue *q,
                               struct shard_ownership *r, struct shard_runner *d)
{
    bool deleted = false;
    struct runner_owner o;
    int64_t again_ms = CHECK_MS;
    struct owner_cluster *cluster = atomic_load(&q->handle->cluster);
    if (cluster) return check_as_member(self, cluster, q, r, d);
    if (!handle_takes_shards(q->handle)) return JOIN_MS;
    if (runner_sync(d)) return again_ms; // the next call reports the reason
    runner_owner(d, &o);
    runner_inspect(d, copy_deleted, &deleted);
    enum ownership_move move = WAIT;
    if (!o.mine && !deleted) move = ownership_next(self, r, d, &o, &again_ms);
    owner_set_address(q, r, move == LEAVE ? o.address : "");
    if (move != TAKE) return again_ms;
    take_shard(q->handle, self, d, &o);
    return CHECK_MS;
}

bool owner_is_due(struct open_queue *q, uint32_t shard, struct shard_runner *d)
{
    struct shard_ownership *r = &q->ownerships[shard];
    if (!atomic_load(&q->handle->self)) return false;
    int64_t now = clock_boot_ms(), check_at = atomic_load(&r->check_at);
    if (check_at == 0) return true;
    // If many callers come at once, one of them checks.
    if (now < check_at ||
        !atomic_compare_exchange_strong(&r->check_at, &check_at, now + CHECKING_MS))
        return false;
    struct runner_owner o;
    runner_owner(d, &o);
    if (o.mine) {
        atomic_store(&r->check_at, now + CHECK_MS);
        return false;
    }
    atomic_store(&r->wanted, true);
    return true;
}

void owner_check(struct open_queue *q, uint32_t shard, struct shard_runner *d)
{
    struct shard_ownership *r = &q->ownerships[shard];
    const struct owner_self *self = atomic_load(&q->handle->self);
    if (!self) return;
    if (atomic_load(&r->check_at) != 0 && !atomic_load(&r->wanted))
        if (!owner_is_due(q, shard, d)) return;
    // The first time, every caller waits. An op that is written directly before the shard is owned
    // would be followed by the pause that direct writers make for owners.
    bool first = atomic_load(&r->check_at) == 0;
    if (!first && pthread_mutex_trylock(&r->lock) != 0) return;
    if (first) (void)pthread_mutex_lock(&r->lock);
    bool wanted = atomic_exchange(&r->wanted, false);
    if (wanted || atomic_load(&r->check_at) == 0) {
        int64_t again_ms = check_ownership(self, q, r, d);
        atomic_store(&r->check_at, clock_boot_ms() + again_ms);
    }
    (void)pthread_mutex_unlock(&r->lock);
}

void owner_moved(struct open_queue *q, uint32_t shard)
{
    struct shard_runner *d = runner_if_open(q, shard);
    if (!d) return;
    where_moved(q, shard);
    where_check(q, shard, d);
    queue_reroute(q);
}
