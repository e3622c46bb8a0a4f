// SPDX-License-Identifier: Apache-2.0
// What a user may rely on beside the scenarios: order in groups, priority, delay, dedup, redrive,
// purge, pause, capacity, attempts, request ids and receives that wait; on the store named by the
// argument.
#include "bench.h"

#include <stdio.h>
#include <string.h>

static const char *backend;

// A retry that waits, and locks that hold, for longer than any machine takes for a test.
#define LASTING "failureStrategy.backoff.initial=1m", "visibilityTimeout=1h"

static void next_is(struct client *w, const char *body, struct held_message *m)
{
    assert_true(spec_claim_one(w, m));
    assert_string_equal(m->body, body);
}

static void next_is_done(struct client *w, const char *body)
{
    struct held_message m;
    next_is(w, body, &m);
    assert_int_equal(spec_ack(w, &m), REASON_NONE);
}

static void groups_run_in_parallel(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *one = spec_new(b, "tasks", "one", "orderingGuarantee=true", LASTING, NULL);
    struct client *two = spec_new(b, "tasks", "two", "orderingGuarantee=true", LASTING, NULL);
    spec_send_to(one, "red", "red 1");
    spec_send_to(one, "red", "red 2");
    spec_send_to(one, "blue", "blue 1");
    spec_send(one, "plain 1"); // the ungrouped ones are a group too
    spec_send(one, "plain 2");
    struct held_message red, blue, plain, none;
    next_is(one, "red 1", &red);
    next_is(two, "blue 1", &blue);
    next_is(two, "plain 1", &plain);
    assert_false(spec_claim_one(two, &none)); // each group has its one open message
    assert_int_equal(spec_fail(one, &red, "again"), REASON_NONE);
    assert_int_equal(spec_ack(two, &plain), REASON_NONE);
    next_is(two, "plain 2", &plain);
    assert_false(spec_claim_one(two, &none)); // red 2 waits for the retry of red 1
    bench_pass(b, 120000);
    next_is(two, "red 1", &red);
    assert_int_equal(spec_ack(two, &red), REASON_NONE);
    next_is(one, "red 2", &red);
    assert_int_equal(spec_events(one, EVENT_ORDERING_BEST_EFFORT, NULL, 0), 0);
    bench_close(b);
}

static void strict_lifo(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w =
        spec_new(b, "tasks", "one", "orderingGuarantee=true", "orderingMode=lifo", LASTING, NULL);
    struct held_message m, none;
    spec_send(w, "first");
    spec_send(w, "second");
    next_is(w, "second", &m);
    spec_send(w, "third");
    assert_false(spec_claim_one(w, &none)); // one open at a time, even for a newer one
    assert_int_equal(spec_fail(w, &m, "again"), REASON_NONE);
    assert_false(spec_claim_one(w, &none));
    bench_pass(b, 120000);
    next_is_done(w, "second"); // what was opened is finished first
    next_is_done(w, "third");
    next_is_done(w, "first");
    bench_close(b);
}

static void send_with_priority(struct client *w, const char *body, uint8_t priority)
{
    struct message m = {.body = bytes_str(body), .priority = priority};
    assert_int_equal(spec_send_message(w, &m, NULL).reason, REASON_NONE);
}

static void priority(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", NULL);
    send_with_priority(w, "low", 0);
    send_with_priority(w, "high", 9);
    send_with_priority(w, "middle", 5);
    send_with_priority(w, "high too", 9);
    next_is_done(w, "high");
    next_is_done(w, "high too");
    next_is_done(w, "middle");
    next_is_done(w, "low");
    struct client *strict = spec_new(b, "strict", "one", "orderingGuarantee=true", NULL);
    struct message m = {.body = bytes_str("pushing in"), .priority = 1};
    assert_int_equal(spec_send_message(strict, &m, NULL).reason, REASON_STRICT_PRIORITY);
    bench_close(b);
}

static void delay(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", NULL);
    struct held_message none;
    struct message m = {.body = bytes_str("later"), .when = WHEN_DELAY, .when_ms = 60000};
    struct send_row row = spec_send_message(w, &m, NULL);
    assert_int_equal(spec_state(w, row.seq, NULL), STATE_DELAYED);
    assert_false(spec_claim_one(w, &none));
    bench_pass(b, 50000);
    assert_false(spec_claim_one(w, &none));
    bench_pass(b, 11000);
    next_is_done(w, "later");
    struct client *strict = spec_new(b, "strict", "one", "orderingGuarantee=true", NULL);
    assert_int_equal(spec_send_message(strict, &m, NULL).reason, REASON_STRICT_DELAY);
    bench_close(b);
}

