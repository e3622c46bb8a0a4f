// SPDX-License-Identifier: Apache-2.0
// The scenarios of signals: steer, interrupt, collect, and signals to tasks that another process
// owns. One test each, with the library's public calls and the real time. The first argument names
// the store, the second how the handles reach it (fixture.h).
#include "fixture.h"

#define WAIT_MS 20000 // for what must come
#define TASKS   3

struct task {
    char id[SLUICE_ID_MAX];
    char token[SLUICE_TOKEN_MAX];
};

static void send(struct fixture *p, struct task *t)
{
    struct sluice_send one = {.body = "task", .body_len = 4};
    struct sluice_sent sent;
    FINE(sluice_send(p->theirs, QUEUE, &one, 1, NULL, &sent, &error));
    (void)snprintf(t->id, sizeof t->id, "%s", sent.id);
    t->token[0] = '\0';
}

static void claim(struct sluice *s, struct task *t)
{
    struct sluice_batch *b = NULL;
    struct sluice_receive o = {.worker = "worker", .wait_ms = WAIT_MS};
    FINE(sluice_receive(s, QUEUE, &o, &b, &error));
    assert_int_equal(b->len, 1);
    assert_string_equal(b->messages[0].id, t->id);
    (void)snprintf(t->token, sizeof t->token, "%s", b->messages[0].token);
    sluice_batch_free(b);
}

// A task that a worker runs.
static void run(struct fixture *p, struct task *t)
{
    send(p, t);
    claim(p->mine, t);
}

static struct sluice_signal steer(const char *const *ids, const char *payload)
{
    return (struct sluice_signal){.kind = "steer",
                                  .ids = ids,
                                  .ids_len = 1,
                                  .payload = payload,
                                  .payload_len = strlen(payload)};
}

// Sends it to one task. Returns its number.
static uint32_t signal_to(struct sluice *s, const struct task *t, struct sluice_signal what,
                          const char *state)
{
    const char *ids[] = {t->id};
    struct sluice_signals *list = NULL;
    what.ids = ids;
    what.ids_len = 1;
    FINE(sluice_signal(s, QUEUE, &what, NULL, &list, &error));
    assert_int_equal(list->len, 1);
    assert_string_equal(list->rows[0].state, state);
    uint32_t number = list->rows[0].number;
    sluice_signals_free(list);
    return number;
}

static uint32_t steer_to(struct sluice *s, const struct task *t, const char *payload)
{
    return signal_to(s, t, steer(NULL, payload), "pending");
}

// The next signals for the holder of this lock, at least one.
static struct sluice_signals *listen(struct sluice *s, const struct task *t)
{
    struct sluice_signals *list = NULL;
    const char *token = t->token;
    FINE(sluice_signals_receive(s, QUEUE, &token, 1, WAIT_MS, &list, &error));
    assert_true(list->len > 0);
    return list;
}

static void is_payload(const struct sluice_signal_state *row, const char *text)
{
    assert_int_equal(row->code, SLUICE_OK);
    assert_int_equal(row->payload_len, strlen(text));
    assert_memory_equal(row->payload, text, strlen(text));
}

static void answer(struct sluice *s, const struct task *t, uint32_t number, const char *text)
{
    struct sluice_signal_answer a = {
        .token = t->token, .number = number, .answer = text, .answer_len = strlen(text)};
    FINE(sluice_signals_ack(s, QUEUE, &a, 1, NULL, &error));
}

static void ack(struct sluice *s, const struct task *t, const char *result)
{
    struct sluice_ack a = {.token = t->token,
                           .result = result,
                           .result_len = result ? strlen(result) : 0,
                           .content_type = result ? "text/plain" : NULL};
    struct sluice_outcome outcome;
    FINE(sluice_ack_with(s, QUEUE, &a, 1, &outcome, &error));
    assert_string_equal(outcome.status, "processed");
}

