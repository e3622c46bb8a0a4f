// SPDX-License-Identifier: Apache-2.0
// The store's time as this process knows it.
#include "node/store_clock.h"
#include "../unit/unit.h"

static const struct interval nothing_told = {TIME_DAWN, TIME_NEVER};

static void first_answer_bounds_the_clock(void **state)
{
    (void)state;
    struct store_clock c = {0};
    // Whole seconds, as S3 tells them, from a request that took 40 ms.
    store_clock_note(&c, 1000, 1040, (struct interval){500000, 500999});
    struct interval now = store_clock_now(&c, 1040);
    assert_in_range(now.lo, 499990, 500000); // sent at the earliest, answered at the latest
    assert_in_range(now.hi, 501039, 501050);
}

static void each_answer_narrows_the_interval(void **state)
{
    (void)state;
    struct store_clock c = {0};
    int64_t difference = 700000; // the store's clock minus ours, unknown to the clock
    int64_t width = 10000;
    for (int64_t at = 130; at < 1200; at += 130) {
        int64_t second = (at + difference) / 1000 * 1000;
        store_clock_note(&c, at - 3, at + 4, (struct interval){second, second + 999});
        struct interval now = store_clock_now(&c, at + 4);
        assert_true(now.lo <= at + 4 + difference && at + 4 + difference <= now.hi);
        assert_true(now.hi - now.lo <= width + 4); // rounding may cost a little, answers gain a lot
        width = now.hi - now.lo;
    }
    assert_true(width < 200);
}

static void drift_widens_what_is_known(void **state)
{
    (void)state;
    struct store_clock c = {0};
    store_clock_note(&c, 1000, 1000, (struct interval){9000, 9000});
    struct interval soon = store_clock_now(&c, 2000);
    struct interval later = store_clock_now(&c, 1000 + 3600 * 1000);
    assert_true(soon.hi - soon.lo <= 4);
    // 200 ppm of an hour are 720 ms, to either side.
    assert_in_range(later.hi - later.lo, 2 * 720, 2 * 722);
    assert_in_range(later.lo, 9000 + 3600 * 1000 - 722, 9000 + 3600 * 1000);
}

static void stepped_clock_replaces_what_was_known(void **state)
{
    (void)state;
    struct store_clock c = {0};
    store_clock_note(&c, 1000, 1001, (struct interval){9000, 9001});
    store_clock_note(&c, 2000, 2001, (struct interval){3610000, 3610001}); // an hour ahead
    struct interval now = store_clock_now(&c, 2001);
    assert_in_range(now.lo, 3609990, 3610001);
    assert_in_range(now.hi, 3610000, 3610010);
    store_clock_note(&c, 3000, 3001, (struct interval){11000, 11001}); // and back
    now = store_clock_now(&c, 3001);
    assert_in_range(now.lo, 10990, 11001);
    assert_in_range(now.hi, 11000, 11010);
}

static void answer_without_a_time_changes_nothing(void **state)
{
    (void)state;
    struct store_clock c = {0};
    store_clock_note(&c, 1000, 1001, nothing_told);
    assert_false(c.known);
    store_clock_note(&c, 1000, 1001, (struct interval){9000, 9001});
    struct store_clock before = c;
    store_clock_note(&c, 2000, 5001, nothing_told);
    assert_memory_equal(&before, &c, sizeof c);
}

// Two threads hand in their answers in the other order: time must not be thought to run backwards,
// nor the bounds to shrink by it.
static void answers_handed_in_out_of_order_stay_sound(void **state)
{
    (void)state;
    struct store_clock c = {0};
    int64_t difference = 8000;
    store_clock_note(&c, 61000, 61001, (struct interval){61000 + difference, 61001 + difference});
    store_clock_note(&c, 1000, 1001, (struct interval){1000 + difference, 1001 + difference});
    struct interval now = store_clock_now(&c, 61002);
    assert_true(now.lo <= 61002 + difference && 61002 + difference <= now.hi);
    struct interval earlier = store_clock_now(&c, 500);
    assert_true(earlier.lo <= 500 + difference && 500 + difference <= earlier.hi);
    assert_true(earlier.lo <= earlier.hi);
}

static void ask_before_any_answer(void)
{
    struct store_clock c = {0};
    (void)store_clock_now(&c, 1);
}

static void nobody_may_ask_before_the_first_answer(void **state)
{
    (void)state;
    assert_true(aborts(ask_before_any_answer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_answer_bounds_the_clock),
        cmocka_unit_test(each_answer_narrows_the_interval),
        cmocka_unit_test(drift_widens_what_is_known),
        cmocka_unit_test(stepped_clock_replaces_what_was_known),
        cmocka_unit_test(answer_without_a_time_changes_nothing),
        cmocka_unit_test(answers_handed_in_out_of_order_stay_sound),
        cmocka_unit_test(nobody_may_ask_before_the_first_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
