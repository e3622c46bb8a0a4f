// SPDX-License-Identifier: Apache-2.0
// The heap beside a plain array: whatever is pushed and removed, the top is the smallest (key,
// tie).
#include "base/heap.h"

#include "base/rng.h"
#include "unit.h"

#define REFS 64

static void equal_keys_leave_in_the_order_of_their_ties(void **state)
{
    (void)state;
    struct heap h;
    heap_init(&h);
    for (uint32_t ref = 0; ref < 10; ref++)
        heap_push(&h, 5, 100 - ref, ref);
    for (uint32_t ref = 10; ref-- > 0;) {
        assert_int_equal(heap_top(&h)->ref, ref);
        heap_remove(&h, ref);
    }
    assert_null(heap_top(&h));
    heap_done(&h);
}

static void extreme_keys_are_ordered(void **state)
{
    (void)state;
    struct heap h;
    heap_init(&h);
    heap_push(&h, INT64_MAX, 0, 0);
    heap_push(&h, 0, 0, 1);
    heap_push(&h, INT64_MIN, 0, 2);
    assert_int_equal(heap_top(&h)->ref, 2);
    heap_remove(&h, 2);
    assert_int_equal(heap_top(&h)->ref, 1);
    heap_done(&h);
}

struct model {
    struct heap_row rows[REFS];
    bool present[REFS];
};

static const struct heap_row *model_top(const struct model *m)
{
    const struct heap_row *top = NULL;
    for (size_t i = 0; i < REFS; i++) {
        const struct heap_row *row = &m->rows[i];
        if (!m->present[i]) continue;
        if (!top || row->key < top->key || (row->key == top->key && row->tie < top->tie)) top = row;
    }
    return top;
}

static void assert_same(const struct heap *h, const struct model *m)
{
    const struct heap_row *expected = model_top(m);
    const struct heap_row *top = heap_top(h);
    assert_int_equal(top != NULL, expected != NULL);
    if (top) assert_int_equal(top->ref, expected->ref);
    for (uint32_t ref = 0; ref < REFS; ref++) {
        assert_int_equal(heap_has(h, ref), m->present[ref]);
        if (m->present[ref]) assert_int_equal(heap_get(h, ref)->key, m->rows[ref].key);
    }
}

static void any_pushes_and_removals_match_a_plain_search(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 1);
    struct heap h;
    heap_init(&h);
    struct model m = {0};
    for (uint64_t step = 0; step < 20000; step++) {
        uint32_t ref = (uint32_t)rng_below(&r, REFS);
        if (m.present[ref]) {
            heap_remove(&h, ref);
        } else {
            m.rows[ref] = (struct heap_row){.key = rng_range(&r, -5, 5), .tie = step, .ref = ref};
            heap_push(&h, m.rows[ref].key, step, ref);
        }
        m.present[ref] = !m.present[ref];
        assert_same(&h, &m);
    }
    heap_done(&h); // it can be used again
    assert_null(heap_top(&h));
    assert_false(heap_has(&h, 0));
    heap_done(&h);
}

static void push_twice(void)
{
    struct heap h;
    heap_init(&h);
    heap_push(&h, 1, 1, 7);
    heap_push(&h, 2, 2, 7);
}

static void remove_what_is_not_there(void)
{
    struct heap h;
    heap_init(&h);
    heap_remove(&h, 7);
}

static void misuse_aborts(void **state)
{
    (void)state;
    assert_true(aborts(push_twice));
    assert_true(aborts(remove_what_is_not_there));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_keys_leave_in_the_order_of_their_ties),
        cmocka_unit_test(extreme_keys_are_ordered),
        cmocka_unit_test(any_pushes_and_removals_match_a_plain_search),
        cmocka_unit_test(misuse_aborts),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
