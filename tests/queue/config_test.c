// SPDX-License-Identifier: Apache-2.0
// Configurations: keys, values, combinations, and what is said about wrong ones.
#include "queue_test.h"

static void expect_error(const char *key, const char *value, const char *sentence)
{
    struct queue_config c = defaults(), before = c;
    struct config_error error = {""};
    assert_int_equal(config_set(&c, key, value, &error), ERR_INVALID);
    assert_string_equal(error.text, sentence);
    assert_memory_equal(&c, &before, sizeof c);
}

static void the_defaults_are_those_of_the_design(void **state)
{
    (void)state;
    struct queue_config c = defaults();
    const char *expected[][2] = {
        {"orderingMode", "fifo"},
        {"orderingGuarantee", "false"},
        {"visibilityTimeout", "30s"},
        {"failureStrategy.mode", "retry"},
        {"failureStrategy.maxRetries", "5"},
        {"failureStrategy.deadLetterQueue", ""},
        {"failureStrategy.backoff.initial", "1s"},
        {"failureStrategy.backoff.multiplier", "2.000"},
        {"failureStrategy.backoff.max", "5m"},
        {"failureStrategy.backoff.jitter", "0.200"},
        {"dedupWindow", "5m"},
        {"maxMessageBytes", "1048576"},
        {"maxDeliveries", "0"},
        {"capacity", "10000000"},
        {"backpressure", "reject"},
        {"shards", "1"},
        {"consume", "any"},
        {"dispatch", "auto"},
        {"retention", "1h"},
        {"publish", "hold"},
        {"publishKeep", "24h"},
        {"publishKeepBytes", "10737418240"},
        {"workflowOrder", "off"},
        {"retainBody", "false"},
    };
    struct config_pair pair;
    size_t count = sizeof expected / sizeof *expected;
    for (size_t i = 0; i < count; i++) {
        assert_true(config_print(&c, i, &pair));
        assert_string_equal(pair.key, expected[i][0]);
        assert_string_equal(pair.value, expected[i][1]);
    }
    assert_false(config_print(&c, count, &pair));
    assert_int_equal(config_check(&c, "orders", NULL), ERR_OK);
}

