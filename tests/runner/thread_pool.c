// SPDX-License-Identifier: Apache-2.0
// The thread pool alone: which task runs when, how many at a time, and which may sleep.
#include "os/thread_pool.h"
#include "../unit/unit.h"
#include "base/memory.h"
#include "os/clock.h"
#include "scratch.h"
#include "threads.h"

#include <stdatomic.h>
#include <string.h>

#define WAIT_MS 20000 // nothing takes so long unless it hangs
#define THREADS 4
#define MANY    10
#define KICKERS 4
#define KICKS   2000

struct rig {
    struct thread_pool *pool;
    _Atomic bool held; // turns that block do until this is false
    _Atomic uint32_t blocked;
    _Atomic uint32_t lingering;
    _Atomic uint32_t refused;
};

struct actor {
    struct pool_task member; // first
    struct rig *rig;
    _Atomic uint32_t turns;
    _Atomic bool inside;
    int64_t after_ms; // of its first turn the next is due; 0: none is
    int64_t last_at;
    int64_t again; // what task_may_sleep answered
    bool eager;
};

static size_t at_first; // threads

static int count_threads(void **state)
{
    (void)state;
    at_first = threads_at_first();
    return 0;
}

static bool all_have_gone(void *ctx)
{
    (void)ctx;
    return threads_here() == at_first;
}

static int set_up(void **state)
{
    assert_true(eventually(all_have_gone, NULL, WAIT_MS)); // of the test before
    struct rig *r = test_calloc(1, sizeof *r);
    r->pool = thread_pool_new(THREADS);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    thread_pool_free(r->pool);
    test_free(r);
    return 0;
}

static void join(struct rig *r, struct actor *a, int64_t (*turn)(struct pool_task *m))
{
    *a = (struct actor){.rig = r};
    assert_int_equal(thread_pool_add(r->pool, &a->member, turn), ERR_OK);
}

struct wanted {
    _Atomic uint32_t *count;
    uint32_t at_least;
};

static bool reached(void *ctx)
{
    struct wanted *w = ctx;
    return atomic_load(w->count) >= w->at_least;
}

static void await(_Atomic uint32_t *count, uint32_t at_least)
{
    assert_true(eventually(reached, &(struct wanted){count, at_least}, WAIT_MS));
}

static int64_t short_turn(struct pool_task *m)
{
    struct actor *a = (struct actor *)m;
    a->last_at = clock_boot_ms();
    int64_t next = a->after_ms > 0 && a->turns == 0 ? a->last_at + a->after_ms : TASK_NEVER;
    atomic_fetch_add(&a->turns, 1);
    return next;
}

static int64_t blocking_turn(struct pool_task *m)
{
    struct actor *a = (struct actor *)m;
    task_may_block(m);
    atomic_fetch_add(&a->rig->blocked, 1);
    while (atomic_load(&a->rig->held))
        (void)sched_yield();
    atomic_fetch_sub(&a->rig->blocked, 1);
    atomic_fetch_add(&a->turns, 1);
    return TASK_NEVER;
}

static void a_scheduled_task_runs(void **state)
{
    struct actor a;
    join(*state, &a, short_turn);
    task_schedule(&a.member);
    await(&a.turns, 1);
    task_schedule(&a.member);
    await(&a.turns, 2);
    task_remove(&a.member);
    assert_int_equal(a.turns, 2);
}

static void a_task_runs_when_it_is_due_and_not_before(void **state)
{
    struct actor a;
    join(*state, &a, short_turn);
    a.after_ms = 30;
    int64_t start = clock_boot_ms();
    task_schedule(&a.member);
    await(&a.turns, 2);
    task_remove(&a.member);
    assert_true(a.last_at >= start + 30);
}

// The timer thread sleeps for an hour; a task is due earlier.
static void a_task_that_is_due_earlier_runs_earlier(void **state)
{
    struct actor late, soon;
    join(*state, &late, short_turn);
    join(*state, &soon, short_turn);
    task_schedule_at(&late.member, clock_boot_ms() + 3600000);
    int64_t at = clock_boot_ms() + 20;
    task_schedule_at(&soon.member, at + 60000);
    task_schedule_at(&soon.member, at);
    task_schedule_at(&soon.member, at + 1000); // postpones nothing
    await(&soon.turns, 1);
    assert_true(soon.last_at >= at);
    assert_int_equal(late.turns, 0);
    task_remove(&late.member);
    task_remove(&soon.member);
    assert_int_equal(soon.turns, 1);
}

