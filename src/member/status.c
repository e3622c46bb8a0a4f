// SPDX-License-Identifier: Apache-2.0
// What a node shows of the cluster: a snapshot, the next plan, and the newest events.
#include "member/inside.h"

#include "base/array.h"
#include "base/digits.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void put_name(char out[COORD_NAME_MAX + 1], const char *name)
{
    (void)snprintf(out, COORD_NAME_MAX + 1, "%s", name);
}

static struct membership_event *event_new(struct membership *m, enum cluster_note note)
{
    struct membership_event *e = &m->events[m->events_len % MEMBER_EVENTS_MAX];
    *e = (struct membership_event){
        .counter = ++m->events_len, .at_ms = membership_now(m).hi, .note = note};
    put_name(e->node, m->self.name);
    return e;
}

static void event_out(struct membership *m, const struct membership_event *e)
{
    if (m->config.event) m->config.event(m->config.event_ctx, e);
    (void)pthread_cond_broadcast(&m->changed);
}

// A leader renews its epoch several times a lease. One event in ten minutes says that it goes on,
// and the first one that a new leader could renew it.
static bool is_worth_an_event(struct membership *m, const struct cluster_effect *e)
{
    int64_t now = clock_boot_ms();
    // A node begins without contact, which is no outage.
    if (e->note == NOTE_RECOVERED) return m->counters.degraded > 0;
    if (e->note != NOTE_EPOCH_RENEWED) return true;
    if (m->renewed_epoch == e->number && now - m->renewed_at < MEMBER_RENEWED_EVERY_MS)
        return false;
    m->renewed_epoch = e->number;
    m->renewed_at = now;
    return true;
}

static void count(struct membership_counters *c, enum cluster_note note)
{
    c->elections += note == NOTE_ELECTED;
    c->renewals += note == NOTE_EPOCH_RENEWED;
    c->acquired += note == NOTE_ACQUIRED;
    c->handed_over += note == NOTE_HANDED_OVER;
    c->moves += note == NOTE_ACQUIRED || note == NOTE_HANDED_OVER;
    c->lost += note == NOTE_LOST;
    c->fenced += note == NOTE_LOST;
    c->degraded += note == NOTE_DEGRADED;
}

void event_add(struct membership *m, const struct cluster_effect *from)
{
    static const struct shard_key none = {0};
    count(&m->counters, from->note);
    if (!is_worth_an_event(m, from)) return;
    struct membership_event *e = event_new(m, from->note);
    e->epoch = from->number;
    e->life = from->life;
    if (from->note == NOTE_MEMBER) put_name(e->node, from->to.name);
    if (from->note == NOTE_ELECTED) m->leader_told = from->number;
    if (shard_key_compare(&from->shard, &none) != 0) {
        e->shard = from->shard.shard;
        (void)queues_name(m, from->shard.queue, e->queue);
    }
    event_out(m, e);
}

void event_add_leader(struct membership *m, const char *leader, uint64_t epoch)
{
    count(&m->counters, NOTE_ELECTED);
    struct membership_event *e = event_new(m, NOTE_ELECTED);
    put_name(e->node, leader);
    e->epoch = epoch;
    event_out(m, e);
}

void membership_incarnation(struct membership *m, char out[17])
{
    *digits_put_hex(out, m->self.incarnation, 8) = 0;
}

size_t membership_events(struct membership *m, uint64_t after, struct membership_event *out,
                         size_t max, bool *lost)
{
    size_t len = 0;
    LOCKED(&m->lock);
    uint64_t oldest = m->events_len > MEMBER_EVENTS_MAX ? m->events_len - MEMBER_EVENTS_MAX : 0;
    *lost = after < oldest;
    for (uint64_t i = *lost ? oldest : after; i < m->events_len && len < max; i++)
        out[len++] = m->events[i % MEMBER_EVENTS_MAX];
    return len;
}

bool membership_events_wait(struct membership *m, uint64_t after, int64_t wait_ms)
{
    int64_t until = clock_boot_ms() + wait_ms;
    LOCKED(&m->lock);
    while (m->events_len <= after && !m->stopping && clock_wait(&m->changed, &m->lock, until))
        ;
    return m->events_len > after;
}

bool membership_degraded(struct membership *m, int64_t *for_ms, char why[COORD_WHY_MAX])
{
    LOCKED(&m->lock);
    bool degraded =
        cluster_degraded(m->cluster) && m->counters.requests > 0 && m->degraded_since != 0;
    if (for_ms) *for_ms = degraded ? clock_boot_ms() - m->degraded_since : 0;
    if (why) (void)snprintf(why, COORD_WHY_MAX, "%s", degraded ? m->why : "");
    return degraded;
}

