// SPDX-License-Identifier: Apache-2.0
// When a caller runs its request inline, counted by hand.
#include "os/inline_policy.h"
#include "../unit/unit.h"

// A caller comes with one request. It performs the request itself (true), or the thread pool does.
static bool call(struct inline_policy *c, int64_t took_ms)
{
    inline_policy_arrived(c);
    inline_policy_requested(c);
    bool runs_inline = inline_policy_may_run(c);
    inline_policy_answered(c, took_ms);
    if (runs_inline) inline_policy_ended(c);
    return runs_inline;
}

static void make_quiet(struct inline_policy *c)
{
    for (int i = 0; i < INLINE_QUIET; i++)
        (void)call(c, 0);
    while (!call(c, 0)) {
    }
}

static void no_caller_runs_inline_before_a_quiet_time(void **state)
{
    (void)state;
    struct inline_policy c = {0};
    for (int i = 0; i < INLINE_QUIET; i++)
        assert_false(call(&c, 0));
    assert_true(call(&c, 0));
}

static void now_and_then_the_thread_pool_performs_one(void **state)
{
    (void)state;
    struct inline_policy c = {0};
    int runs_inline = 0;
    make_quiet(&c);
    for (int i = 0; i < 10 * INLINE_RUN; i++)
        runs_inline += call(&c, 0);
    assert_int_equal(runs_inline, 10 * (INLINE_RUN - 1));
}

static void a_caller_beside_a_request_ends_the_quiet_time(void **state)
{
    (void)state;
    struct inline_policy c = {0};
    make_quiet(&c);
    inline_policy_arrived(&c);
    inline_policy_requested(&c);
    inline_policy_arrived(&c);
    assert_false(inline_policy_may_run(&c));
    inline_policy_answered(&c, 0);
    for (int i = 1; i < INLINE_QUIET; i++)
        assert_false(call(&c, 0));
    assert_true(call(&c, 0) || call(&c, 0));
}

static void a_caller_without_a_request_does_not_count_as_joiner(void **state)
{
    (void)state;
    struct inline_policy c = {0};
    make_quiet(&c);
    for (int i = 0; i < 100; i++)
        inline_policy_arrived(&c);
    assert_true(call(&c, 0) || call(&c, 0));
}

static void no_caller_runs_inline_beside_another_request(void **state)
{
    (void)state;
    struct inline_policy c = {0};
    make_quiet(&c);
    inline_policy_requested(&c); // a snapshot
    inline_policy_requested(&c);
    assert_false(inline_policy_may_run(&c));
    inline_policy_dropped(&c, 1);
    assert_true(inline_policy_may_run(&c));
}

static void no_caller_runs_inline_until_the_store_is_fast_again(void **state)
{
    (void)state;
    struct inline_policy c = {0};
    make_quiet(&c);
    (void)call(&c, INLINE_QUICK_MS);
    assert_false(call(&c, INLINE_QUICK_MS));
    assert_false(call(&c, 0));
    assert_true(call(&c, 0) || call(&c, 0));
}

static void one_caller_runs_inline_at_a_time(void **state)
{
    (void)state;
    struct inline_policy c = {0};
    make_quiet(&c);
    inline_policy_requested(&c);
    assert_true(inline_policy_may_run(&c));
    inline_policy_answered(&c, 0);
    for (int i = 0; i < 2; i++) { // the caller is not back yet
        assert_false(call(&c, 0));
    }
    inline_policy_ended(&c);
    assert_true(call(&c, 0) || call(&c, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_caller_runs_inline_before_a_quiet_time),
        cmocka_unit_test(now_and_then_the_thread_pool_performs_one),
        cmocka_unit_test(a_caller_beside_a_request_ends_the_quiet_time),
        cmocka_unit_test(a_caller_without_a_request_does_not_count_as_joiner),
        cmocka_unit_test(no_caller_runs_inline_beside_another_request),
        cmocka_unit_test(no_caller_runs_inline_until_the_store_is_fast_again),
        cmocka_unit_test(one_caller_runs_inline_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
