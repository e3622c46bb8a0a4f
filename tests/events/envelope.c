// SPDX-License-Identifier: Apache-2.0
// Envelopes: one text for each event, read as it was written, and bad ones refused with a reason.
#include "unit.h"

#include "base/moment.h"
#include "events/envelope.h"

#include <stdio.h>
#include <string.h>

#define QUEUE_ID "00112233445566778899aabbccddeeff"
#define EVENT_ID QUEUE_ID "-3-17-0-message-outcome-0"

static const struct sluice_event outcome = {.id = EVENT_ID,
                                            .type = "message-outcome",
                                            .message = "00112233-3-9",
                                            .status = "retrying",
                                            .reason = "no \"space\"",
                                            .worker = "host/1",
                                            .attempt = 2,
                                            .fence = 40,
                                            .time = 1896350400123,
                                            .until = 1896350405000,
                                            .position = 17,
                                            .shard = 3,
                                            .sequence = 81,
                                            .ordering_key = "task:00112233-3-9",
                                            .from = {.queue = ""}};
static const struct envelope_place place = {.queue = "mail.eu", .node = "n1"};

static const char outcome_text[] =
    "{\"event_id\":\"" EVENT_ID "\",\"event_type\":\"message-outcome\",\"schema_version\":1,"
    "\"timestamp\":\"2030-02-03T12:00:00.123Z\",\"node_id\":\"n1\",\"queue\":\"mail.eu\","
    "\"shard\":3,\"task_id\":\"00112233-3-9\",\"ordering_key\":\"task:00112233-3-9\","
    "\"sequence\":81,\"attempt\":2,\"payload\":{\"status\":\"retrying\","
    "\"reason\":\"no \\\"space\\\"\",\"worker\":\"host/1\",\"fence\":40,"
    "\"until\":\"2030-02-03T12:00:05.000Z\"}}";

// A zero follows the text, and belongs to the caller's buffer.
static const char *printed(const struct envelope *e, struct buf *to)
{
    buf_clear(to);
    envelope_print(e, to);
    buf_put_u8(to, 0);
    assert_false(to->bad);
    return (const char *)to->data;
}

static void an_envelope_has_one_text(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, ENVELOPE_MAX);
    struct envelope e = envelope_of(&outcome, &place);
    assert_string_equal(printed(&e, &text), outcome_text);
}

static void the_envelope_of_a_signal_names_it(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf text;
    struct sluice_event declined = outcome;
    declined.id = QUEUE_ID "-3-17-0-signal-ended-0";
    declined.type = "signal-ended";
    declined.status = "declined";
    declined.reason = "not-listening";
    declined.count = 2;
    declined.signal = "6f1c0e9a5b7d4c3e8f20a1b2c3d4e5f6";
    declined.signal_kind = "steer";
    buf_init(&text, ENVELOPE_MAX);
    struct envelope e = envelope_of(&declined, &place);
    assert_non_null(
        strstr(printed(&e, &text),
               "\"payload\":{\"status\":\"declined\",\"reason\":\"not-listening\","
               "\"worker\":\"host/1\",\"fence\":40,"
               "\"until\":\"2030-02-03T12:00:05.000Z\",\"count\":2,"
               "\"signal\":\"6f1c0e9a5b7d4c3e8f20a1b2c3d4e5f6\",\"signal_kind\":\"steer\"}}"));
    char subject[SUBJECT_MAX];
    struct subject s = envelope_subject(&e);
    assert_int_equal(subject_print(&s, subject), ERR_OK);
    assert_string_equal(subject, "sluice.v1.task.mail=2Eeu.3.signal-ended");
}

// Every field has another value than in an empty envelope.
static struct envelope full_envelope(void)
{
    return (struct envelope){.event_id = EVENT_ID,
                             .event_type = "message-enqueued",
                             .schema_version = 1,
                             .timestamp = 1,
                             .node_id = "n\xc3\xa4",
                             .queue = "q",
                             .shard = UINT32_MAX,
                             .task_id = "t",
                             .workflow_id = "w \x01\x1f\x7f",
                             .ordering_key = "k",
                             .sequence = INT64_MAX,
                             .attempt = UINT32_MAX,
                             .payload = {.status = "s",
                                         .reason = "r\n\t\"\\",
                                         .worker = "w",
                                         .fence = INT64_MAX,
                                         .until = MOMENT_LAST,
                                         .order = 3,
                                         .count = 4,
                                         .first = 5,
                                         .last = 6,
                                         .epoch = 7,
                                         .node = "n",
                                         .signal = "00112233445566778899aabbccddeeff",
                                         .signal_kind = "ask",
                                         .from = {.queue = "dead",
                                                  .task_id = "x",
                                                  .reason = "why",
                                                  .worker = "v",
                                                  .retries = 8,
                                                  .attempts = 9,
                                                  .died_at = 10}}};
}

