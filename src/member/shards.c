// SPDX-License-Identifier: Apache-2.0
// What the calls of this node mean for shards: the hooks of the engine. A call that uses a shard
// for the first time takes it, or sends a hint to the node that should own it.
#include "member/inside.h"

#include "base/digits.h"
#include "os/clock.h"
#include "os/lock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define TAKE_MS 2000 // how long the first use of a shard waits for its ownership

void shard_name(const struct shard_key *key, char out[COORD_SHARD_MAX + 1])
{
    char id[2 * sizeof key->queue + 1];
    *digits_put_hex(id, key->queue, sizeof key->queue) = 0;
    (void)snprintf(out, COORD_SHARD_MAX + 1, "%s/%u", id, key->shard);
}

void shard_key_of(const struct open_queue *q, uint32_t shard, struct shard_key *out)
{
    *out = (struct shard_key){.shard = shard};
    memcpy(out->queue, q->row.id.bytes, sizeof out->queue);
}

void leader_id(const struct membership *m, struct member_id *out)
{
    const struct coord_holder *leader = &m->last.leader;
    *out = (struct member_id){0};
    if (leader->name[0]) member_id_set(out, leader->name, leader->incarnation);
}

bool shard_is_unplanned(const struct membership *m, const struct shard_key *key)
{
    return !cluster_lone(m->cluster) && !plan_find(cluster_plan(m->cluster), key);
}

void shard_event(struct membership *m, enum cluster_event_kind kind, const struct shard_key *key)
{
    struct cluster_event e = {.kind = kind, .shard = *key};
    membership_step(m, &e);
}

// A claim that another node's claim refuses is made again later: the call does not wait for it. It
// writes directly.
static void wait_served(struct membership *m, const struct shard_key *key)
{
    int64_t until = clock_boot_ms() + TAKE_MS;
    LOCKED(&m->lock);
    while (cluster_serves(m->cluster, key) == 0 && cluster_moving(m->cluster, key)) {
        if (m->stopping || m->left || m->draining || cluster_degraded(m->cluster)) break;
        if (!clock_wait(&m->changed, &m->lock, until)) break;
    }
}

static void on_used(struct owner_cluster *hooks, struct open_queue *q, uint32_t shard)
{
    struct membership *m = (struct membership *)hooks;
    struct shard_key key;
    struct member_id to = {0};
    shard_key_of(q, shard, &key);
    queues_note(m, &q->row.id, q->row.name, q->row.birth.shards);
    shard_event(m, CLUSTER_USED, &key);
    (void)pthread_mutex_lock(&m->lock);
    const struct member_id *owner = cluster_owner(m->cluster, &key);
    bool unplanned = catalog_wanted(m, &key);
    if (owner) to = *owner;
    (void)pthread_mutex_unlock(&m->lock);
    bool mine = strcmp(to.name, m->self.name) == 0;
    if (mine) wait_served(m, &key);
    (void)pthread_mutex_lock(&m->lock);
    bool holds = unplanned && cluster_serves(m->cluster, &key) != 0;
    if (unplanned) leader_id(m, &to);
    (void)pthread_mutex_unlock(&m->lock);
    if (to.name[0] && strcmp(to.name, m->self.name) != 0)
        hint_send(m, &to, q->row.name, shard, holds);
}

static bool on_serves(struct owner_cluster *hooks, struct open_queue *q, uint32_t shard)
{
    struct membership *m = (struct membership *)hooks;
    struct shard_key key;
    shard_key_of(q, shard, &key);
    LOCKED(&m->lock);
    return cluster_serves(m->cluster, &key) != 0;
}

static void on_seen(struct owner_cluster *hooks, struct open_queue *q, uint32_t shard,
                    uint64_t epoch)
{
    struct membership *m = (struct membership *)hooks;
    struct cluster_event e = {.kind = CLUSTER_FENCED, .number = epoch};
    shard_key_of(q, shard, &e.shard);
    (void)pthread_mutex_lock(&m->lock);
    uint64_t served = cluster_serves(m->cluster, &e.shard);
    (void)pthread_mutex_unlock(&m->lock);
    if (served != 0 && served < epoch) membership_step(m, &e);
}

static void on_members(struct owner_cluster *hooks,
                       void (*each)(void *ctx, const char *name, uint32_t rules_newest), void *ctx)
{
    struct membership *m = (struct membership *)hooks;
    LOCKED(&m->lock);
    for (size_t i = 0; i < m->last.members_len; i++)
        each(ctx, m->last.members[i].name, m->last.members[i].rules_hi);
}

void shards_hooks(struct membership *m)
{
    m->hooks = (struct owner_cluster){
        .used = on_used, .serves = on_serves, .seen = on_seen, .members = on_members};
}
