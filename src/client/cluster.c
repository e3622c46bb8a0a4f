// SPDX-License-Identifier: Apache-2.0
// Asks nodes about the cluster, and orders a node to drain or to leave.
#include "client/client.h"

#include "base/memory.h"
#include "protocol/routes.h"
#include "sluice_cluster.h"

#include <string.h>

static struct sluice_cluster *read_cluster(struct json *o)
{
    void *rows;
    struct sluice_cluster *c = NEW(struct sluice_cluster);
    fields_take(o, &cluster_answer, c);
    c->members_len = fields_take_rows(o, "members", &member_answer, sizeof *c->members, &rows);
    c->members = rows;
    c->shards_len = fields_take_rows(o, "shards", &shard_answer, sizeof *c->shards, &rows);
    c->shards = rows;
    json_free(o);
    return c;
}

static int compare(const struct sluice_shard *a, const struct sluice_shard *b)
{
    int order = strcmp(a->queue, b->queue);
    return order ? order : (a->shard > b->shard) - (a->shard < b->shard);
}

// A node knows the owners of the shards that it works on. The later epoch is right.
static void merge_shards(struct sluice_cluster *to, const struct sluice_cluster *from)
{
    size_t k = 0;
    for (size_t i = 0; i < to->shards_len; i++) {
        struct sluice_shard *row = &to->shards[i];
        while (k < from->shards_len && compare(&from->shards[k], row) < 0)
            k++;
        if (k == from->shards_len || compare(&from->shards[k], row) != 0) continue;
        const struct sluice_shard *other = &from->shards[k];
        row->moving = row->moving || other->moving;
        if (other->counted && (!row->counted || other->epoch > row->epoch)) {
            row->counted = 1;
            row->ready = other->ready;
            row->open = other->open;
            row->refused = other->refused;
            row->work = other->work;
        }
        if (!*other->owner || (*row->owner && other->epoch <= row->epoch)) continue;
        row->epoch = other->epoch;
        memcpy(row->owner, other->owner, sizeof row->owner);
    }
}

// Asks the other nodes of the list, once each. One that does not answer is left out.
static void ask_others(struct node_client *r, struct sluice_cluster *c)
{
    for (size_t i = 0; i < r->nodes.len; i++) {
        CLEANUP(http_call_done) struct http_call call;
        struct ask ask = {.call = ROUTE_CLUSTER, .prefer = 1 + i, .only = true};
        http_call_init(&call, NULL, NULL);
        struct json *o = client_ask(r, &ask, &call, NULL, NULL) ? NULL : client_json(&call, NULL);
        if (!o) continue;
        struct sluice_cluster *other = read_cluster(o);
        merge_shards(c, other);
        sluice_cluster_free(other);
    }
}

enum sluice_code client_cluster_show(struct node_client *s, struct sluice_cluster **out,
                                     struct sluice_error *error)
{
    enum sluice_code code;
    struct node_client *r = s;
    struct ask ask = {.call = ROUTE_CLUSTER};
    struct json *o = client_ask_json(r, &ask, &code, error);
    if (!o) return code;
    *out = read_cluster(o);
    if (r->nodes.len > 1) ask_others(r, *out);
    return SLUICE_OK;
}

enum sluice_code client_cluster_plan(struct node_client *s, struct sluice_plan **out,
                                     struct sluice_error *error)
{
    enum sluice_code code;
    void *rows;
    struct ask ask = {.call = ROUTE_CLUSTER_PLAN};
    struct json *o = client_ask_json(s, &ask, &code, error);
    if (!o) return code;
    struct sluice_plan *p = NEW(struct sluice_plan);
    struct json *moves = json_member(o, "moves"), *waiting = json_member(o, "waiting");
    if (moves && json_kind(moves) == JSON_KIND_NUMBER) p->moves = (uint32_t)json_as_number(moves);
    if (waiting && json_kind(waiting) == JSON_KIND_NUMBER)
        p->waiting = (uint32_t)json_as_number(waiting);
    p->len = fields_take_rows(o, "shards", &move_answer, sizeof *p->rows, &rows);
    p->rows = rows;
    json_free(o);
    *out = p;
    return SLUICE_OK;
}

// The order goes to each node of the list until the one with the name takes it. The others refuse
// it and do nothing.
enum sluice_code client_cluster_order(struct node_client *s, enum route_id call, const char *node,
                                      struct sluice_error *error)
{
    struct node_client *r = s;
    struct cluster_order_in in = {.node = node};
    struct sluice_error own, *why = error ? error : &own;
    enum sluice_code code = SLUICE_OK, first = SLUICE_OK;
    struct sluice_error kept = {0};
    for (size_t i = 0; i < r->nodes.len; i++) {
        LOCAL(http_call, http, NULL, NULL);
        LOCAL(buf, body, SIZE_MAX);
        json_write(fields_json(&cluster_order_fields, &in), &body);
        struct ask ask = {.call = call,
                          .body = buf_bytes(&body),
                          .prefer = 1 + i,
                          .only = true,
                          .until = r->nodes.len == 1 ? client_until(r) : 0};
        code = client_ask(r, &ask, &http, NULL, why);
        if (code == SLUICE_OK) return SLUICE_OK;
        // A node that refuses because it has another name says where the right one is.
        if (first == SLUICE_OK || first != SLUICE_CONFLICT) {
            first = code;
            kept = *why;
        }
    }
    *why = kept;
    return first;
}
