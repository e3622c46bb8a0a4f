// SPDX-License-Identifier: Apache-2.0
// Receives that wait and what wakes them; ops that need no entry; time that passes; the end.
#include "rig.h"

#include <string.h>

#define LONG_MS (INT64_C(3600) * 1000)

// Two handles on one store, as if they were two processes.
struct pair {
    struct store *store;
    struct rig a;
    struct rig b;
};

static struct pair pair_with(const struct shard_config *config)
{
    struct pair p = {.store = store_mem_new()};
    p.a = rig_on(p.store, config);
    p.b = rig_on(p.store, config);
    return p;
}

static struct pair pair_new(void)
{
    struct shard_config config = rig_config();
    return pair_with(&config);
}

static struct pair registry_pair(void)
{
    struct shard_config config = rig_config();
    config.birth.dispatch = DISPATCH_TICKETS;
    return pair_with(&config);
}

static void pair_done(struct pair *p)
{
    rig_done(&p->a);
    rig_done(&p->b);
    store_free(p->store);
}

static void claim_that_lost_a_race_goes_back_to_waiting(void **state)
{
    (void)state;
    struct pair p = pair_new();
    rig_sent(&p.a, "first");
    rig_look(&p.b);
    struct request_id request = rig_request();
    uint64_t ticket = rig_receive_as(&p.a, &request, "one", 1, LONG_MS, 60000);
    struct request put = rig_until_append(&p.a);
    assert_int_equal(rig_claimed(&p.b, "two", 1).count, 1); // faster
    rig_serve(&p.a, &put, FATE_OK);
    rig_settle(&p.a);
    rig_no_answer(&p.a);
    assert_int_equal(shard_waiting(p.a.shard), 1);
    uint64_t slot = rig_slot(&p.a);
    uint64_t seq = rig_sent(&p.b, "second");
    rig_look(&p.a);
    struct rig_answer got = rig_answer(&p.a, ticket);
    assert_int_equal(got.count, 1);
    assert_int_equal(got.seqs[0], seq);
    assert_string_equal(got.bodies[0], "second");
    assert_int_equal(rig_slot(&p.a), slot + 2); // the send and one claim
    // The answer may have been lost on its way: the request is known by what it brought in the end.
    ticket = rig_receive_as(&p.b, &request, "one", 1, 0, 60000);
    rig_settle(&p.b);
    struct rig_answer again = rig_answer(&p.b, ticket);
    assert_int_equal(again.count, 1);
    assert_true(hash128_equal(again.tokens[0], got.tokens[0]));
    pair_done(&p);
}

static void receive_that_finds_nothing_in_time_is_empty(void **state)
{
    (void)state;
    struct pair p = pair_new();
    uint64_t ticket = rig_receive(&p.a, "one", 1, 5000);
    rig_settle(&p.a);
    rig_no_answer(&p.a);
    assert_true(shard_wake_at(p.a.shard) <= p.a.now.lo + 5000);
    rig_pass(&p.a, 5001);
    struct rig_answer got = rig_answer(&p.a, ticket);
    assert_int_equal(got.err, ERR_OK);
    assert_int_equal(got.count, 0);
    assert_int_equal(rig_slot(&p.a), 0); // and cost nothing
    pair_done(&p);
}

static void empty_is_answered_at_a_tail_seen_after_the_call(void **state)
{
    (void)state;
    struct pair p = pair_new();
    uint64_t seq = rig_sent(&p.b, "unheard of");
    assert_int_equal(rig_slot(&p.a), 0);
    struct rig_answer got = rig_claimed(&p.a, "one", 1);
    assert_int_equal(got.count, 1);
    assert_int_equal(got.seqs[0], seq);
    pair_done(&p);
}

