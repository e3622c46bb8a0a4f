// SPDX-License-Identifier: Apache-2.0
// Lines of the log: no text in them does anything to a terminal.
#include "server/log.h"

#include "../unit/unit.h"

#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

// The line for this text has these words in it.
static void logged(enum log_format format, const char *text, const char *words)
{
    int ends[2];
    char line[LINE_MAX_BYTES] = "";
    assert_int_equal(pipe(ends), 0);
    struct log log = {.format = format, .fd = ends[1]};
    LOG(&log, LOG_INFO, "test", LOG_TEXT("text", text));
    assert_true(read(ends[0], line, sizeof line - 1) > 0);
    if (!strstr(line, words)) fail_msg("\"%s\" is not in: %s", words, line);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void control_characters_are_escaped_in_logfmt(void **state)
{
    (void)state;
    logged(LOG_LOGFMT, "a\x1b[\x7f\"\n", " text=\"a\\x1b[\\x7f\\\"\\x0a\"\n");
    logged(LOG_LOGFMT, "\xc2\x80-\xc2\x9f", " text=\"\\xc2\\x80-\\xc2\\x9f\"\n");
    logged(LOG_LOGFMT, "\xc2\xa0\xc3\xa9", " text=\"\xc2\xa0\xc3\xa9\"\n");
}

static void bytes_that_are_not_utf8_are_escaped_in_logfmt(void **state)
{
    (void)state;
    logged(LOG_LOGFMT, "\x9b\xc3\xa9", " text=\"\\x9b\\xc3\\xa9\"\n");
    logged(LOG_LOGFMT, "\xc2", " text=\"\\xc2\"\n");
}

static void control_characters_are_escaped_in_json(void **state)
{
    (void)state;
    logged(LOG_JSON, "a\x1b\x7f", "\"text\":\"a\\u001B\\u007f\"}\n");
    logged(LOG_JSON, "\xc2\x80-\xc2\x9f", "\"text\":\"\\u0080-\\u009f\"}\n");
    logged(LOG_JSON, "\xc2\xa0\xc3\xa9", "\"text\":\"\xc2\xa0\xc3\xa9\"}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_are_escaped_in_logfmt),
        cmocka_unit_test(bytes_that_are_not_utf8_are_escaped_in_logfmt),
        cmocka_unit_test(control_characters_are_escaped_in_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
