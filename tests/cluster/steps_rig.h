// SPDX-License-Identifier: Apache-2.0
// One node's step function, with the coordination service and the journal played by hand.
#pragma once

#include "cluster/cluster.h"

#include "../unit/unit.h"
#include "base/memory.h"
#include "fixture.h"

#define LEASE ((int64_t)5000)
#define SEEN  4

// A node with number 2. Its effects since the last take are kept.
struct rig {
    struct cluster *cluster;
    int64_t now;
    struct member_report members[SEEN];
    size_t members_len;
    struct leader_report leader;
    struct plan plan; // has_plan: the service has it
    bool has_plan;
    bool away; // the service does not answer
    struct cluster_effect effects[64];
    size_t effects_len;
    struct plan reported;
};

static inline struct interval at(int64_t ms)
{
    return (struct interval){.lo = ms, .hi = ms};
}

static inline void keep(struct rig *r)
{
    struct cluster_effect e;
    while (cluster_next_effect(r->cluster, &e)) {
        if (e.plan) plan_copy(&r->reported, e.plan);
        assert_true(r->effects_len < 64);
        r->effects[r->effects_len++] = e;
    }
}

static inline void step(struct rig *r, const struct cluster_event *e)
{
    cluster_step(r->cluster, e, at(r->now));
    keep(r);
}

static inline void event(struct rig *r, enum cluster_event_kind kind)
{
    struct cluster_event e = {.kind = kind, .shard = test_shard(1), .deadline = r->now + LEASE};
    step(r, &e);
}

static inline void answer(struct rig *r, const struct cluster_effect *to, enum err err,
                          uint64_t number)
{
    struct cluster_event e = {
        .kind = CLUSTER_ANSWER, .request = to->request, .err = err, .number = number};
    if (to->kind == CLUSTER_LIST) {
        e.kind = CLUSTER_VIEW;
        e.view = (struct cluster_view){.at = (uint64_t)r->now,
                                       .members = r->members,
                                       .members_len = r->members_len,
                                       .leader = r->leader,
                                       .plan = r->has_plan ? &r->plan : NULL};
    }
    step(r, &e);
}

// Finds an effect of this kind and takes it out; NULL: none.
static inline bool take(struct rig *r, enum cluster_effect_kind kind, struct cluster_effect *out)
{
    for (size_t i = 0; i < r->effects_len; i++) {
        if (r->effects[i].kind != kind) continue;
        *out = r->effects[i];
        memmove(&r->effects[i], &r->effects[i + 1], (--r->effects_len - i) * sizeof *r->effects);
        return true;
    }
    return false;
}

static inline bool noted(struct rig *r, enum cluster_note note)
{
    for (size_t i = 0; i < r->effects_len; i++) {
        if (r->effects[i].kind == CLUSTER_NOTE && r->effects[i].note == note) return true;
    }
    return false;
}

// The service answers the requests of membership; the others are kept.
static inline void serve(struct rig *r)
{
    static const enum cluster_effect_kind kinds[] = {CLUSTER_JOIN, CLUSTER_HEARTBEAT, CLUSTER_LIST};
    struct cluster_effect e = {0};
    bool more = true;
    for (int rounds = 0; more && rounds < 10; rounds++) {
        more = false;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            if (!take(r, kinds[i], &e)) continue;
            answer(r, &e, r->away ? ERR_UNAVAILABLE : ERR_OK, 0);
            more = !r->away;
        }
    }
}

static inline void pass(struct rig *r, int64_t ms)
{
    for (int64_t end = r->now + ms; r->now < end;) {
        r->now = r->now + 500 < end ? r->now + 500 : end;
        for (size_t i = 0; i < r->members_len && !r->away; i++)
            r->members[i].beat = at(r->now);
        event(r, CLUSTER_TICK);
        serve(r);
    }
}

// Members 2 and 3, with 3 as the leader; a plan gives shard 1 to `owner`.
static inline void publish(struct rig *r, uint32_t owner)
{
    struct plan_row row = {.shard = test_shard(1), .owner = 0, .from = SHARD_NONE};
    struct member_id id = test_member(owner, 1);
    struct plan plan = {.epoch = 7,
                        .number = r->plan.number + 1,
                        .nodes = &id,
                        .nodes_len = 1,
                        .rows = &row,
                        .rows_len = 1};
    plan_copy(&r->plan, &plan);
    r->has_plan = true;
}

static inline void init_as(struct rig *r, bool observe_only, bool lazy)
{
    *r = (struct rig){.now = 100000};
    plan_init(&r->plan);
    plan_init(&r->reported);
    struct member_id self = test_member(2, 1);
    struct cluster_config config;
    cluster_config_defaults(&config, &self, LEASE);
    config.observe_only = observe_only;
    config.lazy = lazy;
    r->cluster = cluster_new(&config);
    for (uint32_t i = 0; i < 2; i++)
        r->members[i] = (struct member_report){
            .id = test_member(i + 2, 1), .joined = i + 1, .capacity = 1, .beat = at(r->now)};
    r->members_len = 2;
    r->leader = (struct leader_report){.held = true, .id = test_member(3, 1), .epoch = 7};
}

static inline void init(struct rig *r, bool observe_only)
{
    init_as(r, observe_only, false);
}

static inline void done(struct rig *r)
{
    cluster_free(r->cluster);
    plan_done(&r->plan);
    plan_done(&r->reported);
}

// Brings the node to serve shard 1 with token 5 and epoch 3.
static inline void make_owner(struct rig *r)
{
    struct cluster_effect e = {0};
    publish(r, 2);
    pass(r, 2 * LEASE);
    assert_true(take(r, CLUSTER_CLAIM, &e));
    answer(r, &e, ERR_OK, 5);
    assert_true(take(r, CLUSTER_OWN, &e));
    assert_int_equal(e.number, 5);
    answer(r, &e, ERR_OK, 3);
    assert_true(take(r, CLUSTER_TAKE, &e));
    assert_int_equal(e.number, 3);
    struct shard_key shard = test_shard(1);
    assert_int_equal(cluster_serves(r->cluster, &shard), 3);
    r->effects_len = 0;
}
