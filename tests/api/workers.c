// SPDX-License-Identifier: Apache-2.0
// Workers that join, beat and leave by the library, on a store, and the orders of an operator.
#include "../conformance/store/support.h"
#include "../unit/unit.h"
#include "os/clock.h"
#include "sluice.h"

#include <stdio.h>
#include <string.h>

struct rig {
    struct sluice *mine;
    struct sluice *theirs; // as another process
    char dir[SCRATCH_MAX];
};

#define FINE(call)                                                                                 \
    do {                                                                                           \
        struct sluice_error error = {.message = ""};                                               \
        if (call) fail_msg("%s: %s", sluice_code_name(error.code), error.message);                 \
    } while (0)

// The call is refused with this code, and the sentence has these words.
#define REFUSED(expected, words, call)                                                             \
    do {                                                                                           \
        struct sluice_error error = {.message = ""};                                               \
        assert_int_equal(call, expected);                                                          \
        if (!strstr(error.message, words)) fail_msg("\"%s\" has no \"%s\"", error.message, words); \
    } while (0)

static int set_up(void **state)
{
    static struct rig r;
    struct sluice_setting shards = {"shards", "2"};
    scratch_make(r.dir);
    FINE(sluice_open(r.dir, NULL, &r.mine, &error));
    FINE(sluice_open(r.dir, NULL, &r.theirs, &error));
    FINE(sluice_queue_create(r.mine, "jobs", &shards, 1, &error));
    *state = &r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    sluice_close(r->mine);
    sluice_close(r->theirs);
    scratch_remove(r->dir);
    return 0;
}

static const struct sluice_join join = {
    .worker = "pod-1", .capacity = 5, .labels = "kind=gpu,host=a7", .ttl_ms = 30000};

static bool find(struct sluice *s, const char *name, struct sluice_worker *out)
{
    static struct sluice_worker rows[100];
    size_t len;
    FINE(sluice_workers(s, "jobs", rows, 100, &len, &error));
    for (size_t i = 0; i < len; i++)
        if (strcmp(rows[i].name, name) == 0) {
            *out = rows[i];
            return true;
        }
    return false;
}

static void a_worker_that_joined_is_shown_with_all_it_said(void **state)
{
    struct rig *r = *state;
    struct sluice_worker w;
    FINE(sluice_worker_join(r->mine, "jobs", &join, &error));
    assert_true(find(r->theirs, "pod-1", &w));
    assert_int_equal(w.capacity, 5); // 3 and 2, in two shards
    assert_string_equal(w.labels, "host=a7,kind=gpu");
    assert_string_equal(w.mode, "running");
    assert_true(w.ttl_ms == 30000 && w.since > 0 && w.seen_at >= w.since);
    FINE(sluice_worker_beat(r->mine, "jobs", "pod-1", &error));
    FINE(sluice_worker_leave(r->mine, "jobs", "pod-1", &error));
    assert_false(find(r->theirs, "pod-1", &w));
    FINE(sluice_worker_leave(r->mine, "jobs", "pod-1", &error)); // it is gone already
    REFUSED(SLUICE_NOT_FOUND, "not registered",
            sluice_worker_beat(r->mine, "jobs", "pod-1", &error));
}

static void a_name_belongs_to_one_process(void **state)
{
    struct rig *r = *state;
    FINE(sluice_worker_join(r->mine, "jobs", &join, &error));
    FINE(sluice_worker_join(r->mine, "jobs", &join, &error)); // the same process again
    REFUSED(SLUICE_CONFLICT, "another process",
            sluice_worker_join(r->theirs, "jobs", &join, &error));
    FINE(sluice_worker_leave(r->mine, "jobs", "pod-1", &error));
    FINE(sluice_worker_join(r->theirs, "jobs", &join, &error));
}

