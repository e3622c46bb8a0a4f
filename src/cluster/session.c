// SPDX-License-Identifier: Apache-2.0
// The node's own membership: it joins, heartbeats, lists the others, notices
// that the service does not answer, and leaves.
#include "base/check.h"
#include "base/mutant.h"
#include "cluster/inside.h"

// An answer that says something about the service's state proves that the
// service is reachable.
void session_contact(struct cluster *c, enum err err, struct interval sent)
{
    if (err != ERR_OK && err != ERR_CONFLICT && err != ERR_NOT_FOUND && err != ERR_FENCED) return;
    int64_t until = lease_until(sent, c->config.life.lease_ms);
    if (until > c->contact_until) c->contact_until = until;
}

bool session_may_claim(const struct cluster *c)
{
    if (MUTANT(DEGRADED_CLAIMS)) return !c->replaced;
    return c->joined && !c->degraded && c->view_current && !c->replaced && !c->left;
}

// Nothing new is claimed before a later view has shown the newest plan.
static void distrust_view(struct cluster *c)
{
    c->view_current = false;
    c->fresh_after = c->requests;
}

void session_ended(struct cluster *c)
{
    c->joined = false;
    c->session++;
    c->join_at = TIME_UNKNOWN;
    distrust_view(c);
    lead_lost(c);
}

static void replaced(struct cluster *c)
{
    if (c->replaced) return;
    c->replaced = true;
    c->joined = false;
    c->session++;
    note_add(c, NOTE_REPLACED, NULL, 0);
    lead_lost(c);
    shards_lose_all(c);
}

static void joined(struct cluster *c)
{
    c->joined = true;
    c->session++;
    c->list_at = TIME_UNKNOWN;
    distrust_view(c);
}

static void left(struct cluster *c, enum err err)
{
    bool over = c->now.hi >= c->stop_deadline + c->config.life.lease_ms;
    bool failed = err == ERR_UNAVAILABLE || err == ERR_UNKNOWN;
    if (!failed || over) c->stopped = true;
}

void session_answer(struct cluster *c, const struct service_request *open,
                    const struct cluster_event *e)
{
    if (open->kind == CLUSTER_LEAVE) {
        left(c, e->err);
        return;
    }
    CHECK(open->kind == CLUSTER_JOIN || open->kind == CLUSTER_HEARTBEAT);
    switch (e->err) {
    case ERR_OK:
        if (open->kind == CLUSTER_JOIN) joined(c);
        c->session_sent = open->sent;
        c->beat_at = open->sent.hi + c->config.life.lease_ms / 3;
        return;
    case ERR_NOT_FOUND:
        session_ended(c);
        return;
    case ERR_FENCED:
        replaced(c);
        return;
    default:
        c->join_at = c->beat_at = retry_time(c);
    }
}

static void note_changes(struct cluster *c)
{
    if (c->changes.len > 0) c->plan_at = TIME_UNKNOWN; // the plan may be another
    for (size_t i = 0; i < c->changes.len; i++) {
        // The service may have given the lead or the claims of this member away.
        if (c->changes.rows[i].to == LIFE_UNHEALTHY) c->list_at = TIME_UNKNOWN;
        note_add(c, NOTE_MEMBER, NULL, 0);
        c->effects[c->effects_len - 1].to = c->changes.rows[i].id;
        c->effects[c->effects_len - 1].life = c->changes.rows[i].to;
    }
    c->changes.len = 0;
}

static bool name_is_taken(const struct cluster *c)
{
    const struct member *m = members_named(&c->members, c->config.self.name);
    return m && !member_id_equal(&m->seen.id, &c->config.self);
}

// A watch and a list can overtake each other. A list that was sent later is right even if its
// number is lower: the service may have been restored from a backup.
static bool is_overtaken(const struct cluster *c, const struct service_request *open,
                         const struct cluster_view *view)
{
    return view->at < c->view_at && open->request <= c->view_after;
}

