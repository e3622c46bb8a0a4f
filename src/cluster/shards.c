// SPDX-License-Identifier: Apache-2.0
// The shards of this node: a claim in the coordination service, then `own` in
// the journal, then service, and the same way back. inside.h draws the states.
#include "base/array.h"
#include "base/check.h"
#include "base/mutant.h"
#include "cluster/inside.h"

#include <string.h>

static size_t find(const struct cluster *c, const struct shard_key *shard, bool *found)
{
    size_t low = 0, high = c->rows_len;
    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = shard_key_compare(&c->rows[middle].shard, shard);
        *found = *found || order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct shard_claim *row_of(const struct cluster *c, const struct shard_key *shard)
{
    bool found;
    size_t at = find(c, shard, &found);
    return found ? &c->rows[at] : NULL;
}

static void add_row(struct cluster *c, const struct shard_key *shard)
{
    bool found;
    size_t at = find(c, shard, &found);
    if (found) return;
    *ARRAY_INSERT(c->rows, c->rows_len, c->rows_cap, at) =
        (struct shard_claim){.shard = *shard, .retry_at = TIME_UNKNOWN};
}

static bool plan_wants(const struct cluster *c, const struct shard_key *shard)
{
    const struct member_id *owner = plan_owner(&c->plan, shard);
    if (!owner) return false;
    return MUTANT(INCARNATION_OFF) ? member_id_named(owner, &c->config.self)
                                   : member_id_equal(owner, &c->config.self);
}

static bool wants(const struct cluster *c, const struct shard_claim *row)
{
    if (!c->config.lazy) return plan_wants(c, &row->shard);
    if (!row->used && !MUTANT(UNUSED_CLAIMED)) return false;
    return cluster_lone(c) || plan_wants(c, &row->shard) || !plan_find(&c->plan, &row->shard);
}

void shards_planned(struct cluster *c)
{
    if (c->config.observe_only || c->replaced) return;
    bool adds = !c->config.lazy || MUTANT(UNUSED_CLAIMED);
    for (size_t i = 0; adds && i < c->plan.rows_len; i++) {
        if (plan_wants(c, &c->plan.rows[i].shard)) add_row(c, &c->plan.rows[i].shard);
    }
    for (size_t i = 0; i < c->rows_len; i++) {
        struct shard_claim *row = &c->rows[i];
        row->used = row->used || (row->awaited && plan_wants(c, &row->shard));
        row->awaited = row->awaited && !plan_find(&c->plan, &row->shard);
        row->wanted = wants(c, row);
    }
}

static struct cluster_effect *ask(struct cluster *c, struct shard_claim *row,
                                  enum cluster_effect_kind kind, uint64_t number)
{
    CHECK(row->request == 0);
    struct cluster_effect *e = effect_add(c, kind);
    row->request = e->request = ++c->requests;
    row->asked = kind;
    row->asked_session = c->session;
    e->shard = row->shard;
    e->number = number;
    return e;
}

static bool has_claim(const struct cluster *c, const struct shard_claim *row)
{
    return row->token != 0 && row->session == c->session && c->joined;
}

// The journal can accept the token of the claim.
static bool has_good_claim(const struct cluster *c, const struct shard_claim *row)
{
    return has_claim(c, row) && row->token > row->after;
}

static void stop_taking(struct cluster *c, struct shard_claim *row)
{
    CHECK(row->serving);
    row->serving = false;
    row->owned = 0;
    effect_add(c, CLUSTER_STOP_TAKING)->shard = row->shard;
}

static void lose(struct cluster *c, struct shard_claim *row)
{
    if (row->serving) {
        stop_taking(c, row);
        note_add(c, NOTE_LOST, &row->shard, row->epoch);
    }
    row->owned = 0;
    row->retry_at = retry_time(c);
}

// No other member can take the shards of a node that stops.
static bool alone(const struct cluster *c)
{
    for (size_t i = 0; i < c->members.len; i++) {
        const struct member *m = &c->members.rows[i];
        bool self = member_id_equal(&m->seen.id, &c->config.self);
        if (!self && m->life != LIFE_LEAVING) return false;
    }
    return true;
}

static bool must_give(const struct cluster *c, const struct shard_claim *row)
{
    if (c->stopping && (c->now.hi >= c->stop_deadline || alone(c))) return true;
    if (c->degraded || !c->view_current || row->wanted) return false;
    const struct plan_row *planned = plan_find(&c->plan, &row->shard);
    if (!planned && c->config.lazy) return false; // the next plan says where it belongs
    return !planned || planned->owner != SHARD_NONE;
}

static void give(struct cluster *c, struct shard_claim *row)
{
    const struct member_id *to = plan_owner(&c->plan, &row->shard);
    stop_taking(c, row);
    row->handed = true;
    struct cluster_effect *e = ask(c, row, CLUSTER_HAND_OVER, row->epoch);
    if (to && !member_id_equal(to, &c->config.self)) e->to = *to;
}

static void drive_serving(struct cluster *c, struct shard_claim *row)
{
    if (must_give(c, row)) {
        give(c, row);
    } else if (!has_good_claim(c, row)) {
        if (session_may_claim(c)) (void)ask(c, row, CLUSTER_CLAIM, row->after);
    } else if (row->owned != row->token) {
        (void)ask(c, row, CLUSTER_OWN, row->token);
    }
}

static void drive_idle(struct cluster *c, struct shard_claim *row)
{
    bool wanted = row->wanted && !row->handed && !c->draining && !c->replaced;
    if (wanted && has_good_claim(c, row)) {
        (void)ask(c, row, CLUSTER_OWN, row->token);
    } else if (!wanted && has_claim(c, row)) {
        if (!MUTANT(RELEASE_OFF)) (void)ask(c, row, CLUSTER_RELEASE, row->token);
    } else {
        if (!has_claim(c, row)) row->token = 0;
        // The claim ended with the session before it could be released.
        if (row->handed && !MUTANT(LOSS_UNTOLD)) note_add(c, NOTE_LOST, &row->shard, row->epoch);
        row->handed = false;
        bool ask_now = (wanted || row->doubt) && session_may_claim(c);
        if (ask_now) (void)ask(c, row, CLUSTER_CLAIM, row->after);
    }
}

static void drop_idle(struct cluster *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->rows_len; i++) {
        const struct shard_claim *row = &c->rows[i];
        bool needed = row->wanted || row->used || row->awaited || row->serving ||
                      row->request != 0 || row->handed || row->token != 0 ||
                      (row->doubt && !c->replaced);
        if (!needed) continue;
        if (kept != i) c->rows[kept] = *row;
        kept++;
    }
    c->rows_len = kept;
}

