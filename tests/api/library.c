// SPDX-License-Identifier: Apache-2.0
// The library as a program uses it, through include/sluice.h alone, on the store named by the
// argument, or by way of a node ("http").
#include "backend.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void send_text(struct sluice *s, const char *queue, const char *text)
{
    struct sluice_send m = {.body = text, .body_len = strlen(text)};
    FINE(sluice_send(s, queue, &m, 1, NULL, NULL, &error));
}

static struct sluice_batch *receive(struct sluice *s, const char *queue, uint32_t max)
{
    struct sluice_batch *batch;
    struct sluice_receive ask = {.worker = "tester", .max = max};
    FINE(sluice_receive(s, queue, &ask, &batch, &error));
    return batch;
}

static void message_travels_with_everything_said_of_it(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    FINE(sluice_queue_create(r.s, "tasks", NULL, 0, &error));
    struct sluice_header headers[] = {{"colour", "green"}, {"empty", ""}};
    struct sluice_send m = {.body = "a\0b",
                            .body_len = 3,
                            .group = "g",
                            .content_type = "text/plain",
                            .workflow = "w1",
                            .priority = 4,
                            .headers = headers,
                            .headers_len = 2};
    struct sluice_sent sent;
    FINE(sluice_send(r.s, "tasks", &m, 1, NULL, &sent, &error));
    struct sluice_batch *b = receive(r.s, "tasks", 5);
    assert_int_equal(b->len, 1);
    struct sluice_message *got = &b->messages[0];
    assert_string_equal(got->id, sent.id);
    assert_int_equal(got->body_len, 3);
    assert_memory_equal(got->body, "a\0b", 4);
    assert_string_equal(got->group, "g");
    assert_string_equal(got->content_type, "text/plain");
    assert_string_equal(got->workflow, "w1");
    assert_int_equal(got->priority, 4);
    assert_int_equal(got->attempt, 1);
    assert_int_equal(got->headers_len, 2);
    assert_string_equal(got->headers[0].value, "green");
    // a bucket tells whole seconds: the lock may last up to one longer
    assert_true(got->lease_ms > 25000 && got->lease_ms <= 30000 + 1000);
    const char *token = got->token;
    struct sluice_outcome outcome;
    FINE(sluice_ack(r.s, "tasks", &token, 1, &outcome, &error));
    assert_string_equal(outcome.status, "processed");
    struct sluice_error error;
    assert_int_equal(sluice_ack(r.s, "tasks", &token, 1, &outcome, &error), SLUICE_CONFLICT);
    assert_string_equal(outcome.reason, "terminal");
    sluice_batch_free(b);
    rig_close(&r);
}

// The clock of a directory may run 0.5 % faster than this machine's.
static void a_lease_ends_before_the_lock_by_any_clock(void **state)
{
    (void)state;
    const int64_t lock_ms = 3600000, bucket_ms = 1100; // a bucket's lock may last that much longer
    struct rig r;
    rig_open(&r);
    FINE(sluice_queue_create(r.s, "tasks", NULL, 0, &error));
    send_text(r.s, "tasks", "x");
    struct sluice_batch *b;
    struct sluice_receive ask = {.worker = "tester", .max = 1, .visibility_ms = lock_ms};
    FINE(sluice_receive(r.s, "tasks", &ask, &b, &error));
    assert_int_equal(b->len, 1);
    int64_t lease_ms = b->messages[0].lease_ms;
    assert_true(lease_ms * 1005 / 1000 <= lock_ms + bucket_ms);
    assert_true(lease_ms > lock_ms - lock_ms / 64);
    sluice_batch_free(b);
    rig_close(&r);
}

static void unknown_queue_is_named(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    struct sluice_error error;
    struct sluice_send m = {.body = "x", .body_len = 1};
    assert_int_equal(sluice_send(r.s, "nowhere", &m, 1, NULL, NULL, &error), SLUICE_NOT_FOUND);
    assert_non_null(strstr(error.message, "nowhere"));
    assert_int_equal(sluice_send(r.s, "../up", &m, 1, NULL, NULL, &error), SLUICE_INVALID);
    rig_close(&r);
}

