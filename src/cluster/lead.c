// SPDX-License-Identifier: Apache-2.0
// The node as a candidate and as the leader: the lease, and the plan that only
// a leader publishes.
#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "cluster/inside.h"
#include "cluster/lease.h"

#include <string.h>

static void demoted(struct cluster *c)
{
    note_add(c, NOTE_DEMOTED, NULL, c->election.epoch);
}

void lead_lost(struct cluster *c)
{
    if (c->election.role != ELECTION_LEADING) return;
    election_down(&c->election, c->now);
    demoted(c);
}

static void promoted(struct cluster *c)
{
    c->promoted_request = c->requests;
    c->published = 0;
    c->plan_at = c->list_at = TIME_UNKNOWN; // the first plan rests on a view of this epoch
    note_add(c, NOTE_ELECTED, NULL, c->election.epoch);
    note_add(c, NOTE_PROMOTED, NULL, c->election.epoch);
}

// The lead ends with the session, so the lease counts from the last renewal of the session.
static void asked_answer(struct cluster *c, const struct cluster_event *e)
{
    bool granted = e->err == ERR_OK || (MUTANT(UNKNOWN_LEADS) && e->err == ERR_UNKNOWN);
    uint64_t epoch = e->err == ERR_OK ? e->number : c->election.seen.epoch + 1;
    if (!granted || !c->joined || c->left) {
        election_refused(&c->election);
        c->list_at = retry_time(c);
        return;
    }
    election_granted(&c->election, &c->config.self, epoch, c->session_sent, c->now);
    if (cluster_leads(c))
        promoted(c);
    else
        c->ask_at = retry_time(c); // the answer came too late: the session must be renewed first
}

static void renewal_answer(struct cluster *c, const struct service_request *open,
                           const struct cluster_event *e)
{
    if (c->election.role != ELECTION_LEADING) return; // stepped down meanwhile
    if (e->err == ERR_OK) {
        election_renewed(&c->election, open->sent);
        note_add(c, NOTE_EPOCH_RENEWED, NULL, c->election.epoch);
        return;
    }
    bool refused = e->err == ERR_FENCED || e->err == ERR_CONFLICT || e->err == ERR_NOT_FOUND;
    election_renewal_failed(&c->election, refused, c->now);
    if (refused) demoted(c);
}

void lead_answer(struct cluster *c, const struct service_request *open,
                 const struct cluster_event *e)
{
    if (open->kind == CLUSTER_LEAD) {
        asked_answer(c, e);
    } else if (open->kind == CLUSTER_RENEW) {
        renewal_answer(c, open, e);
    } else {
        CHECK(open->kind == CLUSTER_RESIGN);
        election_down(&c->election, c->now);
    }
    if (e->err == ERR_NOT_FOUND && c->joined) session_ended(c);
}

// A lone node has nothing to lead. It does not ask for the lead, and gives it up.
static void act(struct cluster *c)
{
    bool stopping = (c->draining && shards_none(c)) || cluster_lone(c);
    enum election_action action =
        election_decide(&c->election, &c->members, &c->config.self, stopping, c->now);
    if (action == ELECTION_STEP_DOWN) lead_lost(c);
    if (c->open[OPEN_LEAD].request != 0) return;
    switch (action) {
    case ELECTION_ASK:
        if (!session_may_claim(c) || c->draining || cluster_lone(c)) return;
        if (c->now.hi < c->ask_at) return;
        effect_ask(c, OPEN_LEAD, CLUSTER_LEAD)->number = c->election.seen.epoch;
        election_asked(&c->election);
        return;
    case ELECTION_RENEW:
        effect_ask(c, OPEN_LEAD, CLUSTER_RENEW)->number = c->election.epoch;
        return;
    case ELECTION_RESIGN:
        effect_ask(c, OPEN_LEAD, CLUSTER_RESIGN)->number = c->election.epoch;
        election_resigning(&c->election, c->now);
        demoted(c);
        return;
    case ELECTION_WAIT:
    case ELECTION_STEP_DOWN:
        return;
    }
}