static void store_time(void *ctx, const struct machine *m, int64_t now)
{
    (void)m;
    *(int64_t *)ctx = now;
}

static void due_time(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", NULL);
    int64_t now;
    runner_inspect(w->runner, store_time, &now);
    struct message m = {.body = bytes_str("in an hour"), .when = WHEN_DUE};
    m.when_ms = now + 3600000;
    assert_int_equal(spec_send_message(w, &m, NULL).reason, REASON_NONE);
    m = (struct message){.body = bytes_str("was due"), .when = WHEN_DUE, .when_ms = now - 1000};
    assert_int_equal(spec_send_message(w, &m, NULL).reason, REASON_NONE);
    next_is_done(w, "was due");
    struct held_message none;
    bench_pass(b, 3590000);
    assert_false(spec_claim_one(w, &none));
    bench_pass(b, 11000);
    next_is_done(w, "in an hour");
    bench_close(b);
}

static void dedup_window(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", "dedupWindow=5m", NULL);
    struct client *two = spec_new(b, "tasks", "two", "dedupWindow=5m", NULL);
    struct message m = {.body = bytes_str("once"), .dedup = bytes_str("order 7")};
    struct send_row first = spec_send_message(w, &m, NULL);
    assert_int_equal(first.reason, REASON_NONE);
    struct send_row again = spec_send_message(two, &m, NULL);
    assert_int_equal(again.reason, REASON_DUPLICATE);
    assert_int_equal(again.seq, first.seq);
    next_is_done(w, "once");
    assert_int_equal(spec_send_message(w, &m, NULL).seq, first.seq); // though it is done
    assert_int_equal(spec_stats(w).sent, 1);
    assert_int_equal(spec_stats(w).duplicates, 2);
    bench_pass(b, 301000);
    struct send_row later = spec_send_message(w, &m, NULL);
    assert_int_equal(later.reason, REASON_NONE);
    assert_true(later.seq > first.seq);
    next_is_done(two, "once");
    bench_close(b);
}

static void dies(struct client *w, const char *body, const char *why)
{
    struct held_message m;
    next_is(w, body, &m);
    assert_int_equal(spec_fail(w, &m, why), REASON_NONE);
}

static void redrive(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", "failureStrategy.maxRetries=0", NULL);
    uint64_t dead = spec_send(w, "a job");
    spec_send(w, "another");
    dies(w, "a job", "bad luck");
    dies(w, "another", "bad luck too");
    assert_int_equal(spec_state(w, dead, NULL), STATE_DEAD);
    size_t sent_before = spec_events(w, EVENT_MESSAGE_ENQUEUED, NULL, 0);
    uint64_t fresh = spec_redrive(w, 1); // the longest dead first
    assert_true(fresh > dead);
    struct event e[8];
    assert_int_equal(spec_events(w, EVENT_MESSAGE_ENQUEUED, e, 8), sent_before + 1);
    assert_int_equal(e[sent_before].seq, fresh);
    assert_int_equal(e[sent_before].from, dead); // it says where it came from
    struct held_message m;
    next_is(w, "a job", &m);
    assert_int_equal(m.seq, fresh);
    assert_int_equal(m.deliveries, 1);
    assert_int_equal(m.retries, 0);
    assert_int_equal(spec_ack(w, &m), REASON_NONE);
    struct machine_stats stats = spec_stats(w);
    assert_int_equal(stats.counts[STATE_REDRIVEN], 1);
    assert_int_equal(stats.counts[STATE_DEAD], 1);
    bench_close(b);
}

static void purge(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", "failureStrategy.maxRetries=0", NULL);
    struct held_message m, none;
    spec_send(w, "dead");
    dies(w, "dead", "no");
    spec_send(w, "held");
    next_is(w, "held", &m);
    spec_send(w, "pending");
    struct message later = {.body = bytes_str("delayed"), .when = WHEN_DELAY, .when_ms = 1000};
    assert_int_equal(spec_send_message(w, &later, NULL).reason, REASON_NONE);
    assert_int_equal(spec_purge(w, false), 2);
    bench_pass(b, 2000);
    assert_false(spec_claim_one(w, &none));
    assert_int_equal(spec_stats(w).counts[STATE_DEAD], 1);
    assert_int_equal(spec_purge(w, true), 1);
    assert_int_equal(spec_ack(w, &m), REASON_NONE); // what is being worked on stays
    struct machine_stats stats = spec_stats(w);
    assert_int_equal(stats.counts[STATE_PURGED], 3);
    assert_int_equal(stats.counts[STATE_PROCESSED], 1);
    assert_int_equal(stats.records, 0);
    bench_close(b);
}

