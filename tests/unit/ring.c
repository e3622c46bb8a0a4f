// SPDX-License-Identifier: Apache-2.0
// The ring beside a count of what is in it, while it wraps and grows.
#include "base/ring.h"

#include "base/rng.h"
#include "unit.h"

#define STEPS 5000

static void rows_leave_in_the_order_in_which_they_came(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 1);
    struct ring r = {0};
    uint32_t *rows = NULL;
    uint32_t first = 0, next = 0;
    for (size_t step = 0; step < STEPS; step++) {
        if (rng_below(&rng, 5) < 3) {
            *RING_ADD(&r, rows) = next++;
        } else if (r.len > 0) {
            uint32_t count = 1 + (uint32_t)rng_below(&rng, r.len < 3 ? r.len : 3);
            ring_drop(&r, count);
            first += count;
        }
        assert_int_equal(r.len, next - first);
        for (uint32_t i = 0; i < r.len; i++)
            assert_int_equal(*RING_AT(&r, rows, i), first + i);
    }
    assert_true(next > 2 * r.cap); // it has wrapped
    ring_drop(&r, r.len);
    assert_int_equal(r.len, 0);
    memory_free(rows);
}

static void drop_more_than_there_are(void)
{
    struct ring r = {0};
    char *rows = NULL;
    *RING_ADD(&r, rows) = 'x';
    ring_drop(&r, 2);
}

static void look_behind_the_end(void)
{
    struct ring r = {0};
    char *rows = NULL;
    *RING_ADD(&r, rows) = 'x';
    *RING_AT(&r, rows, 1) = 'y';
}

static void only_rows_in_the_ring_are_found_or_dropped(void **state)
{
    (void)state;
    assert_true(aborts(drop_more_than_there_are));
    assert_true(aborts(look_behind_the_end));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_leave_in_the_order_in_which_they_came),
        cmocka_unit_test(only_rows_in_the_ring_are_found_or_dropped),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
