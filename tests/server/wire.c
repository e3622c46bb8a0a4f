// SPDX-License-Identifier: Apache-2.0
// The compact encoding: what goes in comes out, and nothing cut short or lied about does.
#include "protocol/wire.h"
#include "../unit/unit.h"

#include <string.h>

#define BYTES_MAX 65536

static struct settle_lists none; // a receive without results
static const struct sluice_header headers[] = {{"colour", "green"}, {"empty", ""}};
static const struct sluice_send sends[] = {
    {.body = "a\0b",
     .body_len = 3,
     .group = "g",
     .dedup = "d",
     .content_type = "text/plain",
     .workflow = "w",
     .priority = 7,
     .delay_ms = 1500,
     .headers = headers,
     .headers_len = 2},
    {.due = INT64_C(1900000000000)},
    {.body = "", .headers = headers + 1, .headers_len = 1},
};
static const struct sluice_message messages[] = {
    {.id = "3f9a01cc-0-17",
     .token = "3f9a01cc-0-17-00112233445566778899aabbccddeeff",
     .state = "locked",
     .body = "\xff\0\1",
     .body_len = 3,
     .group = "g",
     .dedup = "d",
     .content_type = "c",
     .workflow = "w",
     .worker = "me",
     .headers = headers,
     .headers_len = 2,
     .priority = 9,
     .attempt = 2,
     .retries = 1,
     .fence = UINT64_MAX,
     .lease_ms = 29999,
     .deadline = 5,
     .sent_at = -1,
     .order = 7,
     .from = {.queue = "tasks", .id = "00112233-0-5", .reason = "no", .retries = 3, .died_at = 8}},
    {.id = "3f9a01cc-0-18", .state = "ready"},
};

static void sends_come_out_as_they_went_in(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, BYTES_MAX);
    wire_put_sends(&b, sends, 3);
    struct wire_sends out;
    assert_true(wire_read_sends(buf_bytes(&b), &out));
    assert_int_equal(out.len, 3);
    const struct sluice_send *m = &out.messages[0];
    assert_int_equal(m->body_len, 3);
    assert_memory_equal(m->body, "a\0b", 4);
    assert_string_equal(m->group, "g");
    assert_string_equal(m->dedup, "d");
    assert_string_equal(m->content_type, "text/plain");
    assert_string_equal(m->workflow, "w");
    assert_int_equal(m->priority, 7);
    assert_int_equal(m->delay_ms, 1500);
    assert_int_equal(m->headers_len, 2);
    assert_string_equal(m->headers[0].name, "colour");
    assert_string_equal(m->headers[0].value, "green");
    assert_int_equal(out.messages[1].due, sends[1].due);
    assert_int_equal(out.messages[2].headers_len, 1);
    assert_string_equal(out.messages[2].headers[0].name, "empty");
    wire_sends_done(&out);
}

static void a_batch_comes_out_as_it_went_in_and_owns_its_memory(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, BYTES_MAX);
    struct sluice_message copy[2] = {messages[0], messages[1]};
    wire_put_batch(&b, &(struct sluice_batch){copy, 2});
    struct sluice_batch *out;
    assert_true(wire_read_batch(buf_bytes(&b), &out));
    memset(b.data, 0xaa, b.len);
    buf_done(&b);
    assert_int_equal(out->len, 2);
    const struct sluice_message *m = &out->messages[0];
    assert_string_equal(m->id, messages[0].id);
    assert_string_equal(m->token, messages[0].token);
    assert_string_equal(m->state, "locked");
    assert_memory_equal(m->body, "\xff\0\1", 4);
    assert_string_equal(m->worker, "me");
    assert_string_equal(m->headers[1].name, "empty");
    assert_int_equal(m->priority, 9);
    assert_int_equal(m->attempt, 2);
    assert_int_equal(m->retries, 1);
    assert_true(m->fence == UINT64_MAX);
    assert_int_equal(m->lease_ms, 29999);
    assert_int_equal(m->sent_at, -1);
    assert_int_equal(m->order, 7);
    assert_string_equal(m->from.queue, "tasks");
    assert_string_equal(m->from.id, "00112233-0-5");
    assert_string_equal(m->from.reason, "no");
    assert_int_equal(m->from.retries, 3);
    assert_int_equal(m->from.died_at, 8);
    assert_string_equal(out->messages[1].from.queue, ""); // it is no dead letter
    assert_string_equal(out->messages[1].group, "");
    assert_int_equal(out->messages[1].body_len, 0);
    sluice_batch_free(out);
}

