// SPDX-License-Identifier: Apache-2.0
// The store's time as this process knows it.
#include "runner/store_clock.h"
#include "../unit/unit.h"
#include "base/rng.h"

static const struct interval nothing_told = {TIME_UNKNOWN, TIME_NEVER};

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
    struct interval async = store_clock_now(&c, 1000 + 3600 * 1000);
    assert_true(soon.hi - soon.lo <= 4);
    // 200 ppm of an hour are 720 ms, to either side.
    assert_in_range(async.hi - async.lo, 2 * 720, 2 * 722);
    assert_in_range(async.lo, 9000 + 3600 * 1000 - 722, 9000 + 3600 * 1000);
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

// True time is in microseconds, so that two clocks may drift against it.
struct server {
    struct rng rng;
    int64_t skew_ms;          // store time minus local time at the beginning
    int64_t drift_ppm;        // of the store's clock against ours
    int64_t refresh_ms;       // the Date is made so often; 0: for each answer
    bool irregular;           // ... or sooner
    int64_t made_until, date; // the one that is cached
};

static int64_t store_ms(const struct server *s, int64_t local_us)
{
    return (local_us + local_us / 1000000 * s->drift_ppm) / 1000 + s->skew_ms;
}

static int64_t date_of(struct server *s, int64_t local_us)
{
    int64_t now = store_ms(s, local_us);
    if (now >= s->made_until) {
        s->date = now / 1000 * 1000;
        s->made_until = now + (s->irregular ? rng_range(&s->rng, 1, s->refresh_ms) : s->refresh_ms);
    }
    return s->date;
}

// One request of 2 to 12 ms at about local_ms; returns when it has ended.
static int64_t ask(struct server *s, struct store_clock *c, int64_t local_ms)
{
    int64_t there = local_ms * 1000 + rng_range(&s->rng, 1000, 6000);
    int64_t back = there + rng_range(&s->rng, 1000, 6000);
    int64_t date = date_of(s, there);
    store_clock_note(c, local_ms, back / 1000, (struct interval){date, date + 999});
    return back / 1000;
}

static bool is_right(const struct server *s, const struct store_clock *c, int64_t local_ms)
{
    struct interval now = store_clock_now(c, local_ms);
    int64_t truth = store_ms(s, local_ms * 1000);
    return now.lo <= truth && truth - s->refresh_ms <= now.hi;
}

// Asks for a while, every pause_ms on average.
static struct store_clock follow(struct server *s, int64_t pause_ms, int64_t run_ms, int64_t *local)
{
    struct store_clock c = {0};
    int64_t begin = 5000000;
    *local = begin;
    s->made_until = 0;
    while (*local < begin + run_ms) {
        *local = ask(s, &c, *local);
        if (!is_right(s, &c, *local))
            fail_msg("wrong at +%d ms: skew %d, drift %d ppm", (int)(*local - begin),
                     (int)s->skew_ms, (int)s->drift_ppm);
        *local += rng_range(&s->rng, 0, 2 * pause_ms);
        assert_true(is_right(s, &c, *local));
    }
    return c;
}

static int64_t width_after(struct server *s, int64_t pause_ms, int64_t run_ms)
{
    int64_t local;
    struct store_clock c = follow(s, pause_ms, run_ms, &local);
    struct interval now = store_clock_now(&c, local);
    return now.hi - now.lo;
}

// The wall clock is nowhere in this: an hour is a skew like any other.
static void whole_seconds_are_enough_to_know_the_time_whatever_the_skew(void **state)
{
    (void)state;
    static const int64_t skews[] = {0, 1, 999, 3600000, -3600000, 1700000000123};
    for (size_t i = 0; i < sizeof skews / sizeof *skews; i++)
        for (int64_t drift = -200; drift <= 200; drift += 100) {
            struct server s = {.skew_ms = skews[i], .drift_ppm = drift};
            rng_init(&s.rng, 1 + i);
            assert_in_range(width_after(&s, 10, 60000), 0, 60);
            assert_in_range(width_after(&s, 700, 600000), 0, 1100);
        }
}

// Rounding the drift up at each answer would forget in a second what a second's change has taught.
static void thousands_of_answers_do_not_wear_the_bounds_off(void **state)
{
    (void)state;
    struct store_clock c = {0};
    int64_t skew = 500000;
    for (int64_t at = 0; at < 3000; at++) {
        int64_t second = (at + skew) / 1000 * 1000;
        store_clock_note(&c, at, at, (struct interval){second, second + 999});
        struct interval now = store_clock_now(&c, at);
        if (at > 2000) assert_true(now.hi - now.lo < 10);
    }
}

// However it caches, the error is never larger than the age of what it tells; and one that does it
// irregularly is found out, after which there is no error at all.
static void date_that_is_made_once_a_second_is_seen_through(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++)
        for (int64_t refresh = 100; refresh <= 1000; refresh += 300) {
            struct server s = {.skew_ms = 1000 * (int64_t)seed + 37,
                               .refresh_ms = refresh,
                               .irregular = seed % 2 == 0};
            rng_init(&s.rng, seed);
            int64_t local;
            struct store_clock c = follow(&s, 20, 60000, &local);
            if (!s.irregular) continue;
            assert_int_equal(c.lag, 1000);
            s.refresh_ms = 0; // no excuse any more
            assert_true(is_right(&s, &c, local));
        }
}

static void honest_server_is_not_taken_for_one_that_caches(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct server s = {.skew_ms = 77, .drift_ppm = 100};
        rng_init(&s.rng, seed);
        struct store_clock c = {0};
        for (int64_t local = 1000000; local < 1200000;)
            local = ask(&s, &c, local) + rng_range(&s.rng, 0, 400);
        assert_int_equal(c.lag, 0);
    }
}

static void ask_before_any_answer(void)
{
    struct store_clock c = {0};
    (void)store_clock_now(&c, 1);
}

static void no_caller_reads_the_clock_before_the_first_answer(void **state)
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
        cmocka_unit_test(whole_seconds_are_enough_to_know_the_time_whatever_the_skew),
        cmocka_unit_test(thousands_of_answers_do_not_wear_the_bounds_off),
        cmocka_unit_test(date_that_is_made_once_a_second_is_seen_through),
        cmocka_unit_test(honest_server_is_not_taken_for_one_that_caches),
        cmocka_unit_test(no_caller_reads_the_clock_before_the_first_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
