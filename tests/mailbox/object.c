// SPDX-License-Identifier: Apache-2.0
// The bytes and the names of mailbox objects.
#include "mailbox/object.h"

#include "../unit/unit.h"
#include "base/digits.h"

#include <string.h>

static void put_rows(struct buf *rows)
{
    struct mailbox_answer answer = {
        .request = {{7}}, .err = ERR_FENCED, .result = bytes_str("result")};
    struct mailbox_ticket ticket = {
        .ref = {.seq = 17, .token = {1, 2}}, .deadline = 1234567, .message = bytes_str("message")};
    buf_init(rows, SIZE_MAX);
    mailbox_answer_put(rows, &answer);
    mailbox_ticket_put(rows, &ticket);
}

static void put_object(struct buf *out)
{
    CLEANUP(buf_done) struct buf rows;
    put_rows(&rows);
    struct mailbox_object o = {.way = MAILBOX_IN,
                               .flags = MAILBOX_UNKNOWN_WORKER,
                               .queue = {"0123456789abcde"},
                               .shard = 3,
                               .instance = 99,
                               .number = 5,
                               .seen = 4,
                               .worker = bytes_str("host/1"),
                               .count = 2,
                               .rows = buf_bytes(&rows)};
    buf_init(out, SIZE_MAX);
    mailbox_encode(out, &o);
}

static void an_object_is_read_as_it_was_written(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf bytes;
    struct mailbox_object o;
    struct mailbox_row row;
    struct mailbox_answer answer;
    struct mailbox_ticket ticket;
    put_object(&bytes);
    assert_int_equal(mailbox_decode(buf_bytes(&bytes), &o), ERR_OK);
    assert_int_equal(o.way, MAILBOX_IN);
    assert_int_equal(o.flags, MAILBOX_UNKNOWN_WORKER);
    assert_int_equal(o.shard, 3);
    assert_int_equal(o.instance, 99);
    assert_int_equal(o.number, 5);
    assert_int_equal(o.seen, 4);
    assert_true(bytes_equal(o.worker, bytes_str("host/1")));
    struct reader rows = reader_of(o.rows);
    assert_true(mailbox_row_next(&rows, &row) && mailbox_answer_read(&row, &answer));
    assert_int_equal(answer.err, ERR_FENCED);
    assert_true(bytes_equal(answer.result, bytes_str("result")));
    assert_true(mailbox_row_next(&rows, &row) && mailbox_ticket_read(&row, &ticket));
    assert_int_equal(ticket.ref.seq, 17);
    assert_int_equal(ticket.deadline, 1234567);
    assert_true(bytes_equal(ticket.message, bytes_str("message")));
}

static void the_counts_of_signals_are_read_as_they_were_written(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf rows;
    CLEANUP(buf_done) struct buf counts;
    struct mailbox_row row;
    struct mailbox_signals in = {.request = {{7}}}, out;
    uint32_t index, waiting;
    buf_init(&rows, 256);
    buf_init(&counts, 64);
    mailbox_signal_put(&counts, 0, 3);
    mailbox_signal_put(&counts, 9, 1);
    in.rows = buf_bytes(&counts);
    mailbox_signals_put(&rows, &in);
    struct reader r = reader_of(buf_bytes(&rows));
    assert_true(mailbox_row_next(&r, &row) && mailbox_signals_read(&row, &out));
    assert_memory_equal(&out.request, &in.request, sizeof in.request);
    struct reader c = reader_of(out.rows);
    assert_true(mailbox_signal_next(&c, &index, &waiting) && index == 0 && waiting == 3);
    assert_true(mailbox_signal_next(&c, &index, &waiting) && index == 9 && waiting == 1);
    assert_int_equal(c.left, 0);
    row.body.len -= 1;
    assert_false(mailbox_signals_read(&row, &out));
    row.body.len = sizeof in.request; // no count
    assert_false(mailbox_signals_read(&row, &out));
}

