// SPDX-License-Identifier: Apache-2.0
// Every scenario of the requirements ("S3 Queue Exclusive Locking"), by its title, on the store
// named by the argument.
#include "bench.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const char *backend;

static void acquire_message_exclusively(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *one = spec_new(b, "tasks", "one", NULL);
    struct client *two = spec_new(b, "tasks", "two", NULL);
    uint64_t seq = spec_send(one, "a job");
    struct held_message got, other;
    assert_true(spec_claim_one(one, &got));
    assert_int_equal(got.seq, seq);
    assert_string_equal(got.body, "a job");
    assert_true(got.token.lo != 0 || got.token.hi != 0);
    assert_false(spec_claim_one(two, &other));
    assert_int_equal(spec_stats(two).counts[STATE_LOCKED], 1);
    bench_close(b);
}

static void lock_visibility_timeout(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *one = spec_new(b, "tasks", "one", NULL);
    struct client *two = spec_new(b, "tasks", "two", NULL);
    spec_send(one, "a job");
    struct held_message first, second;
    assert_true(spec_claim_one(one, &first));
    bench_pass(b, 20000); // and what the machine takes: much less than is left
    assert_false(spec_claim_one(two, &second));
    bench_pass(b, 11000);
    assert_true(spec_claim_one(two, &second));
    assert_int_equal(second.seq, first.seq);
    assert_true(second.fence > first.fence);
    assert_int_equal(second.deliveries, 2);
    assert_int_equal(spec_events(two, EVENT_LOCK_EXPIRED, NULL, 0), 1);
    assert_int_not_equal(spec_ack(one, &first), REASON_NONE);
    assert_int_equal(spec_ack(two, &second), REASON_NONE);
    bench_close(b);
}

static void release_lock_on_success(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", NULL);
    uint64_t seq = spec_send(w, "a job");
    struct held_message m;
    assert_true(spec_claim_one(w, &m));
    assert_int_equal(spec_state(w, seq, NULL), STATE_LOCKED);
    assert_int_equal(spec_ack(w, &m), REASON_NONE);
    assert_int_equal(spec_status(w), OUTCOME_PROCESSED);
    struct machine_stats stats = spec_stats(w);
    assert_int_equal(stats.counts[STATE_PROCESSED], 1);
    assert_int_equal(stats.counts[STATE_LOCKED], 0);
    assert_int_equal(stats.records, 0); // no lock is kept
    assert_int_equal(spec_ack(w, &m), REASON_TERMINAL);
    bench_pass(b, 3600000);
    assert_false(spec_claim_one(w, &m));
    bench_close(b);
}

static void release_lock_on_failure(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", "failureStrategy.backoff.initial=1m", NULL);
    uint64_t seq = spec_send(w, "a job");
    struct held_message m, again;
    assert_true(spec_claim_one(w, &m));
    assert_int_equal(spec_fail(w, &m, "it broke"), REASON_NONE);
    assert_int_equal(spec_status(w), OUTCOME_RETRYING);
    assert_int_equal(spec_state(w, seq, NULL), STATE_DELAYED);
    assert_int_not_equal(spec_renew(w, &m, 0), REASON_NONE); // the lock is gone
    bench_pass(b, 120000);
    assert_true(spec_claim_one(w, &again)); // and is replaced by another
    assert_false(hash128_equal(m.token, again.token));
    bench_close(b);
}

static void retry_to_original_queue(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w =
        spec_new(b, "tasks", "one", "failureStrategy.mode=retry", "failureStrategy.maxRetries=5",
                 "failureStrategy.backoff.initial=1m", NULL);
    uint64_t seq = spec_send(w, "a job");
    struct held_message m;
    for (uint32_t retries = 0; retries < 5; retries++) {
        assert_true(spec_claim_one(w, &m));
        assert_int_equal(m.retries, retries);
        assert_int_equal(spec_fail(w, &m, "again"), REASON_NONE);
        assert_int_equal(spec_status(w), OUTCOME_RETRYING);
        assert_false(spec_claim_one(w, &m)); // hidden for the backoff
        bench_pass(b, 600000);
    }
    assert_true(spec_claim_one(w, &m));
    assert_int_equal(m.retries, 5);
    assert_int_equal(spec_fail(w, &m, "for good"), REASON_NONE);
    assert_int_equal(spec_state(w, seq, NULL), STATE_DEAD); // seen, not dropped
    bench_pass(b, 600000);
    assert_false(spec_claim_one(w, &m));
    bench_close(b);
}

