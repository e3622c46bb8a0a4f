// SPDX-License-Identifier: Apache-2.0
// The lives of members: the table, the times, names and incarnations; and the algebra of leases.
#include "cluster/life.h"

#include "../unit/unit.h"
#include "base/rng.h"
#include "cluster/lease.h"
#include "fixture.h"

#define LEASE ((int64_t)5000)

static struct interval at(int64_t ms)
{
    return (struct interval){.lo = ms, .hi = ms};
}

struct observer {
    struct life_rules rules;
    struct members members;
    struct life_changes changes;
    struct member_report list[8];
    size_t len;
};

static void init(struct observer *o)
{
    *o = (struct observer){.len = 0};
    life_rules_defaults(&o->rules, LEASE);
    members_init(&o->members);
}

static void done(struct observer *o)
{
    members_done(&o->members);
    life_changes_done(&o->changes);
}

static struct member_report *add(struct observer *o, uint32_t number, uint8_t life, uint64_t joined)
{
    o->list[o->len] =
        (struct member_report){.id = test_member(number, life), .joined = joined, .capacity = 1};
    return &o->list[o->len++];
}

// All members of the list have a heartbeat at this time, and the observer sees it then.
static void beat(struct observer *o, int64_t now)
{
    for (size_t i = 0; i < o->len; i++)
        o->list[i].beat = at(now);
    members_see(&o->members, &o->rules, o->list, o->len, at(now), &o->changes);
}

static enum life life_of(const struct observer *o, uint32_t number, uint8_t life)
{
    struct member_id id = test_member(number, life);
    const struct member *m = members_find(&o->members, &id);
    return m ? m->life : LIFE_GONE;
}

static void tick(struct observer *o, int64_t now)
{
    members_tick(&o->members, &o->rules, at(now), &o->changes);
}

static void make_healthy(struct observer *o, int64_t *now)
{
    for (int i = 0; i < 4; i++, *now += LEASE / 3)
        beat(o, *now);
    *now -= LEASE / 3;
}

// The drawing in life.h, as rows.
static void the_table_has_the_drawn_transitions(void **state)
{
    (void)state;
    static const struct {
        enum life from;
        enum life_cause cause;
        enum life to;
    } drawn[] = {
        {LIFE_JOINING, LIFE_STEADY, LIFE_HEALTHY},   {LIFE_HEALTHY, LIFE_LATE, LIFE_SUSPECT},
        {LIFE_SUSPECT, LIFE_BEAT, LIFE_HEALTHY},     {LIFE_JOINING, LIFE_SILENT, LIFE_UNHEALTHY},
        {LIFE_HEALTHY, LIFE_SILENT, LIFE_UNHEALTHY}, {LIFE_SUSPECT, LIFE_SILENT, LIFE_UNHEALTHY},
        {LIFE_UNHEALTHY, LIFE_STEADY, LIFE_HEALTHY}, {LIFE_LEAVING, LIFE_SILENT, LIFE_GONE},
        {LIFE_LEAVING, LIFE_STAYS, LIFE_JOINING},
    };
    for (int from = LIFE_JOINING; from <= LIFE_GONE; from++) {
        for (int cause = LIFE_STEADY; cause <= LIFE_REPLACED; cause++) {
            enum life expected = (enum life)from;
            if (cause >= LIFE_REMOVED || cause == LIFE_FORGOTTEN) expected = LIFE_GONE;
            if (cause == LIFE_LEAVES && from != LIFE_GONE) expected = LIFE_LEAVING;
            for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) {
                if ((int)drawn[i].from == from && (int)drawn[i].cause == cause)
                    expected = drawn[i].to;
            }
            assert_int_equal(life_after((enum life)from, (enum life_cause)cause), expected);
        }
    }
}

static void a_member_becomes_healthy_after_steady_heartbeats(void **state)
{
    (void)state;
    struct observer o;
    init(&o);
    (void)add(&o, 1, 1, 1);
    beat(&o, 1000);
    assert_int_equal(life_of(&o, 1, 1), LIFE_JOINING);
    beat(&o, 1000 + o.rules.steady_ms - 1);
    assert_int_equal(life_of(&o, 1, 1), LIFE_JOINING);
    beat(&o, 1000 + o.rules.steady_ms);
    assert_int_equal(life_of(&o, 1, 1), LIFE_HEALTHY);
    done(&o);
}

