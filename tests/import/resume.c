// SPDX-License-Identifier: Apache-2.0
// The record of an import, cut off at every byte and damaged at every byte.
#include "import/resume.h"

#include "unit.h"

#include <string.h>

static void add_ids(struct ids *s, uint64_t first, uint64_t last)
{
    ids_add_range(s, first, last);
}

// Two runs: the first is killed in its second batch, the second sends that batch again.
static void write_two_runs(struct resume *r, struct buf *text)
{
    struct ids one CLEANUP(ids_done) = {0}, two CLEANUP(ids_done) = {0};
    add_ids(&one, 1, 100);
    add_ids(&two, 101, 150);
    *r = (struct resume){
        .queue_id = "0123456789abcdef0123456789abcdef", .lineage = "6eb133fe", .base = 7};
    r->began_at = 1000;
    strcpy(r->source, "beanstalkd://h:1/a tube");
    resume_head(r, text);
    resume_run(r, 1000, 3, text);
    resume_begin(r, 1001, &one, text);
    resume_sent(r, 100, 0, &one, text);
    resume_begin(r, 1002, &two, text);
    resume_run(r, 2000, 4, text);
    assert_int_equal(r->open.count, 50);
    assert_int_equal(r->open_at, 1002);
    assert_int_equal(r->open_gone, 3);
    resume_begin(r, 2001, &two, text);
    assert_int_equal(r->open_at, 1002);
    resume_sent(r, 20, 30, &two, text);
}

static void the_text_of_two_runs_gives_their_state(void **state)
{
    (void)state;
    struct resume wrote = {0}, r = {0};
    struct buf text CLEANUP(buf_done);
    size_t used;
    char why[100] = "";
    buf_init(&text, 65536);
    write_two_runs(&wrote, &text);
    assert_int_equal(resume_read(&r, buf_bytes(&text), &used, why, sizeof why), ERR_OK);
    assert_int_equal(used, text.len);
    assert_string_equal(r.source, "beanstalkd://h:1/a tube");
    assert_string_equal(r.lineage, "6eb133fe");
    assert_int_equal(r.base, 7);
    assert_int_equal(r.runs, 2);
    assert_int_equal(r.sent, 120);
    assert_int_equal(r.known, 30);
    assert_int_equal(r.done.count, 150);
    assert_int_equal(r.open.count, 0);
    assert_int_equal(r.last_at, wrote.last_at);
    resume_done(&wrote);
    resume_done(&r);
}

static void a_record_that_is_cut_off_keeps_its_whole_lines(void **state)
{
    (void)state;
    struct resume wrote = {0};
    struct buf text CLEANUP(buf_done);
    buf_init(&text, 65536);
    write_two_runs(&wrote, &text);
    resume_done(&wrote);
    for (size_t len = 0; len < text.len; len++) {
        struct resume r = {0};
        size_t used;
        char why[100] = "";
        assert_int_equal(resume_read(&r, bytes_of(text.data, len), &used, why, sizeof why), ERR_OK);
        assert_true(used <= len);
        assert_true(used == 0 || text.data[used - 1] == '\n');
        assert_null(memchr(text.data + used, '\n', len - used));
        resume_done(&r);
    }
}

static void a_damaged_line_is_found_unless_it_is_the_last(void **state)
{
    (void)state;
    struct resume wrote = {0};
    struct buf text CLEANUP(buf_done);
    buf_init(&text, 65536);
    write_two_runs(&wrote, &text);
    resume_done(&wrote);
    size_t last = text.len - 1;
    while (text.data[last - 1] != '\n')
        last--;
    for (size_t at = 0; at < text.len - 1; at++) {
        if (text.data[at] == '\n') continue;
        struct resume r = {0};
        size_t used;
        char why[100] = "";
        text.data[at] ^= 1;
        enum err e = resume_read(&r, buf_bytes(&text), &used, why, sizeof why);
        text.data[at] ^= 1;
        assert_int_equal(e, at < last ? ERR_CORRUPT : ERR_OK);
        assert_true(e == ERR_OK ? used == last : strstr(why, "line ") != NULL);
        resume_done(&r);
    }
}

static void keys_are_trusted_only_well_inside_the_window(void **state)
{
    (void)state;
    struct resume r = {0};
    struct ids batch CLEANUP(ids_done) = {0};
    struct buf text CLEANUP(buf_done);
    buf_init(&text, 65536);
    add_ids(&batch, 1, 2);
    assert_true(resume_keys_live(&r, 5, 1)); // nothing is open
    resume_begin(&r, 1000000, &batch, &text);
    assert_true(resume_keys_live(&r, 1000000, 300000));
    assert_true(resume_keys_live(&r, 1000000 + 289999, 300000));
    assert_false(resume_keys_live(&r, 1000000 + 290000, 300000));
    assert_false(resume_keys_live(&r, 999999, 300000)); // the clock was set back
    assert_false(resume_keys_live(&r, 1000000, 5000));
    resume_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_of_two_runs_gives_their_state),
        cmocka_unit_test(a_record_that_is_cut_off_keeps_its_whole_lines),
        cmocka_unit_test(a_damaged_line_is_found_unless_it_is_the_last),
        cmocka_unit_test(keys_are_trusted_only_well_inside_the_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
