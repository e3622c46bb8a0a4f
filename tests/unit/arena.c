// SPDX-License-Identifier: Apache-2.0
// The arena: its blocks stay where they are until all are freed.
#include "base/arena.h"

#include "unit.h"

#include <string.h>

static void blocks_and_texts_stay_until_the_arena_ends(void **state)
{
    (void)state;
    struct arena a = {0};
    char *texts[100];
    for (size_t i = 0; i < 100; i++) {
        char digits[3] = {(char)('0' + i / 10), (char)('0' + i % 10), 0};
        texts[i] = arena_text(&a, digits);
        memset(arena_new(&a, i * 100), 0xff, i * 100);
    }
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(texts[i][0], '0' + i / 10);
        assert_string_equal(texts[i] + 1, ((char[]){(char)('0' + i % 10), 0}));
    }
    arena_done(&a);
    assert_null(a.blocks);
    arena_done(&a);
}

static void a_copy_ends_with_a_zero(void **state)
{
    (void)state;
    struct arena a = {0};
    const char *copy = arena_copy(&a, "abc", 2);
    assert_string_equal(copy, "ab");
    assert_string_equal(arena_copy(&a, NULL, 0), "");
    assert_null(arena_text(&a, NULL));
    arena_done(&a);
}

static void a_block_is_aligned_for_every_type(void **state)
{
    (void)state;
    struct arena a = {0};
    for (size_t len = 0; len < 40; len++)
        assert_int_equal((uintptr_t)arena_new(&a, len) % _Alignof(max_align_t), 0);
    arena_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_and_texts_stay_until_the_arena_ends),
        cmocka_unit_test(a_copy_ends_with_a_zero),
        cmocka_unit_test(a_block_is_aligned_for_every_type),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
