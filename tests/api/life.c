// SPDX-License-Identifier: Apache-2.0
// How long a queue lives in a handle: as long as a call needs it, and no longer.
#include "../conformance/store/support.h"
#include "../support/census.h"
#include "../unit/unit.h"
#include "api/handle.h"
#include "os/clock.h"
#include "queues/queues.h"
#include "sluice.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define WARM_UP      50
#define QUEUES       500
#define FILES_MORE   8
#define THREADS_MORE 4
#define KB_MORE      16384
#define SOON_MS      5000

#define FINE(call)                                                                                 \
    do {                                                                                           \
        struct sluice_error error = {.message = ""};                                               \
        if (call) fail_msg("%s: %s", sluice_code_name(error.code), error.message);                 \
    } while (0)

static const char *store_kind = "mem";

struct rig {
    struct sluice *s;
    char dir[SCRATCH_MAX];
};

static void rig_open(struct rig *r)
{
    scratch_make_quick(r->dir); // a thousand syncs say nothing here
    FINE(sluice_open(strcmp(store_kind, "mem") == 0 ? "mem:" : r->dir, NULL, &r->s, &error));
}

static void rig_close(struct rig *r)
{
    sluice_close(r->s);
    scratch_remove(r->dir);
}

static void rest(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static void send_one(struct sluice *s, const char *queue)
{
    struct sluice_send m = {.body = "x", .body_len = 1};
    FINE(sluice_send(s, queue, &m, 1, NULL, NULL, &error));
}

static void live_and_die(struct sluice *s, const char *queue, const char *shards)
{
    struct sluice_setting setting = {"shards", shards};
    struct sluice_receive ask = {.worker = "tester", .max = 1};
    struct sluice_batch *b;
    FINE(sluice_queue_create(s, queue, &setting, 1, &error));
    send_one(s, queue);
    FINE(sluice_receive(s, queue, &ask, &b, &error));
    assert_int_equal(b->len, 1);
    const char *token = b->messages[0].token;
    FINE(sluice_ack(s, queue, &token, 1, NULL, &error));
    sluice_batch_free(b);
    FINE(sluice_queue_delete(s, queue, &error));
}

static void live_and_die_all(struct sluice *s, int from, int to, const char *shards, bool same)
{
    for (int i = from; i < to; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "queue-%d", same ? 0 : i);
        live_and_die(s, name, shards);
    }
}

// A thread of the handle closes the runners soon.
static void await_no_more_than(const struct census *before)
{
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    struct census now = census_take();
    while (
        (now.files > before->files + FILES_MORE || now.threads > before->threads + THREADS_MORE) &&
        clock_boot_ms() < until) {
        rest();
        now = census_take();
    }
    if (now.files > before->files + FILES_MORE || now.threads > before->threads + THREADS_MORE ||
        now.memory_kb > before->memory_kb + KB_MORE)
        fail_msg("%zu files, %zu threads, %zu kB; before: %zu, %zu, %zu", now.files, now.threads,
                 now.memory_kb, before->files, before->threads, before->memory_kb);
}

static void come_and_go(const char *shards, int queues, bool same)
{
    struct rig r;
    rig_open(&r);
    struct census first = census_take();
    live_and_die_all(r.s, 0, WARM_UP, shards, same);
    await_no_more_than(&first);
    struct census warm = census_take();
    live_and_die_all(r.s, WARM_UP, WARM_UP + queues, shards, same);
    await_no_more_than(&warm);
    rig_close(&r);
}

static void queues_that_come_and_go_leave_nothing_behind(void **state)
{
    (void)state;
    come_and_go("1", QUEUES, false);
}

static void shards_of_queues_that_come_and_go_leave_nothing_behind(void **state)
{
    (void)state;
    come_and_go("4", QUEUES / 5, false);
}

static void the_lives_of_one_name_leave_nothing_behind(void **state)
{
    (void)state;
    come_and_go("1", QUEUES / 10, true);
}

