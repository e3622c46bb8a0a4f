// SPDX-License-Identifier: Apache-2.0
// Schemas: what they accept, how changes are classified, and that each event has one which accepts
// what is printed.
#include "unit.h"

#include "base/rng.h"
#include "cluster/cluster.h"
#include "events/schema.h"
#include "queue/codec/event.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

static struct schema *parsed(const char *text)
{
    struct schema *s = NULL;
    char why[SCHEMA_WHY_MAX] = "";
    if (schema_parse(bytes_str(text), &s, why) != ERR_OK) fail_msg("%s: %s", text, why);
    return s;
}

static bool accepts(const char *schema, const char *value, char why[SCHEMA_WHY_MAX])
{
    struct schema *s = parsed(schema);
    char wrong[256];
    struct json *tree = json_parse(value, strlen(value), wrong, sizeof wrong);
    assert_non_null(tree);
    bool good = schema_holds(s, tree, why);
    json_free(tree);
    schema_free(s);
    return good;
}

static const struct value {
    const char *schema, *value;
    const char *why; // NULL: accepted
} values[] = {
    {"{}", "3", NULL},
    {"{\"type\":\"integer\"}", "3", NULL},
    {"{\"type\":\"integer\"}", "3.5", "/: the type number is not allowed"},
    {"{\"type\":\"number\"}", "3", NULL},
    {"{\"type\":\"number\"}", "3.5", NULL},
    {"{\"type\":[\"string\",\"null\"]}", "null", NULL},
    {"{\"type\":[\"string\",\"null\"]}", "true", "the type boolean is not allowed"},
    {"{\"type\":\"array\",\"items\":{\"type\":\"string\"}}", "[\"a\",1]", "/1: the type integer"},
    {"{\"const\":1}", "1", NULL},
    {"{\"const\":1}", "2", "2 is not 1"},
    {"{\"const\":1}", "\"1\"", "\"1\" is not 1"},
    {"{\"enum\":[\"a\",null]}", "null", NULL},
    {"{\"enum\":[\"a\",null]}", "\"b\"", "\"b\" is none of the allowed values"},
    {"{\"minimum\":1,\"maximum\":3}", "1", NULL},
    {"{\"minimum\":1,\"maximum\":3}", "0", "0 is under the minimum 1"},
    {"{\"minimum\":1,\"maximum\":3}", "4", "4 is over the maximum 3"},
    {"{\"minLength\":1,\"maxLength\":2}", "\"ab\"", NULL},
    {"{\"minLength\":1,\"maxLength\":2}", "\"\"", "0 is under the minLength 1"},
    {"{\"minLength\":1,\"maxLength\":2}", "\"abc\"", "3 is over the maxLength 2"},
    {"{\"format\":\"date-time\"}", "\"2030-01-31T12:00:00.000Z\"", NULL},
    {"{\"format\":\"date-time\"}", "\"yesterday\"", "is not a time"},
    {"{\"required\":[\"a\"]}", "{\"a\":1}", NULL},
    {"{\"required\":[\"a\"]}", "{\"b\":1}", "a is missing"},
    {"{\"properties\":{\"a\":{\"type\":\"string\"}}}", "{\"b\":1}", NULL},
    {"{\"properties\":{\"a\":{\"properties\":{\"b\":{\"const\":1}}}}}", "{\"a\":{\"b\":2}}",
     "/a/b: 2 is not 1"},
    {"{\"properties\":{\"a\":{}},\"additionalProperties\":false}", "{\"a\":1}", NULL},
    {"{\"properties\":{\"a\":{}},\"additionalProperties\":false}", "{\"b\":1}",
     "/b: the property is not allowed"},
};

static void values_are_compared_keyword_by_keyword(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char why[SCHEMA_WHY_MAX] = "";
        bool good = accepts(values[i].schema, values[i].value, why);
        if (good != !values[i].why || (!good && !strstr(why, values[i].why)))
            fail_msg("%s of %s: %s", values[i].value, values[i].schema, why);
    }
}

