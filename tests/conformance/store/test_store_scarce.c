// SPDX-License-Identifier: Apache-2.0
// Files that may be open are few, and logs are many.
#include "../../support/census.h"
#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define LOGS      100
#define LOGS_MAX  8
#define FILES_MAX 64
#define THREADS   4

static int scarce_setup(void **state)
{
    static char dir[SCRATCH_MAX];
    scratch_make_quick(dir);
    *state = dir;
    return 0;
}

static int scarce_teardown(void **state)
{
    scratch_remove(*state);
    return 0;
}

static void log_name(char out[32], unsigned number)
{
    (void)snprintf(out, 32, "q/%03u/log", number);
}

static void append_to(struct store *s, unsigned log, uint64_t slot)
{
    char name[32];
    struct store_answer a CLEANUP(store_answer_done);
    store_answer_init(&a);
    struct bytes body = body_make(log * 1000 + slot, 50);
    log_name(name, log);
    ANSWERS(ERR_OK, &a, store_append(s, name, slot, body, &a));
    bytes_free(body);
}

static void holds(struct store *s, unsigned log, uint64_t slot)
{
    char name[32];
    struct store_answer a CLEANUP(store_answer_done);
    store_answer_init(&a);
    log_name(name, log);
    ANSWERS(ERR_OK, &a, store_read_log(s, name, slot, 1, &a));
    NEED(body_is(store_row_bytes(&a, 0), log * 1000 + slot, 50));
}

static void many_logs_need_few_files(void **state)
{
    struct store *s = file_open(*state, &(struct file_options){.logs_max = LOGS_MAX});
    size_t before = census_take().files;
    for (uint64_t slot = 1; slot <= 3; slot++)
        for (unsigned log = 0; log < LOGS; log++) {
            append_to(s, log, slot);
            holds(s, log, slot);
            NEED(census_take().files <= before + 3 * LOGS_MAX);
        }
    for (unsigned log = 0; log < LOGS; log++)
        holds(s, log, 1);
    store_free(s);
}

static void a_log_that_rests_has_no_files(void **state)
{
    struct store *s = file_open(*state, NULL);
    size_t before = census_take().files;
    append_to(s, 1, 1);
    holds(s, 1, 1);
    NEED(census_take().files > before);
    store_rest(s, "q/001/log");
    NEED(census_take().files == before);
    store_rest(s, "q/001/log"); // again, and one that never was: fine
    store_rest(s, "q/none/log");
    append_to(s, 1, 2);
    holds(s, 1, 1);
    store_free(s);
}

struct writer {
    pthread_t thread;
    struct store *store;
    unsigned number;
};

// Each has logs of its own, so that every append must win.
static void *write_own(void *arg)
{
    const struct writer *w = arg;
    for (uint64_t slot = 1; slot <= 20; slot++)
        for (unsigned log = w->number; log < LOGS; log += THREADS) {
            char name[32];
            append_to(w->store, log, slot);
            log_name(name, log);
            if (slot % 5 == 0) store_rest(w->store, name);
            holds(w->store, log, slot);
        }
    return NULL;
}

static void a_log_in_use_is_not_closed(void **state)
{
    struct writer w[THREADS];
    struct store *s = file_open(*state, &(struct file_options){.logs_max = LOGS_MAX});
    for (unsigned i = 0; i < THREADS; i++) {
        w[i] = (struct writer){.store = s, .number = i};
        NEED(pthread_create(&w[i].thread, NULL, write_own, &w[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        NEED(pthread_join(w[i].thread, NULL) == 0);
    store_free(s);
}

// In a child, whose limit is its own.
static void run_out_of_files(void *arg)
{
    struct store *s = file_open(arg, NULL);
    struct store_answer a;
    int taken[FILES_MAX], len = 0;
    char why[STORE_WHY_MAX];
    store_answer_init(&a);
    append_to(s, 1, 1);
    NEED(setrlimit(RLIMIT_NOFILE, &(struct rlimit){FILES_MAX, FILES_MAX}) == 0);
    while (len < FILES_MAX && (taken[len] = open("/dev/null", O_RDONLY)) >= 0)
        len++;
    NEED(len > 0 && len < FILES_MAX);
    ANSWERS(ERR_UNAVAILABLE, &a, store_append(s, "q/001/log", 2, bytes_str("x"), &a));
    NEED(strstr(a.why, "this process may have 64; raise the limit") != NULL);
    ANSWERS(ERR_UNAVAILABLE, &a, store_append(s, "q/002/log", 1, bytes_str("x"), &a));
    ANSWERS(ERR_UNAVAILABLE, &a, store_put_new(s, "key", bytes_str("x"), &a));
    ANSWERS(ERR_UNAVAILABLE, &a, store_get(s, "key", 0, 1, &a));
    ANSWERS(ERR_UNAVAILABLE, &a, store_list(s, "", NULL, 10, &a));
    NEED(!store_is_dead(s, why));
    while (len > 0)
        NEED(close(taken[--len]) == 0);
    ANSWERS(ERR_NOT_FOUND, &a, store_get(s, "key", 0, 1, &a)); // what was refused did not happen
    append_to(s, 1, 2);
    append_to(s, 2, 1);
    holds(s, 1, 1);
    store_answer_done(&a);
    store_free(s);
}

static void without_files_nothing_happens_and_nothing_is_lost(void **state)
{
    child_ends_well(child_start(run_out_of_files, *state));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scarce_setup, scarce_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(many_logs_need_few_files),
        TEST(a_log_that_rests_has_no_files),
        TEST(a_log_in_use_is_not_closed),
        TEST(without_files_nothing_happens_and_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
