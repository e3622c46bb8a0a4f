// SPDX-License-Identifier: Apache-2.0
// A process that cannot create a thread when it opens a store and starts a node: the first creation
// fails, then the second one, and so on until both succeed. And an event stream without a thread.
#define _GNU_SOURCE // RTLD_NEXT
#include "rig.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CREATIONS_MAX 1000
#define STREAMS_MAX   8 // more than a node has idle threads

static _Atomic int creations_left = INT_MAX; // before one fails; those after it succeed again
static _Atomic bool all_fail;
static _Atomic int failed;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    create *real;
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    bool fails = atomic_fetch_sub(&creations_left, 1) == 0 || atomic_load(&all_fail);
    if (fails) atomic_fetch_add(&failed, 1);
    return fails ? EAGAIN : real(thread, attr, run, arg);
}

static enum sluice_code open_and_serve(struct sluice_error *error)
{
    struct sluice *s;
    struct server *node;
    struct server_config config = {
        .listen = "127.0.0.1:0", .node = "n", .store = "mem:", .coord = "store:"};
    enum sluice_code code = sluice_open("mem:", NULL, &s, error);
    if (code) return code;
    code = server_start(&config, s, &node, error);
    if (!code) assert_true(server_stop(node, 10000));
    sluice_close(s);
    return code;
}

static void a_thread_that_cannot_be_created_is_an_error(void **state)
{
    (void)state;
    int refusals = 0, named = 0;
    for (int i = 0; i < CREATIONS_MAX; i++) {
        struct sluice_error error = {.message = ""};
        atomic_store(&failed, 0);
        atomic_store(&creations_left, i);
        enum sluice_code code = open_and_serve(&error);
        atomic_store(&creations_left, INT_MAX);
        if (code) {
            assert_int_equal(atomic_load(&failed), 1);
            assert_int_equal(code, SLUICE_UNAVAILABLE);
            bool library = strstr(error.message, "the HTTP library did not start") != NULL;
            if (!library && !strstr(error.message, "cannot create a thread"))
                fail_msg("creation %d: %s", i, error.message);
            refusals++;
            named += !library;
        } else if (atomic_load(&failed) == 0) {
            break; // the process needed no more than i threads
        }
    }
    // The probe of the store (16 threads, 8 times), the pool, disconnects, accepting.
    assert_true(named >= 8 * 16 + 3);
    assert_true(refusals >= named);
}

// Threads that are idle take the first streams. The others are refused, and those stay open.
static void a_stream_without_a_thread_is_refused(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply = {.status = 200};
    struct ask events = {.method = "GET", .path = "/v1/queues/tasks/events"};
    char head[] = "HTTP/1.1 200", at[sizeof head];
    rig_start(&r);
    atomic_store(&all_fail, true);
    int fd = dial(&r);
    for (int i = 0; i < STREAMS_MAX; i++) {
        say_request(fd, &events);
        assert_int_equal(recv(fd, at, sizeof head - 1, MSG_PEEK | MSG_WAITALL), sizeof head - 1);
        if (memcmp(at, head, sizeof head - 1) != 0) break;
        fd = dial(&r); // the one before is served until the end
    }
    hear(fd, false, &reply);
    atomic_store(&all_fail, false);
    assert_int_equal(reply.status, 503);
    assert_non_null(strstr(reply.body, "\"no-thread\""));
    reply_done(&reply);
    say_request(fd, &events);
    assert_int_equal(recv(fd, at, sizeof head - 1, MSG_PEEK | MSG_WAITALL), sizeof head - 1);
    assert_memory_equal(at, head, sizeof head - 1);
    (void)close(fd);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_cannot_be_created_is_an_error),
        cmocka_unit_test(a_stream_without_a_thread_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
