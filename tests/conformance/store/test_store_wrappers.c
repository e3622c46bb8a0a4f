// SPDX-License-Identifier: Apache-2.0
// The stores in front of stores: one that counts, one that fails and lies; and the probe that finds
// the liars out.
#include "support.h"

#include "../../support/fault_store.h"
#include "store/mem.h"
#include "store/meter.h"
#include "store/probe.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LOG    "q/log"
#define ALWAYS 10000

struct world {
    char dir[SCRATCH_MAX];
    struct store_answer a;
};

static int world_setup(void **state)
{
    static struct world w;
    scratch_make(w.dir);
    store_answer_init(&w.a);
    *state = &w;
    return 0;
}

static int world_teardown(void **state)
{
    struct world *w = *state;
    store_answer_done(&w->a);
    scratch_remove(w->dir);
    return 0;
}

static void the_meter_counts_requests_and_bytes_by_kind(void **state)
{
    struct world *w = *state;
    struct store *s = store_meter_take(store_mem_new());
    const char *key = "k";
    ANSWERS(ERR_OK, &w->a, store_put_new(s, "k", bytes_str("12345"), &w->a));
    ANSWERS(ERR_CONFLICT, &w->a, store_put_new(s, "k", bytes_str("123"), &w->a));
    ANSWERS(ERR_OK, &w->a, store_put(s, "k", bytes_str("1234567"), &w->a));
    ANSWERS(ERR_OK, &w->a, store_get(s, "k", 0, SIZE_MAX, &w->a));
    ANSWERS(ERR_OK, &w->a, store_get(s, "k", 0, 2, &w->a));
    ANSWERS(ERR_OK, &w->a, store_list(s, "", NULL, 10, &w->a));
    ANSWERS(ERR_OK, &w->a, store_delete(s, &key, 1, &w->a));
    ANSWERS(ERR_OK, &w->a, store_append(s, LOG, 1, bytes_str("123456"), &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(s, LOG, 2, 10, &w->a));
    ANSWERS(ERR_OK, &w->a, store_wait(s, LOG, 1, 0, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_get(s, "no key", 0, 1, &w->a)); // not sent, not counted
    struct meter_snapshot m;
    store_meter_read(s, &m);
    static const struct {
        enum meter_kind kind;
        uint64_t requests, refused, in, out;
    } want[] = {
        {METER_PUT_NEW, 2, 1, 8, 0},  {METER_PUT, 1, 0, 7, 0},     {METER_GET, 2, 0, 0, 9},
        {METER_LIST, 1, 0, 0, 2},     {METER_DELETE, 1, 0, 0, 0},  {METER_APPEND, 1, 0, 6, 0},
        {METER_READ_LOG, 1, 1, 0, 0}, {METER_EXTENTS, 0, 0, 0, 0}, {METER_DROP, 0, 0, 0, 0},
        {METER_WAIT, 1, 0, 0, 0},
    };
    for (size_t i = 0; i < METER_KINDS; i++) {
        const struct meter_count *c = &m.kind[want[i].kind];
        NEED(c->requests == want[i].requests && c->refused == want[i].refused);
        NEED(c->bytes_in == want[i].in && c->bytes_out == want[i].out);
        NEED((c->time_ns > 0) == (c->requests > 0));
    }
    assert_string_equal(meter_kind_name(METER_READ_LOG), "read_log");
    store_free(s);
}

static void *put_often(void *arg)
{
    struct store_answer a;
    store_answer_init(&a);
    for (int i = 0; i < 500; i++)
        ANSWERS(ERR_OK, &a, store_put(arg, "k", bytes_str("ab"), &a));
    store_answer_done(&a);
    return NULL;
}

static void the_meter_loses_no_count_between_threads(void **state)
{
    (void)state;
    struct store *s = store_meter_take(store_mem_new());
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        NEED(pthread_create(&threads[i], NULL, put_often, s) == 0);
    for (size_t i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    struct meter_snapshot m;
    store_meter_read(s, &m);
    NEED(m.kind[METER_PUT].requests == 2000 && m.kind[METER_PUT].bytes_in == 4000);
    store_free(s);
}

struct told {
    int count;
    struct meter_call last;
    char key[64];
};

static void tell(void *ctx, const struct meter_call *call)
{
    struct told *t = ctx;
    t->count++;
    t->last = *call;
    (void)snprintf(t->key, sizeof t->key, "%s", call->key);
}

static void the_meter_tells_of_what_took_long(void **state)
{
    struct world *w = *state;
    struct store *s = store_meter_take(store_mem_new());
    struct told t = {.count = 0};
    ANSWERS(ERR_OK, &w->a, store_put(s, "k", bytes_str("1"), &w->a)); // not asked for
    store_meter_watch(s, 3600 * 1000, tell, &t);
    ANSWERS(ERR_OK, &w->a, store_put(s, "k", bytes_str("1"), &w->a));
    NEED(t.count == 0);
    store_meter_watch(s, 0, tell, &t);
    ANSWERS(ERR_CONFLICT, &w->a, store_put_new(s, "k", bytes_str("1"), &w->a));
    NEED(t.count == 1 && t.last.kind == METER_PUT_NEW && t.last.err == ERR_CONFLICT);
    assert_string_equal(t.key, "k");
    ANSWERS(ERR_OK, &w->a, store_append(s, LOG, 1, bytes_str("1"), &w->a));
    NEED(t.count == 2 && t.last.kind == METER_APPEND && t.last.err == ERR_OK);
    assert_string_equal(t.key, LOG);
    ANSWERS(ERR_OK, &w->a, store_wait(s, LOG, 1, 0, &w->a)); // as long as it is asked to
    store_meter_watch(s, 0, NULL, NULL);
    ANSWERS(ERR_OK, &w->a, store_put(s, "k", bytes_str("1"), &w->a));
    NEED(t.count == 2);
    store_free(s);
}

static bool there(struct store *fault, const char *key, struct store_answer *a)
{
    static const struct fault_options none = {0};
    store_fault_set(fault, &none);
    enum err e = store_get(fault, key, 0, SIZE_MAX, a);
    NEED(e == ERR_OK || e == ERR_NOT_FOUND);
    return e == ERR_OK;
}

static void a_lost_request_is_unavailable_and_not_applied(void **state)
{
    struct world *w = *state;
    struct store *s =
        store_fault_take(store_mem_new(), &(struct fault_options){.lost_request = ALWAYS});
    ANSWERS(ERR_UNAVAILABLE, &w->a, store_put_new(s, "k", bytes_str("x"), &w->a));
    ANSWERS(ERR_UNAVAILABLE, &w->a, store_append(s, LOG, 1, bytes_str("x"), &w->a));
    ANSWERS(ERR_UNAVAILABLE, &w->a, store_get(s, "k", 0, 1, &w->a));
    NEED(store_fault_count(s) == 3);
    NEED(!there(s, "k", &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(s, LOG, 1, 1, &w->a));
    store_free(s);
}

static void a_lost_reply_is_unknown_and_applied(void **state)
{
    struct world *w = *state;
    struct store *s =
        store_fault_take(store_mem_new(), &(struct fault_options){.lost_reply = ALWAYS});
    ANSWERS(ERR_UNKNOWN, &w->a, store_put_new(s, "k", bytes_str("x"), &w->a));
    ANSWERS(ERR_UNKNOWN, &w->a, store_append(s, LOG, 1, bytes_str("x"), &w->a));
    ANSWERS(ERR_UNAVAILABLE, &w->a, store_get(s, "k", 0, 1, &w->a)); // a read is never unknown
    NEED(w->a.body.len == 0);
    NEED(there(s, "k", &w->a));
    ANSWERS(ERR_OK, &w->a, store_read_log(s, LOG, 1, 1, &w->a));
    store_free(s);
}

static void an_unknown_write_may_be_lost_or_land_late(void **state)
{
    struct world *w = *state;
    struct store *s =
        store_fault_take(store_mem_new(), &(struct fault_options){.unknown_lost = ALWAYS});
    ANSWERS(ERR_UNKNOWN, &w->a, store_put_new(s, "lost", bytes_str("x"), &w->a));
    store_fault_set(s, &(struct fault_options){.unknown_late = ALWAYS});
    ANSWERS(ERR_UNKNOWN, &w->a, store_put_new(s, "late", bytes_str("x"), &w->a));
    ANSWERS(ERR_UNKNOWN, &w->a, store_append(s, LOG, 1, bytes_str("late"), &w->a));
    NEED(!there(s, "lost", &w->a));
    NEED(!there(s, "late", &w->a)); // a 404 that proves nothing
    store_fault_flush(s);
    NEED(there(s, "late", &w->a));
    NEED(!there(s, "lost", &w->a));
    ANSWERS(ERR_OK, &w->a, store_read_log(s, LOG, 1, 1, &w->a));
    store_free(s);
}

static void a_late_write_lands_within_the_calls_it_was_given(void **state)
{
    struct world *w = *state;
    struct fault_options late = {.unknown_late = ALWAYS, .late_calls = 5};
    struct store *s = store_fault_take(store_mem_new(), &late);
    ANSWERS(ERR_UNKNOWN, &w->a, store_put_new(s, "late", bytes_str("x"), &w->a));
    for (int i = 0; i < 5; i++)
        (void)there(s, "other", &w->a);
    NEED(there(s, "late", &w->a));
    store_free(s);
}

static void the_same_seed_makes_the_same_faults(void **state)
{
    struct world *w = *state;
    struct fault_options mix = {.seed = 42,
                                .lost_request = 2000,
                                .lost_reply = 2000,
                                .unknown_late = 1000,
                                .late_calls = 9};
    enum err ends[2][200];
    for (int run = 0; run < 2; run++) {
        struct store *s = store_fault_take(store_mem_new(), &mix);
        for (int i = 0; i < 200; i++) {
            char key[8];
            (void)snprintf(key, sizeof key, "k%d", i % 50);
            ends[run][i] = store_put_new(s, key, bytes_str("x"), &w->a);
        }
        NEED(store_fault_count(s) > 60 && store_fault_count(s) < 140);
        store_free(s);
    }
    assert_memory_equal(ends[0], ends[1], sizeof ends[0]);
}

static void is_empty(struct store *s, struct store_answer *a)
{
    ANSWERS(ERR_OK, a, store_list(s, "", NULL, 10, a));
    NEED(a->rows_len == 0);
}

static void passes(struct world *w, struct store *s)
{
    char why[STORE_WHY_MAX];
    enum err e = store_probe(s, why, sizeof why);
    answers_at(ERR_OK, e, why, __FILE__, __LINE__);
    is_empty(s, &w->a);
    store_free(s);
}

static void honest_stores_pass_the_probe_and_keep_nothing_of_it(void **state)
{
    struct world *w = *state;
    passes(w, store_mem_new());
    passes(w, file_open(w->dir, NULL));
    passes(w, store_meter_take(store_mem_new()));
}

static void a_store_with_a_bad_network_passes_all_the_same(void **state)
{
    struct world *w = *state;
    struct fault_options bad = {
        .seed = 3, .lost_request = 500, .lost_reply = 500, .unknown_lost = 500};
    struct store *s = store_fault_take(store_mem_new(), &bad);
    char why[STORE_WHY_MAX];
    enum err e = store_probe(s, why, sizeof why);
    answers_at(ERR_OK, e, why, __FILE__, __LINE__);
    NEED(store_fault_count(s) > 5);
    store_fault_set(s, &(struct fault_options){0});
    is_empty(s, &w->a);
    store_free(s);
}

static void is_refused(struct world *w, struct store *inner, const struct fault_options *lie)
{
    struct store *s = store_fault_take(inner, lie);
    struct store_format format;
    char why[STORE_WHY_MAX];
    enum err e = store_check(s, &format, why, sizeof why);
    answers_at(ERR_INVALID, e, why, __FILE__, __LINE__);
    NEED(strstr(why, "cannot be used") != NULL);
    store_fault_set(s, &(struct fault_options){0});
    is_empty(s, &w->a); // neither probe keys nor a format object
    store_free(s);
}

static void stores_that_lie_are_refused(void **state)
{
    struct world *w = *state;
    static const struct fault_options lies[] = {
        {.ignores_condition = true}, {.lets_two_win = true}, {.stale_absence = true}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        is_refused(w, store_mem_new(), &lies[i]);
        is_refused(w, file_open(w->dir, NULL), &lies[i]);
    }
}

static struct store_format checked(struct store *s)
{
    struct store_format format = {0};
    char why[STORE_WHY_MAX];
    enum err e = store_check(s, &format, why, sizeof why);
    answers_at(ERR_OK, e, why, __FILE__, __LINE__);
    return format;
}

static void the_probe_runs_once_and_is_remembered(void **state)
{
    struct world *w = *state;
    struct store *s = store_meter_take(file_open(w->dir, NULL));
    struct store_format first = checked(s);
    struct meter_snapshot before, after;
    store_meter_read(s, &before);
    struct store_format second = checked(s);
    store_meter_read(s, &after);
    NEED(before.kind[METER_PUT_NEW].requests > 100);
    NEED(after.kind[METER_PUT_NEW].requests == before.kind[METER_PUT_NEW].requests);
    NEED(memcmp(first.id, second.id, STORE_ID_LEN) == 0);
    NEED(first.version == 1 && second.version == 1);
    NEED(first.created_ms == second.created_ms && first.created_ms > 0);
    ANSWERS(ERR_OK, &w->a, store_list(s, "", NULL, 10, &w->a));
    NEED(w->a.rows_len == 1 && w->a.rows[0].size == FORMAT_LEN);
    assert_string_equal(store_row_key(&w->a, 0), FORMAT_KEY);
    store_free(s);
}

static void a_damaged_or_foreign_format_is_refused(void **state)
{
    struct world *w = *state;
    struct store *s = store_mem_new();
    (void)checked(s);
    ANSWERS(ERR_OK, &w->a, store_get(s, FORMAT_KEY, 0, SIZE_MAX, &w->a));
    uint8_t good[FORMAT_LEN];
    NEED(w->a.body.len == sizeof good);
    memcpy(good, w->a.body.data, sizeof good);
    struct store_format format;
    char why[STORE_WHY_MAX];
    for (size_t i = 0; i < sizeof good; i++) {
        uint8_t bad[FORMAT_LEN];
        memcpy(bad, good, sizeof bad);
        bad[i] ^= 2;
        ANSWERS(ERR_OK, &w->a, store_put(s, FORMAT_KEY, bytes_of(bad, sizeof bad), &w->a));
        enum err e = store_check(s, &format, why, sizeof why);
        bool version = i >= 8 && i < 12; // read before the rest: a newer format may look different
        answers_at(version ? ERR_INVALID : ERR_CORRUPT, e, why, __FILE__, __LINE__);
        NEED(!version || strstr(why, "upgrade needed"));
    }
    for (size_t len = 0; len < sizeof good; len++) {
        ANSWERS(ERR_OK, &w->a, store_put(s, FORMAT_KEY, bytes_of(good, len), &w->a));
        enum err e = store_check(s, &format, why, sizeof why);
        answers_at(ERR_CORRUPT, e, why, __FILE__, __LINE__);
    }
    store_free(s);
}

static void a_store_of_before_the_first_release_is_refused_with_a_way_out(void **state)
{
    struct world *w = *state;
    struct store *s = store_mem_new();
    struct store_format format;
    char why[STORE_WHY_MAX];
    ANSWERS(ERR_OK, &w->a, store_put(s, FORMAT_KEY, bytes_str("SLUICEFT and the rest"), &w->a));
    answers_at(ERR_INVALID, store_check(s, &format, why, sizeof why), why, __FILE__, __LINE__);
    NEED(strstr(why, "before the first release") && strstr(why, "sluice import"));
    store_free(s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_meter_counts_requests_and_bytes_by_kind),
        TEST(the_meter_loses_no_count_between_threads),
        TEST(the_meter_tells_of_what_took_long),
        TEST(a_lost_request_is_unavailable_and_not_applied),
        TEST(a_lost_reply_is_unknown_and_applied),
        TEST(an_unknown_write_may_be_lost_or_land_late),
        TEST(a_late_write_lands_within_the_calls_it_was_given),
        TEST(the_same_seed_makes_the_same_faults),
        TEST(honest_stores_pass_the_probe_and_keep_nothing_of_it),
        TEST(a_store_with_a_bad_network_passes_all_the_same),
        TEST(stores_that_lie_are_refused),
        TEST(the_probe_runs_once_and_is_remembered),
        TEST(a_damaged_or_foreign_format_is_refused),
        TEST(a_store_of_before_the_first_release_is_refused_with_a_way_out),
    };
    return cmocka_run_group_tests_name("store wrappers and the probe", tests, NULL, NULL);
}
