// SPDX-License-Identifier: Apache-2.0
// Calls that wait for signals (shard/listen.c), and the signals that come with other answers.
#include "signal_stage.h"

#define MANY 300

static void a_listen_ends_with_the_commit_of_a_signal(void **state)
{
    (void)state;
    struct stage s = stage_new();
    listen_for(&s.worker, &s.held, 0, WAIT_MS);
    rig_settle(&s.worker);
    rig_no_answer(&s.worker);
    assert_true(shard_has_waiting(s.worker.shard)); // so that the journal is watched
    steer(&s.sender, s.held.seqs[0], "{\"x\":1}");
    rig_look(&s.worker);
    struct shard_reply reply = told(&s.worker);
    assert_int_equal(reply.err, ERR_OK);
    assert_int_equal(reply.signals_len, 1);
    assert_row(&reply, 0, 1, "{\"x\":1}");
    assert_false(shard_has_waiting(s.worker.shard));
    stage_done(&s);
}

// Otherwise its thread never sleeps again.
static void a_shard_does_not_wake_for_a_listen_that_has_ended(void **state)
{
    (void)state;
    struct stage s = stage_new();
    listen_for(&s.worker, &s.held, 0, WAIT_MS);
    rig_settle(&s.worker);
    steer(&s.sender, s.held.seqs[0], "{}");
    rig_look(&s.worker);
    assert_int_equal(told(&s.worker).err, ERR_OK);
    rig_pass(&s.worker, WAIT_MS + 1);
    rig_settle(&s.worker);
    shard_tick(s.worker.shard, rig_time(&s.worker));
    assert_true(shard_wake_at(s.worker.shard) > rig_time(&s.worker).lo);
    stage_done(&s);
}

static void signals_that_are_there_come_at_once_and_in_order(void **state)
{
    (void)state;
    struct stage s = stage_new();
    steer(&s.worker, s.held.seqs[0], "one");
    steer(&s.worker, s.held.seqs[0], "two");
    listen_for(&s.worker, &s.held, 0, WAIT_MS);
    struct shard_reply reply = told(&s.worker);
    assert_int_equal(reply.signals_len, 2);
    assert_row(&reply, 0, 1, "one");
    assert_row(&reply, 1, 2, "two");
    listen_for(&s.worker, &s.held, 1, WAIT_MS);
    reply = told(&s.worker);
    assert_int_equal(reply.signals_len, 1);
    assert_row(&reply, 0, 2, "two");
    listen_for(&s.worker, &s.held, 2, WAIT_MS);
    rig_settle(&s.worker);
    rig_no_answer(&s.worker);
    stage_done(&s);
}

static void a_payload_out_of_the_cache_is_read_from_the_log(void **state)
{
    (void)state;
    struct stage s = stage_new();
    steer(&s.sender, s.held.seqs[0], "far");
    struct shard_config config = rig_config();
    struct rig late = rig_on(s.store, &config);
    listen_for(&late, &s.held, 0, WAIT_MS);
    rig_settle(&late);
    assert_true(late.body_reads > 0);
    struct shard_reply reply = told(&late);
    assert_row(&reply, 0, 1, "far");
    rig_done(&late);
    stage_done(&s);
}

static void a_lock_that_ends_ends_the_listen_with_the_reason(void **state)
{
    (void)state;
    struct stage s = stage_new();
    listen_for(&s.sender, &s.held, 0, WAIT_MS);
    rig_settle(&s.sender);
    rig_no_answer(&s.sender);
    rig_does(&s.worker, rig_word(&s.worker, OP_ACK, &s.held, ""));
    rig_look(&s.sender);
    struct shard_reply reply = told(&s.sender);
    assert_int_equal(reply.signals_len, 1);
    assert_int_equal(reply.signals[0].reason, REASON_TERMINAL);
    stage_done(&s);
}

// No other process commits anything: the handle that listens lets the fold's time pass.
static void a_lock_that_expires_unseen_ends_the_listen(void **state)
{
    (void)state;
    struct stage s = stage_new();
    listen_for(&s.worker, &s.held, 0, 10 * LEASE_MS);
    rig_settle(&s.worker);
    rig_no_answer(&s.worker);
    assert_true(shard_wake_at(s.worker.shard) < rig_time(&s.worker).lo + 10 * LEASE_MS);
    for (int i = 0; i < 20 && shard_has_waiting(s.worker.shard); i++) {
        rig_pass(&s.worker, LEASE_MS / 4);
        rig_settle(&s.worker);
    }
    struct shard_reply reply = told(&s.worker);
    assert_int_equal(reply.signals_len, 1);
    assert_int_equal(reply.signals[0].reason, REASON_LOCK_EXPIRED);
    stage_done(&s);
}

