// SPDX-License-Identifier: Apache-2.0
// Retries, slowing down, reading ahead, looking again: decisions with the time handed in.
#include "store/s3/ahead.h"
#include "store/s3/pace.h"
#include "store/s3/polls.h"
#include "unit.h"

#define FAR 1000000000

static int64_t retry(struct s3_pace *p, int tries, struct rng *rng)
{
    return s3_pace_retry(p, tries, 0, 0, FAR, rng);
}

static void retries_are_drawn_from_a_range_that_doubles_to_a_cap(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 1);
    int64_t cap = S3_RETRY_FIRST_MS;
    for (int tries = 1; tries < 40; tries++) {
        int64_t low = FAR, high = -1;
        for (int i = 0; i < 200; i++) {
            struct s3_pace p;
            s3_pace_init(&p);
            int64_t wait = retry(&p, tries, &rng);
            if (wait < low) low = wait;
            if (wait > high) high = wait;
        }
        assert_in_range(low, 0, cap / 8); // full jitter: also very soon
        assert_in_range(high, cap - cap / 8, cap);
        cap = cap * 2 < S3_RETRY_MAX_MS ? cap * 2 : S3_RETRY_MAX_MS;
    }
}

static void retry_after_is_obeyed_and_the_deadline_too(void **state)
{
    (void)state;
    struct rng rng;
    struct s3_pace p;
    rng_init(&rng, 1);
    s3_pace_init(&p);
    int64_t wait = s3_pace_retry(&p, 1, 3000, 1000, 10000, &rng);
    assert_in_range(wait, 3000, 3000 + S3_RETRY_FIRST_MS);
    assert_int_equal(s3_pace_retry(&p, 1, 9000, 1000, 10000, &rng), -1);
    assert_int_equal(s3_pace_retry(&p, 1, 0, 10000, 10000, &rng), -1);
}

static void the_budget_ends_retries_and_successes_fill_it(void **state)
{
    (void)state;
    struct rng rng;
    struct s3_pace p;
    rng_init(&rng, 1);
    s3_pace_init(&p);
    for (int i = 0; i < S3_BUDGET_MAX / S3_BUDGET_RETRY; i++)
        assert_true(retry(&p, 1, &rng) >= 0);
    assert_int_equal(retry(&p, 1, &rng), -1);
    for (int i = 0; i < S3_BUDGET_RETRY; i++)
        s3_pace_good(&p);
    assert_true(retry(&p, 1, &rng) >= 0);
    assert_int_equal(retry(&p, 1, &rng), -1);
    for (int i = 0; i < 3 * S3_BUDGET_MAX; i++)
        s3_pace_good(&p);
    assert_int_equal(p.budget, S3_BUDGET_MAX);
}

static void requests_are_not_held_back_until_the_store_says_so(void **state)
{
    (void)state;
    struct s3_pace p;
    s3_pace_init(&p);
    for (int i = 0; i < 100; i++)
        assert_int_equal(s3_pace_admit(&p, 77), 77);
    s3_pace_slow(&p, 1000);
    assert_int_equal(s3_pace_admit(&p, 1000), 1000 + S3_GAP_FIRST_MS);
    assert_int_equal(s3_pace_admit(&p, 1000), 1000 + 2 * S3_GAP_FIRST_MS); // the handle shares it
    assert_int_equal(s3_pace_admit(&p, 5000), 5000);
}

static void one_wave_of_refusals_is_one_step(void **state)
{
    (void)state;
    struct s3_pace p;
    s3_pace_init(&p);
    for (int i = 0; i < 32; i++)
        s3_pace_slow(&p, 1000 + i);
    assert_int_equal(p.gap_ms, S3_GAP_FIRST_MS);
    s3_pace_slow(&p, 1000 + S3_GAP_STEP_MS);
    assert_int_equal(p.gap_ms, 2 * S3_GAP_FIRST_MS);
    for (int i = 2; i < 20; i++)
        s3_pace_slow(&p, 1000 + i * S3_GAP_STEP_MS);
    assert_int_equal(p.gap_ms, S3_GAP_MAX_MS);
}

static void answers_bring_the_speed_back(void **state)
{
    (void)state;
    struct s3_pace p;
    s3_pace_init(&p);
    for (int i = 0; i < 20; i++)
        s3_pace_slow(&p, i * S3_GAP_STEP_MS);
    int good = 0;
    for (; p.gap_ms > 0; good++) {
        int64_t before = p.gap_ms;
        s3_pace_good(&p);
        assert_true(p.gap_ms < before);
    }
    assert_in_range(good, 10, 100);
    assert_int_equal(s3_pace_admit(&p, 9), 9);
}

static size_t read_full(struct s3_readahead *a, uint64_t *slot)
{
    size_t asked = s3_ahead_plan(a, 1, *slot, 1 << 20);
    s3_ahead_note(a, 1, *slot, asked, asked, asked, asked * 100);
    *slot += asked;
    return asked;
}

static void a_replay_doubles_to_its_limit(void **state)
{
    (void)state;
    struct s3_readahead a = {0};
    uint64_t slot = 1;
    static const size_t want[] = {1, 2, 4, 8, 16, 32, 32, 32};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(read_full(&a, &slot), want[i]);
}

static void a_look_at_the_tail_is_one_request(void **state)
{
    (void)state;
    struct s3_readahead a = {0};
    uint64_t slot = 1;
    for (int i = 0; i < 6; i++)
        (void)read_full(&a, &slot);
    assert_int_equal(s3_ahead_plan(&a, 1, slot, 1 << 20), 32);
    s3_ahead_note(&a, 1, slot, 32, 3, 3, 300); // the tail is three further
    slot += 3;
    for (size_t i = 0; i < 20; i++) { // follows it: nothing, then one, then nothing ...
        assert_int_equal(s3_ahead_plan(&a, 1, slot, 1 << 20), 1);
        size_t found = i % 2;
        s3_ahead_note(&a, 1, slot, 1, found, found, found * 100);
        slot += found;
    }
}

