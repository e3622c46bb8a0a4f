// SPDX-License-Identifier: Apache-2.0
// The functions of sluice_cluster.h. A node answers them. A handle of a store can only show the
// cluster (ops/cluster_show.c) and switch the coordination service (ops/coord_switch.c).
#include "api/handle.h"
#include "base/memory.h"
#include "client/client.h"
#include "ops/cluster_show.h"
#include "queues/queues.h"
#include "sluice_cluster.h"

static bool is_direct(const struct sluice *s)
{
    return s->engine;
}

static enum sluice_code refuse_direct(struct sluice_error *error, const char *what)
{
    return refuse(error, ERR_INVALID, "store",
                  "only a node can %s; use its URL as the store, such as http://host:7333", what);
}

enum sluice_code sluice_cluster_show(struct sluice *s, const char *coord,
                                     struct sluice_cluster **out, struct sluice_error *error)
{
    *out = NULL;
    return is_direct(s) ? ops_cluster_show(s->engine, coord, out, error)
                        : client_cluster_show(s->client, out, error);
}

enum sluice_code sluice_cluster_plan(struct sluice *s, struct sluice_plan **out,
                                     struct sluice_error *error)
{
    *out = NULL;
    if (is_direct(s)) return refuse_direct(error, "show the next plan");
    return client_cluster_plan(s->client, out, error);
}

void sluice_plan_free(struct sluice_plan *p)
{
    if (!p) return;
    memory_free(p->rows);
    memory_free(p);
}

enum sluice_code sluice_cluster_drain(struct sluice *s, const char *node,
                                      struct sluice_error *error)
{
    if (is_direct(s)) return refuse_direct(error, "be drained");
    return client_cluster_order(s->client, ROUTE_CLUSTER_DRAIN, node, error);
}

enum sluice_code sluice_cluster_undrain(struct sluice *s, const char *node,
                                        struct sluice_error *error)
{
    if (is_direct(s)) return refuse_direct(error, "be drained");
    return client_cluster_order(s->client, ROUTE_CLUSTER_UNDRAIN, node, error);
}

enum sluice_code sluice_cluster_leave(struct sluice *s, const char *node,
                                      struct sluice_error *error)
{
    if (is_direct(s)) return refuse_direct(error, "leave the cluster");
    return client_cluster_order(s->client, ROUTE_CLUSTER_LEAVE, node, error);
}

// A handle of a node has one kind of stream, whose memory begins with the same struct.
enum sluice_code sluice_cluster_events_open(struct sluice *s, const char *from,
                                            struct sluice_cluster_events **out,
                                            struct sluice_error *error)
{
    *out = NULL;
    if (is_direct(s)) return refuse_direct(error, "tell the events of the cluster");
    return client_stream_open(s->client, ROUTE_CLUSTER_EVENTS, NULL, from,
                              (struct client_events **)out, error);
}

enum sluice_code sluice_cluster_events_next(struct sluice_cluster_events *e, int64_t wait_ms,
                                            struct sluice_cluster_event *out,
                                            struct sluice_error *error)
{
    struct json *o = NULL;
    enum sluice_code code = client_stream_next((struct client_events *)e, wait_ms, &o, error);
    if (code) return code;
    *out = (struct sluice_cluster_event){0};
    fields_view(o, &cluster_event_answer, out);
    return SLUICE_OK;
}

void sluice_cluster_events_close(struct sluice_cluster_events *e)
{
    if (e) client_events_close((struct sluice_events *)e);
}

enum sluice_code sluice_coord_switch(struct sluice *s, const char *queue, const char *coord,
                                     unsigned flags, struct sluice_coord_switch *out,
                                     struct sluice_error *error)
{
    *out = (struct sluice_coord_switch){.shards = 0};
    if (s->engine) return ops_coord_switch(s->engine, queue, coord, flags, out, error);
    return refuse(error, ERR_INVALID, "store",
                  "a node cannot switch the coordination service; open the store itself");
}
