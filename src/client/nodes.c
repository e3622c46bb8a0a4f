// SPDX-License-Identifier: Apache-2.0
// Reads the list of nodes in a URL, and chooses the node of each attempt.
#include "client/nodes.h"
#include "protocol/errors.h"
#include "protocol/owner_map.h"

#include "base/check.h"
#include "base/memory.h"
#include "client/learned.h"
#include "os/clock.h"
#include "os/entropy.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define PROBE_MIN_MS 500
#define PROBE_MAX_MS 4000

static enum sluice_code take_url(struct client_node *node, const char *url,
                                 struct sluice_error *error)
{
    size_t len = strlen(url);
    while (len > 0 && url[len - 1] == '/')
        len--;
    if (len >= sizeof node->url)
        return refuse(error, ERR_INVALID, "store", "the URL of the node is too long");
    memcpy(node->url, url, len);
    return SLUICE_OK;
}

// The host is compared with URLs that nodes tell, so it is kept in lower case.
static enum sluice_code take_named(struct nodes *n, const char *scheme, const char *name,
                                   size_t len, struct sluice_error *error)
{
    size_t prefix = strlen(scheme);
    if (len > prefix && strncmp(name, scheme, prefix) == 0) {
        name += prefix;
        len -= prefix;
    }
    if (len == 0)
        return refuse(error, ERR_INVALID, "store",
                      "the list of nodes has an empty name; one looks like %sa:7333,b:7333",
                      scheme);
    if (n->len == NODES_MAX)
        return refuse(error, ERR_INVALID, "store", "the list names more than %d nodes", NODES_MAX);
    struct client_node *node = &n->all[n->len];
    int size = snprintf(node->url, sizeof node->url, "%s%.*s", scheme, (int)len, name);
    bool whole = size > 0 && (size_t)size < sizeof node->url;
    if (!whole || !owner_url_is_good(node->url))
        return refuse(error, ERR_INVALID, "store",
                      "\"%.*s\" is not a node of a list; a list looks like %sa:7333,b:7333",
                      (int)(len < 150 ? len : 150), name, scheme);
    for (char *at = node->url; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    for (size_t i = 0; i < n->len; i++)
        if (strcmp(n->all[i].url, node->url) == 0)
            return refuse(error, ERR_INVALID, "store", "the list names %.150s twice", node->url);
    n->len++;
    return SLUICE_OK;
}

static enum sluice_code take_list(struct nodes *n, const char *url, struct sluice_error *error)
{
    bool secure = strncmp(url, "https://", 8) == 0;
    const char *scheme = secure ? "https://" : "http://", *at = url + strlen(scheme);
    size_t end = strlen(at);
    while (end > 0 && at[end - 1] == '/')
        end--;
    const char *stop = at + end;
    for (;;) {
        const char *comma = memchr(at, ',', (size_t)(stop - at));
        const char *next = comma ? comma : stop;
        enum sluice_code code = take_named(n, scheme, at, (size_t)(next - at), error);
        if (code || !comma) return code;
        at = comma + 1;
    }
}

static struct http1_client *plain_client(const char *url)
{
    bool plain = strncmp(url, "http://", 7) == 0 && !http1_is_proxied();
    return plain ? http1_new(url, &(struct http1_config){0}) : NULL;
}

enum sluice_code nodes_init(struct nodes *n, const char *url, struct sluice_error *error)
{
    const char *place = strstr(url, "://") + 3;
    size_t host = strcspn(place, "/?#");
    *n = (struct nodes){.turn = (unsigned)entropy_u64()};
    (void)pthread_mutex_init(&n->lock, NULL);
    bool is_list = memchr(place, ',', host) != NULL;
    n->all = memory_zeroed(is_list ? NODES_MAX : 1, sizeof *n->all);
    if (memchr(place, '@', host))
        return refuse(error, ERR_INVALID, "store",
                      "the URL of a node may not contain a user; put the token into SLUICE_TOKEN");
    if (host == 0 || strpbrk(place, "?# \t\r\n"))
        return refuse(error, ERR_INVALID, "store",
                      "%.200s is not the URL of a node, such as http://host:port", url);
    enum sluice_code code = is_list ? take_list(n, url, error) : take_url(n->all, url, error);
    if (!is_list) n->len = 1;
    for (size_t i = 0; !code && i < n->len; i++)
        n->all[i].plain = plain_client(n->all[i].url);
    if (!code && n->len > 1) n->learned = learned_new();
    return code;
}

void nodes_done(struct nodes *n)
{
    for (size_t i = 0; i < n->len; i++)
        http1_free(n->all[i].plain);
    learned_free(n->learned);
    memory_free(n->all);
    (void)pthread_mutex_destroy(&n->lock);
    *n = (struct nodes){0};
}

struct nodes_walk nodes_walk(const struct nodes *n)
{
    return (struct nodes_walk){.left = n->len};
}

static bool is_away(const struct client_node *node)
{
    return atomic_load(&node->probe_at) != 0;
}

// Returns NODES_ANY if all nodes were tried. `here`: leave out those that are away.
static size_t untried(const struct nodes *n, const struct nodes_walk *w, size_t from, bool here)
{
    for (size_t i = 0; i < n->len; i++) {
        size_t node = (from + i) % n->len;
        if (w->tried >> node & 1 || (here && is_away(&n->all[node]))) continue;
        return node;
    }
    return NODES_ANY;
}

size_t nodes_next(struct nodes *n, struct nodes_walk *w, size_t preferred)
{
    CHECK(n->len > 0);
    if (w->left == 0) *w = nodes_walk(n);
    size_t from = atomic_fetch_add(&n->turn, 1) % n->len, node = NODES_ANY;
    bool prefers = preferred < n->len && !(w->tried >> preferred & 1);
    if (prefers && !is_away(&n->all[preferred])) node = preferred;
    if (node == NODES_ANY) node = untried(n, w, from, true);
    if (node == NODES_ANY) node = untried(n, w, from, false);
    CHECK(node < n->len);
    w->tried |= UINT64_C(1) << node;
    w->left--;
    return node;
}

// Each failure doubles the time to the next probe.
void nodes_report(struct nodes *n, size_t node, bool answered)
{
    struct client_node *it = &n->all[node];
    int64_t now = clock_boot_ms();
    if (answered) {
        atomic_store(&it->answered_at, now);
        if (atomic_load(&it->failures) == 0) return;
        atomic_store(&it->failures, 0);
        atomic_store(&it->probe_at, 0);
        return;
    }
    unsigned failures = atomic_fetch_add(&it->failures, 1);
    int64_t ms = failures < 3 ? (int64_t)PROBE_MIN_MS << failures : PROBE_MAX_MS;
    atomic_store(&it->probe_at, now + ms);
}