static void a_reader_that_jumps_starts_over(void **state)
{
    (void)state;
    struct s3_readahead a = {0};
    uint64_t slot = 1;
    for (int i = 0; i < 6; i++)
        (void)read_full(&a, &slot);
    assert_int_equal(s3_ahead_plan(&a, 1, slot + 1, 1 << 20), 1);
    assert_int_equal(s3_ahead_plan(&a, 2, slot, 1 << 20), 1);
    uint64_t other = 5000; // another reader of the same log does not disturb the first
    assert_int_equal(read_full(&a, &other), 1);
    assert_int_equal(read_full(&a, &other), 2);
    assert_int_equal(s3_ahead_plan(&a, 1, slot, 1 << 20), 32);
}

static void bytes_bound_what_is_asked_for(void **state)
{
    (void)state;
    struct s3_readahead a = {0};
    uint64_t slot = 1;
    for (int i = 0; i < 6; i++)
        (void)read_full(&a, &slot); // slots of 100 bytes
    assert_int_equal(s3_ahead_plan(&a, 1, slot, 1010), 10);
    assert_int_equal(s3_ahead_plan(&a, 1, slot, 50), 1);
    assert_int_equal(s3_ahead_plan(&a, 1, slot, 0), 1);
    s3_ahead_note(&a, 1, slot, 32, 32, 5, 32 * 200000); // suddenly large
    assert_in_range(s3_ahead_plan(&a, 1, slot + 5, 1 << 20), 1, 11);
}

static void looks_get_rarer_and_start_over_with_the_next_slot(void **state)
{
    (void)state;
    struct s3_polls p = {0};
    int64_t now = 1000, gap = S3_POLL_FIRST_MS;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(s3_polls_due(&p, 1, 7, now), now);
        s3_polls_note(&p, 1, 7, now);
        assert_int_equal(s3_polls_due(&p, 1, 7, now), now + gap);
        assert_int_equal(s3_polls_due(&p, 1, 7, now + gap - 1), now + gap); // across short waits
        now += gap;
        gap = gap + gap / 2 < S3_POLL_MAX_MS ? gap + gap / 2 : S3_POLL_MAX_MS;
    }
    assert_int_equal(gap, S3_POLL_MAX_MS);
    assert_int_equal(s3_polls_due(&p, 1, 8, now), now);
    s3_polls_note(&p, 1, 8, now);
    assert_int_equal(s3_polls_due(&p, 1, 8, now), now + S3_POLL_FIRST_MS);
}

static void what_we_know_ourselves_is_not_looked_for(void **state)
{
    (void)state;
    struct s3_polls p = {0};
    assert_false(s3_polls_tail(&p, 1, 8, 1000)); // no call waits in this log
    for (int i = 0; i < 20; i++)
        s3_polls_note(&p, 1, 7, 1000);
    assert_false(s3_polls_tail(&p, 1, 7, 1000)); // nothing new
    assert_false(s3_polls_tail(&p, 1, 3, 1000));
    assert_int_equal(s3_polls_due(&p, 1, 7, 1000), 1000 + S3_POLL_MAX_MS);
    assert_true(s3_polls_tail(&p, 1, 8, 1000));           // we wrote slot 7
    assert_int_equal(s3_polls_due(&p, 1, 7, 1000), 1000); // a waiting call reads at once
    assert_int_equal(s3_polls_due(&p, 1, 8, 1000), 1000 + S3_POLL_FIRST_MS);
    for (uint64_t next = 9; next < 100; next++) { // a busy writer need not look at all
        assert_true(s3_polls_tail(&p, 1, next, (int64_t)next * 20));
        assert_true(s3_polls_due(&p, 1, next, (int64_t)next * 20 + 19) > (int64_t)next * 20 + 19);
    }
}

static void more_logs_than_are_remembered_push_out_the_oldest(void **state)
{
    (void)state;
    struct s3_polls p = {0};
    for (uint64_t log = 1; log <= S3_POLLS_ROWS + 1; log++)
        s3_polls_note(&p, log, 7, 1000);
    assert_int_equal(s3_polls_due(&p, 1, 7, 1000), 1000);
    assert_true(s3_polls_due(&p, 2, 7, 1000) > 1000);
    assert_true(s3_polls_due(&p, S3_POLLS_ROWS + 1, 7, 1000) > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retries_are_drawn_from_a_range_that_doubles_to_a_cap),
        cmocka_unit_test(retry_after_is_obeyed_and_the_deadline_too),
        cmocka_unit_test(the_budget_ends_retries_and_successes_fill_it),
        cmocka_unit_test(requests_are_not_held_back_until_the_store_says_so),
        cmocka_unit_test(one_wave_of_refusals_is_one_step),
        cmocka_unit_test(answers_bring_the_speed_back),
        cmocka_unit_test(a_replay_doubles_to_its_limit),
        cmocka_unit_test(a_look_at_the_tail_is_one_request),
        cmocka_unit_test(a_reader_that_jumps_starts_over),
        cmocka_unit_test(bytes_bound_what_is_asked_for),
        cmocka_unit_test(looks_get_rarer_and_start_over_with_the_next_slot),
        cmocka_unit_test(what_we_know_ourselves_is_not_looked_for),
        cmocka_unit_test(more_logs_than_are_remembered_push_out_the_oldest),
    };
    return cmocka_run_group_tests_name("s3 pace", tests, NULL, NULL);
}
