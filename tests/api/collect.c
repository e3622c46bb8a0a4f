// SPDX-License-Identifier: Apache-2.0
// Collecting the outcomes of messages, on a store and by way of a node.
#include "acting_rig.h"
#include "api/handle.h"
#include "os/clock.h"

#include <stdlib.h>

#define WAIT_MS 10000
#define JOBS    40
#define MANY    2500 // more than one answer has

struct jobs {
    struct rig rig;
    char ids[JOBS][SLUICE_ID_MAX];
    const char *list[JOBS];
};

static void jobs_init(struct jobs *j, const struct sluice_setting *settings, size_t len)
{
    rig_queue(&j->rig, settings, len);
    for (int i = 0; i < JOBS; i++) {
        send_text(j->rig.s, "job", j->ids[i]);
        j->list[i] = j->ids[i];
    }
}

static struct sluice_collector *collect_ids(struct jobs *j, size_t len, const char *position)
{
    struct sluice_collector *c;
    struct sluice_collect what = {.ids = j->list, .ids_len = len, .position = position};
    FINE(sluice_collect_open(j->rig.s, "tasks", &what, &c, &error));
    return c;
}

// Ends the next `count` messages: acks, and every third one fails if `some_fail`.
static size_t work(struct jobs *j, uint32_t count, bool some_fail)
{
    struct sluice_batch *b = receive(j->rig.s, "w", count);
    size_t len = b->len;
    for (size_t i = 0; i < b->len; i++) {
        const char *token = b->messages[i].token;
        if (some_fail && i % 3 == 2)
            FINE(sluice_fail(j->rig.s, "tasks", &token, 1, "no luck", NULL, &error));
        else
            FINE(sluice_ack(j->rig.s, "tasks", &token, 1, NULL, &error));
    }
    sluice_batch_free(b);
    return len;
}

struct sums {
    size_t processed, dead, unknown, others;
};

static struct sums collect_all(struct sluice_collector *c)
{
    struct sums s = {0};
    for (;;) {
        const struct sluice_collected *one;
        FINE(sluice_collect_next(c, WAIT_MS, &one, &error));
        if (!one) return s;
        bool dead = strcmp(one->message.state, "dead") == 0;
        s.processed += strcmp(one->message.state, "processed") == 0;
        s.dead += dead;
        s.unknown += strcmp(one->kind, "unknown") == 0;
        if (dead) assert_string_equal(one->message.reason, "no luck");
        if (strcmp(one->kind, "outcome") == 0) assert_true(one->message.finished_at > 0);
    }
}

static void all_outcomes_come_once(void **state)
{
    (void)state;
    struct sluice_setting shards = {"shards", "4"};
    struct jobs j;
    jobs_init(&j, &shards, 1);
    const char *const *missing;
    struct sluice_collector *c = collect_ids(&j, JOBS, NULL);
    size_t done = 0;
    for (int i = 0; i < 20 && done < JOBS; i++)
        done += work(&j, JOBS, false);
    assert_int_equal(done, JOBS);
    struct sums s = collect_all(c);
    assert_int_equal(s.processed, JOBS);
    assert_int_equal(sluice_collect_missing(c, &missing), 0);
    sluice_collect_close(c);
    c = collect_ids(&j, JOBS, NULL); // it may be repeated, and begin afterwards
    s = collect_all(c);
    assert_int_equal(s.processed, JOBS);
    sluice_collect_close(c);
    rig_close(&j.rig);
}

static void failures_come_with_their_reasons(void **state)
{
    (void)state;
    struct sluice_setting settings[] = {{"failureStrategy.mode", "retry"},
                                        {"failureStrategy.maxRetries", "0"}};
    struct jobs j;
    jobs_init(&j, settings, 2);
    struct sluice_collector *c = collect_ids(&j, JOBS, NULL);
    assert_int_equal(work(&j, JOBS, true), JOBS);
    struct sums s = collect_all(c);
    assert_int_equal(s.processed + s.dead, JOBS);
    assert_int_equal(s.dead, JOBS / 3);
    sluice_collect_close(c);
    rig_close(&j.rig);
}

static void the_missing_are_named(void **state)
{
    (void)state;
    struct jobs j;
    jobs_init(&j, NULL, 0);
    const char *const *missing;
    const struct sluice_collected *one;
    struct sluice_error e;
    struct sluice_collector *c = collect_ids(&j, 3, NULL);
    assert_int_equal(work(&j, 1, false), 1);
    FINE(sluice_collect_next(c, WAIT_MS, &one, &error));
    assert_string_equal(one->message.id, j.ids[0]);
    assert_int_equal(sluice_collect_next(c, 50, &one, &e), SLUICE_NOT_FOUND);
    assert_int_equal(sluice_collect_missing(c, &missing), 2);
    for (int i = 0; i < 2; i++)
        assert_true(strcmp(missing[i], j.ids[1]) == 0 || strcmp(missing[i], j.ids[2]) == 0);
    sluice_collect_close(c);
    rig_close(&j.rig);
}