static void every_field_is_read_as_it_was_written(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf text, again;
    CLEANUP(envelope_in_done) struct read_envelope in;
    char why[ENVELOPE_WHY_MAX] = "";
    buf_init(&text, ENVELOPE_MAX);
    buf_init(&again, ENVELOPE_MAX);
    struct envelope e = full_envelope();
    const char *line = printed(&e, &text);
    assert_int_equal(envelope_read(bytes_str(line), &in, why), ERR_OK);
    assert_string_equal(printed(&in.envelope, &again), line);
    assert_string_equal(in.envelope.node_id, e.node_id);
    assert_string_equal(in.envelope.workflow_id, e.workflow_id);
    assert_int_equal(in.envelope.shard, UINT32_MAX);
    assert_int_equal(in.envelope.sequence, INT64_MAX);
    assert_string_equal(in.envelope.payload.reason, e.payload.reason);
    assert_int_equal(in.envelope.payload.until, MOMENT_LAST);
    assert_int_equal(in.envelope.payload.from.died_at, 10);
    assert_int_equal(in.envelope.payload.from.retries, 8);
    assert_string_equal(in.envelope.payload.from.worker, "v");
    assert_string_equal(in.envelope.payload.signal, e.payload.signal);
    assert_string_equal(in.envelope.payload.signal_kind, "ask");
}

static void the_subject_follows_the_type(void **state)
{
    (void)state;
    char text[SUBJECT_MAX];
    struct sluice_event e = outcome;
    e.workflow = "w 1";
    struct envelope made = envelope_of(&e, &place);
    struct subject s = envelope_subject(&made);
    assert_int_equal(subject_print(&s, text), ERR_OK);
    assert_string_equal(text, "sluice.v1.task.mail=2Eeu.3.message-outcome");
    e.type = "workflow-failed";
    e.message = "";
    made = envelope_of(&e, &place);
    s = envelope_subject(&made);
    assert_int_equal(subject_print(&s, text), ERR_OK);
    assert_string_equal(text, "sluice.v1.workflow.mail=2Eeu.w=201.workflow-failed");
}

static void a_gap_names_its_range_and_has_one_id(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf text;
    char id[ENVELOPE_ID_MAX], subject[SUBJECT_MAX];
    struct envelope_room room;
    buf_init(&text, ENVELOPE_MAX);
    struct envelope e = envelope_gap(QUEUE_ID, &place, 3, 5, 9, 7, &room, id);
    assert_string_equal(printed(&e, &text),
                        "{\"event_id\":\"" QUEUE_ID "-3-gap-5-9\",\"event_type\":\"gap\","
                        "\"schema_version\":1,\"timestamp\":\"1970-01-01T00:00:00.007Z\","
                        "\"node_id\":\"n1\",\"queue\":\"mail.eu\",\"shard\":3,"
                        "\"ordering_key\":\"queue:mail=2Eeu:3\",\"sequence\":9,"
                        "\"payload\":{\"first\":5,\"last\":9}}");
    struct subject s = envelope_subject(&e);
    assert_int_equal(subject_print(&s, subject), ERR_OK);
    assert_string_equal(subject, "sluice.v1.task.mail=2Eeu.3.gap");
}

static void a_cluster_event_has_a_subject_of_the_cluster(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf text;
    char id[ENVELOPE_ID_MAX], subject[SUBJECT_MAX];
    struct envelope_room room;
    struct sluice_cluster_event e = {.id = "5-2",
                                     .type = "ownership-acquired",
                                     .time = 0,
                                     .node = "n2",
                                     .status = "",
                                     .queue = "q",
                                     .shard = 0,
                                     .epoch = 12};
    buf_init(&text, ENVELOPE_MAX);
    struct envelope made = envelope_cluster(&e, "n1", &room, id);
    assert_string_equal(printed(&made, &text),
                        "{\"event_id\":\"cluster-n1-5-2\",\"event_type\":\"ownership-acquired\","
                        "\"schema_version\":1,\"timestamp\":\"1970-01-01T00:00:00.000Z\","
                        "\"node_id\":\"n1\",\"queue\":\"q\",\"shard\":0,"
                        "\"ordering_key\":\"cluster:n1\",\"payload\":{\"epoch\":12,"
                        "\"node\":\"n2\"}}");
    struct subject s = envelope_subject(&made);
    assert_int_equal(subject_print(&s, subject), ERR_OK);
    assert_string_equal(subject, "sluice.v1.cluster.ownership-acquired");
}

