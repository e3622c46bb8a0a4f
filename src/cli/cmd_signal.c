// SPDX-License-Identifier: Apache-2.0
// signal: tells a running job something, asks it, or ends it.
#include "cli/answer_watch.h"
#include "cli/commands.h"
#include "cli/signal_print.h"
#include "protocol/routes.h"
#include "json/json.h"
#include "json/raw.h"

#include <stdlib.h>
#include <string.h>

#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define USAGE  "sluice signal QUEUE ID steer KEY=VALUE... | ask [TEXT] | interrupt"

enum {
    WORKFLOW,
    WORKER,
    TTL,
    WHEN_IDLE,
    ON_LOCK_END,
    REASON,
    GRACE,
    NOW,
    THEN,
    WAIT,
    WITHDRAW,
    OPTIONS
};

static const struct cli_option options[OPTIONS] = {
    [WORKFLOW] = OPTION_OF(signal_send, "workflow", "W",
                           "to all messages of a workflow that have not ended, instead\n"
                           "of ID"),
    [WORKER] = OPTION_OF(signal_send, "worker", "NAME",
                         "to all messages that a worker holds, instead of ID"),
    [TTL] = OPTION_OF(signal_send, "ttl", "D",
                      "steer, ask: when it expires if no worker takes it (1h)", .min = 1),
    [WHEN_IDLE] = OPTION_OF(signal_send, "when-idle", "WHAT",
                            "steer, ask: if no worker holds the message, wait for the\n"
                            "next one (wait, the default), or refuse"),
    [ON_LOCK_END] = OPTION_OF(signal_send, "on-lock-end", "WHAT",
                              "steer, ask: if the job ends without an answer, give it to\n"
                              "the next holder (sticky, default of steer), or not (once,\n"
                              "default of ask)"),
    [REASON] = OPTION_OF(signal_send, "reason", "TEXT", "interrupt: the reason, kept and shown"),
    [GRACE] =
        OPTION_OF(signal_send, "grace", "D", "interrupt: time for the job to end by itself (30s)"),
    [NOW] = OPTION_OF(signal_send, "now", NULL, "interrupt: no grace"),
    [THEN] = OPTION_OF(signal_send, "then", "WHAT",
                       "interrupt: what becomes of the message: cancel (default),\n"
                       "retry or dead-letter"),
    [WAIT] = OPTION(DURATION, "wait", "D",
                    "wait for its end, and print the answer; status 0: acked, 1:\n"
                    "not",
                    .min = 1, .max = 7 * DAY_MS),
    [WITHDRAW] = OPTION(TEXT, "withdraw", "SIGNAL", "withdraw this signal where it is pending"),
};

// One of the words, which the list separates by spaces.
static int check_word(const struct cli *cli, const struct cli_value *v, const char *name,
                      const char *allowed)
{
    if (!v->given) return 0;
    size_t len = strlen(v->texts[0]);
    for (const char *at = allowed; *at;) {
        size_t one = strcspn(at, ", ");
        if (one == len && len > 0 && memcmp(at, v->texts[0], len) == 0) return 0;
        at += one + strspn(at + one, ", ");
    }
    return cli_usage(cli, name, "%s \"%.60s\" is not one of %s", name, v->texts[0], allowed);
}

// Options that another kind of signal has.
static int check_options(const struct cli *cli, const struct cli_value *o, const char *kind)
{
    static const int of_interrupt[] = {REASON, GRACE, NOW, THEN};
    static const int of_others[] = {TTL, WHEN_IDLE, ON_LOCK_END};
    bool interrupt = strcmp(kind, "interrupt") == 0;
    const int *wrong = interrupt ? of_others : of_interrupt;
    size_t len = interrupt ? COUNT_OF(of_others) : COUNT_OF(of_interrupt);
    for (size_t i = 0; i < len; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "--%s", options[wrong[i]].name);
        if (o[wrong[i]].given)
            return cli_usage(cli, name, "%s is for %s, not for %s", name,
                             interrupt ? "steer and ask" : "interrupt", kind);
    }
    if (o[NOW].given && o[GRACE].given)
        return cli_usage(cli, "--now", "--now and --grace exclude each other: --now is no grace");
    int status = check_word(cli, &o[WHEN_IDLE], "--when-idle", "wait, refuse");
    if (status == 0) status = check_word(cli, &o[ON_LOCK_END], "--on-lock-end", "sticky, once");
    if (status == 0) status = check_word(cli, &o[THEN], "--then", "cancel, retry, dead-letter");
    return status;
}

static void put_value(struct json *o, const char *key, const char *value)
{
    struct bytes text = bytes_str(value);
    if (json_raw_ok(text))
        json_raw(o, key, text);
    else
        json_text(o, key, value);
}