// A handle that has not folded the claim yet does not take the lock for one that is gone.
static void a_lock_that_is_not_folded_yet_is_not_gone(void **state)
{
    (void)state;
    struct shard_config config = rig_config();
    struct stage s = stage_with(&config);
    rig_sent(&s.sender, "other");
    rig_look(&s.worker);
    struct rig_answer later = rig_claimed(&s.worker, "w", 1);
    listen_for(&s.sender, &later, 0, WAIT_MS);
    rig_no_answer(&s.sender);
    rig_settle(&s.sender);
    rig_no_answer(&s.sender); // it waits: the lock is in force
    assert_true(shard_has_waiting(s.sender.shard));
    stage_done(&s);
}

static void a_listen_ends_when_its_time_is_over(void **state)
{
    (void)state;
    struct stage s = stage_new();
    listen_for(&s.worker, &s.held, 0, WAIT_MS);
    rig_settle(&s.worker);
    assert_true(shard_wake_at(s.worker.shard) <= rig_time(&s.worker).lo + WAIT_MS);
    rig_pass(&s.worker, WAIT_MS);
    rig_settle(&s.worker);
    struct shard_reply reply = told(&s.worker);
    assert_int_equal(reply.err, ERR_NOT_FOUND);
    assert_int_equal(reply.signals_len, 0);
    stage_done(&s);
}

static void a_cancelled_listen_has_no_answer(void **state)
{
    (void)state;
    struct stage s = stage_new();
    listen_for(&s.worker, &s.held, 0, WAIT_MS);
    rig_settle(&s.worker);
    assert_true(shard_cancel(s.worker.shard, TICKET, rig_time(&s.worker)));
    assert_false(shard_has_waiting(s.worker.shard));
    steer(&s.sender, s.held.seqs[0], "x");
    rig_look(&s.worker);
    rig_no_answer(&s.worker);
    assert_false(shard_cancel(s.worker.shard, TICKET, rig_time(&s.worker)));
    stage_done(&s);
}

static void an_owner_that_is_no_owner_any_more_ends_the_listens_of_its_guests(void **state)
{
    (void)state;
    struct stage s = stage_new();
    rig_does(&s.worker, rig_own(&s.worker, 1));
    struct listen_ask ask = {{s.held.seqs[0], s.held.tokens[0]}, 0};
    struct shard_listen what = {.asks = &ask, .len = 1, .as_owner = true};
    int64_t until = rig_time(&s.worker).lo + WAIT_MS;
    shard_listen(s.worker.shard, TICKET, &what, until, until + LEASE_MS, s.worker.now);
    rig_settle(&s.worker);
    rig_no_answer(&s.worker);
    rig_look(&s.sender);
    rig_does(&s.sender, rig_own(&s.sender, 2));
    rig_look(&s.worker);
    assert_int_equal(rig_answer(&s.worker, TICKET).reason, REASON_NOT_OWNER);
    stage_done(&s);
}

static void a_deleted_queue_ends_a_listen(void **state)
{
    (void)state;
    struct stage s = stage_new();
    listen_for(&s.worker, &s.held, 0, WAIT_MS);
    rig_settle(&s.worker);
    rig_does(&s.sender, rig_plain(&s.sender, OP_DELETE));
    rig_look(&s.worker);
    assert_int_equal(rig_answer(&s.worker, TICKET).reason, REASON_DELETED);
    stage_done(&s);
}

// More messages change than the machine remembers.
static void a_signal_is_noticed_among_very_many_changes(void **state)
{
    (void)state;
    struct stage s = stage_new();
    listen_for(&s.worker, &s.held, 0, 100 * LEASE_MS);
    rig_settle(&s.worker);
    steer(&s.sender, s.held.seqs[0], "x");
    for (int i = 0; i < MANY; i++) {
        const char *bodies[16];
        for (int b = 0; b < 16; b++)
            bodies[b] = "b";
        struct request_id id = rig_request();
        uint64_t ticket = rig_send_as(&s.sender, &id, bodies, 16, "");
        rig_settle(&s.sender);
        (void)rig_answer(&s.sender, ticket);
        struct rig_answer more = rig_claimed(&s.sender, "w", 16);
        rig_does(&s.sender, rig_word(&s.sender, OP_ACK, &more, ""));
    }
    shard_catch_up(s.worker.shard, rig_time(&s.worker));
    rig_settle(&s.worker);
    struct shard_reply reply = told(&s.worker);
    assert_row(&reply, 0, 1, "x");
    stage_done(&s);
}

static void signals_come_with_the_message(void **state)
{
    (void)state;
    struct stage s = stage_new();
    uint64_t seq = rig_sent(&s.worker, "idle");
    steer(&s.worker, seq, "with it");
    uint64_t ticket = rig_receive(&s.worker, "w", 4, 0);
    rig_settle(&s.worker);
    struct shard_reply reply;
    assert_true(shard_next_reply(s.worker.shard, &reply));
    assert_int_equal(reply.ticket, ticket);
    assert_int_equal(reply.deliveries_len, 1);
    assert_int_equal(reply.signals_len, 1);
    assert_int_equal(reply.signals[0].view.seq, reply.deliveries[0].grant.seq);
    assert_row(&reply, 0, 1, "with it");
    stage_done(&s);
}

