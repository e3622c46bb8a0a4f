// SPDX-License-Identifier: Apache-2.0
// signals: what was sent to jobs. With the token of its lock, a worker receives its signals and
// answers them.
#include "cli/answer_watch.h"
#include "cli/commands.h"
#include "cli/signal_print.h"
#include "cli/table.h"
#include "os/clock.h"
#include "protocol/routes.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

#define POLL_MAX_MS INT64_C(20000) // of one sluice_signals_receive
#define HOURS_24    (INT64_C(24) * 3600 * 1000)

enum { MAX, TOKEN, WAIT, ACK, ANSWER, DECLINE, REASON, OPTIONS };

static const struct cli_option options[OPTIONS] = {
    [MAX] = OPTION_OF(signals, "max", "N", "without ID: the most signals to print; default 100"),
    [TOKEN] = OPTION(TEXTS, "token", "T",
                     "as the worker: the signals that wait for the holder of this\n"
                     "lock; may be repeated"),
    [WAIT] = OPTION(DURATION, "wait", "D",
                    "with --token: how long to wait if no signal is there;\n"
                    "default 0",
                    .max = HOURS_24),
    [ACK] = OPTION(COUNT, "ack", "N", "with --token: the job has done signal N", .min = 1,
                   .max = UINT32_MAX),
    [ANSWER] = OPTION(TEXT, "answer", "TEXT",
                      "with --ack: the answer to the sender, or @FILE with it; up to\n"
                      "256 KiB"),
    [DECLINE] = OPTION(COUNT, "decline", "N", "with --token: the job does not do signal N",
                       .min = 1, .max = UINT32_MAX),
    [REASON] = OPTION(TEXT, "reason", "TEXT", "with --decline: why not; the sender gets it"),
};

// Whether the option `index` was given without the one that it belongs to.
static bool lacks(const struct cli_value *o, int index, int other)
{
    return o[index].given && !o[other].given;
}

static int check_options(const struct cli *cli, const struct arguments *args)
{
    static const int belongs[][2] = {
        {WAIT, TOKEN}, {ACK, TOKEN}, {DECLINE, TOKEN}, {ANSWER, ACK}, {REASON, DECLINE}};
    static const int excludes[][2] = {{ACK, DECLINE}, {ACK, WAIT}, {DECLINE, WAIT}, {TOKEN, MAX}};
    const struct cli_value *o = args->options;
    char name[32];
    for (size_t i = 0; i < COUNT_OF(belongs); i++) {
        (void)snprintf(name, sizeof name, "--%s", options[belongs[i][0]].name);
        if (lacks(o, belongs[i][0], belongs[i][1]))
            return cli_usage(cli, name, "%s needs --%s", name, options[belongs[i][1]].name);
    }
    for (size_t i = 0; i < COUNT_OF(excludes); i++) {
        (void)snprintf(name, sizeof name, "--%s", options[excludes[i][0]].name);
        if (o[excludes[i][0]].given && o[excludes[i][1]].given)
            return cli_usage(cli, name, "%s and --%s exclude each other", name,
                             options[excludes[i][1]].name);
    }
    if (o[TOKEN].given && args->words_len > 1)
        return cli_usage(cli, "ID",
                         "ID and --token exclude each other: the token names the message");
    if ((o[ACK].given || o[DECLINE].given) && o[TOKEN].texts_len > 1)
        return cli_usage(cli, "--token", "--%s is for one --token, not for %zu",
                         o[ACK].given ? "ack" : "decline", o[TOKEN].texts_len);
    return 0;
}

static int list_signals(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    const char *queue = args->words[0], *id = args->words_len > 1 ? args->words[1] : NULL;
    struct sluice_signals *list = NULL;
    struct sluice_error error = {0};
    uint32_t max = (uint32_t)args->options[MAX].number;
    if (sluice_signals(s, queue, id, max, &list, &error) != SLUICE_OK)
        return cli_fail_queue(cli, s, queue, &error);
    signal_print_rows(cli, queue, list, id != NULL);
    if (list->len == 0)
        cli_say(cli, id ? "message %s has no signals" : "queue %s has no pending signals",
                id ? id : queue);
    sluice_signals_free(list);
    return 0;
}

// A lock that is not in force any more.
static int print_gone(const struct cli *cli, const struct sluice_signal_state *row)
{
    if (row->code == SLUICE_INVALID)
        return cli_fail_as(cli, row->code, "token",
                           "\"%.100s\" is not a lock token; each received message has one",
                           row->token);
    return cli_fail_as(cli, row->code, "token", "token %.96s: %s", row->token,
                       refusal_text(row->reason, row->code));
}

