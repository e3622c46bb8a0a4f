// SPDX-License-Identifier: Apache-2.0
// The owner's side of mailboxes with objects that no worker writes, and with more rows than an
// object takes.
#include "mailbox/owner.h"

#include "../unit/unit.h"

#include <stdio.h>
#include <string.h>

#define PREFIX   "q/0"
#define INSTANCE 7
#define TICKETS  12
#define SEEN_AT  48 // in an object
#define NOW      ((struct interval){1000000, 1000010})

static const struct bytes worker = {(const uint8_t *)"w", 1};

static void put_op(struct buf *rows, uint32_t number)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, SIZE_MAX);
    struct op_outcome op = {.count = 0};
    memcpy(op.request.bytes, &number, sizeof number);
    outcome_encode(&payload, &op);
    struct mailbox_row row = {.kind = MAILBOX_OP, .code = OP_RELEASE, .body = buf_bytes(&payload)};
    mailbox_row_put(rows, &row);
}

// An object of the worker, with so many ops.
static void put_object(struct buf *out, uint64_t number, uint32_t ops)
{
    CLEANUP(buf_done) struct buf rows;
    buf_init(&rows, SIZE_MAX);
    for (uint32_t i = 1; i <= ops; i++)
        put_op(&rows, (uint32_t)number << 16 | i);
    struct mailbox_object o = {.way = MAILBOX_OUT,
                               .instance = INSTANCE,
                               .number = number,
                               .worker = worker,
                               .count = ops,
                               .rows = buf_bytes(&rows)};
    buf_init(out, SIZE_MAX);
    mailbox_encode(out, &o);
}

// Begins a round in which the owner lists and reads the objects 1 to len.
static void begin(struct mailbox_owner *o, const struct buf *objects, size_t len)
{
    char box[MAILBOX_BOX_MAX + 1], key[MAILBOX_KEY_MAX];
    mailbox_box(box, INSTANCE, worker);
    owner_begin(o, NOW);
    for (size_t i = 0; i < len; i++) {
        mailbox_key(key, PREFIX, MAILBOX_OUT, box, i + 1);
        owner_listed(o, key, NOW);
    }
    for (size_t i = 0; i < owner_reads(o); i++) {
        owner_read_key(o, i, key);
        size_t number = (size_t)(key[strlen(key) - 1] - '0');
        owner_object(o, i, ERR_OK, buf_bytes(&objects[number - 1]));
    }
}

// Ends the round and returns how many rows its object has.
static uint32_t end(struct mailbox_owner *o)
{
    uint32_t count = 0;
    (void)owner_worker(o, worker, INSTANCE, 1000);
    for (size_t i = 0, len = owner_writes(o); i < len; i++) {
        char key[MAILBOX_KEY_MAX];
        struct bytes bytes;
        struct mailbox_object object;
        owner_write(o, i, key, &bytes);
        assert_int_equal(mailbox_decode(bytes, &object), ERR_OK);
        count += object.count;
        owner_written(o, i, ERR_OK);
    }
    owner_end(o);
    return count;
}

static struct mailbox_owner *owner(void)
{
    struct queue_id queue = {{0}};
    return mailbox_owner_new(PREFIX, &queue, 0);
}

static void an_object_that_has_seen_impossible_numbers_is_damaged(void **state)
{
    (void)state;
    const uint64_t numbers[] = {UINT64_MAX, MAILBOX_SEEN_MAX + 1, MAILBOX_SEEN_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        CLEANUP(buf_done) struct buf object;
        struct mailbox_object again;
        struct mailbox_owner *o = owner();
        put_object(&object, 1, 0);
        object.len -= 16; // the checksum
        le_put(object.data + SEEN_AT, numbers[i], 8);
        buf_put_hash128(&object, hash128_of(buf_bytes(&object)));
        bool right = numbers[i] <= MAILBOX_SEEN_MAX;
        assert_int_equal(mailbox_decode(buf_bytes(&object), &again), right ? ERR_OK : ERR_CORRUPT);
        begin(o, &object, 1);
        (void)end(o);
        begin(o, &object, 0);
        assert_true(owner_deletes(o) <= MAILBOX_DELETES_MAX);
        owner_deleted(o, ERR_OK);
        (void)end(o);
        mailbox_owner_free(o);
    }
}

static void answers_that_an_object_does_not_take_come_in_the_next(void **state)
{
    (void)state;
    const uint32_t ops = MAILBOX_ROWS_MAX / 2 + 1000;
    struct buf objects[2];
    struct mailbox_owner *o = owner();
    put_object(&objects[0], 1, ops);
    put_object(&objects[1], 2, ops);
    begin(o, objects, 2);
    assert_int_equal(owner_ops(o), 2 * ops);
    for (size_t i = 0; i < owner_ops(o); i++)
        owner_committed(o, i, ERR_OK, bytes_str("r"));
    assert_int_equal(end(o), MAILBOX_ROWS_MAX);
    begin(o, objects, 2);
    assert_int_equal(owner_ops(o), ops); // the first object is handled
    for (size_t i = 0; i < owner_ops(o); i++)
        owner_committed(o, i, ERR_OK, bytes_str("r"));
    assert_int_equal(end(o), ops);
    begin(o, objects, 2);
    assert_int_equal(owner_ops(o), 0);
    (void)end(o);
    mailbox_owner_free(o);
    buf_done(&objects[0]);
    buf_done(&objects[1]);
}

static void tickets_that_an_object_does_not_take_come_in_the_next(void **state)
{
    (void)state;
    static const uint8_t message[3 << 20];
    struct mailbox_owner *o = owner();
    for (uint32_t round = 0, delivered = 0; delivered < TICKETS; round++) {
        assert_true(round < TICKETS);
        begin(o, NULL, 0);
        bool asks[TICKETS + 1]; // a round asks for all before it reads the messages
        for (uint64_t seq = 1; seq <= TICKETS; seq++)
            asks[seq] = owner_ticket(o, worker, INSTANCE, &(struct lock_ref){.seq = seq});
        for (uint64_t seq = 1; seq <= TICKETS; seq++) {
            struct mailbox_ticket t = {
                .ref.seq = seq, .deadline = NOW.lo, .message = bytes_of(message, sizeof message)};
            if (asks[seq]) owner_deliver(o, worker, INSTANCE, &t);
        }
        uint32_t count = end(o);
        assert_in_range(count, 1, MAILBOX_IN_BODY_MAX / sizeof message + 1);
        delivered += count;
        assert_true(delivered <= TICKETS);
    }
    mailbox_owner_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_that_has_seen_impossible_numbers_is_damaged),
        cmocka_unit_test(answers_that_an_object_does_not_take_come_in_the_next),
        cmocka_unit_test(tickets_that_an_object_does_not_take_come_in_the_next),
    };
    return cmocka_run_group_tests_name("owner", tests, NULL, NULL);
}