static const struct sluice_failure failures[] = {
    {.attempt = 1, .at = 7, .worker = "one", .reason = "no disk", .kind = "failed"},
    {.attempt = 2, .at = 8, .worker = "", .reason = NULL, .kind = "failed"},
    {.attempt = 3, .at = 9, .worker = "x", .reason = "lock-expired", .kind = "lock-expired"},
};

// Writes and reads a batch with all that a look tells. No cut is taken for it.
static struct sluice_batch *looked_at(const struct sluice_batch *batch)
{
    struct buf b;
    struct sluice_batch *out;
    buf_init(&b, BYTES_MAX);
    wire_put_looked(&b, batch);
    for (size_t len = 0; len < b.len; len++)
        assert_false(wire_read_looked(bytes_of(b.data, len), &out));
    assert_false(wire_read_batch(buf_bytes(&b), &out)); // it was not asked for
    assert_true(wire_read_looked(buf_bytes(&b), &out));
    memset(b.data, 0xaa, b.len); // the batch owns its memory
    buf_done(&b);
    assert_int_equal(out->len, batch->len);
    return out;
}

static void failures_come_out_as_they_went_in(void **state)
{
    (void)state;
    struct sluice_message copy[2] = {messages[1], messages[0]};
    copy[1].failures = failures;
    copy[1].failures_len = 3;
    struct sluice_batch *out = looked_at(&(struct sluice_batch){copy, 2});
    assert_int_equal(out->messages[0].failures_len, 0);
    assert_int_equal(out->messages[1].failures_len, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct sluice_failure *f = &out->messages[1].failures[i];
        assert_int_equal(f->attempt, failures[i].attempt);
        assert_int_equal(f->at, failures[i].at);
        assert_string_equal(f->worker, failures[i].worker);
        assert_string_equal(f->kind, failures[i].kind);
        assert_int_equal(f->reason == NULL, failures[i].reason == NULL);
        if (f->reason) assert_string_equal(f->reason, failures[i].reason);
    }
    sluice_batch_free(out);
}

static void ends_come_out_as_they_went_in(void **state)
{
    (void)state;
    struct sluice_message copy[2] = {messages[1], messages[0]};
    copy[1].state = "processed";
    copy[1].finished_at = 1234567890123;
    copy[1].attempts = 7;
    struct sluice_batch *out = looked_at(&(struct sluice_batch){copy, 2});
    assert_int_equal(out->messages[0].finished_at, 0);
    assert_string_equal(out->messages[1].state, "processed");
    assert_int_equal(out->messages[1].finished_at, 1234567890123);
    assert_int_equal(out->messages[1].attempts, 7);
    sluice_batch_free(out);
}

static void answers_come_out_as_they_went_in(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, BYTES_MAX);
    struct sluice_error error = {
        .code = SLUICE_FENCED, .reason = "lock-expired", .message = "too late"};
    struct sluice_error first;
    struct sluice_sent sent[] = {{.id = "3f9a01cc-0-1", .duplicate = 1}, {.code = SLUICE_LIMIT}},
                       sent_out[2];
    wire_put_sent(&b, sent, 2, NULL);
    assert_true(wire_read_sent(buf_bytes(&b), sent_out, 2, &first));
    assert_int_equal(first.code, SLUICE_OK);
    assert_string_equal(sent_out[0].id, sent[0].id);
    assert_int_equal(sent_out[0].duplicate, 1);
    assert_int_equal(sent_out[1].code, SLUICE_LIMIT);
    assert_false(wire_read_sent(buf_bytes(&b), sent_out, 1, &first));

    buf_clear(&b);
    struct sluice_outcome rows[] = {
        {.status = "renewed", .until = 99},
        {.code = SLUICE_FENCED, .reason = "lock-expired", .status = ""}};
    struct sluice_outcome out[2] = {{.signals = 7}, {.signals = 7}};
    wire_put_outcomes(&b, rows, 2, &error);
    assert_true(wire_read_outcomes(buf_bytes(&b), out, 2, &first));
    assert_int_equal(out[1].signals, 0);
    assert_string_equal(out[0].status, "renewed");
    assert_int_equal(out[0].until, 99);
    assert_string_equal(out[1].reason, "lock-expired");
    assert_string_equal(first.message, "too late");
}