static void a_list_closes_queues_that_other_processes_deleted(void **state)
{
    (void)state;
    struct rig r;
    struct sluice *theirs;
    struct sluice_names *names;
    if (strcmp(store_kind, "mem") == 0) return; // it has no others
    rig_open(&r);
    FINE(sluice_queue_create(r.s, "tasks", NULL, 0, &error));
    send_one(r.s, "tasks");
    struct census before = census_take();
    for (int i = 0; i < WARM_UP; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "queue-%d", i);
        FINE(sluice_queue_create(r.s, name, NULL, 0, &error));
        send_one(r.s, name);
    }
    assert_true(census_take().files > before.files + FILES_MORE);
    FINE(sluice_open(r.dir, NULL, &theirs, &error));
    for (int i = 0; i < WARM_UP; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "queue-%d", i);
        FINE(sluice_queue_delete(theirs, name, &error));
    }
    sluice_close(theirs);
    FINE(sluice_queue_list(r.s, &names, &error));
    assert_int_equal(names->len, 1);
    sluice_names_free(names);
    await_no_more_than(&before);
    send_one(r.s, "tasks");
    rig_close(&r);
}

struct receiver {
    pthread_t thread;
    struct sluice *s;
    _Atomic bool ended;
    enum sluice_code code;
    struct sluice_error error;
};

static void *receive_long(void *arg)
{
    struct receiver *r = arg;
    struct sluice_receive ask = {.worker = "tester", .max = 1, .wait_ms = DEADLINE_MS};
    struct sluice_batch *b = NULL;
    r->code = sluice_receive(r->s, "tasks", &ask, &b, &r->error);
    sluice_batch_free(b);
    atomic_store(&r->ended, true);
    return NULL;
}

// It has opened the queue, and waits at its first runner, and at the others, if there are any.
static void await_waiting(struct sluice *s)
{
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    for (size_t waiting = 0; waiting == 0; rest()) {
        CLEANUP(queue_let_go) struct open_queue *q = NULL;
        FINE(queue_get(s->engine, "tasks", &q, &error));
        struct shard_runner *r = runner_if_open(q, 0);
        waiting = r ? runner_waiting(r) : 0;
        if (clock_boot_ms() > until) fail_msg("no receive waits");
    }
}

static void ends_when_deleted(const char *shards)
{
    struct rig r;
    rig_open(&r);
    struct sluice_setting setting = {"shards", shards};
    FINE(sluice_queue_create(r.s, "tasks", &setting, 1, &error));
    struct receiver waits = {.s = r.s};
    assert_int_equal(pthread_create(&waits.thread, NULL, receive_long, &waits), 0);
    await_waiting(r.s);
    int64_t start = clock_boot_ms();
    FINE(sluice_queue_delete(r.s, "tasks", &error));
    assert_int_equal(pthread_join(waits.thread, NULL), 0);
    assert_true(clock_boot_ms() - start < SOON_MS);
    assert_int_equal(waits.code, SLUICE_NOT_FOUND);
    assert_string_equal(waits.error.reason, "queue-deleted");
    rig_close(&r);
}

static void a_receive_that_waits_ends_when_the_queue_is_deleted(void **state)
{
    (void)state;
    ends_when_deleted("1");
}

static void a_receive_over_several_shards_ends_when_the_queue_is_deleted(void **state)
{
    (void)state;
    ends_when_deleted("4");
}

struct crowd {
    struct sluice *s;
    _Atomic bool stop;
    _Atomic size_t calls;
};

