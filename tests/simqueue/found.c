// SPDX-License-Identifier: Apache-2.0
// What the simulator found, each in as few steps as it takes.
#include "rig.h"

#include <string.h>

static void apply(struct machine *m, uint64_t slot, uint16_t kind, struct buf *payload)
{
    struct op op = {.kind = kind, .payload = buf_bytes(payload)};
    struct machine_entry e = {
        .slot = slot, .time = {1000, 1000}, .now = 1000, .ops = &op, .ops_len = 1};
    machine_apply(m, &e, NULL, NULL, NULL);
}

static void send_one(struct machine *m, uint64_t slot)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1000);
    send_begin(&payload, &(struct request_id){{0}});
    send_add(&payload, &(struct message){.body = bytes_str("body")});
    send_end(&payload, 0, 1);
    apply(m, slot, OP_SEND, &payload);
}

// Slot 2 carries no message. When slot 3 continues the range that slot 1 began, its readers walk
// from 1 to 3: a collector that dropped slot 2 in between would have lost the message.
static void slot_that_an_open_range_may_grow_over_is_needed(void **state)
{
    (void)state;
    struct queue_config config;
    config_defaults(&config);
    struct machine *m = machine_new(&(struct queue_id){{1}}, 0, &config);
    CLEANUP(buf_done) struct buf nothing;
    buf_init(&nothing, 1000);
    plain_encode(&nothing, &(struct op_plain){.request = {{0}}});
    send_one(m, 1);
    apply(m, 2, OP_RESUME, &nothing);
    assert_true(machine_needs(m, 1, 1));
    assert_true(machine_needs(m, 2, 2));
    send_one(m, 3);
    assert_true(machine_needs(m, 2, 2));
    assert_false(machine_needs(m, PLACE_SPAN + 1, PLACE_SPAN + 1));
    machine_free(m);
}

// The first answer is lost, the lock runs out, another worker finishes the message and its slot is
// collected: the request sent again finds its lock over, not the store damaged.
static void receive_sent_again_after_its_message_was_collected_brings_nothing(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = rig_config();
    struct rig a = rig_on(s, &config);
    rig_sent(&a, "one");
    struct request_id apart = rig_request(); // with a key it is no part of a range
    rig_does(&a, rig_send_as(&a, &apart, &(const char *){"two"}, 1, "key"));
    struct rig b = rig_on(s, &config);
    struct request_id request = rig_request();
    uint64_t first = rig_receive_as(&b, &request, "w", 2, 0, 60000);
    struct request read = rig_until_body_read(&b);
    rig_pass(&b, config.birth.visibility_timeout_ms + 1000);
    struct rig_answer held = rig_claimed(&a, "other", 1);
    rig_does(&a, rig_word(&a, OP_ACK, &held, ""));
    rig_serve(&b, &read, FATE_NOT_FOUND);
    rig_settle(&b);
    rig_pass(&b, 1000);
    rig_settle(&b);
    struct rig_answer got = rig_answer(&b, first);
    assert_int_equal(got.err, ERR_OK);
    assert_int_equal(got.count, 1);
    assert_string_equal(got.bodies[0], "two");
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

// An owner that was replaced proposes again what it had proposed in its old epoch. An ack and the
// claim behind it were one entry then, and are one entry now: the next message costs one commit.
static void ack_and_claim_of_a_former_owner_stay_in_one_entry(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = rig_config();
    struct rig a = rig_on(s, &config), b = rig_on(s, &config);
    rig_does(&a, rig_own(&a, 1));
    rig_sent(&a, "one");
    rig_sent(&a, "two");
    struct rig_answer held = rig_claimed(&a, "one", 1);
    rig_look(&b);
    rig_does(&b, rig_own(&b, 2)); // which a does not know yet
    uint64_t claim = rig_receive_acking(&a, &held, 0);
    struct request lost = rig_until_append(&a);
    rig_serve(&a, &lost, FATE_OK);
    struct request again = rig_until_append(&a);
    assert_int_equal(rig_ops_in(&again, OP_ACK), 1);
    assert_int_equal(rig_ops_in(&again, OP_CLAIM), 1);
    rig_serve(&a, &again, FATE_OK);
    rig_settle(&a);
    assert_int_equal(rig_answer(&a, claim - 1).err, ERR_OK);
    assert_string_equal(rig_answer(&a, claim).bodies[0], "two");
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

// A message is finished and its slot collected. Then a write that was under way since before the
// slot was first taken creates it again: what it holds is not what was sent.
static void fetch_from_a_slot_that_was_created_again_brings_nothing(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = rig_config();
    struct rig a = rig_on(s, &config);
    rig_sent(&a, "one");
    struct rig_answer held = rig_claimed(&a, "w", 1);
    rig_does(&a, rig_word(&a, OP_ACK, &held, ""));
    struct rig b = rig_on(s, &config);
    rig_floor(&a, 1);
    rig_create_again(&a, 1, "another");
    uint64_t ticket = rig_fetch(&b, (struct place){.slot = 1});
    rig_settle(&b);
    assert_int_equal(rig_answer(&b, ticket).err, ERR_NOT_FOUND);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

// An entry with a purge and a send is under way. At the tail before it the queue is full, so a
// repeat of the send is refused without an entry. The purge makes space for the send all the same.
// The refusal decides nothing about the first attempt (err_repeated); a later repeat tells.
static void repeat_that_a_full_queue_refuses_does_not_decide_the_first_attempt(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = rig_config();
    config.birth.capacity = 1;
    struct rig a = rig_on(s, &config), b = rig_on(s, &config);
    struct request_id id = rig_request();
    uint64_t fills = rig_send(&a, "one");
    struct request append = rig_until_append(&a);
    uint64_t purges = rig_purge(&a);
    uint64_t first = rig_send_as(&a, &id, &(const char *){"two"}, 1, "");
    rig_serve(&a, &append, FATE_OK);
    assert_int_equal(rig_answer(&a, fills).err, ERR_OK);
    append = rig_until_append(&a);
    assert_int_equal(rig_ops_in(&append, OP_SEND), 1);
    rig_look(&b);
    uint64_t repeat = rig_send_as(&b, &id, &(const char *){"two"}, 1, "");
    rig_settle(&b);
    assert_int_equal(rig_answer(&b, repeat).reason, REASON_FULL);
    assert_int_equal(rig_slot(&b), 1);
    rig_serve(&a, &append, FATE_OK);
    rig_settle(&a);
    rig_does(&a, purges);
    assert_int_equal(rig_answer(&a, first).err, ERR_OK);
    rig_does(&b, rig_send_as(&b, &id, &(const char *){"two"}, 1, ""));
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slot_that_an_open_range_may_grow_over_is_needed),
        cmocka_unit_test(receive_sent_again_after_its_message_was_collected_brings_nothing),
        cmocka_unit_test(fetch_from_a_slot_that_was_created_again_brings_nothing),
        cmocka_unit_test(ack_and_claim_of_a_former_owner_stay_in_one_entry),
        cmocka_unit_test(repeat_that_a_full_queue_refuses_does_not_decide_the_first_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
