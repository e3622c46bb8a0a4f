// SPDX-License-Identifier: Apache-2.0
// A semaphore is bounded, serves waiters in the order of arrival, and loses those that wait too
// long.
#include "net/fifo_semaphore.h"
#include "../unit/unit.h"
#include "os/clock.h"

#include <stdatomic.h>

#define PATIENCE_MS 20000 // nothing takes so long unless it hangs
#define SHORT_MS    30    // what is meant to run out
#define CROWD       6

struct caller {
    struct fifo_semaphore *turns;
    pthread_t thread;
    int64_t wait_ms;
    atomic_int *served;
    int place;                       // in the order of getting; -1: got none
    struct semaphore_waiter *waiter; // as which it stands in line, or stood until it was joined
    atomic_bool over;
};

static void *ask(void *arg)
{
    struct caller *a = arg;
    if (fifo_semaphore_take(a->turns, a->wait_ms)) {
        a->place = atomic_fetch_add(a->served, 1);
        fifo_semaphore_give(a->turns);
    }
    atomic_store(&a->over, true);
    return NULL;
}

static struct semaphore_waiter *last_in_line(struct fifo_semaphore *t)
{
    (void)pthread_mutex_lock(&t->lock);
    struct semaphore_waiter *last = (struct semaphore_waiter *)t->waiters.last; // its first field
    (void)pthread_mutex_unlock(&t->lock);
    return last;
}

// The last in line, if it is none of these.
static struct semaphore_waiter *newcomer(struct fifo_semaphore *t, const struct caller *known,
                                         int len)
{
    struct semaphore_waiter *last = last_in_line(t);
    for (int i = 0; i < len; i++)
        if (known[i].waiter == last) return NULL;
    return last;
}

// Returns when it stands in line, behind those before it that are still there; or has left.
static void start(struct caller *callers, int i, struct fifo_semaphore *t, int64_t wait_ms,
                  atomic_int *served)
{
    struct caller *a = &callers[i];
    *a = (struct caller){.turns = t, .wait_ms = wait_ms, .served = served, .place = -1};
    assert_int_equal(pthread_create(&a->thread, NULL, ask, a), 0);
    int64_t end = clock_boot_ms() + PATIENCE_MS;
    while (!(a->waiter = newcomer(t, callers, i)) && !atomic_load(&a->over))
        assert_true(clock_boot_ms() < end);
}

static void see_off(struct caller *a)
{
    assert_int_equal(pthread_join(a->thread, NULL), 0);
    a->waiter = NULL; // the next one may be in its place
}

static void runs_are_bounded(void **state)
{
    (void)state;
    struct fifo_semaphore t;
    fifo_semaphore_init(&t, 2);
    assert_true(fifo_semaphore_take(&t, PATIENCE_MS));
    assert_true(fifo_semaphore_take_free(&t));
    assert_false(fifo_semaphore_take_free(&t));
    int64_t began = clock_boot_ms();
    assert_false(fifo_semaphore_take(&t, SHORT_MS));
    assert_true(clock_boot_ms() - began >= SHORT_MS - 1);
    fifo_semaphore_give(&t);
    assert_true(fifo_semaphore_take_free(&t));
    fifo_semaphore_give(&t);
    fifo_semaphore_give(&t);
    fifo_semaphore_done(&t);
}

static void the_first_waiter_is_served_first(void **state)
{
    (void)state;
    struct fifo_semaphore t;
    fifo_semaphore_init(&t, 1);
    assert_true(fifo_semaphore_take_free(&t));
    atomic_int served = 0;
    struct caller callers[CROWD];
    for (int i = 0; i < CROWD; i++)
        start(callers, i, &t, PATIENCE_MS, &served);
    fifo_semaphore_give(&t);
    for (int i = 0; i < CROWD; i++) {
        see_off(&callers[i]);
        assert_int_equal(callers[i].place, i);
    }
    fifo_semaphore_done(&t);
}

// The one in front, one in the middle and the last lose patience; the line closes up.
static void a_waiter_that_leaves_does_not_break_the_order(void **state)
{
    (void)state;
    struct fifo_semaphore t;
    fifo_semaphore_init(&t, 1);
    assert_true(fifo_semaphore_take_free(&t));
    atomic_int served = 0;
    struct caller callers[CROWD + 1];
    for (int i = 0; i < CROWD; i++) {
        bool impatient = i == 0 || i == 2 || i == CROWD - 1;
        start(callers, i, &t, impatient ? 20 * SHORT_MS : PATIENCE_MS, &served);
    }
    for (int i = 0; i < CROWD; i++)
        if (callers[i].wait_ms < PATIENCE_MS) see_off(&callers[i]);
    start(callers, CROWD, &t, PATIENCE_MS, &served);
    fifo_semaphore_give(&t);
    for (int i = 0; i <= CROWD; i++)
        if (callers[i].wait_ms == PATIENCE_MS) see_off(&callers[i]);
    const int places[] = {-1, 0, -1, 1, 2, -1, 3};
    for (int i = 0; i <= CROWD; i++)
        assert_int_equal(callers[i].place, places[i]);
    fifo_semaphore_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_bounded),
        cmocka_unit_test(the_first_waiter_is_served_first),
        cmocka_unit_test(a_waiter_that_leaves_does_not_break_the_order),
    };
    return cmocka_run_group_tests_name("net turns", tests, NULL, NULL);
}