static void needs_header(const struct held_message *m, const char *name, const char *value)
{
    assert_non_null(held_header(m, name));
    assert_string_equal(held_header(m, name), value);
}

static void route_to_dead_letter_queue(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", "failureStrategy.mode=dead-letter",
                                "failureStrategy.deadLetterQueue=tasks_dlq", NULL);
    struct client *dlq = spec_new(b, "tasks_dlq", "undertaker", NULL);
    uint64_t seq = spec_send(w, "a job");
    struct held_message m, dead;
    assert_true(spec_claim_one(w, &m));
    assert_int_equal(spec_fail(w, &m, "no such customer"), REASON_NONE);
    assert_int_equal(spec_status(w), OUTCOME_DEAD_LETTERED);
    assert_int_equal(spec_carry(w, dlq), 1);
    assert_true(spec_claim_one(dlq, &dead));
    assert_string_equal(dead.body, "a job");
    char number[32];
    (void)snprintf(number, sizeof number, "7461736b-0-%" PRIu64, seq); // the queue's id is "tasks"
    needs_header(&dead, "sluice-dead-reason", "no such customer");
    needs_header(&dead, "sluice-dead-retries", "0");
    needs_header(&dead, "sluice-dead-queue", "tasks");
    needs_header(&dead, "sluice-dead-id", number);
    assert_non_null(held_header(&dead, "sluice-dead-at"));
    assert_false(spec_claim_one(w, &m));
    assert_int_equal(spec_carry(w, dlq), 0);
    assert_int_equal(spec_stats(w).counts[STATE_MOVED], 1);
    bench_close(b);
}

static void retry_then_dead_letter(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w =
        spec_new(b, "tasks", "one", "failureStrategy.mode=hybrid", "failureStrategy.maxRetries=3",
                 "failureStrategy.deadLetterQueue=tasks_dlq", NULL);
    struct client *dlq = spec_new(b, "tasks_dlq", "undertaker", NULL);
    spec_send(w, "a job");
    struct held_message m;
    for (int i = 0; i < 3; i++) {
        assert_true(spec_claim_one(w, &m));
        assert_int_equal(spec_fail(w, &m, "again"), REASON_NONE);
        assert_int_equal(spec_status(w), OUTCOME_RETRYING);
        assert_int_equal(spec_carry(w, dlq), 0);
        bench_pass(b, 600000);
    }
    assert_true(spec_claim_one(w, &m));
    assert_int_equal(spec_fail(w, &m, "the last straw"), REASON_NONE);
    assert_int_equal(spec_status(w), OUTCOME_DEAD_LETTERED);
    assert_int_equal(spec_carry(w, dlq), 1);
    assert_true(spec_claim_one(dlq, &m));
    needs_header(&m, "sluice-dead-reason", "the last straw");
    needs_header(&m, "sluice-dead-retries", "3");
    bench_close(b);
}

static void comes_in_order(struct client *w, const char *const *bodies, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct held_message m;
        assert_true(spec_claim_one(w, &m));
        assert_string_equal(m.body, bodies[i]);
        assert_int_equal(spec_ack(w, &m), REASON_NONE);
    }
}

static void default_fifo_ordering(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", NULL);
    const char *bodies[] = {"first", "second", "third", "fourth"};
    for (int i = 0; i < 4; i++)
        spec_send(w, bodies[i]);
    comes_in_order(w, bodies, 4);
    bench_close(b);
}

static void lifo_ordering(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", "orderingMode=lifo", NULL);
    const char *bodies[] = {"third", "second", "first"};
    for (int i = 3; i-- > 0;)
        spec_send(w, bodies[i]);
    comes_in_order(w, bodies, 3);
    bench_close(b);
}

static void reject_unsupported_ordering(void **state)
{
    (void)state;
    struct queue_config c;
    struct config_error error = {""};
    config_defaults(&c);
    assert_int_equal(config_set(&c, "orderingMode", "random", &error), ERR_INVALID);
    assert_non_null(strstr(error.text, "orderingMode"));
    assert_non_null(strstr(error.text, "random"));
    assert_non_null(strstr(error.text, "fifo"));
    assert_non_null(strstr(error.text, "lifo"));
    assert_int_equal(c.ordering_mode, ORDERING_FIFO);
}