static void wakes_as_many_as_there_is_work_for(void **state)
{
    (void)state;
    struct pair p = pair_new();
    uint64_t tickets[5];
    for (int i = 0; i < 5; i++) {
        tickets[i] = rig_receive(&p.a, "one", 1, LONG_MS);
        rig_settle(&p.a);
    }
    rig_sent(&p.b, "first");
    rig_sent(&p.b, "second");
    shard_catch_up(p.a.shard, rig_time(&p.a));
    // The first that hears of it claims at once, the second with the next entry.
    struct request put = rig_until_append(&p.a);
    size_t claims = rig_ops_in(&put, OP_CLAIM);
    rig_serve(&p.a, &put, FATE_OK);
    struct request next;
    while (rig_take(&p.a, &next)) {
        if (next.kind == REQUEST_APPEND) claims += rig_ops_in(&next, OP_CLAIM);
        rig_serve(&p.a, &next, FATE_OK);
    }
    assert_int_equal(claims, 2);
    assert_int_equal(shard_waiting(p.a.shard), 3);
    assert_int_equal(rig_answer(&p.a, tickets[0]).count, 1); // first come, first served
    assert_int_equal(rig_answer(&p.a, tickets[1]).count, 1);
    rig_no_answer(&p.a);
    pair_done(&p);
}

static void waiting_receives_join_the_entry_of_the_send(void **state)
{
    (void)state;
    struct pair p = pair_new();
    uint64_t tickets[3];
    for (int i = 0; i < 3; i++) {
        tickets[i] = rig_receive(&p.a, "one", 1, LONG_MS);
        rig_settle(&p.a);
    }
    struct request_id request = rig_request();
    uint64_t send = rig_send_as(&p.a, &request, (const char *const[]){"first", "second"}, 2, "");
    struct request put = rig_until_append(&p.a);
    assert_int_equal(rig_ops_in(&put, OP_SEND), 1);
    assert_int_equal(rig_ops_in(&put, OP_CLAIM), 2);
    rig_serve(&p.a, &put, FATE_OK);
    assert_int_equal(rig_answer(&p.a, send).err, ERR_OK);
    assert_string_equal(rig_answer(&p.a, tickets[0]).bodies[0], "first");
    assert_string_equal(rig_answer(&p.a, tickets[1]).bodies[0], "second");
    rig_no_answer(&p.a);
    assert_int_equal(rig_slot(&p.a), 1);
    assert_int_equal(p.a.body_reads, 0);
    pair_done(&p);
}

static void ticket_wakes_the_worker_it_is_for(void **state)
{
    (void)state;
    struct pair p = registry_pair();
    rig_does(&p.b, rig_own(&p.b, 1));
    rig_does(&p.b, rig_worker(&p.b, "two", 1, LONG_MS));
    rig_look(&p.a);
    uint64_t one = rig_receive(&p.a, "one", 1, LONG_MS);
    rig_settle(&p.a);
    uint64_t two = rig_receive(&p.a, "two", 1, LONG_MS);
    rig_settle(&p.a);
    rig_sent(&p.b, "a job");
    uint8_t seed[16] = {1};
    assert_true(shard_dispatch(p.b.shard, seed, rig_time(&p.b)));
    rig_settle(&p.b);
    rig_look(&p.a); // sees the message and its ticket at once
    struct rig_answer got = rig_answer(&p.a, two);
    assert_int_equal(got.count, 1);
    assert_string_equal(got.bodies[0], "a job");
    rig_no_answer(&p.a);
    assert_int_equal(shard_waiting(p.a.shard), 1);
    (void)one;
    pair_done(&p);
}

static void receive_waits_on_when_the_queue_is_paused_under_it(void **state)
{
    (void)state;
    struct pair p = pair_new();
    rig_sent(&p.a, "a job");
    rig_look(&p.b);
    uint64_t ticket = rig_receive(&p.a, "one", 1, LONG_MS);
    struct request put = rig_until_append(&p.a);
    rig_does(&p.b, rig_plain(&p.b, OP_PAUSE));
    rig_serve(&p.a, &put, FATE_OK);
    rig_settle(&p.a);
    rig_no_answer(&p.a);
    rig_look(&p.b);
    rig_does(&p.b, rig_plain(&p.b, OP_RESUME));
    rig_look(&p.a);
    assert_int_equal(rig_answer(&p.a, ticket).count, 1);
    pair_done(&p);
}

static void deleted_queue_answers_waiting_receives(void **state)
{
    (void)state;
    struct pair p = pair_new();
    uint64_t ticket = rig_receive(&p.a, "one", 1, LONG_MS);
    rig_settle(&p.a);
    rig_does(&p.b, rig_plain(&p.b, OP_DELETE));
    rig_look(&p.a);
    struct rig_answer got = rig_answer(&p.a, ticket);
    assert_int_equal(got.err, ERR_NOT_FOUND);
    assert_int_equal(got.reason, REASON_DELETED);
    ticket = rig_receive(&p.a, "one", 1, 0); // and later calls
    rig_settle(&p.a);
    got = rig_answer(&p.a, ticket);
    assert_int_equal(got.err, ERR_NOT_FOUND);
    assert_int_equal(got.reason, REASON_DELETED);
    pair_done(&p);
}

