// SPDX-License-Identifier: Apache-2.0
// The doubly linked list: both ends, the middle, and rows that leave while they are walked.
#include "base/list.h"

#include "unit.h"

#include <string.h>

struct letter {
    char name;
    struct list_link link;
};

// The names from the first to the last, then from the last to the first.
static void assert_reads(const struct list *l, const char *names)
{
    size_t len = strlen(names), at = 0;
    LIST_EACH(row, l, struct letter, link)
        assert_int_equal(row->name, names[at++]);
    assert_int_equal(at, len);
    struct letter *row = LIST_ROW(l->last, struct letter, link);
    for (; row; row = LIST_BEFORE(row, struct letter, link))
        assert_int_equal(row->name, names[--at]);
    assert_int_equal(at, 0);
}

static void rows_are_added_at_both_ends_and_before_another(void **state)
{
    (void)state;
    struct list l = {0};
    struct letter a = {.name = 'a'}, b = {.name = 'b'}, c = {.name = 'c'}, d = {.name = 'd'};
    assert_reads(&l, "");
    assert_null(LIST_FIRST(&l, struct letter, link));
    list_add(&l, &b.link);
    list_add_first(&l, &a.link);
    list_add(&l, &d.link);
    list_add_before(&l, &c.link, &d.link);
    assert_reads(&l, "abcd");
    assert_ptr_equal(LIST_FIRST(&l, struct letter, link), &a);
    assert_ptr_equal(LIST_NEXT(&b, struct letter, link), &c);
}

static void a_row_leaves_from_each_place_and_comes_back(void **state)
{
    (void)state;
    static const char *const without[] = {"bc", "ac", "ab"};
    for (size_t i = 0; i < 3; i++) {
        struct list l = {0};
        struct letter rows[3] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}};
        for (size_t k = 0; k < 3; k++)
            list_add(&l, &rows[k].link);
        assert_true(list_has(&l, &rows[i].link));
        list_remove(&l, &rows[i].link);
        assert_false(list_has(&l, &rows[i].link));
        assert_reads(&l, without[i]);
        list_add_first(&l, &rows[i].link);
        assert_true(list_has(&l, &rows[i].link));
    }
}

static void the_walk_may_remove_each_row(void **state)
{
    (void)state;
    struct list l = {0};
    struct letter rows[4] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}, {.name = 'd'}};
    for (size_t k = 0; k < 4; k++)
        list_add(&l, &rows[k].link);
    LIST_EACH(row, &l, struct letter, link)
        if (row->name != 'b') list_remove(&l, &row->link);
    assert_reads(&l, "b");
    list_remove(&l, &rows[1].link);
    assert_reads(&l, "");
}

static void all_rows_move_behind_those_of_another_list(void **state)
{
    (void)state;
    struct list one = {0}, two = {0};
    struct letter rows[3] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}};
    list_move(&one, &two);
    assert_reads(&one, "");
    list_add(&two, &rows[0].link);
    list_add(&two, &rows[1].link);
    list_move(&one, &two);
    assert_reads(&one, "ab");
    assert_reads(&two, "");
    list_add(&two, &rows[2].link);
    list_move(&one, &two);
    assert_reads(&one, "abc");
}

static void add_twice(void)
{
    struct list l = {0};
    struct letter a = {.name = 'a'};
    list_add(&l, &a.link);
    list_add(&l, &a.link);
}

static void remove_what_is_in_no_list(void)
{
    struct list l = {0};
    struct letter a = {.name = 'a'};
    list_remove(&l, &a.link);
}

static void a_row_is_in_a_list_once(void **state)
{
    (void)state;
    assert_true(aborts(add_twice));
    assert_true(aborts(remove_what_is_in_no_list));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_added_at_both_ends_and_before_another),
        cmocka_unit_test(a_row_leaves_from_each_place_and_comes_back),
        cmocka_unit_test(the_walk_may_remove_each_row),
        cmocka_unit_test(all_rows_move_behind_those_of_another_list),
        cmocka_unit_test(a_row_is_in_a_list_once),
    };
    return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