static const struct bad {
    const char *schema, *why;
} bad[] = {
    {"", "is not JSON"},
    {"[]", "a schema is an object"},
    {"{\"pattern\":\"a\"}", "/pattern: the keyword is not in the subset"},
    {"{\"properties\":{\"a\":{\"oneOf\":[]}}}", "/properties/a/oneOf: the keyword"},
    {"{\"type\":\"text\"}", "/type: \"text\" is not the name of a type"},
    {"{\"type\":[]}", "/type: the list is empty"},
    {"{\"type\":3}", "/type: 3 is not the name of a type"},
    {"{\"properties\":[]}", "/properties: it is not an object"},
    {"{\"properties\":{\"a\":true}}", "/properties/a: a schema is an object"},
    {"{\"required\":\"a\"}", "/required: it is not a list"},
    {"{\"required\":[1]}", "item 0 is not the name of a property"},
    {"{\"additionalProperties\":{}}", "neither true nor false"},
    {"{\"enum\":[]}", "/enum: the list is empty"},
    {"{\"enum\":[{}]}", "it is an object, not a string"},
    {"{\"const\":1.5}", "it is a fraction, not a string"},
    {"{\"minimum\":1.5}", "/minimum: it is not a whole number"},
    {"{\"format\":\"uri\"}", "the only format is"},
    {"{\"items\":[]}", "/items: a schema is an object"},
    {"{\"$id\":[]}", "/$id: it is a list, not a string"},
};

static void schemas_outside_the_subset_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct schema *s = NULL;
        char why[SCHEMA_WHY_MAX] = "";
        assert_int_equal(schema_parse(bytes_str(bad[i].schema), &s, why), ERR_INVALID);
        assert_null(s);
        if (!strstr(why, bad[i].why)) fail_msg("%s: %s", bad[i].schema, why);
    }
}

