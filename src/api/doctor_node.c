// SPDX-License-Identifier: Apache-2.0
// Checks a node: its latency, whether it accepts the token, and whether its store makes progress.
#include "api/doctor.h"
#include "api/handle.h"
#include "client/client.h"

#include "os/clock.h"
#include "store/s3/auth/times.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS 20

// A node of the handle's list, which is checked by itself.
struct node_check {
    struct node_client *remote;
    size_t node;
    char name[NODE_URL_MAX + 2]; // before each report: "", or "http://a:7333: " of several
};

static enum sluice_code get(const struct node_check *c, enum route_id id, struct http_call *call,
                            struct sluice_error *error)
{
    struct ask ask = {.call = id, .until = 0, .prefer = 1 + c->node, .only = true};
    return client_ask(c->remote, &ask, call, NULL, error);
}

static void check_way(struct doctor *d, const struct node_check *c, struct http_call *call)
{
    struct sluice_error why;
    int64_t start = clock_boot_ns(), date;
    for (int round = 0; round < ROUNDS; round++) {
        if (!get(c, ROUTE_HEALTHZ, call, &why)) continue;
        doctor_report(d, "way", SLUICE_FAILED, "%s%s", c->name, why.message);
        return;
    }
    double ms = (double)(clock_boot_ns() - start) / 1e6 / ROUNDS;
    doctor_report(d, "way", SLUICE_PASSED, "%san answer in %.2f ms", c->name, ms);
    if (!s3_time_http(http_header(call, "date"), &date)) return;
    int64_t now = clock_realtime_ms(), off = 0; // the Date header has whole seconds
    if (now < date) off = date - now;
    if (now > date + 1000) off = date + 1000 - now;
    doctor_clock(d, "the node's", off);
}

static const char *or_unknown(const char *text)
{
    return *text ? text : "?";
}

static bool check_node(struct doctor *d, const struct node_check *c, struct http_call *call)
{
    struct sluice_error why;
    struct node_out node = {0};
    bool token = c->remote->authorization[0] != '\0';
    enum sluice_code code = get(c, ROUTE_NODE, call, &why);
    if (code == SLUICE_DENIED) {
        doctor_report(d, "access", SLUICE_FAILED, "%s%s%s", c->name, why.message,
                      token ? "" : "; SLUICE_TOKEN is not set");
        d->worst = ERR_DENIED;
        return false;
    }
    struct json *o = code ? NULL : client_json(call, &why);
    if (!o) {
        doctor_report(d, "node", SLUICE_FAILED, "%s%s", c->name, why.message);
        return false;
    }
    fields_view(o, &node_answer, &node);
    doctor_report(d, "access", SLUICE_PASSED, "%s%s", c->name,
                  token ? "the token is accepted" : "without a token");
    doctor_report(d, "node", SLUICE_PASSED, "%s%s serves %s", c->name, or_unknown(node.node),
                  or_unknown(node.store));
    bool same = strcmp(node.version, SLUICE_VERSION) == 0;
    doctor_report(d, "version", same ? SLUICE_PASSED : SLUICE_WARNING,
                  "%sthe node has %s, this command " SLUICE_VERSION, c->name,
                  or_unknown(node.version));
    json_free(o);
    return true;
}

static void check_ready(struct doctor *d, const struct node_check *c, struct http_call *call)
{
    struct sluice_error why;
    if (get(c, ROUTE_READYZ, call, &why))
        doctor_report(d, "ready", SLUICE_FAILED, "%s%s", c->name, why.message);
    else
        doctor_report(d, "ready", SLUICE_PASSED, "%sthe node's store makes progress", c->name);
}

void doctor_node(struct doctor *d, struct sluice *s)
{
    struct node_client *r = s->client;
    bool usable = false;
    LOCAL(http_call, call, "GET", NULL);
    for (size_t i = 0; i < r->nodes.len; i++) {
        struct node_check c = {.remote = r, .node = i};
        if (r->nodes.len > 1) (void)snprintf(c.name, sizeof c.name, "%s: ", r->nodes.all[i].url);
        check_way(d, &c, &call);
        if (!check_node(d, &c, &call)) continue;
        check_ready(d, &c, &call);
        usable = true;
    }
    if (usable) doctor_queues(d, s);
}
