// SPDX-License-Identifier: Apache-2.0
// A cancel of a receive that does not only wait: a request of its own is under way. It ends with
// the store's answer, or a timeout after the cancel.
#include "rig.h"

#define LONG_MS    (INT64_C(3600) * 1000)
#define TIMEOUT_MS INT64_C(5000)

struct stage {
    struct store *store;
    struct rig r;
    struct request_id request;
    uint64_t ticket;
};

static struct stage stage_new(void)
{
    struct shard_config config = rig_config();
    struct stage s = {.store = store_mem_new(), .request = rig_request()};
    s.r = rig_on(s.store, &config);
    return s;
}

static void stage_done(struct stage *s)
{
    rig_done(&s->r);
    store_free(s->store);
}

static void receive(struct stage *s, int64_t wait_ms)
{
    s->ticket = rig_receive_as(&s->r, &s->request, "one", 1, wait_ms, TIMEOUT_MS);
}

// The receive does not wait: its read of the tail is under way, and the store does not answer.
static struct stage stage_syncing(int64_t wait_ms)
{
    struct stage s = stage_new();
    struct request read;
    receive(&s, wait_ms);
    assert_true(rig_take(&s.r, &read));
    assert_int_equal(read.kind, REQUEST_READ_LOG);
    return s;
}

static void cancel_too_late(struct stage *s)
{
    assert_false(shard_cancel(s->r.shard, s->ticket, rig_time(&s->r)));
}

// The answer comes a timeout after now, and not before.
static void ends_by_timeout(struct stage *s, enum err err)
{
    assert_true(shard_wake_at(s->r.shard) <= rig_time(&s->r).lo + TIMEOUT_MS);
    rig_pass(&s->r, TIMEOUT_MS - 1);
    rig_no_answer(&s->r);
    rig_pass(&s->r, 1);
    assert_int_equal(rig_answer(&s->r, s->ticket).err, err);
}

static void cancelled_receive_ends_without_the_store(void **state)
{
    (void)state;
    struct stage s = stage_syncing(LONG_MS);
    rig_pass(&s.r, 1000);
    cancel_too_late(&s);
    ends_by_timeout(&s, ERR_UNAVAILABLE);
    stage_done(&s);
}

static void second_cancel_gives_no_more_time(void **state)
{
    (void)state;
    struct stage s = stage_syncing(LONG_MS);
    cancel_too_late(&s);
    rig_pass(&s.r, 1000);
    cancel_too_late(&s);
    rig_pass(&s.r, TIMEOUT_MS - 1000);
    assert_int_equal(rig_answer(&s.r, s.ticket).err, ERR_UNAVAILABLE);
    stage_done(&s);
}

static void cancel_after_the_wait_gives_no_more_time(void **state)
{
    (void)state;
    struct stage s = stage_syncing(1000);
    rig_pass(&s.r, 3000);
    cancel_too_late(&s);
    rig_pass(&s.r, TIMEOUT_MS - 2000);
    assert_int_equal(rig_answer(&s.r, s.ticket).err, ERR_UNAVAILABLE);
    stage_done(&s);
}

static void withdrawn_receive_keeps_its_deadline(void **state)
{
    (void)state;
    struct stage s = stage_syncing(LONG_MS);
    assert_false(shard_withdraw(s.r.shard, s.ticket));
    rig_pass(&s.r, LONG_MS);
    rig_no_answer(&s.r);
    rig_pass(&s.r, TIMEOUT_MS);
    assert_int_equal(rig_answer(&s.r, s.ticket).err, ERR_UNAVAILABLE);
    stage_done(&s);
}

static void withdrawn_receive_can_be_cancelled(void **state)
{
    (void)state;
    struct stage s = stage_syncing(LONG_MS);
    assert_false(shard_withdraw(s.r.shard, s.ticket));
    rig_pass(&s.r, 60000);
    cancel_too_late(&s);
    ends_by_timeout(&s, ERR_UNAVAILABLE);
    stage_done(&s);
}

static void withdrawn_receive_does_not_wait(void **state)
{
    (void)state;
    struct stage s = stage_new();
    struct request read;
    receive(&s, LONG_MS);
    assert_true(rig_take(&s.r, &read));
    assert_false(shard_withdraw(s.r.shard, s.ticket));
    rig_serve(&s.r, &read, FATE_OK);
    rig_settle(&s.r);
    struct rig_answer got = rig_answer(&s.r, s.ticket);
    assert_int_equal(got.err, ERR_OK);
    assert_int_equal(got.count, 0);
    stage_done(&s);
}

