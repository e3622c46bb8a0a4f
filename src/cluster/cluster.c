// SPDX-License-Identifier: Apache-2.0
// The calls of a cluster's node: events in, effects out, and the time of the
// next tick.
#include "cluster/cluster.h"

#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "cluster/inside.h"

#include <string.h>

void cluster_config_defaults(struct cluster_config *c, const struct member_id *self,
                             int64_t lease_ms)
{
    CHECK(self->name[0] != 0);
    *c = (struct cluster_config){.self = *self,
                                 .move_round_ms = 2000,
                                 .move_cool_down_ms = 60000,
                                 .list_ms = lease_ms / 3,
                                 .plan_ms = 1000,
                                 .retry_ms = 250};
    life_rules_defaults(&c->life, lease_ms);
    election_rules_defaults(&c->election, lease_ms);
}

struct cluster *cluster_new(const struct cluster_config *config)
{
    CHECK(config->list_ms > 0 && config->plan_ms > 0 && config->retry_ms > 0);
    struct cluster *c = NEW(struct cluster);
    c->config = *config;
    rng_init(&c->rng, config->seed);
    members_init(&c->members);
    election_init(&c->election, &config->election);
    plan_init(&c->plan);
    plan_init(&c->proposed);
    c->contact_until = TIME_UNKNOWN;
    c->degraded = true; // until the service answers for the first time
    c->join_at = c->beat_at = c->list_at = c->leave_at = c->plan_at = c->ask_at = TIME_UNKNOWN;
    return c;
}

void cluster_free(struct cluster *c)
{
    if (!c) return;
    members_done(&c->members);
    life_changes_done(&c->changes);
    plan_done(&c->plan);
    plan_done(&c->proposed);
    memory_free(c->effects);
    memory_free(c->shards);
    memory_free(c->busy);
    memory_free(c->traffic);
    memory_free(c->held);
    memory_free(c->rows);
    memory_free(c);
}

struct cluster_effect *effect_add(struct cluster *c, enum cluster_effect_kind kind)
{
    struct cluster_effect *e = ARRAY_ADD(c->effects, c->effects_len, c->effects_cap);
    *e = (struct cluster_effect){.kind = kind};
    return e;
}

struct cluster_effect *effect_ask(struct cluster *c, enum open_kind open,
                                  enum cluster_effect_kind kind)
{
    CHECK(c->open[open].request == 0);
    c->open[open] =
        (struct service_request){.request = ++c->requests, .kind = kind, .sent = c->now};
    struct cluster_effect *e = effect_add(c, kind);
    e->request = c->open[open].request;
    return e;
}

void note_add(struct cluster *c, enum cluster_note note, const struct shard_key *shard,
              uint64_t number)
{
    struct cluster_effect *e = effect_add(c, CLUSTER_NOTE);
    e->note = note;
    e->number = number;
    if (shard) e->shard = *shard;
}

int64_t retry_time(struct cluster *c)
{
    int64_t mean = c->config.retry_ms;
    return c->now.hi + rng_range(&c->rng, mean / 2, mean + mean / 2);
}

static void answer(struct cluster *c, const struct cluster_event *e)
{
    if (e->request == 0 || shards_answer(c, e)) return;
    for (int i = 0; i < OPEN_KINDS; i++) {
        if (c->open[i].request != e->request) continue;
        struct service_request open = c->open[i];
        c->open[i].request = 0;
        session_contact(c, e->err, open.sent);
        if (i == OPEN_SESSION) session_answer(c, &open, e);
        if (i == OPEN_LEAD) lead_answer(c, &open, e);
        if (i == OPEN_PLAN) plan_answer(c, e);
        return;
    }
}

static void view(struct cluster *c, const struct cluster_event *e)
{
    struct service_request open = c->open[OPEN_LIST];
    if (e->request != 0 && e->request != open.request) return;
    if (e->request == 0)
        open = (struct service_request){.sent = c->now};
    else
        c->open[OPEN_LIST].request = 0;
    session_view(c, &open, e);
}

static void shards(struct cluster *c, const struct cluster_event *e)
{
    CHECK(e->shards_len <= PLACEMENT_SHARDS_MAX);
    memory_free(c->shards);
    c->shards = memory_zeroed(e->shards_len + 1, sizeof *c->shards);
    c->shards_len = e->shards_len;
    if (e->shards_len > 0) memcpy(c->shards, e->shards, e->shards_len * sizeof *c->shards);
}

static void traffic(struct cluster *c, const struct cluster_event *e)
{
    CHECK(e->shards_len <= PLACEMENT_SHARDS_MAX);
    memory_free(c->busy);
    memory_free(c->traffic);
    c->busy = memory_zeroed(e->shards_len + 1, sizeof *c->busy);
    c->traffic = memory_zeroed(e->shards_len + 1, sizeof *c->traffic);
    c->traffic_len = e->shards_len;
    for (size_t i = 0; i < e->shards_len; i++) {
        c->busy[i] = e->shards[i];
        c->traffic[i] = e->traffic[i];
    }
}

