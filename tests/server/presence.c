// SPDX-License-Identifier: Apache-2.0
// The workers that a node hears of, and lists of several nodes joined.
#include "server/presence.h"
#include "../unit/unit.h"

#include <stdio.h>
#include <string.h>

#define KEY(q, w, r) (&(struct present_key){.queue = (q), .worker = (w), .relayed = (r)})

static int set_up(void **state)
{
    *state = presence_new();
    return 0;
}

static int tear_down(void **state)
{
    presence_free(*state);
    return 0;
}

static struct waiting_list listed(struct presence *p, const char *queue)
{
    struct waiting_list l = {0};
    presence_list(p, queue, "a", &l);
    waiting_list_tidy(&l);
    return l;
}

static void a_worker_stays_between_two_receives(void **state)
{
    struct presence *p = *state;
    presence_begin(p, KEY("mail", "w", false));
    presence_begin(p, KEY("mail", "w", false));
    struct waiting_list l = listed(p, "mail");
    assert_int_equal(l.len, 1);
    assert_int_equal(l.rows[0].receives, 2);
    assert_string_equal(l.rows[0].name, "w");
    assert_string_equal(l.rows[0].node, "a");
    int64_t since = l.rows[0].since;
    assert_true(since > 0);
    waiting_list_done(&l);
    presence_end(p, KEY("mail", "w", false), false);
    presence_end(p, KEY("mail", "w", false), false);
    l = listed(p, NULL);
    assert_int_equal(l.len, 1);
    assert_int_equal(l.rows[0].receives, 0);
    assert_true(l.rows[0].since == since);
    waiting_list_done(&l);
}

static void a_worker_that_disconnects_is_forgotten_at_once(void **state)
{
    struct presence *p = *state;
    presence_begin(p, KEY("mail", "w", false));
    presence_begin(p, KEY("mail", "w", false));
    presence_end(p, KEY("mail", "w", false), true);
    struct waiting_list l = listed(p, "mail");
    assert_int_equal(l.len, 1); // the other receive still waits
    waiting_list_done(&l);
    presence_end(p, KEY("mail", "w", false), true);
    l = listed(p, "mail");
    assert_int_equal(l.len, 0);
    waiting_list_done(&l);
    presence_begin(p, KEY("mail", "w", false)); // its place is used again
    l = listed(p, "mail");
    assert_int_equal(l.len, 1);
    waiting_list_done(&l);
}

static void queues_do_not_share_workers(void **state)
{
    struct presence *p = *state;
    presence_begin(p, KEY("mail", "w", false));
    presence_begin(p, KEY("other", "w", false));
    presence_begin(p, KEY("other", "v", false));
    struct waiting_list l = listed(p, NULL);
    assert_int_equal(l.len, 3);
    assert_int_equal(waiting_list_count(&l, "mail"), 1);
    assert_int_equal(waiting_list_count(&l, "other"), 2);
    assert_int_equal(waiting_list_count(&l, "none"), 0);
    waiting_list_done(&l);
}

static void names_beyond_the_limit_are_not_listed(void **state)
{
    struct presence *p = *state;
    char name[32];
    for (int i = 0; i < PRESENCE_MAX + 10; i++) {
        (void)snprintf(name, sizeof name, "w%d", i);
        presence_begin(p, KEY("mail", name, false));
    }
    presence_end(p, KEY("mail", name, false), false); // it was not counted
    presence_end(p, KEY("mail", "w0", false), true);
    presence_begin(p, KEY("mail", "late", false));
    struct waiting_list l = {0};
    presence_list(p, "mail", "a", &l);
    assert_int_equal(l.len, WAITING_ROWS_MAX);
    waiting_list_done(&l);
}

static void add(struct waiting_list *l, const char *name, const char *node, uint32_t receives,
                int64_t since, int64_t seen_at, bool relayed)
{
    struct waiting_row row = {
        .receives = receives, .since = since, .seen_at = seen_at, .relayed = relayed};
    (void)snprintf(row.queue, sizeof row.queue, "mail");
    (void)snprintf(row.name, sizeof row.name, "%s", name);
    (void)snprintf(row.node, sizeof row.node, "%s", node);
    waiting_list_add(l, &row);
}

