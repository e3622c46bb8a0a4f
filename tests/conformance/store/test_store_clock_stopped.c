// SPDX-License-Identifier: Apache-2.0
// A process that is stopped before or after any one of its reads of a clock. Another process uses
// the store meanwhile. When the first one resumes, the store's clock neither jumps nor goes back.
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define LOG         "q/log"
#define HOUR        ((int64_t)3600 * 1000)
#define STOP_S      100 // half a percent of it is 500 ms
#define READS_MAX   40  // one append reads the clocks less often
#define JUMP_MS_MAX 30  // beyond the time that the test itself takes

static const struct file_options plain = {
    .sys = &sys_faulty, .segment_bytes = 2000, .step_bytes = 1000};

static struct {
    int reads_left; // until the stop; 0: none comes
    bool before;    // the stop is before the read, so the read returns the later time
    struct store *other;
    int64_t told;    // the last time that the other handle told during the stop
    int64_t told_at; // by the clock of the machine
} stop;

static int64_t now_of(struct store *s)
{
    struct store_answer a;
    store_answer_init(&a);
    ANSWERS(ERR_NOT_FOUND, &a, store_get(s, "none", 0, 1, &a));
    int64_t now = a.time.lo;
    store_answer_done(&a);
    return now;
}

static void time_passes(void)
{
    for (int i = 0; i < STOP_S; i++) {
        sys_pass(1000);
        stop.told_at = clock_boot_ms();
        int64_t now = now_of(stop.other);
        NEED(now >= stop.told);
        stop.told = now;
    }
}

static int64_t stopping_read(int64_t (*read)(void))
{
    bool here = stop.reads_left > 0 && --stop.reads_left == 0;
    if (here && stop.before) time_passes();
    int64_t value = read();
    if (here && !stop.before) time_passes();
    return value;
}

static int64_t stopping_boot_ms(void)
{
    return stopping_read(sys_faulty.boot_ms);
}

static int64_t stopping_realtime_ms(void)
{
    return stopping_read(sys_faulty.realtime_ms);
}

static void append_slot(struct store *s, uint64_t slot)
{
    struct store_answer a;
    store_answer_init(&a);
    ANSWERS(ERR_OK, &a, store_append(s, LOG, slot, bytes_str("one"), &a));
    store_answer_done(&a);
}

// Returns false if the append has fewer reads than that.
static bool stop_at(int read, bool before, int64_t off, int64_t idle_ms)
{
    char dir[SCRATCH_MAX];
    scratch_make_quick(dir);
    sys_reset();
    struct file_sys sys = sys_faulty;
    sys.boot_ms = stopping_boot_ms;
    sys.realtime_ms = stopping_realtime_ms;
    struct file_options stopping = plain;
    stopping.sys = &sys;
    sys_step_wall(off); // the first process of the boot believes a wrong clock
    struct store *s = file_open(dir, &stopping);
    stop.other = file_open(dir, &plain);
    append_slot(s, 1);
    sys_step_wall(-off);
    sys_pass(idle_ms);
    stop.told = 0;
    stop.before = before;
    stop.reads_left = read;
    append_slot(s, 2);
    bool stopped = stop.reads_left == 0;
    for (uint64_t slot = 3; stopped && slot < 6; slot++) {
        int64_t now = now_of(stop.other), itself = clock_boot_ms() - stop.told_at;
        NEED(now >= stop.told && now <= stop.told + itself + JUMP_MS_MAX);
        append_slot(s, slot);
    }
    int64_t before_ms = now_of(stop.other);
    sys_pass(1000);
    NEED(!stopped || now_of(stop.other) >= before_ms + 980); // the clock does not stand still
    stop.reads_left = 0;
    store_free(stop.other);
    store_free(s);
    scratch_remove(dir);
    sys_reset();
    return stopped;
}

static void stop_at_each(int64_t off, int64_t idle_ms)
{
    int reads[2] = {0};
    for (int before = 0; before < 2; before++)
        while (reads[before] < READS_MAX && stop_at(reads[before] + 1, before, off, idle_ms))
            reads[before]++;
    NEED(reads[0] >= 4 && reads[0] < READS_MAX && reads[1] == reads[0]);
}

static void a_stopped_process_does_not_move_a_clock_that_is_ahead(void **state)
{
    (void)state;
    stop_at_each(HOUR, 1100);
}

static void a_stopped_process_does_not_move_a_clock_that_is_behind(void **state)
{
    (void)state;
    stop_at_each(-HOUR, 1100);
}

static void a_stopped_process_does_not_move_a_clock_that_is_right(void **state)
{
    (void)state;
    stop_at_each(0, 1100);
}

// No process used the store for ten minutes, so the next step of the clock may be large.
static void a_process_stopped_after_an_idle_time_does_not_move_the_clock(void **state)
{
    (void)state;
    stop_at_each(HOUR, HOUR / 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_process_does_not_move_a_clock_that_is_ahead),
        cmocka_unit_test(a_stopped_process_does_not_move_a_clock_that_is_behind),
        cmocka_unit_test(a_stopped_process_does_not_move_a_clock_that_is_right),
        cmocka_unit_test(a_process_stopped_after_an_idle_time_does_not_move_the_clock),
    };
    return cmocka_run_group_tests_name("clock and stopped processes", tests, NULL, NULL);
}