static void halted_journal_answers_every_call(void **state)
{
    (void)state;
    struct pair p = registry_pair();
    uint64_t waits = rig_receive(&p.a, "one", 1, LONG_MS);
    rig_settle(&p.a);
    uint64_t op = rig_worker(&p.a, "one", 1, LONG_MS);
    struct request put = rig_until_append(&p.a);
    struct store_answer answer;
    store_answer_init(&answer);
    assert_int_equal(store_append(p.store, "q/test/0/log", 1, bytes_str("not an entry"), &answer),
                     ERR_OK);
    store_answer_done(&answer);
    rig_serve(&p.a, &put, FATE_OK); // lost, to something that is no entry
    for (int i = 0; i < 3; i++) {   // it is read again before the shard halts
        rig_settle(&p.a);
        rig_pass(&p.a, 500);
    }
    assert_true(journal_halted(shard_journal(p.a.shard), NULL));
    assert_int_equal(rig_answer(&p.a, op).err, ERR_UNKNOWN); // its own put may be in there
    assert_int_equal(rig_answer(&p.a, waits).err, ERR_CORRUPT);
    uint64_t late = rig_receive(&p.a, "one", 1, LONG_MS);
    assert_int_equal(rig_answer(&p.a, late).err, ERR_CORRUPT);
    late = rig_send(&p.a, "a job");
    assert_int_equal(rig_answer(&p.a, late).err, ERR_CORRUPT);
    late = rig_letters(&p.a);
    assert_int_equal(rig_answer(&p.a, late).err, ERR_NOT_FOUND);
    pair_done(&p);
}

static void no_entry_is_written_for_time_alone_unless_a_call_waits(void **state)
{
    (void)state;
    struct pair p = registry_pair();
    rig_does(&p.a, rig_worker(&p.a, "one", 1, 10000));
    struct request r;
    rig_pass(&p.a, 11000);
    assert_false(rig_take(&p.a, &r));
    assert_true(shard_wake_at(p.a.shard) > p.a.now.lo);
    uint64_t ticket = rig_receive(&p.a, "two", 1, LONG_MS);
    rig_settle(&p.a);
    rig_no_answer(&p.a);
    assert_true(shard_wake_at(p.a.shard) <= p.a.now.lo);
    rig_pass(&p.a, 0);
    struct request put = rig_until_append(&p.a);
    assert_int_equal(rig_ops_in(&put, OP_CLAIM), 0); // nothing to claim: only the time moves on
    rig_serve(&p.a, &put, FATE_OK);
    struct machine_stats stats;
    machine_stats(shard_machine(p.a.shard), p.a.now.lo, &stats);
    assert_int_equal(stats.workers, 0);
    uint64_t slot = rig_slot(&p.a);
    rig_pass(&p.a, 1000);
    rig_settle(&p.a);
    assert_int_equal(rig_slot(&p.a), slot); // once is enough
    rig_no_answer(&p.a);
    (void)ticket;
    pair_done(&p);
}

static void the_timekeeping_shard_writes_though_no_call_waits(void **state)
{
    (void)state;
    struct shard_config config = rig_config();
    config.keeps_time = true;
    config.birth.dispatch = DISPATCH_TICKETS;
    struct pair p = pair_with(&config);
    rig_does(&p.a, rig_worker(&p.a, "one", 1, 10000));
    uint64_t slot = rig_slot(&p.a);
    assert_true(shard_wake_at(p.a.shard) <= p.a.now.hi + 10000);
    rig_pass(&p.a, 9000);
    rig_settle(&p.a);
    assert_int_equal(rig_slot(&p.a), slot);
    rig_pass(&p.a, 2000);
    rig_settle(&p.a);
    assert_int_equal(rig_slot(&p.a), slot + 1);
    assert_int_equal(machine_wake_at(shard_machine(p.a.shard)), TIME_NEVER);
    pair_done(&p);
}