static bool is_state(struct fixture *p, const struct task *t, const char *state)
{
    struct sluice_batch *b = NULL;
    FINE(sluice_show(p->theirs, QUEUE, t->id, &b, &error));
    bool same = strcmp(b->messages[0].state, state) == 0;
    sluice_batch_free(b);
    return same;
}

static void is_refused(struct sluice *s, const struct task *t, enum sluice_code code,
                       const char *reason)
{
    const char *ids[] = {t->id};
    struct sluice_signal what = steer(ids, "{\"speed\":2}");
    REFUSED(code, reason, sluice_signal(s, QUEUE, &what, NULL, NULL, &error));
}

static void cannot_ack(struct sluice *s, const struct task *t)
{
    const char *token = t->token;
    struct sluice_outcome outcome;
    struct sluice_error error;
    assert_int_not_equal(sluice_ack(s, QUEUE, &token, 1, &outcome, &error), SLUICE_OK);
    assert_string_equal(outcome.status, "");
}

static void steer_running(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct task t;
    run(p, &t);
    uint32_t number = steer_to(p->theirs, &t, "{\"speed\":2}");
    struct sluice_signals *list = listen(p->mine, &t);
    assert_int_equal(list->len, 1);
    assert_int_equal(list->rows[0].number, number);
    assert_string_equal(list->rows[0].kind, "steer");
    is_payload(&list->rows[0], "{\"speed\":2}");
    answer(p->mine, &t, number, "faster");
    char id[SLUICE_SIGNAL_ID_MAX];
    (void)snprintf(id, sizeof id, "%s", list->rows[0].id);
    sluice_signals_free(list);
    FINE(sluice_signal_wait(p->theirs, QUEUE, id, NULL, WAIT_MS, &list, &error));
    assert_string_equal(list->rows[0].state, "acked");
    assert_int_equal(list->rows[0].answer_len, strlen("faster"));
    assert_memory_equal(list->rows[0].answer, "faster", strlen("faster"));
    sluice_signals_free(list);
    ack(p->mine, &t, NULL);
    fixture_close(p);
}

static void steer_unknown(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct task t;
    send(p, &t);
    size_t len = strlen(t.id); // the number at its end is one that was never given
    (void)snprintf(t.id + len, sizeof t.id - len, "000");
    is_refused(p->theirs, &t, SLUICE_NOT_FOUND, "unknown-message");
    fixture_close(p);
}

static void steer_completed(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct task t;
    run(p, &t);
    ack(p->mine, &t, NULL);
    is_refused(p->theirs, &t, SLUICE_CONFLICT, "terminal");
    fixture_close(p);
}

static void steers_in_order(void **state)
{
    (void)state;
    static const char *const payloads[] = {"{\"n\":1}", "{\"n\":2}", "{\"n\":3}"};
    struct fixture *p = fixture_open(false, NULL, 0);
    struct task t;
    run(p, &t);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(steer_to(p->theirs, &t, payloads[i]), i + 1);
    struct sluice_signal_answer later = {.token = t.token, .number = 2};
    REFUSED(SLUICE_CONFLICT, "signal-order",
            sluice_signals_ack(p->mine, QUEUE, &later, 1, NULL, &error));
    size_t got = 0;
    while (got < 3) {
        struct sluice_signals *list = listen(p->mine, &t);
        for (size_t i = 0; i < list->len; i++, got++) {
            is_payload(&list->rows[i], payloads[got]);
            answer(p->mine, &t, list->rows[i].number, "ok");
        }
        sluice_signals_free(list);
    }
    assert_int_equal(got, 3);
    fixture_close(p);
}

static void steer_before_it_runs(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct task t;
    struct sluice_batch *b = NULL;
    struct sluice_receive o = {.worker = "worker", .wait_ms = WAIT_MS};
    send(p, &t);
    steer_to(p->theirs, &t, "{\"speed\":2}");
    FINE(sluice_receive(p->mine, QUEUE, &o, &b, &error));
    assert_int_equal(b->len, 1);
    assert_int_equal(b->messages[0].signals_len, 1);
    is_payload(&b->messages[0].signals[0], "{\"speed\":2}");
    sluice_batch_free(b);
    fixture_close(p);
}

