// SPDX-License-Identifier: Apache-2.0
// Counts by bounds, alone and by several threads.
#include "unit.h"

#include "base/histogram.h"

#include <pthread.h>

static void a_value_counts_at_the_first_bound_that_is_not_under_it(void **state)
{
    (void)state;
    struct histogram all = {0};
    struct histogram_view h;
    const struct histogram_scale *scale = &histogram_sizes;
    histogram_add(&all, scale, 0);
    histogram_add(&all, scale, 1);
    histogram_add(&all, scale, 2);
    histogram_add(&all, scale, 3);
    histogram_add(&all, scale, 10000);
    histogram_add(&all, scale, 10001);
    histogram_read(&all, &h);
    assert_int_equal(h.counts[0], 2); // 0 and 1
    assert_int_equal(h.counts[1], 1); // 2
    assert_int_equal(h.counts[2], 1); // 3, under 5
    assert_int_equal(h.counts[scale->len - 1], 1);
    assert_int_equal(h.counts[HISTOGRAM_BOUNDS_MAX], 1); // above all
    assert_int_equal(h.sum, 20007);
}

static void bounds_rise(void **state)
{
    (void)state;
    const struct histogram_scale *const scales[] = {&histogram_latency, &histogram_sizes};
    for (size_t k = 0; k < 2; k++) {
        assert_true(scales[k]->len > 0 && scales[k]->len <= HISTOGRAM_BOUNDS_MAX);
        for (size_t i = 1; i < scales[k]->len; i++)
            assert_true(scales[k]->bounds[i - 1] < scales[k]->bounds[i]);
    }
}

#define TIMES 20000

static void *add_many(void *arg)
{
    for (uint64_t i = 0; i < TIMES; i++)
        histogram_add(arg, &histogram_sizes, i % 3);
    return NULL;
}

static void no_value_of_two_threads_is_lost(void **state)
{
    (void)state;
    struct histogram h = {0};
    struct histogram_view seen;
    pthread_t one, two;
    assert_int_equal(pthread_create(&one, NULL, add_many, &h), 0);
    assert_int_equal(pthread_create(&two, NULL, add_many, &h), 0);
    assert_int_equal(pthread_join(one, NULL), 0);
    assert_int_equal(pthread_join(two, NULL), 0);
    histogram_read(&h, &seen);
    assert_int_equal(seen.counts[0] + seen.counts[1], 2 * TIMES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_counts_at_the_first_bound_that_is_not_under_it),
        cmocka_unit_test(bounds_rise),
        cmocka_unit_test(no_value_of_two_threads_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