static int64_t jealous_turn(struct pool_task *m)
{
    struct actor *a = (struct actor *)m;
    assert_false(atomic_exchange(&a->inside, true));
    if (a->turns % 3 == 0) task_may_block(m);
    (void)sched_yield();
    atomic_fetch_add(&a->turns, 1);
    atomic_store(&a->inside, false);
    return TASK_NEVER;
}

static void *kick_often(void *arg)
{
    for (int i = 0; i < KICKS; i++)
        task_schedule(arg);
    return NULL;
}

static void no_task_runs_twice_at_once(void **state)
{
    struct actor a;
    pthread_t kickers[KICKERS];
    join(*state, &a, jealous_turn);
    for (int i = 0; i < KICKERS; i++)
        assert_int_equal(pthread_create(&kickers[i], NULL, kick_often, &a.member), 0);
    for (int i = 0; i < KICKERS; i++)
        (void)pthread_join(kickers[i], NULL);
    uint32_t turns = atomic_load(&a.turns);
    task_schedule(&a.member); // none is forgotten
    await(&a.turns, turns + 1);
    task_remove(&a.member);
}

static void a_task_scheduled_while_it_runs_runs_again(void **state)
{
    struct rig *r = *state;
    struct actor a;
    join(r, &a, blocking_turn);
    atomic_store(&r->held, true);
    task_schedule(&a.member);
    await(&r->blocked, 1);
    task_schedule(&a.member);
    atomic_store(&r->held, false);
    await(&a.turns, 2);
    task_remove(&a.member);
}

static void tasks_that_block_delay_no_other_task(void **state)
{
    struct rig *r = *state;
    struct actor slow[THREADS - 1], quick, timed;
    join(r, &quick, short_turn);
    join(r, &timed, short_turn);
    timed.after_ms = 1;
    atomic_store(&r->held, true);
    for (size_t i = 0; i < THREADS - 1; i++) {
        join(r, &slow[i], blocking_turn);
        task_schedule(&slow[i].member);
    }
    await(&r->blocked, THREADS - 1);
    task_schedule(&quick.member);
    await(&quick.turns, 1);
    task_schedule(&timed.member);
    await(&timed.turns, 2);
    atomic_store(&r->held, false);
    for (size_t i = 0; i < THREADS - 1; i++)
        task_remove(&slow[i].member);
    task_remove(&quick.member);
    task_remove(&timed.member);
}

static void there_are_never_more_threads_than_configured(void **state)
{
    struct rig *r = *state;
    struct actor slow[MANY];
    atomic_store(&r->held, true);
    for (size_t i = 0; i < MANY; i++) {
        join(r, &slow[i], blocking_turn);
        task_schedule(&slow[i].member);
    }
    await(&r->blocked, THREADS);
    assert_int_equal(threads_here(), at_first + THREADS);
    atomic_store(&r->held, false);
    for (size_t i = 0; i < MANY; i++)
        await(&slow[i].turns, 1); // and every task runs
    for (size_t i = 0; i < MANY; i++)
        task_remove(&slow[i].member);
}

static bool one_is_left(void *ctx)
{
    (void)ctx;
    return threads_here() == at_first + 1;
}

static void threads_without_work_go(void **state)
{
    struct rig *r = *state;
    struct actor slow[THREADS];
    atomic_store(&r->held, true);
    for (size_t i = 0; i < THREADS; i++) {
        join(r, &slow[i], blocking_turn);
        task_schedule(&slow[i].member);
    }
    await(&r->blocked, THREADS);
    atomic_store(&r->held, false);
    assert_true(eventually(one_is_left, NULL, WAIT_MS));
    task_schedule(&slow[0].member); // and it is there when it is needed
    await(&slow[0].turns, 2);
    for (size_t i = 0; i < THREADS; i++)
        task_remove(&slow[i].member);
}

static int64_t blocking_turn_that_comes_again(struct pool_task *m)
{
    (void)blocking_turn(m);
    return clock_boot_ms() + WAIT_MS;
}

