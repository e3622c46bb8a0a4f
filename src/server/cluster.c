// SPDX-License-Identifier: Apache-2.0
// /v1/cluster: what this node knows of the cluster, the next plan, and the orders to drain and to
// leave.
#include "base/memory.h"
#include "member/member.h"
#include "os/parallel.h"
#include "queues/owner_shards.h"
#include "server/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPY(to, from) (void)snprintf((to), sizeof(to), "%s", (from))

// Returns NULL, after an answer, if the node is no member of a cluster.
static struct membership *member_of(struct exchange *x)
{
    struct membership *m = x->server->member;
    if (!m)
        (void)refuse_request(x, SLUICE_CONFLICT, "no-cluster", "coord",
                             "this node is no member of a cluster (coord = none)");
    return m;
}

static struct json *member_json(const struct membership_row *row)
{
    struct sluice_member m = {.capacity = row->capacity,
                              .shards = row->shards,
                              .rules_lo = row->rules_lo,
                              .rules_hi = row->rules_hi,
                              .beat_age_ms = row->beat_age_ms > 0 ? row->beat_age_ms : 0,
                              .leads = row->leads,
                              .self = row->self};
    COPY(m.name, row->name);
    COPY(m.url, row->url);
    COPY(m.version, row->version);
    COPY(m.settings, row->settings);
    COPY(m.status, life_name(row->life));
    return fields_json(&member_answer, &m);
}

static void shard_fill(const struct membership_shard *row, struct sluice_shard *s)
{
    *s = (struct sluice_shard){.shard = row->shard, .epoch = row->epoch, .moving = row->moving};
    COPY(s->queue, row->queue);
    COPY(s->owner, row->owner);
    COPY(s->planned, row->planned);
    COPY(s->from, row->from);
    if (row->reason != MOVE_NONE) COPY(s->reason, move_reason_name(row->reason));
}

static struct json *head_json(struct server *s, const struct membership_status *from)
{
    struct sluice_cluster c = {.lease_ms = from->lease_ms,
                               .observe_only = from->observe_only,
                               .draining = from->draining,
                               .replaced = from->replaced,
                               .epoch = from->epoch,
                               .plan_epoch = from->plan_epoch,
                               .plan_number = from->plan_number,
                               .moves = from->moves,
                               .waiting = from->waiting,
                               .unowned = from->unowned,
                               .unowned_events = from->unowned_events,
                               .degraded = from->degraded,
                               .degraded_ms = from->degraded_ms};
    COPY(c.node, from->node);
    COPY(c.backend, from->backend);
    COPY(c.service, from->service);
    COPY(c.leader, from->leader);
    COPY(c.settings, from->settings);
    COPY(c.differs, from->differs);
    COPY(c.degraded_why, from->degraded_why);
    flags_text(s, c.flags);
    return fields_json(&cluster_answer, &c);
}

// A token sees the shards of the queues that it may read. The name of a new queue may not be known
// to this node yet.
static bool sees(const struct exchange *x, const char *queue)
{
    return *queue && auth_may(x, SCOPE_READ, queue);
}

// The shards of a member, as it tells them.
struct member_answer {
    const struct membership_row *member;
    bool answered;
    struct sluice_shard *rows;
    size_t len;
};

struct cluster_answer {
    struct engine *engine;
    const struct membership_status *status;
    struct member_answer *others;
    size_t len;
};

static void ask_other(void *ctx, size_t i)
{
    const struct cluster_answer *t = ctx;
    struct member_answer *o = &t->others[i];
    const struct membership_row *m = o->member;
    if (m->self) {
        o->answered = true;
        o->rows = cluster_own_shards(t->engine, true, &o->len);
        return;
    }
    o->answered = owner_ask_shards(t->engine, m->url, m->name, true, &o->rows, &o->len);
    for (size_t k = 0; !o->answered && m->life <= LIFE_SUSPECT && k < t->status->shards_len; k++) {
        const struct membership_shard *shard = &t->status->shards[k];
        if (!*shard->queue || strcmp(shard->planned, m->name) != 0) continue;
        owner_learn_shard(t->engine, shard->queue, shard->shard);
        o->answered = owner_ask_shards(t->engine, m->url, m->name, true, &o->rows, &o->len);
        return;
    }
}

static int by_name(const void *a, const void *b)
{
    const struct sluice_shard *x = a, *y = b;
    int order = strcmp(x->queue, y->queue);
    return order ? order : (x->shard > y->shard) - (x->shard < y->shard);
}

// The later epoch is right: a former owner may not know yet that it is one.
static void take_told(struct sluice_shard *rows, size_t len, const struct member_answer *o)
{
    for (size_t i = 0; i < o->len; i++) {
        const struct sluice_shard *from = &o->rows[i];
        struct sluice_shard *row = bsearch(from, rows, len, sizeof *rows, by_name);
        if (!row || from->epoch < row->epoch || (row->counted && from->epoch == row->epoch))
            continue;
        COPY(row->owner, o->member->name);
        row->epoch = from->epoch;
        row->counted = 1;
        row->ready = from->ready;
        row->open = from->open;
        row->refused = from->refused;
        row->work = from->work;
    }
}

// A member that answered and did not name the shard does not own it any more.
static void drop_former_owners(struct sluice_shard *rows, size_t len, const struct member_answer *o)
{
    for (size_t i = 0; i < len; i++) {
        if (rows[i].counted || strcmp(rows[i].owner, o->member->name) != 0) continue;
        rows[i].owner[0] = 0;
        rows[i].epoch = 0;
    }
}

