// SPDX-License-Identifier: Apache-2.0
// The clock of a file store: it follows the wall clock slowly and never runs backwards.
#include "support.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define LOG  "q/log"
#define HOUR ((int64_t)3600 * 1000)

static const struct file_options faulty = {
    .sys = &sys_faulty, .segment_bytes = 2000, .step_bytes = 1000};

static int clock_setup(void **state)
{
    static char dir[SCRATCH_MAX];
    sys_reset();
    scratch_make(dir);
    *state = dir;
    return 0;
}

static int clock_teardown(void **state)
{
    sys_reset();
    scratch_remove(*state);
    return 0;
}

static void append_slot(struct store *s, uint64_t slot)
{
    struct store_answer a;
    store_answer_init(&a);
    ANSWERS(ERR_OK, &a, store_append(s, LOG, slot, bytes_str("one"), &a));
    store_answer_done(&a);
}

static int64_t now_of(struct store *s)
{
    struct store_answer a;
    store_answer_init(&a);
    enum err e = store_get(s, "none", 0, 1, &a);
    ANSWERS(ERR_NOT_FOUND, &a, e);
    int64_t now = a.time.lo;
    NEED(a.time.hi >= now);
    store_answer_done(&a);
    return now;
}

static void a_stepped_wall_clock_changes_nothing(void **state)
{
    struct store *s = file_open(*state, &faulty);
    int64_t start = now_of(s);
    NEED(llabs(start - clock_realtime_ms()) < HOUR / 60);
    static const int64_t steps[] = {HOUR, -3 * HOUR, -24 * HOUR, 48 * HOUR};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        sys_step_wall(steps[i]);
        struct store *fresh = file_open(*state, &faulty);
        int64_t now = now_of(s), also = now_of(fresh);
        NEED(now >= start && now < start + HOUR / 60);
        NEED(also >= now && also < start + HOUR / 60);
        store_free(fresh);
    }
    store_free(s);
}

// What passes by the store's clock while `ms` pass by the machine's; a little more passes by
// itself.
static int64_t passes(struct store *s, int64_t ms)
{
    int64_t before = now_of(s);
    sys_pass(ms);
    return now_of(s) - before;
}

static int64_t wall_of_test(void)
{
    return sys_faulty.realtime_ms();
}

// The first process of a boot believed a clock that was wrong by `off`; then it was set right.
static struct store *open_with_clock_off_by(const char *dir, int64_t off)
{
    sys_step_wall(off);
    struct store *s = file_open(dir, &faulty);
    (void)now_of(s);
    sys_step_wall(-off);
    return s;
}

#define SECONDS 100
#define SLACK   (HOUR / 60) // what a busy machine takes for this test

static void a_store_whose_clock_was_behind_catches_up_slowly(void **state)
{
    struct store *s = open_with_clock_off_by(*state, -HOUR), *other = file_open(*state, &faulty);
    int64_t start = clock_boot_ms(), passed = 0;
    for (int i = 0; i < SECONDS; i++)
        passed += passes(i % 2 ? s : other, 1000);
    int64_t itself = clock_boot_ms() - start; // the test's own time
    NEED(passed >= SECONDS * 1004 && passed <= SECONDS * 1006 + itself + itself / 100 + 100);
    NEED(passes(s, 100 * HOUR) <= 100 * HOUR + HOUR / 2 + SLACK); // 5 ms a second, idle or not
    NEED(wall_of_test() - now_of(s) > 0);
    (void)passes(s, 150 * HOUR);
    NEED(llabs(wall_of_test() - now_of(s)) < 1000);
    store_free(other);
    store_free(s);
}

static void a_store_whose_clock_was_ahead_waits_without_going_back(void **state)
{
    struct store *s = open_with_clock_off_by(*state, HOUR), *other = file_open(*state, &faulty);
    int64_t last = 0, start = clock_boot_ms(), passed = 0;
    for (int i = 0; i < SECONDS; i++) {
        passed += passes(i % 2 ? s : other, 1000);
        int64_t now = now_of(s), also = now_of(other);
        NEED(now >= last && also >= now);
        last = also;
    }
    int64_t itself = clock_boot_ms() - start;
    NEED(passed >= SECONDS * 994 && passed <= SECONDS * 996 + itself + 100);
    (void)passes(s, 250 * HOUR);
    NEED(llabs(wall_of_test() - now_of(s)) < 1000);
    store_free(other);
    store_free(s);
}

static void the_time_is_told_without_a_request(void **state)
{
    struct store *s = open_with_clock_off_by(*state, -HOUR);
    for (int i = 0; i < 10; i++) {
        int64_t before = now_of(s), told = 0;
        NEED(store_read_clock(s, &told) && told >= before && now_of(s) >= told);
        (void)passes(s, HOUR);
        NEED(store_read_clock(s, &told) && told - before >= HOUR - HOUR / 100);
    }
    store_free(s);
}

static void many_looks_in_a_second_move_the_clock_once(void **state)
{
    struct store *s = open_with_clock_off_by(*state, -24 * HOUR);
    (void)passes(s, 2000);
    int64_t start = clock_boot_ms(), before = now_of(s);
    for (int i = 0; i < 1000; i++)
        (void)now_of(s);
    int64_t itself = clock_boot_ms() - start;
    NEED(now_of(s) - before <= itself + itself / 100 + 50);
    store_free(s);
}

static void a_wall_clock_that_was_never_set_is_not_followed(void **state)
{
    struct store *s = file_open(*state, &faulty);
    (void)passes(s, 1000);
    sys_step_wall(-wall_of_test() + HOUR); // 1970, as without a battery
    int64_t passed = passes(s, HOUR);
    NEED(passed >= HOUR && passed < HOUR + SLACK);
    store_free(s);
}