static void silence_makes_a_member_suspect_then_unhealthy_then_gone(void **state)
{
    (void)state;
    struct observer o;
    init(&o);
    (void)add(&o, 1, 1, 1);
    int64_t now = 1000;
    make_healthy(&o, &now);
    tick(&o, now + o.rules.late_ms - 1);
    assert_int_equal(life_of(&o, 1, 1), LIFE_HEALTHY);
    tick(&o, now + o.rules.late_ms);
    assert_int_equal(life_of(&o, 1, 1), LIFE_SUSPECT);
    tick(&o, now + LEASE);
    assert_int_equal(life_of(&o, 1, 1), LIFE_UNHEALTHY);
    tick(&o, now + o.rules.forget_ms);
    assert_int_equal(life_of(&o, 1, 1), LIFE_GONE);
    assert_int_equal(o.members.len, 0);
    done(&o);
}

static void one_heartbeat_heals_a_suspect_and_not_an_unhealthy_member(void **state)
{
    (void)state;
    struct observer o;
    init(&o);
    (void)add(&o, 1, 1, 1);
    int64_t now = 1000;
    make_healthy(&o, &now);
    tick(&o, now += o.rules.late_ms);
    beat(&o, now += 1);
    assert_int_equal(life_of(&o, 1, 1), LIFE_HEALTHY);
    tick(&o, now += LEASE);
    assert_int_equal(life_of(&o, 1, 1), LIFE_UNHEALTHY);
    beat(&o, now += 1);
    assert_int_equal(life_of(&o, 1, 1), LIFE_UNHEALTHY);
    beat(&o, now += LEASE / 3);
    beat(&o, now += LEASE / 3);
    assert_int_equal(life_of(&o, 1, 1), LIFE_HEALTHY);
    done(&o);
}

static void an_uncertain_clock_condemns_no_member(void **state)
{
    (void)state;
    struct observer o;
    init(&o);
    (void)add(&o, 1, 1, 1);
    int64_t now = 1000;
    make_healthy(&o, &now);
    struct interval wide = {.lo = now + o.rules.late_ms - 1, .hi = now + 10 * LEASE};
    members_tick(&o.members, &o.rules, wide, &o.changes);
    assert_int_equal(life_of(&o, 1, 1), LIFE_HEALTHY);
    done(&o);
}

static void a_restarted_node_is_another_member(void **state)
{
    (void)state;
    struct observer o;
    init(&o);
    (void)add(&o, 1, 1, 1);
    int64_t now = 1000;
    make_healthy(&o, &now);
    (void)add(&o, 1, 2, 2); // the old record is still there
    o.changes.len = 0;
    beat(&o, now += 100);
    assert_int_equal(life_of(&o, 1, 1), LIFE_GONE);
    assert_int_equal(life_of(&o, 1, 2), LIFE_JOINING);
    assert_int_equal(o.members.len, 1);
    assert_int_equal(o.changes.len, 2);
    assert_int_equal(o.changes.rows[0].to, LIFE_GONE);
    done(&o);
}

static void a_record_that_is_removed_ends_a_member(void **state)
{
    (void)state;
    struct observer o;
    init(&o);
    (void)add(&o, 1, 1, 1);
    (void)add(&o, 2, 1, 2);
    int64_t now = 1000;
    make_healthy(&o, &now);
    o.list[0] = o.list[1];
    o.len = 1;
    beat(&o, now += 100);
    assert_int_equal(life_of(&o, 1, 1), LIFE_GONE);
    assert_int_equal(life_of(&o, 2, 1), LIFE_HEALTHY);
    done(&o);
}