// No call waits, and a reader of the events learns of it all the same.
static void owner_writes_that_a_lock_expired_soon_after(void **state)
{
    (void)state;
    struct pair p = pair_new();
    rig_does(&p.a, rig_own(&p.a, 1));
    rig_sent(&p.a, "a job");
    uint64_t ticket = rig_receive(&p.a, "one", 1, 0);
    rig_settle(&p.a);
    assert_int_equal(rig_answer(&p.a, ticket).count, 1);
    uint64_t slot = rig_slot(&p.a);
    rig_pass(&p.a, 30000); // the queue's visibilityTimeout
    rig_settle(&p.a);
    assert_int_equal(rig_slot(&p.a), slot); // the next ones' locks may share its entry
    assert_true(shard_wake_at(p.a.shard) <= p.a.now.hi + 1100);
    rig_pass(&p.a, 1100);
    rig_settle(&p.a);
    assert_int_equal(rig_slot(&p.a), slot + 1);
    assert_int_equal(machine_wake_at(shard_machine(p.a.shard)), TIME_NEVER);
    rig_pass(&p.a, LONG_MS);
    rig_settle(&p.a);
    assert_int_equal(rig_slot(&p.a), slot + 1); // an idle owner writes nothing
    pair_done(&p);
}

// The end of a delay writes no entry, because a million of them would be a million entries. Nor
// does the end of a registration, if the worker gets no tickets.
static void owner_writes_nothing_for_times_sake_while_nothing_is_locked(void **state)
{
    (void)state;
    struct shard_config config = rig_config();
    config.birth.retention_ms = 1000;
    struct pair p = pair_with(&config);
    rig_does(&p.a, rig_own(&p.a, 1));
    rig_does(&p.a, rig_worker(&p.a, "one", 1, 10000));
    rig_does(&p.a, rig_send_delayed(&p.a, "a job", 5000));
    uint64_t slot = rig_slot(&p.a);
    rig_pass(&p.a, 20000);
    rig_settle(&p.a);
    assert_int_equal(rig_slot(&p.a), slot);
    assert_true(shard_wake_at(p.a.shard) > p.a.now.lo);
    pair_done(&p);
}

// A worker may wait for its ticket: the message must become ready in the fold.
static void owner_writes_that_a_delay_ended_while_a_worker_waits_for_tickets(void **state)
{
    (void)state;
    struct pair p = registry_pair();
    rig_does(&p.a, rig_own(&p.a, 1));
    rig_does(&p.a, rig_worker(&p.a, "one", 1, LONG_MS));
    rig_does(&p.a, rig_send_delayed(&p.a, "a job", 5000));
    uint64_t slot = rig_slot(&p.a);
    rig_pass(&p.a, 6000);
    rig_settle(&p.a);
    assert_int_equal(rig_slot(&p.a), slot + 1);
    pair_done(&p);
}

static struct pair full_pair(void)
{
    struct shard_config config = rig_config();
    config.birth.capacity = 2;
    return pair_with(&config);
}

static void full_queue_refuses_without_an_entry_at_a_fresh_tail(void **state)
{
    (void)state;
    struct pair p = full_pair();
    rig_sent(&p.a, "first");
    rig_sent(&p.a, "second");
    uint64_t ticket = rig_send(&p.a, "third");
    rig_settle(&p.a);
    struct rig_answer got = rig_answer(&p.a, ticket);
    assert_int_equal(got.err, ERR_LIMIT);
    assert_int_equal(got.reason, REASON_FULL);
    assert_int_equal(rig_slot(&p.a), 2);
    // Another process makes space. A handle that believes the queue full reads before it refuses.
    rig_look(&p.b);
    struct rig_answer held = rig_claimed(&p.b, "two", 1);
    rig_does(&p.b, rig_word(&p.b, OP_ACK, &held, ""));
    assert_int_equal(rig_slot(&p.a), 2);
    rig_sent(&p.a, "third");
    pair_done(&p);
}