static void every_flipped_bit_and_every_cut_is_damage(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf bytes;
    struct mailbox_object o;
    put_object(&bytes);
    for (size_t bit = 0; bit < bytes.len * 8; bit++) {
        bytes.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(mailbox_decode(buf_bytes(&bytes), &o), ERR_CORRUPT);
        bytes.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t len = 0; len < bytes.len; len++)
        assert_int_equal(mailbox_decode(bytes_of(bytes.data, len), &o), ERR_CORRUPT);
}

static void a_newer_format_is_not_taken_for_damage(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf bytes;
    CLEANUP(buf_done) struct buf newer;
    struct mailbox_object o;
    put_object(&bytes);
    bytes.data[4] = 2;
    buf_init(&newer, SIZE_MAX);
    buf_put(&newer, bytes_of(bytes.data, bytes.len - 16));
    buf_put_hash128(&newer, hash128_of(buf_bytes(&newer)));
    assert_int_equal(mailbox_decode(buf_bytes(&newer), &o), ERR_UNAVAILABLE);
}

// docs/format.md has these bytes.
#define GOLDEN_BYTES 163
static const char golden[] =
    "534c425801000201a300000003000000303132333435363738396162636465006300000000000000"
    "0500000000000000040000000000000006000000686f73742f310200000002000400160000000700"
    "0000000000000000000000000000726573756c740300000027000000110000000000000001000000"
    "00000000020000000000000087d61200000000006d6573736167656e255e43e2f5ea40d98df249b0"
    "58bb5d";

static void the_bytes_of_an_object_do_not_change(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf bytes;
    put_object(&bytes);
    char hex[2 * GOLDEN_BYTES + 1] = {0};
    assert_int_equal(bytes.len, GOLDEN_BYTES);
    (void)digits_put_hex(hex, bytes.data, bytes.len);
    assert_string_equal(hex, golden);
}

static void the_name_of_a_box_is_a_part_of_a_key(void **state)
{
    (void)state;
    char box[MAILBOX_BOX_MAX + 1], again[MAILBOX_BOX_MAX + 1], key[MAILBOX_KEY_MAX];
    uint64_t number;
    mailbox_box(box, 0xabc, bytes_str("host/1 \xc3\xa4"));
    assert_string_equal(box, "0000000000000abc.host_1___");
    mailbox_key(key, "p/q/1/0", MAILBOX_OUT, box, 12);
    assert_string_equal(key, "p/q/1/0/box/out/0000000000000abc.host_1___/00000000000000000012");
    assert_true(mailbox_key_read(key, "p/q/1/0", MAILBOX_OUT, again, &number));
    assert_string_equal(again, box);
    assert_int_equal(number, 12);
    assert_false(mailbox_key_read(key, "p/q/1/0", MAILBOX_IN, again, &number));
    assert_false(mailbox_key_read("p/q/1/0/box/out/x/1", "p/q/1/0", MAILBOX_OUT, again, &number));
    key[strlen(key) - 1] = 'x';
    assert_false(mailbox_key_read(key, "p/q/1/0", MAILBOX_OUT, again, &number));
}

static void a_long_name_of_a_worker_is_cut(void **state)
{
    (void)state;
    char box[MAILBOX_BOX_MAX + 1];
    char name[WORKER_NAME_MAX];
    memset(name, 'w', sizeof name);
    mailbox_box(box, 1, bytes_of(name, sizeof name));
    assert_int_equal(strlen(box), MAILBOX_BOX_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_is_read_as_it_was_written),
        cmocka_unit_test(the_counts_of_signals_are_read_as_they_were_written),
        cmocka_unit_test(every_flipped_bit_and_every_cut_is_damage),
        cmocka_unit_test(a_newer_format_is_not_taken_for_damage),
        cmocka_unit_test(the_bytes_of_an_object_do_not_change),
        cmocka_unit_test(the_name_of_a_box_is_a_part_of_a_key),
        cmocka_unit_test(a_long_name_of_a_worker_is_cut),
    };
    return cmocka_run_group_tests_name("object", tests, NULL, NULL);
}
