// SPDX-License-Identifier: Apache-2.0
// What an earlier S3 queue got wrong, by name, on the store named by the argument.
#include "bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *backend;

static void crashed_workers_message_comes_back(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *one = spec_new(b, "tasks", "one", NULL);
    struct client *two = spec_new(b, "tasks", "two", NULL);
    uint64_t seq = spec_send(one, "a job");
    struct held_message m, again;
    assert_true(spec_claim_one(one, &m));
    spec_close(one);      // and the queue is not told
    bench_pass(b, 20000); // and what the machine takes: much less than is left
    assert_false(spec_claim_one(two, &again));
    bench_pass(b, 11000);
    assert_true(spec_claim_one(two, &again));
    assert_int_equal(again.seq, seq);
    assert_string_equal(again.body, "a job");
    assert_int_equal(again.deliveries, 2);
    assert_int_equal(spec_ack(two, &m), REASON_TOKEN_MISMATCH); // the dead one's token
    assert_int_equal(spec_ack(two, &again), REASON_NONE);
    bench_close(b);
}

static void tickets_of_a_dead_worker(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *boss = spec_new(b, "tasks", "boss", "visibilityTimeout=1h", NULL);
    struct client *dead = spec_new(b, "tasks", "dead", "visibilityTimeout=1h", NULL);
    struct client *alive = spec_new(b, "tasks", "alive", "visibilityTimeout=1h", NULL);
    spec_own(boss, 1);
    assert_int_equal(spec_register(dead, 2, 60000), REASON_NONE);
    uint64_t first = spec_send(boss, "first");
    spec_send(boss, "second");
    spec_send(boss, "third");
    assert_int_equal(spec_grant(boss, 2, 3600000), 2);
    assert_int_equal(spec_stats(boss).tickets, 2);
    spec_close(dead);
    struct held_message third;
    assert_true(spec_claim_one(alive, &third));
    assert_string_equal(third.body, "third");
    struct receiver r;
    receiver_start(&r, alive, "alive");
    bench_pass(b, 61000); // its heartbeat is overdue, the tickets themselves are not
    receiver_end(&r);
    assert_int_equal(r.count, 1);
    assert_int_equal(r.got.seq, first); // in its old place
    assert_int_equal(r.got.deliveries, 1);
    assert_int_equal(r.got.retries, 0);
    assert_int_equal(spec_stats(boss).tickets, 0);
    assert_int_equal(spec_stats(boss).workers, 0);
    assert_int_equal(spec_events(boss, EVENT_TICKETS_RECOVERED, NULL, 0), 2);
    bench_close(b);
}

#define BACKLOG      2500
#define BACKLOG_OP   2 // messages of one send: more slots, too, than one read or list brings
#define POOL         4
#define WORKER_LIVES 977 // after so many messages a worker's process is replaced

static struct client *strict_worker(struct bench *b, int i)
{
    char name[32];
    (void)snprintf(name, sizeof name, "worker-%d", i);
    return spec_new(b, "tasks", name, "orderingGuarantee=true", NULL);
}

static void strict_order_over_a_long_backlog(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    bench_snapshots(b, 512);
    struct client *pool[POOL];
    for (int i = 0; i < POOL; i++)
        pool[i] = strict_worker(b, i);
    for (uint64_t n = 1; n <= BACKLOG; n += BACKLOG_OP)
        spec_send_numbers(pool[0], n, BACKLOG_OP);
    for (uint64_t n = 1; n <= BACKLOG; n++) {
        struct client **w = &pool[n % POOL];
        struct held_message m, none;
        if (n % WORKER_LIVES == 0) {
            spec_close(*w);
            *w = strict_worker(b, (int)(n % POOL));
        }
        assert_true(spec_claim_one(*w, &m));
        assert_int_equal(strtoull(m.body, NULL, 10), n);
        if (n % 100 == 0) assert_false(spec_claim_one(pool[(n + 1) % POOL], &none));
        assert_int_equal(spec_ack(*w, &m), REASON_NONE);
        if (n % 100 == 0) (void)spec_events(*w, EVENT_LOCK_EXPIRED, NULL, 0); // takes them all
    }
    struct machine_stats stats = spec_stats(pool[0]);
    assert_int_equal(stats.counts[STATE_PROCESSED], BACKLOG);
    assert_int_equal(stats.granted, BACKLOG);
    bench_close(b);
}

