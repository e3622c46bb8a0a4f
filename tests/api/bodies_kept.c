// SPDX-License-Identifier: Apache-2.0
// Bodies too large for an entry, on a store in memory with faults and a clock that can be moved:
// what happens to a body that is lost or out of reach, and that all are deleted when no message
// needs them.
#include "api/handle.h"
#include "bodies_rig.h"

#include "../support/fault_store.h"
#include "os/clock.h"
#include "store/mem.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE_MS (INT64_C(60) * 1000)
#define HOUR_MS   (60 * MINUTE_MS)
#define CERTAIN   10000 // hundredths of a percent

static void one_call_brings_only_so_many_bytes(void **state)
{
    (void)state;
    struct delivery deliveries[6] = {0};
    char name[BODY_NAME_LEN + 1];
    struct body_name any = {.uploaded_at = 1};
    body_name_print(&any, name);
    for (size_t i = 0; i < 6; i++)
        deliveries[i].message.reference =
            (struct body_reference){bytes_str(name), BATCH_BYTES_MAX / 4 - 1024, 1};
    assert_int_equal(batch_len_within(deliveries, 6, BATCH_BYTES_MAX), 4);
    assert_int_equal(batch_len_within(deliveries, 3, BATCH_BYTES_MAX), 3);
    deliveries[0].message.reference.len = 2 * BATCH_BYTES_MAX;
    assert_int_equal(batch_len_within(deliveries, 6, BATCH_BYTES_MAX), 1); // one at least
    assert_int_equal(batch_len_within(deliveries, 0, BATCH_BYTES_MAX), 0);
}

// The only body that there is. With two, their order is by chance if both were uploaded in the same
// millisecond.
static void find_body(struct rig *r, char key[RIG_KEY_MAX])
{
    assert_int_equal(count_keys(r, "q/", "/data/", key), 1);
}

static void remove_body(struct rig *r, const char *key)
{
    struct store_answer a;
    store_answer_init(&a);
    ANSWERS(ERR_OK, &a, store_delete(r->s->engine->store, &key, 1, &a));
    store_answer_done(&a);
}

static void remove_only_body(struct rig *r)
{
    char key[RIG_KEY_MAX];
    find_body(r, key);
    remove_body(r, key);
}

static void damage_body(struct rig *r, const char *key)
{
    struct store_answer a;
    store_answer_init(&a);
    struct bytes other = body_make(77, BIG);
    ANSWERS(ERR_OK, &a, store_put(r->s->engine->store, key, other, &a));
    bytes_free(other);
    store_answer_done(&a);
}

static void a_lost_body_is_named_and_does_not_hold_up_the_rest(void **state)
{
    (void)state;
    for (int damaged = 0; damaged <= 1; damaged++) {
        struct rig r;
        struct sluice_batch *b;
        rig_memory(&r, PATIENT_MS);
        create(&r, "tasks", "retry");
        send_body(&r, "tasks", 1, BIG);
        char key[RIG_KEY_MAX];
        find_body(&r, key);
        if (damaged) {
            damage_body(&r, key);
        } else {
            remove_body(&r, key);
        }
        send_body(&r, "tasks", 2, BIG);
        b = receive(&r, "tasks", 2, 0); // the other one comes alone
        assert_int_equal(b->len, 1);
        assert_body(&b->messages[0], 2, BIG);
        sluice_batch_free(b);
        struct sluice_stats stats;
        FINE(sluice_stats(r.s, "tasks", &stats, &error));
        assert_int_equal(stats.dead, 1); // it has failed, with maxRetries 0
        rig_close(&r);
    }
}

static const char *header_of(const struct sluice_message *m, const char *name)
{
    for (size_t i = 0; i < m->headers_len; i++)
        if (strcmp(m->headers[i].name, name) == 0) return m->headers[i].value;
    return NULL;
}

