// SPDX-License-Identifier: Apache-2.0
// A caller that does not wait and is alone performs its own request. Beside other callers, or on a
// slow store, the thread pool does. The store is one in memory with a gate that all requests pass.
#include "../unit/unit.h"
#include "gate_store.h"
#include "os/clock.h"
#include "runner/driver.h"
#include "scratch.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#define WAIT_MS   20000 // nothing takes so long unless it hangs
#define CALLS_MAX 8     // that are not answered yet

struct sim_call {
    struct waiter waiter; // first
    struct office *office;
    struct sim_call *chain; // begun in its callback
    pthread_t ran_on;
    _Atomic bool begun; // driver_async has returned
    bool ended_before_it_was_begun;
    _Atomic bool ended;
};

// A step function of the test's own: each call wants one request, whose response answers it. Under
// the driver's lock.
struct office {
    struct store *store;
    struct driver *driver;
    struct sim_call *calls[CALLS_MAX]; // the first is answered next
    size_t len;
    int wanted; // requests to hand out
    int under_way;
    bool answered;
    int64_t wake_at; // answers the first call, whatever became of its request
};

static void respond(void *ctx, const struct response *r, struct interval now)
{
    struct office *o = ctx;
    (void)r, (void)now;
    o->under_way--;
    o->answered = o->len > 0;
}

static void tick(void *ctx, struct interval now)
{
    struct office *o = ctx;
    if (now.lo < o->wake_at) return;
    o->wake_at = TIME_NEVER;
    o->answered = true;
}

static int64_t wake_at(void *ctx)
{
    return ((struct office *)ctx)->wake_at;
}

static bool next_request(void *ctx, struct request *out)
{
    struct office *o = ctx;
    if (o->wanted == 0) return false;
    o->wanted--;
    o->under_way++;
    *out = (struct request){.id = 1, .kind = REQUEST_GET, .key = "catalog/sick"};
    return true;
}

static void deliver(void *ctx)
{
    struct office *o = ctx;
    if (!o->answered) return;
    o->answered = false;
    driver_wake(o->driver, &o->calls[0]->waiter);
    for (size_t i = 1; i < o->len; i++)
        o->calls[i - 1] = o->calls[i];
    o->len--;
}

static int set_up(void **state)
{
    struct office *o = test_calloc(1, sizeof *o);
    struct step_functions steps = {.ctx = o,
                                   .respond = respond,
                                   .tick = tick,
                                   .wake_at = wake_at,
                                   .next_request = next_request,
                                   .deliver = deliver};
    o->wake_at = TIME_NEVER;
    o->store = store_gate_new();
    assert_int_equal(driver_open(o->store, NULL, &steps, &o->driver), ERR_OK);
    *state = o;
    return 0;
}

static int tear_down(void **state)
{
    struct office *o = *state;
    driver_free(o->driver);
    store_free(o->store);
    test_free(o);
    return 0;
}

static void begin(struct office *o, struct sim_call *e);

static void end(struct waiter *w)
{
    struct sim_call *e = (struct sim_call *)w;
    e->ran_on = pthread_self();
    e->ended_before_it_was_begun = !atomic_load(&e->begun);
    if (e->chain) begin(e->office, e->chain);
    atomic_store(&e->ended, true);
}

// In a callback too, and on any thread: a failure shows in the trial's result.
static void begin(struct office *o, struct sim_call *e)
{
    struct sim_call *chain = e->chain;
    *e = (struct sim_call){.office = o, .chain = chain};
    if (driver_enter(o->driver, &e->waiter)) return;
    o->calls[o->len++] = e;
    o->wanted++;
    driver_async(o->driver, &e->waiter, end);
    atomic_store(&e->begun, true);
}

static bool has_ended(void *ctx)
{
    return atomic_load(&((struct sim_call *)ctx)->ended);
}

static void await(struct sim_call *e)
{
    assert_true(eventually(has_ended, e, WAIT_MS));
}

// Whether the caller's own thread did it.
static bool call(struct office *o)
{
    struct sim_call e = {0};
    begin(o, &e);
    await(&e);
    return pthread_equal(e.ran_on, pthread_self());
}

// The same, and that it was quick: on a busy machine a request may be slow for no reason, and the
// thread pool performs the one after it.
static bool call_quickly(struct office *o, bool *runs_inline)
{
    int64_t begun = clock_boot_ms();
    *runs_inline = call(o);
    return clock_boot_ms() - begun < INLINE_QUICK_MS;
}

// From here on, until something happens, the next caller performs its own request.
static void become_alone(struct office *o)
{
    int64_t give_up = clock_boot_ms() + WAIT_MS;
    bool quick, runs_inline;
    do {
        for (int run = 0; run < INLINE_RUN - 1;) { // the thread pool performs the one after that
            quick = call_quickly(o, &runs_inline);
            run = quick && runs_inline ? run + 1 : 0;
            assert_true(clock_boot_ms() < give_up);
        }
        quick = call_quickly(o, &runs_inline);
        assert_false(runs_inline);
    } while (!quick);
}

static bool one_is_under_way(void *ctx)
{
    struct office *o = ctx;
    struct waiter w;
    if (driver_enter(o->driver, &w)) return false;
    bool one = o->under_way == 1;
    driver_leave(o->driver, &w);
    return one;
}

