// SPDX-License-Identifier: Apache-2.0
// Signals to messages, workflows and workers: sending, listing, answering and withdrawing them.
#include "acting_rig.h"

#include <stdlib.h>

#define STEER "{\"speed\": 2}"

static struct sluice_signal steer(const char *const *ids, size_t len)
{
    return (struct sluice_signal){.kind = "steer",
                                  .ids = ids,
                                  .ids_len = len,
                                  .payload = STEER,
                                  .payload_len = strlen(STEER)};
}

static struct sluice_signals *signals_of(struct sluice *s, const char *message)
{
    struct sluice_signals *list;
    FINE(sluice_signals(s, "tasks", message, 0, &list, &error));
    return list;
}

// One message that worker "w" holds.
static struct sluice_batch *hold_one(struct sluice *s, char id[SLUICE_ID_MAX])
{
    send_text(s, "work", id);
    struct sluice_batch *b = receive(s, "w", 1);
    assert_int_equal(b->len, 1);
    assert_string_equal(b->messages[0].id, id);
    return b;
}

static void a_steer_is_pending_and_its_answer_reaches_the_sender(void **state)
{
    (void)state;
    struct rig r;
    char id[SLUICE_ID_MAX];
    rig_queue(&r, NULL, 0);
    struct sluice_batch *b = hold_one(r.s, id);
    const char *ids[] = {id};
    struct sluice_signal what = steer(ids, 1);
    struct sluice_signals *sent, *list;
    FINE(sluice_signal(r.s, "tasks", &what, NULL, &sent, &error));
    assert_int_equal(sent->len, 1);
    assert_int_equal(strlen(sent->id), 32);
    assert_string_equal(sent->rows[0].id, sent->id);
    assert_string_equal(sent->rows[0].message, id);
    assert_string_equal(sent->rows[0].state, "pending");
    assert_int_equal(sent->rows[0].number, 1);
    list = signals_of(r.s, id);
    assert_int_equal(list->len, 1);
    assert_string_equal(list->rows[0].kind, "steer");
    assert_int_equal(list->rows[0].deliveries, 1);
    assert_int_equal(list->rows[0].payload_len, strlen(STEER));
    assert_memory_equal(list->rows[0].payload, STEER, strlen(STEER));
    sluice_signals_free(list);
    assert_int_equal(stats(r.s).signals, 1);
    struct sluice_signal_answer answer = {
        .token = b->messages[0].token, .number = 1, .answer = "fine\0\xff", .answer_len = 6};
    struct sluice_outcome o;
    FINE(sluice_signals_ack(r.s, "tasks", &answer, 1, &o, &error));
    assert_string_equal(o.status, "acked");
    list = signals_of(r.s, id);
    assert_string_equal(list->rows[0].state, "acked");
    assert_int_equal(list->rows[0].answer_len, 6);
    assert_memory_equal(list->rows[0].answer, "fine\0\xff", 6);
    assert_true(list->rows[0].ended_at > 0);
    sluice_signals_free(list);
    sluice_signals_free(sent);
    sluice_batch_free(b);
    rig_close(&r);
}

static void show_has_the_signals_of_the_message(void **state)
{
    (void)state;
    struct rig r;
    char id[SLUICE_ID_MAX];
    rig_queue(&r, NULL, 0);
    struct sluice_batch *b = hold_one(r.s, id), *shown = show(r.s, id);
    assert_int_equal(shown->messages[0].signals_len, 0);
    sluice_batch_free(shown);
    const char *ids[] = {id}, *token = b->messages[0].token;
    struct sluice_signal what = steer(ids, 1);
    for (int i = 0; i < 2; i++)
        FINE(sluice_signal(r.s, "tasks", &what, NULL, NULL, &error));
    struct sluice_signal_answer answer = {
        .token = token, .number = 1, .answer = "\xff\0", .answer_len = 2};
    FINE(sluice_signals_ack(r.s, "tasks", &answer, 1, NULL, &error));
    shown = show(r.s, id);
    const struct sluice_signal_state *rows = shown->messages[0].signals;
    assert_int_equal(shown->messages[0].signals_len, 2);
    assert_int_equal(rows[0].number, 2);
    assert_string_equal(rows[0].state, "pending");
    assert_string_equal(rows[0].message, id);
    assert_int_equal(rows[0].deliveries, 1);
    assert_memory_equal(rows[0].payload, STEER, sizeof STEER);
    assert_int_equal(rows[1].number, 1);
    assert_string_equal(rows[1].state, "acked");
    assert_true(rows[1].ended_at >= rows[1].sent_at);
    assert_int_equal(rows[1].answer_len, 2);
    assert_memory_equal(rows[1].answer, "\xff\0", 3);
    sluice_batch_free(shown);
    FINE(sluice_ack(r.s, "tasks", &token, 1, NULL, &error));
    shown = show(r.s, id); // a finished message has no pending one
    assert_int_equal(shown->messages[0].signals_len, 2);
    assert_string_equal(shown->messages[0].signals[0].state, "missed");
    assert_string_equal(shown->messages[0].signals[1].state, "acked");
    sluice_batch_free(shown);
    sluice_batch_free(b);
    rig_close(&r);
}