#define RACERS 6
#define PRIZES 60

struct racer {
    pthread_t thread;
    struct client *client;
    uint64_t won[PRIZES];
    size_t won_len;
    size_t refused; // acks that should have been accepted
};

static void *race(void *arg)
{
    struct racer *r = arg;
    struct held_message m;
    while (spec_claim_one(r->client, &m)) {
        if (m.deliveries != 1 || spec_ack(r->client, &m) != REASON_NONE) r->refused++;
        if (r->won_len < PRIZES) r->won[r->won_len] = m.seq;
        r->won_len++;
    }
    return NULL;
}

// Every writer's put meets others for the same slot, and some answers get lost on the way.
static void lost_race_is_no_win(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    bench_make_faulty(b);
    static struct racer racers[RACERS];
    memset(racers, 0, sizeof racers);
    for (int i = 0; i < RACERS; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "racer-%d", i);
        racers[i].client = spec_new(b, "tasks", name, NULL);
    }
    spec_send_numbers(racers[0].client, 1, PRIZES);
    bench_faults(b, &(struct fault_options){.lost_reply = 500, .unknown_lost = 300});
    for (int i = 0; i < RACERS; i++)
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    for (int i = 0; i < RACERS; i++)
        assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
    bench_faults(b, NULL);
    uint8_t wins[PRIZES + 1] = {0};
    for (int i = 0; i < RACERS; i++) {
        assert_int_equal(racers[i].refused, 0);
        assert_true(racers[i].won_len <= PRIZES);
        for (size_t k = 0; k < racers[i].won_len; k++)
            wins[racers[i].won[k]]++;
    }
    for (int seq = 1; seq <= PRIZES; seq++)
        assert_int_equal(wins[seq], 1);
    struct machine_stats stats = spec_stats(racers[0].client);
    assert_int_equal(stats.granted, PRIZES);
    assert_int_equal(stats.counts[STATE_PROCESSED], PRIZES);
    bench_close(b);
}

static enum err try_claim(struct client *w, const struct request_id *request)
{
    struct op_claim claim = {.request = *request, .worker = bytes_str(w->name), .max = 1};
    return runner_receive(w->runner, &claim, 0, &w->answer);
}

// No request gets through. A claim with a request under way when its time ends is unknown, so it
// is made again.
static enum err claim_without_store(struct client *w)
{
    enum err err = ERR_UNKNOWN;
    struct request_id request = request_new();
    bench_faults(w->bench, &(struct fault_options){.lost_request = 10000});
    for (int tries = 0; err == ERR_UNKNOWN && tries < 5; tries++)
        err = try_claim(w, &request);
    bench_faults(w->bench, NULL);
    return err;
}

static void failed_claim_hides_nothing(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    bench_make_faulty(b);
    struct client *patient = spec_new(b, "tasks", "one", NULL);
    struct client *other = spec_new(b, "tasks", "two", NULL);
    bench_patience(b, 3000); // a commit takes a small part of it on any machine
    struct client *hasty = spec_new(b, "tasks", "one", NULL);
    uint64_t first = spec_send(patient, "first");
    uint64_t second = spec_send(patient, "second");
    spec_look(hasty);
    struct held_message m;
    // The claim failed, and any worker may have the message.
    assert_int_equal(claim_without_store(hasty), ERR_UNAVAILABLE);
    assert_int_equal(spec_stats(other).counts[STATE_READY], 2);
    assert_true(spec_claim_one(other, &m));
    assert_int_equal(m.seq, first);
    spec_look(hasty);
    // Requests get through, no answer comes back: the same request brings the message.
    struct request_id request = request_new();
    bench_faults(b, &(struct fault_options){.lost_reply = 10000});
    assert_int_equal(try_claim(hasty, &request), ERR_UNKNOWN);
    bench_faults(b, NULL);
    assert_false(spec_claim_one(other, &m)); // it was granted
    assert_int_equal(spec_claim_as(patient, &request, &m, 1), 1);
    assert_int_equal(m.seq, second);
    assert_string_equal(m.body, "second");
    assert_int_equal(spec_ack(patient, &m), REASON_NONE);
    // A claim that the queue itself refused.
    uint64_t third = spec_send(patient, "third");
    spec_pause(patient);
    assert_false(spec_claim_one(other, &m));
    spec_resume(patient);
    assert_true(spec_claim_one(other, &m));
    assert_int_equal(m.seq, third);
    bench_close(b);
}

