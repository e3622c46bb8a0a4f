// SPDX-License-Identifier: Apache-2.0
// Workers that join, beat and leave through a node, and the orders of an operator.
#include "client/client.h"

#include <stdio.h>
#include <string.h>

#define INSTANCE_MAX 17 // 16 hex digits

static enum sluice_code ask(struct node_client *s, struct ask *ask, struct sluice_error *error)
{
    CLEANUP(http_call_done) struct http_call call;
    CLEANUP(buf_done) struct buf body;
    struct node_client *r = s;
    const struct fields *fields = route_table[ask->call].body;
    http_call_init(&call, NULL, NULL);
    buf_init(&body, SIZE_MAX);
    if (fields) json_write(fields_json(fields, ask->in), &body);
    ask->body = buf_bytes(&body);
    ask->until = client_until(r);
    enum sluice_code code = client_ask(r, ask, &call, NULL, error);
    ask->body = BYTES_EMPTY;
    return code;
}

enum sluice_code client_worker_change(struct node_client *s, const char *queue,
                                      const struct worker_order *o, struct sluice_error *error)
{
    static const enum route_id orders[WORKER_ACT_COUNT] = {[WORKER_PAUSE] = ROUTE_WORKER_PAUSE,
                                                           [WORKER_RESUME] = ROUTE_WORKER_RESUME,
                                                           [WORKER_DRAIN] = ROUTE_WORKER_DRAIN,
                                                           [WORKER_EVICT] = ROUTE_WORKER_EVICT};
    char instance[INSTANCE_MAX];
    (void)snprintf(instance, sizeof instance, "%016llx", (unsigned long long)o->instance);
    if (o->act >= WORKER_PAUSE) {
        struct worker_order_in in = {.worker = o->name};
        return ask(s, &(struct ask){.call = orders[o->act], .queue = queue, .in = &in}, error);
    }
    if (o->act == WORKER_LEAVE) {
        struct worker_leave_in in = {.worker = o->name, .instance = instance};
        return ask(s, &(struct ask){.call = ROUTE_WORKER_LEAVE, .queue = queue, .in = &in}, error);
    }
    struct worker_join_in in = {.worker = o->name,
                                .instance = instance,
                                .capacity = o->capacity,
                                .ttl = o->ttl_ms,
                                .labels = o->labels ? o->labels : "",
                                .beat = o->act == WORKER_BEAT,
                                .store_only = (o->flags & WORKER_MAILBOX) != 0};
    return ask(s, &(struct ask){.call = ROUTE_WORKER_JOIN, .queue = queue, .in = &in}, error);
}