static void an_unknown_message_is_listed_and_the_others_go_on(void **state)
{
    (void)state;
    struct jobs j;
    jobs_init(&j, NULL, 0);
    j.list[1] = "deadbeef-0-17";
    struct sluice_collector *c = collect_ids(&j, 2, NULL);
    assert_int_equal(work(&j, 1, false), 1);
    struct sums s = collect_all(c);
    assert_int_equal(s.unknown, 1);
    assert_int_equal(s.processed, 1);
    sluice_collect_close(c);
    rig_close(&j.rig);
}

static void very_many_unknown_messages_come_in_parts(void **state)
{
    (void)state;
    static char names[MANY][SLUICE_ID_MAX];
    static const char *ids[MANY];
    struct rig r;
    rig_queue(&r, NULL, 0);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "deadbeef-0-%d", i + 1);
        ids[i] = names[i];
    }
    struct sluice_collector *c;
    struct sluice_collect what = {.ids = ids, .ids_len = MANY};
    FINE(sluice_collect_open(r.s, "tasks", &what, &c, &error));
    assert_int_equal(collect_all(c).unknown, MANY);
    sluice_collect_close(c);
    rig_close(&r);
}

// A poll for all messages that have ended already waits for nothing.
static void a_poll_for_all_ends_when_all_have_ended(void **state)
{
    (void)state;
    struct sluice_setting shards = {"shards", "2"};
    struct jobs j;
    struct collected_list *out = NULL;
    jobs_init(&j, &shards, 1);
    size_t done = 0;
    for (int i = 0; i < 20 && done < JOBS; i++)
        done += work(&j, JOBS, false);
    struct collect_poll poll = {
        .ids = j.list, .len = JOBS, .all = true, .wait_ms = COLLECT_WAIT_MAX_MS};
    int64_t began = clock_boot_ms();
    FINE(dispatch_collect_poll(j.rig.s, "tasks", &poll, &out, &error));
    assert_true(clock_boot_ms() - began < COLLECT_WAIT_MAX_MS / 2);
    assert_int_equal(out->len, JOBS);
    assert_int_equal(out->missing, 0);
    collected_free(out);
    rig_close(&j.rig);
}

static void a_later_collect_goes_on_at_the_position(void **state)
{
    (void)state;
    struct jobs j;
    jobs_init(&j, NULL, 0);
    char position[32];
    struct sluice_collector *c = collect_ids(&j, 4, NULL);
    const struct sluice_collected *one;
    struct sluice_error e;
    assert_int_equal(work(&j, 2, false), 2);
    for (int i = 0; i < 2; i++)
        FINE(sluice_collect_next(c, WAIT_MS, &one, &error));
    assert_int_equal(sluice_collect_next(c, 20, &one, &e), SLUICE_NOT_FOUND);
    clock_sleep(5);                           // the next outcomes are of a later millisecond
    send_text(j.rig.s, "x", j.ids[JOBS - 1]); // an entry: the shard's time has passed the outcomes
    assert_int_equal(sluice_collect_next(c, 50, &one, &e), SLUICE_NOT_FOUND);
    (void)snprintf(position, sizeof position, "%s", sluice_collect_position(c));
    assert_true(strtoll(position, NULL, 10) > 0);
    sluice_collect_close(c);
    c = collect_ids(&j, 4, position);
    assert_int_equal(work(&j, 2, false), 2);
    struct sums s = collect_all(c);
    assert_int_equal(s.processed, 2);
    sluice_collect_close(c);
    rig_close(&j.rig);
}

