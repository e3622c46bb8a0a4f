// SPDX-License-Identifier: Apache-2.0
// The threads that clients share, and their places: clients take turns, one keeps a thread from
// another only while there is none to spare, and places go to those that have fewer.
#include "server/call_share.h"

#include "../unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define JOBS 64

// A gate that jobs wait at, and the order in which they came to it.
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
    int arrived;
    char order[JOBS + 1];
    int refused;
};

struct job {
    struct call_job job; // first
    struct gate *gate;
    char name;
};

static void arrive(struct call_job *j)
{
    struct job *job = (struct job *)j;
    struct gate *g = job->gate;
    (void)pthread_mutex_lock(&g->lock);
    g->order[g->arrived++] = job->name;
    (void)pthread_cond_broadcast(&g->changed);
    while (!g->open)
        (void)pthread_cond_wait(&g->changed, &g->lock);
    (void)pthread_mutex_unlock(&g->lock);
}

static void refuse(struct call_job *j)
{
    struct gate *g = ((struct job *)j)->gate;
    (void)pthread_mutex_lock(&g->lock);
    g->refused++;
    (void)pthread_mutex_unlock(&g->lock);
}

static void gate_init(struct gate *g)
{
    *g = (struct gate){0};
    (void)pthread_mutex_init(&g->lock, NULL);
    (void)pthread_cond_init(&g->changed, NULL);
}

static void gate_await(struct gate *g, int arrived)
{
    (void)pthread_mutex_lock(&g->lock);
    while (g->arrived < arrived)
        (void)pthread_cond_wait(&g->changed, &g->lock);
    (void)pthread_mutex_unlock(&g->lock);
}

static void gate_open(struct gate *g)
{
    (void)pthread_mutex_lock(&g->lock);
    g->open = true;
    (void)pthread_cond_broadcast(&g->changed);
    (void)pthread_mutex_unlock(&g->lock);
}

static bool submit(struct call_share *c, struct job *j, struct gate *g, char client)
{
    *j = (struct job){.job = {.run = arrive, .refuse = refuse}, .gate = g, .name = client};
    enum err err = call_share_run(c, &j->job, (uint64_t)client);
    assert_true(!err || err == ERR_LIMIT);
    return !err;
}

static void a_client_has_no_more_threads_than_it_may(void **state)
{
    (void)state;
    struct gate g;
    struct job jobs[5];
    gate_init(&g);
    struct thread_pool *pool = thread_pool_new(1);
    struct call_share *p = call_share_new(
        pool, &(struct call_share_config){.threads = 4, .per_client = 2, .waiting = JOBS});
    for (int i = 0; i < 4; i++)
        assert_true(submit(p, &jobs[i], &g, 'a'));
    assert_true(submit(p, &jobs[4], &g, 'b'));
    gate_await(&g, 3); // b is not behind those of a that wait
    assert_non_null(strchr(g.order, 'b'));
    assert_int_equal(g.arrived, 3);
    gate_open(&g);
    call_share_free(p);
    thread_pool_free(pool);
    assert_int_equal(g.arrived, 5);
}

static void clients_take_turns_whatever_the_number_of_their_calls(void **state)
{
    (void)state;
    struct gate g;
    struct job jobs[8];
    gate_init(&g);
    struct thread_pool *pool = thread_pool_new(1);
    struct call_share *p = call_share_new(
        pool, &(struct call_share_config){.threads = 1, .per_client = 1, .waiting = JOBS});
    assert_true(submit(p, &jobs[0], &g, 'a'));
    gate_await(&g, 1);
    for (int i = 1; i < 5; i++)
        assert_true(submit(p, &jobs[i], &g, 'a'));
    for (int i = 5; i < 7; i++)
        assert_true(submit(p, &jobs[i], &g, 'b'));
    assert_true(submit(p, &jobs[7], &g, 'c'));
    gate_open(&g);
    call_share_free(p);
    thread_pool_free(pool);
    // a has a thread, and is in line again when it has done with it.
    assert_string_equal(g.order, "abcabaaa");
}

static void a_place_goes_to_the_client_that_has_fewer(void **state)
{
    (void)state;
    struct gate g;
    struct job jobs[10];
    gate_init(&g);
    struct thread_pool *pool = thread_pool_new(1);
    struct call_share *p = call_share_new(
        pool, &(struct call_share_config){.threads = 1, .per_client = 1, .waiting = 4});
    assert_true(submit(p, &jobs[0], &g, 'a'));
    gate_await(&g, 1);
    for (int i = 1; i < 5; i++)
        assert_true(submit(p, &jobs[i], &g, 'a'));
    assert_false(submit(p, &jobs[5], &g, 'a'));
    assert_true(submit(p, &jobs[6], &g, 'b'));
    assert_true(submit(p, &jobs[7], &g, 'b'));
    assert_int_equal(g.refused, 2);             // of a, whose it were
    assert_false(submit(p, &jobs[8], &g, 'b')); // both have two
    assert_false(submit(p, &jobs[9], &g, 'a'));
    gate_open(&g);
    call_share_free(p);
    thread_pool_free(pool);
    assert_string_equal(g.order, "ababa");
}

static void many_clients_leave_no_trace(void **state)
{
    (void)state;
    struct gate g;
    static struct job jobs[JOBS];
    gate_init(&g);
    gate_open(&g);
    struct thread_pool *pool = thread_pool_new(1);
    struct call_share *p = call_share_new(
        pool, &(struct call_share_config){.threads = 8, .per_client = 2, .waiting = JOBS});
    for (int i = 0; i < JOBS; i++)
        assert_true(submit(p, &jobs[i], &g, (char)('A' + i % 26)));
    gate_await(&g, JOBS);
    call_share_free(p);
    thread_pool_free(pool);
}

static void the_newest_of_the_one_that_has_most_loses_its_place(void **state)
{
    (void)state;
    struct clients c = {.max = 3};
    struct share a[3] = {0}, b = {0}, d[2] = {0}, *lost;
    for (int i = 0; i < 3; i++)
        assert_true(share_take(&c, &a[i], 1, &lost) && !lost);
    assert_true(share_take(&c, &b, 2, &lost));
    assert_ptr_equal(lost, &a[2]);
    share_give(&c, &a[2]); // it ends, later: that changes nothing
    assert_int_equal(c.len, 3);
    assert_false(share_take(&c, &d[0], 2, &lost)); // they would only change places
    assert_true(share_take(&c, &d[1], 3, &lost));
    assert_ptr_equal(lost, &a[1]);
    share_give(&c, &a[0]);
    share_give(&c, &b);
    share_give(&c, &d[1]);
    assert_int_equal(c.len, 0);
    for (size_t i = 0; i < CLIENTS_BUCKETS; i++)
        assert_null(c.buckets[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_has_no_more_threads_than_it_may),
        cmocka_unit_test(clients_take_turns_whatever_the_number_of_their_calls),
        cmocka_unit_test(a_place_goes_to_the_client_that_has_fewer),
        cmocka_unit_test(many_clients_leave_no_trace),
        cmocka_unit_test(the_newest_of_the_one_that_has_most_loses_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
