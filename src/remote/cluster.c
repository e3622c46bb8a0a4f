// SPDX-License-Identifier: Apache-2.0
// Asks nodes about the cluster, and orders a node to drain or to leave.
#include "remote/remote.h"

#include "base/memory.h"
#include "calls/calls.h"
#include "remote/shards.h"
#include "sluice_cluster.h"

#include <stdio.h>
#include <string.h>

// Reads a list of objects into rows of `size` bytes. Returns how many; the caller frees *out.
static size_t read_rows(struct json *o, const char *name, const struct fields *table, size_t size,
                        void **out)
{
    struct json *rows = json_member(o, name);
    bool is_list = rows && json_kind(rows) == JSON_KIND_LIST;
    size_t len = is_list ? json_list_len(rows) : 0, count = 0;
    char *to = memory_zeroed(len + 1, size);
    for (size_t i = 0; i < len; i++) {
        struct json *row = json_list_at(rows, i);
        if (json_kind(row) != JSON_KIND_OBJECT) continue;
        fields_take(row, table, to + count++ * size);
    }
    *out = to;
    return count;
}

static struct sluice_cluster *read_cluster(struct json *o)
{
    void *rows;
    struct sluice_cluster *c = NEW(struct sluice_cluster);
    fields_take(o, &cluster_answer, c);
    c->members_len = read_rows(o, "members", &member_answer, sizeof *c->members, &rows);
    c->members = rows;
    c->shards_len = read_rows(o, "shards", &shard_answer, sizeof *c->shards, &rows);
    c->shards = rows;
    json_free(o);
    return c;
}

bool remote_shards_read(const struct http_call *call, struct sluice_shard **out, size_t *len)
{
    void *rows = NULL;
    *out = NULL;
    *len = 0;
    struct json *o = call->status == 200 ? remote_json(call, NULL) : NULL;
    if (!o) return false;
    *len = read_rows(o, "shards", &shard_answer, sizeof **out, &rows);
    *out = rows;
    json_free(o);
    return true;
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
static void ask_others(struct remote *r, struct sluice_cluster *c)
{
    for (size_t i = 0; i < r->nodes.len; i++) {
        CLEANUP(http_call_done) struct http_call call;
        struct ask ask = {.call = CALL_CLUSTER, .prefer = 1 + i, .only = true};
        http_call_init(&call, NULL, NULL);
        struct json *o = remote_ask(r, &ask, &call, NULL, NULL) ? NULL : remote_json(&call, NULL);
        if (!o) continue;
        struct sluice_cluster *other = read_cluster(o);
        merge_shards(c, other);
        sluice_cluster_free(other);
    }
}

enum sluice_code remote_cluster_show(struct sluice *s, struct sluice_cluster **out,
                                     struct sluice_error *error)
{
    enum sluice_code code;
    struct remote *r = remote_of(s);
    struct ask ask = {.call = CALL_CLUSTER};
    struct json *o = remote_ask_json(r, &ask, &code, error);
    if (!o) return code;
    *out = read_cluster(o);
    if (r->nodes.len > 1) ask_others(r, *out);
    return SLUICE_OK;
}

enum sluice_code remote_cluster_plan(struct sluice *s, struct sluice_plan **out,
                                     struct sluice_error *error)
{
    enum sluice_code code;
    void *rows;
    struct ask ask = {.call = CALL_CLUSTER_PLAN};
    struct json *o = remote_ask_json(remote_of(s), &ask, &code, error);
    if (!o) return code;
    struct sluice_plan *p = NEW(struct sluice_plan);
    struct json *moves = json_member(o, "moves"), *waiting = json_member(o, "waiting");
    if (moves && json_kind(moves) == JSON_KIND_NUMBER) p->moves = (uint32_t)json_as_number(moves);
    if (waiting && json_kind(waiting) == JSON_KIND_NUMBER)
        p->waiting = (uint32_t)json_as_number(waiting);
    p->len = read_rows(o, "shards", &move_answer, sizeof *p->rows, &rows);
    p->rows = rows;
    json_free(o);
    *out = p;
    return SLUICE_OK;
}

// The order goes to each node of the list until the one with the name takes it. The others refuse
// it and do nothing.
enum sluice_code remote_cluster_order(struct sluice *s, enum call_id call, const char *node,
                                      struct sluice_error *error)
{
    struct remote *r = remote_of(s);
    struct cluster_order_in in = {.node = node};
    struct sluice_error own, *why = error ? error : &own;
    enum sluice_code code = SLUICE_OK, first = SLUICE_OK;
    struct sluice_error kept = {0};
    for (size_t i = 0; i < r->nodes.len; i++) {
        CLEANUP(http_call_done) struct http_call http;
        CLEANUP(buf_done) struct buf body;
        http_call_init(&http, NULL, NULL);
        buf_init(&body, SIZE_MAX);
        json_write(fields_json(&cluster_order_fields, &in), &body);
        struct ask ask = {.call = call,
                          .body = buf_bytes(&body),
                          .prefer = 1 + i,
                          .only = true,
                          .until = r->nodes.len == 1 ? remote_until(r) : 0};
        code = remote_ask(r, &ask, &http, NULL, why);
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
