// SPDX-License-Identifier: Apache-2.0
// How much memory a receive takes while it waits. The program counts the library's allocations: it
// is linked with --wrap.
#include "../support/calls.h"
#include "api/handle.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>

#define WAITING  500
#define SPARE    16 // objects that all of them share
#define PAUSE_US 1000

static _Atomic long objects, bytes;

static void *note(void *p, int sign)
{
    if (!p) return NULL;
    atomic_fetch_add(&objects, sign);
    atomic_fetch_add(&bytes, sign * (long)malloc_usable_size(p));
    return p;
}

void *__real_malloc(size_t len);
void *__real_calloc(size_t n, size_t len);
void *__real_realloc(void *p, size_t len);
void __real_free(void *p);
void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t n, size_t len);
void *__wrap_realloc(void *p, size_t len);
void __wrap_free(void *p);

void *__wrap_malloc(size_t len)
{
    return note(__real_malloc(len), 1);
}

void *__wrap_calloc(size_t n, size_t len)
{
    return note(__real_calloc(n, len), 1);
}

void *__wrap_realloc(void *p, size_t len)
{
    return note(__real_realloc(note(p, -1), len), 1);
}

void __wrap_free(void *p)
{
    __real_free(note(p, -1));
}

static void wait_with(const char *shards, long most)
{
    static const struct sluice_receive patient = {.wait_ms = DEADLINE_MS, .worker = "w"};
    static struct call calls[WAITING];
    struct sluice_setting setting = {"shards", shards};
    struct sluice *s;
    struct sluice_batch *b;
    assert_int_equal(sluice_open("mem:", NULL, &s, NULL), SLUICE_OK);
    assert_int_equal(sluice_queue_create(s, "tasks", &setting, 1, NULL), SLUICE_OK);
    assert_int_equal(sluice_receive(s, "tasks", NULL, &b, NULL), SLUICE_OK); // opens the runners
    sluice_batch_free(b);
    long before = objects, before_bytes = bytes;
    for (int i = 0; i < WAITING; i++) {
        call_init(&calls[i]);
        async_receive(s->engine, "tasks", &patient, &calls[i].async);
    }
    most = most * WAITING + SPARE;
    int64_t end = clock_boot_ms() + DEADLINE_MS / 2; // until no thread works for them
    while (objects - before > most && clock_boot_ms() < end)
        (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_US * 1000}, NULL);
    long made = objects - before;
    printf("# %s shards: %ld objects and %ld bytes for %d receives that wait\n", shards, made,
           bytes - before_bytes, WAITING);
    for (int i = 0; i < WAITING; i++)
        assert_int_equal(calls[i].answers, 0);
    for (int i = 0; i < WAITING; i++)
        async_cancel(s->engine, &calls[i].async);
    for (int i = 0; i < WAITING; i++) {
        call_wait(&calls[i]);
        call_done(&calls[i]);
    }
    sluice_close(s);
    assert_in_range(made, WAITING, most);
}

static void a_receive_that_waits_is_two_objects(void **state)
{
    (void)state;
    wait_with("1", 2);
}

// Two tables with a row for each shard, and an object in each shard.
static void a_receive_that_waits_in_several_shards_has_one_more_in_each(void **state)
{
    (void)state;
    wait_with("4", 3 + 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receive_that_waits_is_two_objects),
        cmocka_unit_test(a_receive_that_waits_in_several_shards_has_one_more_in_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