static void impossible_settings_are_refused_by_name(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    struct sluice_error e;
    struct sluice_setting random = {"orderingMode", "random"};
    assert_int_equal(sluice_queue_create(r.s, "tasks", &random, 1, &e), SLUICE_INVALID);
    assert_string_equal(e.field, "orderingMode");
    struct sluice_setting own[] = {{"failureStrategy.mode", "dead-letter"},
                                   {"failureStrategy.deadLetterQueue", "tasks"}};
    assert_int_equal(sluice_queue_create(r.s, "tasks", own, 2, &e), SLUICE_INVALID);
    own[1].value = "b";
    FINE(sluice_queue_create(r.s, "a", own, 2, &error));
    own[1].value = "a"; // a -> b -> a
    assert_int_equal(sluice_queue_set(r.s, "b", own, 2, &e), SLUICE_INVALID);
    rig_close(&r);
}

static void queue_lives_and_dies_and_lives_again(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    struct sluice_error e;
    FINE(sluice_queue_create(r.s, "tasks", NULL, 0, &error));
    FINE(sluice_queue_create(r.s, "tasks", NULL, 0, &error)); // the same again is fine
    struct sluice_setting lifo = {"orderingMode", "lifo"};
    assert_int_equal(sluice_queue_create(r.s, "tasks", &lifo, 1, &e), SLUICE_CONFLICT);
    send_text(r.s, "tasks", "old");
    FINE(sluice_queue_delete(r.s, "tasks", &error));
    struct sluice_names *names;
    FINE(sluice_queue_list(r.s, &names, &error));
    assert_int_equal(names->len, 0);
    sluice_names_free(names);
    FINE(sluice_queue_create(r.s, "tasks", &lifo, 1, &error));
    struct sluice_batch *b = receive(r.s, "tasks", 1);
    assert_int_equal(b->len, 0);
    sluice_batch_free(b);
    rig_close(&r);
}

static void eventually_ready(struct sluice *s, const char *queue, uint64_t count)
{
    struct sluice_stats stats = {0};
    for (int i = 0; i < 20000 && stats.ready != count; i++)
        FINE(sluice_stats(s, queue, &stats, &error));
    assert_int_equal(stats.ready, count);
}

static void dead_letter_moves_and_is_redriven(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    struct sluice_setting settings[] = {{"failureStrategy.mode", "dead-letter"},
                                        {"failureStrategy.deadLetterQueue", "tasks_dlq"}};
    FINE(sluice_queue_create(r.s, "tasks", settings, 2, &error));
    send_text(r.s, "tasks", "doomed");
    struct sluice_batch *b = receive(r.s, "tasks", 1);
    const char *token = b->messages[0].token;
    struct sluice_outcome outcome;
    FINE(sluice_fail(r.s, "tasks", &token, 1, "no luck", &outcome, &error));
    assert_string_equal(outcome.status, "dead-lettered");
    sluice_batch_free(b);
    eventually_ready(r.s, "tasks_dlq", 1);
    struct sluice_error e;
    assert_int_equal(sluice_queue_delete(r.s, "tasks_dlq", &e), SLUICE_CONFLICT);
    struct sluice_batch *seen;
    FINE(sluice_peek(r.s, "tasks_dlq", NULL, &seen, &error));
    assert_int_equal(seen->len, 1);
    assert_string_equal(seen->messages[0].headers[0].name, "sluice-dead-reason");
    assert_string_equal(seen->messages[0].headers[0].value, "no luck");
    sluice_batch_free(seen);
    uint64_t redriven;
    FINE(sluice_redrive(r.s, "tasks_dlq", NULL, 0, &redriven, &error));
    assert_int_equal(redriven, 1);
    b = receive(r.s, "tasks", 1);
    assert_int_equal(b->len, 1);
    assert_string_equal(b->messages[0].body, "doomed");
    sluice_batch_free(b);
    rig_close(&r);
}

