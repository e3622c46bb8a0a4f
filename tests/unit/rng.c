// SPDX-License-Identifier: Apache-2.0
// A seed must mean the same stream for ever: recorded seeds are how failures are replayed.
#include "base/rng.h"

#include "unit.h"

static void known_state_gives_the_published_stream(void **state)
{
    (void)state;
    // The reference implementation of xoshiro256** from the state 1, 2, 3, 4.
    static const uint64_t expected[] = {11520u, 0u, 1509978240u, 1215971899390074240u};
    struct rng r = {.s = {1, 2, 3, 4}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(rng_next(&r), expected[i]);
}

static void seed_gives_the_state_of_splitmix64(void **state)
{
    (void)state;
    // The first outputs of the reference splitmix64 from 0.
    static const uint64_t expected[4] = {0xe220a8397b1dcdafu, 0x6e789e6aa1b965f4u,
                                         0x06c45d188009454fu, 0xf88bb8a8724c81ecu};
    struct rng r;
    rng_init(&r, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(r.s[i], expected[i]);
}

static void same_seed_same_stream_other_seed_another(void **state)
{
    (void)state;
    struct rng a, b, c;
    rng_init(&a, 7);
    rng_init(&b, 7);
    rng_init(&c, 8);
    int same = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t x = rng_next(&a);
        assert_int_equal(x, rng_next(&b));
        same += x == rng_next(&c);
    }
    assert_int_equal(same, 0);
}

static void below_reaches_every_value_and_no_other(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 1);
    int seen[6] = {0};
    for (int i = 0; i < 6000; i++) {
        uint64_t x = rng_below(&r, 6);
        assert_true(x < 6);
        seen[x]++;
    }
    for (int i = 0; i < 6; i++)
        assert_in_range(seen[i], 800, 1200);
    assert_int_equal(rng_below(&r, 1), 0);
}

static void range_includes_both_ends_and_takes_negatives(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 2);
    bool low = false, high = false;
    for (int i = 0; i < 1000; i++) {
        int64_t x = rng_range(&r, -3, 3);
        assert_true(x >= -3 && x <= 3);
        low = low || x == -3;
        high = high || x == 3;
    }
    assert_true(low && high);
    assert_int_equal(rng_range(&r, 5, 5), 5);
}

static void chance_is_in_hundredths_of_a_percent(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 3);
    int hits = 0;
    for (int i = 0; i < 100000; i++) {
        assert_false(rng_chance(&r, 0));
        assert_true(rng_chance(&r, 10000));
        hits += rng_chance(&r, 100);
    }
    assert_in_range(hits, 900, 1100);
}

static void draw_below_nothing(void)
{
    struct rng r;
    rng_init(&r, 1);
    (void)rng_below(&r, 0);
}

static void draw_from_an_empty_range(void)
{
    struct rng r;
    rng_init(&r, 1);
    (void)rng_range(&r, 2, 1);
}

static void empty_choices_abort(void **state)
{
    (void)state;
    assert_true(aborts(draw_below_nothing));
    assert_true(aborts(draw_from_an_empty_range));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_state_gives_the_published_stream),
        cmocka_unit_test(seed_gives_the_state_of_splitmix64),
        cmocka_unit_test(same_seed_same_stream_other_seed_another),
        cmocka_unit_test(below_reaches_every_value_and_no_other),
        cmocka_unit_test(range_includes_both_ends_and_takes_negatives),
        cmocka_unit_test(chance_is_in_hundredths_of_a_percent),
        cmocka_unit_test(empty_choices_abort),
    };
    return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
