// SPDX-License-Identifier: Apache-2.0
// Subjects: each name has one token, no name breaks a subject or matches the filter of another, and
// only what was printed is read.
#include "unit.h"

#include "../support/subject_match.h"
#include "base/rng.h"
#include "events/subject.h"

#include <stdio.h>
#include <string.h>

static struct subject task_of(struct bytes queue)
{
    return (struct subject){
        .kind = SUBJECT_TASK, .queue = queue, .shard = 3, .event = bytes_str("message-enqueued")};
}

static void assert_same(const struct subject *a, const struct subject *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->version ? a->version : SUBJECT_VERSION, b->version);
    assert_int_equal(a->shard, b->shard);
    assert_true(bytes_equal(a->queue, b->queue));
    assert_true(bytes_equal(a->workflow, b->workflow));
    assert_true(bytes_equal(a->event, b->event));
}

static void assert_round_trip(const struct subject *s)
{
    char text[SUBJECT_MAX], room[SUBJECT_MAX], why[SUBJECT_WHY_MAX];
    struct subject back;
    assert_int_equal(subject_print(s, text), ERR_OK);
    assert_int_equal(subject_read(bytes_str(text), room, &back, why), ERR_OK);
    assert_same(s, &back);
}

static void the_three_forms_are_as_documented(void **state)
{
    (void)state;
    char text[SUBJECT_MAX];
    struct subject s = task_of(bytes_str("tasks"));
    assert_int_equal(subject_print(&s, text), ERR_OK);
    assert_string_equal(text, "sluice.v1.task.tasks.3.message-enqueued");
    s = (struct subject){.kind = SUBJECT_WORKFLOW,
                         .queue = bytes_str("tasks"),
                         .workflow = bytes_str("order 17"),
                         .event = bytes_str("workflow-completed")};
    assert_int_equal(subject_print(&s, text), ERR_OK);
    assert_string_equal(text, "sluice.v1.workflow.tasks.order=2017.workflow-completed");
    s = (struct subject){.kind = SUBJECT_CLUSTER, .event = bytes_str("member-health")};
    assert_int_equal(subject_print(&s, text), ERR_OK);
    assert_string_equal(text, "sluice.v1.cluster.member-health");
    s.version = 2;
    assert_int_equal(subject_print(&s, text), ERR_OK);
    assert_string_equal(text, "sluice.v2.cluster.member-health");
    assert_round_trip(&s);
}

static const struct hostile {
    const char *name, *token;
} hostile[] = {
    {"a.b", "a=2Eb"},       {".", "=2E"},           {"*", "=2A"},       {">", "=3E"},
    {"a b", "a=20b"},       {"\xff", "=FF"},        {"=2E", "=3D2E"},   {"=", "=3D"},
    {"a\r\nb", "a=0D=0Ab"}, {"\xc3\xa4", "=C3=A4"}, {"$SYS", "=24SYS"}, {"a/b\\c", "a=2Fb=5Cc"},
    {"-_-", "-_-"},
};

static void hostile_names_are_one_token_and_come_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        char text[SUBJECT_MAX], right[SUBJECT_MAX];
        struct subject s = task_of(bytes_str(hostile[i].name));
        assert_int_equal(subject_print(&s, text), ERR_OK);
        (void)snprintf(right, sizeof right, "sluice.v1.task.%s.3.message-enqueued",
                       hostile[i].token);
        assert_string_equal(text, right);
        assert_round_trip(&s);
        s = (struct subject){.kind = SUBJECT_WORKFLOW,
                             .queue = bytes_str(hostile[i].name),
                             .workflow = bytes_str(hostile[i].name),
                             .event = bytes_str(hostile[i].name)};
        assert_round_trip(&s);
    }
}

static void every_byte_comes_back(void **state)
{
    (void)state;
    uint8_t all[256];
    for (int i = 0; i < 256; i++) {
        all[i] = (uint8_t)i;
        struct subject s = task_of(bytes_of(&all[i], 1));
        assert_round_trip(&s);
    }
    struct subject s = task_of(bytes_of(all, sizeof all)); // the longest name
    s.event = s.queue;
    assert_round_trip(&s);
}