static void graceful_interrupt(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct task done, failed;
    struct sluice_signal stop = {.kind = "interrupt", .reason = "stop"};
    run(p, &done);
    run(p, &failed);
    signal_to(p->theirs, &done, stop, "pending");
    signal_to(p->theirs, &failed, stop, "pending");
    struct sluice_signals *list = listen(p->mine, &done);
    assert_string_equal(list->rows[0].kind, "interrupt");
    is_payload(&list->rows[0], "stop");
    sluice_signals_free(list);
    ack(p->mine, &done, NULL); // within the grace
    assert_true(is_state(p, &done, "processed"));
    const char *token = failed.token;
    struct sluice_outcome outcome;
    FINE(sluice_fail(p->mine, QUEUE, &token, 1, "stopped", &outcome, &error));
    assert_string_equal(outcome.status, "cancelled");
    assert_true(is_state(p, &failed, "cancelled")); // and not retried
    fixture_close(p);
}

static void interrupt_with_a_timeout(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct task t;
    struct sluice_signal stop = {.kind = "interrupt", .grace_ms = 1500};
    run(p, &t);
    signal_to(p->theirs, &t, stop, "pending");
    UNTIL(is_state(p, &t, "cancelled")); // the worker does not listen
    cannot_ack(p->mine, &t);
    fixture_close(p);
}

static void immediate_interrupt(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct task t;
    struct sluice_signal stop = {.kind = "interrupt", .now = 1};
    run(p, &t);
    signal_to(p->theirs, &t, stop, "applied");
    assert_true(is_state(p, &t, "cancelled"));
    cannot_ack(p->mine, &t);
    fixture_close(p);
}

static void reason_is_kept(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct task t;
    struct sluice_batch *b = NULL;
    struct sluice_signal stop = {
        .kind = "interrupt", .now = 1, .reason = "the order was withdrawn"};
    run(p, &t);
    signal_to(p->theirs, &t, stop, "applied");
    FINE(sluice_show(p->theirs, QUEUE, t.id, &b, &error));
    assert_string_equal(b->messages[0].state, "cancelled");
    assert_string_equal(b->messages[0].reason, "the order was withdrawn");
    sluice_batch_free(b);
    fixture_close(p);
}

static void interrupt_pending(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct task t;
    struct sluice_batch *b = NULL;
    struct sluice_signal stop = {.kind = "interrupt"};
    send(p, &t);
    signal_to(p->theirs, &t, stop, "applied");
    assert_true(is_state(p, &t, "cancelled"));
    FINE(sluice_receive(p->mine, QUEUE, NULL, &b, &error));
    assert_int_equal(b->len, 0);
    sluice_batch_free(b);
    fixture_close(p);
}

// Collect.

static void run_all(struct fixture *p, struct task t[TASKS])
{
    for (size_t i = 0; i < TASKS; i++)
        run(p, &t[i]);
}

static struct sluice_collector *collect(struct fixture *p, const struct task t[TASKS])
{
    struct sluice_collector *c = NULL;
    const char *ids[TASKS];
    for (size_t i = 0; i < TASKS; i++)
        ids[i] = t[i].id;
    struct sluice_collect what = {.ids = ids, .ids_len = TASKS};
    FINE(sluice_collect_open(p->theirs, QUEUE, &what, &c, &error));
    return c;
}

// The next outcome: which task it is of.
static size_t next(struct sluice_collector *c, const struct task t[TASKS],
                   const struct sluice_collected **out)
{
    *out = NULL;
    FINE(sluice_collect_next(c, WAIT_MS, out, &error));
    assert_non_null(*out);
    assert_string_equal((*out)->kind, "outcome");
    for (size_t i = 0; i < TASKS; i++)
        if (strcmp((*out)->message.id, t[i].id) == 0) return i;
    fail_msg("no task has the id %s", (*out)->message.id);
    return TASKS;
}

