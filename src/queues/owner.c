// SPDX-License-Identifier: Apache-2.0
// The node's identity as an owner, and where the calls of a queue belong.
#include "queues/owner.h"
#include "os/lock.h"
#include "peer/link.h"

#include "base/memory.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "queues/owner_inside.h"
#include "queues/queues.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEARN_MS 1000

enum sluice_code owner_become(struct engine *e, const char *url, const char *node,
                              struct sluice_error *error)
{
    struct owner_identity *self = NEW(struct owner_identity);
    (void)snprintf(self->name.url, sizeof self->name.url, "%s", url);
    (void)snprintf(self->name.node, sizeof self->name.node, "%s", node);
    (void)snprintf(self->name.incarnation, sizeof self->name.incarnation,
                   "%016" PRIx64 "%016" PRIx64, entropy_u64(), entropy_u64());
    bool whole = strlen(url) < sizeof self->name.url && strlen(node) < sizeof self->name.node;
    if (!whole || !owner_print(&self->name, self->address)) {
        memory_free(self);
        return refuse(error, ERR_INVALID, "node",
                      "a node's name and URL are written into journals: without spaces, and "
                      "together at most %d characters; \"%.100s\" and \"%.100s\" are not",
                      JOURNAL_ADDRESS_MAX - 34, node, url);
    }
    LOCKED(&e->lock);
    self->before = atomic_load(&e->self);
    atomic_store(&e->self, self);
    engine_wake_locked(e); // a node keeps the owners of some queues
    return SLUICE_OK;
}

void owner_joins(struct engine *e)
{
    atomic_store(&e->joins, true);
}

void owner_join(struct engine *e, struct owner_cluster *c)
{
    atomic_store(&e->cluster, c);
    if (c) engine_wake(e); // a node keeps the owners of some queues
}

bool owner_identity(struct engine *e, struct owner_name *out)
{
    const struct owner_identity *self = atomic_load(&e->self);
    if (self) *out = self->name;
    return self != NULL;
}

void owner_self_free(struct owner_identity *self)
{
    while (self) {
        struct owner_identity *before = self->before;
        memory_free(self);
        self = before;
    }
}

void owner_may_tell(struct engine *e, const char *hosts)
{
    links_set_hosts(e->links, hosts);
}

void owner_needs_token(struct engine *e, bool needs)
{
    atomic_store(&e->needs_token, needs);
}

void owner_asked(struct engine *e, uint64_t *done, uint64_t *failed)
{
    struct link_counts *counts = e->links ? links_counts(e->links) : NULL;
    *done = counts ? atomic_load(&counts->done) : 0;
    *failed = counts ? atomic_load(&counts->failed) : 0;
}

// Learns the secrets of the owners that the journals here name.
void owner_learn(struct engine *e)
{
    struct open_queue **queues;
    int64_t now = clock_boot_ms(), last = atomic_load(&e->learned_at);
    if (now - last < LEARN_MS || !atomic_compare_exchange_strong(&e->learned_at, &last, now))
        return;
    size_t len = queues_hold(e, &queues);
    for (size_t i = 0; i < len; i++)
        for (uint32_t k = 0; k < queues[i]->row.birth.shards; k++) {
            struct shard_runner *r = runner_if_open(queues[i], k);
            struct runner_owner o;
            struct owner_name name;
            if (!r) continue;
            runner_owner(r, &o);
            if (o.epoch != 0 && owner_parse(o.address, &name)) peers_learn(e->peers, &name);
        }
    queues_let_go(queues, len);
}

// Takes the next key of "a,b". Returns false at the end of the text.
static bool take_key(const char **keys, char out[PEER_KEY_MAX])
{
    size_t len = strcspn(*keys, ",");
    if (len == 0) return false;
    (void)snprintf(out, PEER_KEY_MAX, "%.*s", (int)len, *keys);
    *keys += len + ((*keys)[len] == ',');
    return true;
}

static bool secret_of_keys(struct engine *e, const char *keys, char out[JOURNAL_ADDRESS_MAX])
{
    char key[PEER_KEY_MAX];
    for (int left = PEER_KEYS_MAX; left > 0 && take_key(&keys, key); left--)
        if (peers_secret(e->peers, key, out)) return true;
    return false;
}

static bool has_key(const char *keys, const char *own)
{
    char key[PEER_KEY_MAX];
    for (int left = PEER_KEYS_MAX; left > 0 && take_key(&keys, key); left--)
        if (strcmp(key, own) == 0) return true;
    return false;
}

bool owner_prove(struct engine *e, const char *nonce, const char *keys, struct peer_answer *out)
{
    const struct owner_identity *self = atomic_load(&e->self);
    char own[PEER_KEY_MAX], secret[JOURNAL_ADDRESS_MAX];
    if (!self) return false;
    peer_key(self->name.incarnation, own);
    if (!keys || has_key(keys, own)) {
        peer_prove(&self->name, self->name.incarnation, nonce, out);
        return true;
    }
    bool known = secret_of_keys(e, keys, secret);
    if (!known) owner_learn(e);
    if (!known && !secret_of_keys(e, keys, secret)) return false;
    peer_prove(&self->name, secret, nonce, out);
    return true;
}