// It is ready in the dead-letter queue first; the next redrive brings it home.
static void a_letter_that_died_again_is_redriven_one_step(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    struct sluice_setting none = {"failureStrategy.maxRetries", "0"};
    struct sluice_setting settings[] = {{"failureStrategy.mode", "dead-letter"},
                                        {"failureStrategy.deadLetterQueue", "tasks_dlq"}};
    FINE(sluice_queue_create(r.s, "tasks_dlq", &none, 1, &error));
    FINE(sluice_queue_create(r.s, "tasks", settings, 2, &error));
    send_text(r.s, "tasks", "doomed");
    const char *const queues[] = {"tasks", "tasks_dlq"};
    for (int i = 0; i < 2; i++) {
        eventually_ready(r.s, queues[i], 1);
        struct sluice_batch *b = receive(r.s, queues[i], 1);
        const char *token = b->messages[0].token;
        FINE(sluice_fail(r.s, queues[i], &token, 1, "no luck", NULL, &error));
        sluice_batch_free(b);
    }
    uint64_t redriven;
    FINE(sluice_redrive(r.s, "tasks_dlq", NULL, 0, &redriven, &error));
    assert_int_equal(redriven, 1);
    eventually_ready(r.s, "tasks_dlq", 1);
    FINE(sluice_redrive(r.s, "tasks_dlq", NULL, 0, &redriven, &error));
    assert_int_equal(redriven, 1);
    eventually_ready(r.s, "tasks", 1);
    rig_close(&r);
}

static void dead_in_place_is_seen_and_redriven(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    struct sluice_setting none = {"failureStrategy.maxRetries", "0"};
    FINE(sluice_queue_create(r.s, "tasks", &none, 1, &error));
    send_text(r.s, "tasks", "doomed");
    struct sluice_batch *b = receive(r.s, "tasks", 1);
    const char *token = b->messages[0].token;
    FINE(sluice_fail(r.s, "tasks", &token, 1, "no luck", NULL, &error));
    struct sluice_batch *seen;
    FINE(sluice_peek(r.s, "tasks", &(struct sluice_peek){.state = "dead"}, &seen, &error));
    assert_int_equal(seen->len, 1);
    assert_string_equal(seen->messages[0].state, "dead");
    sluice_batch_free(seen);
    sluice_batch_free(b);
    uint64_t redriven;
    FINE(sluice_redrive(r.s, "tasks", NULL, 0, &redriven, &error));
    assert_int_equal(redriven, 1);
    b = receive(r.s, "tasks", 1);
    assert_int_equal(b->len, 1);
    sluice_batch_free(b);
    rig_close(&r);
}

static void events_tell_the_story_from_the_beginning(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    FINE(sluice_queue_create(r.s, "tasks", NULL, 0, &error));
    send_text(r.s, "tasks", "a");
    struct sluice_batch *b = receive(r.s, "tasks", 1);
    const char *token = b->messages[0].token;
    FINE(sluice_ack(r.s, "tasks", &token, 1, NULL, &error));
    struct sluice_events *events;
    FINE(sluice_events_open(r.s, "tasks", 0, &events, &error));
    const char *story[] = {"message-enqueued", "message-claimed", "message-outcome"};
    struct sluice_event e;
    for (int i = 0; i < 3; i++) {
        FINE(sluice_events_next(events, 1000, &e, &error));
        assert_string_equal(e.type, story[i]);
        assert_string_equal(e.message, b->messages[0].id);
    }
    assert_string_equal(e.status, "processed");
    struct sluice_error none;
    assert_int_equal(sluice_events_next(events, 0, &e, &none), SLUICE_NOT_FOUND);
    sluice_events_close(events);
    sluice_batch_free(b);
    rig_close(&r);
}

static void same_request_sends_once(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    FINE(sluice_queue_create(r.s, "tasks", NULL, 0, &error));
    struct sluice_request request = {"sixteen bytes..."};
    struct sluice_send m = {.body = "once", .body_len = 4};
    struct sluice_sent first, second;
    FINE(sluice_send(r.s, "tasks", &m, 1, &request, &first, &error));
    FINE(sluice_send(r.s, "tasks", &m, 1, &request, &second, &error));
    assert_string_equal(first.id, second.id);
    eventually_ready(r.s, "tasks", 1);
    rig_close(&r);
}

static void *send_async(void *arg)
{
    send_text(arg, "tasks", "at last");
    return NULL;
}

