// SPDX-License-Identifier: Apache-2.0
// Workers that join, beat and leave, and the orders of an operator.
#include "ops/ops.h"
#include "ops/worker_change.h"
#include "os/entropy.h"
#include "server/inside.h"
#include "server/presence.h"

#include <stdio.h>
#include <string.h>

// Reads the instance, or draws one for a join that has none.
static bool instance_of(struct exchange *x, const char *text, bool draws, uint64_t *out)
{
    bool given = text && *text;
    *out = given ? read_instance(text) : draws ? entropy_u64() | 1 : 0;
    if (*out != 0) return true;
    return refuse_request(x, SLUICE_INVALID, "", "instance",
                          "instance \"%.40s\" is not 16 hex digits that a join was answered with",
                          text ? text : "");
}

static bool read_worker(struct exchange *x, const char *name)
{
    struct sluice_error error;
    if (name && *name) return answer_unless(x, worker_check(name, &error), &error);
    return refuse_request(x, SLUICE_INVALID, "", "worker", "worker is missing: the worker's name");
}

static void answer_joined(struct exchange *x, const char *name, uint64_t instance, int64_t ttl_ms)
{
    char text[INSTANCE_DIGITS + 1];
    struct json *o = json_new();
    (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)instance);
    json_text(o, "worker", name);
    json_text(o, "instance", text);
    if (ttl_ms > 0) json_number(o, "ttlMs", ttl_ms);
    answer_json(x, 200, o);
}

// The worker's process lives. A refused join says nothing about the process that has the name.
// A beat has no capacity of its own: 0.
static void note_life(struct exchange *x, const struct worker_join_in *in, uint64_t instance)
{
    struct present_key key = {.queue = x->queue, .worker = in->worker, .instance = instance};
    presence_note(x->server->presence, &key, in->beat ? 0 : in->capacity);
}

// A sign of life costs no commit here: the node writes those of all its workers together.
static void beat(struct exchange *x, const struct worker_join_in *in, uint64_t instance)
{
    struct sluice_error error = {.code = SLUICE_OK};
    enum sluice_code code;
    bool live = worker_is_live(x->server->engine, x->queue, in->worker, instance, &code, &error);
    if (!code && !live) code = refuse_worker(&error, REASON_UNKNOWN_WORKER, x->queue, in->worker);
    if (!answer_unless(x, code, &error)) return;
    note_life(x, in, instance);
    answer_joined(x, in->worker, instance, 0);
}

// What the nodes of the cluster heard of the process that has a name. The other nodes list the
// names only. That is enough: a name that any process uses there is not taken over.
static bool last_sign(void *ctx, const char *name, uint64_t instance, int64_t *ago_ms, bool *gone)
{
    struct exchange *x = ctx;
    struct waiting_list others = {0};
    struct present_key key = {.queue = x->queue, .worker = name, .instance = instance};
    bool known = presence_of(x->server->presence, &key, ago_ms, gone);
    workers_at_other_nodes(x, &others);
    for (size_t i = 0; i < others.len; i++) {
        const struct waiting_row *row = &others.rows[i];
        if (strcmp(row->name, name) != 0 || row->relayed) continue;
        if (!known || row->ago_ms < *ago_ms) *ago_ms = row->ago_ms;
        *gone = false;
        known = true;
    }
    waiting_list_done(&others);
    return known;
}

void handle_worker_join(struct exchange *x)
{
    struct worker_join_in in = {0};
    struct sluice_error error;
    uint64_t instance;
    if (!read_request(x, &in) || !read_worker(x, in.worker) ||
        !instance_of(x, in.instance, !in.beat, &instance))
        return;
    if (in.beat) {
        beat(x, &in, instance);
        return;
    }
    struct worker_order o = {.act = WORKER_JOIN,
                             .name = in.worker,
                             .instance = instance,
                             .capacity = in.capacity,
                             .ttl_ms = in.ttl,
                             .flags = in.store_only ? WORKER_MAILBOX : 0,
                             .labels = in.labels,
                             .last_sign = last_sign,
                             .last_sign_ctx = x};
    enum sluice_code code = ops_worker_change(x->server->engine, x->queue, &o, &error);
    if (!answer_unless(x, code, &error)) return;
    note_life(x, &in, instance);
    heartbeats_joined(x->server->heartbeats, x->queue, in.ttl);
    answer_joined(x, in.worker, instance, in.ttl);
}

void handle_worker_leave(struct exchange *x)
{
    struct worker_leave_in in = {0};
    struct sluice_error error;
    uint64_t instance;
    if (!read_request(x, &in) || !read_worker(x, in.worker) ||
        !instance_of(x, in.instance, false, &instance))
        return;
    struct worker_order o = {.act = WORKER_LEAVE, .name = in.worker, .instance = instance};
    enum sluice_code code = ops_worker_change(x->server->engine, x->queue, &o, &error);
    // It is not registered, or not any more.
    bool gone = code && (strcmp(error.reason, reason_name(REASON_UNKNOWN_WORKER)) == 0 ||
                         strcmp(error.reason, reason_name(REASON_WORKER_EVICTED)) == 0);
    if (gone || answer_unless(x, code, &error)) answer_empty(x, 204);
}

void handle_worker_order(struct exchange *x)
{
    static const enum worker_act acts[ROUTE_COUNT] = {[ROUTE_WORKER_PAUSE] = WORKER_PAUSE,
                                                      [ROUTE_WORKER_RESUME] = WORKER_RESUME,
                                                      [ROUTE_WORKER_DRAIN] = WORKER_DRAIN,
                                                      [ROUTE_WORKER_EVICT] = WORKER_EVICT};
    struct worker_order_in in = {0};
    if (!read_request(x, &in) || !read_worker(x, in.worker)) return;
    struct request_origin as = act(x, sizeof(struct worker_order), answer_done);
    struct worker_order *o = x->result;
    *o = (struct worker_order){.act = acts[x->route->row - route_table], .name = in.worker};
    (void)worker_order_start(&as, x->queue, o, NULL);
}