static void a_renewal_says_how_many_signals_wait(void **state)
{
    (void)state;
    struct stage s = stage_new();
    uint64_t ticket = rig_word(&s.worker, OP_RENEW, &s.held, "");
    rig_settle(&s.worker);
    struct shard_reply reply;
    assert_true(shard_next_reply(s.worker.shard, &reply));
    assert_int_equal(reply.ticket, ticket);
    assert_int_equal(reply.signals_len, 0);
    steer(&s.worker, s.held.seqs[0], "one");
    steer(&s.worker, s.held.seqs[0], "two");
    (void)rig_word(&s.worker, OP_RENEW, &s.held, "");
    rig_settle(&s.worker);
    assert_true(shard_next_reply(s.worker.shard, &reply));
    assert_int_equal(reply.signals_len, 1);
    assert_int_equal(reply.signals[0].index, 0);
    assert_int_equal(reply.signals[0].waiting, 2);
    stage_done(&s);
}

static void the_end_of_a_signal_comes_with_its_answer(void **state)
{
    (void)state;
    struct stage s = stage_new();
    struct request_id id = rig_request();
    rig_does(&s.sender, signal_send(&s.sender, &id, SIGNAL_ASK, s.held.seqs[0], "how far"));
    wait_for_end(&s.sender, &id, 0, WAIT_MS);
    rig_settle(&s.sender);
    rig_no_answer(&s.sender);
    rig_look(&s.worker);
    rig_does(&s.worker, settle_send(&s.worker, &s.held, 1, "half"));
    rig_look(&s.sender);
    struct shard_reply reply = told(&s.sender);
    assert_int_equal(reply.signals_len, 1);
    assert_int_equal(reply.signals[0].view.state, SIGNAL_ACKED);
    assert_row(&reply, 0, 1, "half");
    stage_done(&s);
}

static void a_signal_that_no_worker_takes_is_missed_when_the_lock_ends(void **state)
{
    (void)state;
    struct stage s = stage_new();
    struct request_id id = rig_request();
    rig_does(&s.sender, signal_send(&s.sender, &id, SIGNAL_ASK, s.held.seqs[0], "how far"));
    wait_for_end(&s.sender, &id, s.held.seqs[0], WAIT_MS);
    rig_settle(&s.sender);
    rig_look(&s.worker);
    rig_does(&s.worker, rig_word(&s.worker, OP_ACK, &s.held, ""));
    rig_look(&s.sender);
    struct shard_reply reply = told(&s.sender);
    assert_int_equal(reply.signals_len, 1);
    assert_int_equal(reply.signals[0].view.state, SIGNAL_MISSED);
    assert_false(reply.signals[0].kept);
    stage_done(&s);
}

static void a_wait_for_an_end_returns_pending_rows_at_its_time(void **state)
{
    (void)state;
    struct stage s = stage_new();
    struct request_id id = steer(&s.sender, s.held.seqs[0], "x");
    wait_for_end(&s.sender, &id, 0, WAIT_MS);
    rig_settle(&s.sender);
    rig_no_answer(&s.sender);
    rig_pass(&s.sender, WAIT_MS);
    rig_settle(&s.sender);
    struct shard_reply reply = told(&s.sender);
    assert_int_equal(reply.signals_len, 1);
    assert_int_equal(reply.signals[0].view.state, SIGNAL_PENDING);
    struct request_id unknown = rig_request();
    wait_for_end(&s.sender, &unknown, 0, WAIT_MS);
    rig_settle(&s.sender);
    reply = told(&s.sender);
    assert_int_equal(reply.err, ERR_OK);
    assert_int_equal(reply.signals_len, 0);
    stage_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_listen_ends_with_the_commit_of_a_signal),
        cmocka_unit_test(a_shard_does_not_wake_for_a_listen_that_has_ended),
        cmocka_unit_test(signals_that_are_there_come_at_once_and_in_order),
        cmocka_unit_test(a_payload_out_of_the_cache_is_read_from_the_log),
        cmocka_unit_test(a_lock_that_ends_ends_the_listen_with_the_reason),
        cmocka_unit_test(a_lock_that_expires_unseen_ends_the_listen),
        cmocka_unit_test(a_lock_that_is_not_folded_yet_is_not_gone),
        cmocka_unit_test(a_listen_ends_when_its_time_is_over),
        cmocka_unit_test(a_cancelled_listen_has_no_answer),
        cmocka_unit_test(an_owner_that_is_no_owner_any_more_ends_the_listens_of_its_guests),
        cmocka_unit_test(a_deleted_queue_ends_a_listen),
        cmocka_unit_test(a_signal_is_noticed_among_very_many_changes),
        cmocka_unit_test(signals_come_with_the_message),
        cmocka_unit_test(a_renewal_says_how_many_signals_wait),
        cmocka_unit_test(the_end_of_a_signal_comes_with_its_answer),
        cmocka_unit_test(a_signal_that_no_worker_takes_is_missed_when_the_lock_ends),
        cmocka_unit_test(a_wait_for_an_end_returns_pending_rows_at_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
