// SPDX-License-Identifier: Apache-2.0
// Checks a node: its latency, whether it accepts the token, and whether its store makes progress.
#include "api/doctor.h"
#include "remote/remote.h"

#include "os/clock.h"
#include "store/s3/auth/times.h"

#include <string.h>

#define ROUNDS 20

static enum sluice_code get(struct remote *r, enum call_id id, struct http_call *call,
                            struct sluice_error *error)
{
    struct ask ask = {.call = id, .until = 0};
    return remote_ask(r, &ask, call, NULL, error);
}

static void check_way(struct doctor *d, struct remote *r, struct http_call *call)
{
    struct sluice_error why;
    int64_t start = clock_boot_ns(), date;
    for (int round = 0; round < ROUNDS; round++) {
        if (!get(r, CALL_HEALTHZ, call, &why)) continue;
        doctor_report(d, "way", SLUICE_FAILED, "%s", why.message);
        return;
    }
    double ms = (double)(clock_boot_ns() - start) / 1e6 / ROUNDS;
    doctor_report(d, "way", SLUICE_PASSED, "an answer in %.2f ms", ms);
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

static bool check_node(struct doctor *d, struct remote *r, struct http_call *call)
{
    struct sluice_error why;
    struct node_out node = {0};
    enum sluice_code code = get(r, CALL_NODE, call, &why);
    if (code == SLUICE_DENIED) {
        doctor_report(d, "access", SLUICE_FAILED, "%s%s", why.message,
                      r->authorization[0] ? "" : "; SLUICE_TOKEN is not set");
        d->worst = ERR_DENIED;
        return false;
    }
    struct json *o = code ? NULL : remote_json(call, &why);
    if (!o) {
        doctor_report(d, "node", SLUICE_FAILED, "%s", why.message);
        return false;
    }
    fields_view(o, &node_answer, &node);
    doctor_report(d, "access", SLUICE_PASSED, "%s",
                  r->authorization[0] ? "the token is accepted" : "without a token");
    doctor_report(d, "node", SLUICE_PASSED, "%s serves %s", or_unknown(node.node),
                  or_unknown(node.store));
    bool same = strcmp(node.version, SLUICE_VERSION) == 0;
    doctor_report(d, "version", same ? SLUICE_PASSED : SLUICE_WARNING,
                  "the node has %s, this command " SLUICE_VERSION, or_unknown(node.version));
    json_free(o);
    return true;
}

static void check_ready(struct doctor *d, struct remote *r, struct http_call *call)
{
    struct sluice_error why;
    if (get(r, CALL_READYZ, call, &why))
        doctor_report(d, "ready", SLUICE_FAILED, "%s", why.message);
    else
        doctor_report(d, "ready", SLUICE_PASSED, "the node's store makes progress");
}

void doctor_node(struct doctor *d, struct sluice *s)
{
    CLEANUP(http_call_done) struct http_call call;
    struct remote *r = remote_of(s);
    http_call_init(&call, "GET", NULL);
    check_way(d, r, &call);
    if (!check_node(d, r, &call)) return;
    check_ready(d, r, &call);
    doctor_queues(d, s);
}
