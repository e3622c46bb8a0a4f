// SPDX-License-Identifier: Apache-2.0
// Places, states, priorities and keys of jobs.
#include "import/map.h"

#include "unit.h"

#include <string.h>

static void a_place_has_host_port_and_tube(void **state)
{
    (void)state;
    struct tube_place p;
    char why[300];
    assert_true(tube_place_read("beanstalkd://queue.example:11301/mail", &p, why, sizeof why));
    assert_string_equal(p.host, "queue.example");
    assert_string_equal(p.port, "11301");
    assert_string_equal(p.tube, "mail");
    assert_true(tube_place_read("beanstalkd://h/a/b;c.$_(d)+e", &p, why, sizeof why));
    assert_string_equal(p.port, "11300");
    assert_string_equal(p.tube, "a/b;c.$_(d)+e");
    assert_true(tube_place_read("beanstalkd://[::1]:5/t", &p, why, sizeof why));
    assert_string_equal(p.host, "::1");
    assert_string_equal(p.port, "5");
    assert_true(tube_place_read("beanstalkd://[fe80::2]/t", &p, why, sizeof why));
    assert_string_equal(p.host, "fe80::2");
}

static void a_place_that_cannot_be_is_refused_with_a_sentence(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"redis://h/t", "redis://h/t cannot be imported: write beanstalkd://"},
        {"beanstalkd://host:11300", "names no tube"},
        {"beanstalkd://host/", "names no tube"},
        {"beanstalkd:///t", "names no host"},
        {"beanstalkd://:5/t", "names no host"},
        {"beanstalkd://h:/t", "port"},
        {"beanstalkd://h:0/t", "port"},
        {"beanstalkd://h:65536/t", "port"},
        {"beanstalkd://h:1234567/t", "port"},
        {"beanstalkd://h:x/t", "port"},
        {"beanstalkd://[::1/t", "bracket"},
        {"beanstalkd://[::1]x:5/t", "bracket"},
        {"beanstalkd://h/-t", "cannot exist"},
        {"beanstalkd://h/a b", "cannot exist"},
        {"beanstalkd://h/a\r\ndelete 1", "cannot exist"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct tube_place p;
        char why[300] = "";
        if (tube_place_read(wrong[i][0], &p, why, sizeof why)) fail_msg("took %s", wrong[i][0]);
        if (!strstr(why, wrong[i][1])) fail_msg("%s: %s", wrong[i][0], why);
    }
    char longest[300] = "beanstalkd://h/", why[400];
    struct tube_place p;
    memset(longest + 15, 'a', TUBE_MAX);
    assert_true(tube_place_read(longest, &p, why, sizeof why));
    longest[15 + TUBE_MAX] = 'a';
    assert_false(tube_place_read(longest, &p, why, sizeof why));
}

static void states_are_named_one_by_one_or_all(void **state)
{
    (void)state;
    assert_int_equal(jobs_states("ready"), JOBS_READY);
    assert_int_equal(jobs_states("buried,delayed"), JOBS_BURIED | JOBS_DELAYED);
    assert_int_equal(jobs_states("all"), JOBS_ALL);
    assert_int_equal(jobs_states("reserved"), 0);
    assert_int_equal(jobs_states(""), 0);
    assert_int_equal(jobs_states("ready,"), 0);
}

static void a_more_urgent_job_never_gets_a_lower_priority(void **state)
{
    (void)state;
    static const struct {
        uint64_t beanstalk;
        int priority;
    } known[] = {{0, 9},  {1, 8},   {3, 8},   {4, 7},    {8, 6},    {16, 5},        {32, 4},
                 {64, 3}, {128, 2}, {256, 1}, {1023, 1}, {1024, 0}, {4294967295, 0}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(jobs_priority(known[i].beanstalk), known[i].priority);
    for (uint64_t p = 1; p < 5000; p++)
        assert_true(jobs_priority(p) <= jobs_priority(p - 1));
}

static void a_key_depends_on_server_tube_and_number(void **state)
{
    (void)state;
    char a[IMPORT_KEY_LEN + 1], b[IMPORT_KEY_LEN + 1];
    import_key("s", "t", 1, a);
    import_key("s", "t", 1, b);
    assert_string_equal(a, b);
    assert_int_equal(strlen(a), IMPORT_KEY_LEN);
    static const struct {
        const char *lineage, *tube;
        uint64_t id;
    } others[] = {{"s", "t", 2}, {"s", "u", 1}, {"r", "t", 1}, {"st", "", 1}, {"", "st", 1}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        import_key(others[i].lineage, others[i].tube, others[i].id, b);
        assert_string_not_equal(a, b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_has_host_port_and_tube),
        cmocka_unit_test(a_place_that_cannot_be_is_refused_with_a_sentence),
        cmocka_unit_test(states_are_named_one_by_one_or_all),
        cmocka_unit_test(a_more_urgent_job_never_gets_a_lower_priority),
        cmocka_unit_test(a_key_depends_on_server_tube_and_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