static void ask_owners(struct server *s, const struct membership_status *status,
                       struct sluice_shard *rows, size_t len)
{
    struct cluster_answer t = {.engine = s->engine, .status = status};
    t.others = memory_zeroed(status->members_len + 1, sizeof *t.others);
    for (size_t i = 0; i < status->members_len && len > 0; i++) {
        const struct membership_row *m = &status->members[i];
        if (m->self || (m->life != LIFE_GONE && *m->url)) t.others[t.len++].member = m;
    }
    parallel_for(s->engine->parallel, 0, t.len, ask_other, &t);
    for (size_t i = 0; i < t.len; i++)
        take_told(rows, len, &t.others[i]);
    for (size_t i = 0; i < t.len; i++) {
        if (t.others[i].answered) drop_former_owners(rows, len, &t.others[i]);
        memory_free(t.others[i].rows);
    }
    memory_free(t.others);
}

void handle_node_shards(struct exchange *x)
{
    size_t len;
    struct server *s = x->server;
    struct node_shards_in in = {0};
    if (!read_request(x, &in)) return;
    struct sluice_shard *rows = cluster_own_shards(s->engine, in.synced, &len);
    struct json *o = json_new(), *list = json_list_new();
    for (size_t i = 0; i < len; i++) {
        COPY(rows[i].owner, s->node);
        json_list_take(list, fields_json(&shard_answer, &rows[i]));
    }
    memory_free(rows);
    json_text(o, "node", s->node);
    json_take(o, "shards", list);
    answer_json(x, 200, o);
}

static struct json *shards_json(const struct exchange *x, const struct membership_status *status)
{
    struct sluice_shard *rows = memory_zeroed(status->shards_len + 1, sizeof *rows);
    struct json *list = json_list_new();
    size_t len = 0;
    for (size_t i = 0; i < status->shards_len; i++)
        if (sees(x, status->shards[i].queue)) shard_fill(&status->shards[i], &rows[len++]);
    ask_owners(x->server, status, rows, len);
    for (size_t i = 0; i < len; i++)
        json_list_take(list, fields_json(&shard_answer, &rows[i]));
    memory_free(rows);
    return list;
}

void handle_cluster(struct exchange *x)
{
    struct membership *m = member_of(x);
    struct membership_status status;
    if (!m || !read_request(x, NULL)) return;
    membership_status(m, &status);
    struct json *o = head_json(x->server, &status), *members = json_list_new();
    for (size_t i = 0; i < status.members_len; i++)
        json_list_take(members, member_json(&status.members[i]));
    json_take(o, "members", members);
    json_take(o, "shards", shards_json(x, &status));
    membership_status_done(&status);
    answer_json(x, 200, o);
}

static struct json *move_json(const struct membership_move *row)
{
    struct sluice_move m = {.shard = row->shard, .traffic = row->traffic};
    COPY(m.queue, row->queue);
    COPY(m.from, row->from);
    COPY(m.to, row->to);
    COPY(m.why, row->why);
    if (row->reason != MOVE_NONE) COPY(m.reason, move_reason_name(row->reason));
    return fields_json(&move_answer, &m);
}

void handle_cluster_plan(struct exchange *x)
{
    struct membership *m = member_of(x);
    struct membership_plan plan;
    struct sluice_error error;
    if (!m || !read_request(x, NULL)) return;
    if (!answer_unless(x, membership_plan(m, &plan, &error), &error)) return;
    struct json *o = json_new(), *rows = json_list_new();
    for (size_t i = 0; i < plan.len; i++)
        if (sees(x, plan.rows[i].queue)) json_list_take(rows, move_json(&plan.rows[i]));
    json_number(o, "moves", plan.moves);
    json_number(o, "waiting", plan.waiting);
    json_take(o, "shards", rows);
    membership_plan_done(&plan);
    answer_json(x, 200, o);
}

// An order may name the node, so that a balancer or a wrong URL cannot pass it to another one.
static bool read_order(struct exchange *x)
{
    struct cluster_order_in in = {0};
    struct server *s = x->server;
    if (!member_of(x) || !read_request(x, &in)) return false;
    if (!in.node || strcmp(in.node, s->node) == 0) return true;
    struct membership_status status;
    char url[COORD_URL_MAX + 1] = "";
    membership_status(s->member, &status);
    for (size_t i = 0; i < status.members_len; i++)
        if (strcmp(status.members[i].name, in.node) == 0) COPY(url, status.members[i].url);
    membership_status_done(&status);
    if (*url)
        return refuse_request(x, SLUICE_CONFLICT, "other-node", "node",
                              "this node is \"%s\"; ask \"%.128s\" itself, at %s", s->node, in.node,
                              url);
    return refuse_request(x, SLUICE_CONFLICT, "other-node", "node",
                          "this node is \"%s\", and no member has the name \"%.128s\"", s->node,
                          in.node);
}

void handle_cluster_drain(struct exchange *x)
{
    if (!read_order(x)) return;
    membership_drain(x->server->member);
    answer_empty(x, 204);
}

void handle_cluster_undrain(struct exchange *x)
{
    if (!read_order(x)) return;
    membership_undrain(x->server->member);
    answer_empty(x, 204);
}

void handle_cluster_leave(struct exchange *x)
{
    struct server *s = x->server;
    if (!read_order(x)) return;
    if (!s->config.leave) {
        (void)refuse_request(x, SLUICE_CONFLICT, "no-leave", "node",
                             "the program that runs this node does not let it end by HTTP");
        return;
    }
    answer_empty(x, 204);
    s->config.leave(s->config.leave_ctx);
}