// An entry with the claim was sent: it may be committed, so the answer is not "not applied".
static void cancelled_claim_under_way_is_unknown(void **state)
{
    (void)state;
    struct stage s = stage_new();
    uint64_t seq = rig_sent(&s.r, "x");
    receive(&s, LONG_MS);
    struct request put = rig_until_append(&s.r);
    rig_pass(&s.r, 1000);
    cancel_too_late(&s);
    ends_by_timeout(&s, ERR_UNKNOWN);
    rig_serve(&s.r, &put, FATE_OK);
    rig_settle(&s.r);
    receive(&s, 0); // the same request id
    rig_settle(&s.r);
    struct rig_answer got = rig_answer(&s.r, s.ticket);
    assert_int_equal(got.count, 1);
    assert_int_equal(got.seqs[0], seq);
    stage_done(&s);
}

// No entry with the claim was sent: it certainly claims nothing, now or later.
static void cancelled_claim_that_waits_for_its_entry_is_not_applied(void **state)
{
    (void)state;
    struct stage s = stage_new();
    rig_sent(&s.r, "x");
    uint64_t send = rig_send(&s.r, "y");
    struct request put = rig_until_append(&s.r);
    receive(&s, LONG_MS);
    cancel_too_late(&s);
    ends_by_timeout(&s, ERR_UNAVAILABLE);
    rig_serve(&s.r, &put, FATE_OK);
    rig_settle(&s.r);
    assert_int_equal(rig_answer(&s.r, send).err, ERR_OK);
    struct machine_stats stats;
    machine_stats(shard_machine(s.r.shard), rig_time(&s.r).lo, &stats);
    assert_int_equal(stats.counts[STATE_LOCKED], 0);
    stage_done(&s);
}

static void claim_of_a_cancelled_receive_brings_its_message(void **state)
{
    (void)state;
    struct stage s = stage_new();
    uint64_t seq = rig_sent(&s.r, "x");
    receive(&s, LONG_MS);
    struct request put = rig_until_append(&s.r);
    cancel_too_late(&s);
    rig_pass(&s.r, TIMEOUT_MS - 1);
    rig_serve(&s.r, &put, FATE_OK);
    rig_settle(&s.r);
    struct rig_answer got = rig_answer(&s.r, s.ticket);
    assert_int_equal(got.err, ERR_OK);
    assert_int_equal(got.seqs[0], seq);
    stage_done(&s);
}

// The locks are granted, and the bodies cannot be read.
static void cancelled_receive_without_its_bodies_is_unknown(void **state)
{
    (void)state;
    struct stage s = stage_new();
    rig_sent(&s.r, "x");
    rig_done(&s.r);
    struct shard_config config = rig_config(); // a new handle has not read the body
    s.r = rig_on(s.store, &config);
    rig_settle(&s.r);
    receive(&s, LONG_MS);
    (void)rig_until_body_read(&s.r);
    cancel_too_late(&s);
    ends_by_timeout(&s, ERR_UNKNOWN);
    stage_done(&s);
}

static void cancelled_listen_ends_without_the_store(void **state)
{
    (void)state;
    struct stage s = stage_new();
    struct request_id signal = rig_request();
    struct shard_listen what = {.signal = signal};
    struct request read;
    int64_t until = rig_time(&s.r).lo + LONG_MS;
    s.ticket = UINT64_C(1) << 32;
    shard_listen(s.r.shard, s.ticket, &what, until, until + TIMEOUT_MS, rig_time(&s.r));
    assert_true(rig_take(&s.r, &read));
    cancel_too_late(&s);
    ends_by_timeout(&s, ERR_UNAVAILABLE);
    stage_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancelled_receive_ends_without_the_store),
        cmocka_unit_test(second_cancel_gives_no_more_time),
        cmocka_unit_test(cancel_after_the_wait_gives_no_more_time),
        cmocka_unit_test(withdrawn_receive_keeps_its_deadline),
        cmocka_unit_test(withdrawn_receive_can_be_cancelled),
        cmocka_unit_test(withdrawn_receive_does_not_wait),
        cmocka_unit_test(cancelled_claim_under_way_is_unknown),
        cmocka_unit_test(cancelled_claim_that_waits_for_its_entry_is_not_applied),
        cmocka_unit_test(claim_of_a_cancelled_receive_brings_its_message),
        cmocka_unit_test(cancelled_receive_without_its_bodies_is_unknown),
        cmocka_unit_test(cancelled_listen_ends_without_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