static void what_tokens_carry_comes_out_as_it_went_in(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "b"};
    static const struct sluice_ack acks[] = {
        {.result = "\xff\0", .result_len = 2, .content_type = "text/plain"}, {.token = "b"}};
    static const struct sluice_renewal renewals[] = {
        {.has_progress = 1, .percent = 100, .text = "done"}, {.token = "b"}};
    for (int kind = 0; kind < 3; kind++) {
        struct settle_in in = {.tokens = {tokens, 2}, .reason = ""}, out;
        struct settle_lists carried;
        CLEANUP(buf_done) struct buf b;
        buf_init(&b, BYTES_MAX);
        wire_put_settle(&b, &in, kind == 1 ? acks : NULL, kind == 2 ? renewals : NULL);
        for (size_t cut = 0; cut < b.len; cut++)
            assert_false(wire_read_settle(bytes_of(b.data, cut), &out, &carried));
        assert_true(wire_read_settle(buf_bytes(&b), &out, &carried));
        assert_int_equal(out.tokens.len, 2);
        assert_int_equal(carried.acks != NULL, kind == 1);
        assert_int_equal(carried.renewals != NULL, kind == 2);
        if (kind == 1) {
            assert_int_equal(carried.acks[0].result_len, 2);
            assert_memory_equal(carried.acks[0].result, "\xff\0", 2);
            assert_string_equal(carried.acks[0].content_type, "text/plain");
            assert_null(carried.acks[1].result);
        }
        if (kind == 2) {
            assert_int_equal(carried.renewals[0].percent, 100);
            assert_string_equal(carried.renewals[0].text, "done");
            assert_int_equal(carried.renewals[1].has_progress, 0);
        }
        compact_texts_done(&out.tokens);
        wire_carried_done(&carried);
    }
}

static void what_is_kept_comes_out_as_it_went_in(void **state)
{
    (void)state;
    struct sluice_message rows[2];
    memcpy(rows, messages, sizeof rows);
    rows[0].percent = 40;
    rows[0].progress = "page 4";
    rows[0].progress_at = 7;
    rows[1] = (struct sluice_message){.id = "3f9a01cc-0-18",
                                      .state = "processed",
                                      .finished_at = 5,
                                      .result = "42",
                                      .result_len = 2,
                                      .result_type = "text/plain",
                                      .reason = "why",
                                      .percent = -1};
    struct sluice_batch *out = looked_at(&(struct sluice_batch){.messages = rows, .len = 2});
    assert_int_equal(out->messages[0].percent, 40);
    assert_string_equal(out->messages[0].progress, "page 4");
    assert_int_equal(out->messages[0].progress_at, 7);
    assert_non_null(out->messages[0].body);
    assert_null(out->messages[0].result);
    assert_null(out->messages[1].body);
    assert_memory_equal(out->messages[1].result, "42", 2);
    assert_string_equal(out->messages[1].result_type, "text/plain");
    assert_string_equal(out->messages[1].reason, "why");
    assert_int_equal(out->messages[1].percent, -1);
    sluice_batch_free(out);
}

static void signals_of_a_shown_message_come_out_as_they_went_in(void **state)
{
    (void)state;
    static const struct sluice_signal_state rows[] = {
        {.number = 2, .kind = "steer", .state = "pending", .payload = "{}", .payload_len = 2},
        {.number = 1, .kind = "ask", .state = "acked", .answer = "\xff\0", .answer_len = 2}};
    struct sluice_message shown = messages[0];
    shown.signals = rows;
    shown.signals_len = 2;
    struct sluice_batch *out = looked_at(&(struct sluice_batch){.messages = &shown, .len = 1});
    assert_int_equal(out->messages[0].signals_len, 2);
    assert_int_equal(out->messages[0].signals[0].number, 2);
    assert_memory_equal(out->messages[0].signals[0].payload, "{}", 2);
    assert_memory_equal(out->messages[0].signals[1].answer, "\xff\0", 2);
    sluice_batch_free(out);
}