static void strict_ordering_guarantee(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *one = spec_new(b, "tasks", "one", "orderingGuarantee=true",
                                  "failureStrategy.backoff.initial=1m", NULL);
    struct client *two = spec_new(b, "tasks", "two", "orderingGuarantee=true",
                                  "failureStrategy.backoff.initial=1m", NULL);
    spec_send(one, "first");
    spec_send(one, "second");
    spec_send(one, "third");
    struct held_message m, other;
    assert_true(spec_claim_one(one, &m));
    assert_false(spec_claim_one(two, &other)); // not while the first is open
    assert_int_equal(spec_fail(one, &m, "retry me"), REASON_NONE);
    assert_false(spec_claim_one(two, &other)); // nor while it waits for its retry
    bench_pass(b, 120000);
    assert_true(spec_claim_one(two, &other));
    assert_string_equal(other.body, "first");
    bench_pass(b, 31000); // its lock expires
    assert_true(spec_claim_one(one, &m));
    assert_string_equal(m.body, "first");
    assert_int_equal(spec_ack(one, &m), REASON_NONE);
    comes_in_order(two, (const char *const[]){"second", "third"}, 2);
    bench_close(b);
}

static void best_effort_ordering(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *one = spec_new(b, "tasks", "one", "orderingGuarantee=false", NULL);
    struct client *two = spec_new(b, "tasks", "two", "orderingGuarantee=false", NULL);
    spec_send(one, "first");
    spec_send(one, "second");
    struct held_message m, other;
    assert_true(spec_claim_one(one, &m));
    assert_int_equal(spec_events(two, EVENT_ORDERING_BEST_EFFORT, NULL, 0), 0);
    assert_true(spec_claim_one(two, &other)); // past the locked one
    assert_string_equal(other.body, "second");
    struct event said;
    assert_int_equal(spec_events(two, EVENT_ORDERING_BEST_EFFORT, &said, 1), 1);
    bench_close(b);
}

static void emit_processing_outcome_event(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w =
        spec_new(b, "tasks", "one", "failureStrategy.mode=hybrid", "failureStrategy.maxRetries=1",
                 "failureStrategy.deadLetterQueue=tasks_dlq", NULL);
    uint64_t good = spec_send(w, "good");
    uint64_t bad = spec_send(w, "bad");
    struct held_message m;
    assert_true(spec_claim_one(w, &m));
    assert_int_equal(spec_ack(w, &m), REASON_NONE);
    for (int i = 0; i < 2; i++) {
        bench_pass(b, 600000);
        assert_true(spec_claim_one(w, &m));
        assert_int_equal(spec_fail(w, &m, "bad luck"), REASON_NONE);
    }
    struct event e[4];
    assert_int_equal(spec_events(w, EVENT_MESSAGE_OUTCOME, e, 4), 3);
    assert_int_equal(e[0].seq, good);
    assert_int_equal(e[0].status, OUTCOME_PROCESSED);
    assert_int_equal(e[0].deliveries, 1);
    assert_int_equal(e[1].seq, bad);
    assert_int_equal(e[1].status, OUTCOME_RETRYING);
    assert_int_equal(e[1].deliveries, 1);
    assert_int_equal(e[2].seq, bad);
    assert_int_equal(e[2].status, OUTCOME_DEAD_LETTERED);
    assert_int_equal(e[2].deliveries, 2);
    bench_close(b);
}

struct contender {
    pthread_t thread;
    struct client *worker;
    struct held_message got;
    size_t count;
};

static void *contend(void *arg)
{
    struct contender *c = arg;
    c->count = spec_claim(c->worker, &c->got, 1);
    return NULL;
}

static void hundred_concurrent_consumers(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    static struct contender pods[100];
    struct client *sender = spec_new(b, "tasks", "sender", "visibilityTimeout=1h", NULL);
    for (int i = 0; i < 100; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "pod-%d", i);
        pods[i].worker = spec_new(b, "tasks", name, "visibilityTimeout=1h", NULL);
    }
    spec_send(sender, "the only one");
    for (int i = 0; i < 100; i++)
        assert_int_equal(pthread_create(&pods[i].thread, NULL, contend, &pods[i]), 0);
    size_t winners = 0;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(pthread_join(pods[i].thread, NULL), 0);
        winners += pods[i].count;
    }
    assert_int_equal(winners, 1);
    struct machine_stats stats = spec_stats(sender);
    assert_int_equal(stats.counts[STATE_LOCKED], 1);
    assert_int_equal(stats.counts[STATE_READY], 0);
    assert_int_equal(stats.granted, 1);
    bench_close(b);
}

