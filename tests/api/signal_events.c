// SPDX-License-Identifier: Apache-2.0
// The events of signals and of cancelled messages: one for each thing that happens to a signal.
#include "acting_rig.h"

#include "os/clock.h"

#define SECRET      "{\"password\": \"swordfish\"}"
#define PATIENCE_MS 20000

struct told {
    struct rig rig;
    struct sluice_events *events;
    char id[SLUICE_ID_MAX];            // of the message
    struct sluice_batch *held;         // it, as worker "w" has it
    char signal[SLUICE_SIGNAL_ID_MAX]; // that was sent last
};

// The next event. A node sends it a moment after the call that caused it.
static struct sluice_event next(struct told *t)
{
    struct sluice_event e;
    assert_int_equal(sluice_events_next(t->events, PATIENCE_MS, &e, NULL), SLUICE_OK);
    assert_null(strstr(e.reason, "swordfish"));
    bool of_signal = strncmp(e.type, "signal-", 7) == 0;
    assert_int_equal(of_signal, *e.signal != '\0');
    assert_int_equal(of_signal, *e.signal_kind != '\0');
    return e;
}

static bool is(const struct sluice_event *e, const char *type, const char *status)
{
    return strcmp(e->type, type) == 0 && strcmp(e->status, status) == 0;
}

static void begin(struct told *t)
{
    *t = (struct told){0};
    rig_queue(&t->rig, NULL, 0);
    send_text(t->rig.s, "work", t->id);
    FINE(sluice_events_open(t->rig.s, "tasks", 0, &t->events, &error));
    while (strcmp(next(t).type, "message-enqueued") != 0) {
    }
}

static void hold(struct told *t)
{
    t->held = receive(t->rig.s, "w", 1);
    assert_int_equal(t->held->len, 1);
    assert_string_equal(next(t).type, "message-claimed");
}

static void end(struct told *t)
{
    sluice_events_close(t->events);
    sluice_batch_free(t->held);
    rig_close(&t->rig);
}

static void send_signal(struct told *t, struct sluice_signal what)
{
    const char *ids[] = {t->id};
    struct sluice_signals *sent;
    what.ids = ids;
    what.ids_len = 1;
    FINE(sluice_signal(t->rig.s, "tasks", &what, NULL, &sent, &error));
    (void)snprintf(t->signal, sizeof t->signal, "%s", sent->id);
    sluice_signals_free(sent);
}

static const struct sluice_signal steer = {
    .kind = "steer", .payload = SECRET, .payload_len = sizeof SECRET - 1};
static const struct sluice_signal ask = {.kind = "ask"};

static void settle(struct told *t, uint32_t number, int decline, const char *text)
{
    struct sluice_signal_answer answer = {.token = t->held->messages[0].token,
                                          .number = number,
                                          .decline = decline,
                                          .answer = text,
                                          .answer_len = strlen(text)};
    struct sluice_outcome o;
    FINE(sluice_signals_ack(t->rig.s, "tasks", &answer, 1, &o, &error));
}

struct expected {
    const char *type, *status, *kind, *reason, *worker;
    uint64_t number;
};

static void comes(struct told *t, const struct expected *x)
{
    struct sluice_event e = next(t);
    assert_string_equal(e.type, x->type);
    assert_string_equal(e.message, t->id);
    assert_string_equal(e.status, x->status ? x->status : "");
    assert_string_equal(e.reason, x->reason ? x->reason : "");
    assert_string_equal(e.worker, x->worker ? x->worker : "");
    if (!x->kind) return;
    assert_string_equal(e.signal_kind, x->kind);
    assert_string_equal(e.signal, t->signal);
    assert_int_equal(e.count, x->number);
}

#define COMES(...) comes(t, &(struct expected){__VA_ARGS__})

// The next event is of the next call.
static void nothing_comes(struct told *t)
{
    send_text(t->rig.s, "the next call", t->id);
    COMES(.type = "message-enqueued");
}

static void was_sent(struct told *t, const struct sluice_signal *what, uint64_t number)
{
    send_signal(t, *what);
    COMES("signal-sent", "pending", .kind = what->kind, .number = number);
    COMES("signal-delivered", "pending", .kind = what->kind, .number = number, .worker = "w");
}