static void shows_all_but_the_lost_body(struct rig *r)
{
    struct sluice_batch *b, *shown;
    FINE(sluice_peek(r->s, "tasks", NULL, &b, &error));
    assert_int_equal(b->len, 3); // in their order
    assert_int_equal(b->messages[0].body_len, 0);
    assert_non_null(header_of(&b->messages[0], HEADER_BODY_LOST));
    assert_body(&b->messages[1], 2, BIG);
    assert_null(header_of(&b->messages[1], HEADER_BODY_LOST));
    assert_body(&b->messages[2], 3, 10);
    FINE(sluice_show(r->s, "tasks", b->messages[0].id, &shown, &error));
    assert_int_equal(shown->messages[0].body_len, 0);
    assert_non_null(header_of(&shown->messages[0], HEADER_BODY_LOST));
    sluice_batch_free(shown);
    sluice_batch_free(b);
}

static void a_peek_at_a_message_with_a_lost_body_says_so(void **state)
{
    (void)state;
    struct rig r;
    rig_memory(&r, PATIENT_MS);
    create(&r, "tasks", "retry");
    send_body(&r, "tasks", 1, BIG);
    char key[RIG_KEY_MAX];
    find_body(&r, key);
    send_body(&r, "tasks", 2, BIG);
    send_body(&r, "tasks", 3, 10);
    damage_body(&r, key);
    shows_all_but_the_lost_body(&r);
    remove_body(&r, key);
    shows_all_but_the_lost_body(&r);
    rig_close(&r);
}

static void a_lost_body_alone_is_an_error_that_names_it(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_batch *b;
    struct sluice_error why;
    rig_memory(&r, PATIENT_MS);
    create(&r, "tasks", "retry");
    send_body(&r, "tasks", 1, BIG);
    remove_only_body(&r);
    assert_int_equal(sluice_receive(r.s, "tasks", NULL, &b, &why), SLUICE_CORRUPT);
    assert_non_null(strstr(why.message, "-0-1"));
    rig_close(&r);
}

static void a_letter_whose_body_is_lost_arrives_and_says_so(void **state)
{
    (void)state;
    struct rig r;
    rig_memory(&r, PATIENT_MS);
    create(&r, "tasks", "dead-letter");
    send_body(&r, "tasks", 1, BIG);
    struct sluice_batch *b = receive(&r, "tasks", 1, 0);
    remove_only_body(&r);
    fail_it(&r, "tasks", &b->messages[0]);
    sluice_batch_free(b);
    b = receive_letter(&r);
    assert_int_equal(b->messages[0].body_len, 0);
    bool told = false;
    for (size_t i = 0; i < b->messages[0].headers_len; i++)
        told = told || strcmp(b->messages[0].headers[i].name, HEADER_BODY_LOST) == 0;
    assert_true(told);
    sluice_batch_free(b);
    rig_close(&r);
}

static void a_send_whose_upload_fails_sends_nothing(void **state)
{
    (void)state;
    struct rig r;
    rig_memory(&r, 200);
    create(&r, "tasks", "retry");
    send_body(&r, "tasks", 1, BIG); // the journal knows its tail: it asks for nothing more
    store_fault_set(r.fault, &(struct fault_options){.unknown_lost = CERTAIN});
    assert_int_equal(try_send(&r, "tasks", 2, BIG), SLUICE_UNAVAILABLE);
    store_fault_set(r.fault, &(struct fault_options){0});
    struct sluice_stats stats;
    FINE(sluice_stats(r.s, "tasks", &stats, &error));
    assert_int_equal(stats.sent, 1);
    rig_close(&r);
}