static void statistics_count_per_state(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *w = spec_new(b, "tasks", "one", "failureStrategy.mode=dead-letter",
                                "failureStrategy.deadLetterQueue=tasks_dlq", NULL);
    struct client *dlq = spec_new(b, "tasks_dlq", "two", "failureStrategy.maxRetries=0", NULL);
    struct held_message m;
    for (int i = 0; i < 7; i++)
        spec_send(w, "a job");
    for (int i = 0; i < 2; i++) {
        assert_true(spec_claim_one(w, &m));
        assert_int_equal(spec_ack(w, &m), REASON_NONE);
    }
    assert_true(spec_claim_one(w, &m));
    assert_int_equal(spec_fail(w, &m, "moves"), REASON_NONE);
    assert_int_equal(spec_carry(w, dlq), 1);
    assert_true(spec_claim_one(w, &m));
    assert_int_equal(spec_fail(w, &m, "is on its way"), REASON_NONE);
    assert_true(spec_claim_one(w, &m)); // and is held
    struct message later = {.body = bytes_str("later"), .when = WHEN_DELAY, .when_ms = 60000};
    assert_int_equal(spec_send_message(w, &later, NULL).reason, REASON_NONE);
    struct machine_stats s = spec_stats(w);
    assert_int_equal(s.sent, 8);
    assert_int_equal(s.counts[STATE_PROCESSED], 2);
    assert_int_equal(s.counts[STATE_MOVED], 1);
    assert_int_equal(s.counts[STATE_OUTBOUND], 1);
    assert_int_equal(s.counts[STATE_LOCKED], 1);
    assert_int_equal(s.counts[STATE_READY], 2);
    assert_int_equal(s.counts[STATE_DELAYED], 1);
    assert_int_equal(s.counts[STATE_DEAD], 0);
    bench_pass(b, 61000); // no process writes; a reader sees it all the same
    s = spec_stats(w);
    assert_int_equal(s.counts[STATE_DELAYED], 0);
    assert_int_equal(s.counts[STATE_LOCKED], 0);
    assert_int_equal(s.counts[STATE_READY], 4);
    assert_true(spec_claim_one(dlq, &m));
    assert_int_equal(spec_fail(dlq, &m, "dies here"), REASON_NONE);
    assert_int_equal(spec_stats(dlq).counts[STATE_DEAD], 1);
    assert_int_equal(spec_redrive(dlq, 10), m.seq + 1);
    assert_int_equal(spec_purge(dlq, false), 1);
    s = spec_stats(dlq);
    assert_int_equal(s.sent, 2);
    assert_int_equal(s.counts[STATE_REDRIVEN], 1);
    assert_int_equal(s.counts[STATE_PURGED], 1);
    bench_close(b);
}

static struct client *letter_source(struct bench *b, const char *name)
{
    return spec_new(b, "tasks", name, "failureStrategy.mode=dead-letter",
                    "failureStrategy.deadLetterQueue=tasks_dlq", NULL);
}

static void letters_die(struct client *w, int count)
{
    for (int i = 0; i < count; i++) {
        struct held_message m;
        char why[32];
        (void)snprintf(why, sizeof why, "reason %d", i);
        spec_send(w, why);
        assert_true(spec_claim_one(w, &m));
        assert_int_equal(spec_fail(w, &m, why), REASON_NONE);
    }
}