void shards_tick(struct cluster *c)
{
    if (c->was_lone != cluster_lone(c)) {
        c->was_lone = !c->was_lone;
        shards_planned(c);
    }
    for (size_t i = 0; i < c->rows_len; i++) {
        struct shard_claim *row = &c->rows[i];
        if (row->request != 0 || c->now.hi < row->retry_at) continue;
        if (row->serving)
            drive_serving(c, row);
        else
            drive_idle(c, row);
    }
    drop_idle(c);
}

static void owned(struct cluster *c, struct shard_claim *row, uint64_t epoch)
{
    CHECK(epoch >= row->epoch);
    row->epoch = epoch;
    row->owned = row->token;
    if (!row->serving) note_add(c, NOTE_ACQUIRED, &row->shard, epoch);
    row->serving = true;
    struct cluster_effect *e = effect_add(c, CLUSTER_TAKE);
    e->shard = row->shard;
    e->number = epoch;
}

static void claim_answer(struct cluster *c, struct shard_claim *row, const struct cluster_event *e)
{
    row->doubt = e->err == ERR_UNKNOWN || (row->doubt && e->err == ERR_UNAVAILABLE);
    if (e->err == ERR_OK && e->number > row->after) {
        row->token = e->number;
        row->session = row->asked_session;
        if (MUTANT(TRANSFER_UNFENCED) && !row->serving) owned(c, row, row->epoch);
        return;
    }
    row->retry_at = MUTANT(CLAIM_ONCE) ? TIME_NEVER : retry_time(c);
    if (e->err == ERR_CONFLICT || e->err == ERR_FENCED) lose(c, row);
    if (e->err == ERR_NOT_FOUND && row->asked_session == c->session) session_ended(c);
}

static void own_answer(struct cluster *c, struct shard_claim *row, const struct cluster_event *e)
{
    if (c->left) {
        row->owned = 0;
    } else if (e->err == ERR_OK) {
        owned(c, row, e->number);
    } else if (e->err == ERR_FENCED) {
        if (e->number > row->after) row->after = e->number;
        if (row->token > row->after) row->after = row->token;
        lose(c, row);
    } else {
        row->retry_at = retry_time(c);
    }
}