// How a life counts for the plan. False: not at all.
static bool role_of(enum life life, enum placement_role *role)
{
    CHECK(life <= LIFE_GONE);
    switch (life) {
    case LIFE_HEALTHY:
        *role = PLACEMENT_TAKES;
        return true;
    case LIFE_JOINING:
    case LIFE_SUSPECT:
        *role = PLACEMENT_KEEPS;
        return true;
    case LIFE_LEAVING:
        *role = PLACEMENT_LEAVES;
        return true;
    case LIFE_UNHEALTHY:
    case LIFE_GONE:
        return false;
    }
    return false;
}

static size_t plan_members(const struct cluster *c, struct placement_member *out)
{
    size_t len = 0;
    for (size_t i = 0; i < c->members.len; i++) {
        const struct member *m = &c->members.rows[i];
        uint32_t capacity = m->seen.capacity > 0 ? m->seen.capacity : 1;
        if (capacity > PLACEMENT_CAPACITY_MAX) capacity = PLACEMENT_CAPACITY_MAX;
        out[len] = (struct placement_member){.id = m->seen.id, .capacity = capacity};
        if (!role_of(m->life, &out[len].role)) continue;
        // It lives, so it hands its shards over in order.
        bool cut =
            !MUTANT(REACH_IGNORED) && reach_is_cut(&c->reach, &c->members, &m->seen.id, c->now);
        if (cut && out[len].role == PLACEMENT_TAKES) out[len].role = PLACEMENT_LEAVES;
        len++;
    }
    return len;
}

void lead_held(struct cluster *c, const struct shard_key *shard, const struct member_id *holder)
{
    size_t at = 0;
    while (at < c->held_len && shard_key_compare(&c->held[at].shard, shard) < 0)
        at++;
    bool known = at < c->held_len && shard_key_compare(&c->held[at].shard, shard) == 0;
    if (!known && c->held_len == PLACEMENT_SHARDS_MAX) return;
    *(known ? &c->held[at] : ARRAY_INSERT(c->held, c->held_len, c->held_cap, at)) =
        (struct held_shards){*shard, *holder};
}

static uint32_t node_index(struct plan *p, const struct member_id *id)
{
    for (size_t i = 0; i < p->nodes_len; i++)
        if (member_id_equal(&p->nodes[i], id)) return (uint32_t)i;
    p->nodes = memory_resize(p->nodes, (p->nodes_len + 1) * sizeof *p->nodes);
    p->nodes[p->nodes_len] = *id;
    return (uint32_t)p->nodes_len++;
}

// The last plan, with the shards that it does not have and that nodes serve. So the next plan
// leaves them where they are.
static void last_plan(const struct cluster *c, struct plan *out)
{
    plan_copy(out, &c->plan);
    size_t kept = out->rows_len, at = 0;
    out->rows = memory_resize(out->rows, (kept + c->held_len + 1) * sizeof *out->rows);
    for (size_t i = 0; i < c->held_len; i++) {
        const struct held_shards *h = &c->held[i];
        if (plan_find(&c->plan, &h->shard) || !members_find(&c->members, &h->holder)) continue;
        while (at < out->rows_len && shard_key_compare(&out->rows[at].shard, &h->shard) < 0)
            at++;
        memmove(&out->rows[at + 1], &out->rows[at], (out->rows_len - at) * sizeof *out->rows);
        out->rows[at] = (struct plan_row){.shard = h->shard,
                                          .owner = node_index(out, &h->holder),
                                          .from = SHARD_NONE,
                                          .moved_at = TIME_UNKNOWN};
        out->rows_len++;
    }
}

