// SPDX-License-Identifier: Apache-2.0
// Memory that is never NULL: nothing asked gives something, too much asked ends the process.
#include "base/memory.h"

#include "unit.h"

#include <string.h>

static void nothing_asked_is_still_memory(void **state)
{
    (void)state;
    void *a = memory_new(0);
    void *b = memory_zeroed(0, 8);
    void *c = memory_resize(NULL, 0);
    assert_true(a && b && c);
    memory_free(a);
    memory_free(b);
    memory_free(c);
    memory_free(NULL);
}

static void zeroed_memory_is_zero(void **state)
{
    (void)state;
    static const uint8_t zeros[64];
    uint8_t *p = memory_zeroed(8, 8);
    assert_memory_equal(p, zeros, 64);
    memory_free(p);
}

static void resize_keeps_the_bytes(void **state)
{
    (void)state;
    char *p = memory_new(4);
    memcpy(p, "abc", 4);
    p = memory_resize(p, 4096);
    assert_string_equal(p, "abc");
    memory_free(p);
}

static void ask_too_much(void)
{
    volatile size_t count = SIZE_MAX / 4;
    memory_free(memory_zeroed(count, 8)); // count * size wraps: calloc must notice
}

static void running_out_aborts(void **state)
{
    (void)state;
    assert_true(aborts(ask_too_much));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_asked_is_still_memory),
        cmocka_unit_test(zeroed_memory_is_zero),
        cmocka_unit_test(resize_keeps_the_bytes),
        cmocka_unit_test(running_out_aborts),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
