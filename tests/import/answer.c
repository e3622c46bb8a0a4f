// SPDX-License-Identifier: Apache-2.0
// The answers of beanstalkd, whole, in pieces, and from servers of another kind.
#include "import/answer.h"

#include "unit.h"

#include <string.h>

static enum answer_step read_text(const char *text, struct beanstalk_answer *out)
{
    size_t used;
    enum answer_step step = answer_read(bytes_str(text), out, &used);
    if (step == ANSWER_ONE) assert_true(used <= strlen(text));
    return step;
}

static void a_job_has_its_number_and_its_body(void **state)
{
    (void)state;
    struct beanstalk_answer a;
    assert_int_equal(read_text("RESERVED 17 5\r\na\r\nbc\r\nDELETED\r\n", &a), ANSWER_ONE);
    assert_int_equal(a.word, ANSWER_RESERVED);
    assert_int_equal(a.id, 17);
    assert_true(bytes_equal(a.body, bytes_str("a\r\nbc")));
    assert_int_equal(read_text("FOUND 18446744073709551615 0\r\n\r\n", &a), ANSWER_ONE);
    assert_true(a.id == UINT64_MAX && a.body.len == 0);
}

static void every_beginning_of_an_answer_asks_for_more(void **state)
{
    (void)state;
    static const char whole[] = "FOUND 3 4\r\nbody\r\n";
    for (size_t len = 0; len < sizeof whole - 1; len++) {
        struct beanstalk_answer a;
        size_t used = 1;
        assert_int_equal(answer_read(bytes_of(whole, len), &a, &used), ANSWER_MORE);
    }
}

static void words_without_a_body_end_with_their_line(void **state)
{
    (void)state;
    struct beanstalk_answer a;
    size_t used;
    struct bytes two = bytes_str("NOT_FOUND\r\nTIMED_OUT\r\n");
    assert_int_equal(answer_read(two, &a, &used), ANSWER_ONE);
    assert_int_equal(a.word, ANSWER_NOT_FOUND);
    assert_int_equal(used, 11);
    assert_int_equal(answer_read(bytes_of(two.data + used, two.len - used), &a, &used), ANSWER_ONE);
    assert_int_equal(a.word, ANSWER_TIMED_OUT);
    assert_int_equal(read_text("INSERTED 9\r\n", &a), ANSWER_ONE);
    assert_int_equal(a.id, 9);
    assert_int_equal(read_text("USING a-tube\r\n", &a), ANSWER_ONE);
    assert_int_equal(read_text("OUT_OF_MEMORY\r\n", &a), ANSWER_ONE);
    assert_int_equal(a.word, ANSWER_OTHER);
}

static void other_protocols_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"HTTP/1.1 400 Bad Request\r\n",
                                        "220 mail.example.com ESMTP\r\n",
                                        "-ERR unknown command\r\n",
                                        "RESERVED\r\n",
                                        "RESERVED x 5\r\n",
                                        "RESERVED 1 5 9\r\nabcde\r\n",
                                        "RESERVED 1 -5\r\n",
                                        "OK 99999999999\r\n",
                                        "RESERVED 1 3\r\nabcdef",
                                        "DELETED now\r\n",
                                        "DELETED\n",
                                        "\n",
                                        "INSERTED 18446744073709551616\r\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct beanstalk_answer a;
        if (read_text(wrong[i], &a) != ANSWER_BAD) fail_msg("accepted: %s", wrong[i]);
    }
    char line[ANSWER_LINE_MAX + 1];
    memset(line, 'A', sizeof line - 1);
    line[sizeof line - 1] = 0;
    struct beanstalk_answer a;
    assert_int_equal(read_text(line, &a), ANSWER_BAD);
}

static void values_are_found_by_their_whole_name(void **state)
{
    (void)state;
    struct bytes stats = bytes_str("---\nid: 5\ntube: a: b\npri: 1024\ntime-left: 99\nbad: 1x\n");
    struct bytes value;
    uint64_t n;
    assert_true(answer_number(stats, "id", &n) && n == 5);
    assert_true(answer_number(stats, "time-left", &n) && n == 99);
    assert_true(answer_value(stats, "tube", &value) && bytes_equal(value, bytes_str("a: b")));
    assert_false(answer_value(stats, "time", &value));
    assert_false(answer_value(stats, "b", &value));
    assert_false(answer_number(stats, "bad", &n));
}

static void a_list_gives_its_names_in_order(void **state)
{
    (void)state;
    struct bytes list = bytes_str("---\n- default\n- mail\n"), name;
    size_t at = 0;
    assert_true(answer_item(list, &at, &name) && bytes_equal(name, bytes_str("default")));
    assert_true(answer_item(list, &at, &name) && bytes_equal(name, bytes_str("mail")));
    assert_false(answer_item(list, &at, &name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_has_its_number_and_its_body),
        cmocka_unit_test(every_beginning_of_an_answer_asks_for_more),
        cmocka_unit_test(words_without_a_body_end_with_their_line),
        cmocka_unit_test(other_protocols_are_refused),
        cmocka_unit_test(values_are_found_by_their_whole_name),
        cmocka_unit_test(a_list_gives_its_names_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