static void full_queue_refuses_only_what_it_must(void **state)
{
    (void)state;
    struct pair p = full_pair();
    struct request_id first = rig_request(), two = rig_request(), again = rig_request();
    const char *bodies[] = {"first", "second"};
    uint64_t ticket = rig_send_as(&p.a, &first, bodies, 1, "key");
    rig_settle(&p.a);
    uint64_t seq = rig_answer(&p.a, ticket).seq;
    ticket = rig_send_as(&p.a, &two, bodies, 2, ""); // there is room for one of them
    rig_settle(&p.a);
    struct rig_answer got = rig_answer(&p.a, ticket);
    assert_int_equal(got.err, ERR_OK);
    assert_int_equal(got.seq, seq + 1);
    ticket = rig_send_as(&p.a, &first, bodies, 1, "key"); // what was done is not denied
    rig_settle(&p.a);
    got = rig_answer(&p.a, ticket);
    assert_int_equal(got.err, ERR_OK);
    assert_int_equal(got.seq, seq);
    ticket = rig_send_as(&p.a, &again, bodies, 1, "key"); // a duplicate needs no room
    rig_settle(&p.a);
    got = rig_answer(&p.a, ticket);
    assert_int_equal(got.err, ERR_OK);
    assert_int_equal(got.seq, seq);
    pair_done(&p);
}

static struct pair strict_pair(void)
{
    struct shard_config config = rig_config();
    config.birth.ordering_guarantee = true;
    return pair_with(&config);
}

static void an_ack_and_the_claim_behind_it_share_an_entry(void **state)
{
    (void)state;
    struct pair p = strict_pair();
    rig_sent(&p.a, "first");
    uint64_t seq = rig_sent(&p.a, "second");
    struct rig_answer held = rig_claimed(&p.a, "one", 1);
    uint64_t slot = rig_slot(&p.a);
    uint64_t ticket = rig_receive_acking(&p.a, &held, 0); // nothing is to be had before the ack
    rig_settle(&p.a);
    assert_int_equal(rig_answer(&p.a, ticket - 1).err, ERR_OK);
    struct rig_answer got = rig_answer(&p.a, ticket);
    assert_int_equal(got.count, 1);
    assert_int_equal(got.seqs[0], seq);
    assert_int_equal(rig_slot(&p.a), slot + 1);
    pair_done(&p);
}

// What others sent is not known here yet; the ack's entry is the look at the tail.
static void a_claim_behind_an_ack_finds_what_others_sent_meanwhile(void **state)
{
    (void)state;
    struct pair p = strict_pair();
    rig_sent(&p.a, "first");
    struct rig_answer held = rig_claimed(&p.a, "one", 1);
    uint64_t seq = rig_sent(&p.b, "second");
    uint64_t ticket = rig_receive_acking(&p.a, &held, 0);
    rig_settle(&p.a);
    assert_int_equal(rig_answer(&p.a, ticket - 1).err, ERR_OK);
    struct rig_answer got = rig_answer(&p.a, ticket);
    assert_int_equal(got.count, 1);
    assert_int_equal(got.seqs[0], seq);
    pair_done(&p);
}

static void a_claim_behind_an_ack_that_finds_nothing_waits_alone(void **state)
{
    (void)state;
    struct pair p = pair_new();
    rig_sent(&p.a, "first");
    struct rig_answer held = rig_claimed(&p.a, "one", 1);
    uint64_t slot = rig_slot(&p.a);
    uint64_t ticket = rig_receive_acking(&p.a, &held, LONG_MS);
    rig_settle(&p.a);
    assert_int_equal(rig_answer(&p.a, ticket - 1).err, ERR_OK);
    rig_no_answer(&p.a);
    assert_int_equal(shard_waiting(p.a.shard), 1);
    assert_int_equal(rig_slot(&p.a), slot + 1);
    rig_sent(&p.b, "second");
    rig_look(&p.a);
    assert_int_equal(rig_answer(&p.a, ticket).count, 1);
    pair_done(&p);
}

// In one entry: the ack comes first and is too late, and the claim gets the message.
static void an_ack_after_the_deadline_is_refused_and_the_claim_regrants(void **state)
{
    (void)state;
    struct pair p = pair_new();
    uint64_t seq = rig_sent(&p.a, "slow");
    struct rig_answer held = rig_claimed(&p.a, "one", 1);
    uint64_t slot = rig_slot(&p.a);
    rig_pass(&p.a, LONG_MS);
    uint64_t ticket = rig_receive_acking(&p.a, &held, 0);
    rig_settle(&p.a);
    assert_int_not_equal(rig_answer(&p.a, ticket - 1).err, ERR_OK);
    struct rig_answer got = rig_answer(&p.a, ticket);
    assert_int_equal(got.count, 1);
    assert_int_equal(got.seqs[0], seq);
    assert_false(hash128_equal(got.tokens[0], held.tokens[0]));
    assert_int_equal(rig_slot(&p.a), slot + 1);
    pair_done(&p);
}