static void ended(struct client *w, uint64_t seq, const char *outcome, const char *worker,
                  uint32_t attempts)
{
    struct spec_end end;
    assert_true(spec_end(w, seq, &end));
    assert_string_equal(end.outcome, outcome);
    assert_string_equal(end.worker, worker);
    assert_int_equal(end.attempts, attempts);
    assert_true(end.at > 0);
}

#define HOURS(n) (INT64_C(3600000) * (n))
#define KEPT                                                                                       \
    "retention=2h", "failureStrategy.mode=hybrid", "failureStrategy.maxRetries=1",                 \
        "failureStrategy.backoff.initial=0", "failureStrategy.deadLetterQueue=dead"

// A queue that is created with another `retention` than the default has the rules that keep it.
static void status_of_a_finished_message(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *to = spec_new(b, "dead", "mover", NULL);
    struct client *w = spec_new(b, "tasks", "one", KEPT, NULL);
    struct client *other = spec_new(b, "tasks", "two", KEPT, NULL);
    struct held_message m;
    struct spec_end end, later;
    uint64_t done = spec_send(w, "a job");
    assert_false(spec_end(w, done, &end));
    next_is(w, "a job", &m);
    assert_int_equal(spec_fail(w, &m, "bad luck"), REASON_NONE);
    bench_pass(b, 1000);
    next_is(other, "a job", &m);
    assert_int_equal(spec_ack(other, &m), REASON_NONE);
    ended(w, done, "processed", "two", 2);
    uint64_t dead = spec_send(w, "no job");
    next_is(w, "no job", &m);
    assert_int_equal(spec_fail(w, &m, "bad luck"), REASON_NONE);
    bench_pass(b, 1000);
    next_is(w, "no job", &m);
    assert_int_equal(spec_fail(w, &m, "bad luck"), REASON_NONE);
    assert_int_equal(spec_carry(w, to), 1);
    ended(other, dead, "dead-lettered", "one", 2);
    bench_pass(b, HOURS(1));
    uint64_t purged = spec_send(w, "never mind");
    assert_int_equal(spec_purge(w, false), 1);
    ended(other, purged, "purged", "", 0);
    ended(other, done, "processed", "two", 2);
    assert_true(spec_end(w, done, &end) && spec_end(w, purged, &later));
    assert_true(later.at - end.at >= HOURS(1));
    bench_pass(b, HOURS(1));
    assert_false(spec_end(w, done, &end));
    assert_true(spec_end(w, purged, &end));
    bench_close(b);
}

static void pause_and_resume(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", NULL);
    struct client *other = spec_new(b, "tasks", "two", NULL);
    struct held_message none;
    spec_pause(w);
    spec_send(w, "a job");
    assert_false(spec_claim_one(w, &none));
    struct receiver r;
    receiver_start(&r, other, "two"); // waits, though there is a message
    spec_resume(w);
    receiver_end(&r);
    assert_int_equal(r.err, ERR_OK);
    assert_int_equal(r.count, 1);
    assert_string_equal(r.got.body, "a job");
    bench_close(b);
}

static void capacity_with_reject(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", "capacity=2", "backpressure=reject", NULL);
    struct request_id request = request_new();
    struct message m = {.body = bytes_str("first"), .dedup = bytes_str("first")};
    struct send_row first = spec_send_message(w, &m, &request);
    spec_send(w, "second");
    uint64_t slot = spec_slot(w);
    struct message more = {.body = bytes_str("third")};
    assert_int_equal(spec_send_message(w, &more, NULL).reason, REASON_FULL);
    assert_int_equal(spec_slot(w), slot); // a refusal costs no entry
    struct send_row again = spec_send_message(w, &m, &request);
    assert_int_equal(again.reason, REASON_NONE); // this one was done, and is not denied
    assert_int_equal(again.seq, first.seq);
    assert_int_equal(spec_send_message(w, &m, NULL).reason, REASON_DUPLICATE); // needs no room
    next_is_done(w, "first");
    assert_int_equal(spec_send_message(w, &more, NULL).reason, REASON_NONE);
    bench_close(b);
}