static void names_that_are_empty_or_too_long_are_refused(void **state)
{
    (void)state;
    char text[SUBJECT_MAX], stream[SUBJECT_STREAM_MAX];
    uint8_t long_name[SUBJECT_NAME_MAX + 1] = {0};
    struct subject s = task_of(BYTES_EMPTY);
    assert_int_equal(subject_print(&s, text), ERR_INVALID);
    s = task_of(bytes_of(long_name, sizeof long_name));
    assert_int_equal(subject_print(&s, text), ERR_LIMIT);
    assert_int_equal(subject_stream(s.queue, stream), ERR_LIMIT);
    assert_int_equal(subject_stream(BYTES_EMPTY, stream), ERR_INVALID);
    s = task_of(bytes_str("q"));
    s.event = BYTES_EMPTY;
    assert_int_equal(subject_print(&s, text), ERR_INVALID);
}

static const struct wrong {
    const char *text, *why;
} wrong[] = {
    {"", "empty"},
    {"sluice", "does not begin"},
    {"sluice.v1.task", "does not begin"},
    {"other.v1.task.q.0.e", "does not begin"},
    {"sluice.1.task.q.0.e", "\"1\" is not a version"},
    {"sluice.v0.task.q.0.e", "\"v0\" is not a version"},
    {"sluice.v01.task.q.0.e", "\"v01\" is not a version"},
    {"sluice.v99999999999.task.q.0.e", "is not a version"},
    {"sluice.v1.job.q.0.e", "\"job\" is not one of task, workflow, cluster"},
    {"sluice.v1.task.q.0", "has 6 tokens"},
    {"sluice.v1.task.q.0.e.f", "has 6 tokens"},
    {"sluice.v1.cluster.a.b", "has 4 tokens"},
    {"sluice.v1.task..0.e", "is not a token"},
    {"sluice.v1.task.q.0.", "is not a token"},
    {"sluice.v1.task.q.x.e", "\"x\" is not the number of a shard"},
    {"sluice.v1.task.q.00.e", "\"00\" is not the number of a shard"},
    {"sluice.v1.task.q.4294967296.e", "is not the number of a shard"},
    {"sluice.v1.task.q.-1.e", "is not the number of a shard"},
    {"sluice.v1.task.*.0.e", "\"*\" is not a token"},
    {"sluice.v1.task.a b.0.e", "\"a b\" is not a token"},
    {"sluice.v1.task.=2e.0.e", "is not a token"},
    {"sluice.v1.task.=41.0.e", "is not a token"}, // "A" needs no code
    {"sluice.v1.task.=2.0.e", "is not a token"},
    {"sluice.v1.task.=.0.e", "is not a token"},
    {"sluice.v1.task.\xff.0.e", "\"?\" is not a token"},
};

static void other_forms_are_refused_with_a_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char room[SUBJECT_MAX], why[SUBJECT_WHY_MAX] = "";
        struct subject s;
        assert_int_equal(subject_read(bytes_str(wrong[i].text), room, &s, why), ERR_INVALID);
        if (!strstr(why, wrong[i].why)) fail_msg("%s: %s", wrong[i].text, why);
        assert_null(s.queue.data);
    }
    char room[SUBJECT_MAX], why[SUBJECT_WHY_MAX];
    static char longest[SUBJECT_MAX + 1];
    struct subject s;
    memset(longest, 'a', SUBJECT_MAX);
    assert_int_equal(subject_read(bytes_str(longest), room, &s, why), ERR_INVALID);
    assert_non_null(strstr(why, "at most"));
}

static void a_stream_has_the_token_of_its_queue(void **state)
{
    (void)state;
    char name[SUBJECT_STREAM_MAX];
    assert_int_equal(subject_stream(bytes_str("mail.eu"), name), ERR_OK);
    assert_string_equal(name, "SLUICE_mail=2Eeu");
    assert_string_not_equal(name, SUBJECT_CLUSTER_STREAM);
    assert_int_equal(subject_stream(bytes_str("CLUSTER"), name), ERR_OK);
    assert_string_not_equal(name, SUBJECT_CLUSTER_STREAM);
}

// The shard comes first, so no name of a queue makes the name of another queue's stream.
static void a_stream_of_a_shard_has_its_number_and_the_token(void **state)
{
    (void)state;
    char name[SUBJECT_STREAM_MAX], other[SUBJECT_STREAM_MAX], longest[SUBJECT_NAME_MAX];
    assert_int_equal(subject_shard_stream(bytes_str("mail.eu"), 12, name), ERR_OK);
    assert_string_equal(name, "SLUICE-12_mail=2Eeu");
    assert_int_equal(subject_shard_stream(bytes_str("2_mail.eu"), 1, other), ERR_OK);
    assert_string_not_equal(name, other);
    memset(longest, '.', sizeof longest);
    struct bytes queue = bytes_of(longest, sizeof longest);
    assert_int_equal(subject_shard_stream(queue, UINT32_MAX, name), ERR_OK);
    assert_int_equal(subject_shard_stream(BYTES_EMPTY, 0, name), ERR_INVALID);
}

