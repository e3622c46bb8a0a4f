// SPDX-License-Identifier: Apache-2.0
// Moments as text. tests/cli/text.c has those of the local time zone.
#include "unit.h"

#include "base/moment.h"
#include "base/rng.h"

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {951782399999, "2000-02-28T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {4107542399999, "2100-02-28T23:59:59.999Z"},
        {4107542400000, "2100-03-01T00:00:00.000Z"},
        {MOMENT_LAST, "9999-12-31T23:59:59.999Z"},
        {INT64_MIN, "1970-01-01T00:00:00.000Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[MOMENT_LEN + 1];
        *moment_put(text, rows[i].ms) = '\0';
        assert_string_equal(text, rows[i].text);
    }
    struct rng rng;
    rng_init(&rng, 3);
    for (int i = 0; i < 50000; i++) {
        char text[MOMENT_LEN + 1];
        int64_t ms = rng_range(&rng, 0, MOMENT_LAST), back = -1;
        *moment_put(text, ms) = '\0';
        assert_true(moment_read_exact(bytes_str(text), &back));
        assert_int_equal(back, ms);
    }
}

static void a_time_zone_is_required_unless_local_is_asked_for(void **state)
{
    (void)state;
    static const char *const refused[] = {"2030-04-31T12:00:00Z",
                                          "2030-01-31T12:00:00",
                                          "2030-01-31",
                                          "2030-01-31Z",
                                          "1969-12-31T23:59:59Z",
                                          "1970-01-01T00:00+01:00",
                                          "2030-01-31T12:00:60Z",
                                          "2030-01-31T12Z",
                                          "2030-01-31T12:00:00.0001Z",
                                          "2030-01-31T12:00:00+24:00",
                                          "2030-01-31T12:00:00Z ",
                                          ""};
    int64_t ms;
    bool local = true;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (moment_read(refused[i], &ms, NULL)) fail_msg("\"%s\" is read", refused[i]);
    assert_true(moment_read("2030-01-31T12:00:00-00:30", &ms, &local) && !local);
    assert_int_equal(ms, 1896093000000);
    assert_true(moment_read("2030-01-31 12:00", &ms, &local) && local && ms == 1896091200000);
    assert_true(moment_read("2030-01-31", &ms, &local) && local && ms == 1896048000000);
    assert_false(moment_read_exact(bytes_str("2030-01-31T12:00:00Z"), &ms));
    assert_false(moment_read_exact(bytes_str("2030-01-31 12:00:00.000Z"), &ms));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_time_zone_is_required_unless_local_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
