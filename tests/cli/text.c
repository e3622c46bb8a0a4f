// SPDX-License-Identifier: Apache-2.0
// Durations, times and numbers, in and out.
#include "cli/text.h"
#include "base/duration.h"
#include "cli/table.h"
#include "unit.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static void durations_are_written(void **state)
{
    (void)state;
    char out[TEXT_MAX];
    assert_string_equal(duration_text(0, out), "0ms");
    assert_string_equal(duration_text(450, out), "450ms");
    assert_string_equal(duration_text(3250, out), "3.2s");
    assert_string_equal(duration_text(29990, out), "30s");
    assert_string_equal(duration_text(250000, out), "4m 10s");
    assert_string_equal(duration_text(7500000, out), "2h 5m");
    assert_string_equal(duration_text(273600000, out), "3d 4h");
    assert_string_equal(duration_exact(30000, out), "30s");
    assert_string_equal(duration_exact(1500, out), "1500ms");
    assert_string_equal(duration_exact(300000, out), "5m");
    assert_string_equal(duration_exact(86400000, out), "24h");
    assert_string_equal(duration_exact(0, out), "0ms");
}

static void moments_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        {"2030-01-31T12:00:00Z", 1896091200000},
        {"2030-01-31T12:00:00.250+02:00", 1896084000250},
        {"2030-01-31T12:00:00-00:30", 1896093000000},
        {"2030-01-31 12:00", 1896091200000},
        {"2030-01-31", 1896048000000},
        {"1896091200000", 1896091200000},
        {"2028-02-29T00:00:00Z", 1835395200000},
        {"2030-02-29T00:00:00Z", -1},
        {"2030-13-01T00:00:00Z", -1},
        {"2030-01-31T24:00:00Z", -1},
        {"2030-01-31T12:60:00Z", -1},
        {"2030-01-31T12:00:00+2", -1},
        {"2030-1-31T12:00:00Z", -1},
        {"2030-01-31T12:00:00Zx", -1},
        {"tomorrow", -1},
        {"", -1},
        {"0", -1},
        {"-1", -1},
    };
    (void)setenv("TZ", "UTC", 1);
    tzset();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t ms = -1;
        bool read = text_to_moment(rows[i].text, &ms);
        if (read != (rows[i].ms >= 0)) fail_msg("\"%s\": %s", rows[i].text, read ? "read" : "no");
        if (read) assert_int_equal(ms, rows[i].ms);
    }
    int64_t local = 0, zoned = 0;
    (void)setenv("TZ", "EAST-2", 1);
    tzset();
    assert_true(text_to_moment("2030-01-31 12:00:00.250", &local));
    assert_true(text_to_moment("2030-01-31T10:00:00.250Z", &zoned) && local == zoned);
    (void)setenv("TZ", "UTC", 1);
    tzset();
    char out[TEXT_MAX];
    assert_string_equal(moment_text(1896091200250, out), "2030-01-31 12:00:00.250");
    assert_string_equal(moment_text(0, out), "-");
}

static void numbers_are_read_and_written(void **state)
{
    (void)state;
    int64_t n;
    char out[TEXT_MAX];
    assert_true(text_to_number("9223372036854775807", &n) && n == INT64_MAX);
    assert_false(text_to_number("9223372036854775808", &n));
    assert_false(text_to_number("", &n));
    assert_false(text_to_number("-1", &n));
    assert_false(text_to_number("1x", &n));
    assert_string_equal(number_text(0, out), "0");
    assert_string_equal(number_text(999, out), "999");
    assert_string_equal(number_text(1234567, out), "1,234,567");
    assert_string_equal(number_text(UINT64_MAX, out), "18,446,744,073,709,551,615");
    assert_string_equal(bytes_text(12, out), "12 B");
    assert_string_equal(bytes_text(12900000, out), "12.3 MiB");
}

static void utf8_is_told_from_other_bytes(void **state)
{
    (void)state;
    static const char *const good[] = {
        "", "abc", "gr\xc3\xbc", "\xe2\x9c\x93", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {
        "\xff", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\x80"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(utf8_ok(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(utf8_ok(bad[i], strlen(bad[i])));
    assert_true(utf8_ok("a\0b", 3));
    // Wherever a fault or a longer sequence is in a text of several words.
    for (size_t at = 0; at + 2 <= 20; at++) {
        char text[20];
        memset(text, 'a', sizeof text);
        memcpy(text + at, "\xc3\xa4", 2);
        assert_true(utf8_ok(text, sizeof text));
        assert_false(utf8_ok(text, at + 1));
        text[at] = 'a';
        assert_false(utf8_ok(text, sizeof text));
    }
}

static void text_for_a_terminal_is_safe_and_cut(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t columns;
        const char *safe;
    } rows[] = {
        {"plain", 0, "plain"},
        {"a\nb\tc\x1b[31m", 0, "a\\nb\\tc\\x1b[31m"},
        {"gr\xc3\xbc\xc3\x9f", 0, "gr\xc3\xbc\xc3\x9f"},
        {"\xff", 0, "\\xff"},
        {"\xc2\x9b"
         "31m",
         0, "\\xc2\\x9b31m"}, // a C1 control
        {"abcdef", 6, "abcdef"},
        {"abcdef", 5, "abcd\xe2\x80\xa6"},
        {"\xc3\xbc\xc3\xbc\xc3\xbc", 2, "\xc3\xbc\xe2\x80\xa6"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *safe = safe_text(rows[i].text, strlen(rows[i].text), rows[i].columns);
        assert_string_equal(safe, rows[i].safe);
        free(safe);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_written),
        cmocka_unit_test(moments_are_read),
        cmocka_unit_test(numbers_are_read_and_written),
        cmocka_unit_test(utf8_is_told_from_other_bytes),
        cmocka_unit_test(text_for_a_terminal_is_safe_and_cut),
    };
    return cmocka_run_group_tests_name("cli-text", tests, NULL, NULL);
}