static void a_leaving_member_stays_leaving_until_it_is_silent(void **state)
{
    (void)state;
    struct observer o;
    init(&o);
    (void)add(&o, 1, 1, 1);
    int64_t now = 1000;
    make_healthy(&o, &now);
    o.list[0].leaving = true;
    beat(&o, now += 100);
    assert_int_equal(life_of(&o, 1, 1), LIFE_LEAVING);
    beat(&o, now += LEASE / 3);
    assert_int_equal(life_of(&o, 1, 1), LIFE_LEAVING);
    tick(&o, now + LEASE);
    assert_int_equal(life_of(&o, 1, 1), LIFE_GONE);
    done(&o);
}

static void an_older_list_changes_no_heartbeat(void **state)
{
    (void)state;
    struct observer o;
    init(&o);
    (void)add(&o, 1, 1, 1);
    int64_t now = 1000;
    make_healthy(&o, &now);
    o.list[0].beat = at(10);
    members_see(&o.members, &o.rules, o.list, 1, at(now + 10), &o.changes);
    assert_int_equal(life_of(&o, 1, 1), LIFE_HEALTHY);
    assert_int_equal(o.members.rows[0].seen.beat.lo, now);
    done(&o);
}

static void the_first_healthy_member_is_the_first_by_name(void **state)
{
    (void)state;
    struct observer o;
    init(&o);
    (void)add(&o, 7, 1, 1);
    (void)add(&o, 3, 1, 2);
    assert_null(members_first_healthy(&o.members));
    int64_t now = 1000;
    make_healthy(&o, &now);
    (void)add(&o, 1, 1, 3);
    beat(&o, now += 100);
    struct member_id third = test_member(3, 1);
    assert_true(member_id_equal(&members_first_healthy(&o.members)->seen.id, &third));
    size_t healthy = 0;
    for (size_t i = 0; i < o.members.len; i++)
        healthy += o.members.rows[i].life == LIFE_HEALTHY;
    assert_int_equal(healthy, 2);
    assert_string_equal(life_name(LIFE_SUSPECT), "suspect");
    done(&o);
}

// The holder's end is never after the end that the service counts, and an observer's conclusion
// never before it. The true times are drawn inside the intervals.
static void a_holder_stops_before_an_observer_can_conclude_the_end(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 5);
    uint64_t held = 0, over = 0;
    for (int i = 0; i < 200000; i++) {
        int64_t lease = rng_range(&r, 10, 20000);
        int64_t sent = rng_range(&r, 100000, 200000);
        int64_t granted = sent + rng_range(&r, 0, 3000); // the service counts from here
        int64_t now = rng_range(&r, sent, sent + 2 * lease + 6000);
        struct interval sent_at = {sent - rng_range(&r, 0, 4000), sent + rng_range(&r, 0, 4000)};
        struct interval now_at = {now - rng_range(&r, 0, 4000), now + rng_range(&r, 0, 4000)};
        struct interval grant_at = {granted - rng_range(&r, 0, 4000),
                                    granted + rng_range(&r, 0, 4000)};
        bool holds = lease_held(lease_until(sent_at, lease), now_at);
        bool ended = time_passed(grant_at, lease, now_at);
        if (holds) assert_true(now < granted + lease);
        if (ended) assert_true(now >= granted + lease);
        assert_false(holds && ended);
        held += holds;
        over += ended;
    }
    assert_true(held > 1000 && over > 1000);
    assert_false(lease_held(TIME_UNKNOWN, at(0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_has_the_drawn_transitions),
        cmocka_unit_test(a_member_becomes_healthy_after_steady_heartbeats),
        cmocka_unit_test(silence_makes_a_member_suspect_then_unhealthy_then_gone),
        cmocka_unit_test(one_heartbeat_heals_a_suspect_and_not_an_unhealthy_member),
        cmocka_unit_test(an_uncertain_clock_condemns_no_member),
        cmocka_unit_test(a_restarted_node_is_another_member),
        cmocka_unit_test(a_record_that_is_removed_ends_a_member),
        cmocka_unit_test(a_leaving_member_stays_leaving_until_it_is_silent),
        cmocka_unit_test(an_older_list_changes_no_heartbeat),
        cmocka_unit_test(the_first_healthy_member_is_the_first_by_name),
        cmocka_unit_test(a_holder_stops_before_an_observer_can_conclude_the_end),
    };
    return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