static void many_messages_take_a_few_polls(void **state)
{
    (void)state;
    struct jobs j;
    rig_queue(&j.rig, NULL, 0);
    struct sluice_send *sends = calloc(MANY, sizeof *sends);
    struct sluice_sent *sent = calloc(MANY, sizeof *sent);
    const char **ids = calloc(MANY, sizeof *ids);
    for (int i = 0; i < MANY; i++)
        sends[i] = (struct sluice_send){.body = "x", .body_len = 1};
    FINE(sluice_send(j.rig.s, "tasks", sends, MANY, NULL, sent, &error));
    for (int i = 0; i < MANY; i++)
        ids[i] = sent[i].id;
    struct sluice_collector *c;
    struct sluice_collect what = {.ids = ids, .ids_len = MANY};
    FINE(sluice_collect_open(j.rig.s, "tasks", &what, &c, &error));
    size_t done = 0;
    for (int i = 0; i < 20 && done < MANY; i++) {
        struct sluice_batch *b = receive(j.rig.s, "w", MANY);
        const char **tokens = calloc(b->len + 1, sizeof *tokens);
        for (size_t k = 0; k < b->len; k++)
            tokens[k] = b->messages[k].token;
        FINE(sluice_ack(j.rig.s, "tasks", tokens, b->len, NULL, &error));
        done += b->len;
        free(tokens);
        sluice_batch_free(b);
    }
    assert_int_equal(done, MANY);
    assert_int_equal(collect_all(c).processed, MANY);
    sluice_collect_close(c);
    free(ids);
    free(sends);
    free(sent);
    rig_close(&j.rig);
}

static void bad_collects_have_their_sentences(void **state)
{
    (void)state;
    struct jobs j;
    jobs_init(&j, NULL, 0);
    struct sluice_collector *c;
    struct sluice_error e;
    struct sluice_collect what = {.ids = j.list};
    assert_int_equal(sluice_collect_open(j.rig.s, "tasks", &what, &c, &e), SLUICE_INVALID);
    assert_string_equal(e.field, "ids");
    j.list[1] = j.list[0];
    what.ids_len = 2;
    assert_int_equal(sluice_collect_open(j.rig.s, "tasks", &what, &c, &e), SLUICE_INVALID);
    assert_non_null(strstr(e.message, "twice"));
    what = (struct sluice_collect){.ids = j.list, .ids_len = 1, .position = "yesterday"};
    assert_int_equal(sluice_collect_open(j.rig.s, "tasks", &what, &c, &e), SLUICE_INVALID);
    assert_string_equal(e.field, "position");
    what = (struct sluice_collect){.ids = j.list, .ids_len = 1, .workflow = "w"};
    assert_int_equal(sluice_collect_open(j.rig.s, "tasks", &what, &c, &e), SLUICE_INVALID);
    what = (struct sluice_collect){.workflow = "never"};
    assert_int_equal(sluice_collect_open(j.rig.s, "tasks", &what, &c, &e), SLUICE_NOT_FOUND);
    rig_close(&j.rig);
}

static void running_messages_are_asked(void **state)
{
    (void)state;
    struct jobs j;
    jobs_init(&j, NULL, 0);
    struct sluice_batch *b = receive(j.rig.s, "w", 1);
    const char *token = b->messages[0].token;
    struct sluice_collector *c;
    struct sluice_collect what = {.ids = j.list, .ids_len = 3, .running = 1, .ask = "how far"};
    FINE(sluice_collect_open(j.rig.s, "tasks", &what, &c, &error));
    struct sluice_signals *signals;
    FINE(sluice_signals_receive(j.rig.s, "tasks", &token, 1, WAIT_MS, &signals, &error));
    assert_int_equal(signals->len, 1);
    struct sluice_signal_answer answer = {
        .token = token, .number = signals->rows[0].number, .answer = "half", .answer_len = 4};
    FINE(sluice_signals_ack(j.rig.s, "tasks", &answer, 1, NULL, &error));
    sluice_signals_free(signals);
    const struct sluice_collected *one;
    FINE(sluice_collect_next(c, WAIT_MS, &one, &error));
    assert_string_equal(one->kind, "answer");
    assert_string_equal(one->message.id, j.ids[0]);
    assert_string_equal(one->answer.answer, "half");
    struct sluice_error e;
    assert_int_equal(sluice_collect_next(c, 50, &one, &e), SLUICE_NOT_FOUND);
    sluice_collect_close(c);
    sluice_batch_free(b);
    rig_close(&j.rig);
}

static void answer_one(struct sluice *s, const char *token, const char *text)
{
    struct sluice_signals *signals;
    FINE(sluice_signals_receive(s, "tasks", &token, 1, WAIT_MS, &signals, &error));
    assert_int_equal(signals->len, 1);
    struct sluice_signal_answer answer = {.token = token,
                                          .number = signals->rows[0].number,
                                          .answer = text,
                                          .answer_len = strlen(text)};
    FINE(sluice_signals_ack(s, "tasks", &answer, 1, NULL, &error));
    sluice_signals_free(signals);
}