// The first half of a move, after which the carrier dies: the letter is there, the source is not
// told.
static enum err arrive_and_die(void *ctx, const char *to, struct op op)
{
    struct client *dlq = ctx;
    assert_string_equal(to, "tasks_dlq");
    assert_int_equal(runner_do(dlq->runner, op, &dlq->answer), ERR_OK);
    return ERR_UNAVAILABLE;
}

static void are_there_once(struct client *dlq, int count)
{
    assert_int_equal(spec_stats(dlq).sent, count);
    for (int i = 0; i < count; i++) {
        struct held_message m;
        char why[32];
        (void)snprintf(why, sizeof why, "reason %d", i);
        assert_true(spec_claim_one(dlq, &m));
        assert_string_equal(m.body, why); // in the order in which they died
        assert_string_equal(held_header(&m, "sluice-dead-reason"), why);
        assert_int_equal(spec_ack(dlq, &m), REASON_NONE);
    }
    struct held_message none;
    assert_false(spec_claim_one(dlq, &none));
}

static void crash_between_the_halves(bool reopen_destination)
{
    struct bench *b = bench_open(backend);
    bench_snapshots(b, 4);
    struct client *w = letter_source(b, "one");
    struct client *dlq = spec_new(b, "tasks_dlq", "undertaker", NULL);
    letters_die(w, 3);
    assert_int_equal(runner_move_dead_letters(w->runner, arrive_and_die, dlq), 0);
    assert_int_equal(spec_stats(dlq).sent, 1);
    assert_int_equal(spec_stats(w).counts[STATE_OUTBOUND], 3);
    spec_close(w);
    if (reopen_destination) {
        spec_close(dlq);
        dlq = spec_new(b, "tasks_dlq", "undertaker", NULL);
    }
    w = letter_source(b, "another");
    assert_int_equal(spec_carry(w, dlq), 3); // the first one a second time
    assert_int_equal(spec_stats(w).counts[STATE_MOVED], 3);
    assert_int_equal(spec_stats(w).counts[STATE_OUTBOUND], 0);
    are_there_once(dlq, 3);
    bench_close(b);
}

struct carrier {
    pthread_t thread;
    struct client *source;
    struct client *dlq;
};

static void *move_all(void *arg)
{
    struct carrier *c = arg;
    (void)spec_carry(c->source, c->dlq);
    return NULL;
}

#define LETTERS 30

static void two_carriers_at_once(void)
{
    struct bench *b = bench_open(backend);
    struct carrier c[2];
    for (int i = 0; i < 2; i++) {
        c[i].source = letter_source(b, i == 0 ? "one" : "two");
        c[i].dlq = spec_new(b, "tasks_dlq", i == 0 ? "one" : "two", NULL);
    }
    letters_die(c[0].source, LETTERS);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&c[i].thread, NULL, move_all, &c[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(c[i].thread, NULL), 0);
    assert_int_equal(spec_stats(c[0].source).counts[STATE_MOVED], LETTERS);
    are_there_once(c[1].dlq, LETTERS);
    bench_close(b);
}

static void dead_letter_is_written_once(void **state)
{
    (void)state;
    crash_between_the_halves(false);
    crash_between_the_halves(true);
    two_carriers_at_once();
}

#define DEFECT(title, test)                                                                        \
    {                                                                                              \
        .name = title, .test_func = test                                                           \
    }

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    backend = argv[1];
    const struct CMUnitTest tests[] = {
        DEFECT("a crashed worker's message comes back with the default configuration",
               crashed_workers_message_comes_back),
        DEFECT("tickets of a dead worker are recovered", tickets_of_a_dead_worker),
        DEFECT("strict order holds over a backlog larger than any page",
               strict_order_over_a_long_backlog),
        DEFECT("a lost race is never read as a win", lost_race_is_no_win),
        DEFECT("a failed claim hides nothing", failed_claim_hides_nothing),
        DEFECT("statistics count per state", statistics_count_per_state),
        DEFECT("a dead letter is written once", dead_letter_is_written_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
