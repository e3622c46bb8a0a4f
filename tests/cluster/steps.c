// SPDX-License-Identifier: Apache-2.0
// The step function of one node, with the coordination service and the journal played by hand.
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

static struct interval at(int64_t ms)
{
    return (struct interval){.lo = ms, .hi = ms};
}

static void keep(struct rig *r)
{
    struct cluster_effect e;
    while (cluster_next_effect(r->cluster, &e)) {
        if (e.plan) plan_copy(&r->reported, e.plan);
        assert_true(r->effects_len < 64);
        r->effects[r->effects_len++] = e;
    }
}

static void step(struct rig *r, const struct cluster_event *e)
{
    cluster_step(r->cluster, e, at(r->now));
    keep(r);
}

static void event(struct rig *r, enum cluster_event_kind kind)
{
    struct cluster_event e = {.kind = kind, .shard = test_shard(1), .deadline = r->now + LEASE};
    step(r, &e);
}

static void answer(struct rig *r, const struct cluster_effect *to, enum err err, uint64_t number)
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
static bool take(struct rig *r, enum cluster_effect_kind kind, struct cluster_effect *out)
{
    for (size_t i = 0; i < r->effects_len; i++) {
        if (r->effects[i].kind != kind) continue;
        *out = r->effects[i];
        memmove(&r->effects[i], &r->effects[i + 1], (--r->effects_len - i) * sizeof *r->effects);
        return true;
    }
    return false;
}

static bool noted(struct rig *r, enum cluster_note note)
{
    for (size_t i = 0; i < r->effects_len; i++) {
        if (r->effects[i].kind == CLUSTER_NOTE && r->effects[i].note == note) return true;
    }
    return false;
}

// The service answers the requests of membership; the others are kept.
static void serve(struct rig *r)
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

static void pass(struct rig *r, int64_t ms)
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
static void publish(struct rig *r, uint32_t owner)
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

static void init_as(struct rig *r, bool observe_only, bool lazy)
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

static void init(struct rig *r, bool observe_only)
{
    init_as(r, observe_only, false);
}

static void done(struct rig *r)
{
    cluster_free(r->cluster);
    plan_done(&r->plan);
    plan_done(&r->reported);
}

// Brings the node to serve shard 1 with token 5 and epoch 3.
static void make_owner(struct rig *r)
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

static void a_shard_is_claimed_then_owned_then_served(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    init(&r, false);
    publish(&r, 2);
    pass(&r, LEASE);
    assert_true(take(&r, CLUSTER_CLAIM, &e));
    assert_false(take(&r, CLUSTER_OWN, &e));
    assert_false(take(&r, CLUSTER_TAKE, &e));
    done(&r);
    init(&r, false);
    make_owner(&r);
    done(&r);
}

static void an_unknown_own_is_repeated_with_the_same_token(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    init(&r, false);
    publish(&r, 2);
    pass(&r, LEASE);
    assert_true(take(&r, CLUSTER_CLAIM, &e));
    answer(&r, &e, ERR_OK, 5);
    assert_true(take(&r, CLUSTER_OWN, &e));
    answer(&r, &e, ERR_UNKNOWN, 0);
    assert_false(take(&r, CLUSTER_TAKE, &e));
    pass(&r, 1000);
    assert_true(take(&r, CLUSTER_OWN, &e));
    assert_int_equal(e.number, 5);
    done(&r);
}

static void a_journal_with_a_higher_token_makes_the_node_claim_a_higher_one(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    init(&r, false);
    publish(&r, 2);
    pass(&r, LEASE);
    assert_true(take(&r, CLUSTER_CLAIM, &e));
    answer(&r, &e, ERR_OK, 5);
    assert_true(take(&r, CLUSTER_OWN, &e));
    answer(&r, &e, ERR_FENCED, 41);
    pass(&r, 1000);
    assert_true(take(&r, CLUSTER_CLAIM, &e));
    assert_int_equal(e.number, 41);
    answer(&r, &e, ERR_OK, 42);
    assert_true(take(&r, CLUSTER_OWN, &e));
    assert_int_equal(e.number, 42);
    done(&r);
}

