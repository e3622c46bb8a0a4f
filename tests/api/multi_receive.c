// SPDX-License-Identifier: Apache-2.0
// A receive over many shards whose runners answer when the test says so. A real runner answers at
// its own time, and the cases here take place between two lines of another thread.
#include "local/multi_receive.h"

#include "../unit/unit.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>

// Shard 0 answers its first await on another thread before that call returns. There was a
// message, another worker was faster, and so a second await begins here. It has not reached the
// runner yet when the call that began the first one comes back.
struct shard_runner {
    uint32_t awaits; // calls so far
    struct runner_async *waits;
    bool has; // a claim finds something
};

static struct shard_runner runners[2];
static struct shard_runner *const runners_of[] = {&runners[0], &runners[1]};
static pthread_t other;
static sem_t second_begun, goes_on;
static int cancelled_in_vain, held, told;

static void answer(struct runner_async *l, size_t deliveries_len)
{
    struct runner_answer a;
    runner_answer_init(&a);
    a.deliveries_len = deliveries_len;
    l->then(l, ERR_OK, &a);
    runner_answer_done(&a);
}

static void *answer_first(void *first)
{
    answer(first, 0);
    return NULL;
}

void runner_answer_init(struct runner_answer *a)
{
    *a = (struct runner_answer){0};
    buf_init(&a->body, 64);
    buf_init(&a->text, 64);
}

void runner_answer_done(struct runner_answer *a)
{
    buf_done(&a->body);
    buf_done(&a->text);
}

void runner_await_async(struct shard_runner *d, struct bytes worker, int64_t wait_ms,
                        struct runner_async *l)
{
    (void)worker;
    (void)wait_ms;
    uint32_t number = ++d->awaits;
    if (d == &runners[0] && number == 1) {
        assert_int_equal(pthread_create(&other, NULL, answer_first, l), 0);
        assert_int_equal(sem_wait(&second_begun), 0);
        return;
    }
    if (d == &runners[0]) {
        (void)sem_post(&second_begun);
        (void)sem_wait(&goes_on);
    }
    d->waits = l;
}

void runner_receive_async(struct shard_runner *d, const struct op_claim *claim, int64_t wait_ms,
                          struct runner_async *l)
{
    (void)claim;
    (void)wait_ms;
    answer(l, d->has);
}

bool runner_cancel(struct shard_runner *d, struct runner_async *l)
{
    bool here = d->waits == l;
    d->waits = NULL;
    cancelled_in_vain += !here;
    return here;
}

void runner_recall_async(struct shard_runner *d, const struct op_claim *claim, bool looks,
                         struct runner_async *l)
{
    (void)d;
    (void)claim;
    (void)looks;
    (void)l;
    fail_msg("no receive has the request id");
}

void runner_notify_next(struct shard_runner *d)
{
    (void)d;
}

void queue_hold(struct open_queue *q)
{
    (void)q;
    held++;
}

void queue_let_go(struct open_queue **q)
{
    *q = NULL;
    held--;
}

uint32_t queue_first_shard(struct open_queue *q)
{
    (void)q;
    return 0;
}

static void done(void *ctx, enum err err, uint32_t shard, struct runner_answer *a)
{
    (void)ctx;
    assert_int_equal(err, ERR_OK);
    assert_int_equal(shard, 1);
    assert_int_equal(a->deliveries_len, 1);
    told++;
}

// Begun, up to the moment at which the second await is about to reach the runner.
static struct multi_receive *multi_receive_waits(struct open_queue *queue)
{
    static const struct op_claim claim = {.max = 1};
    memset(runners, 0, sizeof runners);
    cancelled_in_vain = held = told = 0;
    assert_int_equal(sem_init(&second_begun, 0, 0), 0);
    assert_int_equal(sem_init(&goes_on, 0, 0), 0);
    *queue = (struct open_queue){.row.birth.shards = 2};
    struct multi_receive *q =
        multi_receive_begin(queue, runners_of, &claim, false, 60000, done, NULL);
    assert_int_equal(runners[0].awaits, 2);
    assert_non_null(runners[1].waits);
    return q;
}

static void nothing_is_left(struct multi_receive *q)
{
    (void)sem_post(&goes_on);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_null(runners[0].waits);
    assert_null(runners[1].waits);
    assert_int_equal(cancelled_in_vain, 0);
    multi_receive_release(q);
    assert_int_equal(held, 0);
    (void)sem_destroy(&second_begun);
    (void)sem_destroy(&goes_on);
}

static void an_await_on_its_way_to_a_runner_ends_with_a_cancelled_receive(void **state)
{
    (void)state;
    struct open_queue queue;
    struct multi_receive *q = multi_receive_waits(&queue);
    assert_true(multi_receive_cancel(q));
    nothing_is_left(q);
    assert_int_equal(told, 0);
}

static void an_await_on_its_way_to_a_runner_ends_with_a_receive_that_found_messages(void **state)
{
    (void)state;
    struct open_queue queue;
    struct multi_receive *q = multi_receive_waits(&queue);
    struct runner_async *waits = runners[1].waits;
    runners[1].waits = NULL;
    runners[1].has = true;
    answer(waits, 0);
    assert_int_equal(told, 1);
    nothing_is_left(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_await_on_its_way_to_a_runner_ends_with_a_cancelled_receive),
        cmocka_unit_test(an_await_on_its_way_to_a_runner_ends_with_a_receive_that_found_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