static void release_counts_no_attempt(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", "failureStrategy.maxRetries=0", NULL);
    struct held_message m;
    spec_send(w, "first");
    spec_send(w, "second");
    for (int i = 0; i < 5; i++) {
        next_is(w, "first", &m); // its old place
        assert_int_equal(m.deliveries, 1);
        assert_int_equal(m.retries, 0);
        assert_int_equal(spec_release(w, &m), REASON_NONE);
    }
    bench_close(b);
}

static void expire_once(struct client *w, const char *body, struct held_message *m)
{
    next_is(w, body, m);
    bench_pass(w->bench, 31000);
}

static void expiry_counts_as_a_retry(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *retry = spec_new(b, "retry", "one", "failureStrategy.maxRetries=1", NULL);
    struct client *hybrid =
        spec_new(b, "hybrid", "one", "failureStrategy.mode=hybrid", "failureStrategy.maxRetries=1",
                 "failureStrategy.deadLetterQueue=dlq", NULL);
    struct client *both[] = {retry, hybrid};
    for (int i = 0; i < 2; i++) {
        struct held_message m;
        spec_send(both[i], "a job");
        expire_once(both[i], "a job", &m);
        expire_once(both[i], "a job", &m); // at once, without a backoff
        assert_int_equal(m.retries, 1);
        assert_false(spec_claim_one(both[i], &m));
    }
    assert_int_equal(spec_stats(retry).counts[STATE_DEAD], 1);
    assert_int_equal(spec_stats(hybrid).counts[STATE_OUTBOUND], 1);
    bench_close(b);
}

static void expiry_in_dead_letter_mode(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *any = spec_new(b, "any", "one", "failureStrategy.mode=dead-letter",
                                  "failureStrategy.deadLetterQueue=dlq", NULL);
    struct client *three = spec_new(b, "three", "one", "failureStrategy.mode=dead-letter",
                                    "failureStrategy.deadLetterQueue=dlq", "maxDeliveries=3", NULL);
    struct held_message m;
    spec_send(any, "a job");
    spec_send(three, "a job");
    for (uint32_t i = 0; i < 8; i++) {
        expire_once(any, "a job", &m);
        assert_int_equal(m.deliveries, i + 1);
        assert_int_equal(m.retries, 0);
    }
    for (int i = 0; i < 3; i++)
        expire_once(three, "a job", &m);
    assert_false(spec_claim_one(three, &m));
    assert_int_equal(spec_stats(three).counts[STATE_OUTBOUND], 1);
    bench_close(b);
}

static void same_request_same_answer(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *one = spec_new(b, "tasks", "one", NULL);
    struct client *two = spec_new(b, "tasks", "one", NULL); // the same worker, another process
    struct request_id send = request_new(), claim = request_new(), ack = request_new();
    struct message m = {.body = bytes_str("a job")};
    uint64_t seq = spec_send_message(one, &m, &send).seq;
    assert_int_equal(spec_send_message(one, &m, &send).seq, seq);
    assert_int_equal(spec_send_message(two, &m, &send).seq, seq);
    assert_int_equal(spec_stats(one).sent, 1);
    struct held_message got, same;
    struct client *clients[] = {one, two};
    assert_int_equal(spec_claim_as(one, &claim, &got, 1), 1);
    for (int i = 0; i < 2; i++) { // nothing else is there to be claimed
        assert_int_equal(spec_claim_as(clients[i], &claim, &same, 1), 1);
        assert_int_equal(same.seq, seq);
        assert_true(hash128_equal(same.token, got.token));
        assert_string_equal(same.body, "a job");
    }
    assert_int_equal(spec_stats(two).granted, 1);
    assert_int_equal(spec_ack_as(one, &ack, &got), REASON_NONE);
    assert_int_equal(spec_ack_as(one, &ack, &got), REASON_NONE);
    assert_int_equal(spec_ack_as(two, &ack, &got), REASON_NONE);
    assert_int_equal(spec_status(two), OUTCOME_PROCESSED);
    assert_int_equal(spec_ack(two, &got), REASON_TERMINAL); // another request is another matter
    assert_int_equal(spec_events(two, EVENT_MESSAGE_OUTCOME, NULL, 0), 1);
    bench_close(b);
}