// Makes an object of KEY=VALUE. A value that is JSON stays so: 5, true, [1,2]. Another is a text.
static int read_parameters(const struct cli *cli, const char *const *words, size_t len,
                           struct buf *out)
{
    struct json *o = json_new();
    int status = 0;
    if (len == 0)
        status = cli_usage(cli, "KEY=VALUE", "steer needs parameters: steer KEY=VALUE...");
    for (size_t i = 0; i < len && status == 0; i++) {
        const char *equals = strchr(words[i], '=');
        size_t name = equals ? (size_t)(equals - words[i]) : 0;
        char key[256];
        if (name == 0 || name >= sizeof key) {
            status =
                cli_usage(cli, "KEY=VALUE", "\"%.80s\" is not of the form KEY=VALUE", words[i]);
            break;
        }
        memcpy(key, words[i], name);
        key[name] = '\0';
        for (size_t j = 0; j < i && status == 0; j++)
            if (strncmp(words[j], words[i], name + 1) == 0)
                status = cli_usage(cli, "KEY=VALUE", "the key \"%.80s\" is given twice", key);
        if (status == 0) put_value(o, key, equals + 1);
    }
    json_write(o, out);
    return status;
}

// "-": the object is on standard input.
static int read_payload(const struct cli *cli, const char *kind, const char *const *words,
                        size_t len, struct buf *out)
{
    bool steer = strcmp(kind, "steer") == 0;
    if (strcmp(kind, "interrupt") == 0)
        return len == 0 ? 0
                        : cli_usage(cli, words[0],
                                    "unexpected argument \"%.60s\": interrupt "
                                    "takes options only, such as --reason",
                                    words[0]);
    if (len == 1 && strcmp(words[0], "-") == 0) {
        int status = 0;
        size_t size;
        char *text = cli_read_all(cli, "-", steer ? "KEY=VALUE" : "TEXT", SLUICE_SIGNAL_PAYLOAD_MAX,
                                  &size, &status);
        if (text) buf_put(out, bytes_of(text, size));
        free(text);
        return status;
    }
    if (steer) return read_parameters(cli, words, len, out);
    if (len > 1)
        return cli_usage(cli, words[1], "unexpected argument \"%.60s\": quote the text of ask",
                         words[1]);
    if (len == 1) buf_put(out, bytes_str(words[0]));
    return 0;
}

static bool is_kind(const char *word)
{
    return strcmp(word, "steer") == 0 || strcmp(word, "ask") == 0 || strcmp(word, "interrupt") == 0;
}

// Finds the id and the kind among the words. *rest: the words after them.
static int read_words(const struct cli *cli, const struct arguments *args, const char **id,
                      const char **kind, size_t *rest)
{
    const struct cli_value *o = args->options;
    bool target = o[WORKFLOW].given || o[WORKER].given;
    size_t at = 1;
    *id = *kind = NULL;
    if (o[WORKFLOW].given && o[WORKER].given)
        return cli_usage(cli, "--worker", "--workflow and --worker exclude each other");
    if (!target && at < args->words_len && !is_kind(args->words[at])) *id = args->words[at++];
    if (at < args->words_len) *kind = args->words[at++];
    *rest = at;
    if (o[WITHDRAW].given) {
        if (*kind || target)
            return cli_usage(cli, "--withdraw",
                             "--withdraw takes no other signal: sluice signal QUEUE [ID] "
                             "--withdraw SIGNAL");
        return 0;
    }
    if (!target && !*id) return cli_usage(cli, "ID", "ID is missing: " USAGE);
    if (!*kind) return cli_usage(cli, "KIND", "the kind of the signal is missing: " USAGE);
    if (target && !is_kind(*kind) && *rest < args->words_len && is_kind(args->words[*rest]))
        return cli_usage(cli, "ID", "ID and %s exclude each other: a signal has one target",
                         o[WORKER].given ? "--worker" : "--workflow");
    if (!is_kind(*kind))
        return cli_usage(cli, "KIND", "\"%.60s\" is not one of steer, ask, interrupt", *kind);
    return 0;
}

// Waits for the end of a signal that was accepted, and prints it. Status 0: every one was acked.
static int wait_for_end(const struct cli *cli, struct sluice *s, const char *queue, const char *id,
                        const struct sluice_signals *sent, int64_t wait_ms)
{
    struct sluice_signals *ends = NULL;
    struct sluice_error error = {0};
    answer_watch_start(cli, wait_ms);
    if (sluice_signal_wait(s, queue, sent->id, id, wait_ms, &ends, &error) != SLUICE_OK)
        return cli_fail_queue(cli, s, queue, &error);
    int status = 0;
    for (size_t i = 0; i < ends->len; i++) {
        const struct sluice_signal_state *row = &ends->rows[i];
        bool good = strcmp(row->state, "acked") == 0 || strcmp(row->state, "applied") == 0;
        if (!good) status = 1;
        if (id && !cli->json)
            signal_print_answer(cli, row);
        else
            signal_print(cli, queue, row);
    }
    sluice_signals_free(ends);
    return status;
}