static void uploads_and_downloads_outlast_a_bad_network(void **state)
{
    (void)state;
    struct rig r;
    rig_memory(&r, PATIENT_MS);
    create(&r, "tasks", "retry");
    store_fault_set(r.fault, &(struct fault_options){
                                 .lost_request = 1500, .lost_reply = 1500, .unknown_lost = 1000});
    for (uint64_t i = 0; i < 20; i++) {
        struct bytes body = body_make(i, BIG);
        struct sluice_send m = {.body = body.data, .body_len = body.len};
        struct sluice_request request = {.bytes = {(uint8_t)(i + 1)}};
        enum sluice_code code;
        do
            code = sluice_send(r.s, "tasks", &m, 1, &request, NULL, NULL);
        while (code == SLUICE_UNKNOWN || code == SLUICE_UNAVAILABLE);
        assert_int_equal(code, SLUICE_OK);
        bytes_free(body);
    }
    for (uint64_t i = 0; i < 20; i++) {
        struct sluice_batch *b = receive(&r, "tasks", 1, PATIENT_MS);
        assert_int_equal(b->len, 1);
        assert_body(&b->messages[0], i, BIG);
        sluice_batch_free(b);
    }
    store_fault_set(r.fault, &(struct fault_options){0});
    rig_close(&r);
}

// A store in front of another that cannot bring bodies while `away` is set.
struct forgetful {
    struct store store;
    _Atomic bool away;
};

static enum err forgetful_get(struct store *s, const char *key, size_t from, size_t len,
                              struct store_answer *a)
{
    struct forgetful *f = (struct forgetful *)s;
    if (f->away && strstr(key, "/data/")) return ERR_UNAVAILABLE;
    return store_get(s->inner, key, from, len, a);
}

static void forgetful_free(struct store *s)
{
    store_free(s->inner);
    free(s);
}

static struct forgetful *forgetful_new(struct store *inner)
{
    static const struct store_ops ops = {.get = forgetful_get, .free = forgetful_free};
    struct forgetful *f = calloc(1, sizeof *f);
    assert_non_null(f);
    store_init_around(&f->store, &ops, inner);
    return f;
}

// The lock is given back, and no attempt counted.
static void a_body_that_cannot_be_read_gives_its_message_back(void **state)
{
    (void)state;
    struct rig r = {0};
    struct sluice_batch *b;
    struct sluice_error why;
    struct sluice_options options = {.timeout_ms = 200};
    struct forgetful *store = forgetful_new(store_mem_new());
    FINE(handle_open_take(&store->store, "mem:", &options, &r.s, &error));
    create(&r, "tasks", "retry");
    send_body(&r, "tasks", 1, BIG);
    store->away = true;
    assert_int_equal(sluice_receive(r.s, "tasks", NULL, &b, &why), SLUICE_UNAVAILABLE);
    assert_non_null(strstr(why.message, "-0-1"));
    // A caller with a request id may ask again: the lock waits for it.
    struct sluice_request request = {.bytes = {7}};
    struct sluice_receive ask = {.request = &request};
    assert_int_equal(sluice_receive(r.s, "tasks", &ask, &b, NULL), SLUICE_UNKNOWN);
    store->away = false;
    FINE(sluice_receive(r.s, "tasks", &ask, &b, &error));
    assert_int_equal(b->len, 1);
    assert_int_equal(b->messages[0].attempt, 1);
    assert_body(&b->messages[0], 1, BIG);
    ack(&r, "tasks", &b->messages[0]);
    sluice_batch_free(b);
    rig_close(&r);
}

// Calls that were under way when the clock was moved find that their time is up.
static void pass(struct rig *r, const char *queue, int64_t ms)
{
    store_mem_step(r->mem, ms);
    while (sluice_queue_resume(r->s, queue, NULL)) { // an entry that carries the new time
    }
}

// The sweep comes by once an hour. It works while the clock runs away from it, so how many hours
// that takes here says nothing.
static void await_bodies(struct rig *r, size_t count)
{
    int64_t end = clock_boot_ms() + PATIENT_MS;
    while (count_bodies(r) != count && clock_boot_ms() < end)
        pass(r, "tasks", 10 * MINUTE_MS);
    assert_int_equal(count_bodies(r), count);
}

static void upload_and_die(struct rig *r, uint64_t seed)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct upload upload;
    FINE(queue_get(r->s->engine, "tasks", &q, &error));
    struct bytes body = body_make(seed, BIG);
    bodies_upload(q, &(struct upload_job){.shard = 0, .body = body, .out = &upload}, 1);
    assert_int_equal(upload.err, ERR_OK);
    bytes_free(body);
}