#define PROPERTIES(text) "{\"properties\":{" text "}}"
static const struct change {
    const char *old, *new;
    enum schema_change change;
    const char *where, *what; // of the worst change
} changes[] = {
    {"{}", "{}", SCHEMA_SAME, "", ""},
    {"{\"type\":[\"string\",\"null\"]}", "{\"type\":[\"null\",\"string\"]}", SCHEMA_SAME, "", ""},
    {"{\"enum\":[1,2]}", "{\"enum\":[2,1]}", SCHEMA_SAME, "", ""},
    {"{\"const\":1}", "{\"enum\":[1]}", SCHEMA_SAME, "", ""},
    {"{\"title\":\"a\"}", "{\"title\":\"b\",\"description\":\"c\"}", SCHEMA_SAME, "", ""},
    {"{}", "{\"$id\":\"a\"}", SCHEMA_SAME, "", ""},
    {"{\"additionalProperties\":true}", "{}", SCHEMA_SAME, "", ""},
    {"{\"required\":[\"a\",\"b\"]}", "{\"required\":[\"b\",\"a\"]}", SCHEMA_SAME, "", ""},
    {PROPERTIES(""), PROPERTIES("\"a\":{}"), SCHEMA_ADDITIVE, "/properties/a", "is new"},
    {"{}", PROPERTIES("\"a\":{\"type\":\"string\"}"), SCHEMA_ADDITIVE, "/properties/a", "is new"},
    {PROPERTIES("\"a\":{\"properties\":{}}"), PROPERTIES("\"a\":{\"properties\":{\"b\":{}}}"),
     SCHEMA_ADDITIVE, "/properties/a/properties/b", "is new"},
    {"{\"items\":{}}", "{\"items\":{\"properties\":{\"a\":{}}}}", SCHEMA_ADDITIVE,
     "/items/properties/a", "is new"},
    {PROPERTIES("\"a\":{}"), PROPERTIES("\"b\":{}"), SCHEMA_BREAKING, "/properties/a", "is gone"},
    {"{\"properties\":{},\"additionalProperties\":false}",
     "{\"properties\":{\"a\":{}},\"additionalProperties\":false}", SCHEMA_BREAKING, "/properties/a",
     "had no others"},
    {"{}", "{\"properties\":{\"a\":{}},\"required\":[\"a\"]}", SCHEMA_BREAKING, "/required",
     "a is required now"},
    {"{\"required\":[\"a\"]}", "{}", SCHEMA_BREAKING, "/required", "a may be absent now"},
    {"{\"type\":\"string\"}", "{\"type\":\"integer\"}", SCHEMA_BREAKING, "/type",
     "integer is allowed now"},
    {"{\"type\":\"string\"}", "{\"type\":[\"string\",\"null\"]}", SCHEMA_BREAKING, "/type",
     "null is allowed now"},
    {"{\"type\":[\"string\",\"null\"]}", "{\"type\":\"string\"}", SCHEMA_BREAKING, "/type",
     "null is not allowed any more"},
    {"{\"type\":\"integer\"}", "{\"type\":\"number\"}", SCHEMA_BREAKING, "/type",
     "number is allowed now"},
    {"{\"type\":\"number\"}", "{\"type\":\"integer\"}", SCHEMA_BREAKING, "/type",
     "number is not allowed any more"},
    {"{\"type\":\"string\"}", "{}", SCHEMA_BREAKING, "/type", "is allowed now"},
    {"{\"enum\":[\"a\"]}", "{\"enum\":[\"a\",\"b\"]}", SCHEMA_BREAKING, "/enum", "\"b\" is new"},
    {"{\"enum\":[\"a\",\"b\"]}", "{\"enum\":[\"a\"]}", SCHEMA_BREAKING, "/enum", "\"b\" is gone"},
    {"{\"enum\":[\"a\"]}", "{}", SCHEMA_BREAKING, "/enum", "every value is allowed now"},
    {"{}", "{\"enum\":[\"a\"]}", SCHEMA_BREAKING, "/enum", "only some values"},
    {"{\"const\":1}", "{\"const\":2}", SCHEMA_BREAKING, "/const", "2 is new"},
    {"{\"minimum\":1}", "{\"minimum\":0}", SCHEMA_BREAKING, "/minimum",
     "it was 1 and is 0: an older"},
    {"{\"minimum\":0}", "{\"minimum\":1}", SCHEMA_BREAKING, "/minimum",
     "it was 0 and is 1: a newer"},
    {"{\"minimum\":0}", "{}", SCHEMA_BREAKING, "/minimum", "it was 0 and is none: an older"},
    {"{}", "{\"maximum\":9}", SCHEMA_BREAKING, "/maximum", "it was none and is 9: a newer"},
    {"{\"maximum\":9}", "{\"maximum\":10}", SCHEMA_BREAKING, "/maximum", "an older"},
    {"{\"maximum\":10}", "{\"maximum\":9}", SCHEMA_BREAKING, "/maximum", "a newer"},
    {"{\"minLength\":1}", "{}", SCHEMA_BREAKING, "/minLength", "an older"},
    {"{\"maxLength\":1}", "{\"maxLength\":2}", SCHEMA_BREAKING, "/maxLength", "an older"},
    {"{\"format\":\"date-time\"}", "{}", SCHEMA_BREAKING, "/format", "it is gone"},
    {"{}", "{\"format\":\"date-time\"}", SCHEMA_BREAKING, "/format", "it is new"},
    {"{}", "{\"additionalProperties\":false}", SCHEMA_BREAKING, "/additionalProperties",
     "not allowed any more"},
    {"{\"additionalProperties\":false}", "{}", SCHEMA_BREAKING, "/additionalProperties",
     "are allowed now"},
    {"{\"items\":{}}", "{}", SCHEMA_BREAKING, "/items", "every item"},
    {"{}", "{\"items\":{}}", SCHEMA_BREAKING, "/items", "only some items"},
    {"{\"$id\":\"a\"}", "{\"$id\":\"b\"}", SCHEMA_BREAKING, "/$id", "it was \"a\" and is \"b\""},
    {PROPERTIES("\"a\":{\"properties\":{\"b\":{\"const\":1}}}"),
     PROPERTIES("\"a\":{\"properties\":{\"b\":{\"const\":2},\"c\":{}}}"), SCHEMA_BREAKING,
     "/properties/a/properties/b/const", "1 is gone"},
};

struct seen {
    const struct change *want;
    bool found;
    enum schema_change worst;
};

static void see_change(void *ctx, enum schema_change change, const char *where, const char *what)
{
    struct seen *s = ctx;
    if (change > s->worst) s->worst = change;
    if (change == s->want->change && strcmp(where, s->want->where) == 0 &&
        strstr(what, s->want->what))
        s->found = true;
}

static void changes_are_classified_with_what_and_where(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const struct change *c = &changes[i];
        struct schema *old = parsed(c->old), *new = parsed(c->new);
        struct seen seen = {.want = c};
        enum schema_change worst = schema_compare(old, new, see_change, &seen);
        assert_int_equal(worst, seen.worst);
        if (seen.worst != c->change || (c->change != SCHEMA_SAME && !seen.found))
            fail_msg("%s to %s is %s", c->old, c->new, schema_change_name(seen.worst));
        assert_int_equal(schema_compare(old, old, NULL, NULL), SCHEMA_SAME);
        schema_free(old);
        schema_free(new);
    }
}