// Refused or not, they end, and touch nothing that is gone.
static void *use(void *arg)
{
    struct crowd *c = arg;
    while (!atomic_load(&c->stop)) {
        struct sluice_send m = {.body = "x", .body_len = 1};
        struct sluice_receive ask = {.worker = "tester", .max = 1, .wait_ms = 5};
        struct sluice_batch *b = NULL;
        struct sluice_stats stats;
        (void)sluice_send(c->s, "tasks", &m, 1, NULL, NULL, NULL);
        if (sluice_receive(c->s, "tasks", &ask, &b, NULL) == SLUICE_OK && b->len > 0) {
            const char *token = b->messages[0].token;
            (void)sluice_ack(c->s, "tasks", &token, 1, NULL, NULL);
        }
        sluice_batch_free(b);
        (void)sluice_stats(c->s, "tasks", &stats, NULL);
        atomic_fetch_add(&c->calls, 1);
    }
    return NULL;
}

static void calls_under_way_outlive_the_queue(void **state)
{
    (void)state;
    struct rig r;
    pthread_t threads[4];
    rig_open(&r);
    struct crowd c = {.s = r.s};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, &c), 0);
    for (int i = 0; i < 40; i++) {
        struct sluice_setting setting = {"shards", i % 2 ? "3" : "1"};
        FINE(sluice_queue_create(r.s, "tasks", &setting, 1, &error));
        size_t before = atomic_load(&c.calls);
        while (atomic_load(&c.calls) < before + 8)
            rest();
        FINE(sluice_queue_delete(r.s, "tasks", &error));
    }
    atomic_store(&c.stop, true);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    rig_close(&r);
}

static void a_handle_whose_disk_failed_denies_nothing(void **state)
{
    (void)state;
    struct rig r;
    struct store *store;
    struct sluice_error said;
    struct sluice_stats stats;
    struct sluice_names *names;
    char why[STORE_WHY_MAX] = "";
    struct file_options options = {.sys = &sys_faulty};
    struct sluice_send m = {.body = "x", .body_len = 1};
    scratch_make_quick(r.dir);
    if (store_file_open(r.dir, &options, &store, why, sizeof why)) fail_msg("%s", why);
    FINE(handle_open_take(store, r.dir, NULL, &r.s, &error));
    FINE(sluice_queue_create(r.s, "tasks", NULL, 0, &error));
    send_one(r.s, "tasks");
    sys_arm(SYS_SYNC, 1, EIO, false);
    assert_int_equal(sluice_send(r.s, "tasks", &m, 1, NULL, NULL, &said), SLUICE_UNKNOWN);
    assert_true(sys_disarm());
    int64_t start = clock_boot_ms();
    assert_int_equal(sluice_send(r.s, "tasks", &m, 1, NULL, NULL, &said), SLUICE_UNAVAILABLE);
    assert_non_null(strstr(said.message, "open the store again"));
    assert_int_equal(sluice_stats(r.s, "tasks", &stats, &said), SLUICE_UNAVAILABLE);
    assert_int_equal(sluice_queue_list(r.s, &names, &said), SLUICE_UNAVAILABLE);
    assert_int_equal(sluice_queue_create(r.s, "new", NULL, 0, &said), SLUICE_UNAVAILABLE);
    assert_true(clock_boot_ms() - start < SOON_MS); // patience would bring nothing
    sluice_close(r.s);
    FINE(sluice_open(r.dir, NULL, &r.s, &error));
    send_one(r.s, "tasks");
    rig_close(&r);
}

int main(int argc, char **argv)
{
    if (argc > 1) store_kind = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queues_that_come_and_go_leave_nothing_behind),
        cmocka_unit_test(shards_of_queues_that_come_and_go_leave_nothing_behind),
        cmocka_unit_test(the_lives_of_one_name_leave_nothing_behind),
        cmocka_unit_test(a_list_closes_queues_that_other_processes_deleted),
        cmocka_unit_test(a_receive_that_waits_ends_when_the_queue_is_deleted),
        cmocka_unit_test(a_receive_over_several_shards_ends_when_the_queue_is_deleted),
        cmocka_unit_test(calls_under_way_outlive_the_queue),
        cmocka_unit_test(a_handle_whose_disk_failed_denies_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
