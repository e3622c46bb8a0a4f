// SPDX-License-Identifier: Apache-2.0
// The slab: numbers are used again, row 0 is none, a new row is zero.
#include "base/slab.h"

#include "unit.h"

struct seat {
    uint64_t a, b;
};

static void numbers_begin_at_one_and_are_used_again(void **state)
{
    (void)state;
    struct slab s = {0};
    struct seat *rows = NULL;
    for (uint32_t i = 1; i <= 100; i++) {
        assert_int_equal(SLAB_ADD(&s, rows), i);
        assert_int_equal(rows[i].a | rows[i].b, 0);
        rows[i] = (struct seat){i, i};
    }
    assert_int_equal(rows[0].a | rows[0].b, 0);
    SLAB_DROP(&s, rows, 7);
    SLAB_DROP(&s, rows, 90);
    assert_int_equal(s.used, 98);
    assert_int_equal(rows[7].a | rows[7].b, 0);
    assert_int_equal(SLAB_ADD(&s, rows), 90);
    assert_int_equal(SLAB_ADD(&s, rows), 7);
    assert_int_equal(SLAB_ADD(&s, rows), 101);
    assert_int_equal(rows[7].a | rows[90].b | rows[101].a, 0);
    assert_int_equal(rows[8].a, 8);
    assert_int_equal(s.len, 102);
    SLAB_DONE(&s, rows);
    assert_null(rows);
    assert_int_equal(SLAB_ADD(&s, rows), 1);
    SLAB_DONE(&s, rows);
}

static void drop_none(void)
{
    struct slab s = {0};
    struct seat *rows = NULL;
    (void)SLAB_ADD(&s, rows);
    SLAB_DROP(&s, rows, 0);
}

static void drop_too_often(void)
{
    struct slab s = {0};
    struct seat *rows = NULL;
    uint32_t row = SLAB_ADD(&s, rows);
    SLAB_DROP(&s, rows, row);
    SLAB_DROP(&s, rows, row);
}

static void only_a_row_in_use_is_dropped(void **state)
{
    (void)state;
    assert_true(aborts(drop_none));
    assert_true(aborts(drop_too_often));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_begin_at_one_and_are_used_again),
        cmocka_unit_test(only_a_row_in_use_is_dropped),
    };
    return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}