static void receive_joins_the_send(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", NULL);
    spec_send(w, "before");
    next_is_done(w, "before");
    uint64_t slot = spec_slot(w);
    struct receiver r;
    receiver_start(&r, w, "two");
    spec_send(w, "a job");
    receiver_end(&r);
    assert_int_equal(r.count, 1);
    assert_string_equal(r.got.body, "a job");
    assert_int_equal(spec_slot(w), slot + 1); // sent and claimed in one entry
    bench_close(b);
}

static void receive_hears_of_another_runner(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *sender = spec_new(b, "tasks", "sender", NULL);
    struct client *w = spec_new(b, "tasks", "one", NULL);
    struct receiver r[3];
    for (int i = 0; i < 3; i++)
        receiver_start(&r[i], w, "one");
    for (int i = 0; i < 3; i++)
        spec_send(sender, "a job");
    uint64_t seen = 0;
    for (int i = 0; i < 3; i++) {
        receiver_end(&r[i]);
        assert_int_equal(r[i].count, 1);
        seen |= UINT64_C(1) << r[i].got.seq;
    }
    assert_int_equal(seen, 0xe); // messages 1, 2 and 3, once each
    assert_int_equal(spec_stats(sender).granted, 3);
    bench_close(b);
}

static void receive_hears_of_an_expiry(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *one = spec_new(b, "tasks", "one", NULL);
    struct client *two = spec_new(b, "tasks", "two", NULL);
    struct held_message m;
    spec_send(one, "a job");
    assert_true(spec_claim_one(one, &m));
    struct receiver r;
    receiver_start(&r, two, "two");
    bench_pass(b, 31000); // no process writes: the waiting receive makes the lock expire
    receiver_end(&r);
    assert_int_equal(r.count, 1);
    assert_int_equal(r.got.seq, m.seq);
    assert_int_equal(r.got.deliveries, 2);
    bench_close(b);
}

static void empty_receive_writes_nothing(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", NULL);
    struct held_message m, none;
    assert_false(spec_claim_one(w, &none));
    assert_int_equal(spec_slot(w), 0);
    spec_send(w, "a job");
    assert_true(spec_claim_one(w, &m));
    uint64_t slot = spec_slot(w);
    for (int i = 0; i < 5; i++)
        assert_false(spec_claim_one(w, &none));
    assert_int_equal(spec_slot(w), slot);
    bench_close(b);
}

#define BEHAVIOUR(title, test)                                                                     \
    {                                                                                              \
        .name = title, .test_func = test                                                           \
    }

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    backend = argv[1];
    const struct CMUnitTest tests[] = {
        BEHAVIOUR("Groups run in parallel and strictly inside", groups_run_in_parallel),
        BEHAVIOUR("Strict lifo opens one message at a time", strict_lifo),
        BEHAVIOUR("Higher priority first, then order", priority),
        BEHAVIOUR("A delayed message comes after its delay", delay),
        BEHAVIOUR("A scheduled message comes at its due time", due_time),
        BEHAVIOUR("A duplicate in the window answers the first message's id", dedup_window),
        BEHAVIOUR("A redriven message is new and says where it came from", redrive),
        BEHAVIOUR("Purge takes what is pending, or what is dead", purge),
        BEHAVIOUR("Status of a finished message", status_of_a_finished_message),
        BEHAVIOUR("Pause stops delivery and resume wakes waiting receives", pause_and_resume),
        BEHAVIOUR("A full queue refuses, without an entry", capacity_with_reject),
        BEHAVIOUR("Release counts no attempt", release_counts_no_attempt),
        BEHAVIOUR("Expiry counts as a retry in modes retry and hybrid", expiry_counts_as_a_retry),
        BEHAVIOUR("Expiry in mode dead-letter ends at maxDeliveries only",
                  expiry_in_dead_letter_mode),
        BEHAVIOUR("The same request id gets the same answer", same_request_same_answer),
        BEHAVIOUR("A waiting receive joins the entry of the send", receive_joins_the_send),
        BEHAVIOUR("A waiting receive is woken by another process's send",
                  receive_hears_of_another_runner),
        BEHAVIOUR("A waiting receive makes a lock expire", receive_hears_of_an_expiry),
        BEHAVIOUR("An empty receive writes no entry", empty_receive_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
