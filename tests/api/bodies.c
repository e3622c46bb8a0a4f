// SPDX-License-Identifier: Apache-2.0
// Bodies too large for an entry, through the library, on the store named by the argument: they come
// out as they went in, and follow their message wherever it goes.
#include "bodies_rig.h"

#include "os/clock.h"

#include <stdio.h>
#include <string.h>

static const char *backend;

static void bodies_of_every_size_come_out_as_they_went_in(void **state)
{
    (void)state;
    static const size_t sizes[] = {256 * KIB, 256 * KIB + 1, BIG, 5 * MIB, 60 * MIB};
    struct rig r;
    rig_open(&r, backend);
    create(&r, "tasks", "retry");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        send_body(&r, "tasks", i, sizes[i]);
        struct sluice_batch *b = receive(&r, "tasks", 1, 0);
        assert_int_equal(b->len, 1);
        assert_body(&b->messages[0], i, sizes[i]);
        assert_string_equal(b->messages[0].content_type, "x/y");
        ack(&r, "tasks", &b->messages[0]);
        sluice_batch_free(b);
    }
    assert_int_equal(count_bodies(&r), 4); // the first was no larger than what an entry takes
    rig_close(&r);
}

static void a_batch_of_large_and_small_bodies_keeps_its_order(void **state)
{
    (void)state;
    enum { COUNT = 21 };
    struct rig r;
    struct bytes bodies[COUNT];
    struct sluice_send messages[COUNT] = {0};
    rig_open(&r, backend);
    create(&r, "tasks", "retry");
    for (size_t i = 0; i < COUNT; i++) {
        bodies[i] = body_make(i, i % 3 ? 100 + i : BIG + i);
        messages[i] = (struct sluice_send){.body = bodies[i].data, .body_len = bodies[i].len};
    }
    FINE(sluice_send(r.s, "tasks", messages, COUNT, NULL, NULL, &error));
    struct sluice_batch *b = receive(&r, "tasks", COUNT, 0);
    assert_int_equal(b->len, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_body(&b->messages[i], i, bodies[i].len);
        bytes_free(bodies[i]);
    }
    sluice_batch_free(b);
    rig_close(&r);
}

static void shards_have_their_own_bodies(void **state)
{
    (void)state;
    enum { COUNT = 12 };
    struct rig r;
    rig_open(&r, backend);
    const struct sluice_setting settings[] = {{"shards", "4"}};
    FINE(sluice_queue_create(r.s, "tasks", settings, 1, &error));
    struct bytes body = body_make(9, BIG);
    struct sluice_send messages[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        messages[i] = (struct sluice_send){.body = body.data, .body_len = body.len};
    FINE(sluice_send(r.s, "tasks", messages, COUNT, NULL, NULL, &error));
    bytes_free(body);
    for (size_t got = 0; got < COUNT;) {
        struct sluice_batch *b = receive(&r, "tasks", COUNT, PATIENT_MS);
        for (size_t i = 0; i < b->len; i++)
            assert_body(&b->messages[i], 9, BIG);
        assert_true(b->len > 0);
        got += b->len;
        sluice_batch_free(b);
    }
    rig_close(&r);
}

static void peek_and_show_bring_the_body(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, backend);
    create(&r, "tasks", "retry");
    send_body(&r, "tasks", 1, BIG);
    struct sluice_batch *b, *shown;
    FINE(sluice_peek(r.s, "tasks", NULL, &b, &error));
    assert_int_equal(b->len, 1);
    assert_body(&b->messages[0], 1, BIG);
    FINE(sluice_show(r.s, "tasks", b->messages[0].id, &shown, &error));
    assert_body(&shown->messages[0], 1, BIG);
    sluice_batch_free(b);
    sluice_batch_free(shown);
    rig_close(&r);
}

// ... and a peek that goes on behind the last one sees them all.
static void one_peek_brings_only_so_many_bytes(void **state)
{
    (void)state;
    enum { COUNT = 9, LARGE = 20 * MIB, MIDDLE = 5 * MIB };
    static const size_t sizes[COUNT] = {MIDDLE, MIDDLE, MIDDLE, MIDDLE, LARGE, 1, 1, LARGE, 1};
    static const size_t brought[] = {3, 1, 1, 2, 1, 1};
    struct rig r;
    struct sluice_batch *b;
    char after[SLUICE_ID_MAX] = "";
    rig_open(&r, backend);
    create(&r, "tasks", "retry");
    for (size_t i = 0; i < COUNT; i++)
        send_body(&r, "tasks", i, sizes[i]);
    for (size_t i = 0, seen = 0; i < sizeof brought / sizeof *brought; i++) {
        struct sluice_peek from = {.after_id = *after ? after : NULL, .max = 100};
        FINE(sluice_peek(r.s, "tasks", &from, &b, &error));
        assert_int_equal(b->len, brought[i]);
        for (size_t k = 0; k < b->len; k++, seen++)
            assert_body(&b->messages[k], seen, sizes[seen]);
        memcpy(after, b->messages[b->len - 1].id, sizeof after);
        sluice_batch_free(b);
    }
    FINE(sluice_peek(r.s, "tasks", &(struct sluice_peek){.after_id = after}, &b, &error));
    assert_int_equal(b->len, 0);
    sluice_batch_free(b);
    rig_close(&r);
}