struct caller {
    struct sim_call trial;
    struct office *office;
    pthread_t thread;
    _Atomic bool back;
};

static void *caller_run(void *arg)
{
    struct caller *c = arg;
    begin(c->office, &c->trial);
    atomic_store(&c->back, true);
    return NULL;
}

// A thread of its own, which is kept by the closed gate.
static void caller_get_stuck(struct caller *c, struct office *o)
{
    *c = (struct caller){.office = o};
    store_gate_close(o->store, true);
    assert_int_equal(pthread_create(&c->thread, NULL, caller_run, c), 0);
    assert_true(eventually(one_is_under_way, o, WAIT_MS));
}

static void stay_slow(void)
{
    int64_t begun = clock_boot_ms();
    while (clock_boot_ms() <= begun + INLINE_QUICK_MS)
        (void)poll(NULL, 0, 1);
}

static void caller_comes_back(struct caller *c)
{
    (void)pthread_join(c->thread, NULL);
    await(&c->trial);
}

static void a_single_caller_performs_its_own_request(void **state)
{
    struct office *o = *state;
    become_alone(o);
    struct sim_call e = {0};
    begin(o, &e);
    assert_true(atomic_load(&e.ended));
    assert_true(e.ended_before_it_was_begun);
    assert_true(pthread_equal(e.ran_on, pthread_self()));
}

static void a_caller_beside_a_stuck_request_returns_at_once(void **state)
{
    struct office *o = *state;
    struct caller first;
    struct sim_call second = {0}, third = {0};
    become_alone(o);
    caller_get_stuck(&first, o);
    begin(o, &second);
    begin(o, &third);
    assert_false(atomic_load(&first.back));
    assert_false(atomic_load(&second.ended) || atomic_load(&third.ended));
    store_gate_close(o->store, false);
    caller_comes_back(&first);
    await(&second);
    await(&third);
    assert_false(pthread_equal(second.ran_on, pthread_self()));
}

static void a_slow_store_keeps_a_caller_for_one_request(void **state)
{
    struct office *o = *state;
    struct caller first;
    struct sim_call second = {0};
    become_alone(o);
    caller_get_stuck(&first, o);
    stay_slow();
    store_gate_close(o->store, false);
    caller_comes_back(&first);
    assert_true(pthread_equal(first.trial.ran_on, first.thread));
    store_gate_close(o->store, true);
    begin(o, &second); // hangs if it is performed here
    assert_false(atomic_load(&second.ended));
    store_gate_close(o->store, false);
    await(&second);
    become_alone(o); // it is quick again
    assert_true(call(o));
}

static void a_request_that_a_callback_begins_runs_in_the_thread_pool(void **state)
{
    struct office *o = *state;
    struct sim_call last = {0}, first = {.chain = &last};
    become_alone(o);
    begin(o, &first);
    assert_true(pthread_equal(first.ran_on, pthread_self()));
    await(&last);
    assert_false(pthread_equal(last.ran_on, pthread_self()));
}

static void a_caller_that_waits_for_no_request_does_not_count_as_joiner(void **state)
{
    struct office *o = *state;
    struct sim_call waiting = {0};
    struct waiter w;
    become_alone(o);
    assert_int_equal(driver_enter(o->driver, &waiting.waiter), ERR_OK);
    driver_async(o->driver, &waiting.waiter, end);
    assert_true(call(o));
    assert_int_equal(driver_enter(o->driver, &w), ERR_OK);
    driver_forget(o->driver, &waiting.waiter);
    driver_leave(o->driver, &w);
}

struct closing {
    struct office *office;
    pthread_t thread;
    _Atomic bool closed;
};

static void *close_run(void *arg)
{
    struct closing *c = arg;
    driver_free(c->office->driver);
    atomic_store(&c->closed, true);
    return NULL;
}

// A timer answered its call; the caller is still inside the store.
static void closing_waits_for_the_caller_that_performs_a_request(void **state)
{
    struct office *o = *state;
    struct caller first;
    struct closing closing = {.office = o};
    struct waiter w;
    become_alone(o);
    caller_get_stuck(&first, o);
    assert_int_equal(driver_enter(o->driver, &w), ERR_OK);
    o->wake_at = driver_now(o->driver).lo;
    driver_leave(o->driver, &w);
    await(&first.trial);
    assert_int_equal(pthread_create(&closing.thread, NULL, close_run, &closing), 0);
    (void)poll(NULL, 0, 20); // in which it could close
    assert_false(atomic_load(&closing.closed) || atomic_load(&first.back));
    store_gate_close(o->store, false);
    (void)pthread_join(closing.thread, NULL);
    (void)pthread_join(first.thread, NULL);
    o->driver = NULL;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_single_caller_performs_its_own_request),
        CASE(a_caller_beside_a_stuck_request_returns_at_once),
        CASE(a_slow_store_keeps_a_caller_for_one_request),
        CASE(a_request_that_a_callback_begins_runs_in_the_thread_pool),
        CASE(a_caller_that_waits_for_no_request_does_not_count_as_joiner),
        CASE(closing_waits_for_the_caller_that_performs_a_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