// In several shards. Each answer comes once, and a question that the job did not answer is missed.
static void each_running_message_of_a_collect_answers_once(void **state)
{
    (void)state;
    struct sluice_setting shards = {"shards", "4"};
    struct jobs j;
    jobs_init(&j, &shards, 1);
    struct sluice_batch *held[3];
    for (int i = 0; i < 3; i++)
        held[i] = receive(j.rig.s, "w", 1);
    struct sluice_collector *c;
    struct sluice_collect what = {.ids = j.list, .ids_len = JOBS, .running = 1, .ask = "how far"};
    FINE(sluice_collect_open(j.rig.s, "tasks", &what, &c, &error));
    const struct sluice_collected *one;
    for (int i = 0; i < 2; i++) {
        answer_one(j.rig.s, held[i]->messages[0].token, i == 0 ? "first" : "second");
        FINE(sluice_collect_next(c, WAIT_MS, &one, &error));
        assert_string_equal(one->kind, "answer");
        assert_string_equal(one->message.id, held[i]->messages[0].id);
        assert_string_equal(one->answer.answer, i == 0 ? "first" : "second");
    }
    const char *token = held[2]->messages[0].token;
    FINE(sluice_ack(j.rig.s, "tasks", &token, 1, NULL, &error));
    bool missed = false, ended = false;
    for (int i = 0; i < 2; i++) {
        FINE(sluice_collect_next(c, WAIT_MS, &one, &error));
        assert_string_equal(one->message.id, held[2]->messages[0].id);
        bool answer = strcmp(one->kind, "answer") == 0;
        if (answer) assert_string_equal(one->answer.state, "missed");
        missed = missed || answer;
        ended = ended || strcmp(one->kind, "outcome") == 0;
    }
    assert_true(missed && ended);
    struct sluice_error e;
    assert_int_equal(sluice_collect_next(c, 50, &one, &e), SLUICE_NOT_FOUND);
    sluice_collect_close(c);
    for (int i = 0; i < 3; i++)
        sluice_batch_free(held[i]);
    rig_close(&j.rig);
}

static void the_running_messages_of_a_workflow_are_asked(void **state)
{
    (void)state;
    struct rig r;
    char id[SLUICE_ID_MAX];
    rig_queue(&r, NULL, 0);
    for (int i = 0; i < 3; i++)
        send_one(r.s, &(struct sluice_send){.body = "x", .body_len = 1, .workflow = "order"}, id);
    struct sluice_batch *b = receive(r.s, "w", 2);
    const char *token = b->messages[0].token;
    FINE(sluice_ack(r.s, "tasks", &token, 1, NULL, &error));
    struct sluice_collector *c;
    struct sluice_collect what = {.workflow = "order", .running = 1};
    FINE(sluice_collect_open(r.s, "tasks", &what, &c, &error));
    answer_one(r.s, b->messages[1].token, "half");
    const struct sluice_collected *one;
    FINE(sluice_collect_next(c, WAIT_MS, &one, &error));
    assert_string_equal(one->kind, "outcome");
    FINE(sluice_collect_next(c, WAIT_MS, &one, &error));
    assert_string_equal(one->kind, "answer");
    assert_string_equal(one->message.id, b->messages[1].id);
    sluice_collect_close(c);
    sluice_batch_free(b);
    rig_close(&r);
}

static void results_come_with_the_outcomes(void **state)
{
    (void)state;
    struct jobs j;
    jobs_init(&j, NULL, 0);
    struct sluice_batch *b = receive(j.rig.s, "w", 2);
    assert_int_equal(b->len, 2);
    struct sluice_ack acks[] = {
        {b->messages[0].token, "{\"pages\":12}", 12, "application/json"},
        {b->messages[1].token, NULL, 0, NULL},
    };
    FINE(sluice_ack_with(j.rig.s, "tasks", acks, 2, NULL, &error));
    struct sluice_collector *c = collect_ids(&j, 2, NULL);
    for (int i = 0; i < 2; i++) {
        const struct sluice_collected *one;
        FINE(sluice_collect_next(c, WAIT_MS, &one, &error));
        assert_string_equal(one->message.worker, "w");
        if (strcmp(one->message.id, j.ids[0]) == 0) {
            assert_int_equal(one->message.result_len, 12);
            assert_string_equal(one->message.result, "{\"pages\":12}");
            assert_string_equal(one->message.result_type, "application/json");
        } else {
            assert_null(one->message.result);
        }
    }
    sluice_collect_close(c);
    sluice_batch_free(b);
    rig_close(&j.rig);
}

