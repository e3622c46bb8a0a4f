// SPDX-License-Identifier: Apache-2.0
// The array: its growth, its limits, rows added and removed in the middle.
#include "base/array.h"

#include "unit.h"

#define ROWS 1000

static void rows_stay_in_order_while_the_array_grows(void **state)
{
    (void)state;
    uint32_t *rows = NULL;
    uint32_t len = 0, cap = 0;
    for (uint32_t i = 0; i < ROWS; i++)
        *ARRAY_ADD(rows, len, cap) = i;
    assert_int_equal(len, ROWS);
    assert_true(cap >= ROWS && cap < 2 * ROWS + 16);
    for (uint32_t i = 0; i < ROWS; i++)
        assert_int_equal(rows[i], i);
    memory_free(rows);
}

static void room_is_made_once_for_many_rows(void **state)
{
    (void)state;
    char *rows = NULL;
    size_t len = 0, cap = 0;
    (void)ARRAY_ROOM(rows, len, cap, 100);
    const char *before = rows;
    for (size_t i = 0; i < 100; i++)
        *ARRAY_ADD(rows, len, cap) = 'x';
    assert_ptr_equal(rows, before);
    assert_int_equal(cap, 100);
    memory_free(rows);
}

static void a_row_is_inserted_and_removed_anywhere(void **state)
{
    (void)state;
    for (size_t at = 0; at <= 3; at++) {
        int *rows = NULL;
        size_t len = 0, cap = 0;
        for (int i = 0; i < 3; i++)
            *ARRAY_ADD(rows, len, cap) = i;
        *ARRAY_INSERT(rows, len, cap, at) = 9;
        assert_int_equal(len, 4);
        for (size_t i = 0; i < len; i++)
            assert_int_equal(rows[i], i == at ? 9 : (int)(i < at ? i : i - 1));
        ARRAY_REMOVE(rows, len, at, 1);
        assert_int_equal(len, 3);
        for (int i = 0; i < 3; i++)
            assert_int_equal(rows[i], i);
        ARRAY_REMOVE(rows, len, 0, 2);
        assert_int_equal(len, 1);
        assert_int_equal(rows[0], 2);
        memory_free(rows);
    }
}

static void nothing_is_removed_from_an_array_without_rows(void **state)
{
    (void)state;
    int *rows = NULL;
    size_t len = 0;
    ARRAY_REMOVE(rows, len, 0, 0);
    assert_int_equal(len, 0);
}

static void remove_too_many(void)
{
    int rows[] = {1, 2};
    size_t len = 2;
    ARRAY_REMOVE(rows, len, 1, 2);
}

static void rows_above_the_type_of_the_capacity(void)
{
    (void)array_cap(UINT32_MAX, (size_t)UINT32_MAX + 1, 1, UINT32_MAX);
}

static void more_bytes_than_an_address_has(void)
{
    (void)array_cap(16, SIZE_MAX / 8 + 1, 8, SIZE_MAX);
}

static void a_limit_that_is_passed_ends_the_process(void **state)
{
    (void)state;
    assert_true(aborts(remove_too_many));
    assert_true(aborts(rows_above_the_type_of_the_capacity));
    assert_true(aborts(more_bytes_than_an_address_has));
    assert_int_equal(array_cap(200, 201, 1, UINT8_MAX), UINT8_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_stay_in_order_while_the_array_grows),
        cmocka_unit_test(room_is_made_once_for_many_rows),
        cmocka_unit_test(a_row_is_inserted_and_removed_anywhere),
        cmocka_unit_test(nothing_is_removed_from_an_array_without_rows),
        cmocka_unit_test(a_limit_that_is_passed_ends_the_process),
    };
    return cmocka_run_group_tests_name("array", tests, NULL, NULL);
}