static void values_that_are_not_possible_are_refused(void **state)
{
    struct rig *r = *state;
    struct sluice_join j = join;
    j.capacity = 0;
    REFUSED(SLUICE_INVALID, "capacity is 0", sluice_worker_join(r->mine, "jobs", &j, &error));
    j.capacity = 10001;
    REFUSED(SLUICE_INVALID, "1 to 10000", sluice_worker_join(r->mine, "jobs", &j, &error));
    j = join;
    j.ttl_ms = 4999;
    REFUSED(SLUICE_INVALID, "ttl is 4999ms", sluice_worker_join(r->mine, "jobs", &j, &error));
    j.ttl_ms = INT64_C(24) * 3600 * 1000 + 1;
    REFUSED(SLUICE_INVALID, "5s to 24h", sluice_worker_join(r->mine, "jobs", &j, &error));
    j = join;
    j.labels = "Kind=gpu";
    REFUSED(SLUICE_INVALID, "Kind=gpu", sluice_worker_join(r->mine, "jobs", &j, &error));
    struct sluice_send m = {.body = "x", .body_len = 1, .needs = "no label"};
    REFUSED(SLUICE_INVALID, "no label", sluice_send(r->mine, "jobs", &m, 1, NULL, NULL, &error));
    REFUSED(SLUICE_NOT_FOUND, "pod-9", sluice_worker_pause(r->mine, "jobs", "pod-9", &error));
}

static enum sluice_code receive(struct sluice *s, struct sluice_batch **out,
                                struct sluice_error *error)
{
    struct sluice_receive ask = {.worker = "pod-1", .max = 10, .wait_ms = 1000};
    *out = NULL;
    return sluice_receive(s, "jobs", &ask, out, error);
}

static void orders_reach_the_receives_of_the_worker(void **state)
{
    struct rig *r = *state;
    struct sluice_batch *b;
    struct sluice_send m = {.body = "x", .body_len = 1};
    FINE(sluice_worker_join(r->mine, "jobs", &join, &error));
    FINE(sluice_worker_pause(r->theirs, "jobs", "pod-1", &error));
    REFUSED(SLUICE_UNAVAILABLE, "paused", receive(r->mine, &b, &error));
    FINE(sluice_worker_resume(r->theirs, "jobs", "pod-1", &error));
    FINE(sluice_send(r->theirs, "jobs", &m, 1, NULL, NULL, &error));
    FINE(receive(r->mine, &b, &error));
    assert_int_equal(b->len, 1);
    FINE(sluice_worker_drain(r->theirs, "jobs", "pod-1", &error));
    struct sluice_batch *none;
    REFUSED(SLUICE_UNAVAILABLE, "drains", receive(r->mine, &none, &error));
    const char *token = b->messages[0].token;
    FINE(sluice_ack(r->mine, "jobs", &token, 1, NULL, &error)); // what it had is finished
    sluice_batch_free(b);
}

static void eviction_ends_the_locks_and_keeps_the_process_out(void **state)
{
    struct rig *r = *state;
    struct sluice_batch *b, *again;
    struct sluice_send m = {.body = "x", .body_len = 1};
    FINE(sluice_worker_join(r->mine, "jobs", &join, &error));
    FINE(sluice_send(r->mine, "jobs", &m, 1, NULL, NULL, &error));
    FINE(receive(r->mine, &b, &error));
    assert_int_equal(b->len, 1);
    FINE(sluice_worker_evict(r->theirs, "jobs", "pod-1", &error));
    const char *token = b->messages[0].token;
    assert_int_not_equal(sluice_ack(r->mine, "jobs", &token, 1, NULL, NULL), SLUICE_OK);
    REFUSED(SLUICE_FENCED, "evicted", receive(r->mine, &again, &error));
    REFUSED(SLUICE_FENCED, "evicted", sluice_worker_join(r->mine, "jobs", &join, &error));
    FINE(sluice_worker_join(r->theirs, "jobs", &join, &error)); // another process
    FINE(receive(r->theirs, &again, &error));
    assert_int_equal(again->len, 1);
    assert_int_equal(again->messages[0].attempt, 1);
    sluice_batch_free(again);
    sluice_batch_free(b);
}

static void a_receive_that_waits_long_beats_meanwhile(void **state)
{
    struct rig *r = *state;
    struct sluice_join j = join;
    struct sluice_worker w;
    struct sluice_batch *b;
    j.ttl_ms = 5000;
    FINE(sluice_worker_join(r->mine, "jobs", &j, &error));
    struct sluice_receive ask = {.worker = "pod-1", .wait_ms = 7000};
    FINE(sluice_receive(r->mine, "jobs", &ask, &b, &error));
    assert_int_equal(b->len, 0);
    sluice_batch_free(b);
    assert_true(find(r->theirs, "pod-1", &w) && w.capacity > 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_worker_that_joined_is_shown_with_all_it_said),
        TEST(a_name_belongs_to_one_process),
        TEST(values_that_are_not_possible_are_refused),
        TEST(orders_reach_the_receives_of_the_worker),
        TEST(eviction_ends_the_locks_and_keeps_the_process_out),
        TEST(a_receive_that_waits_long_beats_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