static void a_transfer_stops_taking_then_hands_over_then_releases(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    struct member_id next = test_member(3, 1);
    init(&r, false);
    make_owner(&r);
    publish(&r, 3);
    pass(&r, LEASE / 3 + 500);
    assert_false(take(&r, CLUSTER_RELEASE, &e));
    size_t stop = 64, hand = 64;
    for (size_t i = 0; i < r.effects_len; i++) {
        if (r.effects[i].kind == CLUSTER_STOP_TAKING) stop = i;
        if (r.effects[i].kind == CLUSTER_HAND_OVER) hand = i;
    }
    assert_true(stop < hand && hand < 64);
    assert_true(take(&r, CLUSTER_HAND_OVER, &e));
    assert_true(member_id_equal(&e.to, &next));
    answer(&r, &e, ERR_OK, 0);
    assert_true(take(&r, CLUSTER_RELEASE, &e));
    assert_int_equal(e.number, 5);
    answer(&r, &e, ERR_UNKNOWN, 0);
    pass(&r, 1000);
    assert_true(take(&r, CLUSTER_RELEASE, &e)); // until the answer is known
    answer(&r, &e, ERR_OK, 0);
    pass(&r, LEASE);
    assert_false(take(&r, CLUSTER_CLAIM, &e));
    done(&r);
}

static void without_the_service_owned_shards_go_on_and_nothing_is_claimed(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    init(&r, false);
    make_owner(&r);
    r.away = true;
    pass(&r, 10 * LEASE);
    struct shard_key shard = test_shard(1);
    assert_true(cluster_degraded(r.cluster));
    assert_true(noted(&r, NOTE_DEGRADED));
    assert_int_equal(cluster_serves(r.cluster, &shard), 3);
    assert_false(take(&r, CLUSTER_CLAIM, &e));
    assert_false(take(&r, CLUSTER_STOP_TAKING, &e));
    r.away = false;
    r.effects_len = 0;
    pass(&r, LEASE);
    assert_false(cluster_degraded(r.cluster));
    assert_true(noted(&r, NOTE_RECOVERED));
    assert_int_equal(cluster_serves(r.cluster, &shard), 3);
    done(&r);
}

static void end_session(struct rig *r)
{
    struct cluster_effect e = {0};
    for (int i = 0; i < 10 && !take(r, CLUSTER_HEARTBEAT, &e); i++) {
        r->now += 500;
        event(r, CLUSTER_TICK);
    }
    answer(r, &e, ERR_NOT_FOUND, 0);
    pass(r, 1000);
}

static void a_node_whose_session_ended_claims_again_and_serves_meanwhile(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    struct shard_key shard = test_shard(1);
    init(&r, false);
    make_owner(&r);
    end_session(&r);
    assert_true(take(&r, CLUSTER_CLAIM, &e));
    assert_int_equal(cluster_serves(r.cluster, &shard), 3);
    answer(&r, &e, ERR_OK, 9);
    assert_true(take(&r, CLUSTER_OWN, &e));
    answer(&r, &e, ERR_OK, 4);
    assert_int_equal(cluster_serves(r.cluster, &shard), 4);
    assert_false(take(&r, CLUSTER_STOP_TAKING, &e));
    done(&r);
}

static void a_fenced_owner_stops_at_once(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    struct cluster_event fenced = {.kind = CLUSTER_FENCED, .shard = test_shard(1), .number = 3};
    init(&r, false);
    make_owner(&r);
    step(&r, &fenced); // its own epoch: news of an earlier owner
    assert_false(take(&r, CLUSTER_STOP_TAKING, &e));
    fenced.number = 4;
    step(&r, &fenced);
    assert_true(take(&r, CLUSTER_STOP_TAKING, &e));
    assert_true(noted(&r, NOTE_LOST));
    assert_int_equal(cluster_serves(r.cluster, &fenced.shard), 0);
    done(&r);
}

static void an_owner_whose_session_ended_says_that_it_lost_the_shard(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    init(&r, false);
    make_owner(&r);
    publish(&r, 3);
    end_session(&r);
    assert_true(take(&r, CLUSTER_STOP_TAKING, &e));
    assert_true(take(&r, CLUSTER_HAND_OVER, &e));
    answer(&r, &e, ERR_OK, 0);
    assert_true(noted(&r, NOTE_LOST));
    assert_false(noted(&r, NOTE_HANDED_OVER));
    done(&r);
}

static void an_older_plan_changes_nothing(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    init(&r, false);
    make_owner(&r);
    publish(&r, 3);
    r.plan.epoch = 6;
    r.plan.number = 99;
    pass(&r, LEASE);
    assert_false(take(&r, CLUSTER_STOP_TAKING, &e));
    assert_int_equal(cluster_plan(r.cluster)->epoch, 7);
    done(&r);
}

