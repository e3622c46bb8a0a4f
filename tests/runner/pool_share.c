// SPDX-License-Identifier: Apache-2.0
// The shares of the thread pool: the order of jobs, the bound of a share and of a key, jobs that
// block, the end of a share, and a process that cannot create a thread.
#define _GNU_SOURCE // RTLD_NEXT
#include "../unit/unit.h"
#include "os/clock.h"
#include "os/thread_pool.h"
#include "scratch.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define WAIT_MS 20000 // nothing takes so long unless it hangs
#define JOBS    64

// The next calls of pthread_create fail, as they do when the process has too many threads.
static _Atomic bool creation_fails;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    create *real;
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return atomic_load(&creation_fails) ? EAGAIN : real(thread, attr, run, arg);
}

struct rig {
    struct thread_pool *pool;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open; // jobs wait until it is
    uint32_t arrived;
    uint32_t ended;
    char order[JOBS + 1];
};

struct job {
    struct pool_job job; // first
    struct rig *rig;
    char name;
};

static int set_up(void **state)
{
    struct rig *r = test_calloc(1, sizeof *r);
    r->pool = thread_pool_new(1);
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->changed, NULL);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    atomic_store(&creation_fails, false);
    thread_pool_free(r->pool);
    test_free(r);
    return 0;
}

static void arrive(struct pool_job *job)
{
    struct job *j = (struct job *)job;
    struct rig *r = j->rig;
    (void)pthread_mutex_lock(&r->lock);
    r->order[r->arrived++] = j->name;
    (void)pthread_cond_broadcast(&r->changed);
    while (!r->open)
        (void)pthread_cond_wait(&r->changed, &r->lock);
    r->ended++;
    memset(j, 0xAA, sizeof *j); // the pool does not use a job that has run
    (void)pthread_mutex_unlock(&r->lock);
}

static void open_gate(struct rig *r)
{
    (void)pthread_mutex_lock(&r->lock);
    r->open = true;
    (void)pthread_cond_broadcast(&r->changed);
    (void)pthread_mutex_unlock(&r->lock);
}

static void await(struct rig *r, uint32_t arrived)
{
    (void)pthread_mutex_lock(&r->lock);
    while (r->arrived < arrived)
        (void)pthread_cond_wait(&r->changed, &r->lock);
    (void)pthread_mutex_unlock(&r->lock);
}

static enum err try_run(struct rig *r, struct pool_share *share, struct job *j, char key)
{
    *j = (struct job){.job = {.run = arrive}, .rig = r, .name = key};
    return pool_share_run(share, (uint64_t)key, &j->job);
}

static void run(struct rig *r, struct pool_share *share, struct job *j, char key)
{
    assert_int_equal(try_run(r, share, j, key), ERR_OK);
}

static uint32_t arrived(struct rig *r)
{
    (void)pthread_mutex_lock(&r->lock);
    uint32_t count = r->arrived;
    (void)pthread_mutex_unlock(&r->lock);
    return count;
}

static bool has_arrived(struct rig *r, char key)
{
    (void)pthread_mutex_lock(&r->lock);
    bool is_there = strchr(r->order, key) != NULL;
    (void)pthread_mutex_unlock(&r->lock);
    return is_there;
}

static void jobs_of_a_key_start_in_order(void **state)
{
    struct rig *r = *state;
    struct job jobs[8];
    struct pool_share *share = pool_share_new(r->pool, 4, 1);
    for (int i = 0; i < 8; i++) {
        jobs[i] = (struct job){.job = {.run = arrive}, .rig = r, .name = (char)('0' + i)};
        assert_int_equal(pool_share_run(share, 7, &jobs[i].job), ERR_OK);
    }
    open_gate(r);
    pool_share_free(share);
    assert_string_equal(r->order, "01234567");
}

static void keys_take_turns(void **state)
{
    struct rig *r = *state;
    struct job jobs[8];
    struct pool_share *share = pool_share_new(r->pool, 1, 1);
    for (int i = 0; i < 8; i++) {
        run(r, share, &jobs[i], "aaaaabbc"[i]);
        if (i == 0) await(r, 1);
    }
    open_gate(r);
    pool_share_free(share);
    assert_string_equal(r->order, "abcabaaa");
}

static void a_key_has_no_more_threads_than_it_may(void **state)
{
    struct rig *r = *state;
    struct job jobs[9];
    struct pool_share *share = pool_share_new(r->pool, 8, 2);
    for (int i = 0; i < 9; i++)
        run(r, share, &jobs[i], "aaaaaaaab"[i]);
    await(r, 3);
    assert_true(has_arrived(r, 'b')); // it is not behind those of a that wait
    assert_int_equal(arrived(r), 3);
    open_gate(r);
    pool_share_free(share);
    assert_int_equal(r->ended, 9);
}

// Each key takes a part of what is free. So some threads are free for yet another key.
static void a_few_keys_that_block_leave_a_thread_for_others(void **state)
{
    enum { BUSY = 4, EACH = 8 }; // they have 4, 4, 4 and 2 threads at most
    struct rig *r = *state;
    static struct job jobs[BUSY * EACH + 1];
    struct pool_share *share = pool_share_new(r->pool, 16, 4);
    for (int i = 0; i < BUSY * EACH; i++)
        run(r, share, &jobs[i], (char)('a' + i / EACH));
    await(r, BUSY);
    run(r, share, &jobs[BUSY * EACH], 'z');
    int64_t give_up = clock_boot_ms() + WAIT_MS;
    while (!has_arrived(r, 'z')) {
        (void)sched_yield();
        assert_true(clock_boot_ms() < give_up);
    }
    open_gate(r);
    pool_share_free(share);
    assert_int_equal(r->ended, BUSY * EACH + 1);
}

