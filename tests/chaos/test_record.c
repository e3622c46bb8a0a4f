// SPDX-License-Identifier: Apache-2.0
// The stress test's own notes: what a killed process has half noted, another one notes; what no one
// has noted is found, and so is a second id.
#define _GNU_SOURCE // MAP_ANONYMOUS
#include "../unit/unit.h"
#include "history.h"
#include "scratch.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define NUMBER 7
#define ID     "05b0b473-0-283"

static int open_record(void **state)
{
    struct scratch dir;
    char path[SCRATCH_PATH_MAX + 16];
    if (!scratch_make(&dir, NULL)) return -1;
    (void)snprintf(path, sizeof path, "%s/shared-record", dir.path);
    struct shared_record *s = shared_record_open(path, true);
    scratch_remove(&dir);
    if (!s) return -1;
    atomic_store(&s->next, NUMBER + 1);
    *state = s;
    return 0;
}

static int close_record(void **state)
{
    return munmap(*state, sizeof(struct shared_record));
}

static void die(int number)
{
    (void)number;
    (void)kill(getpid(), SIGKILL);
}

// The end of the id cannot be read, so its process dies in the middle of writing it down.
static void note_half(struct shared_record *s)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    char *id = pages + page - strlen(ID);
    memcpy(id, ID, strlen(ID));
    pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGSEGV, die);
        shared_record_id(s, NUMBER, id);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(munmap(pages, 2 * page), 0);
}

// The journal tells of a message that was sent, given and processed.
static struct findings check(const struct shared_record *s)
{
    struct record rows[] = {{.event = 1, .position = 1, .message = ID, .what = ENQUEUED},
                            {.event = 2, .position = 2, .message = ID, .what = CLAIMED},
                            {.event = 3, .position = 3, .message = ID, .what = PROCESSED}};
    struct recorder r = {.lane = LANE_PLAIN, .rows = rows, .len = 3};
    struct findings v = {0};
    assert_true(history_check(&r, s, &v));
    return v;
}

static void test_what_was_half_noted_is_noted_again(void **state)
{
    struct shared_record *s = *state;
    note_half(s);
    shared_record_id(s, NUMBER, ID);
    struct findings v = check(s);
    assert_int_equal(v.never_sent, 0);
    assert_int_equal(v.processed, 1);
    assert_int_equal(v.lost, 0);
    assert_int_equal(atomic_load(&s->faults), 0);
}

static void test_half_a_note_is_none(void **state)
{
    struct shared_record *s = *state;
    note_half(s);
    assert_int_equal(check(s).never_sent, 3);
}

static void test_what_no_one_noted_was_not_sent(void **state)
{
    struct shared_record *s = *state;
    assert_int_equal(check(s).never_sent, 3);
    shared_record_id(s, NUMBER, ID "0");
    assert_int_equal(check(s).never_sent, 3);
}

static void test_a_second_id_is_a_fault(void **state)
{
    struct shared_record *s = *state;
    note_half(s);
    shared_record_id(s, NUMBER, ID);
    shared_record_id(s, NUMBER, ID);
    assert_int_equal(atomic_load(&s->faults), 0);
    shared_record_id(s, NUMBER, ID "0");
    assert_int_equal(atomic_load(&s->faults), 1);
    assert_string_equal(s->fault, "message 7 is " ID " and " ID "0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_was_half_noted_is_noted_again, open_record,
                                        close_record),
        cmocka_unit_test_setup_teardown(test_half_a_note_is_none, open_record, close_record),
        cmocka_unit_test_setup_teardown(test_what_no_one_noted_was_not_sent, open_record,
                                        close_record),
        cmocka_unit_test_setup_teardown(test_a_second_id_is_a_fault, open_record, close_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