uint32_t cluster_traffic(const struct cluster *c, const struct shard_key *shard)
{
    size_t low = 0, high = c->traffic_len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = shard_key_compare(&c->busy[middle], shard);
        if (order == 0) return c->traffic[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

void cluster_preview(const struct cluster *c, const struct shard_key *shards, size_t shards_len,
                     struct plan *out)
{
    LOCAL(plan, last);
    last_plan(c, &last);
    struct placement_member *members = memory_zeroed(c->members.len + 1, sizeof *members);
    uint32_t *traffic = memory_zeroed(shards_len + 1, sizeof *traffic);
    for (size_t i = 0; i < shards_len; i++)
        traffic[i] = cluster_traffic(c, &shards[i]);
    struct placement_input in = {.members = members,
                                 .members_len = plan_members(c, members),
                                 .shards = shards,
                                 .shards_len = shards_len,
                                 .traffic = c->traffic_len > 0 ? traffic : NULL,
                                 .previous = last.rows_len > 0 ? &last : NULL,
                                 .now = c->now.lo};
    placement_options_defaults(&in.options, shards_len);
    in.options.round_ms = c->config.move_round_ms;
    in.options.cool_down_ms = c->config.move_cool_down_ms;
    if (c->config.moves_max > 0) in.options.moves_max = c->config.moves_max;
    if (MUTANT(MOVES_CAP_OFF)) in.options.moves_max = UINT32_MAX;
    placement_plan(out, &in);
    memory_free(traffic);
    memory_free(members);
}

static void publish(struct cluster *c)
{
    uint64_t before = c->plan.epoch == c->election.epoch ? c->plan.number : 0;
    if (c->published < before) c->published = before;
    c->proposed.epoch = c->election.epoch;
    c->proposed.number = ++c->published;
    CHECK(plan_compare_version(&c->plan, &c->proposed) < 0);
    effect_ask(c, OPEN_PLAN, CLUSTER_PUBLISH)->plan = &c->proposed;
}

// When the leader plans next; TIME_NEVER: only after an event, such as a view or shards to place.
static int64_t next_plan_at(const struct cluster *c)
{
    bool awaits_view = c->view_request <= c->promoted_request;
    if (c->open[OPEN_PLAN].request != 0 || awaits_view) return TIME_NEVER;
    if (c->shards_len == 0) return MUTANT(PLAN_WAKES_PAST) ? c->plan_at : TIME_NEVER;
    if (c->plan.epoch > c->election.epoch) return TIME_NEVER; // a later leader has planned
    if (!c->config.lazy || c->plan.epoch > 0) return c->plan_at;
    // Before the first plan, the nodes tell the leader which shards they serve.
    int64_t told_at = time_passed_at(c->election.leading_since, c->config.life.lease_ms, c->now);
    return told_at > c->plan_at ? told_at : c->plan_at;
}

static void tick_plan(struct cluster *c)
{
    if (c->now.hi < next_plan_at(c) || c->shards_len == 0) return;
    c->plan_at = c->now.hi + c->config.plan_ms;
    for (size_t i = 0; i < c->rows_len; i++)
        if (c->rows[i].serving) lead_held(c, &c->rows[i].shard, &c->config.self);
    cluster_preview(c, c->shards, c->shards_len, &c->proposed);
    if (c->plan.epoch > 0 && plan_same_owners(&c->plan, &c->proposed)) return;
    if (c->config.observe_only)
        effect_add(c, CLUSTER_REPORT_PLAN)->plan = &c->proposed;
    else
        publish(c);
}

void lead_tick(struct cluster *c)
{
    if (c->replaced) return;
    act(c);
    if (election_leads(&c->election, c->now)) tick_plan(c);
}

int64_t lead_wake_at(const struct cluster *c)
{
    if (c->election.role != ELECTION_LEADING) return TIME_NEVER;
    int64_t at = c->election.until, plan_at = next_plan_at(c);
    if (c->open[OPEN_LEAD].request == 0 && c->election.renew_at < at) at = c->election.renew_at;
    return plan_at < at ? plan_at : at;
}

void plan_answer(struct cluster *c, const struct cluster_event *e)
{
    if (e->err == ERR_OK) plan_adopt(c, &c->proposed);
    if (e->err != ERR_OK) c->list_at = retry_time(c);
}

void plan_adopt(struct cluster *c, const struct plan *plan)
{
    if (plan_compare_version(plan, &c->plan) <= 0 && !MUTANT(STALE_PLAN)) return;
    plan_copy(&c->plan, plan);
    shards_planned(c);
}
