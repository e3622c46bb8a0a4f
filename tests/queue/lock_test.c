// SPDX-License-Identifier: Apache-2.0
// The lock of chosen messages: no other message is touched, and the order of a strict queue holds.
#include "queue_test.h"

#include "queue/codec/ops_signals.h"

static void put_lock(struct rig *r, const uint64_t *seqs, uint32_t count)
{
    struct buf b, bytes;
    buf_init(&b, 4096);
    buf_init(&bytes, 4096);
    for (uint32_t i = 0; i < count; i++)
        buf_put_u64(&bytes, seqs[i]);
    lock_encode(&b, &(struct op_lock){.seed = "seed",
                                      .worker = bytes_str("redrive"),
                                      .lease_ms = 60000,
                                      .count = count,
                                      .seqs = buf_bytes(&bytes)});
    buf_done(&bytes);
    rig_op(r, OP_LOCK, &b);
}

// Returns how many are locked.
static uint32_t lock(struct rig *r, const uint64_t *seqs, uint32_t count, struct grant *out)
{
    put_lock(r, seqs, count);
    rig_commit(r);
    machine_check(r->m);
    assert_int_equal(rig_reason(r, 0), REASON_NONE);
    return rig_grants(r, 0, out, count);
}

static void begin(struct rig *r, bool strict)
{
    struct queue_config c = defaults();
    c.ordering_guarantee = strict;
    rig_init(r, &c);
}

static void only_the_chosen_messages_are_locked(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[8];
    begin(&r, false);
    for (int i = 0; i < 9; i++)
        rig_send(&r, "x", NULL);
    const uint64_t some[] = {5, 9, 2, 5, 99, 0};
    assert_int_equal(lock(&r, some, 6, g), 3);
    assert_int_equal(g[0].seq, 5);
    assert_int_equal(g[1].seq, 9);
    assert_int_equal(g[2].seq, 2);
    assert_int_equal(rig_count(&r, STATE_LOCKED), 3);
    for (uint64_t seq = 1; seq <= 9; seq++) {
        struct message_view v;
        assert_int_equal(machine_find(r.m, seq, machine_now(r.m), &v), ERR_OK);
        assert_int_equal(v.deliveries, seq == 2 || seq == 5 || seq == 9);
    }
    assert_int_equal(rig_word(&r, OP_ACK, &g[0]).status, OUTCOME_PROCESSED);
    const uint64_t again[] = {5, 9};
    assert_int_equal(lock(&r, again, 2, g), 0); // finished, and locked
    rig_done(&r);
}

static void a_pause_does_not_matter(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    begin(&r, false);
    rig_send(&r, "x", NULL);
    rig_put_plain(&r, OP_PAUSE);
    rig_commit(&r);
    assert_int_equal(machine_refuses(r.m, OP_LOCK, 1), REASON_NONE);
    assert_int_equal(lock(&r, (const uint64_t[]){1}, 1, &g), 1);
    rig_done(&r);
}

static void a_strict_queue_locks_only_what_is_next_in_its_group(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[4];
    begin(&r, true);
    rig_send(&r, "a1", "a");
    rig_send(&r, "a2", "a");
    rig_send(&r, "b1", "b");
    rig_send(&r, "1", NULL);
    rig_send(&r, "2", NULL);
    assert_int_equal(lock(&r, (const uint64_t[]){2, 5}, 2, g), 0);
    assert_int_equal(lock(&r, (const uint64_t[]){2, 1, 3, 4}, 4, g), 3);
    assert_int_equal(lock(&r, (const uint64_t[]){2, 5}, 2, g + 3), 0);
    assert_int_equal(rig_word(&r, OP_ACK, &g[0]).status, OUTCOME_PROCESSED);
    assert_int_equal(rig_word(&r, OP_ACK, &g[2]).status, OUTCOME_PROCESSED);
    assert_int_equal(lock(&r, (const uint64_t[]){2, 5}, 2, g), 2);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(only_the_chosen_messages_are_locked),
        CASE(a_pause_does_not_matter),
        CASE(a_strict_queue_locks_only_what_is_next_in_its_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
