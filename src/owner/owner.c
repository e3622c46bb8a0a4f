// SPDX-License-Identifier: Apache-2.0
// The node's identity as an owner, and where the calls of a queue belong.
#include "owner/owner.h"
#include "owner/link.h"

#include "base/memory.h"
#include "local/inside.h"
#include "local/transport.h"
#include "net/digest.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "owner/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEARN_MS 1000

static bool is_plain(const char *text)
{
    size_t len = strlen(text);
    for (const char *at = text; *at; at++)
        if (*at <= ' ' || *at > '~') return false;
    return len > 0 && len < JOURNAL_ADDRESS_MAX;
}

bool owner_print(const struct owner_name *name, char out[JOURNAL_ADDRESS_MAX + 1])
{
    if (!is_plain(name->url) || !is_plain(name->node) || !is_plain(name->incarnation)) return false;
    int len = snprintf(out, JOURNAL_ADDRESS_MAX + 1, "%s %s %s", name->url, name->node,
                       name->incarnation);
    return len > 0 && len <= JOURNAL_ADDRESS_MAX;
}

static bool take_word(const char **at, char stop, char out[JOURNAL_ADDRESS_MAX])
{
    const char *end = strchr(*at, stop);
    if (!end || end - *at >= JOURNAL_ADDRESS_MAX) return false;
    (void)snprintf(out, JOURNAL_ADDRESS_MAX, "%.*s", (int)(end - *at), *at);
    *at = end + (stop != 0);
    return is_plain(out);
}

bool owner_parse(const char *address, struct owner_name *out)
{
    const char *at = address;
    *out = (struct owner_name){.url = ""};
    return take_word(&at, ' ', out->url) && take_word(&at, ' ', out->node) &&
           take_word(&at, 0, out->incarnation) && owner_url_is_good(out->url);
}

static bool is_port(const char *text)
{
    size_t len = strlen(text);
    if (len == 0 || len > 5 || strspn(text, "0123456789") < len) return false;
    long port = strtol(text, NULL, 10);
    return port > 0 && port <= UINT16_MAX;
}

bool owner_url_is_good(const char *url)
{
    bool known = strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
    if (!known || strpbrk(strstr(url, "://") + 3, "/?#@ \t\\")) return false;
    const char *host = strstr(url, "://") + 3;
    size_t len = strcspn(host, ":");
    if (*host == '[') {
        len = strcspn(host, "]") + 1;
        if (len < 4 || len > strlen(host)) return false;
    }
    return len > 0 && (host[len] == '\0' || (host[len] == ':' && is_port(host + len + 1)));
}

bool owner_name_equal(const struct owner_name *a, const struct owner_name *b)
{
    return strcmp(a->incarnation, b->incarnation) == 0 && strcmp(a->url, b->url) == 0 &&
           strcmp(a->node, b->node) == 0;
}

enum sluice_code owner_become(struct sluice *s, const char *url, const char *node,
                              struct sluice_error *error)
{
    if (s->calls != &direct_transport) return SLUICE_OK; // a handle to a node owns nothing
    struct owner_self *self = NEW(struct owner_self);
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
    self->peers = s->peers;
    (void)pthread_mutex_lock(&s->lock);
    self->before = atomic_load(&s->self);
    atomic_store(&s->self, self);
    upkeep_wake_locked(s); // a node keeps the owners of some queues
    (void)pthread_mutex_unlock(&s->lock);
    return SLUICE_OK;
}

void owner_joins(struct sluice *s)
{
    atomic_store(&s->joins, true);
}

void owner_join(struct sluice *s, struct owner_cluster *c)
{
    atomic_store(&s->cluster, c);
    if (c) upkeep_wake(s); // a node keeps the owners of some queues
}

bool owner_identity(struct sluice *s, struct owner_name *out)
{
    const struct owner_self *self = atomic_load(&s->self);
    if (self) *out = self->name;
    return self != NULL;
}

void owner_self_free(struct owner_self *self)
{
    while (self) {
        struct owner_self *before = self->before;
        memory_free(self);
        self = before;
    }
}

void owner_may_tell(struct sluice *s, const char *hosts)
{
    links_set_hosts(s->links, hosts);
}

void owner_needs_token(struct sluice *s, bool needs)
{
    atomic_store(&s->needs_token, needs);
}

void owner_asked(struct sluice *s, uint64_t *done, uint64_t *failed)
{
    struct link_counts *counts = s->links ? links_counts(s->links) : NULL;
    *done = counts ? atomic_load(&counts->done) : 0;
    *failed = counts ? atomic_load(&counts->failed) : 0;
}

// Learns the secrets of the owners that the journals here name.
void owner_learn(struct sluice *s)
{
    struct open_queue **queues;
    int64_t now = clock_boot_ms(), last = atomic_load(&s->learned_at);
    if (now - last < LEARN_MS || !atomic_compare_exchange_strong(&s->learned_at, &last, now))
        return;
    size_t len = queues_hold(s, &queues);
    for (size_t i = 0; i < len; i++)
        for (uint32_t k = 0; k < queues[i]->row.birth.shards; k++) {
            struct shard_runner *d = runner_if_open(queues[i], k);
            struct runner_owner o;
            struct owner_name name;
            if (!d) continue;
            runner_owner(d, &o);
            if (o.epoch != 0 && owner_parse(o.address, &name)) peers_learn(s->peers, &name);
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

static bool secret_of_keys(struct sluice *s, const char *keys, char out[JOURNAL_ADDRESS_MAX])
{
    char key[PEER_KEY_MAX];
    for (int left = PEER_KEYS_MAX; left > 0 && take_key(&keys, key); left--)
        if (peers_secret(s->peers, key, out)) return true;
    return false;
}

static bool has_key(const char *keys, const char *own)
{
    char key[PEER_KEY_MAX];
    for (int left = PEER_KEYS_MAX; left > 0 && take_key(&keys, key); left--)
        if (strcmp(key, own) == 0) return true;
    return false;
}

bool owner_prove(struct sluice *s, const char *nonce, const char *keys, struct peer_answer *out)
{
    const struct owner_self *self = atomic_load(&s->self);
    char own[PEER_KEY_MAX], secret[JOURNAL_ADDRESS_MAX];
    if (!self) return false;
    peer_key(self->name.incarnation, own);
    if (!keys || has_key(keys, own)) {
        peer_prove(&self->name, self->name.incarnation, nonce, out);
        return true;
    }
    bool known = secret_of_keys(s, keys, secret);
    if (!known) owner_learn(s);
    if (!known && !secret_of_keys(s, keys, secret)) return false;
    peer_prove(&self->name, secret, nonce, out);
    return true;
}