// A thread sleeps until a task is due in an hour. Another one takes its place.
static void a_timer_thread_that_is_replaced_goes(void **state)
{
    struct rig *r = *state;
    struct actor late, slow;
    join(r, &late, short_turn);
    join(r, &slow, blocking_turn_that_comes_again);
    atomic_store(&r->held, true);
    task_schedule(&slow.member);
    await(&r->blocked, 1);
    task_schedule_at(&late.member, clock_boot_ms() + 3600000);
    assert_int_equal(threads_here(), at_first + 2);
    atomic_store(&r->held, false);
    assert_true(eventually(one_is_left, NULL, WAIT_MS / 2));
    task_remove(&late.member);
    task_remove(&slow.member);
    assert_int_equal(slow.turns, 1);
}

static void an_idle_pool_has_no_thread(void **state)
{
    struct thread_pool *c = thread_pool_new(THREADS);
    assert_int_equal(threads_here(), at_first);
    thread_pool_free(c);
    (void)state;
}

static void *let_go(void *arg)
{
    struct actor *a = arg;
    assert_int_equal(a->turns, 0);
    atomic_store(&a->rig->held, false);
    return NULL;
}

static void removing_a_task_waits_until_it_has_run(void **state)
{
    struct rig *r = *state;
    struct actor *a = NEW(struct actor);
    pthread_t thread;
    join(r, a, blocking_turn);
    atomic_store(&r->held, true);
    task_schedule(&a->member);
    await(&r->blocked, 1);
    assert_int_equal(pthread_create(&thread, NULL, let_go, a), 0);
    task_remove(&a->member);
    assert_int_equal(a->turns, 1);
    memory_free(a);
    (void)pthread_join(thread, NULL);
}

static int64_t lingering_turn(struct pool_task *m)
{
    struct actor *a = (struct actor *)m;
    if (!atomic_load(&a->rig->held)) return TASK_NEVER;
    a->again = task_may_sleep(m, a->eager);
    atomic_fetch_add(&a->turns, 1);
    if (a->again > 0) {
        atomic_fetch_add(&a->rig->refused, 1);
        return a->again;
    }
    atomic_fetch_add(&a->rig->lingering, 1);
    while (atomic_load(&a->rig->held) && !atomic_load(&a->inside)) // inside: end this turn
        (void)sched_yield();
    atomic_fetch_sub(&a->rig->lingering, 1);
    atomic_store(&a->inside, false);
    return 0;
}

static void few_may_linger_and_the_others_come_again(void **state)
{
    struct rig *r = *state;
    struct actor a[MANY];
    atomic_store(&r->held, true);
    for (size_t i = 0; i < MANY; i++) {
        join(r, &a[i], lingering_turn);
        task_schedule(&a[i].member);
    }
    for (size_t i = 0; i < MANY; i++)
        await(&a[i].turns, i == 0 ? 1 : 3);
    assert_int_equal(r->lingering, 1); // of four threads
    atomic_store(&r->held, false);
    for (size_t i = 0; i < MANY; i++) {
        task_remove(&a[i].member);
        assert_int_equal(a[i].again % 16, 0); // all at the same moments
    }
}

static void a_task_that_must_run_takes_the_thread_of_one_that_may_sleep(void **state)
{
    struct rig *r = *state;
    struct actor first, eager;
    atomic_store(&r->held, true);
    join(r, &first, lingering_turn);
    join(r, &eager, lingering_turn);
    eager.eager = true;
    task_schedule(&first.member);
    await(&r->lingering, 1);
    task_schedule(&eager.member);
    await(&eager.turns, 1);
    atomic_store(&first.inside, true); // its turn ends, and it would like to stay
    await(&first.turns, 3);            // it looks without waiting
    await(&r->lingering, 1);
    assert_true(first.again > 0);
    atomic_store(&r->held, false);
    task_remove(&eager.member);
    assert_int_equal(eager.again, 0);
    task_remove(&first.member);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_scheduled_task_runs),
        CASE(a_task_runs_when_it_is_due_and_not_before),
        CASE(a_task_that_is_due_earlier_runs_earlier),
        CASE(no_task_runs_twice_at_once),
        CASE(a_task_scheduled_while_it_runs_runs_again),
        CASE(tasks_that_block_delay_no_other_task),
        CASE(there_are_never_more_threads_than_configured),
        CASE(threads_without_work_go),
        CASE(a_timer_thread_that_is_replaced_goes),
        CASE(an_idle_pool_has_no_thread),
        CASE(removing_a_task_waits_until_it_has_run),
        CASE(few_may_linger_and_the_others_come_again),
        CASE(a_task_that_must_run_takes_the_thread_of_one_that_may_sleep),
    };
    return cmocka_run_group_tests(tests, count_threads, NULL);
}