static void bytes_that_are_not_utf8_are_replaced(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf text;
    CLEANUP(envelope_in_done) struct read_envelope in;
    char why[ENVELOPE_WHY_MAX];
    struct envelope e = full_envelope();
    buf_init(&text, ENVELOPE_MAX);
    e.workflow_id = "a\xff\xc3\xa4\xc3";
    e.payload.worker = "\xed\xa0\x80\"";
    assert_int_equal(envelope_read(bytes_str(printed(&e, &text)), &in, why), ERR_OK);
    assert_string_equal(in.envelope.workflow_id, "a\xef\xbf\xbd\xc3\xa4\xef\xbf\xbd");
    assert_string_equal(in.envelope.payload.worker, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

// Replaces `from` in the good text by `to`.
static enum err read_changed(const char *from, const char *to, struct read_envelope *in,
                             char why[ENVELOPE_WHY_MAX])
{
    char text[4096];
    const char *at = strstr(outcome_text, from);
    assert_non_null(at);
    (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - outcome_text), outcome_text, to,
                   at + strlen(from));
    return envelope_read(bytes_str(text), in, why);
}

static const struct wrong {
    const char *from, *to, *why;
} wrong[] = {
    {"{\"event_id\"", "[{\"event_id\"", "not JSON"},
    {"\"event_id\":\"" EVENT_ID "\",", "", "event_id is missing"},
    {"\"" EVENT_ID "\"", "\"\"", "event_id is empty"},
    {"\"" EVENT_ID "\"", "7", "event_id is a number, not a string"},
    {"\"message-outcome\"", "null", "event_type is null, not a string"},
    {"\"message-outcome\"", "\"a\\u0000b\"", "event_type contains a zero byte"},
    {"\"schema_version\":1", "\"version\":1", "schema_version is missing"},
    {"\"schema_version\":1", "\"schema_version\":0", "the first is 1"},
    {"\"schema_version\":1", "\"schema_version\":\"1\"", "schema_version is a string"},
    {"\"schema_version\":1", "\"schema_version\":-1", "schema_version -1 is not in"},
    {"2030-02-03T12:00:00.123Z", "2030-02-30T12:00:00.123Z", "is not a time"},
    {"2030-02-03T12:00:00.123Z", "2030-02-03 12:00:00.123Z", "is not a time"},
    {"2030-02-03T12:00:00.123Z", "1969-12-31T23:59:59.999Z", "is not a time"},
    {"\"shard\":3", "\"shard\":4294967296", "shard 4294967296 is not in"},
    {"\"shard\":3", "\"shard\":1.5", "shard is a fraction"},
    {"\"sequence\":81", "\"sequence\":99999999999999999999", "not JSON"},
    {"\"sequence\":81", "\"sequence\":-1", "sequence -1 is not in"},
    {"\"ordering_key\":", "\"key\":", "ordering_key is missing"},
    {"\"payload\":", "\"load\":", "payload is missing"},
    {"\"fence\":40", "\"from\":3", "payload.from is a number, not an object"},
    {"\"fence\":40", "\"from\":{}", "queue is missing"},
    {"\"attempt\":2,\"payload\"", "\"attempt\":2,\"attempt\":2,\"payload\"", "not JSON"},
};

static void bad_envelopes_are_refused_with_a_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CLEANUP(envelope_in_done) struct read_envelope in;
        char why[ENVELOPE_WHY_MAX] = "";
        assert_int_equal(read_changed(wrong[i].from, wrong[i].to, &in, why), ERR_INVALID);
        if (!strstr(why, wrong[i].why)) fail_msg("%s: %s", wrong[i].to, why);
    }
}

static void another_major_is_refused_and_named(void **state)
{
    (void)state;
    CLEANUP(envelope_in_done) struct read_envelope in;
    char why[ENVELOPE_WHY_MAX];
    assert_int_equal(read_changed("\"schema_version\":1", "\"schema_version\":2", &in, why),
                     ERR_INVALID);
    assert_int_equal(in.envelope.schema_version, 2);
    assert_non_null(strstr(why, "schema_version 2 is not known here"));
    assert_non_null(strstr(why, "upgrade"));
}

static void unknown_fields_and_types_are_ignored(void **state)
{
    (void)state;
    CLEANUP(envelope_in_done) struct read_envelope in, more;
    char why[ENVELOPE_WHY_MAX];
    assert_int_equal(
        read_changed("\"attempt\":2", "\"attempt\":2,\"color\":[{\"a\":null}]", &in, why), ERR_OK);
    assert_int_equal(in.envelope.attempt, 2);
    assert_int_equal(read_changed("\"message-outcome\"", "\"message-painted\"", &more, why),
                     ERR_OK);
    assert_string_equal(more.envelope.event_type, "message-painted");
}

