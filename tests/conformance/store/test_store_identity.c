// SPDX-License-Identifier: Apache-2.0
// A store that is emptied or replaced while a handle is open: no write is acknowledged after that
// could have been noticed, and nothing else is taken for it.
#include "../../support/fault_store.h"
#include "os/clock.h"
#include "store/backend.h"
#include "store/identity.h"
#include "store/mem.h"
#include "support.h"

// cmocka.h needs these before it
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LONG_MS ((int64_t)3600 * 1000) // no test lasts so long
#define BODY    bytes_str("x")

// A store in memory whose gets are counted, and of which the test makes some fail.
struct hooked {
    struct store *mem;
    const struct store_ops *ops; // what it does otherwise
    struct store_ops changed;
    _Atomic int gets;    // of FORMAT_KEY
    _Atomic int missing; // so many of these are answered 404
    bool empties;        // an append deletes FORMAT_KEY, then lets 2 ms pass
    bool damaged;        // reads of logs find that segments are missing
};

static struct hooked hook;

static enum err hooked_get(struct store *s, const char *key, size_t from, size_t len,
                           struct store_answer *a)
{
    if (strcmp(key, FORMAT_KEY) == 0) {
        atomic_fetch_add(&hook.gets, 1);
        if (atomic_load(&hook.missing) > 0) {
            atomic_fetch_sub(&hook.missing, 1);
            return ERR_NOT_FOUND;
        }
    }
    return hook.ops->get(s, key, from, len, a);
}

static void empty(struct store *s)
{
    struct store_answer a;
    store_answer_init(&a);
    ANSWERS(ERR_OK, &a, store_delete(s, (const char *const[]){FORMAT_KEY}, 1, &a));
    store_answer_done(&a);
}

static enum err hooked_read_log(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                                struct store_answer *a)
{
    if (hook.damaged) return answer_refuse(a, ERR_CORRUPT, "the segments are gone");
    return hook.ops->read_log(s, log, slot, bytes_max, a);
}

static enum err hooked_append(struct store *s, const char *log, uint64_t slot, struct bytes body,
                              struct store_answer *a)
{
    enum err e = hook.ops->append(s, log, slot, body, a);
    if (!hook.empties) return e;
    empty(s);
    for (int64_t start = clock_boot_ms(); clock_boot_ms() < start + 2;)
        ;
    return e;
}

struct world {
    char dir[SCRATCH_MAX];
    struct store_answer a;
};

static int setup(void **state)
{
    static struct world w;
    w = (struct world){0};
    scratch_make(w.dir);
    store_answer_init(&w.a);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    store_answer_done(&w->a);
    scratch_remove(w->dir);
    return 0;
}

// s with its identity known; the look that found it was a moment ago, or too long ago.
static struct store *guard(struct store *inner, int64_t fresh_ms, bool stale)
{
    struct store_format format;
    char why[STORE_WHY_MAX];
    struct store *s = store_identity_take(inner, fresh_ms);
    enum err e = store_check(s, &format, why, sizeof why);
    answers_at(ERR_OK, e, why, __FILE__, __LINE__);
    store_identity_expect(s, format.id, clock_boot_ms() - (stale ? fresh_ms : 0));
    return s;
}

static struct store *guard_memory(int64_t fresh_ms, bool stale)
{
    hook.mem = store_mem_new();
    hook.ops = hook.mem->ops;
    hook.changed = *hook.ops;
    hook.changed.get = hooked_get;
    hook.changed.append = hooked_append;
    hook.changed.read_log = hooked_read_log;
    hook.empties = false;
    hook.damaged = false;
    hook.mem->ops = &hook.changed;
    struct store *s = guard(hook.mem, fresh_ms, stale);
    atomic_store(&hook.gets, 0);
    return s;
}

static void is_lost(struct store *s, const char *word)
{
    char why[STORE_WHY_MAX];
    NEED(store_is_dead(s, why));
    NEED(store_identity_is_lost(s));
    if (!strstr(why, word)) print_message("# %s\n", why);
    NEED(strstr(why, word) != NULL);
}

static void a_fresh_look_serves_every_write(void **state)
{
    struct world *w = *state;
    struct store *s = guard_memory(LONG_MS, false);
    for (uint64_t slot = 1; slot <= 100; slot++)
        ANSWERS(ERR_OK, &w->a, store_append(s, "q/log", slot, BODY, &w->a));
    NEED(atomic_load(&hook.gets) == 0);
    store_free(s);
}

static void the_first_write_after_idle_time_looks_once(void **state)
{
    struct world *w = *state;
    struct store *s = guard_memory(LONG_MS, true);
    ANSWERS(ERR_OK, &w->a, store_put(s, "a", BODY, &w->a));
    ANSWERS(ERR_OK, &w->a, store_put_new(s, "b", BODY, &w->a));
    ANSWERS(ERR_OK, &w->a, store_append(s, "q/log", 1, BODY, &w->a));
    NEED(atomic_load(&hook.gets) == 1);
    store_free(s);
}