static void stop(struct cluster *c, int64_t deadline)
{
    c->draining = c->stopping = true;
    c->stop_deadline = deadline;
    c->beat_at = TIME_UNKNOWN; // tell the others at once
}

static void dispatch(struct cluster *c, const struct cluster_event *e)
{
    CHECK(e->kind <= CLUSTER_STOP);
    switch (e->kind) {
    case CLUSTER_TICK:
        return;
    case CLUSTER_VIEW:
        view(c, e);
        return;
    case CLUSTER_ANSWER:
        answer(c, e);
        return;
    case CLUSTER_SHARDS:
        shards(c, e);
        return;
    case CLUSTER_TRAFFIC:
        traffic(c, e);
        return;
    case CLUSTER_FENCED:
        shards_fenced(c, &e->shard, e->number);
        return;
    case CLUSTER_FREE:
        shards_free(c, &e->shard);
        return;
    case CLUSTER_IN_THE_WAY:
        shards_in_the_way(c, &e->shard);
        return;
    case CLUSTER_USED:
        shards_used(c, &e->shard);
        return;
    case CLUSTER_USED_AWAY:
        shards_used_away(c, &e->shard);
        return;
    case CLUSTER_HELD:
        lead_held(c, &e->shard, &e->member);
        return;
    case CLUSTER_UNREACHABLE:
        reach_note(&c->reach, &e->member, &e->other, c->now);
        return;
    case CLUSTER_LOOK:
        c->list_at = TIME_UNKNOWN;
        return;
    case CLUSTER_DRAIN:
    case CLUSTER_UNDRAIN:
        c->draining = c->stopping || e->kind == CLUSTER_DRAIN;
        c->beat_at = TIME_UNKNOWN; // tell the others at once
        return;
    case CLUSTER_STOP:
        stop(c, e->deadline);
        return;
    }
}

// A leader steps down before it sees anything else: the time alone ends its
// lease.
void cluster_step(struct cluster *c, const struct cluster_event *e, struct interval now)
{
    CHECK(now.lo <= now.hi);
    if (c->effects_taken == c->effects_len) c->effects_taken = c->effects_len = 0;
    c->now = now;
    if (c->stopped) return;
    lead_tick(c);
    dispatch(c, e);
    session_tick(c);
    lead_tick(c);
    shards_tick(c);
}

bool cluster_next_effect(struct cluster *c, struct cluster_effect *out)
{
    if (c->effects_taken == c->effects_len) return false;
    *out = c->effects[c->effects_taken++];
    return true;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t cluster_wake_at(const struct cluster *c)
{
    if (c->stopped) return TIME_NEVER;
    int64_t at = c->now.hi + c->config.life.lease_ms / 5;
    at = earlier(at, session_wake_at(c));
    at = earlier(at, lead_wake_at(c));
    at = earlier(at, shards_wake_at(c));
    return earlier(at, members_wake_at(&c->members, &c->config.life, c->now));
}

bool cluster_leads(const struct cluster *c)
{
    return c->election.role == ELECTION_LEADING;
}

uint64_t cluster_epoch(const struct cluster *c)
{
    return c->election.seen.epoch;
}

bool cluster_lone(const struct cluster *c)
{
    const struct members *m = &c->members;
    return c->config.lazy && c->joined && m->len == 1 &&
           member_id_equal(&m->rows[0].seen.id, &c->config.self);
}

bool cluster_awaits_end(const struct cluster *c)
{
    for (size_t i = 0; i < c->members.len; i++) {
        const struct member *m = &c->members.rows[i];
        if (m->life != LIFE_UNHEALTHY) continue;
        if (!time_passed(m->changed, c->config.life.lease_ms, c->now)) return true;
    }
    return false;
}

bool cluster_replaced(const struct cluster *c)
{
    return c->replaced;
}

bool cluster_degraded(const struct cluster *c)
{
    return c->degraded;
}

bool cluster_stopped(const struct cluster *c)
{
    return c->stopped;
}

const struct plan *cluster_plan(const struct cluster *c)
{
    return &c->plan;
}

const struct members *cluster_members(const struct cluster *c)
{
    return &c->members;
}

const char *cluster_note_name(enum cluster_note note)
{
    static const char *const names[] = {
        [NOTE_ELECTED] = "coordinator-elected",
        [NOTE_PROMOTED] = "coordinator-promoted",
        [NOTE_DEMOTED] = "coordinator-demoted",
        [NOTE_EPOCH_RENEWED] = "epoch-renewed",
        [NOTE_MEMBER] = "member-health",
        [NOTE_ACQUIRED] = "ownership-acquired",
        [NOTE_HANDED_OVER] = "ownership-handed-over",
        [NOTE_LOST] = "ownership-lost",
        [NOTE_DEGRADED] = "coordination-lost",
        [NOTE_RECOVERED] = "coordination-recovered",
        [NOTE_REPLACED] = "member-replaced",
    };
    CHECK((size_t)note < sizeof names / sizeof *names);
    return names[note];
}
