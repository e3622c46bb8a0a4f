// SPDX-License-Identifier: Apache-2.0
// The election of one node: tables of situations and what the node decides.
#include "cluster/election.h"

#include "../unit/unit.h"
#include "fixture.h"

#define LEASE ((int64_t)5000)

static struct interval at(int64_t ms)
{
    return (struct interval){.lo = ms, .hi = ms};
}

struct scene {
    struct members members;
    struct member rows[4];
    struct election election;
    struct member_id self;
};

// Members 1, 2 and 3; this node is 2. All are healthy since time 0.
static void init(struct scene *s)
{
    *s = (struct scene){.self = test_member(2, 1)};
    for (uint32_t i = 0; i < 3; i++)
        s->rows[i] = (struct member){.seen = {.id = test_member(i + 1, 1), .capacity = 1},
                                     .life = LIFE_HEALTHY};
    s->members = (struct members){.rows = s->rows, .len = 3, .cap = 4};
    struct election_rules rules;
    election_rules_defaults(&rules, LEASE);
    election_init(&s->election, &rules);
}

static void see(struct scene *s, bool held, uint32_t leader, uint64_t epoch, int64_t now)
{
    struct leader_report seen = {.held = held, .id = test_member(leader, 1), .epoch = epoch};
    election_see(&s->election, &seen, &s->self, at(now));
}

static enum election_action decide(const struct scene *s, int64_t now)
{
    return election_decide(&s->election, &s->members, &s->self, false, at(now));
}

static void lead(struct scene *s, uint64_t epoch, int64_t now)
{
    election_asked(&s->election);
    election_granted(&s->election, &s->self, epoch, at(now), at(now));
    assert_int_equal(s->election.role, ELECTION_LEADING);
}

static void a_cold_start_observes_before_it_asks(void **state)
{
    (void)state;
    struct scene s;
    init(&s);
    s.rows[0].life = LIFE_UNHEALTHY;
    assert_int_equal(decide(&s, 100000), ELECTION_WAIT); // it has seen nothing
    see(&s, false, 1, 0, 1000);
    see(&s, false, 1, 0, 1000 + LEASE - 1);
    assert_int_equal(decide(&s, 1000 + LEASE - 1), ELECTION_WAIT);
    see(&s, false, 1, 0, 1000 + LEASE);
    assert_int_equal(decide(&s, 1000 + LEASE), ELECTION_ASK);
}

// Both nodes observe for the same lease. The second one asks only if the first one does not.
static void at_a_cold_start_the_second_member_asks_a_lease_after_the_first(void **state)
{
    (void)state;
    static const enum life lives[] = {LIFE_HEALTHY, LIFE_JOINING};
    for (size_t i = 0; i < sizeof lives / sizeof *lives; i++) {
        struct scene s;
        init(&s);
        s.rows[0].life = lives[i];
        see(&s, false, 1, 0, 1000);
        see(&s, false, 1, 0, 1000 + LEASE);
        assert_int_equal(decide(&s, 1000 + 2 * LEASE - 1), ELECTION_WAIT);
        assert_int_equal(decide(&s, 1000 + 2 * LEASE), ELECTION_ASK);
    }
}

