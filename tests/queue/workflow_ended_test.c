// SPDX-License-Identifier: Apache-2.0
// The finished messages of a workflow are found as long as it is known how they ended.
#include "queue_test.h"

#define MINUTE INT64_C(60000)

static struct rig begin(void)
{
    struct rig r;
    struct queue_config c = defaults();
    c.retries_max = 0;
    c.retention_ms = MINUTE;
    rig_init(&r, &c);
    return r;
}

static uint64_t send(struct rig *r, const char *workflow, bool last)
{
    struct message m = {
        .body = bytes_str("x"), .workflow = bytes_str(workflow), .workflow_last = last};
    return rig_send_message(r, &m).seq;
}

static uint64_t finish(struct rig *r, uint16_t kind)
{
    struct grant g;
    assert_int_equal(rig_claim(r, "w", 1, &g), 1);
    (void)rig_word(r, kind, &g);
    machine_check(r->m);
    return g.seq;
}

// Expects these messages in this order, in the machine and in one that is loaded from a snapshot.
static void expect(const struct rig *r, const char *id, const uint64_t *seqs, size_t len)
{
    struct buf b;
    uint64_t found[8];
    buf_init(&b, 1 << 20);
    machine_save(r->m, &b);
    assert_true(b.data[4] <= SNAPSHOT_VERSION);
    struct machine *m = machine_new(&r->queue, RIG_SHARD, &r->config);
    assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_OK);
    machine_check(m);
    assert_true(machine_digest(m) == machine_digest(r->m));
    const struct machine *both[] = {r->m, m};
    for (int k = 0; k < 2; k++) {
        assert_int_equal(
            machine_workflow_finished(both[k], bytes_str(id), machine_now(both[k]), found, 8), len);
        for (size_t i = 0; i < len; i++)
            assert_int_equal(found[i], seqs[i]);
    }
    machine_free(m);
    buf_done(&b);
}

static void they_are_found_in_the_order_of_their_ends(void **state)
{
    (void)state;
    struct rig r = begin();
    struct grant g[3];
    uint64_t other = send(&r, "b", false), first = send(&r, "a", false);
    uint64_t second = send(&r, "a", false);
    rig_send(&r, "x", NULL); // of no workflow
    assert_int_equal(rig_claim(&r, "w", 3, g), 3);
    expect(&r, "a", NULL, 0);
    for (int i = 3; i-- > 0;)
        (void)rig_word(&r, OP_ACK, &g[i]);
    finish(&r, OP_ACK);
    expect(&r, "a", (uint64_t[]){second, first}, 2);
    expect(&r, "b", &other, 1);
    expect(&r, "c", NULL, 0);
    rig_done(&r);
}

static void they_go_with_how_they_ended(void **state)
{
    (void)state;
    struct rig r = begin();
    uint64_t seqs[2] = {send(&r, "a", false), send(&r, "a", false)};
    finish(&r, OP_ACK);
    rig_tick(&r, MINUTE / 2);
    finish(&r, OP_ACK);
    expect(&r, "a", seqs, 2);
    uint64_t found[2]; // a reader's time may be ahead of the last entry
    assert_int_equal(
        machine_workflow_finished(r.m, bytes_str("a"), machine_now(r.m) + MINUTE / 2, found, 2), 1);
    assert_int_equal(found[0], seqs[1]);
    rig_tick(&r, MINUTE / 2);
    expect(&r, "a", &seqs[1], 1);
    rig_tick(&r, MINUTE / 2);
    expect(&r, "a", NULL, 0);
    rig_done(&r);
}

static void a_purge_lists_them_by_number(void **state)
{
    (void)state;
    struct rig r = begin();
    struct buf b;
    uint64_t seqs[2];
    seqs[0] = send(&r, "a", false);
    for (int i = 0; i < 5; i++)
        rig_send(&r, "x", NULL); // more messages than members
    seqs[1] = send(&r, "a", true);
    buf_init(&b, 64);
    purge_encode(&b, &(struct op_purge){0});
    rig_op(&r, OP_PURGE, &b);
    rig_commit(&r);
    machine_check(r.m);
    expect(&r, "a", seqs, 2);
    rig_put_plain(&r, OP_DELETE);
    rig_commit(&r);
    machine_check(r.m);
    expect(&r, "a", NULL, 0);
    rig_done(&r);
}

static void a_message_that_is_redriven_is_replaced(void **state)
{
    (void)state;
    struct rig r = begin();
    send(&r, "a", false);
    uint64_t second = send(&r, "a", false), left[4];
    finish(&r, OP_FAIL);
    expect(&r, "a", NULL, 0); // a dead message is not finished
    finish(&r, OP_ACK);
    expect(&r, "a", &second, 1);
    rig_put_redrive(&r, 1);
    rig_commit(&r);
    machine_check(r.m);
    expect(&r, "a", &second, 1);
    assert_int_equal(machine_workflow_messages(r.m, bytes_str("a"), left, 4), 1);
    uint64_t again = finish(&r, OP_ACK);
    assert_int_equal(again, left[0]);
    expect(&r, "a", (uint64_t[]){second, again}, 2);
    rig_done(&r);
}

static void the_next_run_begins_with_none(void **state)
{
    (void)state;
    struct rig r = begin();
    uint64_t first = send(&r, "a", true);
    finish(&r, OP_ACK);
    expect(&r, "a", &first, 1);
    send(&r, "a", false);
    expect(&r, "a", NULL, 0);
    rig_done(&r);
}

static void every_flipped_bit_of_the_list_is_noticed(void **state)
{
    (void)state;
    struct rig r = begin();
    struct buf b;
    for (int i = 0; i < 3; i++)
        send(&r, "a", false);
    for (int i = 0; i < 3; i++)
        finish(&r, OP_ACK);
    buf_init(&b, 1 << 20);
    machine_save(r.m, &b);
    struct machine *m = machine_new(&r.queue, RIG_SHARD, &r.config);
    for (size_t bit = (b.len - (8 + 3 * 20 + 4)) * 8; bit < b.len * 8; bit++) {
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_CORRUPT);
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_OK);
    machine_free(m);
    buf_done(&b);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(they_are_found_in_the_order_of_their_ends),
        CASE(they_go_with_how_they_ended),
        CASE(a_purge_lists_them_by_number),
        CASE(a_message_that_is_redriven_is_replaced),
        CASE(the_next_run_begins_with_none),
        CASE(every_flipped_bit_of_the_list_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
