// SPDX-License-Identifier: Apache-2.0
// The error table is a promise to callers: scripts read its exit codes, clients its HTTP statuses.
#include "base/err.h"

#include "unit.h"

#include <string.h>

static const struct {
    enum err err;
    const char *name;
    int http;
    int exit;
} promised[] = {
    {ERR_OK, "OK", 200, 0},
    {ERR_INVALID, "INVALID", 400, 2},
    {ERR_NOT_FOUND, "NOT_FOUND", 404, 3},
    {ERR_CONFLICT, "CONFLICT", 409, 4},
    {ERR_FENCED, "FENCED", 410, 5},
    {ERR_LIMIT, "LIMIT", 429, 6},
    {ERR_UNAVAILABLE, "UNAVAILABLE", 503, 7},
    {ERR_UNKNOWN, "UNKNOWN", 504, 8},
    {ERR_CORRUPT, "CORRUPT", 500, 9},
    {ERR_DENIED, "DENIED", 403, 10},
};

static void every_code_keeps_its_number_status_and_exit(void **state)
{
    (void)state;
    assert_int_equal(ERR_COUNT, sizeof promised / sizeof *promised);
    for (int i = 0; i < ERR_COUNT; i++) {
        assert_int_equal(promised[i].err, i);
        assert_string_equal(err_name(promised[i].err), promised[i].name);
        assert_int_equal(err_http(promised[i].err), promised[i].http);
        assert_int_equal(err_exit(promised[i].err), promised[i].exit);
    }
}

static void no_two_codes_share_a_text_status_or_exit(void **state)
{
    (void)state;
    for (int i = 0; i < ERR_COUNT; i++) {
        assert_true(strlen(err_text((enum err)i)) > 0);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(err_text((enum err)i), err_text((enum err)j));
            assert_int_not_equal(err_http((enum err)i), err_http((enum err)j));
            assert_int_not_equal(err_exit((enum err)i), err_exit((enum err)j));
        }
    }
}

static void only_ok_exits_with_zero(void **state)
{
    (void)state;
    for (int i = 0; i < ERR_COUNT; i++)
        assert_int_equal(err_exit((enum err)i) == 0, i == ERR_OK);
}

static void name_a_code_past_the_table(void)
{
    (void)err_name(ERR_COUNT);
}

static void code_outside_the_table_aborts(void **state)
{
    (void)state;
    assert_true(aborts(name_a_code_past_the_table));
}

static void a_refusal_without_an_entry_leaves_an_unknown_request_unknown(void **state)
{
    (void)state;
    for (int i = 0; i < ERR_COUNT; i++) {
        bool undecided = i == ERR_LIMIT || i == ERR_UNAVAILABLE || i == ERR_DENIED;
        assert_int_equal(err_repeated((enum err)i), undecided ? ERR_UNKNOWN : i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_keeps_its_number_status_and_exit),
        cmocka_unit_test(no_two_codes_share_a_text_status_or_exit),
        cmocka_unit_test(only_ok_exits_with_zero),
        cmocka_unit_test(code_outside_the_table_aborts),
        cmocka_unit_test(a_refusal_without_an_entry_leaves_an_unknown_request_unknown),
    };
    return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