static const struct coord_member *record_of(const struct membership *m, const char *name)
{
    for (size_t i = 0; i < m->last.members_len; i++)
        if (strcmp(m->last.members[i].name, name) == 0) return &m->last.members[i];
    return NULL;
}

static uint32_t planned_for(const struct plan *p, const struct member_id *id)
{
    uint32_t shards = 0;
    for (size_t i = 0; i < p->rows_len; i++)
        shards +=
            p->rows[i].owner != SHARD_NONE && member_id_equal(&p->nodes[p->rows[i].owner], id);
    return shards;
}

static void add_members(struct membership *m, struct membership_status *s)
{
    const struct members *all = cluster_members(m->cluster);
    int64_t now = membership_now(m).hi;
    s->members = memory_zeroed(all->len + 1, sizeof *s->members);
    for (size_t i = 0; i < all->len; i++) {
        const struct member_report *seen = &all->rows[i].seen;
        const struct coord_member *record = record_of(m, seen->id.name);
        struct membership_row *row = &s->members[s->members_len++];
        *row = (struct membership_row){.capacity = seen->capacity,
                                       .life = all->rows[i].life,
                                       .beat_age_ms = now - seen->beat.lo,
                                       .leaving = seen->leaving};
        put_name(row->name, seen->id.name);
        row->self = strcmp(row->name, m->self.name) == 0;
        row->leads = strcmp(row->name, s->leader) == 0;
        row->shards = planned_for(cluster_plan(m->cluster), &seen->id);
        if (!record) continue;
        memcpy(row->url, record->url, sizeof row->url);
        memcpy(row->version, record->version, sizeof row->version);
        memcpy(row->settings, record->settings, sizeof row->settings);
        row->rules_lo = record->rules_lo;
        row->rules_hi = record->rules_hi;
    }
}

static struct membership_shard *add_shard(struct membership *m, struct membership_status *s,
                                          size_t *cap, const struct shard_key *key)
{
    struct membership_shard *row = ARRAY_ADD(s->shards, s->shards_len, *cap);
    *row = (struct membership_shard){.shard = key->shard, .reason = MOVE_NONE};
    (void)queues_name(m, key->queue, row->queue);
    row->epoch = cluster_serves(m->cluster, key);
    row->mine = row->epoch != 0;
    row->moving = cluster_moving(m->cluster, key);
    return row;
}

static void add_planned(struct membership *m, struct membership_status *s, size_t *cap)
{
    const struct plan *p = cluster_plan(m->cluster);
    for (size_t i = 0; i < p->rows_len; i++) {
        const struct plan_row *from = &p->rows[i];
        struct membership_shard *row = add_shard(m, s, cap, &from->shard);
        row->reason = from->reason;
        if (from->owner != SHARD_NONE) put_name(row->planned, p->nodes[from->owner].name);
        if (from->from != SHARD_NONE) put_name(row->from, p->nodes[from->from].name);
    }
}

// The shards that this node owns, or has known, without a plan.
static void add_unplanned(struct membership *m, struct membership_status *s, size_t *cap)
{
    for (size_t i = 0; i < m->queues_len; i++)
        for (uint32_t shard = 0; shard < m->queues[i].shards; shard++) {
            struct shard_key key = {.shard = shard};
            memcpy(key.queue, m->queues[i].id.bytes, sizeof key.queue);
            bool planned = plan_find(cluster_plan(m->cluster), &key) != NULL;
            if (planned || cluster_serves(m->cluster, &key) == 0) continue;
            put_name(add_shard(m, s, cap, &key)->planned,
                     cluster_lone(m->cluster) ? m->self.name : "");
        }
}

// A lone node has no plan that counts its shards.
static void count_lone(struct membership *m, struct membership_status *s)
{
    uint32_t mine = 0;
    for (size_t i = 0; i < s->shards_len; i++)
        mine += strcmp(s->shards[i].planned, m->self.name) == 0;
    for (size_t i = 0; cluster_lone(m->cluster) && i < s->members_len; i++)
        if (s->members[i].self) s->members[i].shards = mine;
}

static int by_queue(const void *a, const void *b)
{
    const struct membership_shard *x = a, *y = b;
    int order = strcmp(x->queue, y->queue);
    return order ? order : (x->shard > y->shard) - (x->shard < y->shard);
}