static void a_claim_behind_an_ack_of_a_paused_queue_waits(void **state)
{
    (void)state;
    struct pair p = pair_new();
    rig_sent(&p.a, "first");
    rig_sent(&p.a, "second");
    struct rig_answer held = rig_claimed(&p.a, "one", 1);
    rig_does(&p.a, rig_plain(&p.a, OP_PAUSE));
    uint64_t ticket = rig_receive_acking(&p.a, &held, LONG_MS);
    rig_settle(&p.a);
    assert_int_equal(rig_answer(&p.a, ticket - 1).err, ERR_OK);
    rig_no_answer(&p.a);
    rig_does(&p.a, rig_plain(&p.a, OP_RESUME));
    rig_settle(&p.a);
    assert_int_equal(rig_answer(&p.a, ticket).count, 1);
    pair_done(&p);
}

static void events_are_collected_once(void **state)
{
    (void)state;
    struct shard_config config = rig_config();
    config.keeps_events = true;
    struct pair p = pair_with(&config);
    rig_sent(&p.a, "first");
    assert_int_equal(shard_events(p.a.shard)->len, 1);
    assert_int_equal(shard_events(p.a.shard)->rows[0].kind, EVENT_MESSAGE_ENQUEUED);
    shard_events_taken(p.a.shard);
    assert_int_equal(shard_events(p.a.shard)->len, 0);
    rig_look(&p.a); // nothing is folded twice
    assert_int_equal(shard_events(p.a.shard)->len, 0);
    rig_claimed(&p.b, "two", 1); // b folds the send, then its own claim
    assert_int_equal(shard_events(p.b.shard)->len, 2);
    rig_look(&p.a);
    const struct events *seen = shard_events(p.a.shard);
    assert_int_equal(seen->len, 1);
    assert_int_equal(seen->rows[0].kind, EVENT_MESSAGE_CLAIMED);
    char a[EVENT_ID_MAX], b[EVENT_ID_MAX]; // the same event has the same id for every reader
    event_id(&seen->rows[0], &(struct queue_id){{0}}, 0, a);
    event_id(&shard_events(p.b.shard)->rows[1], &(struct queue_id){{0}}, 0, b);
    assert_string_equal(a, b);
    pair_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claim_that_lost_a_race_goes_back_to_waiting),
        cmocka_unit_test(receive_that_finds_nothing_in_time_is_empty),
        cmocka_unit_test(empty_is_answered_at_a_tail_seen_after_the_call),
        cmocka_unit_test(wakes_as_many_as_there_is_work_for),
        cmocka_unit_test(waiting_receives_join_the_entry_of_the_send),
        cmocka_unit_test(ticket_wakes_the_worker_it_is_for),
        cmocka_unit_test(receive_waits_on_when_the_queue_is_paused_under_it),
        cmocka_unit_test(deleted_queue_answers_waiting_receives),
        cmocka_unit_test(halted_journal_answers_every_call),
        cmocka_unit_test(no_entry_is_written_for_time_alone_unless_a_call_waits),
        cmocka_unit_test(the_timekeeping_shard_writes_though_no_call_waits),
        cmocka_unit_test(owner_writes_that_a_lock_expired_soon_after),
        cmocka_unit_test(owner_writes_nothing_for_times_sake_while_nothing_is_locked),
        cmocka_unit_test(owner_writes_that_a_delay_ended_while_a_worker_waits_for_tickets),
        cmocka_unit_test(full_queue_refuses_without_an_entry_at_a_fresh_tail),
        cmocka_unit_test(full_queue_refuses_only_what_it_must),
        cmocka_unit_test(an_ack_and_the_claim_behind_it_share_an_entry),
        cmocka_unit_test(a_claim_behind_an_ack_finds_what_others_sent_meanwhile),
        cmocka_unit_test(a_claim_behind_an_ack_that_finds_nothing_waits_alone),
        cmocka_unit_test(an_ack_after_the_deadline_is_refused_and_the_claim_regrants),
        cmocka_unit_test(a_claim_behind_an_ack_of_a_paused_queue_waits),
        cmocka_unit_test(events_are_collected_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