static void lock_token_uniqueness(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *one = spec_new(b, "tasks", "one", NULL);
    struct client *two = spec_new(b, "tasks", "two", NULL);
    struct held_message m[20], other, forged;
    for (int i = 0; i < 20; i++)
        spec_send(one, "a job");
    assert_int_equal(spec_claim(one, m, 10), 10);
    assert_int_equal(spec_claim(two, m + 10, 10), 10);
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < i; j++)
            assert_false(hash128_equal(m[i].token, m[j].token));
    forged = m[0];
    forged.token = m[1].token; // bound to another message
    assert_int_equal(spec_ack(one, &forged), REASON_TOKEN_MISMATCH);
    bench_pass(b, 31000);
    assert_true(spec_claim_one(two, &other));
    assert_int_equal(other.seq, m[0].seq);
    assert_int_equal(spec_ack(one, &m[0]), REASON_TOKEN_MISMATCH); // of an earlier version
    assert_int_equal(spec_ack(two, &other), REASON_NONE);
    assert_int_equal(spec_ack(two, &other), REASON_TERMINAL);
    bench_close(b);
}

static void renew_lock_before_timeout(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *one = spec_new(b, "tasks", "one", "visibilityTimeout=30s", NULL);
    struct client *two = spec_new(b, "tasks", "two", "visibilityTimeout=30s", NULL);
    spec_send(one, "a long job");
    struct held_message m, other;
    assert_true(spec_claim_one(one, &m));
    bench_pass(b, 20000);
    assert_int_equal(spec_renew(one, &m, 0), REASON_NONE);
    // The clock of a directory follows the wall clock, so it can lose a millisecond.
    assert_true(spec_until(one) >= m.deadline + 20000 - 10);
    bench_pass(b, 20000); // past the old deadline
    assert_false(spec_claim_one(two, &other));
    assert_int_equal(spec_events(two, EVENT_LOCK_RENEWED, NULL, 0), 1);
    bench_pass(b, 11000); // past the new one
    assert_true(spec_claim_one(two, &other));
    bench_close(b);
}

static void prevent_renewal_after_release(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", NULL);
    spec_send(w, "a job");
    struct held_message m;
    assert_true(spec_claim_one(w, &m));
    assert_int_equal(spec_ack(w, &m), REASON_NONE);
    assert_int_equal(spec_renew(w, &m, 0), REASON_TERMINAL);
    struct event e;
    assert_int_equal(spec_events(w, EVENT_LOCK_RENEWAL_REJECTED, &e, 1), 1);
    assert_int_equal(e.reason, REASON_TERMINAL);
    bench_close(b);
}

#define SCENARIO(title, test)                                                                      \
    {                                                                                              \
        .name = title, .test_func = test                                                           \
    }

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    backend = argv[1];
    const struct CMUnitTest tests[] = {
        SCENARIO("Acquire message exclusively", acquire_message_exclusively),
        SCENARIO("Lock visibility timeout", lock_visibility_timeout),
        SCENARIO("Release lock on success", release_lock_on_success),
        SCENARIO("Release lock on failure", release_lock_on_failure),
        SCENARIO("Retry to original queue", retry_to_original_queue),
        SCENARIO("Route to dead-letter queue", route_to_dead_letter_queue),
        SCENARIO("Retry then dead-letter", retry_then_dead_letter),
        SCENARIO("Default FIFO ordering", default_fifo_ordering),
        SCENARIO("LIFO ordering", lifo_ordering),
        SCENARIO("Reject unsupported ordering", reject_unsupported_ordering),
        SCENARIO("Strict ordering guarantee", strict_ordering_guarantee),
        SCENARIO("Best-effort ordering", best_effort_ordering),
        SCENARIO("Emit processing outcome event", emit_processing_outcome_event),
        SCENARIO("100 concurrent consumers", hundred_concurrent_consumers),
        SCENARIO("Lock token uniqueness", lock_token_uniqueness),
        SCENARIO("Renew lock before timeout", renew_lock_before_timeout),
        SCENARIO("Prevent renewal after release", prevent_renewal_after_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
