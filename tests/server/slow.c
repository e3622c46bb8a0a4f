// SPDX-License-Identifier: Apache-2.0
// Lines about calls of the store that took long: what they say, and how few they are.
#include "server/slow.h"
#include "../unit/unit.h"

#include <string.h>

struct rig {
    int read;
    struct log log;
    struct slow_call_log slow;
};

static int set_up(void **state)
{
    static struct rig r;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    r = (struct rig){.read = ends[0], .log.fd = ends[1]};
    r.slow.log = &r.log;
    *state = &r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    (void)close(r->read);
    (void)close(r->log.fd);
    return 0;
}

// What was logged since; "": nothing.
static const char *logged(struct rig *r)
{
    static char text[4096];
    ssize_t len = read(r->read, text, sizeof text - 1);
    text[len > 0 ? len : 0] = '\0';
    return text;
}

static const struct meter_call call = {
    .kind = METER_APPEND, .key = "q/1/0/log", .took_ms = 1503, .err = ERR_OK};

static void a_line_says_what_and_how_long(void **state)
{
    struct rig *r = *state;
    slow_note(&r->slow, &call, 5);
    const char *line = logged(r);
    if (!strstr(line, "level=warning event=store-slow call=append key=q/1/0/log ms=1503 code=OK "
                      "others=0\n"))
        fail_msg("%s", line);
}

static void one_line_stands_for_a_while(void **state)
{
    struct rig *r = *state;
    slow_note(&r->slow, &call, 5);
    assert_string_not_equal(logged(r), "");
    for (int i = 1; i <= 20; i++)
        slow_note(&r->slow, &call, 4 + i * SLOW_QUIET_MS / 20);
    assert_string_equal(logged(r), "");
    slow_note(&r->slow, &call, 5 + SLOW_QUIET_MS);
    assert_non_null(strstr(logged(r), "others=20\n"));
    slow_note(&r->slow, &call, 5 + 2 * SLOW_QUIET_MS);
    assert_non_null(strstr(logged(r), "others=0\n"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_line_says_what_and_how_long),
        TEST(one_line_stands_for_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
