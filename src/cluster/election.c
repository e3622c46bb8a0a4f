// SPDX-License-Identifier: Apache-2.0
// When a node asks for the lead, renews it and gives it up.
#include "cluster/election.h"

#include "base/check.h"
#include "base/mutant.h"
#include "cluster/lease.h"

#include <string.h>

void election_rules_defaults(struct election_rules *r, int64_t lease_ms)
{
    CHECK(lease_ms >= 10);
    *r = (struct election_rules){
        .lease_ms = lease_ms, .observe_ms = lease_ms, .cool_down_ms = 6 * lease_ms};
}

void election_init(struct election *e, const struct election_rules *r)
{
    *e = (struct election){.rules = *r, .until = TIME_UNKNOWN};
}

void election_see(struct election *e, const struct leader_report *seen,
                  const struct member_id *self, struct interval now)
{
    if (!e->started_known) e->started = now;
    e->started_known = true;
    bool observed = time_passed(e->started, e->rules.observe_ms, now);
    if (observed && e->role == ELECTION_OBSERVING) e->role = ELECTION_FOLLOWING;
    if (seen->epoch < e->seen.epoch) return; // an answer that was overtaken
    e->seen = *seen;
    bool vacant = !seen->held || member_id_equal(&seen->id, self);
    e->led = e->led || seen->held;
    if (!vacant)
        e->vacant_known = false;
    else if (!e->vacant_known)
        e->vacant = now;
    e->vacant_known = vacant;
}

// How many members come before this one; SIZE_MAX: it is not healthy itself. At a cold start all
// members join, and a member that still joins counts: it is healthy before its turn is over.
static size_t rank_of(const struct members *m, const struct member_id *self, bool cold)
{
    size_t rank = 0;
    for (size_t i = 0; i < m->len; i++) {
        const struct member *one = &m->rows[i];
        bool healthy = one->life == LIFE_HEALTHY;
        if (member_id_equal(&one->seen.id, self)) return healthy ? rank : SIZE_MAX;
        rank += healthy || (cold && one->life == LIFE_JOINING);
    }
    return SIZE_MAX;
}

static enum election_action decide_following(const struct election *e, const struct members *m,
                                             const struct member_id *self, struct interval now)
{
    if (e->role == ELECTION_OBSERVING && !MUTANT(COLD_START_ASKS)) return ELECTION_WAIT;
    size_t rank = rank_of(m, self, !e->led);
    if (rank == SIZE_MAX || !e->vacant_known) return ELECTION_WAIT;
    // At a cold start the first member asks when it has observed. The turns of the others follow.
    int64_t observe_ms = e->led || MUTANT(COLD_START_RANKS) ? 0 : e->rules.observe_ms;
    int64_t wait_ms = observe_ms + (int64_t)rank * e->rules.lease_ms;
    return time_passed(e->vacant, wait_ms, now) || rank == 0 ? ELECTION_ASK : ELECTION_WAIT;
}

// A smaller name has been healthy, and this node has led, for the cool-down.
static bool yields(const struct election *e, const struct members *m, const struct member_id *self,
                   struct interval now)
{
    const struct member *first = members_first_healthy(m);
    if (!first || strcmp(first->seen.id.name, self->name) >= 0) return false;
    return time_passed(first->changed, e->rules.cool_down_ms, now) &&
           time_passed(e->leading_since, e->rules.cool_down_ms, now);
}

static bool is_held(const struct election *e, struct interval now)
{
    if (MUTANT(LEASE_AFTER_END)) return e->until != TIME_UNKNOWN;
    return lease_held(e->until, now);
}

enum election_action election_decide(const struct election *e, const struct members *m,
                                     const struct member_id *self, bool stopping,
                                     struct interval now)
{
    CHECK(now.lo <= now.hi);
    switch (e->role) {
    case ELECTION_OBSERVING:
    case ELECTION_FOLLOWING:
        return stopping ? ELECTION_WAIT : decide_following(e, m, self, now);
    case ELECTION_ASKING:
    case ELECTION_RESIGNING:
        return ELECTION_WAIT;
    case ELECTION_LEADING:
        break;
    }
    if (!is_held(e, now)) return ELECTION_STEP_DOWN;
    if (stopping || yields(e, m, self, now)) return ELECTION_RESIGN;
    return now.hi >= e->renew_at ? ELECTION_RENEW : ELECTION_WAIT;
}

void election_asked(struct election *e)
{
    CHECK(e->role == ELECTION_OBSERVING || e->role == ELECTION_FOLLOWING);
    e->role = ELECTION_ASKING;
}

static void hold(struct election *e, struct interval sent)
{
    e->until = lease_until(sent, e->rules.lease_ms);
    e->renew_at = sent.lo + e->rules.lease_ms / 3;
}

void election_granted(struct election *e, const struct member_id *self, uint64_t epoch,
                      struct interval sent, struct interval now)
{
    CHECK(e->role == ELECTION_ASKING);
    e->role = ELECTION_FOLLOWING;
    if (epoch < e->seen.epoch) return; // a later epoch was seen meanwhile
    e->seen = (struct leader_report){.held = true, .id = *self, .epoch = epoch};
    if (!lease_held(lease_until(sent, e->rules.lease_ms), now)) return; // the answer came too late
    e->role = ELECTION_LEADING;
    e->led = true;
    e->epoch = epoch;
    e->leading_since = now;
    hold(e, sent);
}

void election_refused(struct election *e)
{
    CHECK(e->role == ELECTION_ASKING);
    e->role = ELECTION_FOLLOWING;
}

void election_renewed(struct election *e, struct interval sent)
{
    CHECK(e->role == ELECTION_LEADING);
    CHECK(e->until != TIME_UNKNOWN);
    if (lease_until(sent, e->rules.lease_ms) > e->until) hold(e, sent);
}

void election_renewal_failed(struct election *e, bool refused, struct interval now)
{
    CHECK(e->role == ELECTION_LEADING);
    if (refused)
        election_down(e, now);
    else
        e->renew_at = now.hi + e->rules.lease_ms / 12;
}

// The others get their turn by rank, as seen from now.
static void vacate(struct election *e, struct interval now)
{
    e->until = TIME_UNKNOWN;
    e->vacant = now;
    e->vacant_known = true;
}

void election_down(struct election *e, struct interval now)
{
    CHECK(e->role == ELECTION_LEADING || e->role == ELECTION_RESIGNING);
    e->role = ELECTION_FOLLOWING;
    vacate(e, now);
}

void election_resigning(struct election *e, struct interval now)
{
    CHECK(e->role == ELECTION_LEADING);
    e->role = ELECTION_RESIGNING;
    vacate(e, now);
}

bool election_leads(const struct election *e, struct interval now)
{
    return e->role == ELECTION_LEADING && is_held(e, now);
}
