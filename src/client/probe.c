// SPDX-License-Identifier: Apache-2.0
// Probes of nodes. A node is asked by one thread at a time.
#include "client/probe.h"

#include "base/memory.h"
#include "os/clock.h"
#include "os/parallel.h"

#include <stdio.h>

#define PROBE_MS    1000 // for an answer
#define EVIDENCE_MS 5000 // how long an answer to another request counts

struct probe {
    struct node_client *remote;
    size_t node;
};

static bool answers(struct node_client *r, size_t node)
{
    char url[NODE_URL_MAX + 16];
    struct http1_client *plain = r->nodes.all[node].plain;
    (void)snprintf(url, sizeof url, "%s/healthz", r->nodes.all[node].url);
    LOCAL(http_call, call, "GET", url);
    call.timeout_ms = call.connect_ms = PROBE_MS;
    if (plain)
        http1_do(plain, &call);
    else
        http_do(r->probe_http, &call);
    return call.end == HTTP_ANSWERED;
}

static void run(void *ctx)
{
    struct probe *p = ctx;
    struct nodes *nodes = &p->remote->nodes;
    nodes_report(nodes, p->node, answers(p->remote, p->node));
    atomic_store(&nodes->all[p->node].probing, false);
    memory_free(p);
}

static void start(struct node_client *r, size_t node)
{
    struct client_node *n = &r->nodes.all[node];
    if (atomic_exchange(&n->probing, true)) return;
    struct probe *p = NEW(struct probe);
    *p = (struct probe){.remote = r, .node = node};
    if (parallel_begin(r->parallel, node, run, p)) return;
    atomic_store(&n->probing, false);
    memory_free(p);
}

void probe_away(struct node_client *r)
{
    for (size_t i = 0; r->nodes.len > 1 && i < r->nodes.len; i++) {
        int64_t probe_at = atomic_load(&r->nodes.all[i].probe_at);
        if (probe_at != 0 && clock_boot_ms() >= probe_at) start(r, i);
    }
}

bool probe_is_hopeless(void *attempt)
{
    struct probe_attempt *a = attempt;
    struct client_node *n = &a->remote->nodes.all[a->node];
    int64_t answered = atomic_load(&n->answered_at);
    bool lives = answered > a->began && clock_boot_ms() - answered < EVIDENCE_MS;
    if (lives || atomic_exchange(&n->probing, true)) return false;
    bool hopeless = !answers(a->remote, a->node);
    if (!hopeless) atomic_store(&n->answered_at, clock_boot_ms());
    atomic_store(&n->probing, false);
    return hopeless;
}