// Prints the signals, then the locks that are gone.
static int print_received(const struct cli *cli, const char *queue, struct sluice_signals *list,
                          bool one)
{
    struct sluice_signals good = {.rows = cli_alloc((list->len + 1) * sizeof *good.rows)};
    int status = 0;
    for (size_t i = 0; i < list->len; i++)
        if (list->rows[i].code == SLUICE_OK) good.rows[good.len++] = list->rows[i];
    signal_print_rows(cli, queue, &good, one);
    for (size_t i = 0; i < list->len; i++) {
        if (list->rows[i].code == SLUICE_OK) continue;
        int mine = print_gone(cli, &list->rows[i]);
        if (status == 0) status = mine;
    }
    free(good.rows);
    return status;
}

// One poll waits up to 20 s, so a longer wait is several.
static int receive(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    const char *queue = args->words[0];
    const struct cli_value *tokens = &args->options[TOKEN];
    int64_t until = clock_boot_ms() + args->options[WAIT].number;
    int status = 0;
    for (bool over = false; !over;) {
        int64_t left = until - clock_boot_ms();
        struct sluice_signals *list = NULL;
        struct sluice_error error = {0};
        over = left <= POLL_MAX_MS;
        left = left < 0 ? 0 : left < POLL_MAX_MS ? left : POLL_MAX_MS;
        answer_watch_start(cli, left);
        enum sluice_code code =
            sluice_signals_receive(s, queue, tokens->texts, tokens->texts_len, left, &list, &error);
        bool rows = list && list->len > 0;
        if (rows)
            status = print_received(cli, queue, list, tokens->texts_len == 1);
        else if (code != SLUICE_OK)
            status = cli_fail_queue(cli, s, queue, &error);
        over = over || rows || code != SLUICE_OK;
        sluice_signals_free(list);
    }
    return status;
}

static void print_answered(const struct cli *cli, const char *queue,
                           const struct sluice_signal_answer *a, const char *status)
{
    if (cli->json) {
        struct json *line = json_new();
        json_text(line, "token", a->token);
        json_text(line, "queue", queue);
        json_number(line, "number", a->number);
        json_text(line, "status", status);
        json_print(line, stdout);
    } else if (!cli->quiet) {
        print_line(stdout, "%s  signal %u %s", a->token, a->number, status);
    }
}

static int answer(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    const char *queue = args->words[0];
    const struct cli_value *o = args->options;
    struct sluice_error error = {0};
    struct sluice_outcome outcome = {0};
    struct sluice_signal_answer a = {
        .token = o[TOKEN].texts[0],
        .number = (uint32_t)(o[ACK].given ? o[ACK].number : o[DECLINE].number),
        .decline = o[DECLINE].given};
    int status = 0;
    char *text = NULL;
    if (o[ANSWER].given)
        text = cli_read_text(cli, o[ANSWER].texts[0], "--answer", SLUICE_ANSWER_MAX, &a.answer_len,
                             &status);
    if (status != 0) return status;
    a.answer = text;
    if (o[REASON].given) {
        a.answer = o[REASON].texts[0];
        a.answer_len = strlen(o[REASON].texts[0]);
    }
    if (sluice_signals_ack(s, queue, &a, 1, &outcome, &error) != SLUICE_OK)
        status = cli_fail_queue(cli, s, queue, &error);
    else
        print_answered(cli, queue, &a, outcome.status);
    free(text);
    return status;
}

static int run_signals(const struct cli *cli, const struct arguments *args)
{
    const struct cli_value *o = args->options;
    int status = check_options(cli, args);
    if (status != 0) return status;
    struct cli waiting = *cli;
    waiting.deadline_ms += o[WAIT].number < POLL_MAX_MS ? o[WAIT].number : POLL_MAX_MS;
    struct sluice *s = cli_open(&waiting, &status);
    if (!s) return status;
    if (!o[TOKEN].given)
        status = list_signals(cli, args, s);
    else if (o[ACK].given || o[DECLINE].given)
        status = answer(cli, args, s);
    else
        status = receive(cli, args, s);
    sluice_close(s);
    return status;
}

const struct command command_signals = {
    .name = "signals",
    .words = "QUEUE [ID]",
    .summary = "Lists signals; a worker receives and answers its own",
    .details = "  sluice signals QUEUE                      pending signals of the queue\n"
               "  sluice signals QUEUE ID                   all signals of a message\n"
               "  sluice signals QUEUE --token T --wait D   signals to the holder of a lock\n"
               "  sluice signals QUEUE --token T --ack N [--answer TEXT]\n"
               "  sluice signals QUEUE --token T --decline N [--reason TEXT]\n"
               "\n"
               "Signals that have ended stay for the setting retention, and for at least 10\n"
               "minutes. A worker answers its signals in the order of their numbers. A signal\n"
               "comes again with --token until it is answered. If none comes in time, the\n"
               "command prints nothing and succeeds. If the lock is gone, the status is 4 or 5.\n"
               "\n"
               "JSON keys are those of \"signal\", and with --token token. Keys of an answer:\n"
               "token, queue, number, status.",
    OPTIONS(options),
    .run = run_signals,
    .brief = true,
};