// Prints a row for each message. The error is about one of them.
static int print_sent(const struct cli *cli, struct sluice *s, const char *queue,
                      const struct sluice_signals *list, const struct sluice_error *error,
                      bool quiet)
{
    int status = 0;
    for (size_t i = 0; i < list->len; i++)
        if (list->rows[i].code == SLUICE_OK && !quiet) signal_print(cli, queue, &list->rows[i]);
    for (size_t i = 0; i < list->len; i++) {
        const struct sluice_signal_state *row = &list->rows[i];
        if (row->code == SLUICE_OK) continue;
        struct sluice_error mine = {.code = row->code, .field = "id"};
        bool named = strstr(error->message, row->message) || list->len == 1;
        (void)snprintf(mine.reason, sizeof mine.reason, "%s", row->reason);
        if (named)
            (void)snprintf(mine.message, sizeof mine.message, "%s", error->message);
        else
            (void)snprintf(mine.message, sizeof mine.message, "message %.64s: %s", row->message,
                           refusal_text(row->reason, row->code));
        int one = cli_fail_queue(cli, s, queue, &mine);
        if (status == 0) status = one;
    }
    return status;
}

static int send_signal(const struct cli *cli, const struct arguments *args, struct sluice *s,
                       const struct sluice_signal *what, const char *id)
{
    const char *queue = args->words[0];
    const struct cli_value *wait = &args->options[WAIT];
    struct sluice_request request = cli_request();
    struct sluice_signals *list = NULL;
    struct sluice_error error = {0};
    enum sluice_code code = sluice_signal(s, queue, what, &request, &list, &error);
    if (code == SLUICE_UNKNOWN) // the same id settles it
        code = sluice_signal(s, queue, what, &request, &list, &error);
    int status = 0;
    bool rows = list && list->len > 0;
    if (code != SLUICE_OK && !rows) status = cli_fail_queue(cli, s, queue, &error);
    if (rows) status = print_sent(cli, s, queue, list, &error, wait->given);
    if (code == SLUICE_OK && !rows) cli_say(cli, "no message of %s got the signal", queue);
    if (status == 0 && rows && wait->given)
        status = wait_for_end(cli, s, queue, id, list, wait->number);
    sluice_signals_free(list);
    return status;
}

static int withdraw(const struct cli *cli, const struct arguments *args, struct sluice *s,
                    const char *id)
{
    const char *queue = args->words[0];
    struct sluice_signals *list = NULL;
    struct sluice_error error = {0};
    enum sluice_code code =
        sluice_signal_withdraw(s, queue, args->options[WITHDRAW].texts[0], id, &list, &error);
    bool rows = list && list->len > 0;
    int status = 0;
    if (code != SLUICE_OK && !rows) status = cli_fail_queue(cli, s, queue, &error);
    if (rows) status = print_sent(cli, s, queue, list, &error, false);
    sluice_signals_free(list);
    return status;
}

static int run_signal(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    const struct cli_value *o = args->options;
    const char *id, *kind;
    size_t rest = 0;
    int status = read_words(cli, args, &id, &kind, &rest);
    if (status != 0) return status;
    if (o[WITHDRAW].given) return withdraw(cli, args, s, id);
    LOCAL(buf, payload, SIZE_MAX);
    status = check_options(cli, o, kind);
    if (status == 0)
        status = read_payload(cli, kind, args->words + rest, args->words_len - rest, &payload);
    struct sluice_signal what = {.kind = kind,
                                 .ids = id ? &id : NULL,
                                 .ids_len = id ? 1 : 0,
                                 .workflow = option_text(&o[WORKFLOW]),
                                 .worker = option_text(&o[WORKER]),
                                 .payload = payload.data,
                                 .payload_len = payload.len,
                                 .ttl_ms = o[TTL].number,
                                 .when_idle = option_text(&o[WHEN_IDLE]),
                                 .on_lock_end = option_text(&o[ON_LOCK_END]),
                                 .reason = option_text(&o[REASON]),
                                 .grace_ms = o[GRACE].number,
                                 .now = o[NOW].given || (o[GRACE].given && o[GRACE].number == 0),
                                 .then = option_text(&o[THEN])};
    if (status == 0) status = send_signal(cli, args, s, &what, id);
    return status;
}

const struct command command_signal = {
    .name = "signal",
    .words = "QUEUE [ID] [steer|ask|interrupt] [ARG]...",
    .summary = "Steers, asks or interrupts a running job",
    .details = "  sluice signal QUEUE ID steer KEY=VALUE...   new parameters for the job\n"
               "  sluice signal QUEUE ID ask [TEXT]           a question to the job\n"
               "  sluice signal QUEUE ID interrupt            ends the job\n"
               "\n"
               "A signal is durable when the command ends. The holder of the message gets\n"
               "it, in order. If no worker holds the message, a steer or a question waits for\n"
               "the next holder, and an interrupt cancels the message at once. A VALUE that is\n"
               "JSON stays so (5, true, [1,2]); another is a text. ARG - reads the parameters,\n"
               "as a JSON object, or the text from standard input.\n"
               "\n"
               "After an interrupt the job has the grace to end. If it is acknowledged in this\n"
               "time, the message is processed. Otherwise it is cancelled, or as --then says.\n"
               "\n"
               "With --wait the exit status is 0 if every signal was acknowledged, and 1 if\n"
               "not. JSON keys: queue, code, id, message, number, kind, state, and where they\n"
               "apply reason, deliveries, sentAt, until, endedAt, payload, answer.",
    OPTIONS(options),
    .run_on = run_signal,
};
