// SPDX-License-Identifier: Apache-2.0
// The room that answers have: large and small ones do not push each other out, the first goes
// whatever its size, and nothing is lost on the way.
#include "server/memory_budget.h"
#include "../unit/unit.h"

#include <pthread.h>

#define MIB ((size_t)1 << 20)

static int set_up(void **state)
{
    static struct memory_budget r;
    budget_init(&r, 16 * MIB);
    *state = &r;
    return 0;
}

static int tear_down(void **state)
{
    assert_int_equal(budget_used(*state), 0);
    budget_done(*state);
    return 0;
}

static void large_ones_have_three_quarters(void **state)
{
    struct memory_budget *r = *state;
    size_t a = 0, b = 0, c = 0;
    assert_true(budget_take(r, &a, 8 * MIB, 0));
    assert_true(budget_take(r, &b, 4 * MIB, 0));
    assert_false(budget_take(r, &c, MIB, 0));
    assert_int_equal(c, 0);
    assert_int_equal(budget_used(r), 12 * MIB);
    budget_set(r, &a, 0);
    assert_true(budget_take(r, &c, 8 * MIB, 0));
    budget_set(r, &b, 0);
    budget_set(r, &c, 0);
}

static void small_ones_have_a_quarter(void **state)
{
    struct memory_budget *r = *state;
    size_t large = 0, small[17] = {0};
    assert_true(budget_take(r, &large, 100 * MIB, 0)); // no other client was there
    for (int i = 0; i < 16; i++)
        assert_true(budget_left(r) && budget_take(r, &small[i], BUDGET_SMALL, 0));
    assert_false(budget_left(r));
    assert_false(budget_take(r, &small[16], 1, 0));
    budget_set(r, &large, 0);
    assert_false(budget_take(r, &small[16], 1, 0));
    for (int i = 0; i < 16; i++)
        budget_set(r, &small[i], 0);
}

static void a_part_grows_and_shrinks(void **state)
{
    struct memory_budget *r = *state;
    size_t a = 0, b = 0;
    assert_true(budget_take(r, &a, 1000, 0));
    assert_true(budget_take(r, &b, 8 * MIB, 0));
    assert_false(budget_take(r, &a, 5 * MIB, 0));
    assert_int_equal(a, 1000);
    assert_true(budget_take(r, &a, 4 * MIB, 0)); // from small to large
    assert_int_equal(budget_used(r), 12 * MIB);
    assert_true(budget_take(r, &a, MIB, 0)); // it has more than that
    assert_int_equal(a, 4 * MIB);
    budget_set(r, &b, 0);
    assert_true(budget_take(r, &a, 100 * MIB, 0)); // alone
    budget_set(r, &a, 100);
    assert_int_equal(budget_used(r), 100);
    budget_set(r, &a, 0);
}

static void what_is_there_already_is_counted_in_any_case(void **state)
{
    struct memory_budget *r = *state;
    size_t a = 0, b = 0;
    budget_set(r, &a, 20 * MIB);
    budget_set(r, &b, 20 * MIB);
    assert_int_equal(budget_used(r), 40 * MIB);
    budget_set(r, &a, 0);
    budget_set(r, &b, 0);
}

struct waiter {
    struct memory_budget *budget;
    size_t part;
    bool taken;
};

static void *wait_for(void *arg)
{
    struct waiter *w = arg;
    w->taken = budget_take(w->budget, &w->part, 8 * MIB, 60000);
    return NULL;
}

static void a_waiter_gets_the_bytes_that_are_given_back(void **state)
{
    struct waiter w = {.budget = *state};
    pthread_t thread;
    size_t a = 0;
    assert_true(budget_take(w.budget, &a, 8 * MIB, 0));
    assert_int_equal(pthread_create(&thread, NULL, wait_for, &w), 0);
    budget_set(w.budget, &a, 0);
    (void)pthread_join(thread, NULL);
    assert_true(w.taken);
    assert_true(budget_take(w.budget, &a, 4 * MIB, 0));
    assert_false(budget_take(w.budget, &a, 5 * MIB, 20));
    budget_set(w.budget, &a, 0);
    budget_set(w.budget, &w.part, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(large_ones_have_three_quarters),
        TEST(small_ones_have_a_quarter),
        TEST(a_part_grows_and_shrinks),
        TEST(what_is_there_already_is_counted_in_any_case),
        TEST(a_waiter_gets_the_bytes_that_are_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
