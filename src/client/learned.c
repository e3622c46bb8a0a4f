// SPDX-License-Identifier: Apache-2.0
// Learns the owners of shards from answers, and finds the node for a call. What is learned is only
// a hint: a node that does not own the shard forwards the call.
#include "client/learned.h"

#include "base/hash.h"
#include "base/memory.h"
#include "client/nodes.h"
#include "os/entropy.h"
#include "os/lock.h"
#include "protocol/owner_map.h"
#include "protocol/shard_of.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 256 // queues; a further one displaces another

struct learned_queue {
    char queue[QUEUE_NAME_MAX + 1]; // "": it is free
    char hash[OWNER_MAP_HASH_MAX];  // of the line that came last
    uint32_t shards;
    bool ordered;
    uint8_t *owner; // one per shard: a node of the list, or OWNER_MAP_NONE
};

struct owner_cache {
    struct learned_queue slots[SLOTS];
};

struct owner_cache *learned_new(void)
{
    return NEW(struct owner_cache);
}

void learned_free(struct owner_cache *l)
{
    for (size_t i = 0; l && i < SLOTS; i++)
        memory_free(l->slots[i].owner);
    memory_free(l);
}

static struct learned_queue *slot_of(struct nodes *n, const char *queue)
{
    return &n->learned->slots[hash64_of(bytes_str(queue), 0) % SLOTS];
}

// Returns NULL if nothing is known. With the lock held.
static const struct learned_queue *known(struct nodes *n, const char *queue)
{
    const struct learned_queue *q = n->learned ? slot_of(n, queue) : NULL;
    return q && q->shards > 0 && strcmp(q->queue, queue) == 0 ? q : NULL;
}

// Returns OWNER_MAP_NONE for a URL that is not in the client's list.
static uint8_t node_of(const struct nodes *n, struct bytes url)
{
    for (size_t i = 0; i < n->len; i++)
        if (bytes_equal(bytes_str(n->all[i].url), url)) return (uint8_t)i;
    return OWNER_MAP_NONE;
}

static void begin_queue(struct learned_queue *q, const char *queue, const struct owner_map *map)
{
    memory_free(q->owner);
    *q = (struct learned_queue){.shards = map->shards, .ordered = map->ordered};
    (void)snprintf(q->queue, sizeof q->queue, "%s", queue);
    q->owner = memory_new(map->shards);
    memset(q->owner, OWNER_MAP_NONE, map->shards);
}

void nodes_learn(struct nodes *n, const char *queue, struct bytes header)
{
    if (!n->learned || header.len == 0) return;
    struct owner_map map;
    uint8_t nodes[OWNER_MAP_URLS_MAX];
    if (!owner_map_parse(header, &map)) return;
    static_assert(NODES_MAX < OWNER_MAP_NONE, "every node has a number");
    for (size_t i = 0; i < map.urls_len; i++)
        nodes[i] = node_of(n, map.urls[i]);
    LOCKED(&n->lock);
    struct learned_queue *q = slot_of(n, queue);
    bool same = strcmp(q->queue, queue) == 0 && q->shards == map.shards;
    if (!same || q->ordered != map.ordered) begin_queue(q, queue, &map);
    // A node that does not know an owner says nothing against another node's word.
    for (uint32_t i = 0; i < map.shards; i++)
        if (map.owner[i] != OWNER_MAP_NONE) q->owner[i] = nodes[map.owner[i]];
    owner_map_hash(header, q->hash);
}

bool nodes_ask_owners(struct nodes *n, const char *queue, char line[NODES_HASH_MAX])
{
    if (!n->learned) return false;
    LOCKED(&n->lock);
    const struct learned_queue *q = known(n, queue);
    (void)snprintf(line, NODES_HASH_MAX, OWNER_MAP_HEADER ": %s", q ? q->hash : "?");
    return true;
}

// How many items of a call belong to each node.
struct votes {
    const struct learned_queue *queue;
    unsigned of[NODES_MAX];
};

static void vote(struct votes *v, uint32_t shard)
{
    if (shard >= v->queue->shards) return; // a token of another queue, or of an earlier one
    uint8_t node = v->queue->owner[shard];
    if (node != OWNER_MAP_NONE) v->of[node]++;
}

static size_t elected(const struct nodes *n, const struct votes *v)
{
    size_t best = NODES_ANY;
    for (size_t i = 0; i < n->len; i++)
        if (v->of[i] > 0 && (best == NODES_ANY || v->of[i] > v->of[best])) best = i;
    return best;
}

size_t nodes_for_sends(struct nodes *n, const char *queue, const struct sluice_send *messages,
                       size_t len, const struct sluice_request *request)
{
    if (!n->learned) return NODES_ANY;
    (void)pthread_mutex_lock(&n->lock);
    struct votes v = {.queue = known(n, queue)};
    for (size_t i = 0; v.queue && i < len; i++)
        vote(&v, shard_of_send(v.queue->shards, v.queue->ordered, &messages[i], request->bytes, i));
    (void)pthread_mutex_unlock(&n->lock);
    return elected(n, &v);
}

// A token is "<mark>-<shard>-<number>-<secret>".
static bool token_shard(const char *token, uint32_t *out)
{
    const char *dash = strchr(token, '-');
    char *end;
    if (!dash || dash[1] < '0' || dash[1] > '9') return false;
    unsigned long shard = strtoul(dash + 1, &end, 10);
    *out = (uint32_t)shard;
    return *end == '-' && shard < CONFIG_SHARDS_MAX;
}

size_t nodes_for_tokens(struct nodes *n, const char *queue, const char *const *tokens, size_t len)
{
    uint32_t shard;
    if (!n->learned) return NODES_ANY;
    (void)pthread_mutex_lock(&n->lock);
    struct votes v = {.queue = known(n, queue)};
    for (size_t i = 0; v.queue && i < len; i++)
        if (tokens[i] && token_shard(tokens[i], &shard)) vote(&v, shard);
    if (v.queue && len == 0) vote(&v, (uint32_t)(entropy_u64() % v.queue->shards));
    (void)pthread_mutex_unlock(&n->lock);
    return elected(n, &v);
}
