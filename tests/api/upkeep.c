// SPDX-License-Identifier: Apache-2.0
// The upkeep of a handle on its thread pool: dead letters of one queue while another one hangs, and
// a process that cannot create a thread.
#define _GNU_SOURCE // RTLD_NEXT
#include "ops/upkeep.h"
#include "../conformance/store/support.h"
#include "../support/gate_store.h"
#include "../unit/unit.h"
#include "api/handle.h"
#include "ops/queue_calls.h"
#include "os/clock.h"
#include "queues/queues.h"
#include "store/probe.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define SICK 12 // queues that hang; fewer than upkeep has threads

// The next calls of pthread_create fail, as they do when the process has too many threads.
static _Atomic bool creation_fails;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    create *real;
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return atomic_load(&creation_fails) ? EAGAIN : real(thread, attr, run, arg);
}

#define FINE(call)                                                                                 \
    do {                                                                                           \
        struct sluice_error error = {.code = SLUICE_OK};                                           \
        if (call) fail_msg("%s: %s", #call, error.message);                                        \
    } while (0)

static void create(struct sluice *s, const char *queue, const char *dead_letter_queue)
{
    struct sluice_setting settings[] = {{"failureStrategy.mode", "hybrid"},
                                        {"failureStrategy.maxRetries", "0"},
                                        {"failureStrategy.deadLetterQueue", dead_letter_queue}};
    FINE(sluice_queue_create(s, queue, settings, 3, &error));
}

static void fail_one(struct sluice *s, const char *queue)
{
    struct sluice_batch *b;
    struct sluice_send m = {.body = queue, .body_len = strlen(queue)};
    FINE(sluice_send(s, queue, &m, 1, NULL, NULL, &error));
    FINE(sluice_receive(s, queue, &(struct sluice_receive){.worker = "w"}, &b, &error));
    assert_int_equal(b->len, 1);
    const char *token = b->messages[0].token;
    FINE(sluice_fail(s, queue, &token, 1, "a test", NULL, &error));
    sluice_batch_free(b);
}

static void await_letters(struct sluice *s, const char *queue, uint64_t count)
{
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    struct sluice_stats stats = {0};
    while (stats.ready < count) {
        FINE(sluice_stats(s, queue, &stats, &error));
        if (clock_boot_ms() > give_up) fail_msg("%s has %d", queue, (int)stats.ready);
    }
    assert_int_equal(stats.ready, count);
}

// The handle looks the queue up again at its next use.
static void forget(struct sluice *s, const char *queue)
{
    CLEANUP(queue_let_go) struct open_queue *q = queue_if_known(s->engine, queue);
    if (q) queue_stale(q);
}

static void dead_letters_of_a_queue_move_while_others_hang(void **state)
{
    (void)state;
    char name[32];
    struct sluice *s;
    struct store *gate = store_gate_new();
    FINE(handle_open_take(gate, "gate", NULL, &s, &error));
    create(s, "tasks", "dead");
    for (int i = 0; i < SICK; i++) {
        (void)snprintf(name, sizeof name, "hangs%d", i);
        create(s, name, "sick");
    }
    forget(s, "sick");
    store_gate_close(gate, true);
    for (int i = 0; i < SICK; i++) {
        (void)snprintf(name, sizeof name, "hangs%d", i);
        fail_one(s, name);
    }
    fail_one(s, "tasks");
    await_letters(s, "dead", 1);
    fail_one(s, "tasks");
    await_letters(s, "dead", 2);
    store_gate_close(gate, false);
    await_letters(s, "sick", SICK);
    sluice_close(s);
}

static bool job_runs(struct sluice *s, struct open_queue *q)
{
    (void)pthread_mutex_lock(&s->engine->lock);
    bool runs = q->calls->upkeep_runs;
    (void)pthread_mutex_unlock(&s->engine->lock);
    return runs;
}

static void a_queue_that_goes_stale_during_its_job_stays_open_until_the_end(void **state)
{
    (void)state;
    struct sluice *s;
    struct store *gate = store_gate_new();
    FINE(handle_open_take(gate, "gate", NULL, &s, &error));
    create(s, "tasks", "sick");
    forget(s, "sick");
    store_gate_close(gate, true);
    fail_one(s, "tasks");
    struct open_queue *q = queue_if_known(s->engine, "tasks");
    while (!job_runs(s, q))
        (void)sched_yield();
    queue_stale(q);
    queue_let_go(&q); // the job has the last hold
    store_gate_close(gate, false);
    await_letters(s, "sick", 1);
    sluice_close(s);
}

static void closing_a_handle_moves_the_letters_that_are_left(void **state)
{
    (void)state;
    struct sluice *s;
    FINE(sluice_open("mem:", NULL, &s, &error));
    create(s, "tasks", "dead");
    upkeep_stop(s->engine);
    fail_one(s, "tasks");
    struct sluice_stats stats;
    FINE(sluice_stats(s, "dead", &stats, &error));
    assert_int_equal(stats.ready, 0);
    upkeep_stop(s->engine);
    FINE(sluice_stats(s, "dead", &stats, &error));
    assert_int_equal(stats.ready, 1);
    sluice_close(s);
}

static void without_a_thread_a_store_is_not_opened(void **state)
{
    (void)state;
    struct sluice *s = NULL;
    struct sluice_error error = {.code = SLUICE_OK};
    struct store *store = store_gate_new();
    struct store_format format;
    char why[STORE_WHY_MAX];
    assert_int_equal(store_check(store, &format, why, sizeof why), ERR_OK); // with its threads
    atomic_store(&creation_fails, true);
    assert_int_equal(handle_open_take(store, "gate", NULL, &s, &error), SLUICE_UNAVAILABLE);
    atomic_store(&creation_fails, false);
    assert_null(s);
    assert_string_equal(error.reason, "no-thread");
    assert_non_null(strstr(error.message, "gate: the process cannot create a thread"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_letters_of_a_queue_move_while_others_hang),
        cmocka_unit_test(a_queue_that_goes_stale_during_its_job_stays_open_until_the_end),
        cmocka_unit_test(closing_a_handle_moves_the_letters_that_are_left),
        cmocka_unit_test(without_a_thread_a_store_is_not_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