static void waiting_receive_gets_what_is_sent_meanwhile(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    FINE(sluice_queue_create(r.s, "tasks", NULL, 0, &error));
    pthread_t sender;
    assert_int_equal(pthread_create(&sender, NULL, send_async, r.s), 0);
    struct sluice_batch *b;
    struct sluice_receive ask = {.wait_ms = 20000};
    FINE(sluice_receive(r.s, "tasks", &ask, &b, &error));
    assert_int_equal(b->len, 1);
    assert_string_equal(b->messages[0].body, "at last");
    sluice_batch_free(b);
    assert_int_equal(pthread_join(sender, NULL), 0);
    rig_close(&r);
}

static void several_shards_keep_groups_together(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    struct sluice_setting settings[] = {{"shards", "4"}, {"orderingGuarantee", "true"}};
    FINE(sluice_queue_create(r.s, "tasks", settings, 2, &error));
    for (int i = 0; i < 40; i++) {
        char group[8], body[8];
        (void)snprintf(group, sizeof group, "g%d", i % 8);
        (void)snprintf(body, sizeof body, "%d", i / 8);
        struct sluice_send m = {.body = body, .body_len = strlen(body), .group = group};
        FINE(sluice_send(r.s, "tasks", &m, 1, NULL, NULL, &error));
    }
    int next[8] = {0};
    for (int i = 0; i < 40; i++) {
        struct sluice_batch *b = receive(r.s, "tasks", 1);
        assert_int_equal(b->len, 1);
        int group = b->messages[0].group[1] - '0';
        assert_int_equal(((const char *)b->messages[0].body)[0] - '0', next[group]++);
        const char *token = b->messages[0].token;
        FINE(sluice_ack(r.s, "tasks", &token, 1, NULL, &error));
        sluice_batch_free(b);
    }
    rig_close(&r);
}

// The next message, locked by that worker; it waits for one that is locked or delayed.
static void claim(struct sluice *s, const char *queue, const char *worker, int64_t visibility_ms,
                  char token[SLUICE_TOKEN_MAX])
{
    struct sluice_batch *b;
    struct sluice_receive ask = {
        .worker = worker, .wait_ms = 60000, .visibility_ms = visibility_ms};
    FINE(sluice_receive(s, queue, &ask, &b, &error));
    assert_int_equal(b->len, 1);
    assert_int_equal(b->messages[0].failures_len, 0);
    memcpy(token, b->messages[0].token, SLUICE_TOKEN_MAX);
    sluice_batch_free(b);
}

static void claim_and_fail(struct sluice *s, const char *queue, const char *worker,
                           const char *reason)
{
    char token[SLUICE_TOKEN_MAX];
    const char *tokens = token;
    claim(s, queue, worker, 0, token);
    FINE(sluice_fail(s, queue, &tokens, 1, reason, NULL, &error));
}

static struct sluice_batch *peek(struct sluice *s, const char *queue, const char *state)
{
    struct sluice_batch *b;
    struct sluice_peek ask = {.state = state};
    FINE(sluice_peek(s, queue, &ask, &b, &error));
    return b;
}

static void failure_is(const struct sluice_failure *f, uint32_t attempt, const char *worker,
                       const char *reason, const char *kind)
{
    assert_int_equal(f->attempt, attempt);
    assert_string_equal(f->worker, worker);
    assert_non_null(f->reason);
    assert_string_equal(f->reason, reason);
    assert_string_equal(f->kind, kind);
    assert_true(f->at > 0);
}

static const struct sluice_setting two_retries[] = {{"failureStrategy.maxRetries", "2"},
                                                    {"failureStrategy.backoff.initial", "0"}};

static void every_failure_of_a_dead_message_is_told(void **state)
{
    (void)state;
    struct rig r;
    char token[SLUICE_TOKEN_MAX];
    rig_open(&r);
    FINE(sluice_queue_create(r.s, "tasks", two_retries, 2, &error));
    send_text(r.s, "tasks", "x");
    claim_and_fail(r.s, "tasks", "one", "no disk");
    claim(r.s, "tasks", "two", 50, token); // and lets it expire
    claim_and_fail(r.s, "tasks", "three", "");
    struct sluice_batch *dead = peek(r.s, "tasks", "dead"), *shown;
    assert_int_equal(dead->len, 1);
    assert_int_equal(dead->messages[0].failures_len, 1);
    failure_is(&dead->messages[0].failures[0], 3, "three", "", "failed");
    FINE(sluice_show(r.s, "tasks", dead->messages[0].id, &shown, &error));
    const struct sluice_message *m = &shown->messages[0];
    assert_int_equal(m->failures_len, 3);
    failure_is(&m->failures[0], 1, "one", "no disk", "failed");
    failure_is(&m->failures[1], 2, "two", "lock-expired", "lock-expired");
    failure_is(&m->failures[2], 3, "three", "", "failed");
    assert_true(m->failures[0].at <= m->failures[1].at);
    assert_true(m->failures[1].at <= m->failures[2].at);
    sluice_batch_free(dead);
    sluice_batch_free(shown);
    rig_close(&r);
}

