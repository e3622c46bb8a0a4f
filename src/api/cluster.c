// SPDX-License-Identifier: Apache-2.0
// The functions of sluice_cluster.h. A node answers them. A handle of a store can only show the
// cluster (local/cluster_show.c) and switch the coordination service (local/coord_switch.c).
#include "base/memory.h"
#include "local/cluster_show.h"
#include "local/inside.h"
#include "remote/remote.h"
#include "sluice_cluster.h"

static bool is_direct(const struct sluice *s)
{
    return s->calls == &direct_transport;
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
    return is_direct(s) ? direct_cluster_show(s, coord, out, error)
                        : remote_cluster_show(s, out, error);
}

void sluice_cluster_free(struct sluice_cluster *c)
{
    if (!c) return;
    memory_free(c->members);
    memory_free(c->shards);
    memory_free(c);
}

enum sluice_code sluice_cluster_plan(struct sluice *s, struct sluice_plan **out,
                                     struct sluice_error *error)
{
    *out = NULL;
    if (is_direct(s)) return refuse_direct(error, "show the next plan");
    return remote_cluster_plan(s, out, error);
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
    return remote_cluster_order(s, CALL_CLUSTER_DRAIN, node, error);
}

enum sluice_code sluice_cluster_undrain(struct sluice *s, const char *node,
                                        struct sluice_error *error)
{
    if (is_direct(s)) return refuse_direct(error, "be drained");
    return remote_cluster_order(s, CALL_CLUSTER_UNDRAIN, node, error);
}

enum sluice_code sluice_cluster_leave(struct sluice *s, const char *node,
                                      struct sluice_error *error)
{
    if (is_direct(s)) return refuse_direct(error, "leave the cluster");
    return remote_cluster_order(s, CALL_CLUSTER_LEAVE, node, error);
}

// A handle of a node has one kind of stream, whose memory begins with the same struct.
enum sluice_code sluice_cluster_events_open(struct sluice *s, const char *from,
                                            struct sluice_cluster_events **out,
                                            struct sluice_error *error)
{
    *out = NULL;
    if (is_direct(s)) return refuse_direct(error, "tell the events of the cluster");
    return remote_stream_open(remote_of(s), CALL_CLUSTER_EVENTS, NULL, from,
                              (struct remote_events **)out, error);
}

enum sluice_code sluice_cluster_events_next(struct sluice_cluster_events *e, int64_t wait_ms,
                                            struct sluice_cluster_event *out,
                                            struct sluice_error *error)
{
    struct json *o = NULL;
    enum sluice_code code = remote_stream_next((struct remote_events *)e, wait_ms, &o, error);
    if (code) return code;
    *out = (struct sluice_cluster_event){0};
    fields_view(o, &cluster_event_answer, out);
    return SLUICE_OK;
}

void sluice_cluster_events_close(struct sluice_cluster_events *e)
{
    if (e) remote_events_close((struct sluice_events *)e);
}