static void filters_have_wildcards_for_what_is_not_given(void **state)
{
    (void)state;
    char text[SUBJECT_MAX];
    struct subject_filter f = {.every_kind = true, .queue = bytes_str("a.b")};
    assert_int_equal(subject_filter_print(&f, text), ERR_OK);
    assert_string_equal(text, "sluice.v1.*.a=2Eb.*.*");
    f = (struct subject_filter){.kind = SUBJECT_TASK, .every_shard = true};
    assert_int_equal(subject_filter_print(&f, text), ERR_OK);
    assert_string_equal(text, "sluice.v1.task.*.*.*");
    f = (struct subject_filter){
        .kind = SUBJECT_TASK, .shard = 7, .queue = bytes_str("q"), .event = bytes_str("gap")};
    assert_int_equal(subject_filter_print(&f, text), ERR_OK);
    assert_string_equal(text, "sluice.v1.task.q.7.gap");
    f = (struct subject_filter){.kind = SUBJECT_WORKFLOW, .workflow = bytes_str("w*")};
    assert_int_equal(subject_filter_print(&f, text), ERR_OK);
    assert_string_equal(text, "sluice.v1.workflow.*.w=2A.*");
    f = (struct subject_filter){.kind = SUBJECT_CLUSTER, .version = 2};
    assert_int_equal(subject_filter_print(&f, text), ERR_OK);
    assert_string_equal(text, "sluice.v2.cluster.*");
    f.queue = bytes_str("q"); // cluster events have no queue in their subject
    assert_int_equal(subject_filter_print(&f, text), ERR_INVALID);
    f = (struct subject_filter){.every_kind = true, .workflow = bytes_str("w")};
    assert_int_equal(subject_filter_print(&f, text), ERR_INVALID);
}

static bool matches(const char *filter, const char *subject)
{
    return subject_matches(bytes_str(filter), bytes_str(subject));
}

static void filters_match_as_the_server_does(void **state)
{
    (void)state;
    assert_true(matches("a.*.c", "a.b.c"));
    assert_true(matches("a.>", "a.b.c"));
    assert_true(matches(">", "a"));
    assert_false(matches("a.>", "a"));
    assert_false(matches("a.*", "a.b.c"));
    assert_false(matches("a.b.c", "a.b"));
    assert_false(matches("a.b", "a.b.c"));
    assert_false(matches("*", ""));
}

// Random names of bytes that a subject is sensitive to: a filter of one queue matches no other.
static void no_name_matches_the_filter_of_another(void **state)
{
    (void)state;
    static const char bytes[] = "a.*> =2E\xff";
    struct rng rng;
    rng_init(&rng, 17);
    for (int round = 0; round < 20000; round++) {
        char name[2][5], text[SUBJECT_MAX], filter[SUBJECT_MAX];
        struct bytes names[2];
        for (int i = 0; i < 2; i++) {
            size_t len = 1 + rng_below(&rng, sizeof name[i] - 1);
            for (size_t at = 0; at < len; at++)
                name[i][at] = bytes[rng_below(&rng, sizeof bytes - 1)];
            names[i] = bytes_of(name[i], len);
        }
        struct subject s = task_of(names[0]);
        struct subject_filter f = {.every_kind = true, .queue = names[1]};
        assert_int_equal(subject_print(&s, text), ERR_OK);
        assert_int_equal(subject_filter_print(&f, filter), ERR_OK);
        assert_int_equal(matches(filter, text), bytes_equal(names[0], names[1]));
        assert_round_trip(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_three_forms_are_as_documented),
        cmocka_unit_test(hostile_names_are_one_token_and_come_back),
        cmocka_unit_test(every_byte_comes_back),
        cmocka_unit_test(names_that_are_empty_or_too_long_are_refused),
        cmocka_unit_test(other_forms_are_refused_with_a_reason),
        cmocka_unit_test(a_stream_has_the_token_of_its_queue),
        cmocka_unit_test(a_stream_of_a_shard_has_its_number_and_the_token),
        cmocka_unit_test(filters_have_wildcards_for_what_is_not_given),
        cmocka_unit_test(filters_match_as_the_server_does),
        cmocka_unit_test(no_name_matches_the_filter_of_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
