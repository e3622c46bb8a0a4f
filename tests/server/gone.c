// SPDX-License-Identifier: Apache-2.0
// Clients that hang up while their receive is just being begun: at a queue that the node has not
// opened yet, and while the node stops.
#include "rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#define CLIENTS 16
#define TIME_MS 1500 // of one test, at most

struct crowd {
    struct rig rig;
    pthread_barrier_t together;
    _Atomic int queue; // the one they receive from; negative: it is over
};

// For a moment of the race to fall into.
static void linger(unsigned us)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

static void *come_and_go(void *arg)
{
    struct crowd *c = arg;
    for (unsigned i = 0;; i++) {
        (void)pthread_barrier_wait(&c->together);
        int queue = atomic_load(&c->queue);
        if (queue < 0) return NULL;
        char path[64];
        (void)snprintf(path, sizeof path, "/v1/queues/q%d/receive", queue);
        int fd = dial(&c->rig);
        say_request(fd,
                    &(struct ask){.method = "POST", .path = path, .body = "{\"wait\": \"15s\"}"});
        linger((i * 7919 + (unsigned)fd * 104729) % 25 * 100);
        (void)close(fd);
        (void)pthread_barrier_wait(&c->together);
    }
}

static void a_client_that_disconnects_in_its_first_receive_harms_no_other(void **state)
{
    (void)state;
    struct crowd c = {0};
    pthread_t clients[CLIENTS];
    rig_start(&c.rig);
    (void)pthread_barrier_init(&c.together, NULL, CLIENTS + 1);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, come_and_go, &c), 0);
    int64_t until = now_ms() + TIME_MS;
    for (int queue = 0; now_ms() < until; queue++) {
        char name[16];
        (void)snprintf(name, sizeof name, "q%d", queue);
        struct sluice_setting shards = {"shards", "3"};
        assert_int_equal(sluice_queue_create(c.rig.store, name, &shards, 1, NULL), SLUICE_OK);
        atomic_store(&c.queue, queue);
        (void)pthread_barrier_wait(&c.together);
        (void)pthread_barrier_wait(&c.together);
    }
    atomic_store(&c.queue, -1);
    (void)pthread_barrier_wait(&c.together);
    for (int i = 0; i < CLIENTS; i++)
        (void)pthread_join(clients[i], NULL);
    (void)pthread_barrier_destroy(&c.together);
    rig_stop(&c.rig);
}

#define WAITING 100

struct leavers {
    int fds[WAITING];
    _Atomic bool go;
};

static void *hang_up(void *arg)
{
    struct leavers *l = arg;
    while (!atomic_load(&l->go)) {
    }
    for (int i = 0; i < WAITING; i++)
        (void)close(l->fds[i]);
    return NULL;
}

static void await_waiting(struct rig *r, int64_t count)
{
    int64_t give_up = now_ms() + DEADLINE_MS;
    do {
        assert_int_equal(get(r, "/v1/node"), 200);
        assert_true(now_ms() < give_up);
    } while (got_number("waiting") != count);
}

static void hanging_up_meets_a_node_that_stops(void **state)
{
    (void)state;
    int64_t until = now_ms() + TIME_MS;
    for (unsigned round = 0; now_ms() < until; round++) {
        struct rig r;
        struct leavers l = {0};
        pthread_t thread;
        rig_start(&r);
        assert_int_equal(call(&r, "PUT", "/v1/queues/wide", "{\"shards\": 3}"), 201);
        for (int i = 0; i < WAITING; i++) {
            l.fds[i] = dial(&r);
            say_request(l.fds[i], &(struct ask){.method = "POST",
                                                .path = "/v1/queues/wide/receive",
                                                .body = "{\"wait\": \"20s\"}"});
        }
        await_waiting(&r, WAITING);
        assert_int_equal(pthread_create(&thread, NULL, hang_up, &l), 0);
        atomic_store(&l.go, true);
        linger(round * 130 % 3000);
        rig_stop(&r);
        (void)pthread_join(thread, NULL);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_disconnects_in_its_first_receive_harms_no_other),
        cmocka_unit_test(hanging_up_meets_a_node_that_stops),
    };
    if (argc > 1) rig_store = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
