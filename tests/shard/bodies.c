// SPDX-License-Identifier: Apache-2.0
// Where the bodies of claimed messages come from: the cache, or the log, in runs; and what happens
// when they cannot be had.
#include "rig.h"

#include <stdio.h>
#include <string.h>

static void body_of(char text[RIG_TEXT], size_t i)
{
    (void)snprintf(text, RIG_TEXT, "body %zu", i);
}

static void send_each(struct rig *r, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char text[RIG_TEXT];
        body_of(text, i);
        rig_sent(r, text);
    }
}

static void has_bodies(const struct rig_answer *a, size_t first, size_t count)
{
    assert_int_equal(a->err, ERR_OK);
    assert_int_equal(a->count, count);
    for (size_t i = 0; i < count; i++) {
        char text[RIG_TEXT];
        body_of(text, first + i);
        assert_string_equal(a->bodies[i], text);
    }
}

static void body_just_sent_is_not_read_again(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = rig_config();
    struct rig a = rig_on(s, &config);
    send_each(&a, 10);
    struct rig_answer got = rig_claimed(&a, "one", 10);
    has_bodies(&got, 0, 10);
    assert_int_equal(a.body_reads, 0);
    rig_done(&a);
    store_free(s);
}

// The cache holds one entry at a time, and a message is found by counting over many.
static void body_thrown_out_is_read_from_the_log(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = rig_config();
    config.cache_bytes = 1;
    struct rig a = rig_on(s, &config);
    send_each(&a, 12);
    for (size_t i = 0; i < 12; i += 4) {
        struct rig_answer got = rig_claimed(&a, "one", 4);
        has_bodies(&got, i, 4);
    }
    assert_true(a.body_reads >= 11); // all but the last were thrown out
    rig_done(&a);
    store_free(s);
}

