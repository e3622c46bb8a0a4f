// SPDX-License-Identifier: Apache-2.0
// When a caller's thread is lent, counted by hand.
#include "node/company.h"
#include "../unit/unit.h"

// A caller comes, wants one thing, and it is performed: by himself (true) or by the crew.
static bool call(struct company *c, int64_t took_ms)
{
    company_came(c);
    company_wanted(c);
    bool lent = company_lend(c);
    company_answered(c, took_ms);
    if (lent) company_lent_back(c);
    return lent;
}

static void make_quiet(struct company *c)
{
    for (int i = 0; i < COMPANY_QUIET; i++)
        (void)call(c, 0);
    while (!call(c, 0)) {
    }
}

static void nobody_is_lent_before_it_was_quiet(void **state)
{
    (void)state;
    struct company c = {0};
    for (int i = 0; i < COMPANY_QUIET; i++)
        assert_false(call(&c, 0));
    assert_true(call(&c, 0));
}

static void now_and_then_the_crew_performs_one(void **state)
{
    (void)state;
    struct company c = {0};
    int lent = 0;
    make_quiet(&c);
    for (int i = 0; i < 10 * COMPANY_RUN; i++)
        lent += call(&c, 0);
    assert_int_equal(lent, 10 * (COMPANY_RUN - 1));
}

static void who_comes_beside_a_request_ends_the_quiet(void **state)
{
    (void)state;
    struct company c = {0};
    make_quiet(&c);
    company_came(&c);
    company_wanted(&c);
    company_came(&c);
    assert_false(company_lend(&c));
    company_answered(&c, 0);
    for (int i = 1; i < COMPANY_QUIET; i++)
        assert_false(call(&c, 0));
    assert_true(call(&c, 0) || call(&c, 0));
}

static void who_comes_and_wants_nothing_is_no_company(void **state)
{
    (void)state;
    struct company c = {0};
    make_quiet(&c);
    for (int i = 0; i < 100; i++)
        company_came(&c);
    assert_true(call(&c, 0) || call(&c, 0));
}

static void nobody_is_lent_beside_another_request(void **state)
{
    (void)state;
    struct company c = {0};
    make_quiet(&c);
    company_wanted(&c); // a snapshot
    company_wanted(&c);
    assert_false(company_lend(&c));
    company_dropped(&c, 1);
    assert_true(company_lend(&c));
}

static void nobody_is_lent_until_the_store_is_quick_again(void **state)
{
    (void)state;
    struct company c = {0};
    make_quiet(&c);
    (void)call(&c, COMPANY_QUICK_MS);
    assert_false(call(&c, COMPANY_QUICK_MS));
    assert_false(call(&c, 0));
    assert_true(call(&c, 0) || call(&c, 0));
}

static void one_is_lent_at_a_time(void **state)
{
    (void)state;
    struct company c = {0};
    make_quiet(&c);
    company_wanted(&c);
    assert_true(company_lend(&c));
    company_answered(&c, 0);
    for (int i = 0; i < 2; i++) { // he is not back yet
        assert_false(call(&c, 0));
    }
    company_lent_back(&c);
    assert_true(call(&c, 0) || call(&c, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_lent_before_it_was_quiet),
        cmocka_unit_test(now_and_then_the_crew_performs_one),
        cmocka_unit_test(who_comes_beside_a_request_ends_the_quiet),
        cmocka_unit_test(who_comes_and_wants_nothing_is_no_company),
        cmocka_unit_test(nobody_is_lent_beside_another_request),
        cmocka_unit_test(nobody_is_lent_until_the_store_is_quick_again),
        cmocka_unit_test(one_is_lent_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