static void each_event_of_the_code_has_a_schema(void **state)
{
    (void)state;
    struct schema_set *set = schema_set_new();
    for (int kind = 0; kind < EVENT_COUNT; kind++)
        assert_non_null(schema_set_find(set, 1, event_name((enum event_kind)kind)));
    for (int note = NOTE_ELECTED; note <= NOTE_REPLACED; note++)
        assert_non_null(schema_set_find(set, 1, cluster_note_name((enum cluster_note)note)));
    assert_non_null(schema_set_find(set, 1, ENVELOPE_GAP));
    assert_null(schema_set_find(set, 2, ENVELOPE_GAP));
    schema_set_free(set);
}

static void allows(const struct schema_set *set, enum event_kind kind, const char *status)
{
    char why[SCHEMA_WHY_MAX] = "";
    struct envelope e = envelope_empty();
    e.event_id = "i", e.queue = "q", e.task_id = "t", e.ordering_key = "k", e.sequence = 1;
    e.event_type = event_name(kind);
    e.payload.status = status;
    e.payload.signal = "s", e.payload.signal_kind = "steer";
    if (!schema_set_accepts(set, &e, why)) fail_msg("%s: %s", e.event_type, why);
    e.payload.status = "painted";
    assert_false(schema_set_accepts(set, &e, why));
}

static void each_status_of_the_code_is_in_the_schema(void **state)
{
    (void)state;
    struct schema_set *set = schema_set_new();
    for (int i = OUTCOME_NONE + 1; i < OUTCOME_STATUS_COUNT; i++)
        allows(set, EVENT_MESSAGE_OUTCOME, outcome_status_name((enum outcome_status)i));
    allows(set, EVENT_SIGNAL_SENT, signal_state_name(SIGNAL_PENDING));
    allows(set, EVENT_SIGNAL_SENT, signal_state_name(SIGNAL_APPLIED));
    allows(set, EVENT_SIGNAL_DELIVERED, signal_state_name(SIGNAL_PENDING));
    allows(set, EVENT_SIGNAL_ACKED, signal_state_name(SIGNAL_ACKED));
    for (int i = SIGNAL_ACKED + 1; i < SIGNAL_STATE_COUNT; i++)
        allows(set, EVENT_SIGNAL_ENDED, signal_state_name((enum signal_state)i));
    schema_set_free(set);
}

static const char *text_or_none(struct rng *rng, const char *text)
{
    return rng_chance(rng, 6000) ? text : "";
}

// A random event of any type, with fields that it may and may not have.
static struct envelope random_envelope(struct rng *rng)
{
    static const char *const statuses[] = {"processed", "retrying", "dead-lettered", "cancelled",
                                           "pending",   "missed",   "lost",          ""};
    const struct schema_text *type = &schema_texts[rng_below(rng, schema_texts_len)];
    struct sluice_event e = {.id = "i",
                             .type = type->type,
                             .message = text_or_none(rng, "m"),
                             .status = statuses[rng_below(rng, 8)],
                             .reason = text_or_none(rng, "r"),
                             .worker = text_or_none(rng, "w"),
                             .attempt = (uint32_t)rng_below(rng, 3),
                             .fence = rng_below(rng, 3),
                             .until = rng_range(rng, 0, 2),
                             .order = rng_below(rng, 2),
                             .count = rng_below(rng, 2),
                             .from = {.queue = text_or_none(rng, "f")},
                             .signal = text_or_none(rng, "s"),
                             .signal_kind = text_or_none(rng, "ask"),
                             .shard = (uint32_t)rng_below(rng, 3),
                             .sequence = rng_below(rng, 4),
                             .workflow = rng_chance(rng, 5000) ? "w" : "",
                             .ordering_key = text_or_none(rng, "k")};
    struct envelope_place place = {.queue = text_or_none(rng, "q"), .node = text_or_none(rng, "n")};
    struct envelope out = envelope_of(&e, &place);
    out.payload.first = rng_below(rng, 2);
    out.payload.last = rng_below(rng, 2);
    out.payload.node = text_or_none(rng, "n");
    out.payload.epoch = rng_below(rng, 2);
    return out;
}