static void newcomer_reads_bodies_in_runs(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = rig_config();
    struct rig a = rig_on(s, &config);
    send_each(&a, 16);
    struct rig b = rig_on(s, &config);
    struct rig_answer got = rig_claimed(&b, "one", 16);
    has_bodies(&got, 0, 16);
    assert_int_equal(b.body_reads, 1);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

// A handle that knows nothing of the bodies of the one message in the store.
static struct rig newcomer(struct store *s, struct rig *a)
{
    struct shard_config config = rig_config();
    *a = rig_on(s, &config);
    rig_sent(a, "body 0");
    return rig_on(s, &config);
}

static void failed_body_read_is_tried_again(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a, b = newcomer(s, &a);
    uint64_t ticket = rig_receive(&b, "one", 1, 0);
    struct request read = rig_until_body_read(&b);
    rig_serve(&b, &read, FATE_UNAVAILABLE);
    rig_settle(&b); // not at once
    rig_no_answer(&b);
    assert_int_equal(b.body_reads, 1);
    int64_t wake = shard_wake_at(b.shard);
    assert_true(wake > b.now.lo && wake <= b.now.lo + 1000);
    rig_pass(&b, wake - b.now.lo);
    rig_settle(&b);
    struct rig_answer got = rig_answer(&b, ticket);
    has_bodies(&got, 0, 1);
    assert_int_equal(b.body_reads, 2);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void bodies_out_of_reach_are_unknown_and_come_with_the_same_request(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a, b = newcomer(s, &a);
    struct request_id request = rig_request();
    struct rig_answer answer;
    uint64_t ticket = rig_receive_as(&b, &request, "one", 1, 0, 500);
    for (int i = 0; i < RIG_LIMIT && !rig_answered(&b, ticket, &answer); i++) {
        struct request r;
        if (rig_take(&b, &r)) {
            rig_serve(&b, &r, rig_is_body_read(&b, &r) ? FATE_UNAVAILABLE : FATE_OK);
        } else {
            rig_pass(&b, shard_wake_at(b.shard) - b.now.lo);
        }
    }
    assert_int_equal(answer.err, ERR_UNKNOWN);
    assert_int_equal(answer.count, 0);
    assert_true(b.body_reads > 1);
    uint64_t slot = rig_slot(&b);
    rig_pass(&b, 1000); // the store is back
    rig_settle(&b);
    ticket = rig_receive_as(&b, &request, "one", 1, 0, 500);
    rig_settle(&b);
    answer = rig_answer(&b, ticket);
    has_bodies(&answer, 0, 1);
    rig_does(&b, rig_word(&b, OP_ACK, &answer, ""));
    assert_int_equal(rig_slot(&b), slot + 1); // the claim itself took no second entry
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void body_read_without_an_answer_ends_at_the_deadline(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a, b = newcomer(s, &a);
    struct request_id request = rig_request();
    uint64_t ticket = rig_receive_as(&b, &request, "one", 1, 0, 500);
    struct request read = rig_until_body_read(&b);
    int64_t wake = shard_wake_at(b.shard);
    assert_true(wake <= b.now.lo + 500);
    rig_no_answer(&b);
    rig_pass(&b, 501);
    assert_int_equal(rig_answer(&b, ticket).err, ERR_UNKNOWN);
    rig_serve(&b, &read, FATE_OK); // no call waits for it any more, but it is kept
    ticket = rig_receive_as(&b, &request, "one", 1, 0, 500);
    rig_settle(&b);
    struct rig_answer got = rig_answer(&b, ticket);
    has_bodies(&got, 0, 1);
    assert_int_equal(b.body_reads, 1);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void fetch_without_an_answer_ends_at_the_deadline(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a, b = newcomer(s, &a);
    assert_true(shard_wake_at(b.shard) > b.now.lo + 60000);
    uint64_t ticket = rig_fetch(&b, (struct place){.slot = 1});
    struct request read = rig_until_body_read(&b);
    assert_true(shard_wake_at(b.shard) <= b.now.lo + 60000);
    rig_pass(&b, 60001);
    assert_int_equal(rig_answer(&b, ticket).err, ERR_UNKNOWN);
    rig_serve(&b, &read, FATE_OK);
    rig_no_answer(&b);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void body_at_hand_does_not_wait_for_one_that_is_not(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a, b = newcomer(s, &a);
    rig_sent(&b, "body 1"); // this one is in its cache
    uint64_t slow = rig_receive(&b, "one", 1, 0);
    struct request read = rig_until_body_read(&b);
    uint64_t fast = rig_fetch(&b, (struct place){.slot = 2});
    struct rig_answer got = rig_answer(&b, fast);
    has_bodies(&got, 1, 1);
    rig_serve(&b, &read, FATE_OK);
    rig_settle(&b);
    got = rig_answer(&b, slow);
    has_bodies(&got, 0, 1);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void slot_that_is_gone_fails_only_the_calls_that_need_it(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = rig_config();
    struct rig a = rig_on(s, &config);
    send_each(&a, 2);
    struct rig_answer held = rig_claimed(&a, "one", 2);
    rig_does(&a, rig_word(&a, OP_ACK, &held, ""));
    struct rig b = rig_on(s, &config);
    uint64_t lost = rig_fetch(&b, (struct place){.slot = 1});
    struct request read = rig_until_body_read(&b);
    uint64_t other = rig_fetch(&b, (struct place){.slot = 2});
    rig_serve(&b, &read, FATE_NOT_FOUND);
    rig_settle(&b); // the tail shows that no message needs the slot
    assert_int_equal(rig_answer(&b, lost).err, ERR_NOT_FOUND);
    rig_no_answer(&b);
    rig_pass(&b, 1000);
    rig_settle(&b);
    struct rig_answer got = rig_answer(&b, other);
    has_bodies(&got, 1, 1);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void slot_that_is_gone_while_its_message_lives_is_damage(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a, b = newcomer(s, &a);
    uint64_t claim = rig_receive(&b, "one", 1, 0);
    struct request read = rig_until_body_read(&b);
    rig_serve(&b, &read, FATE_NOT_FOUND);
    rig_settle(&b);
    assert_int_equal(rig_answer(&b, claim).err, ERR_CORRUPT);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void body_of_a_live_message_under_the_floor_is_believed(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a, b = newcomer(s, &a);
    rig_floor(&a, 1);
    struct rig_answer got = rig_claimed(&b, "one", 1);
    has_bodies(&got, 0, 1);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

// The floor rises, the slot goes and comes back, all between the lock and the read of the body. The
// reader's own state still says that the message lives.
static void body_from_a_slot_created_again_is_not_handed_to_a_worker(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a, b = newcomer(s, &a);
    uint64_t ticket = rig_receive(&b, "one", 1, 0);
    struct request read = rig_until_body_read(&b);
    rig_look(&a);
    rig_does(&a, rig_plain(&a, OP_DELETE));
    rig_floor(&a, 1);
    rig_create_again(&a, 1, "another");
    rig_serve(&b, &read, FATE_OK);
    rig_settle(&b);
    assert_int_equal(rig_answer(&b, ticket).count, 0);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void body_over_the_floor_is_believed_without_a_look_at_the_tail(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a, b = newcomer(s, &a);
    uint64_t ticket = rig_receive(&b, "one", 1, 0);
    struct request read = rig_until_body_read(&b), floor;
    rig_serve(&b, &read, FATE_OK);
    assert_true(rig_take(&b, &floor));
    assert_int_equal(floor.kind, REQUEST_GET);
    rig_serve(&b, &floor, FATE_UNAVAILABLE);
    rig_no_answer(&b); // what could not be asked is asked again, and the body is not read again
    rig_pass(&b, 1000);
    rig_settle(&b);
    struct rig_answer got = rig_answer(&b, ticket);
    has_bodies(&got, 0, 1);
    assert_int_equal(b.body_reads, 1);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(body_just_sent_is_not_read_again),
        cmocka_unit_test(body_thrown_out_is_read_from_the_log),
        cmocka_unit_test(newcomer_reads_bodies_in_runs),
        cmocka_unit_test(failed_body_read_is_tried_again),
        cmocka_unit_test(bodies_out_of_reach_are_unknown_and_come_with_the_same_request),
        cmocka_unit_test(body_read_without_an_answer_ends_at_the_deadline),
        cmocka_unit_test(fetch_without_an_answer_ends_at_the_deadline),
        cmocka_unit_test(body_at_hand_does_not_wait_for_one_that_is_not),
        cmocka_unit_test(slot_that_is_gone_fails_only_the_calls_that_need_it),
        cmocka_unit_test(slot_that_is_gone_while_its_message_lives_is_damage),
        cmocka_unit_test(body_of_a_live_message_under_the_floor_is_believed),
        cmocka_unit_test(body_from_a_slot_created_again_is_not_handed_to_a_worker),
        cmocka_unit_test(body_over_the_floor_is_believed_without_a_look_at_the_tail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
