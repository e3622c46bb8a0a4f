// SPDX-License-Identifier: Apache-2.0
#include "queues/waiting_workers.h"
#include "os/lock.h"
#include "protocol/owner_map.h"

#include "base/memory.h"
#include "os/clock.h"
#include "peer/link.h"
#include "queue/codec/config.h"
#include "queues/owner_inside.h"

#include <stdio.h>
#include <string.h>

#define FRESH_MS   1000
#define NODES_MAX  16 // owners of one queue that are asked
#define URL_MAX    (JOURNAL_ADDRESS_MAX + QUEUE_NAME_MAX + 64)
#define ANSWER_MAX ((size_t)16 << 20)

struct waiting_answer {
    struct owner_name name;
    int64_t at_ms; // clock_boot_ms
    struct waiting_list list;
};

// One thread at a time asks, so that many queues of one node cost one request.
struct waiting_cache {
    pthread_mutex_t lock;
    struct waiting_answer nodes[NODES_MAX];
    size_t len;
};

void waiting_cache_free(struct waiting_cache *h)
{
    if (!h) return;
    for (size_t i = 0; i < h->len; i++)
        waiting_list_done(&h->nodes[i].list);
    (void)pthread_mutex_destroy(&h->lock);
    memory_free(h);
}

static struct waiting_cache *waiting_cache_of(struct engine *e)
{
    LOCKED(&e->lock);
    if (!e->waiting_cache) {
        e->waiting_cache = NEW(struct waiting_cache);
        (void)pthread_mutex_init(&e->waiting_cache->lock, NULL);
    }
    return e->waiting_cache;
}

// Call it with the lock. The place of a node, or that of the oldest answer.
static struct waiting_answer *place_of(struct waiting_cache *h, const struct owner_name *name)
{
    size_t oldest = 0;
    for (size_t i = 0; i < h->len; i++) {
        if (owner_name_equal(&h->nodes[i].name, name)) return &h->nodes[i];
        if (h->nodes[i].at_ms < h->nodes[oldest].at_ms) oldest = i;
    }
    struct waiting_answer *n = h->len < NODES_MAX ? &h->nodes[h->len++] : &h->nodes[oldest];
    waiting_list_done(&n->list);
    n->name = *name;
    n->at_ms = 0;
    return n;
}

// Asks one node. queue: NULL for all queues that the token may read. all: the node asks the other
// members of its cluster, too.
static bool ask_node(struct links *l, const struct peer_identity *to, const char *token,
                     const char *queue, bool all, struct waiting_list *out)
{
    char url[URL_MAX];
    if (queue && !queue_name_ok(queue)) return false; // it would be a part of the URL
    (void)snprintf(url, sizeof url, "%s/v1/node/workers?all=%d%s%s", to->url, all,
                   queue ? "&queue=" : "", queue ? queue : "");
    LOCAL(http_call, call, "GET", url);
    call.timeout_ms = OWNER_WAITING_MS;
    call.body_max = ANSWER_MAX;
    return link_ask(l, to, token, false, &call) && call.status == 200 &&
           waiting_list_read(buf_bytes(&call.body_in), out);
}

bool owner_member_identity(struct engine *e, const char *url, const char *node,
                           struct peer_identity *to)
{
    const struct owner_identity *self = atomic_load(&e->self);
    *to = (struct peer_identity){.secrets_len = 0};
    if (!e->links || !owner_url_is_good(url)) return false;
    (void)snprintf(to->url, sizeof to->url, "%s", url);
    (void)snprintf(to->node, sizeof to->node, "%s", node);
    owner_learn(e);
    if (self) peer_identity_add(to, self->name.incarnation);
    peers_secrets(e->peers, to);
    return true;
}

bool owner_ask_member(struct engine *e, const char *url, const char *node, const char *token,
                      const char *queue, struct waiting_list *out)
{
    struct peer_identity to;
    return owner_member_identity(e, url, node, &to) &&
           ask_node(e->links, &to, token, queue, false, out);
}

bool owner_get_member(struct engine *e, const char *url, const char *node, const char *path,
                      struct buf *out)
{
    struct peer_identity to;
    char text[URL_MAX];
    if (!owner_member_identity(e, url, node, &to)) return false;
    (void)snprintf(text, sizeof text, "%s%s", to.url, path);
    LOCAL(http_call, call, "GET", text);
    call.timeout_ms = OWNER_WAITING_MS;
    call.body_max = ANSWER_MAX;
    if (!link_ask(e->links, &to, NULL, true, &call) || call.status != 200) return false;
    buf_put(out, buf_bytes(&call.body_in));
    return true;
}

static void ask(struct engine *e, struct waiting_cache *h, const struct owner_name *name,
                struct waiting_list *out)
{
    struct peer_identity to;
    peer_identity_of(name, &to);
    LOCKED(&h->lock);
    struct waiting_answer *n = place_of(h, name);
    if (n->at_ms == 0 || clock_boot_ms() - n->at_ms >= FRESH_MS) {
        waiting_list_done(&n->list);
        (void)ask_node(e->links, &to, links_token(e->links), NULL, true, &n->list);
        n->at_ms = clock_boot_ms();
    }
    for (size_t i = 0; i < n->list.len; i++)
        waiting_list_add(out, &n->list.rows[i]);
}

// The owners of the queue's shards, each once.
static size_t owners_of(struct open_queue *q, struct owner_name out[NODES_MAX])
{
    size_t len = 0;
    for (uint32_t i = 0; i < q->row.birth.shards && len < NODES_MAX; i++) {
        struct shard_runner *r = runner_if_open(q, i);
        struct runner_owner o;
        bool known = false;
        if (!r) continue;
        runner_owner(r, &o);
        if (o.epoch == 0 || !owner_parse(o.address, &out[len])) continue;
        for (size_t k = 0; k < len && !known; k++)
            known = owner_name_equal(&out[k], &out[len]);
        len += !known;
    }
    return len;
}

void owner_waiting(struct engine *e, const char *queue, struct waiting_list *out)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    if (!e->links || atomic_load(&e->self)) return;
    q = queue_if_known(e, queue);
    if (!q) return;
    CLEANUP(memory_let_go) struct owner_name *owners = memory_zeroed(NODES_MAX, sizeof *owners);
    size_t len = owners_of(q, owners);
    for (size_t i = 0; i < len; i++)
        ask(e, waiting_cache_of(e), &owners[i], out);
    waiting_list_tidy(out);
}