static void reads_look_at_nothing(void **state)
{
    struct world *w = *state;
    struct store *s = guard_memory(LONG_MS, true);
    ANSWERS(ERR_NOT_FOUND, &w->a, store_get(s, "a", 0, SIZE_MAX, &w->a));
    ANSWERS(ERR_OK, &w->a, store_list(s, "", NULL, 10, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(s, "q/log", 1, 100, &w->a));
    NEED(atomic_load(&hook.gets) == 0);
    store_free(s);
}

static void a_damaged_read_says_that_the_store_was_emptied(void **state)
{
    struct world *w = *state;
    struct store *s = guard_memory(LONG_MS, false);
    hook.damaged = true;
    ANSWERS(ERR_CORRUPT, &w->a, store_read_log(s, "q/log", 1, 100, &w->a));
    NEED(strstr(w->a.why, "the segments are gone") != NULL && !store_identity_is_lost(s));
    empty(hook.mem);
    ANSWERS(ERR_CORRUPT, &w->a, store_read_log(s, "q/log", 1, 100, &w->a));
    NEED(strstr(w->a.why, "emptied") != NULL);
    is_lost(s, "emptied");
    store_free(s);
}

static void *write_one(void *arg)
{
    static _Atomic int number;
    char key[20];
    struct store_answer a;
    store_answer_init(&a);
    (void)snprintf(key, sizeof key, "key-%d", atomic_fetch_add(&number, 1));
    enum err e = store_put_new(arg, key, BODY, &a);
    store_answer_done(&a);
    return e ? arg : NULL;
}

static void writers_at_the_same_time_share_a_look(void **state)
{
    (void)state;
    pthread_t threads[8];
    void *failed;
    struct store *s = guard_memory(LONG_MS, true);
    for (size_t i = 0; i < 8; i++)
        NEED(pthread_create(&threads[i], NULL, write_one, s) == 0);
    for (size_t i = 0; i < 8; i++) {
        (void)pthread_join(threads[i], &failed);
        NEED(!failed);
    }
    NEED(atomic_load(&hook.gets) == 1);
    store_free(s);
}

static void a_write_to_an_emptied_store_is_refused_and_not_made(void **state)
{
    struct world *w = *state;
    struct store *s = guard_memory(LONG_MS, true);
    empty(hook.mem);
    ANSWERS(ERR_CORRUPT, &w->a, store_append(s, "q/log", 1, BODY, &w->a));
    is_lost(s, "emptied");
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(hook.mem, "q/log", 1, 100, &w->a));
    store_free(s);
}

static void every_call_of_a_lost_store_answers_corrupt(void **state)
{
    struct world *w = *state;
    struct store_answer *a = &w->a;
    struct store *s = guard_memory(LONG_MS, true);
    empty(hook.mem);
    ANSWERS(ERR_CORRUPT, a, store_put(s, "a", BODY, a));
    ANSWERS(ERR_CORRUPT, a, store_put_new(s, "a", BODY, a));
    ANSWERS(ERR_CORRUPT, a, store_append(s, "q/log", 1, BODY, a));
    ANSWERS(ERR_CORRUPT, a, store_get(s, "a", 0, SIZE_MAX, a));
    ANSWERS(ERR_CORRUPT, a, store_list(s, "", NULL, 10, a));
    ANSWERS(ERR_CORRUPT, a, store_delete(s, (const char *const[]){"a"}, 1, a));
    ANSWERS(ERR_CORRUPT, a, store_read_log(s, "q/log", 1, 100, a));
    ANSWERS(ERR_CORRUPT, a, store_extents(s, "q/log", 1, 10, a));
    ANSWERS(ERR_CORRUPT, a, store_drop(s, "q/log", 1, 1, a));
    ANSWERS(ERR_CORRUPT, a, store_seal(s, "q/log", a));
    ANSWERS(ERR_CORRUPT, a, store_wait(s, "q/log", 1, 0, a));
    NEED(strstr(a->why, "emptied") != NULL);
    store_free(s);
}

static void a_store_that_was_made_anew_is_another(void **state)
{
    struct world *w = *state;
    struct store_format format;
    char why[STORE_WHY_MAX];
    struct store *s = guard_memory(LONG_MS, true);
    empty(hook.mem);
    answers_at(ERR_OK, store_check(hook.mem, &format, why, sizeof why), why, __FILE__, __LINE__);
    ANSWERS(ERR_CORRUPT, &w->a, store_put(s, "a", BODY, &w->a));
    is_lost(s, "replaced by another");
    store_free(s);
}

static void a_write_that_outlasts_its_look_is_followed_by_another(void **state)
{
    struct world *w = *state;
    struct store *s = guard_memory(1, true);
    hook.empties = true; // before the append is over, and it takes longer than a look holds
    ANSWERS(ERR_CORRUPT, &w->a, store_append(s, "q/log", 1, BODY, &w->a));
    is_lost(s, "emptied");
    store_free(s);
}