static void what_a_holder_answers_is_told_without_the_texts(void **state)
{
    (void)state;
    struct told told, *t = &told;
    begin(t);
    hold(t);
    was_sent(t, &steer, 1);
    settle(t, 1, 0, "swordfish is set");
    COMES("signal-acked", "acked", "steer", .number = 1, .worker = "w");
    was_sent(t, &steer, 2);
    settle(t, 2, 1, "not-listening");
    COMES("signal-ended", "declined", "steer", "not-listening", "w", 2);
    was_sent(t, &steer, 3);
    FINE(sluice_signal_withdraw(t->rig.s, "tasks", t->signal, t->id, NULL, &error));
    COMES("signal-ended", "withdrawn", "steer", .number = 3);
    nothing_comes(t);
    end(t);
}

static void a_signal_that_no_holder_ends_is_told(void **state)
{
    (void)state;
    struct told told, *t = &told;
    begin(t);
    hold(t);
    const char *token[] = {t->held->messages[0].token};
    struct sluice_signal brief = ask;
    brief.ttl_ms = 1;
    was_sent(t, &brief, 1);
    struct sluice_event e = {.type = "lock-renewed", .status = ""};
    for (int64_t give_up = clock_boot_ms() + PATIENCE_MS; is(&e, "lock-renewed", ""); e = next(t)) {
        assert_true(clock_boot_ms() < give_up);
        FINE(sluice_renew(t->rig.s, "tasks", token, 1, 60000, NULL, &error));
    }
    assert_true(is(&e, "signal-ended", "expired")); // told with the next entry
    assert_string_equal(e.signal, t->signal);
    assert_string_equal(next(t).type, "lock-renewed");
    was_sent(t, &ask, 2);
    FINE(sluice_ack(t->rig.s, "tasks", token, 1, NULL, &error));
    int missed = 0, processed = 0;
    for (int i = 0; i < 2; i++) {
        e = next(t);
        missed += is(&e, "signal-ended", "missed");
        processed += is(&e, "message-outcome", "processed");
    }
    assert_true(missed == 1 && processed == 1);
    end(t);
}

static void an_interrupt_that_needs_no_holder_is_told_with_its_reason(void **state)
{
    (void)state;
    struct told told, *t = &told;
    begin(t);
    send_signal(t, (struct sluice_signal){.kind = "interrupt", .reason = "not needed"});
    COMES("signal-sent", "applied", .kind = "interrupt", .reason = "not needed");
    COMES("signal-ended", "applied", .kind = "interrupt");
    COMES("message-outcome", "cancelled", .reason = "not needed");
    state_is(t->rig.s, t->id, "cancelled");
    nothing_comes(t);
    end(t);
}

static void an_interrupted_job_is_told_as_cancelled(void **state)
{
    (void)state;
    struct told told, *t = &told;
    begin(t);
    hold(t);
    const char *token[] = {t->held->messages[0].token};
    send_signal(t, (struct sluice_signal){.kind = "interrupt", .reason = "too slow"});
    COMES("signal-sent", "pending", .kind = "interrupt", .reason = "too slow", .number = 1);
    COMES("signal-delivered", "pending", .kind = "interrupt", .number = 1, .worker = "w");
    settle(t, 1, 0, "");
    COMES("signal-acked", "acked", "interrupt", .number = 1, .worker = "w");
    FINE(sluice_fail(t->rig.s, "tasks", token, 1, "stopped", NULL, &error));
    struct sluice_event e = next(t);
    assert_true(is(&e, "message-outcome", "cancelled"));
    assert_string_equal(e.worker, "w");
    nothing_comes(t);
    end(t);
}

static void a_cancelled_message_is_told(void **state)
{
    (void)state;
    struct told told, *t = &told;
    begin(t);
    const char *ids[] = {t->id};
    FINE(sluice_cancel(t->rig.s, "tasks", ids, 1, "by hand", NULL, &error));
    COMES("message-outcome", "cancelled", .reason = "by hand");
    nothing_comes(t);
    struct sluice_stats s = stats(t->rig.s);
    assert_int_equal(s.sent, s.ready + s.delayed + s.locked + s.processed + s.dead + s.outbound +
                                 s.moved + s.redriven + s.purged + s.cancelled);
    assert_int_equal(s.cancelled, 1);
    end(t);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    backend = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_holder_answers_is_told_without_the_texts),
        cmocka_unit_test(a_signal_that_no_holder_ends_is_told),
        cmocka_unit_test(an_interrupt_that_needs_no_holder_is_told_with_its_reason),
        cmocka_unit_test(an_interrupted_job_is_told_as_cancelled),
        cmocka_unit_test(a_cancelled_message_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
