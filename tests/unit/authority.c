// SPDX-License-Identifier: Apache-2.0
#include "base/authority.h"

#include "unit.h"

static void an_authority_has_a_host_and_perhaps_a_port(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host, *port;
        uint16_t number;
        bool bracketed;
    } rows[] = {
        {"node-1", "node-1", NULL, 0, false},
        {"node-1:7333", "node-1", "7333", 7333, false},
        {"[::1]", "::1", NULL, 0, true},
        {"[fe80::1%eth0]:65535", "fe80::1%eth0", "65535", 65535, true},
        {":80", "", "80", 80, false},
        {"a:0", "a", "0", 0, false},
        {"a:00080", "a", "00080", 80, false},
        {"", "", NULL, 0, false},
        {"[]", "", NULL, 0, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct authority a;
        if (!authority_split(bytes_str(rows[i].text), &a)) fail_msg("%s", rows[i].text);
        assert_true(bytes_equal(a.host, bytes_str(rows[i].host)));
        assert_int_equal(a.port.data != NULL, rows[i].port != NULL);
        if (rows[i].port) assert_true(bytes_equal(a.port, bytes_str(rows[i].port)));
        assert_int_equal(a.number, rows[i].number);
        assert_int_equal(a.bracketed, rows[i].bracketed);
        assert_int_equal(authority_has_host(&a), *rows[i].host != 0);
    }
}

static void what_is_no_authority_is_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {"a:",   "a:b",    "a:1:2",  "a:65536", "a:123456",
                                       "[::1", "[::1]:", "[::1]x", "::1",     "[::1]1:2",
                                       "a:-1", "a: 1",   "a:1 ",   ":",       "["};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct authority a;
        if (authority_split(bytes_str(rows[i]), &a)) fail_msg("%s", rows[i]);
    }
}

static void a_host_is_a_name_or_an_address(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {"a.b_c-D9", true}, {"127.0.0.1", true}, {"[2001:db8::1]", true}, {"a b", false},
        {"a\"b", false},    {"a%b", false},      {"[a-b]", false},        {"\xc3\xa4", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct authority a;
        assert_true(authority_split(bytes_str(rows[i].text), &a));
        if (authority_has_host(&a) != rows[i].good) fail_msg("%s", rows[i].text);
    }
}

static void a_url_has_its_authority_without_user_and_path(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"http://a:1/path@x", "a:1"},
        {"https://u:p@w@a?x", "a"},
        {"redis://[::1]:2#f", "[::1]:2"},
        {"a:7333", "a:7333"},
        {"http://", ""},
        {"http:///x", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(bytes_equal(authority_of(rows[i][0]), bytes_str(rows[i][1])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_authority_has_a_host_and_perhaps_a_port),
        cmocka_unit_test(what_is_no_authority_is_refused),
        cmocka_unit_test(a_host_is_a_name_or_an_address),
        cmocka_unit_test(a_url_has_its_authority_without_user_and_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