// Each row: the lives of 1, 2 and 3, whether a leader is seen, and how long the place was vacant.
static void the_first_healthy_member_asks(void **state)
{
    (void)state;
    static const struct {
        enum life lives[3];
        bool held;
        int64_t vacant_ms;
        enum election_action action;
    } rows[] = {
        {{LIFE_JOINING, LIFE_HEALTHY, LIFE_HEALTHY}, false, 0, ELECTION_ASK},
        {{LIFE_SUSPECT, LIFE_HEALTHY, LIFE_HEALTHY}, false, 0, ELECTION_ASK},
        {{LIFE_UNHEALTHY, LIFE_HEALTHY, LIFE_HEALTHY}, false, 0, ELECTION_ASK},
        {{LIFE_LEAVING, LIFE_HEALTHY, LIFE_HEALTHY}, false, 0, ELECTION_ASK},
        {{LIFE_HEALTHY, LIFE_HEALTHY, LIFE_HEALTHY}, false, 0, ELECTION_WAIT},
        {{LIFE_HEALTHY, LIFE_HEALTHY, LIFE_HEALTHY}, false, LEASE - 1, ELECTION_WAIT},
        {{LIFE_HEALTHY, LIFE_HEALTHY, LIFE_HEALTHY}, false, LEASE, ELECTION_ASK},
        {{LIFE_JOINING, LIFE_JOINING, LIFE_HEALTHY}, false, LEASE, ELECTION_WAIT},
        {{LIFE_JOINING, LIFE_SUSPECT, LIFE_HEALTHY}, false, LEASE, ELECTION_WAIT},
        {{LIFE_JOINING, LIFE_LEAVING, LIFE_HEALTHY}, false, LEASE, ELECTION_WAIT},
        {{LIFE_UNHEALTHY, LIFE_HEALTHY, LIFE_HEALTHY}, true, LEASE, ELECTION_WAIT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scene s;
        init(&s);
        for (size_t k = 0; k < 3; k++)
            s.rows[k].life = rows[i].lives[k];
        see(&s, true, 3, 7, 1000); // observed
        int64_t now = 1000 + 2 * LEASE;
        see(&s, rows[i].held, 3, 7, now);
        assert_int_equal(decide(&s, now + rows[i].vacant_ms), rows[i].action);
    }
}

static void a_leader_renews_after_a_third_of_its_lease(void **state)
{
    (void)state;
    struct scene s;
    init(&s);
    s.rows[0].life = LIFE_GONE;
    lead(&s, 8, 1000);
    assert_int_equal(decide(&s, 1000 + LEASE / 3 - 1), ELECTION_WAIT);
    assert_int_equal(decide(&s, 1000 + LEASE / 3), ELECTION_RENEW);
    election_renewed(&s.election, at(1000 + LEASE / 3));
    assert_int_equal(decide(&s, 1000 + LEASE / 3 + 1), ELECTION_WAIT);
    assert_int_equal(s.election.until, 1000 + LEASE / 3 + LEASE);
}

static void a_leader_that_cannot_renew_steps_down_before_its_lease_may_end(void **state)
{
    (void)state;
    struct scene s;
    init(&s);
    lead(&s, 8, 1000);
    election_renewal_failed(&s.election, false, at(1000 + LEASE / 3));
    assert_int_equal(decide(&s, 1000 + LEASE - 1), ELECTION_RENEW);
    assert_int_equal(decide(&s, 1000 + LEASE), ELECTION_STEP_DOWN);
    struct interval unsure = {.lo = 1000, .hi = 1000 + LEASE};
    assert_int_equal(election_decide(&s.election, &s.members, &s.self, false, unsure),
                     ELECTION_STEP_DOWN);
    assert_false(election_leads(&s.election, unsure));
    election_down(&s.election, at(1000 + LEASE));
    assert_int_equal(s.election.role, ELECTION_FOLLOWING);
}

static void a_refused_renewal_ends_the_leadership(void **state)
{
    (void)state;
    struct scene s;
    init(&s);
    lead(&s, 8, 1000);
    election_renewal_failed(&s.election, true, at(1100));
    assert_int_equal(s.election.role, ELECTION_FOLLOWING);
    assert_false(election_leads(&s.election, at(1100)));
}

static void a_smaller_name_deposes_a_leader_only_after_the_cool_down(void **state)
{
    (void)state;
    struct scene s;
    init(&s);
    s.rows[0].changed = at(20000); // healthy since then
    lead(&s, 8, 1000);
    int64_t due = 20000 + s.election.rules.cool_down_ms;
    s.election.until = s.election.renew_at = due + 100000;
    assert_int_equal(decide(&s, due - 1), ELECTION_WAIT);
    assert_int_equal(decide(&s, due), ELECTION_RESIGN);
    s.rows[0].life = LIFE_SUSPECT;
    assert_int_equal(decide(&s, due), ELECTION_WAIT);
    election_resigning(&s.election, at(due));
    assert_false(election_leads(&s.election, at(due)));
    assert_int_equal(decide(&s, due), ELECTION_WAIT);
    s.rows[0].life = LIFE_HEALTHY;
    election_down(&s.election, at(due));
    assert_int_equal(decide(&s, due + LEASE - 1), ELECTION_WAIT); // the smaller name comes first
    assert_int_equal(decide(&s, due + LEASE), ELECTION_ASK);
}

static void a_larger_name_deposes_no_leader(void **state)
{
    (void)state;
    struct scene s;
    init(&s);
    s.rows[0].life = LIFE_GONE;
    lead(&s, 8, 1000);
    s.election.until = s.election.renew_at = 1000000000;
    assert_int_equal(decide(&s, 100000000), ELECTION_WAIT);
}

static void a_node_that_stops_resigns_and_asks_no_more(void **state)
{
    (void)state;
    struct scene s;
    init(&s);
    lead(&s, 8, 1000);
    assert_int_equal(election_decide(&s.election, &s.members, &s.self, true, at(1001)),
                     ELECTION_RESIGN);
    election_resigning(&s.election, at(1001));
    election_down(&s.election, at(1002));
    see(&s, false, 2, 8, 100000);
    assert_int_equal(election_decide(&s.election, &s.members, &s.self, true, at(200000)),
                     ELECTION_WAIT);
}

static void a_grant_that_arrives_too_late_or_is_overtaken_leads_nothing(void **state)
{
    (void)state;
    struct scene s;
    init(&s);
    election_asked(&s.election);
    election_granted(&s.election, &s.self, 8, at(1000), at(1000 + LEASE));
    assert_int_equal(s.election.role, ELECTION_FOLLOWING);
    election_asked(&s.election);
    see(&s, true, 3, 10, 7000);
    election_granted(&s.election, &s.self, 9, at(6500), at(7000));
    assert_int_equal(s.election.role, ELECTION_FOLLOWING);
    assert_int_equal(s.election.seen.epoch, 10);
}

static void an_overtaken_view_changes_nothing(void **state)
{
    (void)state;
    struct scene s;
    init(&s);
    see(&s, true, 3, 10, 1000);
    see(&s, false, 1, 9, 1100);
    assert_true(s.election.seen.held);
    assert_int_equal(s.election.seen.epoch, 10);
    assert_false(s.election.vacant_known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cold_start_observes_before_it_asks),
        cmocka_unit_test(at_a_cold_start_the_second_member_asks_a_lease_after_the_first),
        cmocka_unit_test(the_first_healthy_member_asks),
        cmocka_unit_test(a_leader_renews_after_a_third_of_its_lease),
        cmocka_unit_test(a_leader_that_cannot_renew_steps_down_before_its_lease_may_end),
        cmocka_unit_test(a_refused_renewal_ends_the_leadership),
        cmocka_unit_test(a_smaller_name_deposes_a_leader_only_after_the_cool_down),
        cmocka_unit_test(a_larger_name_deposes_no_leader),
        cmocka_unit_test(a_node_that_stops_resigns_and_asks_no_more),
        cmocka_unit_test(a_grant_that_arrives_too_late_or_is_overtaken_leads_nothing),
        cmocka_unit_test(an_overtaken_view_changes_nothing),
    };
    return cmocka_run_group_tests_name("election", tests, NULL, NULL);
}
