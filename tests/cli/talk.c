// SPDX-License-Identifier: Apache-2.0
// The pipes of a job's program: what it is told, what it may answer, and what is declined.
#define _GNU_SOURCE // pipe2
#include "cli/work/talk.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS 1000

struct program {
    struct job_conversation talk;
    int signals; // the program reads this end
    int reply;   // ... and writes this one
};

static void start(struct program *p)
{
    int signals[2], reply[2];
    assert_int_equal(pipe2(signals, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(pipe2(reply, O_CLOEXEC | O_NONBLOCK), 0);
    talk_init(&p->talk, PATIENCE_MS);
    p->signals = signals[0];
    p->talk.signals_fd = signals[1];
    p->talk.reply_fd = reply[0];
    p->reply = reply[1];
    (void)signal(SIGPIPE, SIG_IGN);
}

static void end(struct program *p)
{
    talk_done(&p->talk);
    if (p->signals >= 0) (void)close(p->signals);
    if (p->reply >= 0) (void)close(p->reply);
}

static void send_kind(struct program *p, const char *kind, uint32_t number, const char *text,
                      int64_t now)
{
    struct sluice_signal_state s = {.kind = kind,
                                    .number = number,
                                    .id = "0f",
                                    .sent_at = 100,
                                    .until = 400,
                                    .payload = text,
                                    .payload_len = strlen(text)};
    talk_send(&p->talk, job_signal_new(&s), now);
}

static void expect_line(struct program *p, const char *text)
{
    char line[4096];
    ssize_t n = read(p->signals, line, sizeof line - 1);
    assert_true(n > 0);
    line[n] = '\0';
    assert_string_equal(line, text);
}

static void reply(struct program *p, const char *text)
{
    assert_int_equal(write(p->reply, text, strlen(text)), strlen(text));
    talk_read(&p->talk);
}

static void expect_end(struct program *p, uint32_t number, bool decline, const char *answer)
{
    struct job_signal *s = talk_settled(&p->talk);
    assert_non_null(s);
    assert_int_equal(s->number, number);
    assert_int_equal(s->decline, decline);
    assert_int_equal(s->answer_len, strlen(answer));
    assert_string_equal(s->answer, answer);
    job_signal_free(s);
}

static void a_signal_is_a_line_and_a_reply_ends_it(void **state)
{
    (void)state;
    struct program p;
    start(&p);
    send_kind(&p, "steer", 1, "{ \"rate\": 5 }", 0);
    send_kind(&p, "ask", 2, "how \"far\"?", 0);
    expect_line(&p,
                "{\"number\":1,\"kind\":\"steer\",\"id\":\"0f\",\"payload\":{\"rate\":5}}\n"
                "{\"number\":2,\"kind\":\"ask\",\"id\":\"0f\",\"payload\":\"how \\\"far\\\"?\"}\n");
    assert_null(talk_settled(&p.talk));
    reply(&p, "{\"number\":1}\n{\"number\":2,");
    expect_end(&p, 1, false, "");
    assert_null(talk_settled(&p.talk));
    reply(&p, "\"answer\":{\"done\":3}}\n");
    expect_end(&p, 2, false, "{\"done\":3}");
    assert_string_equal(p.talk.remark, "");
    end(&p);
}

static void answers_keep_the_order_of_the_signals(void **state)
{
    (void)state;
    struct program p;
    start(&p);
    send_kind(&p, "ask", 1, "", 0);
    send_kind(&p, "ask", 2, "", 0);
    reply(&p, "{\"number\":2,\"answer\":\"b\"}\n");
    assert_null(talk_settled(&p.talk));
    reply(&p, "{\"number\":1,\"decline\":\"busy\"}\n{\"number\":1,\"answer\":\"late\"}\n");
    expect_end(&p, 1, true, "busy");
    expect_end(&p, 2, false, "b");
    assert_non_null(strstr(p.talk.remark, "no signal with this number"));
    end(&p);
}

static void a_signal_that_is_not_read_in_time_is_taken_back(void **state)
{
    (void)state;
    struct program p;
    start(&p);
    send_kind(&p, "ask", 1, "one", 0);
    send_kind(&p, "ask", 2, "two", 500);
    assert_int_equal(talk_tick(&p.talk, 999), 1000);
    assert_null(talk_settled(&p.talk));
    assert_int_equal(talk_tick(&p.talk, 1000), 1500);
    expect_end(&p, 1, true, "not-listening");
    assert_null(talk_settled(&p.talk));
    expect_line(&p, "{\"number\":2,\"kind\":\"ask\",\"id\":\"0f\",\"payload\":\"two\"}\n");
    assert_int_equal(talk_tick(&p.talk, 2000), 0); // it was read
    assert_null(talk_settled(&p.talk));
    end(&p);
}

static void a_line_that_is_read_in_part_is_not_taken_back(void **state)
{
    (void)state;
    struct program p;
    char some[10];
    start(&p);
    send_kind(&p, "ask", 1, "one", 0);
    send_kind(&p, "ask", 2, "two", 0);
    assert_int_equal(read(p.signals, some, sizeof some), sizeof some);
    assert_int_equal(talk_tick(&p.talk, 5000), 0);
    assert_null(talk_settled(&p.talk)); // 2 is declined, but 1 comes first
    expect_line(&p, "1,\"kind\":\"ask\",\"id\":\"0f\",\"payload\":\"one\"}\n");
    reply(&p, "{\"number\":1}\n");
    expect_end(&p, 1, false, "");
    expect_end(&p, 2, true, "not-listening");
    end(&p);
}

// The pipe has 64 KiB. The rest waits in the worker, and is taken back, too.
static void more_than_the_pipe_takes_is_kept(void **state)
{
    (void)state;
    struct program p;
    char *text = malloc(60001);
    memset(text, 'x', 60000);
    text[60000] = '\0';
    start(&p);
    for (uint32_t i = 1; i <= 4; i++)
        send_kind(&p, "ask", i, text, i);
    assert_true(talk_wants_write(&p.talk));
    assert_int_equal(talk_tick(&p.talk, 1003), 1004);
    for (uint32_t i = 1; i <= 3; i++)
        expect_end(&p, i, true, "not-listening");
    assert_false(talk_wants_write(&p.talk));
    char *line = malloc(70000);
    ssize_t n = read(p.signals, line, 70000);
    assert_true(n > 60000 && line[n - 1] == '\n');
    assert_memory_equal(line, "{\"number\":4,", 12);
    free(line);
    free(text);
    end(&p);
}

// Its pipes close a moment before the program has ended.
static void a_program_that_is_stopped_leaves_its_signals(void **state)
{
    (void)state;
    struct program p;
    start(&p);
    send_kind(&p, "steer", 1, "{}", 0);
    (void)close(p.signals);
    (void)close(p.reply);
    p.signals = p.reply = -1;
    talk_read(&p.talk);
    talk_write(&p.talk);
    (void)talk_tick(&p.talk, 50);
    talk_end(&p.talk, true, false);
    assert_null(talk_settled(&p.talk));
    end(&p);
}

static void a_closed_pipe_declines_soon(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        struct program p;
        start(&p);
        send_kind(&p, "ask", 1, "one", 0);
        (void)close(which == 0 ? p.signals : p.reply);
        *(which == 0 ? &p.signals : &p.reply) = -1;
        talk_read(&p.talk);
        talk_write(&p.talk);
        assert_int_equal(talk_tick(&p.talk, 50), 50 + TALK_CLOSED_MS); // it may be ending
        assert_null(talk_settled(&p.talk));
        assert_int_equal(talk_tick(&p.talk, 50 + TALK_CLOSED_MS), 0);
        expect_end(&p, 1, true, "not-listening");
        send_kind(&p, "steer", 2, "{}", 200);
        assert_int_equal(talk_tick(&p.talk, 200), 0);
        expect_end(&p, 2, true, "not-listening");
        end(&p);
    }
}

static void an_interrupt_needs_no_reply(void **state)
{
    (void)state;
    struct program p;
    start(&p);
    send_kind(&p, "ask", 1, "one", 0);
    send_kind(&p, "interrupt", 2, "wrong input", 0);
    assert_null(talk_settled(&p.talk));
    talk_end(&p.talk, false, true);
    expect_end(&p, 1, true, "not-listening");
    expect_end(&p, 2, false, "");
    end(&p);
}

static void a_program_that_ends_without_reading_declines(void **state)
{
    (void)state;
    struct program p;
    start(&p);
    send_kind(&p, "steer", 1, "{}", 0);
    talk_end(&p.talk, true, false); // the worker stopped it: the next holder gets the signal
    assert_null(talk_settled(&p.talk));
    end(&p);
    start(&p);
    send_kind(&p, "steer", 1, "{}", 0);
    talk_end(&p.talk, false, false);
    expect_end(&p, 1, true, "not-listening");
    end(&p);
    start(&p); // it listens, but did not come to this one: the next holder gets it
    send_kind(&p, "steer", 1, "{}", 0);
    expect_line(&p, "{\"number\":1,\"kind\":\"steer\",\"id\":\"0f\",\"payload\":{}}\n");
    send_kind(&p, "steer", 2, "{}", 0);
    talk_end(&p.talk, false, false);
    assert_null(talk_settled(&p.talk));
    end(&p);
}

static void results_and_progress_are_kept_the_last_one(void **state)
{
    (void)state;
    struct program p;
    start(&p);
    reply(&p, "{\"result\":\"first\"}\n{\"progress\":42,\"text\":\"half\\nway\"}\n");
    assert_true(p.talk.has_result && p.talk.has_progress);
    assert_int_equal(p.talk.percent, 42);
    assert_string_equal(p.talk.progress, "half way");
    assert_memory_equal(p.talk.result.data, "first", 5);
    assert_string_equal(p.talk.result_type, "");
    reply(&p, "{\"result\":{\"a\":[1, 2]}}\n");
    assert_int_equal(p.talk.result.len, strlen("{\"a\":[1,2]}"));
    assert_string_equal(p.talk.result_type, "application/json");
    reply(&p, "{\"result\":\"x\",\"type\":\"text/csv\"}\n");
    assert_string_equal(p.talk.result_type, "text/csv");
    assert_string_equal(p.talk.remark, "");
    end(&p);
}

static void garbage_is_remarked_and_ignored(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } rows[] = {{"hello\n", "not a JSON object: hello"},
                {"[1]\n", "not a JSON object"},
                {"{}\n", "none of"},
                {"{\"number\":\"1\"}\n", "is not a number"},
                {"{\"number\":7}\n", "no signal with this number"},
                {"{\"progress\":101}\n", "from 0 to 100"},
                {"{\"progress\":\"half\"}\n", "from 0 to 100"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct program p;
        start(&p);
        reply(&p, rows[i].line);
        assert_non_null(strstr(p.talk.remark, rows[i].says));
        assert_false(p.talk.has_result || p.talk.has_progress);
        end(&p);
    }
}

// A line over the limit is skipped, whatever its length, and the next one counts.
static void an_endless_line_takes_no_memory(void **state)
{
    (void)state;
    struct program p;
    char some[4096];
    start(&p);
    memset(some, 'x', sizeof some);
    for (int i = 0; i < 25600; i++) { // 100 MiB
        assert_int_equal(write(p.reply, some, sizeof some), sizeof some);
        talk_read(&p.talk);
        assert_true(p.talk.line.cap <= 2 * TALK_LINE_MAX);
    }
    reply(&p, "\n{\"result\":1}\n");
    assert_non_null(strstr(p.talk.remark, "more than 2 MiB"));
    assert_true(p.talk.has_result);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_is_a_line_and_a_reply_ends_it),
        cmocka_unit_test(answers_keep_the_order_of_the_signals),
        cmocka_unit_test(a_signal_that_is_not_read_in_time_is_taken_back),
        cmocka_unit_test(a_line_that_is_read_in_part_is_not_taken_back),
        cmocka_unit_test(more_than_the_pipe_takes_is_kept),
        cmocka_unit_test(a_program_that_is_stopped_leaves_its_signals),
        cmocka_unit_test(a_closed_pipe_declines_soon),
        cmocka_unit_test(an_interrupt_needs_no_reply),
        cmocka_unit_test(a_program_that_ends_without_reading_declines),
        cmocka_unit_test(results_and_progress_are_kept_the_last_one),
        cmocka_unit_test(garbage_is_remarked_and_ignored),
        cmocka_unit_test(an_endless_line_takes_no_memory),
    };
    return cmocka_run_group_tests_name("cli-talk", tests, NULL, NULL);
}
