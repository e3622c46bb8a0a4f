// SPDX-License-Identifier: Apache-2.0
// The work of one call on several threads: how often each part runs, how many at a time, and a call
// that gets no thread beside its own.
#define _GNU_SOURCE // RTLD_NEXT
#include "os/parallel.h"
#include "../conformance/store/support.h"
#include "../unit/unit.h"
#include "api/handle.h"
#include "queues/queues.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#define PARTS 1000
#define CALLS 8

// The next calls of pthread_create fail, as they do when the process has too many threads.
static _Atomic bool creation_fails;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    create *real;
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return atomic_load(&creation_fails) ? EAGAIN : real(thread, attr, run, arg);
}

struct work {
    struct sluice *s;
    uint64_t key;
    _Atomic uint32_t runs[PARTS];
    _Atomic size_t inside;
    _Atomic size_t most;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t arrived;
    size_t wanted; // parts wait until so many have arrived
};

static struct sluice *open_store(void)
{
    struct sluice *s;
    assert_int_equal(sluice_open("mem:", NULL, &s, NULL), SLUICE_OK);
    return s;
}

static void work_init(struct work *w, struct sluice *s, uint64_t key)
{
    *w = (struct work){.s = s, .key = key};
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->changed, NULL);
}

static void count_part(void *ctx, size_t i)
{
    struct work *w = ctx;
    size_t inside = atomic_fetch_add(&w->inside, 1) + 1, most = atomic_load(&w->most);
    while (inside > most && !atomic_compare_exchange_weak(&w->most, &most, inside)) {
    }
    atomic_fetch_add(&w->runs[i], 1);
    (void)sched_yield();
    atomic_fetch_sub(&w->inside, 1);
}

static void assert_each_ran_once(struct work *w, size_t count)
{
    for (size_t i = 0; i < PARTS; i++)
        assert_int_equal(w->runs[i], i < count);
    assert_int_equal(w->inside, 0);
    assert_true(w->most <= PARALLEL_MAX);
}

static void each_part_runs_once(void **state)
{
    (void)state;
    static struct work w;
    static const size_t counts[] = {0, 1, 2, PARALLEL_MAX, PARTS};
    struct sluice *s = open_store();
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        work_init(&w, s, 1);
        parallel_for(s->engine->parallel, 1, counts[i], count_part, &w);
        assert_each_ran_once(&w, counts[i]);
    }
    sluice_close(s);
}

static void await_others(void *ctx, size_t i)
{
    struct work *w = ctx;
    (void)i;
    (void)pthread_mutex_lock(&w->lock);
    w->arrived++;
    (void)pthread_cond_broadcast(&w->changed);
    while (w->arrived < w->wanted)
        (void)pthread_cond_wait(&w->changed, &w->lock);
    (void)pthread_mutex_unlock(&w->lock);
}

// Otherwise it hangs.
static void the_parts_of_a_call_wait_at_the_same_time(void **state)
{
    (void)state;
    struct work w;
    struct sluice *s = open_store();
    work_init(&w, s, 1);
    w.wanted = PARALLEL_MAX;
    parallel_for(s->engine->parallel, 1, PARALLEL_MAX, await_others, &w);
    assert_int_equal(w.arrived, PARALLEL_MAX);
    sluice_close(s);
}

static void without_a_thread_the_caller_does_all(void **state)
{
    (void)state;
    static struct work w;
    struct sluice *s = open_store();
    work_init(&w, s, 1);
    atomic_store(&creation_fails, true);
    parallel_for(s->engine->parallel, 1, PARTS, count_part, &w);
    atomic_store(&creation_fails, false);
    assert_each_ran_once(&w, PARTS);
    sluice_close(s);
}

static void *hang(void *arg)
{
    struct work *w = arg;
    parallel_for(w->s->engine->parallel, w->key, PARALLEL_MAX, await_others, w);
    return NULL;
}

// Calls for one queue hang, so their jobs keep all threads that the queue may have.
static void calls_that_hang_leave_threads_for_other_queues(void **state)
{
    (void)state;
    struct work hung, other;
    pthread_t callers[CALLS];
    struct sluice *s = open_store();
    work_init(&hung, s, 1);
    work_init(&other, s, 2);
    hung.wanted = CALLS * PARALLEL_MAX + 1; // never, until the test adds itself
    other.wanted = PARALLEL_MAX;
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, hang, &hung), 0);
    (void)pthread_mutex_lock(&hung.lock);
    while (hung.arrived < CALLS + 2) // the callers, and some helpers
        (void)pthread_cond_wait(&hung.changed, &hung.lock);
    (void)pthread_mutex_unlock(&hung.lock);
    parallel_for(s->engine->parallel, 2, PARALLEL_MAX, await_others, &other);
    assert_int_equal(other.arrived, PARALLEL_MAX);
    (void)pthread_mutex_lock(&hung.lock);
    assert_true(hung.arrived < CALLS * PARALLEL_MAX); // the queue did not get all it asked for
    hung.wanted = 0;
    (void)pthread_cond_broadcast(&hung.changed);
    (void)pthread_mutex_unlock(&hung.lock);
    for (int i = 0; i < CALLS; i++)
        (void)pthread_join(callers[i], NULL);
    assert_int_equal(hung.arrived, CALLS * PARALLEL_MAX);
    sluice_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_runs_once),
        cmocka_unit_test(the_parts_of_a_call_wait_at_the_same_time),
        cmocka_unit_test(without_a_thread_the_caller_does_all),
        cmocka_unit_test(calls_that_hang_leave_threads_for_other_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
