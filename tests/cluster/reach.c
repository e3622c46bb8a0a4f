// SPDX-License-Identifier: Apache-2.0
// Reports of members that do not reach each other: which one counts as cut off, and for how long.
#include "cluster/reach.h"

#include "../unit/unit.h"
#include "fixture.h"

#define NODES_MAX 8
#define NOW       1000

static struct member rows[NODES_MAX];

static struct interval at(int64_t ms)
{
    return (struct interval){.lo = ms, .hi = ms};
}

static struct members healthy(size_t len)
{
    for (size_t i = 0; i < len; i++)
        rows[i] =
            (struct member){.seen = {.id = test_member((uint32_t)i, 1)}, .life = LIFE_HEALTHY};
    return (struct members){.rows = rows, .len = len, .cap = NODES_MAX};
}

static void note(struct reach *r, uint32_t by, uint32_t about, int64_t now)
{
    struct member_id a = test_member(by, 1), b = test_member(about, 1);
    reach_note(r, &a, &b, at(now));
}

static bool cut(const struct reach *r, const struct members *m, uint32_t number, int64_t now)
{
    struct member_id id = test_member(number, 1);
    return reach_is_cut(r, m, &id, at(now));
}

static void a_member_that_most_others_do_not_reach_is_cut_off(void **state)
{
    (void)state;
    struct reach r = {.len = 0};
    struct members m = healthy(3);
    note(&r, 0, 1, NOW);
    for (uint32_t i = 0; i < 3; i++)
        assert_false(cut(&r, &m, i, NOW)); // one pair: neither is known to be at fault
    note(&r, 2, 1, NOW);
    assert_true(cut(&r, &m, 1, NOW));
    assert_false(cut(&r, &m, 0, NOW));
    assert_false(cut(&r, &m, 2, NOW));
}

static void a_leader_that_reaches_no_other_is_cut_off_itself(void **state)
{
    (void)state;
    struct reach r = {.len = 0};
    struct members m = healthy(3);
    note(&r, 0, 1, NOW);
    note(&r, 0, 2, NOW);
    assert_true(cut(&r, &m, 0, NOW));
    assert_false(cut(&r, &m, 1, NOW));
}

static void a_report_ends_unless_it_is_repeated(void **state)
{
    (void)state;
    struct reach r = {.len = 0};
    struct members m = healthy(3);
    note(&r, 0, 1, NOW);
    note(&r, 2, 1, NOW);
    assert_true(cut(&r, &m, 1, NOW + REACH_VALID_MS - 1));
    note(&r, 0, 1, NOW + REACH_VALID_MS - 1);
    assert_int_equal(r.len, 2); // the same pair
    assert_false(cut(&r, &m, 1, NOW + REACH_VALID_MS));
    note(&r, 2, 1, NOW + REACH_VALID_MS);
    assert_true(cut(&r, &m, 1, NOW + REACH_VALID_MS));
}

static void two_nodes_and_two_halves_decide_nothing(void **state)
{
    (void)state;
    struct reach r = {.len = 0};
    struct members m = healthy(2);
    note(&r, 0, 1, NOW);
    note(&r, 1, 0, NOW);
    assert_false(cut(&r, &m, 0, NOW) || cut(&r, &m, 1, NOW));
    r.len = 0;
    m = healthy(6);
    for (uint32_t a = 0; a < 3; a++)
        for (uint32_t b = 3; b < 6; b++)
            note(&r, a, b, NOW);
    for (uint32_t i = 0; i < 6; i++)
        assert_false(cut(&r, &m, i, NOW));
}

static void a_member_that_died_is_no_witness(void **state)
{
    (void)state;
    struct reach r = {.len = 0};
    struct members m = healthy(4);
    note(&r, 0, 1, NOW);
    note(&r, 3, 1, NOW);
    assert_true(cut(&r, &m, 1, NOW)); // two of three others
    rows[3].life = LIFE_UNHEALTHY;
    assert_false(cut(&r, &m, 1, NOW)); // one of two
}

static void reports_beyond_the_limit_are_ignored(void **state)
{
    (void)state;
    struct reach r = {.len = 0};
    for (uint32_t i = 0; i < 2 * REACH_MAX; i++)
        note(&r, i, i + 1, NOW);
    assert_int_equal(r.len, REACH_MAX);
    note(&r, 7, 7, NOW + REACH_VALID_MS); // itself
    assert_int_equal(r.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_that_most_others_do_not_reach_is_cut_off),
        cmocka_unit_test(a_leader_that_reaches_no_other_is_cut_off_itself),
        cmocka_unit_test(a_report_ends_unless_it_is_repeated),
        cmocka_unit_test(two_nodes_and_two_halves_decide_nothing),
        cmocka_unit_test(a_member_that_died_is_no_witness),
        cmocka_unit_test(reports_beyond_the_limit_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
