// SPDX-License-Identifier: Apache-2.0
// CHECK: silent when the fact holds, the end of the process when it does not, in every build.
#include "base/check.h"

#include "unit.h"

static void check_something_false(void)
{
    int two = 2;
    CHECK(two + two == 5);
}

static void check_something_true(void)
{
    int two = 2;
    CHECK(two + two == 4);
}

static void false_fact_aborts(void **state)
{
    (void)state;
    assert_true(aborts(check_something_false));
}

static void true_fact_does_nothing(void **state)
{
    (void)state;
    assert_false(aborts(check_something_true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(false_fact_aborts),
        cmocka_unit_test(true_fact_does_nothing),
    };
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