static void a_workflow_is_collected(void **state)
{
    (void)state;
    struct rig r;
    char id[SLUICE_ID_MAX];
    rig_queue(&r, NULL, 0);
    for (int i = 0; i < 3; i++)
        send_one(r.s, &(struct sluice_send){.body = "x", .body_len = 1, .workflow = "order"}, id);
    struct sluice_collector *c;
    struct sluice_collect what = {.workflow = "order"};
    FINE(sluice_collect_open(r.s, "tasks", &what, &c, &error));
    struct sluice_batch *b = receive(r.s, "w", 3);
    for (size_t i = 0; i < b->len; i++) {
        const char *token = b->messages[i].token;
        FINE(sluice_ack(r.s, "tasks", &token, 1, NULL, &error));
    }
    sluice_batch_free(b);
    assert_int_equal(collect_all(c).processed, 3);
    sluice_collect_close(c);
    rig_close(&r);
}

// Some end before the collect begins, and some after.
static void messages_of_a_workflow_that_ended_before_come_too(void **state)
{
    (void)state;
    struct sluice_setting shards = {"shards", "4"};
    struct rig r;
    char id[SLUICE_ID_MAX];
    rig_queue(&r, &shards, 1);
    for (int i = 0; i < 3; i++)
        send_one(r.s, &(struct sluice_send){.body = "x", .body_len = 1, .workflow = "order"}, id);
    struct sluice_batch *b = receive(r.s, "w", 3);
    assert_int_equal(b->len, 3);
    struct sluice_ack acks[] = {{b->messages[0].token, "one", 3, "text/plain"},
                                {b->messages[1].token, "two", 3, "text/plain"}};
    FINE(sluice_ack_with(r.s, "tasks", acks, 2, NULL, &error));
    struct sluice_collector *c;
    struct sluice_collect what = {.workflow = "order"};
    FINE(sluice_collect_open(r.s, "tasks", &what, &c, &error));
    const char *const *missing;
    const struct sluice_collected *one;
    assert_int_equal(sluice_collect_missing(c, &missing), 3);
    for (int i = 0; i < 2; i++) {
        FINE(sluice_collect_next(c, WAIT_MS, &one, &error));
        assert_string_equal(one->message.state, "processed");
        assert_int_equal(one->message.result_len, 3);
    }
    assert_int_equal(sluice_collect_missing(c, &missing), 1);
    assert_string_equal(missing[0], b->messages[2].id);
    FINE(sluice_ack(r.s, "tasks", (const char *const[]){b->messages[2].token}, 1, NULL, &error));
    assert_int_equal(collect_all(c).processed, 1);
    sluice_collect_close(c);
    sluice_batch_free(b);
    rig_close(&r);
}

// Its workflow has more messages than one answer.
static void a_large_workflow_is_collected(void **state)
{
    (void)state;
    struct rig r;
    rig_queue(&r, NULL, 0);
    struct sluice_send *sends = calloc(MANY, sizeof *sends);
    for (int i = 0; i < MANY; i++)
        sends[i] = (struct sluice_send){.body = "x", .body_len = 1, .workflow = "large"};
    FINE(sluice_send(r.s, "tasks", sends, MANY, NULL, NULL, &error));
    free(sends);
    struct jobs j = {.rig = r};
    size_t done = 0;
    for (int i = 0; i < 20 && done < MANY / 2; i++)
        done += work(&j, 500, false);
    struct sluice_collector *c;
    struct sluice_collect what = {.workflow = "large"};
    FINE(sluice_collect_open(r.s, "tasks", &what, &c, &error));
    for (int i = 0; i < 20 && done < MANY; i++)
        done += work(&j, 500, false);
    assert_int_equal(done, MANY);
    assert_int_equal(collect_all(c).processed, MANY);
    sluice_collect_close(c);
    rig_close(&r);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    backend = argv[1];
    (void)stats;
    (void)state_is;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_outcomes_come_once),
        cmocka_unit_test(failures_come_with_their_reasons),
        cmocka_unit_test(the_missing_are_named),
        cmocka_unit_test(an_unknown_message_is_listed_and_the_others_go_on),
        cmocka_unit_test(very_many_unknown_messages_come_in_parts),
        cmocka_unit_test(a_poll_for_all_ends_when_all_have_ended),
        cmocka_unit_test(a_later_collect_goes_on_at_the_position),
        cmocka_unit_test(many_messages_take_a_few_polls),
        cmocka_unit_test(bad_collects_have_their_sentences),
        cmocka_unit_test(running_messages_are_asked),
        cmocka_unit_test(each_running_message_of_a_collect_answers_once),
        cmocka_unit_test(the_running_messages_of_a_workflow_are_asked),
        cmocka_unit_test(results_come_with_the_outcomes),
        cmocka_unit_test(a_workflow_is_collected),
        cmocka_unit_test(messages_of_a_workflow_that_ended_before_come_too),
        cmocka_unit_test(a_large_workflow_is_collected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