static void a_clock_that_is_off_is_told_with_its_remedy(void **state)
{
    char why[STORE_WHY_MAX];
    struct store *s = open_with_clock_off_by(*state, -24 * HOUR);
    NEED(store_concern(s, STORE_CLOCK_OFF, why));
    NEED(strstr(why, " s behind this machine's") && strstr(why, "remove the file \"@clock\""));
    store_free(s);
    char path[SCRATCH_MAX + 16]; // as it says, and no process uses the store
    scratch_path(path, sizeof path, *state, "@clock");
    NEED(unlink(path) == 0);
    s = file_open(*state, &faulty);
    NEED(!store_concern(s, STORE_CLOCK_OFF, why));
    NEED(llabs(wall_of_test() - now_of(s)) < 1000);
    store_free(s);
    NEED(unlink(path) == 0);
    s = open_with_clock_off_by(*state, 24 * HOUR);
    NEED(store_concern(s, STORE_CLOCK_OFF, why));
    NEED(strstr(why, " s ahead of this machine's") && strstr(why, "cannot be set back"));
    store_free(s);
}

static void time_does_not_run_back_over_a_reboot(void **state)
{
    struct store *s = file_open(*state, &faulty);
    append_slot(s, 1);
    int64_t before = now_of(s);
    store_free(s);
    sys_step_wall(-24 * HOUR); // a machine that comes up with a clock of yesterday
    sys_reboot();
    s = file_open(*state, &faulty);
    int64_t after = now_of(s);
    NEED(after >= before && after < before + HOUR);
    store_free(s);
    sys_step_wall(48 * HOUR); // and one whose clock was set right meanwhile
    sys_reboot();
    s = file_open(*state, &faulty);
    NEED(now_of(s) >= before + 23 * HOUR);
    store_free(s);
}

static void a_clock_page_that_is_gone_does_not_turn_time_back_behind_the_journal(void **state)
{
    struct store *s = file_open(*state, &faulty);
    int64_t before = now_of(s); // the record's own time is no earlier
    append_slot(s, 1);
    store_free(s);
    char path[SCRATCH_MAX + 16];
    scratch_path(path, sizeof path, *state, "@clock");
    NEED(unlink(path) == 0);
    sys_step_wall(-24 * HOUR);
    sys_reboot();
    s = file_open(*state, &faulty);
    append_slot(s, 2);
    NEED(now_of(s) >= before);
    store_free(s);
}

// SIGBUS would end the child. What one handle tells, the other one does not tell an earlier time.
static void use_cut_clock(void *arg)
{
    static const off_t lengths[] = {0, 1, 16, 24, 39, 100};
    struct store *s = open_with_clock_off_by(arg, -HOUR), *other = file_open(arg, &faulty);
    char path[SCRATCH_MAX + 16];
    int64_t last = now_of(s), start = last;
    scratch_path(path, sizeof path, arg, "@clock");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct stat st;
        NEED(truncate(path, lengths[i]) == 0);
        sys_pass(2000);
        append_slot(s, i + 1);
        int64_t now = now_of(other), also = now_of(s);
        NEED(now >= last + 1900 && also >= now && also < start + HOUR / 60);
        last = also;
        NEED(stat(path, &st) == 0 && st.st_size == 4096);
    }
    store_free(other);
    store_free(s);
    s = file_open(arg, &faulty);
    int64_t now = now_of(s);
    NEED(now >= last && now < start + HOUR / 60);
    store_free(s);
}

static void a_clock_cut_short_under_a_process_does_not_end_it(void **state)
{
    (void)fflush(NULL);
    child_ends_well(child_start(use_cut_clock, *state));
}

// The lock of the clock is held, as by a process that was stopped: the clock does not follow until
// it is free. Then the offset becomes smaller. The time told last was not written to the file.
static void a_smaller_offset_lets_no_handle_tell_an_earlier_time(void **state)
{
    struct store *s = open_with_clock_off_by(*state, HOUR), *other = file_open(*state, &faulty);
    char path[SCRATCH_MAX + 16];
    scratch_path(path, sizeof path, *state, "@clock");
    (void)now_of(other);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    NEED(fd >= 0 && flock(fd, LOCK_EX) == 0);
    sys_pass(1000 * 1000);
    (void)now_of(s);
    sys_pass(40);
    int64_t told = now_of(s);
    NEED(close(fd) == 0);
    int64_t later = now_of(other);
    sys_pass(6); // the other handle reads the file again
    int64_t also = now_of(s);
    NEED(later >= told && also >= later);
    store_free(other);
    store_free(s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, clock_setup, clock_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_stepped_wall_clock_changes_nothing),
        TEST(a_store_whose_clock_was_behind_catches_up_slowly),
        TEST(a_store_whose_clock_was_ahead_waits_without_going_back),
        TEST(the_time_is_told_without_a_request),
        TEST(many_looks_in_a_second_move_the_clock_once),
        TEST(a_wall_clock_that_was_never_set_is_not_followed),
        TEST(a_clock_that_is_off_is_told_with_its_remedy),
        TEST(time_does_not_run_back_over_a_reboot),
        TEST(a_clock_page_that_is_gone_does_not_turn_time_back_behind_the_journal),
        TEST(a_clock_cut_short_under_a_process_does_not_end_it),
        TEST(a_smaller_offset_lets_no_handle_tell_an_earlier_time),
    };
    return cmocka_run_group_tests_name("clock of a file store", tests, NULL, NULL);
}