static void release_answer(struct cluster *c, struct shard_claim *row,
                           const struct cluster_event *e)
{
    if (e->err == ERR_UNAVAILABLE || e->err == ERR_UNKNOWN) {
        row->retry_at = retry_time(c);
        return;
    }
    row->token = 0;
    if (row->handed)
        note_add(c, e->err == ERR_OK ? NOTE_HANDED_OVER : NOTE_LOST, &row->shard, row->epoch);
    row->handed = false;
}

bool shards_answer(struct cluster *c, const struct cluster_event *e)
{
    struct shard_claim *row = NULL;
    for (size_t i = 0; i < c->rows_len && !row; i++) {
        if (c->rows[i].request == e->request) row = &c->rows[i];
    }
    if (!row) return false;
    row->request = 0;
    switch (row->asked) {
    case CLUSTER_CLAIM:
        claim_answer(c, row, e);
        return true;
    case CLUSTER_OWN:
        own_answer(c, row, e);
        return true;
    case CLUSTER_RELEASE:
        release_answer(c, row, e);
        return true;
    default:
        CHECK(row->asked == CLUSTER_HAND_OVER);
        return true;
    }
}

void shards_fenced(struct cluster *c, const struct shard_key *shard, uint64_t epoch)
{
    struct shard_claim *row = row_of(c, shard);
    if (!row || !row->serving || epoch <= row->epoch) return;
    if (row->token > row->after) row->after = row->token;
    lose(c, row);
}

void shards_free(struct cluster *c, const struct shard_key *shard)
{
    struct shard_claim *row = row_of(c, shard);
    if (row) row->retry_at = TIME_UNKNOWN;
}

void shards_used(struct cluster *c, const struct shard_key *shard)
{
    if (c->config.observe_only || c->replaced) return;
    add_row(c, shard);
    struct shard_claim *row = row_of(c, shard);
    row->used = true;
    row->wanted = wants(c, row);
}

// A node that is told of a shard without a plan for it claims nothing: the leader may be about to
// give the shard to another. Nothing tells it again, so it remembers the shard.
void shards_used_away(struct cluster *c, const struct shard_key *shard)
{
    if (c->config.observe_only || c->replaced) return;
    if (cluster_lone(c) || plan_find(&c->plan, shard)) {
        shards_used(c, shard);
        return;
    }
    add_row(c, shard);
    row_of(c, shard)->awaited = true;
}

// A claim whose answer was unknown may be granted later, when no row remembers
// it.
void shards_in_the_way(struct cluster *c, const struct shard_key *shard)
{
    if (c->config.observe_only || c->replaced) return;
    add_row(c, shard);
    struct shard_claim *row = row_of(c, shard);
    if (!row->serving && row->request == 0 && !row->wanted) row->doubt = true;
}

void shards_lose_all(struct cluster *c)
{
    for (size_t i = 0; i < c->rows_len; i++) {
        lose(c, &c->rows[i]);
        c->rows[i].wanted = c->rows[i].used = c->rows[i].awaited = false;
    }
}

bool shards_none(const struct cluster *c)
{
    for (size_t i = 0; i < c->rows_len; i++) {
        const struct shard_claim *row = &c->rows[i];
        if (row->serving || row->request != 0 || has_claim(c, row)) return false;
    }
    return true;
}

int64_t shards_wake_at(const struct cluster *c)
{
    int64_t at = TIME_NEVER;
    for (size_t i = 0; i < c->rows_len; i++) {
        const struct shard_claim *row = &c->rows[i];
        bool waits = row->request == 0 && row->retry_at != TIME_UNKNOWN;
        if (waits && row->retry_at > c->now.hi && row->retry_at < at) at = row->retry_at;
    }
    return at;
}

const struct member_id *cluster_owner(const struct cluster *c, const struct shard_key *shard)
{
    bool unplanned = c->config.lazy && !plan_find(&c->plan, shard);
    return cluster_lone(c) || unplanned ? &c->config.self : plan_owner(&c->plan, shard);
}

bool cluster_used(const struct cluster *c, const struct shard_key *shard)
{
    const struct shard_claim *row = row_of(c, shard);
    return row && row->used;
}

bool cluster_moving(const struct cluster *c, const struct shard_key *shard)
{
    const struct shard_claim *row = row_of(c, shard);
    return row && row->request != 0;
}

uint64_t cluster_serves(const struct cluster *c, const struct shard_key *shard)
{
    const struct shard_claim *row = row_of(c, shard);
    return row && row->serving ? row->epoch : 0;
}