static void what_a_node_passed_on_counts_once(void **state)
{
    (void)state;
    struct waiting_list l = {0};
    add(&l, "w", "owner", 1, 50, 60, true);
    add(&l, "w", "near", 1, 40, 55, false);
    add(&l, "direct", "owner", 1, 10, 20, true); // of a process that is not a node
    waiting_list_tidy(&l);
    assert_int_equal(l.len, 2);
    assert_string_equal(l.rows[0].name, "direct");
    assert_string_equal(l.rows[1].node, "near");
    assert_int_equal(l.rows[1].receives, 1);
    assert_int_equal(l.rows[1].since, 40);
    waiting_list_done(&l);
}

static void a_worker_at_two_nodes_has_one_row(void **state)
{
    (void)state;
    struct waiting_list l = {0};
    add(&l, "w", "a", 2, 40, 55, false);
    add(&l, "w", "b", 1, 30, 70, false);
    add(&l, "w", "a", 2, 40, 55, false); // the same node answered twice
    waiting_list_tidy(&l);
    assert_int_equal(l.len, 1);
    assert_int_equal(l.rows[0].receives, 3);
    assert_int_equal(l.rows[0].since, 30);
    assert_string_equal(l.rows[0].node, "b");
    waiting_list_done(&l);
}

static void waiting_workers_join_those_with_locks(void **state)
{
    (void)state;
    struct sluice_worker rows[3] = {{.name = "b", .open = 2}};
    struct waiting_list l = {0};
    add(&l, "b", "a", 1, 40, 55, false);
    add(&l, "a", "a", 1, 41, 56, false);
    add(&l, "c", "a", 1, 42, 57, false);
    add(&l, "d", "a", 1, 43, 58, false); // does not fit
    waiting_list_tidy(&l);
    assert_int_equal(workers_add_waiting(rows, 1, 3, &l, "mail"), 3);
    assert_string_equal(rows[0].name, "a");
    assert_int_equal(rows[0].open, 0);
    assert_string_equal(rows[1].name, "b");
    assert_int_equal(rows[1].open, 2);
    assert_int_equal(rows[1].waiting, 1);
    assert_string_equal(rows[1].node, "a");
    assert_int_equal(workers_add_waiting(rows, 1, 3, &l, "other"), 1);
    waiting_list_done(&l);
}

static void two_processes_of_one_worker_are_heard_apart(void **state)
{
    struct presence *p = *state;
    struct present_key one = {.queue = "mail", .worker = "w", .instance = 1}, two = one;
    int64_t ago;
    bool gone;
    two.instance = 2;
    assert_false(presence_of(p, &one, &ago, &gone));
    presence_begin(p, &one);
    presence_note(p, &one, 7);
    assert_true(presence_of(p, &one, &ago, &gone) && ago == 0 && !gone);
    assert_false(presence_of(p, &two, &ago, &gone));
    struct waiting_list l = {0};
    presence_list(p, "mail", "a", &l);
    assert_int_equal(l.len, 1);
    assert_int_equal(l.rows[0].instance, 1);
    assert_int_equal(l.rows[0].capacity, 7);
    waiting_list_done(&l);
    presence_end(p, &one, true); // not listed any more, and known to be gone
    l = listed(p, "mail");
    assert_int_equal(l.len, 0);
    waiting_list_done(&l);
    assert_true(presence_of(p, &one, &ago, &gone) && gone);
    presence_note(p, &one, 0);
    assert_true(presence_of(p, &one, &ago, &gone) && !gone);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_worker_stays_between_two_receives),
        TEST(two_processes_of_one_worker_are_heard_apart),
        TEST(a_worker_that_disconnects_is_forgotten_at_once),
        TEST(queues_do_not_share_workers),
        TEST(names_beyond_the_limit_are_not_listed),
        cmocka_unit_test(what_a_node_passed_on_counts_once),
        cmocka_unit_test(a_worker_at_two_nodes_has_one_row),
        cmocka_unit_test(waiting_workers_join_those_with_locks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