static void a_sender_that_dies_between_upload_and_send_leaves_nothing_for_long(void **state)
{
    (void)state;
    struct rig r;
    rig_memory(&r, PATIENT_MS);
    create(&r, "tasks", "retry");
    send_body(&r, "tasks", 1, BIG);
    upload_and_die(&r, 2);
    for (int i = 0; i < 11; i++)
        pass(&r, "tasks", 10 * MINUTE_MS);
    assert_int_equal(count_bodies(&r), 2); // too young
    await_bodies(&r, 1);
    struct sluice_batch *b = receive(&r, "tasks", 1, 0); // hours later the other one is there
    assert_body(&b->messages[0], 1, BIG);
    ack(&r, "tasks", &b->messages[0]);
    sluice_batch_free(b);
    await_bodies(&r, 0);
    rig_close(&r);
}

// A process reads now and then, and none writes.
static struct sluice_stats look_on(struct rig *r, int64_t ms)
{
    struct sluice_stats stats;
    store_mem_step(r->mem, ms);
    while (sluice_stats(r->s, "tasks", &stats, NULL)) { // the first may find that its time is up
    }
    return stats;
}

static void an_idle_queue_is_swept_and_then_left_alone(void **state)
{
    (void)state;
    struct rig r;
    rig_memory(&r, PATIENT_MS);
    create(&r, "tasks", "retry");
    send_body(&r, "tasks", 1, BIG);
    upload_and_die(&r, 2);
    uint64_t before = look_on(&r, 1).entries;
    int64_t end = clock_boot_ms() + PATIENT_MS;
    while (count_bodies(&r) > 1 && clock_boot_ms() < end)
        (void)look_on(&r, 10 * MINUTE_MS);
    assert_int_equal(count_bodies(&r), 1);
    uint64_t after = look_on(&r, HOUR_MS).entries;
    assert_true(after > before); // its time had to be moved
    for (int hour = 0; hour < 8; hour++)
        assert_int_equal(look_on(&r, HOUR_MS).entries, after);
    rig_close(&r);
}

#define STEP_MS          (5 * MINUTE_MS)
#define STEPS            (24 * HOUR_MS / STEP_MS)
#define SMALL_PER_STEP   30
#define BIG_PER_STEP     2
#define LIVE_BIG         3 // are never finished

// What may lie about beside what is live (docs/format.md, "How many objects there are"): entries of
// the last hour and a quarter and as many as lie between two snapshots, twice; bodies of the last
// three hours; snapshots; what the store and its queues have once.
#define ENTRIES_PER_STEP (3 * (SMALL_PER_STEP + BIG_PER_STEP) + 8)
#define ENTRIES_MAX      (75 / 5 * ENTRIES_PER_STEP + 2 * 1024)
#define BODIES_MAX       (180 / 5 * (BIG_PER_STEP + 1) + BIG_PER_STEP + 1)
#define SNAPSHOTS_MAX    8
#define FIXED_MAX        8

static void churn(struct rig *r, uint64_t step)
{
    struct sluice_stats stats;
    for (uint64_t i = 0; i < SMALL_PER_STEP; i++)
        send_body(r, "tasks", step, 100);
    for (uint64_t i = 0; i < BIG_PER_STEP; i++)
        send_body(r, "tasks", step, BIG);
    upload_and_die(r, step);
    do {
        struct sluice_batch *b = receive(r, "tasks", 1, 0);
        assert_int_equal(b->len, 1);
        ack(r, "tasks", &b->messages[0]);
        sluice_batch_free(b);
        while (sluice_stats(r->s, "tasks", &stats, NULL) == SLUICE_UNAVAILABLE) {
        } // as in `pass`
    } while (stats.ready > 0);
}

struct census {
    size_t bodies, entries, snapshots, floors, all;
};

