// SPDX-License-Identifier: Apache-2.0
// How one node joins, claims shards, serves them and gives them away.
#include "steps_rig.h"

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

static void a_shard_used_at_another_node_is_claimed_when_a_plan_names_this_node(void **state)
{
    (void)state;
    struct rig r;
    struct cluster_effect e = {0};
    init_as(&r, false, true);
    pass(&r, 2 * LEASE);
    event(&r, CLUSTER_USED_AWAY); // its sender has seen a plan that this node has not
    pass(&r, LEASE);
    assert_false(take(&r, CLUSTER_CLAIM, &e));
    publish(&r, 2);
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
        cmocka_unit_test(a_shard_used_at_another_node_is_claimed_when_a_plan_names_this_node),
        cmocka_unit_test(a_lone_node_claims_without_a_plan_and_does_not_lead),
        cmocka_unit_test(a_hint_to_look_lists_at_once),
    };
    return cmocka_run_group_tests_name("steps", tests, NULL, NULL);
}