static void snapshot(struct membership *m, struct membership_status *s)
{
    const struct plan *plan = cluster_plan(m->cluster);
    size_t cap = 0;
    put_name(s->node, m->self.name);
    (void)snprintf(s->backend, sizeof s->backend, "%.15s", m->service);
    *digits_put_hex(s->service, m->coord_id, sizeof m->coord_id) = 0;
    s->lease_ms = m->lease_ms;
    s->observe_only = m->config.observe_only;
    s->draining = m->draining;
    s->replaced = cluster_replaced(m->cluster);
    put_name(s->leader, m->last.leader.name);
    s->epoch = cluster_epoch(m->cluster);
    s->plan_epoch = plan->epoch;
    s->plan_number = plan->number;
    s->moves = plan->moves;
    s->waiting = plan->waiting;
    s->unowned = m->unowned;
    s->unowned_events = m->unowned_events;
    s->counters = m->counters;
    add_members(m, s);
    settings_show(m, s);
    add_planned(m, s, &cap);
    add_unplanned(m, s, &cap);
    count_lone(m, s);
}

// The journal of an open runner names the owner. Runners are asked without the member's lock.
static void add_owners(struct membership *m, struct membership_status *s)
{
    for (size_t i = 0; i < s->shards_len; i++) {
        struct membership_shard *row = &s->shards[i];
        struct owner_name name;
        struct runner_owner o;
        if (!row->queue[0]) continue;
        CLEANUP(queue_let_go) struct open_queue *q = queue_if_known(m->engine, row->queue);
        struct shard_runner *r =
            q && row->shard < q->row.birth.shards ? runner_if_open(q, row->shard) : NULL;
        if (!r) continue;
        runner_owner(r, &o);
        row->epoch = o.epoch;
        row->mine = o.mine;
        if (o.epoch != 0 && owner_parse(o.address, &name) && strlen(name.node) <= COORD_NAME_MAX)
            memcpy(row->owner, name.node, strlen(name.node) + 1);
    }
}

void membership_status(struct membership *m, struct membership_status *out)
{
    *out = (struct membership_status){0};
    (void)pthread_mutex_lock(&m->lock);
    snapshot(m, out);
    (void)pthread_mutex_unlock(&m->lock);
    out->degraded = membership_degraded(m, &out->degraded_ms, out->degraded_why);
    add_owners(m, out);
    if (out->shards_len > 1) qsort(out->shards, out->shards_len, sizeof *out->shards, by_queue);
}

void membership_status_done(struct membership_status *s)
{
    memory_free(s->members);
    memory_free(s->shards);
    *s = (struct membership_status){0};
}

static int by_move(const void *a, const void *b)
{
    const struct membership_move *x = a, *y = b;
    int order = strcmp(x->queue, y->queue);
    return order ? order : (x->shard > y->shard) - (x->shard < y->shard);
}

enum sluice_code membership_plan(struct membership *m, struct membership_plan *out,
                                 struct sluice_error *error)
{
    struct shard_key *keys = NULL;
    struct plan plan;
    size_t len = 0;
    *out = (struct membership_plan){0};
    enum err err = catalog_load(m, &keys, &len);
    if (err)
        return refuse(error, err, "", "the catalog of the queues cannot be read: %s",
                      err_text(err));
    plan_init(&plan);
    (void)pthread_mutex_lock(&m->lock);
    cluster_preview(m->cluster, keys, len, &plan);
    out->rows = memory_zeroed(plan.rows_len + 1, sizeof *out->rows);
    for (size_t i = 0; i < plan.rows_len; i++) {
        const struct plan_row *from = &plan.rows[i];
        struct membership_move *row = &out->rows[out->len++];
        row->shard = from->shard.shard;
        row->reason = from->reason;
        row->traffic = cluster_traffic(m->cluster, &from->shard);
        (void)queues_name(m, from->shard.queue, row->queue);
        if (from->owner != SHARD_NONE) put_name(row->to, plan.nodes[from->owner].name);
        if (from->from != SHARD_NONE) put_name(row->from, plan.nodes[from->from].name);
        plan_explain(&plan, from, row->why);
    }
    out->moves = plan.moves;
    out->waiting = plan.waiting;
    (void)pthread_mutex_unlock(&m->lock);
    if (out->len > 1) qsort(out->rows, out->len, sizeof *out->rows, by_move);
    plan_done(&plan);
    memory_free(keys);
    return SLUICE_OK;
}

void membership_plan_done(struct membership_plan *p)
{
    memory_free(p->rows);
    *p = (struct membership_plan){0};
}
