// SPDX-License-Identifier: Apache-2.0
// Polls of many locks (shard/listen.c), and the waits of a collect.
#include "signal_stage.h"

#define CLAIMED 16
#define LOCKS   (25 * CLAIMED)

// A collect waits for the end of the message, and for the answer of its holder.
static void collect_for(struct rig *r, const struct request_id *id, uint64_t seq, bool all)
{
    struct listen_ask asks[] = {{.ref.seq = seq}, {.ref.seq = seq, .after = LISTEN_ANSWER}};
    struct shard_listen what = {
        .asks = asks, .len = 2, .messages = true, .all = all, .questions = id, .questions_len = 1};
    int64_t until = rig_time(r).lo + WAIT_MS;
    shard_listen(r->shard, TICKET, &what, until, until + LEASE_MS, r->now);
    rig_settle(r);
}

static void an_answer_ends_the_wait_of_a_collect(void **state)
{
    (void)state;
    for (int all = 0; all < 2; all++) {
        struct stage s = stage_new();
        struct request_id id = rig_request();
        rig_does(&s.sender, signal_send(&s.sender, &id, SIGNAL_ASK, s.held.seqs[0], "how far"));
        steer(&s.sender, s.held.seqs[0], "{}"); // it stays
        collect_for(&s.sender, &id, s.held.seqs[0], all);
        rig_no_answer(&s.sender);
        rig_look(&s.worker);
        rig_does(&s.worker, settle_send(&s.worker, &s.held, 1, "half"));
        rig_look(&s.sender);
        assert_int_equal(told(&s.sender).err, ERR_OK);
        stage_done(&s);
    }
}

static void another_signal_does_not_end_the_wait_of_a_collect(void **state)
{
    (void)state;
    struct stage s = stage_new();
    struct request_id id = rig_request();
    steer(&s.sender, s.held.seqs[0], "{}");
    rig_does(&s.sender, signal_send(&s.sender, &id, SIGNAL_ASK, s.held.seqs[0], "how far"));
    collect_for(&s.sender, &id, s.held.seqs[0], false);
    rig_look(&s.worker);
    rig_does(&s.worker, settle_send(&s.worker, &s.held, 1, ""));
    rig_look(&s.sender);
    rig_no_answer(&s.sender);
    rig_does(&s.worker, rig_word(&s.worker, OP_ACK, &s.held, ""));
    rig_look(&s.sender);
    assert_int_equal(told(&s.sender).err, ERR_OK);
    stage_done(&s);
}

// More locks than one answer has rows.
struct crowd {
    struct stage stage;
    struct listen_ask asks[LOCKS];
    uint32_t told[LOCKS]; // how many signals came
};

static void crowd_begin(struct crowd *c)
{
    *c = (struct crowd){.stage = stage_new()};
    struct rig *r = &c->stage.worker;
    for (size_t len = 0; len < LOCKS; len += CLAIMED) {
        const char *bodies[CLAIMED];
        for (size_t i = 0; i < CLAIMED; i++)
            bodies[i] = "job";
        struct request_id id = rig_request();
        rig_does(r, rig_send_as(r, &id, bodies, CLAIMED, ""));
        struct rig_answer held = rig_claimed(r, "w", CLAIMED);
        assert_int_equal(held.count, CLAIMED);
        for (size_t i = 0; i < CLAIMED; i++)
            c->asks[len + i].ref = (struct lock_ref){held.seqs[i], held.tokens[i]};
    }
}

// A poll of all locks for what it was not told yet.
static struct shard_reply crowd_poll(struct crowd *c)
{
    struct rig *r = &c->stage.worker;
    struct shard_listen what = {.asks = c->asks, .len = LOCKS};
    int64_t until = rig_time(r).lo + WAIT_MS;
    shard_listen(r->shard, TICKET, &what, until, until + LEASE_MS, r->now);
    rig_settle(r);
    struct shard_reply reply = told(r);
    assert_int_equal(reply.err, ERR_OK);
    for (size_t i = 0; i < reply.signals_len; i++)
        c->told[reply.signals[i].index] += reply.signals[i].reason == REASON_NONE;
    return reply;
}

// Each lock gets new signals faster than the polls bring them.
static void every_lock_of_a_large_poll_is_served(void **state)
{
    (void)state;
    struct crowd c;
    crowd_begin(&c);
    for (int poll = 0; poll < 2 * LOCKS / SIGNALS_ANSWER_MAX + 1; poll++) {
        steer_all(&c.stage.worker, c.asks, LOCKS);
        struct shard_reply reply = crowd_poll(&c);
        assert_int_equal(reply.signals_len, SIGNALS_ANSWER_MAX);
        for (size_t i = 0; i < reply.signals_len; i++)
            c.asks[reply.signals[i].index].after = reply.signals[i].view.number;
    }
    for (size_t i = 0; i < LOCKS; i++)
        assert_true(c.told[i] > 0);
    stage_done(&c.stage);
}

// Its worker answers none of them, and the poll gives no numbers.
static void a_lock_with_many_signals_leaves_space_for_others(void **state)
{
    (void)state;
    struct crowd c;
    crowd_begin(&c);
    for (int i = 0; i < SIGNALS_ANSWER_MAX; i++)
        steer_all(&c.stage.worker, c.asks, 1);
    steer_all(&c.stage.worker, c.asks + LOCKS - 1, 1);
    (void)crowd_poll(&c);
    assert_true(c.told[0] > 1);
    assert_int_equal(c.told[LOCKS - 1], 1);
    stage_done(&c.stage);
}

static void locks_that_are_gone_leave_space_for_signals(void **state)
{
    (void)state;
    struct crowd c;
    crowd_begin(&c);
    for (size_t at = 0; at < LOCKS - CLAIMED; at += CLAIMED) {
        struct rig_answer held = {.count = CLAIMED};
        for (size_t i = 0; i < CLAIMED; i++) {
            held.seqs[i] = c.asks[at + i].ref.seq;
            held.tokens[i] = c.asks[at + i].ref.token;
        }
        rig_does(&c.stage.worker, rig_word(&c.stage.worker, OP_ACK, &held, ""));
    }
    rig_look(&c.stage.sender);
    steer_all(&c.stage.sender, c.asks + LOCKS - 1, 1); // the worker's handle does not know it yet
    struct shard_reply reply = crowd_poll(&c);
    assert_int_equal(reply.signals_len, SIGNALS_ANSWER_MAX + 1);
    assert_int_equal(reply.signals[0].reason, REASON_TERMINAL);
    assert_int_equal(c.told[LOCKS - 1], 1);
    stage_done(&c.stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_ends_the_wait_of_a_collect),
        cmocka_unit_test(another_signal_does_not_end_the_wait_of_a_collect),
        cmocka_unit_test(every_lock_of_a_large_poll_is_served),
        cmocka_unit_test(a_lock_with_many_signals_leaves_space_for_others),
        cmocka_unit_test(locks_that_are_gone_leave_space_for_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
