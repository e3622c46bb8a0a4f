// SPDX-License-Identifier: Apache-2.0
// Durations: what is read, and that nothing is guessed.
#include "unit.h"

#include "base/duration.h"

struct row {
    const char *text;
    int64_t ms; // -1: it is refused
};

static void check(const struct row *rows, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        int64_t ms = -1;
        bool done = duration_read(rows[i].text, &ms);
        if (done != (rows[i].ms >= 0)) fail_msg("\"%s\": %s", rows[i].text, done ? "read" : "no");
        if (done) assert_int_equal(ms, rows[i].ms);
    }
}

static void a_duration_is_a_number_and_its_unit(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"0", 0},
        {"0s", 0},
        {"500ms", 500},
        {"30s", 30000},
        {"1.5s", 1500},
        {"0.001s", 1},
        {"5m", 300000},
        {"2h", 7200000},
        {"7d", 604800000},
        {"0.25h", 900000},
        {"007s", 7000},
        {"9223372036854775806ms", INT64_MAX - 1},
        {"", -1},
        {"5", -1},
        {"00", 0},
        {"s", -1},
        {"-5s", -1},
        {"+5s", -1},
        {"5 s", -1},
        {" 5s", -1},
        {"5s ", -1},
        {"5sec", -1},
        {"1h30m", -1},
        {"1.s", -1},
        {".5s", -1},
        {"1.", -1},
        {"1.0001s", -1},
        {"1.5ms", -1},
        {"5S", -1},
        {"1e3s", -1},
        {"0x10s", -1},
        {"1.5", -1},
        {"9223372036854775807h", -1},
        {"106751991168d", -1},
        {"99999999999999999999s", -1},
    };
    check(rows, sizeof rows / sizeof *rows);
}

static void a_number_that_is_not_zero_lacks_its_unit(void **state)
{
    (void)state;
    static const char *const numbers[] = {"1500", "1.5", "0.0", "30"};
    static const char *const others[] = {"0", "00", "30s", "1.5s", "", "soon", "-1", "1500 ", "1."};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        assert_true(duration_lacks_unit(numbers[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(duration_lacks_unit(others[i]));
}

static void units_rise(void **state)
{
    (void)state;
    for (int i = 1; i < DURATION_UNITS; i++)
        assert_true(duration_units[i].ms % duration_units[i - 1].ms == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_duration_is_a_number_and_its_unit),
        cmocka_unit_test(a_number_that_is_not_zero_lacks_its_unit),
        cmocka_unit_test(units_rise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
