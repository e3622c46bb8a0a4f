// SPDX-License-Identifier: Apache-2.0
// Sets of numbers, compared with a plain table of truth values.
#include "import/ids.h"

#include "base/rng.h"
#include "unit.h"

#include <string.h>

#define NUMBERS 200

static void neighbours_become_one_range(void **state)
{
    (void)state;
    struct ids s CLEANUP(ids_done) = {0};
    ids_add(&s, 5);
    ids_add(&s, 7);
    assert_int_equal(s.len, 2);
    ids_add(&s, 6);
    assert_int_equal(s.len, 1);
    assert_int_equal(s.count, 3);
    assert_int_equal(s.ranges[s.len - 1].last, 7);
    ids_cut(&s, 6, 6);
    assert_int_equal(s.len, 2);
    assert_false(ids_has(&s, 6));
}

static void equal_to(const struct ids *s, const bool *truth)
{
    uint64_t count = 0;
    for (uint64_t id = 0; id < NUMBERS; id++) {
        assert_int_equal(ids_has(s, id), truth[id]);
        count += truth[id];
    }
    assert_int_equal(s->count, count);
    for (size_t i = 1; i < s->len; i++)
        assert_true(s->ranges[i - 1].last + 1 < s->ranges[i].first);
}

static void any_changes_give_the_set_of_a_plain_table(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 7);
    for (int round = 0; round < 200; round++) {
        struct ids s CLEANUP(ids_done) = {0};
        bool truth[NUMBERS] = {false};
        for (int step = 0; step < 60; step++) {
            uint64_t first = rng_below(&rng, NUMBERS), len = rng_below(&rng, 12);
            uint64_t last = first + len < NUMBERS ? first + len : NUMBERS - 1;
            bool add = rng_below(&rng, 3) > 0;
            if (add)
                ids_add_range(&s, first, last);
            else
                ids_cut(&s, first, last);
            for (uint64_t id = first; id <= last; id++)
                truth[id] = add;
            equal_to(&s, truth);
        }
        struct buf text CLEANUP(buf_done);
        struct ids again CLEANUP(ids_done) = {0};
        buf_init(&text, 65536);
        ids_write(&s, &text);
        assert_true(ids_read(&again, buf_bytes(&text)));
        equal_to(&again, truth);
    }
}

static void text_that_is_no_set_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "1-",
                                        "-1",
                                        "3-2",
                                        "1,,2",
                                        "1, 2",
                                        "a",
                                        "18446744073709551616",
                                        "1-2-3",
                                        "0-18446744073709551615",
                                        "18446744073709551615"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ids s CLEANUP(ids_done) = {0};
        if (ids_read(&s, bytes_str(wrong[i]))) fail_msg("accepted: \"%s\"", wrong[i]);
    }
    struct ids s CLEANUP(ids_done) = {0};
    assert_true(ids_read(&s, bytes_str("-")));
    assert_int_equal(s.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_become_one_range),
        cmocka_unit_test(any_changes_give_the_set_of_a_plain_table),
        cmocka_unit_test(text_that_is_no_set_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