static void a_later_incarnation_of_the_name_ends_the_node(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    init(&r, false);
    make_owner(&r);
    r.members[0].id = test_member(2, 2);
    r.members[0].joined = 8;
    pass(&r, LEASE);
    assert_true(noted(&r, NOTE_REPLACED));
    assert_true(take(&r, CLUSTER_STOP_TAKING, &e));
    r.effects_len = 0;
    pass(&r, 2 * LEASE);
    assert_false(take(&r, CLUSTER_CLAIM, &e));
    assert_false(take(&r, CLUSTER_JOIN, &e));
    done(&r);
}

static void a_stop_waits_for_the_plan_then_gives_its_shards_away_and_leaves(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    init(&r, false);
    make_owner(&r);
    event(&r, CLUSTER_STOP);
    assert_true(take(&r, CLUSTER_HEARTBEAT, &e)); // the others hear of it at once
    assert_true(e.leaving);
    answer(&r, &e, ERR_OK, 0);
    assert_false(take(&r, CLUSTER_STOP_TAKING, &e));
    publish(&r, 3);
    pass(&r, LEASE / 2);
    assert_true(take(&r, CLUSTER_HAND_OVER, &e));
    answer(&r, &e, ERR_OK, 0);
    assert_true(take(&r, CLUSTER_RELEASE, &e));
    assert_false(take(&r, CLUSTER_LEAVE, &e));
    answer(&r, &e, ERR_OK, 0);
    pass(&r, 1000);
    assert_true(take(&r, CLUSTER_LEAVE, &e));
    assert_false(cluster_stopped(r.cluster));
    answer(&r, &e, ERR_OK, 0);
    assert_true(cluster_stopped(r.cluster));
    done(&r);
}

static void a_node_that_leaves_late_begins_nothing_any_more(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0}, leave = {0}, lead = {0};
    init(&r, false);
    make_owner(&r);
    r.leader.held = false; // this node is the first healthy one
    pass(&r, LEASE / 3 + 500);
    assert_true(take(&r, CLUSTER_LEAD, &lead));
    event(&r, CLUSTER_STOP);
    pass(&r, LEASE);                              // the deadline
    assert_true(take(&r, CLUSTER_HAND_OVER, &e)); // it gets no answer
    assert_false(take(&r, CLUSTER_LEAVE, &e));
    pass(&r, LEASE + 500);
    assert_true(take(&r, CLUSTER_LEAVE, &leave));
    answer(&r, &lead, ERR_OK, 8); // granted before the session ended
    assert_false(cluster_leads(r.cluster));
    pass(&r, 1000);
    assert_false(take(&r, CLUSTER_LEAD, &e));
    assert_false(take(&r, CLUSTER_CLAIM, &e));
    answer(&r, &leave, ERR_UNKNOWN, 0);
    assert_true(cluster_stopped(r.cluster)); // no time is left to ask again
    done(&r);
}

static void a_lone_node_stops_without_a_plan(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    init(&r, false);
    make_owner(&r);
    r.members_len = 1;
    pass(&r, LEASE);
    event(&r, CLUSTER_STOP);
    assert_true(take(&r, CLUSTER_HAND_OVER, &e));
    assert_string_equal(e.to.name, "");
    done(&r);
}

static void observe_only_reports_a_plan_and_enforces_none(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    init(&r, true);
    r.leader = (struct leader_report){.epoch = 6};
    struct shard_key shards[] = {test_shard(1), test_shard(2)};
    struct cluster_event all = {.kind = CLUSTER_SHARDS, .shards = shards, .shards_len = 2};
    step(&r, &all);
    pass(&r, 3 * LEASE);
    assert_true(take(&r, CLUSTER_LEAD, &e));
    r.leader = (struct leader_report){.held = true, .id = test_member(2, 1), .epoch = 7};
    answer(&r, &e, ERR_OK, 7);
    assert_true(cluster_leads(r.cluster));
    pass(&r, LEASE / 3);
    assert_true(take(&r, CLUSTER_REPORT_PLAN, &e));
    assert_int_equal(r.reported.rows_len, 2);
    assert_false(take(&r, CLUSTER_PUBLISH, &e));
    publish(&r, 2);
    pass(&r, LEASE / 3);
    assert_false(take(&r, CLUSTER_CLAIM, &e));
    done(&r);
}