// The fast way of the publisher and the whole schema say the same of every envelope.
static void both_ways_to_validate_agree(void **state)
{
    (void)state;
    struct schema_set *set = schema_set_new();
    struct rng rng;
    size_t good = 0, rounds = 50000;
    rng_init(&rng, 32);
    for (size_t i = 0; i < rounds; i++) {
        CLEANUP(buf_done) struct buf text;
        char why[SCHEMA_WHY_MAX] = "", other[SCHEMA_WHY_MAX] = "";
        struct read_envelope in;
        struct envelope e = random_envelope(&rng);
        buf_init(&text, ENVELOPE_MAX);
        envelope_print(&e, &text);
        bool fast = schema_set_accepts(set, &e, why);
        bool whole = schema_set_read(set, buf_bytes(&text), &in, other) == ERR_OK;
        envelope_in_done(&in);
        if (fast != whole) fail_msg("%.*s: %s / %s", (int)text.len, text.data, why, other);
        good += fast;
    }
    assert_true(good > rounds / 20 && good < rounds);
    schema_set_free(set);
}

static void a_publisher_gets_the_reason(void **state)
{
    (void)state;
    struct schema_set *set = schema_set_new();
    char why[SCHEMA_WHY_MAX];
    struct envelope e = envelope_empty();
    e.event_id = "i";
    e.event_type = "message-outcome";
    assert_false(schema_set_accepts(set, &e, why));
    assert_string_equal(why, "/: queue is missing");
    e.queue = "q", e.task_id = "t", e.ordering_key = "k", e.sequence = 1;
    assert_false(schema_set_accepts(set, &e, why));
    assert_string_equal(why, "/payload: status is missing");
    e.payload.status = "painted";
    assert_false(schema_set_accepts(set, &e, why));
    assert_string_equal(why, "/payload/status: \"painted\" is none of the allowed values");
    e.payload.status = "processed";
    assert_true(schema_set_accepts(set, &e, why));
    e.schema_version = 9;
    assert_false(schema_set_accepts(set, &e, why));
    assert_string_equal(why, "version 9 of message-outcome has no schema in this program");
    e.schema_version = 1;
    e.event_type = "message-painted";
    assert_false(schema_set_accepts(set, &e, why));
    schema_set_free(set);
}

static enum err consumed(struct schema_set *set, const char *text, char why[SCHEMA_WHY_MAX])
{
    struct read_envelope in;
    enum err err = schema_set_read(set, bytes_str(text), &in, why);
    envelope_in_done(&in);
    return err;
}

#define HEAD(version, type)                                                                        \
    "{\"event_id\":\"i\",\"event_type\":\"" type "\",\"schema_version\":" version                  \
    ",\"timestamp\":\"2030-01-31T12:00:00.000Z\",\"ordering_key\":\"k\","

static void a_consumer_routes_by_version_and_type(void **state)
{
    (void)state;
    struct schema_set *set = schema_set_new();
    char why[SCHEMA_WHY_MAX] = "";
    const char *task = "\"queue\":\"q\",\"shard\":0,\"sequence\":1,\"payload\":{}}";
    char text[512];
    (void)snprintf(text, sizeof text, "%s%s", HEAD("1", "queue-paused"), task);
    assert_int_equal(consumed(set, text, why), ERR_OK);
    (void)snprintf(text, sizeof text, "%s%s", HEAD("2", "queue-paused"), task);
    assert_int_equal(consumed(set, text, why), ERR_INVALID);
    assert_non_null(strstr(why, "schema_version 2 is not known here"));
    (void)snprintf(text, sizeof text, "%s\"color\":1,%s", HEAD("1", "queue-paused"), task);
    assert_int_equal(consumed(set, text, why), ERR_OK); // a field that it does not know
    (void)snprintf(text, sizeof text, "%s\"payload\":{}}", HEAD("1", "queue-painted"));
    assert_int_equal(consumed(set, text, why), ERR_OK); // a type that it does not know
    (void)snprintf(text, sizeof text, "%s\"payload\":{}}", HEAD("1", "queue-paused"));
    assert_int_equal(consumed(set, text, why), ERR_INVALID);
    assert_string_equal(why, "/: queue is missing");
    schema_set_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_compared_keyword_by_keyword),
        cmocka_unit_test(schemas_outside_the_subset_are_refused),
        cmocka_unit_test(changes_are_classified_with_what_and_where),
        cmocka_unit_test(each_event_of_the_code_has_a_schema),
        cmocka_unit_test(each_status_of_the_code_is_in_the_schema),
        cmocka_unit_test(both_ways_to_validate_agree),
        cmocka_unit_test(a_publisher_gets_the_reason),
        cmocka_unit_test(a_consumer_routes_by_version_and_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