static void signals_come_out_as_they_went_in(void **state)
{
    (void)state;
    struct sluice_signal_state rows[] = {
        {.id = "00112233445566778899aabbccddeeff",
         .message = "3f9a01cc-0-17",
         .token = "3f9a01cc-0-17-00112233445566778899aabbccddeeff",
         .number = 3,
         .kind = "steer",
         .state = "pending",
         .deliveries = 2,
         .sent_at = 5,
         .until = 6,
         .payload = "{\"a\":1}",
         .payload_len = 7},
        {.kind = "ask", .state = "acked", .ended_at = 9, .answer = "\xff\0", .answer_len = 2},
        {.code = SLUICE_CONFLICT, .reason = "terminal", .kind = "interrupt", .state = ""}};
    struct sluice_signals list = {.id = "00112233445566778899aabbccddeeff", .rows = rows, .len = 3};
    struct sluice_error error = {.code = SLUICE_CONFLICT, .message = "too late"}, first;
    struct sluice_signals *out;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, BYTES_MAX);
    wire_put_signals(&b, &list, &error);
    for (size_t cut = 0; cut < b.len; cut++)
        assert_false(wire_read_signals(bytes_of(b.data, cut), &out, &first));
    assert_true(wire_read_signals(buf_bytes(&b), &out, &first));
    assert_string_equal(out->id, list.id);
    assert_int_equal(out->len, 3);
    assert_string_equal(out->rows[0].token, rows[0].token);
    assert_int_equal(out->rows[0].number, 3);
    assert_memory_equal(out->rows[0].payload, rows[0].payload, 7);
    assert_null(out->rows[0].answer);
    assert_int_equal(out->rows[1].answer_len, 2);
    assert_memory_equal(out->rows[1].answer, "\xff\0", 2);
    assert_string_equal(out->rows[2].reason, "terminal");
    assert_int_equal(first.code, SLUICE_CONFLICT);
    sluice_signals_free(out);
}

static void asks_come_out_as_they_went_in(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, BYTES_MAX);
    struct receive_in ask = {.worker = "w", .max = 7, .wait = 20000, .visibility = 5}, ask_out;
    wire_put_receive(&b, &ask, NULL);
    assert_true(wire_read_receive(buf_bytes(&b), &ask_out, &none));
    assert_string_equal(ask_out.worker, "w");
    assert_int_equal(ask_out.max, 7);
    assert_int_equal(ask_out.wait, 20000);
    assert_int_equal(ask_out.visibility, 5);
    buf_clear(&b);
    const char *tokens[] = {"one", "two"};
    struct settle_in settle = {.tokens = {tokens, 2}, .wait = 30, .reason = "why"}, settle_out;
    wire_put_settle(&b, &settle, NULL, NULL);
    assert_true(wire_read_settle(buf_bytes(&b), &settle_out, &none));
    assert_int_equal(settle_out.tokens.len, 2);
    assert_string_equal(settle_out.tokens.rows[1], "two");
    assert_string_equal(settle_out.reason, "why");
    assert_int_equal(settle_out.wait, 30);
    compact_texts_done(&settle_out.tokens);
}

static void a_receive_with_acks_comes_out_as_it_went_in(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, BYTES_MAX);
    struct receive_in ask = {.worker = "w", .max = 7}, ask_out;
    const char *tokens[] = {"one", "two"};
    wire_put_receive(&b, &ask, NULL);
    assert_true(wire_read_receive(buf_bytes(&b), &ask_out, &none));
    assert_int_equal(ask_out.acks.len, 0);
    buf_clear(&b);
    ask.acks = (struct field_texts){tokens, 2};
    wire_put_receive(&b, &ask, NULL);
    assert_true(wire_read_receive(buf_bytes(&b), &ask_out, &none));
    assert_int_equal(ask_out.max, 7);
    assert_int_equal(ask_out.acks.len, 2);
    assert_string_equal(ask_out.acks.rows[1], "two");
    compact_texts_done(&ask_out.acks);
    for (size_t len = 0; len < b.len; len++)
        assert_false(wire_read_receive(bytes_of(b.data, len), &ask_out, &none));
}

