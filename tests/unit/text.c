// SPDX-License-Identifier: Apache-2.0
// Copies of texts into arrays.
#include "base/text.h"

#include "unit.h"

#include <string.h>

static void a_text_that_fits_is_copied_whole(void **state)
{
    (void)state;
    char to[4];
    assert_true(text_copy(to, sizeof to, "abc"));
    assert_string_equal(to, "abc");
    assert_true(text_copy(to, sizeof to, ""));
    assert_string_equal(to, "");
    assert_true(text_copy_len(to, sizeof to, "xyz", 2));
    assert_string_equal(to, "xy");
}

static void a_text_that_is_too_long_is_cut(void **state)
{
    (void)state;
    char to[4];
    assert_false(text_copy(to, sizeof to, "abcd"));
    assert_string_equal(to, "abc");
    assert_false(text_copy(to, 1, "a"));
    assert_string_equal(to, "");
}

static void no_text_is_an_empty_one(void **state)
{
    (void)state;
    char to[4] = "abc";
    assert_true(text_copy(to, sizeof to, NULL));
    assert_string_equal(to, "");
}

static void copy_into_nothing(void)
{
    char to[1];
    (void)text_copy(to, 0, "");
}

static void a_copy_has_room_for_its_end(void **state)
{
    (void)state;
    assert_true(aborts(copy_into_nothing));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_that_fits_is_copied_whole),
        cmocka_unit_test(a_text_that_is_too_long_is_cut),
        cmocka_unit_test(no_text_is_an_empty_one),
        cmocka_unit_test(a_copy_has_room_for_its_end),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