static void is_over(struct sluice_collector *c)
{
    const struct sluice_collected *out = NULL;
    const char *const *ids;
    FINE(sluice_collect_next(c, WAIT_MS, &out, &error));
    assert_null(out);
    assert_int_equal(sluice_collect_missing(c, &ids), 0);
    sluice_collect_close(c);
}

static void is_result(const struct sluice_collected *out, const char *text)
{
    assert_string_equal(out->message.state, "processed");
    assert_int_equal(out->message.result_len, strlen(text));
    assert_memory_equal(out->message.result, text, strlen(text));
}

static const char *const results[TASKS] = {"first", "second", "third"};

static void collect_all(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct task t[TASKS];
    bool seen[TASKS] = {false};
    const struct sluice_collected *out;
    run_all(p, t);
    for (size_t i = 0; i < TASKS; i++)
        ack(p->mine, &t[i], results[i]);
    struct sluice_collector *c = collect(p, t);
    for (size_t i = 0; i < TASKS; i++) {
        size_t at = next(c, t, &out);
        assert_false(seen[at]);
        seen[at] = true;
        is_result(out, results[at]);
    }
    is_over(c);
    fixture_close(p);
}

static void collect_with_a_timeout(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct task t[TASKS];
    const struct sluice_collected *out;
    const char *const *ids;
    struct sluice_error error;
    run_all(p, t);
    ack(p->mine, &t[0], results[0]);
    ack(p->mine, &t[2], results[2]);
    struct sluice_collector *c = collect(p, t);
    (void)next(c, t, &out);
    (void)next(c, t, &out);
    assert_int_equal(sluice_collect_next(c, 200, &out, &error), SLUICE_NOT_FOUND);
    assert_int_equal(sluice_collect_missing(c, &ids), 1);
    assert_string_equal(ids[0], t[1].id);
    ack(p->mine, &t[1], results[1]); // it can go on
    assert_int_equal(next(c, t, &out), 1);
    is_over(c);
    fixture_close(p);
}

static void collect_as_a_stream(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct task t[TASKS];
    const struct sluice_collected *out;
    run_all(p, t);
    struct sluice_collector *c = collect(p, t); // before any of them ends
    for (size_t i = TASKS; i-- > 0;) {
        ack(p->mine, &t[i], results[i]);
        assert_int_equal(next(c, t, &out), i); // each as it comes
        is_result(out, results[i]);
    }
    is_over(c);
    fixture_close(p);
}

static void fail_one(struct fixture *p, const struct task *t)
{
    const char *token = t->token;
    struct sluice_outcome outcome;
    FINE(sluice_fail(p->mine, QUEUE, &token, 1, "it did not work", &outcome, &error));
    assert_string_equal(outcome.status, "dead-lettered");
}

static void is_failure(const struct sluice_collected *out)
{
    assert_string_equal(out->message.state, "dead");
    assert_string_equal(out->message.reason, "it did not work");
}

static const struct sluice_setting no_retries = {"failureStrategy.maxRetries", "0"};

static void collect_all_failed(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, &no_retries, 1);
    struct task t[TASKS];
    const struct sluice_collected *out;
    run_all(p, t);
    struct sluice_collector *c = collect(p, t);
    for (size_t i = 0; i < TASKS; i++)
        fail_one(p, &t[i]);
    for (size_t i = 0; i < TASKS; i++) {
        (void)next(c, t, &out);
        is_failure(out);
    }
    is_over(c);
    fixture_close(p);
}