static void envelopes_that_are_too_large_are_refused(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf text;
    CLEANUP(envelope_in_done) struct read_envelope in, deep;
    char why[ENVELOPE_WHY_MAX];
    buf_init(&text, SIZE_MAX);
    while (text.len <= ENVELOPE_MAX)
        buf_put(&text, bytes_str("                "));
    assert_int_equal(envelope_read(buf_bytes(&text), &in, why), ERR_INVALID);
    assert_non_null(strstr(why, "at most"));
    assert_int_equal(
        read_changed("\"attempt\":2", "\"x\":[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]", &deep, why),
        ERR_INVALID);
    assert_non_null(strstr(why, "deeper"));
    struct envelope e = full_envelope();
    buf_done(&text);
    buf_init(&text, 100);
    envelope_print(&e, &text);
    assert_true(text.bad);
}

static void collect_header(void *ctx, const char *name, const char *value)
{
    char *to = ctx;
    size_t len = strlen(to);
    (void)snprintf(to + len, 4096 - len, "%s: %s\n", name, value);
}

static void headers_are_those_of_cloudevents(void **state)
{
    (void)state;
    char headers[4096] = "";
    struct envelope e = envelope_of(&outcome, &place);
    envelope_headers(&e, collect_header, headers);
    assert_string_equal(headers, "ce-specversion: 1.0\n"
                                 "ce-id: " EVENT_ID "\n"
                                 "ce-source: /sluice/queues/mail=2Eeu/shards/3\n"
                                 "ce-type: sluice.v1.message-outcome\n"
                                 "ce-time: 2030-02-03T12:00:00.123Z\n"
                                 "ce-subject: 00112233-3-9\n"
                                 "ce-datacontenttype: application/json\n"
                                 "ce-dataschema: urn:sluice:schema:v1:message-outcome\n"
                                 "ce-partitionkey: task:00112233-3-9\n"
                                 "ce-sequence: 81\n");
    headers[0] = '\0';
    e.task_id = "a b\"%\xff\r\n";
    envelope_headers(&e, collect_header, headers);
    assert_non_null(strstr(headers, "ce-subject: a%20b%22%25%FF%0D%0A\n"));
}

static void two_versions_are_published_while_the_window_is_open(void **state)
{
    (void)state;
    uint32_t out[2] = {0};
    struct envelope_window w = {.newest = 2, .also = 1, .until = 1000};
    assert_int_equal(envelope_versions(&w, 999, out), 2);
    assert_int_equal(out[0], 1);
    assert_int_equal(out[1], 2);
    assert_int_equal(envelope_versions(&w, 1000, out), 1);
    assert_int_equal(out[0], 2);
    w = (struct envelope_window){0};
    assert_int_equal(envelope_versions(&w, 0, out), 1);
    assert_int_equal(out[0], ENVELOPE_VERSION);
}

// The two versions of an event are two messages of a stream, and one event for a consumer.
static void two_versions_differ_in_message_id_and_subject(void **state)
{
    (void)state;
    char id[2][ENVELOPE_ID_MAX], subject[2][SUBJECT_MAX];
    struct envelope e = envelope_of(&outcome, &place);
    for (uint32_t version = 1; version <= 2; version++) {
        e.schema_version = version;
        struct subject s = envelope_subject(&e);
        envelope_message_id(&e, id[version - 1]);
        assert_int_equal(subject_print(&s, subject[version - 1]), ERR_OK);
    }
    assert_string_equal(id[0], EVENT_ID);
    assert_string_equal(id[1], EVENT_ID ".v2");
    assert_string_equal(subject[0], "sluice.v1.task.mail=2Eeu.3.message-outcome");
    assert_string_equal(subject[1], "sluice.v2.task.mail=2Eeu.3.message-outcome");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_envelope_has_one_text),
        cmocka_unit_test(the_envelope_of_a_signal_names_it),
        cmocka_unit_test(every_field_is_read_as_it_was_written),
        cmocka_unit_test(the_subject_follows_the_type),
        cmocka_unit_test(a_gap_names_its_range_and_has_one_id),
        cmocka_unit_test(a_cluster_event_has_a_subject_of_the_cluster),
        cmocka_unit_test(bytes_that_are_not_utf8_are_replaced),
        cmocka_unit_test(bad_envelopes_are_refused_with_a_reason),
        cmocka_unit_test(another_major_is_refused_and_named),
        cmocka_unit_test(unknown_fields_and_types_are_ignored),
        cmocka_unit_test(envelopes_that_are_too_large_are_refused),
        cmocka_unit_test(headers_are_those_of_cloudevents),
        cmocka_unit_test(two_versions_are_published_while_the_window_is_open),
        cmocka_unit_test(two_versions_differ_in_message_id_and_subject),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