static void the_bytes_of_asks_stay_as_they_are(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, BYTES_MAX);
    const char *tokens[] = {"t"};
    struct receive_in ask = {
        .worker = "w", .max = 7, .wait = 3, .visibility = 5, .acks = {tokens, 1}};
    static const uint8_t receive[] = {1, 1, 0, 0, 0, 'w', 0, 7, 0, 0, 0, 3, 0, 0, 0, 0, 0,   0, 0,
                                      5, 0, 0, 0, 0, 0,   0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 't', 0, 0};
    wire_put_receive(&b, &ask, NULL);
    assert_true(bytes_equal(buf_bytes(&b), bytes_of(receive, sizeof receive)));
    buf_clear(&b);
    struct settle_in settle = {.tokens = {tokens, 1}, .wait = 3, .reason = "r"};
    static const uint8_t settled[] = {1,   3, 0, 0, 0, 0, 0, 0, 0, 1, 0,   0, 0,
                                      'r', 0, 1, 0, 0, 0, 1, 0, 0, 0, 't', 0, 0};
    wire_put_settle(&b, &settle, NULL, NULL);
    assert_true(bytes_equal(buf_bytes(&b), bytes_of(settled, sizeof settled)));
}

static void limits_of_the_table_hold_in_the_compact_encoding(void **state)
{
    (void)state;
    struct sluice_error error;
    char worker[200];
    memset(worker, 'w', sizeof worker);
    worker[sizeof worker - 1] = '\0';
    struct receive_in ask = {.wait = 20000};
    assert_int_equal(fields_check(&receive_fields, &ask, &error), SLUICE_OK);
    assert_int_equal(ask.max, 1); // the default
    ask.wait = 20001;
    assert_int_equal(fields_check(&receive_fields, &ask, &error), SLUICE_INVALID);
    assert_string_equal(error.field, "wait");
    assert_string_equal(error.message, "wait must be between 0ms and 20s, not 20001ms");
    ask = (struct receive_in){.max = 10001};
    assert_int_equal(fields_check(&receive_fields, &ask, &error), SLUICE_INVALID);
    assert_string_equal(error.message, "max must be between 1 and 10000, not 10001");
    ask = (struct receive_in){.worker = worker};
    assert_int_equal(fields_check(&receive_fields, &ask, &error), SLUICE_INVALID);
    assert_string_equal(error.message, "worker has 199 bytes; at most 128 are allowed");
    ask = (struct receive_in){.acks = {NULL, 10001}};
    assert_int_equal(fields_check(&receive_fields, &ask, &error), SLUICE_INVALID);
    assert_string_equal(error.message, "ack has 10001 items; at most 10000 are allowed");
    struct settle_in settle = {.wait = -1};
    assert_int_equal(fields_check(&ack_fields, &settle, &error), SLUICE_OK); // it has no wait
    assert_int_equal(fields_check(&release_fields, &settle, &error), SLUICE_INVALID);
    assert_string_equal(error.field, "delay");
}

static void a_message_may_have_as_many_headers_as_fit(void **state)
{
    (void)state;
    static struct sluice_header rows[7281]; // 9 bytes each in 64 KiB
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        rows[i] = (struct sluice_header){"n", ""};
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, SIZE_MAX);
    struct sluice_message message = messages[0];
    message.headers = rows;
    message.headers_len = sizeof rows / sizeof *rows;
    struct sluice_batch *out;
    wire_put_batch(&b, &(struct sluice_batch){&message, 1});
    assert_true(wire_read_batch(buf_bytes(&b), &out));
    assert_int_equal(out->messages[0].headers_len, message.headers_len);
    sluice_batch_free(out);
}

static void a_list_of_too_many_tokens_is_refused(void **state)
{
    (void)state;
    static const char *tokens[10001];
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, BYTES_MAX);
    struct settle_in in = {.tokens = {tokens, 10001}}, out;
    wire_put_settle(&b, &in, NULL, NULL);
    assert_false(wire_read_settle(buf_bytes(&b), &out, &none));
    buf_clear(&b);
    in.tokens.len = 10000;
    wire_put_settle(&b, &in, NULL, NULL);
    assert_true(wire_read_settle(buf_bytes(&b), &out, &none));
    assert_int_equal(out.tokens.len, 10000);
    compact_texts_done(&out.tokens);
}