static void look(struct cluster *c, const struct cluster_view *view)
{
    CHECK(view->members_len == 0 || view->members != NULL);
    c->view_at = view->at;
    c->view_after = c->requests;
    members_see(&c->members, &c->config.life, view->members, view->members_len, c->now,
                &c->changes);
    note_changes(c);
    election_see(&c->election, &view->leader, &c->config.self, c->now);
    if (cluster_leads(c) && c->election.seen.epoch > c->election.epoch) lead_lost(c);
}

// A LIST that was sent before the session, or before this node led, is followed by another at once.
// While a member that fell silent is still listed, the next one follows soon.
static int64_t next_list(struct cluster *c, const struct service_request *open, enum err err)
{
    if (err != ERR_OK) return retry_time(c);
    bool too_old = open->request <= c->fresh_after ||
                   (cluster_leads(c) && open->request <= c->promoted_request);
    if (too_old) return TIME_UNKNOWN;
    return cluster_awaits_end(c) ? retry_time(c) : c->now.hi + c->config.list_ms;
}

void session_view(struct cluster *c, const struct service_request *open,
                  const struct cluster_event *e)
{
    if (open->request != 0) {
        c->list_at = next_list(c, open, e->err);
        session_contact(c, e->err, open->sent);
    }
    if (e->err != ERR_OK) return;
    if (!is_overtaken(c, open, &e->view)) look(c, &e->view);
    if (e->view.plan) plan_adopt(c, e->view.plan);
    if (open->request > c->view_request) c->view_request = open->request;
    if (open->request > c->fresh_after) c->view_current = true;
    if (c->joined && open->request > c->fresh_after && name_is_taken(c)) replaced(c);
}

static void tick_degraded(struct cluster *c)
{
    bool degraded = !lease_held(c->contact_until, c->now);
    if (degraded == c->degraded) return;
    c->degraded = degraded;
    if (degraded) distrust_view(c);
    note_add(c, degraded ? NOTE_DEGRADED : NOTE_RECOVERED, NULL, 0);
}

static void tick_stop(struct cluster *c)
{
    bool late = c->now.hi >= c->stop_deadline + c->config.life.lease_ms;
    bool ready =
        shards_none(c) && c->election.role != ELECTION_LEADING && c->open[OPEN_LEAD].request == 0;
    if (late && !c->joined) c->stopped = true;
    if (c->stopped || (!ready && !late) || c->open[OPEN_SESSION].request != 0) return;
    if (!c->joined) {
        c->stopped = true;
        return;
    }
    if (c->now.hi < c->leave_at) return;
    lead_lost(c); // if the node is late, it still leads or serves
    shards_lose_all(c);
    c->left = true;
    (void)effect_ask(c, OPEN_SESSION, CLUSTER_LEAVE);
    c->leave_at = retry_time(c);
}

void session_tick(struct cluster *c)
{
    members_tick(&c->members, &c->config.life, c->now, &c->changes);
    note_changes(c);
    tick_degraded(c);
    if (c->stopping) tick_stop(c);
    if (c->stopped || c->replaced) return;
    if (c->open[OPEN_SESSION].request == 0) {
        bool due = c->now.hi >= (c->joined ? c->beat_at : c->join_at);
        enum cluster_effect_kind kind = c->joined ? CLUSTER_HEARTBEAT : CLUSTER_JOIN;
        if (due && (c->joined || !c->stopping))
            effect_ask(c, OPEN_SESSION, kind)->leaving = c->draining;
    }
    if (c->open[OPEN_LIST].request == 0 && c->now.hi >= c->list_at)
        (void)effect_ask(c, OPEN_LIST, CLUSTER_LIST);
}

// A node whose name was taken, and one that stops without a session, ask for nothing any more.
int64_t session_wake_at(const struct cluster *c)
{
    int64_t at = TIME_NEVER;
    if (c->replaced) return at;
    if (c->open[OPEN_LIST].request == 0) at = c->list_at;
    int64_t session_at = c->joined ? c->beat_at : c->stopping ? TIME_NEVER : c->join_at;
    return c->open[OPEN_SESSION].request == 0 && session_at < at ? session_at : at;
}
