// SPDX-License-Identifier: Apache-2.0
// The node's identity as an owner, and where the calls of a queue belong.
#include "owner/owner.h"

#include "base/memory.h"
#include "local/inside.h"
#include "local/transport.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "owner/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void owner_prepare(struct sluice *s)
{
    atomic_store(&s->is_node, true);
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
    self->peers = peers_new();
    owner_prepare(s);
    (void)pthread_mutex_lock(&s->lock);
    self->before = atomic_load(&s->self);
    atomic_store(&s->self, self);
    (void)pthread_mutex_unlock(&s->lock);
    return SLUICE_OK;
}

void owner_join(struct sluice *s, struct owner_cluster *c)
{
    atomic_store(&s->cluster, c);
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
        peers_free(self->peers);
        memory_free(self);
        self = before;
    }
}

static bool has_owner_address(struct open_queue *q, const struct shard_ownership *r,
                              struct owner_name *out)
{
    (void)pthread_mutex_lock(&q->handle->lock);
    bool owner_address = *r->owner_address && owner_parse(r->owner_address, out);
    (void)pthread_mutex_unlock(&q->handle->lock);
    return owner_address;
}

// A search for the owner of a queue, on a thread of the library.
struct owner_search {
    struct sluice *handle;
    char queue[QUEUE_NAME_MAX + 1];
    struct owner_name doubted; // url "": no node is doubted
    void (*then)(void *ctx);   // may be NULL
    void *ctx;
};

// The state of the doubted owner is now known, so every open shard is checked again.
static void check_all_shards(struct open_queue *q)
{
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct shard_runner *d = runner_if_open(q, i);
        if (!d) continue;
        atomic_store(&q->ownerships[i].wanted, true);
        owner_check(q, i, d);
    }
}

static void owner_search_run(void *ctx)
{
    struct owner_search *e = ctx;
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct shard_runner *d;
    bool doubts = *e->doubted.url;
    if (doubts) (void)peers_find_out(atomic_load(&e->handle->self)->peers, &e->doubted);
    if (doubts && e->then) e->then(e->ctx);
    if (!queue_get(e->handle, e->queue, &q, NULL) && !queue_runner(q, 0, &d, NULL)) {
        if (doubts)
            check_all_shards(q);
        else
            owner_check(q, 0, d);
    }
    if (!doubts && e->then) e->then(e->ctx);
    memory_free(e);
}

static void begin_search(struct sluice *s, const char *queue, const struct owner_name *doubted,
                         void (*then)(void *ctx), void *ctx)
{
    struct owner_search *e = NEW(struct owner_search);
    *e = (struct owner_search){.handle = s, .then = then, .ctx = ctx};
    if (doubted) e->doubted = *doubted;
    (void)snprintf(e->queue, sizeof e->queue, "%s", queue);
    async_run(s, e->queue, owner_search_run, e);
}

void owner_find_async(struct sluice *s, const char *queue, void (*then)(void *ctx), void *ctx)
{
    begin_search(s, queue, NULL, then, ctx);
}

// If several callers find it out, one of them corrects it.
static bool forget_owner_address(struct open_queue *q, const struct owner_name *name)
{
    struct owner_name now;
    struct shard_ownership *r = q->ownerships;
    (void)pthread_mutex_lock(&q->handle->lock);
    bool is = *r->owner_address && owner_parse(r->owner_address, &now) &&
              strcmp(now.incarnation, name->incarnation) == 0;
    if (is) *r->owner_address = 0;
    (void)pthread_mutex_unlock(&q->handle->lock);
    return is;
}

enum owner_where owner_where(struct sluice *s, const char *queue, struct owner_name *out)
{
    const struct owner_self *self = atomic_load(&s->self);
    if (!s->forward || !self) return OWNER_HERE;
    CLEANUP(queue_let_go) struct open_queue *q = queue_if_known(s, queue);
    struct shard_ownership *r = q ? q->ownerships : NULL;
    int64_t check_at = r ? atomic_load(&r->check_at) : 0, now = clock_boot_ms();
    if (check_at == 0) return OWNER_UNASKED;
    if (!has_owner_address(q, r, out)) return OWNER_HERE;
    // The last result, perhaps from another queue's call.
    enum peer peer = peers_recall(self->peers, out);
    if (peer == PEER_AWAY && forget_owner_address(q, out)) begin_search(s, queue, out, NULL, NULL);
    if (peer != PEER_PROVEN) return OWNER_HERE;
    if (now >= check_at &&
        atomic_compare_exchange_strong(&r->check_at, &check_at, now + CHECKING_MS)) {
        atomic_store(&r->wanted, true);
        owner_find_async(s, queue, NULL, NULL);
    }
    return OWNER_REMOTE;
}

void owner_doubt(struct sluice *s, const char *queue, const struct owner_name *name,
                 void (*then)(void *ctx), void *ctx)
{
    const struct owner_self *self = atomic_load(&s->self);
    CLEANUP(queue_let_go) struct open_queue *q = queue_if_known(s, queue);
    if (!self || !q || !forget_owner_address(q, name)) {
        then(ctx);
        return;
    }
    peers_doubt(self->peers, name);
    begin_search(s, queue, name, then, ctx);
}

bool owner_is_away(struct sluice *s, const struct owner_name *name)
{
    const struct owner_self *self = atomic_load(&s->self);
    return self && peers_recall(self->peers, name) == PEER_AWAY;
}

bool owner_prove(struct sluice *s, const char *nonce, char *out)
{
    const struct owner_self *self = atomic_load(&s->self);
    if (self) peer_prove(&self->name, nonce, out);
    return self != NULL;
}

bool owner_of_shard(struct open_queue *q, uint32_t shard, char url[JOURNAL_ADDRESS_MAX])
{
    const struct owner_self *self = atomic_load(&q->handle->self);
    struct shard_runner *d = self ? runner_if_open(q, shard) : NULL;
    struct runner_owner o;
    struct owner_name other;
    if (!d) return false;
    runner_owner(d, &o);
    bool proven = !o.mine && has_owner_address(q, &q->ownerships[shard], &other) &&
                  peers_recall(self->peers, &other) == PEER_PROVEN;
    if (!o.mine && !proven) return false;
    (void)snprintf(url, JOURNAL_ADDRESS_MAX, "%s", o.mine ? self->name.url : other.url);
    return true;
}