static const struct sluice_setting long_wait[] = {{"failureStrategy.backoff.initial", "5m"}};

static void a_message_that_waits_for_its_retry_tells_its_failure(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    FINE(sluice_queue_create(r.s, "tasks", long_wait, 1, &error));
    send_text(r.s, "tasks", "x");
    claim_and_fail(r.s, "tasks", "one", "no disk");
    struct sluice_batch *waits = peek(r.s, "tasks", "delayed");
    assert_int_equal(waits->len, 1);
    assert_int_equal(waits->messages[0].failures_len, 1);
    failure_is(&waits->messages[0].failures[0], 1, "one", "no disk", "failed");
    sluice_batch_free(waits);
    rig_close(&r);
}

static void a_dead_letter_tells_its_worker_and_attempts(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_setting hybrid[] = {{"failureStrategy.mode", "hybrid"},
                                      {"failureStrategy.maxRetries", "1"},
                                      {"failureStrategy.backoff.initial", "0"},
                                      {"failureStrategy.deadLetterQueue", "tasks_dlq"}};
    struct sluice_header forged[] = {{"sluice-dead-worker", "forged"}, {"colour", "green"}};
    struct sluice_send m = {.body = "x", .body_len = 1, .headers = forged, .headers_len = 2};
    rig_open(&r);
    FINE(sluice_queue_create(r.s, "tasks", hybrid, 4, &error));
    FINE(sluice_send(r.s, "tasks", &m, 1, NULL, NULL, &error));
    claim_and_fail(r.s, "tasks", "one", "no disk");
    claim_and_fail(r.s, "tasks", "two", "still none");
    char token[SLUICE_TOKEN_MAX];
    const char *tokens = token;
    claim(r.s, "tasks_dlq", "reader", 0, token); // it has arrived
    FINE(sluice_release(r.s, "tasks_dlq", &tokens, 1, 0, NULL, &error));
    struct sluice_batch *b = peek(r.s, "tasks_dlq", "ready");
    assert_int_equal(b->len, 1);
    const struct sluice_message *letter = &b->messages[0];
    assert_string_equal(letter->from.queue, "tasks");
    assert_string_equal(letter->from.reason, "still none");
    assert_string_equal(letter->from.worker, "two");
    assert_int_equal(letter->from.attempts, 2);
    assert_int_equal(letter->failures_len, 0); // none in this queue
    assert_string_equal(letter->headers[0].name, "colour");
    for (size_t i = 0; i < letter->headers_len; i++)
        assert_string_not_equal(letter->headers[i].value, "forged");
    sluice_batch_free(b);
    rig_close(&r);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    backend = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_travels_with_everything_said_of_it),
        cmocka_unit_test(a_lease_ends_before_the_lock_by_any_clock),
        cmocka_unit_test(unknown_queue_is_named),
        cmocka_unit_test(impossible_settings_are_refused_by_name),
        cmocka_unit_test(queue_lives_and_dies_and_lives_again),
        cmocka_unit_test(dead_letter_moves_and_is_redriven),
        cmocka_unit_test(a_letter_that_died_again_is_redriven_one_step),
        cmocka_unit_test(dead_in_place_is_seen_and_redriven),
        cmocka_unit_test(events_tell_the_story_from_the_beginning),
        cmocka_unit_test(same_request_sends_once),
        cmocka_unit_test(waiting_receive_gets_what_is_sent_meanwhile),
        cmocka_unit_test(several_shards_keep_groups_together),
        cmocka_unit_test(every_failure_of_a_dead_message_is_told),
        cmocka_unit_test(a_message_that_waits_for_its_retry_tells_its_failure),
        cmocka_unit_test(a_dead_letter_tells_its_worker_and_attempts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