static bool is_little(const struct census *c)
{
    size_t others = c->all - c->bodies - c->entries - c->snapshots - c->floors;
    return c->bodies <= LIVE_BIG + BODIES_MAX && c->entries <= LIVE_BIG + ENTRIES_MAX &&
           c->snapshots <= SNAPSHOTS_MAX && c->floors <= 24 * 4 && others <= FIXED_MAX;
}

static struct census count_all(struct rig *r)
{
    return (struct census){.bodies = count_bodies(r),
                           .entries = count_keys(r, "q/", "/log/", NULL),
                           .snapshots = count_keys(r, "q/", "/snap/", NULL),
                           .floors = count_keys(r, "q/", "/floor/", NULL),
                           .all = count_keys(r, "", "", NULL)};
}

// A day passes in seconds: a round of collection that is under way may need a moment of them.
static void give_way(struct rig *r)
{
    int64_t end = clock_boot_ms() + 500;
    while (count_keys(r, "q/", "/log/", NULL) > ENTRIES_MAX - 300 && clock_boot_ms() < end) {
    }
}

static void after_a_day_of_churn_little_is_left(void **state)
{
    (void)state;
    struct rig r;
    rig_memory(&r, PATIENT_MS);
    create(&r, "tasks", "retry");
    create(&r, "kept", "retry");
    for (uint64_t i = 0; i < LIVE_BIG; i++)
        send_body(&r, "kept", i, BIG);
    for (uint64_t step = 0; step < STEPS; step++) {
        churn(&r, step);
        pass(&r, "tasks", STEP_MS);
        give_way(&r);
    }
    struct census c = count_all(&r);
    for (int64_t end = clock_boot_ms() + PATIENT_MS; !is_little(&c) && clock_boot_ms() < end;)
        c = count_all(&r); // a round that is under way
    print_message("# after %d steps: %zu bodies, %zu entries, %zu snapshots, %zu floors, %zu "
                  "objects in all\n",
                  (int)STEPS, c.bodies, c.entries, c.snapshots, c.floors, c.all);
    assert_true(is_little(&c));
    pass(&r, "kept", 1);
    for (uint64_t i = 0; i < LIVE_BIG; i++) {
        struct sluice_batch *b = receive(&r, "kept", 1, 0);
        assert_body(&b->messages[0], i, BIG);
        sluice_batch_free(b);
    }
    rig_close(&r);
}

// The time of the handle stands still until the store's clock has caught up. Calls go on.
static void a_store_whose_clock_was_set_back_takes_messages(void **state)
{
    (void)state;
    struct rig r;
    rig_memory(&r, 2000);
    create(&r, "tasks", "retry");
    pass(&r, "tasks", 10 * MINUTE_MS);
    pass(&r, "tasks", -10 * MINUTE_MS);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(try_send(&r, "tasks", i, i % 2 ? BIG : 100), SLUICE_OK);
        struct sluice_batch *b = receive(&r, "tasks", 1, 0);
        assert_int_equal(b->len, 1);
        ack(&r, "tasks", &b->messages[0]);
        sluice_batch_free(b);
    }
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_call_brings_only_so_many_bytes),
        cmocka_unit_test(a_lost_body_is_named_and_does_not_hold_up_the_rest),
        cmocka_unit_test(a_peek_at_a_message_with_a_lost_body_says_so),
        cmocka_unit_test(a_lost_body_alone_is_an_error_that_names_it),
        cmocka_unit_test(a_letter_whose_body_is_lost_arrives_and_says_so),
        cmocka_unit_test(a_send_whose_upload_fails_sends_nothing),
        cmocka_unit_test(uploads_and_downloads_outlast_a_bad_network),
        cmocka_unit_test(a_body_that_cannot_be_read_gives_its_message_back),
        cmocka_unit_test(a_sender_that_dies_between_upload_and_send_leaves_nothing_for_long),
        cmocka_unit_test(an_idle_queue_is_swept_and_then_left_alone),
        cmocka_unit_test(after_a_day_of_churn_little_is_left),
        cmocka_unit_test(a_store_whose_clock_was_set_back_takes_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