static void collect_some_failed(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, &no_retries, 1);
    struct task t[TASKS];
    const struct sluice_collected *out;
    run_all(p, t);
    ack(p->mine, &t[0], results[0]);
    fail_one(p, &t[1]);
    ack(p->mine, &t[2], results[2]);
    struct sluice_collector *c = collect(p, t);
    for (size_t i = 0; i < TASKS; i++) {
        size_t at = next(c, t, &out);
        if (at == 1)
            is_failure(out);
        else
            is_result(out, results[at]);
    }
    is_over(c);
    fixture_close(p);
}

// Ownership.

// The node owns the queue. A second node, or a process that opens the store, sends.
static void remotely_owned(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(true, NULL, 0);
    struct task t;
    run(p, &t);
    struct sluice *far = fixture_is_memory() ? NULL : fixture_second_node(p);
    steer_to(far ? far : p->theirs, &t, "{\"speed\":2}");
    struct sluice_signals *list = listen(p->mine, &t);
    is_payload(&list->rows[0], "{\"speed\":2}");
    answer(far ? far : p->mine, &t, list->rows[0].number, "ok"); // the token is the proof
    sluice_signals_free(list);
    sluice_close(far);
    fixture_close(p);
}

static void ownership_changes(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(true, NULL, 0);
    struct task t;
    run(p, &t);
    steer_to(p->theirs, &t, "{\"speed\":2}");
    fixture_stop_node(p);
    struct sluice *next_owner = fixture_second_node(p);
    struct sluice_signals *list = listen(next_owner, &t);
    is_payload(&list->rows[0], "{\"speed\":2}");
    answer(next_owner, &t, list->rows[0].number, "ok");
    sluice_signals_free(list);
    sluice_close(next_owner);
    fixture_close(p);
}

static void same_signal_by_two_ways(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(true, NULL, 0);
    struct task t;
    const char *ids[] = {t.id};
    struct sluice_request request = {{0x18, 7}};
    struct sluice_signals *first = NULL, *second = NULL, *all = NULL;
    run(p, &t);
    struct sluice *far = fixture_is_memory() ? NULL : fixture_second_node(p);
    struct sluice_signal what = steer(ids, "{\"speed\":2}");
    FINE(sluice_signal(p->theirs, QUEUE, &what, &request, &first, &error));
    FINE(sluice_signal(far ? far : p->mine, QUEUE, &what, &request, &second, &error));
    assert_string_equal(first->id, second->id);
    assert_int_equal(first->rows[0].number, 1);
    assert_int_equal(second->rows[0].number, 1);
    FINE(sluice_signals(p->mine, QUEUE, t.id, 0, &all, &error));
    assert_int_equal(all->len, 1);
    sluice_signals_free(first);
    sluice_signals_free(second);
    sluice_signals_free(all);
    sluice_close(far);
    fixture_close(p);
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    fixture_choose(argv[1], argv[2]);
    const struct CMUnitTest tests[] = {
        TITLED("Steer a running task", steer_running),
        TITLED("Steer a task that does not exist", steer_unknown),
        TITLED("Steer a completed task", steer_completed),
        TITLED("Several steers arrive in order", steers_in_order),
        TITLED("Steer before the task runs", steer_before_it_runs),
        TITLED("Graceful interrupt", graceful_interrupt),
        TITLED("Interrupt with a timeout", interrupt_with_a_timeout),
        TITLED("Immediate interrupt", immediate_interrupt),
        TITLED("The reason of an interrupt is kept", reason_is_kept),
        TITLED("Interrupt a pending task", interrupt_pending),
        TITLED("Collect all", collect_all),
        TITLED("Collect with a timeout names the missing", collect_with_a_timeout),
        TITLED("Collect as a stream", collect_as_a_stream),
        TITLED("Collect when all failed", collect_all_failed),
        TITLED("Collect with some failures", collect_some_failed),
        TITLED("Signal to a remotely owned task", remotely_owned),
        TITLED("Ownership changes between send and delivery", ownership_changes),
        TITLED("The same signal by two ways", same_signal_by_two_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
