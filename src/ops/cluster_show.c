// SPDX-License-Identifier: Apache-2.0
// Lists the members of the coordination service, and reads the owners from the journals of all
// queues. It needs no node.
#include "ops/cluster_show.h"

#include "base/digits.h"
#include "base/memory.h"
#include "coord/coord.h"
#include "coord/credentials.h"
#include "queues/owner_shards.h"
#include "queues/queues.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define COPY(to, from) (void)snprintf((to), sizeof(to), "%s", (from))

static enum sluice_code refuse_service(struct sluice_error *error, enum err err, const char *why)
{
    return refuse(error, err, "coord", "%s", why[0] ? why : err_text(err));
}

enum sluice_code coord_of(const struct engine *e, const char *coord, struct coord **out,
                          struct sluice_error *error)
{
    char why[COORD_WHY_MAX] = "";
    struct coord_credentials credentials = {0};
    struct coord_config config = {.store = e->store};
    if (!coord) coord = "store:";
    enum err err = coord_check_url(coord, why);
    if (err) return refuse_service(error, err, why);
    err = coord_credentials_read(&credentials, why);
    if (!err) coord_credentials_use(&credentials, &config);
    if (!err) err = coord_open(coord, &config, out, why);
    coord_credentials_done(&credentials);
    return err ? refuse_service(error, err, why) : SLUICE_OK;
}

static void add_members(const struct coord_answer *a, struct sluice_cluster *c)
{
    static_assert(SLUICE_NODE_MAX == COORD_NAME_MAX + 1, "a name fits");
    static_assert(SLUICE_URL_MAX == COORD_URL_MAX + 1, "a URL fits");
    c->members = memory_zeroed(a->members_len + 1, sizeof *c->members);
    for (size_t i = 0; i < a->members_len; i++) {
        const struct coord_member *from = &a->members[i];
        struct sluice_member *m = &c->members[c->members_len++];
        COPY(m->name, from->name);
        COPY(m->url, from->url);
        COPY(m->version, from->version);
        COPY(m->settings, from->settings);
        COPY(m->status, "listed");
        m->capacity = from->capacity;
        m->rules_lo = from->rules_lo;
        m->rules_hi = from->rules_hi;
        m->leads = strcmp(from->name, a->leader.name) == 0;
    }
    COPY(c->leader, a->leader.name);
    c->epoch = a->leader.token;
}

static enum sluice_code list_members(const struct engine *e, const char *url,
                                     struct sluice_cluster *c, struct sluice_error *error)
{
    struct coord *coord = NULL;
    uint8_t id[COORD_ID_LEN];
    enum sluice_code code = coord_of(e, url, &coord, error);
    if (code) return code;
    struct coord_answer a;
    coord_answer_init(&a);
    enum err err = coord_list(coord, &a);
    if (err) code = refuse_service(error, err, a.why);
    if (!err) add_members(&a, c);
    coord_id(coord, id);
    *digits_put_hex(c->service, id, sizeof id) = '\0';
    COPY(c->backend, coord_backend(coord));
    coord_answer_done(&a);
    coord_free(coord);
    return code;
}

static void count_shard(struct sluice_cluster *c, const char *owner)
{
    for (size_t i = 0; i < c->members_len; i++)
        c->members[i].shards += strcmp(c->members[i].name, owner) == 0;
}

static enum sluice_code add_queue(struct engine *e, const char *queue, struct sluice_cluster *c,
                                  struct sluice_error *error)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    enum sluice_code code = queue_get(e, queue, &q, error);
    if (code == SLUICE_NOT_FOUND) return SLUICE_OK; // deleted since it was listed
    if (code) return code;
    size_t len = c->shards_len + q->row.birth.shards;
    c->shards = memory_resize(c->shards, len * sizeof *c->shards);
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct shard_runner *r;
        struct runner_owner o;
        struct owner_name name;
        code = queue_synced_runner(q, i, &r, error);
        if (code == SLUICE_NOT_FOUND) return SLUICE_OK;
        if (code) return code;
        struct sluice_shard *row = &c->shards[c->shards_len++];
        *row = (struct sluice_shard){.shard = i};
        COPY(row->queue, queue);
        runner_owner(r, &o);
        runner_inspect(r, shard_count_messages, row);
        row->epoch = o.epoch;
        if (o.epoch != 0 && owner_parse(o.address, &name) && strlen(name.node) < SLUICE_NODE_MAX)
            memcpy(row->owner, name.node, strlen(name.node) + 1);
        if (*row->owner) count_shard(c, row->owner);
    }
    return SLUICE_OK;
}

enum sluice_code ops_cluster_show(struct engine *e, const char *coord, struct sluice_cluster **out,
                                  struct sluice_error *error)
{
    struct sluice_names *names = NULL;
    struct sluice_cluster *c = NEW(struct sluice_cluster);
    enum sluice_code code = list_members(e, coord, c, error);
    if (!code) code = queues_list(e, &names, error);
    for (size_t i = 0; !code && i < names->len; i++)
        code = add_queue(e, names->names[i], c, error);
    sluice_names_free(names);
    *out = c;
    if (!code) return SLUICE_OK;
    sluice_cluster_free(c);
    *out = NULL;
    return code;
}