static void show_has_texts_of_signals_up_to_a_limit(void **state)
{
    (void)state;
    struct rig r;
    char id[SLUICE_ID_MAX];
    enum { SENT = 20 }; // of 64 KiB each: more than 1 MiB
    rig_queue(&r, NULL, 0);
    sluice_batch_free(hold_one(r.s, id));
    const char *ids[] = {id};
    char *text = calloc(1, SLUICE_SIGNAL_PAYLOAD_MAX);
    struct sluice_signal what = {.kind = "ask",
                                 .ids = ids,
                                 .ids_len = 1,
                                 .payload = memset(text, 'x', SLUICE_SIGNAL_PAYLOAD_MAX),
                                 .payload_len = SLUICE_SIGNAL_PAYLOAD_MAX};
    for (int i = 0; i < SENT; i++)
        FINE(sluice_signal(r.s, "tasks", &what, NULL, NULL, &error));
    struct sluice_batch *shown = show(r.s, id);
    assert_int_equal(shown->messages[0].signals_len, SENT);
    for (int i = 0; i < SENT; i++)
        assert_int_equal(shown->messages[0].signals[i].payload != NULL, i < 16);
    sluice_batch_free(shown);
    free(text);
    rig_close(&r);
}

static void the_same_id_is_one_signal(void **state)
{
    (void)state;
    struct rig r;
    char id[SLUICE_ID_MAX];
    rig_queue(&r, NULL, 0);
    struct sluice_batch *b = hold_one(r.s, id);
    const char *ids[] = {id};
    struct sluice_signal what = steer(ids, 1);
    struct sluice_request request = {{7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
    for (int i = 0; i < 2; i++) {
        struct sluice_signals *sent;
        FINE(sluice_signal(r.s, "tasks", &what, &request, &sent, &error));
        assert_string_equal(sent->id, "070102030405060708090a0b0c0d0e0f");
        assert_int_equal(sent->rows[0].number, 1);
        sluice_signals_free(sent);
    }
    assert_int_equal(stats(r.s).signals, 1);
    sluice_batch_free(b);
    rig_close(&r);
}

static void answers_are_taken_once_in_order_and_from_the_holder(void **state)
{
    (void)state;
    struct rig r;
    char id[SLUICE_ID_MAX];
    struct sluice_error e;
    struct sluice_outcome o[3];
    rig_queue(&r, NULL, 0);
    struct sluice_batch *b = hold_one(r.s, id);
    const char *ids[] = {id}, *token = b->messages[0].token;
    struct sluice_signal what = steer(ids, 1);
    for (int i = 0; i < 2; i++)
        FINE(sluice_signal(r.s, "tasks", &what, NULL, NULL, &error));
    struct sluice_signal_answer second = {.token = token, .number = 2};
    assert_int_equal(sluice_signals_ack(r.s, "tasks", &second, 1, o, &e), SLUICE_CONFLICT);
    assert_string_equal(o[0].reason, "signal-order");
    struct sluice_signal_answer never = {.token = token, .number = 9};
    assert_int_equal(sluice_signals_ack(r.s, "tasks", &never, 1, o, &e), SLUICE_NOT_FOUND);
    assert_non_null(strstr(e.message, "signal 9 was never delivered"));
    struct sluice_signal_answer all[] = {
        {.token = token, .number = 1},
        {.token = token, .number = 2, .decline = 1, .answer = "busy", .answer_len = 4},
        {.token = "nonsense", .number = 1}};
    assert_int_equal(sluice_signals_ack(r.s, "tasks", all, 3, o, &e), SLUICE_INVALID);
    assert_string_equal(o[0].status, "acked");
    assert_string_equal(o[1].status, "declined");
    assert_int_equal(o[2].code, SLUICE_INVALID);
    assert_int_equal(sluice_signals_ack(r.s, "tasks", all, 1, o, &e), SLUICE_CONFLICT);
    assert_string_equal(o[0].reason, "signal-settled");
    struct sluice_signals *list = signals_of(r.s, id);
    assert_int_equal(list->len, 2); // the newest end first
    assert_string_equal(list->rows[0].state, "declined");
    assert_memory_equal(list->rows[0].answer, "busy", 4);
    sluice_signals_free(list);
    FINE(sluice_release(r.s, "tasks", &token, 1, 0, NULL, &error));
    assert_int_equal(sluice_signals_ack(r.s, "tasks", all, 1, o, &e), SLUICE_FENCED);
    sluice_batch_free(b);
    rig_close(&r);
}

static void an_interrupt_ends_a_running_message_and_keeps_its_reason(void **state)
{
    (void)state;
    struct rig r;
    char id[SLUICE_ID_MAX];
    struct sluice_outcome o;
    rig_queue(&r, NULL, 0);
    struct sluice_batch *b = hold_one(r.s, id);
    const char *ids[] = {id}, *token = b->messages[0].token;
    struct sluice_signal what = {
        .kind = "interrupt", .ids = ids, .ids_len = 1, .reason = "stop it", .grace_ms = 20000};
    struct sluice_signals *sent;
    FINE(sluice_signal(r.s, "tasks", &what, NULL, &sent, &error));
    assert_true(sent->rows[0].until > 0);
    sluice_signals_free(sent);
    struct sluice_signals *list = signals_of(r.s, id);
    assert_memory_equal(list->rows[0].payload, "stop it", 7);
    sluice_signals_free(list);
    FINE(sluice_fail(r.s, "tasks", &token, 1, "stopped", &o, &error));
    assert_string_equal(o.status, "cancelled");
    state_is(r.s, id, "cancelled");
    sluice_batch_free(b);
    b = hold_one(r.s, id);
    what.now = 1;
    what.grace_ms = 0;
    FINE(sluice_signal(r.s, "tasks", &what, NULL, &sent, &error));
    assert_string_equal(sent->rows[0].state, "applied");
    sluice_signals_free(sent);
    state_is(r.s, id, "cancelled");
    assert_int_equal(stats(r.s).cancelled, 2);
    sluice_batch_free(b);
    rig_close(&r);
}

static void a_signal_is_withdrawn_while_it_is_pending(void **state)
{
    (void)state;
    struct rig r;
    char id[SLUICE_ID_MAX];
    struct sluice_error e;
    rig_queue(&r, NULL, 0);
    send_text(r.s, "x", id);
    const char *ids[] = {id};
    struct sluice_signal what = steer(ids, 1);
    struct sluice_signals *sent, *gone;
    for (int whole = 0; whole < 2; whole++) {
        const char *message = whole ? NULL : id;
        FINE(sluice_signal(r.s, "tasks", &what, NULL, &sent, &error));
        FINE(sluice_signal_withdraw(r.s, "tasks", sent->id, message, &gone, &error));
        assert_int_equal(gone->len, 1);
        assert_string_equal(gone->rows[0].state, "withdrawn");
        sluice_signals_free(gone);
        assert_int_equal(sluice_signal_withdraw(r.s, "tasks", sent->id, message, NULL, &e),
                         SLUICE_CONFLICT);
        assert_string_equal(e.reason, "signal-settled");
        sluice_signals_free(sent);
    }
    assert_int_equal(
        sluice_signal_withdraw(r.s, "tasks", "00112233445566778899aabbccddeeff", NULL, NULL, &e),
        SLUICE_NOT_FOUND);
    assert_string_equal(e.reason, "unknown-signal");
    assert_int_equal(sluice_signal_withdraw(r.s, "tasks", "me", id, NULL, &e), SLUICE_INVALID);
    assert_string_equal(e.field, "signal");
    rig_close(&r);
}

static const struct sluice_setting sharded[] = {{"shards", "3"}};

static void a_worker_and_a_workflow_are_reached_in_every_shard(void **state)
{
    (void)state;
    enum { COUNT = 12 };
    struct rig r;
    struct sluice_error e;
    char id[SLUICE_ID_MAX];
    rig_queue(&r, sharded, 1);
    for (int i = 0; i < COUNT; i++) {
        char group[8];
        (void)snprintf(group, sizeof group, "g%d", i);
        send_one(r.s, &(struct sluice_send){.body = "x", .body_len = 1, .group = group}, id);
    }
    size_t held = 0;
    while (held < COUNT) {
        struct sluice_batch *b = receive(r.s, "w", COUNT);
        assert_true(b->len > 0);
        held += b->len;
        sluice_batch_free(b);
    }
    struct sluice_signals *sent;
    struct sluice_signal what = {
        .kind = "ask", .worker = "w", .payload = "how far?", .payload_len = 8};
    FINE(sluice_signal(r.s, "tasks", &what, NULL, &sent, &error));
    assert_int_equal(sent->len, COUNT);
    for (size_t i = 0; i < sent->len; i++)
        assert_string_equal(sent->rows[i].state, "pending");
    struct sluice_signals *gone;
    FINE(sluice_signal_withdraw(r.s, "tasks", sent->id, NULL, &gone, &error));
    assert_int_equal(gone->len, COUNT);
    sluice_signals_free(gone);
    sluice_signals_free(sent);
    what.worker = "another";
    assert_int_equal(sluice_signal(r.s, "tasks", &what, NULL, NULL, &e), SLUICE_NOT_FOUND);
    assert_string_equal(e.reason, "unknown-worker");
    for (int i = 0; i < 2; i++)
        send_one(r.s, &(struct sluice_send){.body = "y", .body_len = 1, .workflow = "order-7"}, id);
    what = (struct sluice_signal){.kind = "interrupt", .workflow = "order-7"};
    FINE(sluice_signal(r.s, "tasks", &what, NULL, &sent, &error));
    assert_int_equal(sent->len, 2);
    assert_string_equal(sent->rows[1].state, "applied");
    sluice_signals_free(sent);
    what.workflow = "order-8";
    assert_int_equal(sluice_signal(r.s, "tasks", &what, NULL, NULL, &e), SLUICE_NOT_FOUND);
    assert_string_equal(e.reason, "unknown-workflow");
    rig_close(&r);
}

static void each_refusal_has_its_row_and_the_others_are_sent(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_error e;
    char done[SLUICE_ID_MAX], ready[SLUICE_ID_MAX], never[SLUICE_ID_MAX];
    rig_queue(&r, NULL, 0);
    struct sluice_batch *b = hold_one(r.s, done);
    const char *token = b->messages[0].token;
    FINE(sluice_ack(r.s, "tasks", &token, 1, NULL, &error));
    sluice_batch_free(b);
    send_text(r.s, "waits", ready);
    (void)snprintf(never, sizeof never, "%.8s-0-999", done);
    const char *ids[] = {done, ready, never, "00000000-0-1"};
    static const char *const reasons[] = {"terminal", "", "unknown-message", "foreign-queue"};
    struct sluice_signal what = steer(ids, 4);
    struct sluice_signals *sent;
    assert_int_not_equal(sluice_signal(r.s, "tasks", &what, NULL, &sent, &e), SLUICE_OK);
    assert_int_equal(sent->len, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(sent->rows[i].message, ids[i]);
        assert_string_equal(sent->rows[i].reason, reasons[i]);
    }
    assert_string_equal(sent->rows[1].state, "pending");
    sluice_signals_free(sent);
    what = steer(ids + 1, 1);
    what.when_idle = "refuse";
    assert_int_equal(sluice_signal(r.s, "tasks", &what, NULL, NULL, &e), SLUICE_CONFLICT);
    assert_string_equal(e.reason, "not-running");
    rig_close(&r);
}

static void bad_input_is_refused_with_its_field(void **state)
{
    (void)state;
    static char large[(64 << 10) + 1];
    static const char *const ids[] = {"00000000-0-1"};
    const int64_t day = INT64_C(24) * 3600 * 1000;
    memset(large, 'x', sizeof large);
    const struct {
        struct sluice_signal what;
        const char *field;
        const char *text;
    } cases[] = {
        {{.kind = NULL, .ids = ids, .ids_len = 1}, "kind", "kind is missing"},
        {{.kind = "stop", .ids = ids, .ids_len = 1}, "kind", "\"stop\" is not one of steer"},
        {{.kind = "steer", .ids = ids, .ids_len = 1}, "payload", "must be a JSON object"},
        {{.kind = "steer", .ids = ids, .ids_len = 1, .payload = "[1]", .payload_len = 3},
         "payload",
         "must be a JSON object"},
        {{.kind = "ask", .ids = ids, .ids_len = 1, .payload = large, .payload_len = sizeof large},
         "payload",
         "payload has 65537 bytes; at most 65536"},
        {{.kind = "ask", .ids = ids, .ids_len = 1, .ttl_ms = -1}, "ttl", "not -1ms"},
        {{.kind = "ask", .ids = ids, .ids_len = 1, .ttl_ms = 7 * day + 1}, "ttl", "between 1ms"},
        {{.kind = "ask", .ids = ids, .ids_len = 1, .grace_ms = 5}, "grace", "is not for"},
        {{.kind = "ask", .ids = ids, .ids_len = 1, .then = "retry"}, "then", "is not for"},
        {{.kind = "ask", .ids = ids, .ids_len = 1, .when_idle = "x"}, "whenIdle", "wait, refuse"},
        {{.kind = "ask", .ids = ids, .ids_len = 1, .on_lock_end = "x"}, "onLockEnd", "sticky"},
        {{.kind = "interrupt", .ids = ids, .ids_len = 1, .payload = "x", .payload_len = 1},
         "payload",
         "is not for"},
        {{.kind = "interrupt", .ids = ids, .ids_len = 1, .ttl_ms = 1}, "ttl", "is not for"},
        {{.kind = "interrupt", .ids = ids, .ids_len = 1, .grace_ms = day + 1}, "grace", "24h"},
        {{.kind = "interrupt", .ids = ids, .ids_len = 1, .grace_ms = 1, .now = 1},
         "now",
         "now or grace"},
        {{.kind = "interrupt", .ids = ids, .ids_len = 1, .then = "x"}, "then", "dead-letter"},
        {{.kind = "interrupt"}, "target", "no target"},
        {{.kind = "interrupt", .ids = ids, .ids_len = 1, .worker = "w"}, "target", "2 targets"},
    };
    struct rig r;
    rig_queue(&r, NULL, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sluice_error e = {.message = ""};
        struct sluice_signals *out;
        assert_int_equal(sluice_signal(r.s, "tasks", &cases[i].what, NULL, &out, &e),
                         SLUICE_INVALID);
        assert_null(out);
        assert_string_equal(e.field, cases[i].field);
        if (!strstr(e.message, cases[i].text)) fail_msg("case %zu: %s", i, e.message);
    }
    static char answer[(256 << 10) + 1];
    struct sluice_error e;
    struct sluice_signal_answer big = {
        .token = "x", .number = 1, .answer = answer, .answer_len = sizeof answer};
    assert_int_equal(sluice_signals_ack(r.s, "tasks", &big, 1, NULL, &e), SLUICE_INVALID);
    assert_string_equal(e.field, "answer");
    assert_int_equal(sluice_signal_withdraw(r.s, "tasks", "", NULL, NULL, &e), SLUICE_INVALID);
    assert_string_equal(e.field, "signal");
    assert_non_null(strstr(e.message, "signal is missing"));
    rig_close(&r);
}

// The next event of this type; `id` and the like are valid until the next call.
static struct sluice_event event_of(struct sluice_events *events, const char *type)
{
    struct sluice_event e;
    do
        FINE(sluice_events_next(events, DEADLINE_MS, &e, &error));
    while (strcmp(e.type, type) != 0);
    return e;
}

static void every_step_of_a_signal_is_an_event(void **state)
{
    (void)state;
    struct rig r;
    char id[SLUICE_ID_MAX];
    struct sluice_signals *sent;
    struct sluice_events *events;
    rig_queue(&r, NULL, 0);
    struct sluice_batch *b = hold_one(r.s, id);
    const char *ids[] = {id}, *token = b->messages[0].token;
    struct sluice_signal what = steer(ids, 1);
    FINE(sluice_signal(r.s, "tasks", &what, NULL, &sent, &error));
    struct sluice_signal_answer answer = {.token = token, .number = 1};
    FINE(sluice_signals_ack(r.s, "tasks", &answer, 1, NULL, &error));
    what = (struct sluice_signal){
        .kind = "interrupt", .ids = ids, .ids_len = 1, .now = 1, .reason = "enough"};
    FINE(sluice_signal(r.s, "tasks", &what, NULL, NULL, &error));
    FINE(sluice_events_open(r.s, "tasks", 0, &events, &error));
    static const char *const types[] = {"signal-sent", "signal-delivered", "signal-acked"};
    static const char *const states[] = {"pending", "pending", "acked"};
    for (size_t i = 0; i < 3; i++) {
        struct sluice_event e = event_of(events, types[i]);
        assert_string_equal(e.message, id);
        assert_string_equal(e.signal, sent->id);
        assert_string_equal(e.signal_kind, "steer");
        assert_string_equal(e.status, states[i]);
        assert_int_equal(e.count, 1);
    }
    struct sluice_event e = event_of(events, "signal-ended");
    assert_string_equal(e.status, "applied");
    assert_string_equal(e.signal_kind, "interrupt");
    e = event_of(events, "message-outcome");
    assert_string_equal(e.status, "cancelled");
    assert_string_equal(e.reason, "enough");
    assert_string_equal(e.signal, "");
    sluice_events_close(events);
    sluice_signals_free(sent);
    sluice_batch_free(b);
    rig_close(&r);
}

// A workflow with more messages than one op has.
static void a_signal_reaches_every_message_of_a_large_workflow(void **state)
{
    (void)state;
    enum { MESSAGES = 20001, BATCH = 10000 };
    static struct sluice_send rows[BATCH];
    struct rig r;
    struct sluice_signals *list, *again;
    rig_queue(&r, NULL, 0);
    for (size_t i = 0; i < BATCH; i++)
        rows[i] = (struct sluice_send){.body = "x", .body_len = 1, .workflow = "large"};
    for (size_t left = MESSAGES, len; left > 0; left -= len) {
        len = left < BATCH ? left : BATCH;
        FINE(sluice_send(r.s, "tasks", rows, len, NULL, NULL, &error));
    }
    struct sluice_request id = {{7}};
    struct sluice_signal what = {.kind = "ask", .workflow = "large"};
    FINE(sluice_signal(r.s, "tasks", &what, &id, &list, &error));
    assert_int_equal(list->len, MESSAGES);
    for (size_t i = 0; i < list->len; i++)
        assert_string_equal(list->rows[i].state, "pending");
    assert_int_equal(stats(r.s).signals, MESSAGES);
    FINE(sluice_signal(r.s, "tasks", &what, &id, &again, &error)); // one signal
    assert_int_equal(again->len, MESSAGES);
    assert_int_equal(stats(r.s).signals, MESSAGES);
    sluice_signals_free(again);
    FINE(sluice_signal_wait(r.s, "tasks", list->id, NULL, 0, &again, &error));
    assert_int_equal(again->len, MESSAGES);
    sluice_signals_free(again);
    FINE(sluice_signal_withdraw(r.s, "tasks", list->id, NULL, &again, &error));
    assert_int_equal(again->len, MESSAGES);
    assert_int_equal(stats(r.s).signals, 0);
    sluice_signals_free(again);
    sluice_signals_free(list);
    rig_close(&r);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    backend = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steer_is_pending_and_its_answer_reaches_the_sender),
        cmocka_unit_test(show_has_the_signals_of_the_message),
        cmocka_unit_test(show_has_texts_of_signals_up_to_a_limit),
        cmocka_unit_test(the_same_id_is_one_signal),
        cmocka_unit_test(answers_are_taken_once_in_order_and_from_the_holder),
        cmocka_unit_test(an_interrupt_ends_a_running_message_and_keeps_its_reason),
        cmocka_unit_test(a_signal_is_withdrawn_while_it_is_pending),
        cmocka_unit_test(a_worker_and_a_workflow_are_reached_in_every_shard),
        cmocka_unit_test(a_signal_reaches_every_message_of_a_large_workflow),
        cmocka_unit_test(each_refusal_has_its_row_and_the_others_are_sent),
        cmocka_unit_test(every_step_of_a_signal_is_an_event),
        cmocka_unit_test(bad_input_is_refused_with_its_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