// What is read at a time is less than what is asked for.
static void a_peek_of_many_small_ones_is_whole(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    struct rig r;
    struct sluice_batch *b;
    struct sluice_send messages[COUNT];
    struct bytes bodies[COUNT];
    rig_open(&r, backend);
    create(&r, "tasks", "retry");
    for (size_t i = 0; i < COUNT; i++) {
        bodies[i] = body_make(i, 10 + i);
        messages[i] = (struct sluice_send){.body = bodies[i].data, .body_len = bodies[i].len};
    }
    FINE(sluice_send(r.s, "tasks", messages, COUNT, NULL, NULL, &error));
    FINE(sluice_peek(r.s, "tasks", &(struct sluice_peek){.max = COUNT}, &b, &error));
    assert_int_equal(b->len, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_body(&b->messages[i], i, 10 + i);
        bytes_free(bodies[i]);
    }
    sluice_batch_free(b);
    rig_close(&r);
}

static void a_dead_letter_takes_its_body_along(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, backend);
    create(&r, "tasks", "dead-letter");
    send_body(&r, "tasks", 1, 5 * MIB);
    struct sluice_batch *b = receive(&r, "tasks", 1, 0);
    fail_it(&r, "tasks", &b->messages[0]);
    sluice_batch_free(b);
    b = receive_letter(&r);
    assert_body(&b->messages[0], 1, 5 * MIB);
    assert_int_equal(count_bodies(&r), 2); // the source's is there until it is swept
    sluice_batch_free(b);
    rig_close(&r);
}

static void a_redriven_letter_has_its_body_still(void **state)
{
    (void)state;
    struct rig r;
    uint64_t redriven;
    rig_open(&r, backend);
    create(&r, "tasks", "dead-letter");
    send_body(&r, "tasks", 1, BIG);
    struct sluice_batch *b = receive(&r, "tasks", 1, 0);
    fail_it(&r, "tasks", &b->messages[0]);
    sluice_batch_free(b);
    struct sluice_stats stats = {0};
    for (int64_t end = clock_boot_ms() + PATIENT_MS; stats.ready == 0;) {
        FINE(sluice_stats(r.s, "dlq", &stats, &error));
        assert_true(clock_boot_ms() < end);
    }
    FINE(sluice_redrive(r.s, "dlq", NULL, 0, &redriven, &error));
    assert_int_equal(redriven, 1);
    b = receive(&r, "tasks", 1, PATIENT_MS);
    assert_int_equal(b->len, 1);
    assert_body(&b->messages[0], 1, BIG);
    sluice_batch_free(b);
    rig_close(&r);
}

static void a_message_redriven_in_place_has_its_body_still(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, backend);
    create(&r, "tasks", "retry");
    send_body(&r, "tasks", 1, BIG);
    struct sluice_batch *b = receive(&r, "tasks", 1, 0);
    fail_it(&r, "tasks", &b->messages[0]);
    sluice_batch_free(b);
    FINE(sluice_redrive(r.s, "tasks", NULL, 0, NULL, &error));
    b = receive(&r, "tasks", 1, 0);
    assert_int_equal(b->len, 1);
    assert_body(&b->messages[0], 1, BIG);
    sluice_batch_free(b);
    rig_close(&r);
}

static void what_is_refused_leaves_no_body(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, backend);
    const struct sluice_setting settings[] = {{"capacity", "1"}};
    FINE(sluice_queue_create(r.s, "tasks", settings, 1, &error));
    assert_int_equal(try_send(&r, "tasks", 1, 2 * MIB), SLUICE_INVALID); // too large
    assert_int_equal(count_bodies(&r), 0);
    send_body(&r, "tasks", 2, BIG);
    assert_int_equal(try_send(&r, "tasks", 3, BIG), SLUICE_LIMIT); // full
    assert_int_equal(count_bodies(&r), 1);
    assert_int_equal(try_send(&r, "tasks", 4, 64 * MIB + 1), SLUICE_INVALID);
    rig_close(&r);
}

static void a_duplicate_leaves_no_body(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, backend);
    FINE(sluice_queue_create(r.s, "tasks", NULL, 0, &error));
    struct bytes body = body_make(1, BIG);
    struct sluice_send m = {.body = body.data, .body_len = body.len, .dedup = "once"};
    struct sluice_sent first, second;
    FINE(sluice_send(r.s, "tasks", &m, 1, NULL, &first, &error));
    FINE(sluice_send(r.s, "tasks", &m, 1, NULL, &second, &error));
    assert_true(second.duplicate);
    assert_string_equal(first.id, second.id);
    assert_int_equal(count_bodies(&r), 1);
    bytes_free(body);
    rig_close(&r);
}

static void deleting_a_queue_deletes_its_bodies(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, backend);
    create(&r, "tasks", "retry");
    for (uint64_t i = 0; i < 3; i++)
        send_body(&r, "tasks", i, BIG);
    assert_int_equal(count_bodies(&r), 3);
    FINE(sluice_queue_delete(r.s, "tasks", &error));
    assert_int_equal(count_bodies(&r), 0);
    rig_close(&r);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    backend = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_of_every_size_come_out_as_they_went_in),
        cmocka_unit_test(a_batch_of_large_and_small_bodies_keeps_its_order),
        cmocka_unit_test(shards_have_their_own_bodies),
        cmocka_unit_test(peek_and_show_bring_the_body),
        cmocka_unit_test(one_peek_brings_only_so_many_bytes),
        cmocka_unit_test(a_peek_of_many_small_ones_is_whole),
        cmocka_unit_test(a_dead_letter_takes_its_body_along),
        cmocka_unit_test(a_redriven_letter_has_its_body_still),
        cmocka_unit_test(a_message_redriven_in_place_has_its_body_still),
        cmocka_unit_test(what_is_refused_leaves_no_body),
        cmocka_unit_test(a_duplicate_leaves_no_body),
        cmocka_unit_test(deleting_a_queue_deletes_its_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