static void a_claim_that_was_granted_late_is_found_and_released(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    init(&r, false);
    publish(&r, 3);
    pass(&r, LEASE);
    event(&r, CLUSTER_IN_THE_WAY); // a late claim of this node was granted after all
    assert_true(take(&r, CLUSTER_CLAIM, &e));
    answer(&r, &e, ERR_OK, 5);
    assert_false(take(&r, CLUSTER_OWN, &e));
    assert_true(take(&r, CLUSTER_RELEASE, &e));
    assert_int_equal(e.number, 5);
    done(&r);
}

static void a_lazy_node_claims_a_shard_when_it_is_used(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    init_as(&r, false, true);
    publish(&r, 2);
    pass(&r, 2 * LEASE);
    assert_false(take(&r, CLUSTER_CLAIM, &e));
    event(&r, CLUSTER_USED);
    assert_true(take(&r, CLUSTER_CLAIM, &e));
    done(&r);
}

static void a_lazy_node_does_not_claim_a_used_shard_of_another(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    init_as(&r, false, true);
    publish(&r, 3);
    pass(&r, 2 * LEASE);
    event(&r, CLUSTER_USED);
    pass(&r, LEASE);
    assert_false(take(&r, CLUSTER_CLAIM, &e));
    publish(&r, 2); // the next plan gives it the shard
    pass(&r, LEASE);
    assert_true(take(&r, CLUSTER_CLAIM, &e));
    done(&r);
}

static void a_lone_node_claims_without_a_plan_and_does_not_lead(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    init_as(&r, false, true);
    r.members_len = 1;
    r.leader = (struct leader_report){.held = false};
    pass(&r, 4 * LEASE);
    assert_true(cluster_lone(r.cluster));
    assert_false(take(&r, CLUSTER_LEAD, &e));
    assert_false(take(&r, CLUSTER_CLAIM, &e));
    event(&r, CLUSTER_USED);
    assert_true(take(&r, CLUSTER_CLAIM, &e));
    r.effects_len = 0;
    answer(&r, &e, ERR_OK, 1);
    assert_true(take(&r, CLUSTER_OWN, &e));
    answer(&r, &e, ERR_OK, 1);
    struct shard_key shard = test_shard(1);
    assert_int_equal(cluster_serves(r.cluster, &shard), 1);
    r.members_len = 2; // another node: the shard stays until a plan says where it belongs
    pass(&r, LEASE);
    assert_false(cluster_lone(r.cluster));
    assert_int_equal(cluster_serves(r.cluster, &shard), 1);
    done(&r);
}

static void a_hint_to_look_lists_at_once(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    init_as(&r, false, true);
    pass(&r, 2 * LEASE);
    r.now++;
    event(&r, CLUSTER_TICK);
    serve(&r);
    event(&r, CLUSTER_TICK);
    assert_false(take(&r, CLUSTER_LIST, &e));
    event(&r, CLUSTER_LOOK);
    assert_true(take(&r, CLUSTER_LIST, &e));
    done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_is_claimed_then_owned_then_served),
        cmocka_unit_test(an_unknown_own_is_repeated_with_the_same_token),
        cmocka_unit_test(a_journal_with_a_higher_token_makes_the_node_claim_a_higher_one),
        cmocka_unit_test(a_transfer_stops_taking_then_hands_over_then_releases),
        cmocka_unit_test(without_the_service_owned_shards_go_on_and_nothing_is_claimed),
        cmocka_unit_test(a_node_whose_session_ended_claims_again_and_serves_meanwhile),
        cmocka_unit_test(a_fenced_owner_stops_at_once),
        cmocka_unit_test(an_owner_whose_session_ended_says_that_it_lost_the_shard),
        cmocka_unit_test(an_older_plan_changes_nothing),
        cmocka_unit_test(a_later_incarnation_of_the_name_ends_the_node),
        cmocka_unit_test(a_stop_waits_for_the_plan_then_gives_its_shards_away_and_leaves),
        cmocka_unit_test(a_node_that_leaves_late_begins_nothing_any_more),
        cmocka_unit_test(a_lone_node_stops_without_a_plan),
        cmocka_unit_test(observe_only_reports_a_plan_and_enforces_none),
        cmocka_unit_test(a_claim_that_was_granted_late_is_found_and_released),
        cmocka_unit_test(a_lazy_node_claims_a_shard_when_it_is_used),
        cmocka_unit_test(a_lazy_node_does_not_claim_a_used_shard_of_another),
        cmocka_unit_test(a_lone_node_claims_without_a_plan_and_does_not_lead),
        cmocka_unit_test(a_hint_to_look_lists_at_once),
    };
    return cmocka_run_group_tests_name("steps", tests, NULL, NULL);
}