struct counter {
    struct pool_task task; // first
    _Atomic uint32_t runs;
    int64_t at;
};

static int64_t count_run(struct pool_task *task)
{
    struct counter *c = (struct counter *)task;
    c->at = clock_boot_ms();
    atomic_fetch_add(&c->runs, 1);
    return TASK_NEVER;
}

static bool has_run(void *ctx)
{
    return atomic_load(&((struct counter *)ctx)->runs) > 0;
}

static void a_full_share_delays_neither_another_share_nor_a_timer(void **state)
{
    struct rig *r = *state;
    struct job jobs[5];
    struct counter soon, timed;
    struct pool_share *full = pool_share_new(r->pool, 2, 2), *other = pool_share_new(r->pool, 1, 1);
    for (int i = 0; i < 4; i++)
        run(r, full, &jobs[i], 'a');
    await(r, 2);
    assert_int_equal(thread_pool_add(r->pool, &soon.task, count_run), ERR_OK);
    assert_int_equal(pool_share_add(other, &timed.task, count_run), ERR_OK);
    soon.runs = timed.runs = 0;
    int64_t due = clock_boot_ms() + 20;
    task_schedule_at(&timed.task, due);
    task_schedule(&soon.task);
    assert_true(eventually(has_run, &soon, WAIT_MS));
    assert_true(eventually(has_run, &timed, WAIT_MS));
    assert_true(timed.at >= due);
    run(r, other, &jobs[4], 'b');
    await(r, 3);
    assert_string_equal(r->order, "aab");
    task_remove(&soon.task);
    task_remove(&timed.task);
    open_gate(r);
    pool_share_free(full);
    pool_share_free(other);
}

static void *free_share(void *share)
{
    pool_share_free(share);
    return NULL;
}

static void the_end_of_a_share_waits_for_its_jobs(void **state)
{
    struct rig *r = *state;
    struct job jobs[6];
    pthread_t thread;
    struct pool_share *share = pool_share_new(r->pool, 2, 2);
    for (int i = 0; i < 6; i++)
        run(r, share, &jobs[i], 'a');
    await(r, 2);
    assert_int_equal(pthread_create(&thread, NULL, free_share, share), 0);
    assert_int_equal(r->ended, 0);
    open_gate(r);
    (void)pthread_join(thread, NULL);
    assert_int_equal(r->ended, 6);
}

static void a_job_that_waits_can_be_withdrawn(void **state)
{
    struct rig *r = *state;
    struct job first, second, third;
    struct pool_share *share = pool_share_new(r->pool, 1, 1);
    run(r, share, &first, 'a');
    await(r, 1);
    run(r, share, &second, 'b');
    run(r, share, &third, 'c');
    assert_false(pool_share_withdraw(share, &first.job));
    assert_true(pool_share_withdraw(share, &second.job));
    assert_false(pool_share_withdraw(share, &second.job));
    open_gate(r);
    pool_share_free(share);
    assert_string_equal(r->order, "ac");
}

static void without_a_thread_the_submitter_gets_an_error(void **state)
{
    struct rig *r = *state;
    struct job a, b, c;
    struct counter task;
    struct pool_share *share = pool_share_new(r->pool, 2, 2);
    atomic_store(&creation_fails, true);
    assert_int_equal(try_run(r, share, &a, 'a'), ERR_LIMIT);
    assert_int_equal(thread_pool_add(r->pool, &task.task, count_run), ERR_LIMIT);
    atomic_store(&creation_fails, false);
    run(r, share, &b, 'b');
    await(r, 1);
    atomic_store(&creation_fails, true);
    assert_int_equal(try_run(r, share, &c, 'c'), ERR_LIMIT); // the only thread is busy
    atomic_store(&creation_fails, false);
    run(r, share, &a, 'a');
    await(r, 2);
    open_gate(r);
    pool_share_free(share);
    assert_string_equal(r->order, "ba");
}

// The pool accepted the jobs, but can create no second thread. The first one runs them in turn.
static void jobs_that_were_accepted_run_on_the_threads_that_exist(void **state)
{
    struct rig *r = *state;
    struct job jobs[3];
    struct counter task;
    struct pool_share *share = pool_share_new(r->pool, 4, 4);
    assert_int_equal(thread_pool_add(r->pool, &task.task, count_run), ERR_OK);
    open_gate(r);
    atomic_store(&creation_fails, true);
    uint32_t accepted = 0;
    for (int i = 0; i < 3; i++)
        accepted += try_run(r, share, &jobs[i], 'a') == ERR_OK;
    pool_share_free(share);
    assert_true(accepted >= 1);
    assert_int_equal(r->ended, accepted);
    task_remove(&task.task);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(jobs_of_a_key_start_in_order),
        CASE(keys_take_turns),
        CASE(a_key_has_no_more_threads_than_it_may),
        CASE(a_few_keys_that_block_leave_a_thread_for_others),
        CASE(a_full_share_delays_neither_another_share_nor_a_timer),
        CASE(the_end_of_a_share_waits_for_its_jobs),
        CASE(a_job_that_waits_can_be_withdrawn),
        CASE(without_a_thread_the_submitter_gets_an_error),
        CASE(jobs_that_were_accepted_run_on_the_threads_that_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