static void every_key_takes_back_what_it_prints(void **state)
{
    (void)state;
    struct queue_config c = defaults(), copy = defaults();
    const char *pairs[][2] = {
        {"orderingMode", "lifo"},
        {"orderingGuarantee", "true"},
        {"visibilityTimeout", "2m"},
        {"failureStrategy.mode", "hybrid"},
        {"failureStrategy.maxRetries", "3"},
        {"failureStrategy.deadLetterQueue", "tasks_dlq"},
        {"failureStrategy.backoff.initial", "250ms"},
        {"failureStrategy.backoff.multiplier", "1.5"},
        {"failureStrategy.backoff.max", "1h"},
        {"failureStrategy.backoff.jitter", "0.125"},
        {"dedupWindow", "1d"},
        {"maxMessageBytes", "256KiB"},
        {"maxDeliveries", "9"},
        {"capacity", "1000"},
        {"backpressure", "block"},
        {"shards", "16"},
        {"consume", "owner"},
        {"dispatch", "affinity"},
        {"retention", "30d"},
        {"publish", "skip"},
        {"publishKeep", "1s"},
        {"publishKeepBytes", "109951162777600"},
        {"workflowOrder", "on"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_int_equal(config_set(&c, pairs[i][0], pairs[i][1], NULL), ERR_OK);
    assert_int_equal(c.visibility_timeout_ms, 120000);
    assert_int_equal(c.backoff.multiplier_1000, 1500);
    assert_int_equal(c.backoff.jitter_1000, 125);
    assert_int_equal(c.message_bytes_max, 256 * 1024);
    struct config_pair pair;
    for (size_t i = 0; config_print(&c, i, &pair); i++)
        assert_int_equal(config_set(&copy, pair.key, pair.value, NULL), ERR_OK);
    assert_memory_equal(&c, &copy, sizeof c);
    struct buf b;
    buf_init(&b, 4096);
    config_encode(&c, &b);
    struct reader r = reader_of(buf_bytes(&b));
    assert_int_equal(config_decode(&r, &copy), ERR_OK);
    assert_true(reader_end(&r));
    assert_memory_equal(&c, &copy, sizeof c);
    buf_done(&b);
}

// All settings in the order of the table.
static void the_stored_bytes_are_those_of_the_format(void **state)
{
    (void)state;
    struct queue_config c = defaults();
    const uint64_t before[] = {1, 0, 30000, FAILURE_HYBRID, 5}, after[] = {1000,
                                                                           2000,
                                                                           300000,
                                                                           200,
                                                                           300000,
                                                                           1048576,
                                                                           0,
                                                                           10000000,
                                                                           1,
                                                                           16,
                                                                           CONSUME_OWNER,
                                                                           0,
                                                                           3600000,
                                                                           0,
                                                                           CONFIG_DAY_MS,
                                                                           UINT64_C(10) << 30,
                                                                           0,
                                                                           0};
    struct buf expected, got;
    buf_init(&expected, 4096);
    buf_init(&got, 4096);
    c.ordering_mode = ORDERING_LIFO;
    c.failure_mode = FAILURE_HYBRID;
    c.backpressure = BACKPRESSURE_BLOCK;
    c.shards = 16;
    c.consume = CONSUME_OWNER;
    strcpy(c.dead_letter_queue, "dlq");
    buf_put_u8(&expected, 1);
    buf_put_u16(&expected, 1); // the version of the rules
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        buf_put_u64(&expected, before[i]);
    buf_put_sized(&expected, bytes_str("dlq"));
    for (size_t i = 0; i < sizeof after / sizeof *after; i++)
        buf_put_u64(&expected, after[i]);
    config_encode(&c, &got);
    assert_int_equal(got.len, expected.len);
    assert_memory_equal(got.data, expected.data, got.len);
    buf_done(&expected);
    buf_done(&got);
}

static enum err decoded(struct buf *b, size_t at, uint8_t value)
{
    struct queue_config out;
    uint8_t was = b->data[at];
    b->data[at] = value;
    struct reader r = reader_of(buf_bytes(b));
    enum err err = config_decode(&r, &out);
    b->data[at] = was;
    return err;
}

static void a_configuration_of_a_later_release_is_told_from_damage(void **state)
{
    (void)state;
    struct queue_config c = defaults();
    struct buf b;
    buf_init(&b, 4096);
    config_encode(&c, &b);
    assert_int_equal(decoded(&b, 0, 1), ERR_OK);
    assert_int_equal(decoded(&b, 0, 2), ERR_UNAVAILABLE);
    assert_int_equal(decoded(&b, 0, 0), ERR_INVALID);
    assert_int_equal(decoded(&b, 1, RULES_KNOWN + 1), ERR_UNAVAILABLE);
    assert_int_equal(decoded(&b, 1, 0), ERR_INVALID);
    assert_int_equal(decoded(&b, 3, ORDERING_LIFO + 1), ERR_INVALID);
    buf_done(&b);
}

static void every_row_of_the_table_is_sound(void **state)
{
    (void)state;
    for (const struct setting *s = queue_settings; s < queue_settings + QUEUE_SETTINGS_LEN; s++) {
        struct queue_config c = defaults();
        char text[SETTING_TEXT_MAX];
        uint64_t v = 0;
        size_t len = strlen(s->meaning);
        assert_ptr_equal(setting_find(s->key), s);
        assert_true(len <= 83 && s->meaning[len - 1] == '.'); // a line of the help has 90 columns
        assert_true(s->group && s->label);
        if (s->kind == SETTING_NAME) continue;
        assert_true(s->min <= s->initial && s->initial <= s->max);
        setting_put(s, &c, s->max);
        assert_int_equal(setting_get(s, &c), s->max);
        setting_print(s, s->max, true, text);
        assert_true(setting_parse(s, text, &v));
        assert_int_equal(v, s->max);
    }
}

static void a_wrong_value_is_named_with_its_field_and_what_is_allowed(void **state)
{
    (void)state;
    expect_error("orderingMode", "random", "orderingMode \"random\" is not one of fifo, lifo");
    expect_error("orderingMode", "", "orderingMode \"\" is not one of fifo, lifo");
    expect_error("orderingMode", "fif", "orderingMode \"fif\" is not one of fifo, lifo");
    expect_error("orderingGuarantee", "yes", "orderingGuarantee \"yes\" is not one of false, true");
    expect_error("failureStrategy.mode", "drop",
                 "failureStrategy.mode \"drop\" is not one of retry, dead-letter, hybrid");
    expect_error("failureStrategy.maxRetries", "-1",
                 "failureStrategy.maxRetries \"-1\" is not a whole number, between 0 and 1000000");
    expect_error(
        "failureStrategy.maxRetries", "many",
        "failureStrategy.maxRetries \"many\" is not a whole number, between 0 and 1000000");
    expect_error("failureStrategy.backoff.jitter", "1.5",
                 "failureStrategy.backoff.jitter \"1.5\" must be between 0 and 1");
    expect_error("visibilityTimeout", "0", "visibilityTimeout \"0\" must be between 1ms and 24h");
    expect_error("visibilityTimeout", "30",
                 "visibilityTimeout \"30\" has no unit: write 30s, 30ms, or in JSON the number 30 "
                 "for milliseconds");
    expect_error("failureStrategy.backoff.initial", "1.5",
                 "failureStrategy.backoff.initial \"1.5\" has no unit: write 1.5s, 1.5ms, or in "
                 "JSON the number 1.5 for milliseconds");
    expect_error("visibilityTimeout", "48h",
                 "visibilityTimeout \"48h\" must be between 1ms and 24h");
    expect_error("maxMessageBytes", "100MB",
                 "maxMessageBytes \"100MB\" must be between 1B and 64MiB");
    expect_error("maxMessageBytes", "much",
                 "maxMessageBytes \"much\" is not a size such as 4096 or 256KiB, between 1B and "
                 "64MiB");
    expect_error("visibilityTimeout", "99999999999999999999s",
                 "visibilityTimeout \"99999999999999999999s\" is not a duration such as 1500ms, "
                 "30s or 5m, between 1ms and 24h");
    expect_error("shards", "0", "shards \"0\" must be between 1 and 1024");
    expect_error("failureStrategy.deadLetterQueue", "no spaces",
                 "failureStrategy.deadLetterQueue \"no spaces\" is not a queue name: 1 to 80 of "
                 "A-Z a-z 0-9 _ . -, starting with a letter or digit");
}

static void an_unknown_key_is_refused_with_the_known_ones(void **state)
{
    (void)state;
    expect_error("orderMode", "fifo",
                 "\"orderMode\" is not one of orderingMode, orderingGuarantee, visibilityTimeout, "
                 "dedupWindow, maxMessageBytes, maxDeliveries, capacity, backpressure, shards, "
                 "consume, dispatch, retention, publish, publishKeep, "
                 "publishKeepBytes, workflowOrder, retainBody, "
                 "failureStrategy.*");
    expect_error("failureStrategy.colour", "red",
                 "\"failureStrategy.colour\": failureStrategy has mode, maxRetries, "
                 "deadLetterQueue, backoff.initial, backoff.multiplier, backoff.max, "
                 "backoff.jitter");
    expect_error("failureStrategy.maxretries", "3",
                 "\"failureStrategy.maxretries\" is not a setting; did you mean "
                 "failureStrategy.maxRetries?");
    expect_error("backoff.max", "3s",
                 "\"backoff.max\" is not a setting; did you mean failureStrategy.backoff.max?");
}

static void impossible_combinations_are_refused(void **state)
{
    (void)state;
    struct config_error error;
    struct queue_config c = defaults();
    c.failure_mode = FAILURE_DEAD_LETTER;
    assert_int_equal(config_check(&c, "q", &error), ERR_INVALID);
    assert_string_equal(error.text, "failureStrategy.mode \"dead-letter\" needs "
                                    "failureStrategy.deadLetterQueue, the name of a queue");
    strcpy(c.dead_letter_queue, "q");
    assert_int_equal(config_check(&c, "q", &error), ERR_INVALID);
    assert_string_equal(error.text, "failureStrategy.deadLetterQueue \"q\" is the queue itself; "
                                    "name another queue");
    assert_int_equal(config_check(&c, "other", &error), ERR_OK);
    c.backoff.initial_ms = 10;
    c.backoff.max_ms = 5;
    assert_int_equal(config_check(&c, "other", &error), ERR_INVALID);
    assert_string_equal(error.text, "failureStrategy.backoff.initial 10ms is more than "
                                    "failureStrategy.backoff.max 5ms");
}

static const char *next_queue(void *ctx, const char *queue)
{
    const char *(*edges)[2] = ctx;
    for (; (*edges)[0]; edges++)
        if (strcmp((*edges)[0], queue) == 0) return (*edges)[1];
    return NULL;
}

static void a_circle_of_dead_letter_queues_is_refused(void **state)
{
    (void)state;
    const char *open[][2] = {{"b", "c"}, {"c", "d"}, {NULL, NULL}};
    const char *closed[][2] = {{"b", "c"}, {"c", "a"}, {NULL, NULL}};
    const char *others[][2] = {{"b", "c"}, {"c", "b"}, {NULL, NULL}};
    struct config_error error;
    struct queue_config c = defaults();
    strcpy(c.dead_letter_queue, "b");
    assert_int_equal(config_check_cycle(&c, "a", next_queue, open, &error), ERR_OK);
    assert_int_equal(config_check_cycle(&c, "a", next_queue, closed, &error), ERR_INVALID);
    assert_string_equal(error.text, "failureStrategy.deadLetterQueue \"b\" leads back to \"a\"; "
                                    "dead letters must end in a queue of their own");
    assert_int_equal(config_check_cycle(&c, "a", next_queue, others, &error), ERR_INVALID);
}

static void queue_names_are_checked(void **state)
{
    (void)state;
    char long_name[QUEUE_NAME_MAX + 2];
    memset(long_name, 'a', sizeof long_name);
    long_name[QUEUE_NAME_MAX] = '\0';
    assert_true(queue_name_ok("orders"));
    assert_true(queue_name_ok("a.b_c-9"));
    assert_true(queue_name_ok(long_name));
    long_name[QUEUE_NAME_MAX] = 'a';
    long_name[QUEUE_NAME_MAX + 1] = '\0';
    assert_false(queue_name_ok(long_name));
    assert_false(queue_name_ok(""));
    assert_false(queue_name_ok("-a"));
    assert_false(queue_name_ok("a/b"));
}

static void damaged_configurations_are_invalid(void **state)
{
    (void)state;
    struct queue_config c = defaults(), out;
    strcpy(c.dead_letter_queue, "dlq");
    struct buf b;
    buf_init(&b, 4096);
    config_encode(&c, &b);
    for (size_t len = 0; len < b.len; len++) {
        struct reader r = reader_of(bytes_of(b.data, len));
        assert_int_equal(config_decode(&r, &out), ERR_INVALID);
    }
    for (size_t i = 0; i < b.len; i++) {
        b.data[i] ^= 0xff;
        struct reader r = reader_of(buf_bytes(&b));
        if (config_decode(&r, &out) == ERR_OK) // another value, but an allowed one
            assert_true(out.shards >= 1 && out.shards <= CONFIG_SHARDS_MAX);
        b.data[i] ^= 0xff;
    }
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_defaults_are_those_of_the_design),
        CASE(every_key_takes_back_what_it_prints),
        CASE(the_stored_bytes_are_those_of_the_format),
        CASE(a_configuration_of_a_later_release_is_told_from_damage),
        CASE(every_row_of_the_table_is_sound),
        CASE(a_wrong_value_is_named_with_its_field_and_what_is_allowed),
        CASE(an_unknown_key_is_refused_with_the_known_ones),
        CASE(impossible_combinations_are_refused),
        CASE(a_circle_of_dead_letter_queues_is_refused),
        CASE(queue_names_are_checked),
        CASE(damaged_configurations_are_invalid),
    };
    return RUN(tests);
}