static void a_404_that_does_not_last_loses_nothing(void **state)
{
    struct world *w = *state;
    struct store *s = guard_memory(LONG_MS, true);
    atomic_store(&hook.missing, 2);
    ANSWERS(ERR_OK, &w->a, store_append(s, "q/log", 1, BODY, &w->a));
    NEED(atomic_load(&hook.gets) == 3);
    NEED(!store_identity_is_lost(s));
    store_free(s);
}

static void a_404_that_a_list_contradicts_is_unavailable(void **state)
{
    struct world *w = *state;
    struct store *s = guard_memory(LONG_MS, true);
    atomic_store(&hook.missing, 3);
    ANSWERS(ERR_UNAVAILABLE, &w->a, store_append(s, "q/log", 1, BODY, &w->a));
    NEED(!store_identity_is_lost(s));
    ANSWERS(ERR_OK, &w->a, store_append(s, "q/log", 1, BODY, &w->a));
    store_free(s);
}

static void a_store_that_is_away_is_not_missing(void **state)
{
    struct world *w = *state;
    struct store *away = store_fault_take(store_mem_new(), &(struct fault_options){0});
    struct store *s = guard(away, LONG_MS, true);
    store_fault_set(away, &(struct fault_options){.seed = 1, .lost_request = 10000});
    ANSWERS(ERR_UNAVAILABLE, &w->a, store_append(s, "q/log", 1, BODY, &w->a));
    NEED(!store_identity_is_lost(s));
    store_fault_set(away, &(struct fault_options){0});
    ANSWERS(ERR_OK, &w->a, store_append(s, "q/log", 1, BODY, &w->a));
    store_free(s);
}

static void a_directory_whose_files_were_removed_is_lost(void **state)
{
    struct world *w = *state;
    struct store *s = guard(file_open(w->dir, NULL), LONG_MS, true);
    DIR *dir = opendir(w->dir);
    NEED(dir != NULL);
    for (struct dirent *row = readdir(dir); row; row = readdir(dir)) {
        char path[SCRATCH_MAX + 300];
        scratch_path(path, sizeof path, w->dir, row->d_name);
        if (row->d_name[0] != '.') scratch_remove(path);
    }
    (void)closedir(dir);
    ANSWERS(ERR_CORRUPT, &w->a, store_append(s, "q/log", 1, BODY, &w->a));
    is_lost(s, "emptied");
    store_free(s);
}

static void a_directory_that_was_renamed_is_lost(void **state)
{
    struct world *w = *state;
    char path[SCRATCH_MAX + 20], other[SCRATCH_MAX + 20];
    scratch_path(path, sizeof path, w->dir, "store");
    scratch_path(other, sizeof other, w->dir, "other");
    struct store *s = guard(file_open(path, NULL), LONG_MS, true);
    NEED(rename(path, other) == 0);
    ANSWERS(ERR_CORRUPT, &w->a, store_append(s, "q/log", 1, BODY, &w->a));
    is_lost(s, "is missing");
    store_free(s);
}

static void a_directory_that_was_replaced_is_lost(void **state)
{
    struct world *w = *state;
    char path[SCRATCH_MAX + 20], other[SCRATCH_MAX + 20];
    scratch_path(path, sizeof path, w->dir, "store");
    scratch_path(other, sizeof other, w->dir, "other");
    struct store *s = guard(file_open(path, NULL), LONG_MS, true);
    NEED(rename(path, other) == 0);
    struct store *second = guard(file_open(path, NULL), LONG_MS, false);
    ANSWERS(ERR_CORRUPT, &w->a, store_append(s, "q/log", 1, BODY, &w->a));
    is_lost(s, "another directory");
    ANSWERS(ERR_OK, &w->a, store_append(second, "q/log", 1, BODY, &w->a));
    store_free(second);
    store_free(s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_fresh_look_serves_every_write),
        TEST(the_first_write_after_idle_time_looks_once),
        TEST(reads_look_at_nothing),
        TEST(a_damaged_read_says_that_the_store_was_emptied),
        TEST(writers_at_the_same_time_share_a_look),
        TEST(a_write_to_an_emptied_store_is_refused_and_not_made),
        TEST(every_call_of_a_lost_store_answers_corrupt),
        TEST(a_store_that_was_made_anew_is_another),
        TEST(a_write_that_outlasts_its_look_is_followed_by_another),
        TEST(a_404_that_does_not_last_loses_nothing),
        TEST(a_404_that_a_list_contradicts_is_unavailable),
        TEST(a_store_that_is_away_is_not_missing),
        TEST(a_directory_whose_files_were_removed_is_lost),
        TEST(a_directory_that_was_renamed_is_lost),
        TEST(a_directory_that_was_replaced_is_lost),
    };
    return cmocka_run_group_tests_name("the identity of a store", tests, NULL, NULL);
}
