// SPDX-License-Identifier: Apache-2.0
// Digits: the same that printf writes, and nothing else is read.
#include "unit.h"

#include "base/digits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const uint64_t numbers[] = {0,          1,          9,          10,
                                   99,         100,        255,        UINT32_MAX,
                                   INT64_MAX,  UINT64_MAX, 1ULL << 63, 10000000000000000000ULL,
                                   9999999999, 4096};

static void numbers_are_written_as_printf_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char right[32], made[32];
        (void)snprintf(right, sizeof right, "%" PRIu64, numbers[i]);
        *digits_put(made, numbers[i]) = '\0';
        assert_string_equal(made, right);
        assert_true(strlen(made) <= DIGITS_MAX);
        (void)snprintf(right, sizeof right, "%016" PRIx64, numbers[i]);
        *digits_put_hex64(made, numbers[i]) = '\0';
        assert_string_equal(made, right);
    }
}

static void every_byte_comes_back_from_its_digits(void **state)
{
    (void)state;
    uint8_t all[256], back[256];
    char text[2 * sizeof all + 1];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (uint8_t)i;
    *digits_put_hex(text, all, sizeof all) = '\0';
    assert_int_equal(strlen(text), 2 * sizeof all);
    assert_memory_equal(text + 2 * 0xa7, "a7", 2);
    assert_true(digits_read_hex(text, back, sizeof back));
    assert_memory_equal(back, all, sizeof all);
    assert_true(digits_read_hex("AbcDEF09", back, 4));
    assert_memory_equal(back, "\xab\xcd\xef\x09", 4);
    assert_true(digits_read_hex("", back, 0));
}

// Each character in each place of two bytes: sixteen values in two cases are read, no other.
static void what_is_not_a_digit_is_not_read(void **state)
{
    (void)state;
    uint8_t out[2];
    for (size_t place = 0; place < 4; place++) {
        size_t read = 0;
        for (int c = 0; c < 256; c++) {
            char text[5] = "12ab";
            text[place] = (char)c;
            read += digits_read_hex(text, out, 2);
        }
        assert_int_equal(read, 22);
    }
    static const char *const wrong[] = {"", "1", "12a", "12abc", "12ab ", " 12ab", "+1ab", "0x12"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(digits_read_hex(wrong[i], out, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_written_as_printf_does),
        cmocka_unit_test(every_byte_comes_back_from_its_digits),
        cmocka_unit_test(what_is_not_a_digit_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