static void its_answer_comes_out_as_it_went_in(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, BYTES_MAX);
    struct sluice_message copy[2] = {messages[0], messages[1]};
    struct sluice_outcome acked[] = {{.status = "processed"},
                                     {.code = SLUICE_CONFLICT, .status = ""}};
    struct sluice_outcome out[2] = {{.signals = 7}, {.signals = 7}};
    struct sluice_error error = {.code = SLUICE_LIMIT, .reason = "full"}, why;
    struct sluice_batch *batch;
    wire_put_batch(&b, &(struct sluice_batch){copy, 2});
    wire_put_outcomes(&b, acked, 2, &error);
    assert_true(wire_read_batch_acked(buf_bytes(&b), &batch, out, 2, &why));
    assert_int_equal(batch->len, 2);
    assert_int_equal(out[0].signals, 0);
    assert_string_equal(out[0].status, "processed");
    assert_int_equal(out[1].code, SLUICE_CONFLICT);
    assert_int_equal(why.code, SLUICE_LIMIT);
    assert_string_equal(why.reason, "full");
    sluice_batch_free(batch);
    assert_false(wire_read_batch(buf_bytes(&b), &batch));
    assert_false(wire_read_batch_acked(buf_bytes(&b), &batch, out, 1, &why));
    for (size_t len = 0; len < b.len; len++)
        assert_false(wire_read_batch_acked(bytes_of(b.data, len), &batch, out, 2, &why));
}

static void nothing_that_was_cut_short_is_read(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, BYTES_MAX);
    struct wire_sends some;
    struct sluice_batch *batch;
    wire_put_sends(&b, sends, 3);
    for (size_t len = 0; len < b.len; len++)
        assert_false(wire_read_sends(bytes_of(b.data, len), &some));
    buf_put_u8(&b, 0);
    assert_false(wire_read_sends(buf_bytes(&b), &some)); // one byte too many
    buf_clear(&b);
    struct sluice_message copy[2] = {messages[0], messages[1]};
    wire_put_batch(&b, &(struct sluice_batch){copy, 2});
    for (size_t len = 0; len < b.len; len++)
        assert_false(wire_read_batch(bytes_of(b.data, len), &batch));
}

static void a_count_that_cannot_be_is_refused_before_memory_is_taken(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, BYTES_MAX);
    struct wire_sends some;
    buf_put_u8(&b, 1);
    buf_put_u32(&b, UINT32_MAX);
    assert_false(wire_read_sends(buf_bytes(&b), &some));
    assert_null(some.messages);
}

static void a_text_with_a_zero_inside_is_refused(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, BYTES_MAX);
    struct receive_in out;
    buf_put_u8(&b, 1); // the version
    buf_put_sized(&b, bytes_of("a\0b", 3));
    buf_put_u8(&b, 0);
    buf_put_u32(&b, 1);
    buf_put_i64(&b, 0);
    buf_put_i64(&b, 0);
    buf_put_u32(&b, 0); // no acks
    buf_put_u8(&b, 0);
    assert_false(wire_read_receive(buf_bytes(&b), &out, &none));
    b.data[6] = 'x';
    assert_true(wire_read_receive(buf_bytes(&b), &out, &none));
    assert_string_equal(out.worker, "axb");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends_come_out_as_they_went_in),
        cmocka_unit_test(a_batch_comes_out_as_it_went_in_and_owns_its_memory),
        cmocka_unit_test(failures_come_out_as_they_went_in),
        cmocka_unit_test(ends_come_out_as_they_went_in),
        cmocka_unit_test(answers_come_out_as_they_went_in),
        cmocka_unit_test(what_tokens_carry_comes_out_as_it_went_in),
        cmocka_unit_test(what_is_kept_comes_out_as_it_went_in),
        cmocka_unit_test(signals_of_a_shown_message_come_out_as_they_went_in),
        cmocka_unit_test(signals_come_out_as_they_went_in),
        cmocka_unit_test(asks_come_out_as_they_went_in),
        cmocka_unit_test(a_receive_with_acks_comes_out_as_it_went_in),
        cmocka_unit_test(the_bytes_of_asks_stay_as_they_are),
        cmocka_unit_test(limits_of_the_table_hold_in_the_compact_encoding),
        cmocka_unit_test(a_message_may_have_as_many_headers_as_fit),
        cmocka_unit_test(a_list_of_too_many_tokens_is_refused),
        cmocka_unit_test(its_answer_comes_out_as_it_went_in),
        cmocka_unit_test(nothing_that_was_cut_short_is_read),
        cmocka_unit_test(a_count_that_cannot_be_is_refused_before_memory_is_taken),
        cmocka_unit_test(a_text_with_a_zero_inside_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
