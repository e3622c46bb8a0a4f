// SPDX-License-Identifier: Apache-2.0
// Calls that wait for signals (shard/listen.c), and the signals that come with other answers.
#include "rig.h"

#include <stdio.h>
#include <string.h>

#define WAIT_MS  1000
#define TICKET   77
#define LEASE_MS (INT64_C(30) * 1000)
#define MANY     300
#define CLAIMED  16
#define LOCKS    (25 * CLAIMED)

static uint64_t signal_send(struct rig *r, const struct request_id *id, enum signal_kind kind,
                            uint64_t seq, const char *text)
{
    static uint64_t tickets = 1000;
    CLEANUP(buf_done) struct buf payload, seqs;
    buf_init(&payload, 1 << 17);
    buf_init(&seqs, 8);
    buf_put_u64(&seqs, seq);
    bool interrupt = kind == SIGNAL_INTERRUPT;
    struct op_signal op = {.request = *id,
                           .kind = kind,
                           .flags = kind == SIGNAL_ASK ? SIGNAL_ONCE : 0,
                           .ttl_ms = interrupt ? 0 : SIGNAL_TTL_DEFAULT_MS,
                           .grace_ms = interrupt ? 5000 : 0,
                           .payload = interrupt ? BYTES_EMPTY : bytes_str(text),
                           .reason = interrupt ? bytes_str(text) : BYTES_EMPTY,
                           .count = 1,
                           .seqs = buf_bytes(&seqs)};
    signal_encode(&payload, &op);
    shard_submit(r->shard, ++tickets, (struct op){OP_SIGNAL, buf_bytes(&payload)}, TIME_NEVER,
                 rig_time(r));
    return tickets;
}

// One signal to many messages.
static void steer_all(struct rig *r, const struct listen_ask *asks, size_t len)
{
    static uint64_t tickets = 700000;
    CLEANUP(buf_done) struct buf payload, seqs;
    buf_init(&payload, 1 << 17);
    buf_init(&seqs, 1 << 16);
    for (size_t i = 0; i < len; i++)
        buf_put_u64(&seqs, asks[i].ref.seq);
    struct op_signal op = {.request = rig_request(),
                           .kind = SIGNAL_STEER,
                           .ttl_ms = SIGNAL_TTL_DEFAULT_MS,
                           .payload = bytes_str("{}"),
                           .count = (uint32_t)len,
                           .seqs = buf_bytes(&seqs)};
    signal_encode(&payload, &op);
    shard_submit(r->shard, ++tickets, (struct op){OP_SIGNAL, buf_bytes(&payload)}, TIME_NEVER,
                 rig_time(r));
    rig_does(r, tickets);
}

static struct request_id steer(struct rig *r, uint64_t seq, const char *text)
{
    struct request_id id = rig_request();
    rig_does(r, signal_send(r, &id, SIGNAL_STEER, seq, text));
    return id;
}

static uint64_t settle_send(struct rig *r, const struct rig_answer *held, uint32_t number,
                            const char *answer)
{
    static uint64_t tickets = 500000;
    CLEANUP(buf_done) struct buf payload, rows;
    buf_init(&payload, 1 << 12);
    buf_init(&rows, 1 << 12);
    signal_answer_put(&rows, &(struct signal_answer){.ref = {held->seqs[0], held->tokens[0]},
                                                     .number = number,
                                                     .answer = bytes_str(answer)});
    struct op_signal_settle op = {.request = rig_request(),
                                  .arrived_at = rig_time(r).lo,
                                  .count = 1,
                                  .rows = buf_bytes(&rows)};
    signal_settle_encode(&payload, &op);
    shard_submit(r->shard, ++tickets, (struct op){OP_SIGNAL_SETTLE, buf_bytes(&payload)},
                 TIME_NEVER, rig_time(r));
    return tickets;
}

static void raise_rules(struct rig *r)
{
    static uint64_t tickets = 900000;
    while (machine_rules(shard_machine(r->shard)) < RULES_SIGNALS) {
        CLEANUP(buf_done) struct buf payload;
        buf_init(&payload, 1 << 12);
        uint16_t next = (uint16_t)(machine_rules(shard_machine(r->shard)) + 1);
        raise_encode(&payload, &(struct op_raise){.request = rig_request(), .to = next});
        shard_submit(r->shard, ++tickets, (struct op){OP_RAISE, buf_bytes(&payload)}, TIME_NEVER,
                     rig_time(r));
        rig_does(r, tickets);
    }
}

struct stage {
    struct store *store;
    struct rig sender, worker;
    struct rig_answer held;
};

static struct stage stage_with(const struct shard_config *config)
{
    struct stage s = {.store = store_mem_new()};
    s.sender = rig_on(s.store, config);
    raise_rules(&s.sender);
    rig_sent(&s.sender, "job");
    s.worker = rig_on(s.store, config);
    s.held = rig_claimed(&s.worker, "w", 1);
    rig_look(&s.sender);
    return s;
}

static struct stage stage_new(void)
{
    struct shard_config config = rig_config();
    return stage_with(&config);
}

static void stage_done(struct stage *s)
{
    rig_done(&s->sender);
    rig_done(&s->worker);
    store_free(s->store);
}

static void listen_for(struct rig *r, const struct rig_answer *held, uint32_t after,
                       int64_t wait_ms)
{
    struct listen_ask asks[16];
    for (size_t i = 0; i < held->count; i++)
        asks[i] = (struct listen_ask){{held->seqs[i], held->tokens[i]}, after};
    struct shard_listen what = {.asks = asks, .len = held->count};
    int64_t until = rig_time(r).lo + wait_ms;
    shard_listen(r->shard, TICKET, &what, until, until + LEASE_MS, r->now);
}

static void wait_for_end(struct rig *r, const struct request_id *id, uint64_t seq, int64_t wait_ms)
{
    struct shard_listen what = {.signal = *id, .seq = seq};
    int64_t until = rig_time(r).lo + wait_ms;
    shard_listen(r->shard, TICKET, &what, until, until + LEASE_MS, r->now);
}

// The answer must be there; its views are valid until the next call.
static struct shard_reply told(struct rig *r)
{
    struct shard_reply reply;
    assert_true(shard_next_reply(r->shard, &reply));
    assert_int_equal(reply.ticket, TICKET);
    return reply;
}

static void assert_row(const struct shard_reply *reply, size_t i, uint32_t number, const char *text)
{
    assert_true(i < reply->signals_len);
    const struct signal_delivery *row = &reply->signals[i];
    assert_int_equal(row->reason, REASON_NONE);
    assert_int_equal(row->view.number, number);
    assert_true(row->kept);
    assert_true(bytes_equal(row->text, bytes_str(text)));
}

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
    assert_true(shard_cancel(s.worker.shard, TICKET));
    assert_false(shard_has_waiting(s.worker.shard));
    steer(&s.sender, s.held.seqs[0], "x");
    rig_look(&s.worker);
    rig_no_answer(&s.worker);
    assert_false(shard_cancel(s.worker.shard, TICKET));
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
        cmocka_unit_test(every_lock_of_a_large_poll_is_served),
        cmocka_unit_test(a_lock_with_many_signals_leaves_space_for_others),
        cmocka_unit_test(locks_that_are_gone_leave_space_for_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
