// SPDX-License-Identifier: Apache-2.0
// send: sends one message, or each line of a file.
#include "cli/commands.h"
#include "cli/send.h"
#include "cli/table.h"
#include "protocol/routes.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

#define BODY_BYTES_MAX ((size_t)64 << 20) // the most that is read; the queue's own limit is lower
#define TRIES_MAX      3

enum { GROUP, PRIORITY, DELAY, AT, DEDUP, HEADER, REQUIRES, WORKFLOW, LAST, LINES, FROM, CREATE };

static const struct cli_option options[] = {
    [GROUP] = OPTION_OF(send, "group", "G", "messages of a group stay in order in a strict queue"),
    [PRIORITY] = OPTION_OF(send, "priority", "N", "0 to 9; higher values are delivered first"),
    [DELAY] = OPTION_OF(send, "delay", "D", "time until the message is ready, such as 30s"),
    [AT] = OPTION(MOMENT, "at", "TIME",
                  "time when it is ready: 2027-01-31T12:00:00Z, or ms since\n"
                  "1970"),
    [DEDUP] = OPTION_OF(send, "dedup", "KEY",
                        "a second message with this key within dedupWindow is not\n"
                        "sent; the command then prints the id of the first"),
    [HEADER] = OPTION(TEXTS, "header", "K=V", "a header; may be repeated", .letter = 'H'),
    [REQUIRES] =
        OPTION_OF(send, "requires", "LIST", "labels that the worker must have: kind=gpu,zone=a"),
    [WORKFLOW] = OPTION_OF(send, "workflow", "W", "the workflow that the message belongs to"),
    [LAST] = OPTION_OF(send, "workflow-last", NULL, "it is the last message of its workflow"),
    [LINES] = OPTION(TEXT, "lines", "FILE",
                     "send each line of the file as a message; - is standard\n"
                     "input"),
    [FROM] = OPTION(TEXT, "from", "ID",
                    "send this message again; BODY and options replace what it\n"
                    "has; QUEUE/ID for a message of another queue"),
    [CREATE] = FLAG_OPTION("create", 0, "create a missing queue with default settings"),
};

enum sluice_code sending_batch(struct send_input *sending, const struct sluice_send *messages,
                               size_t len, struct sluice_sent *sent, struct sluice_error *error)
{
    struct sluice_request request = cli_request();
    enum sluice_code code = SLUICE_UNKNOWN;
    for (int tries = 0; tries < TRIES_MAX && code == SLUICE_UNKNOWN; tries++) {
        code = sluice_send(sending->s, sending->queue, messages, len, &request, sent, error);
        // An earlier attempt may have been applied, or may still be applied. So the outcome is
        // unknown.
        if (tries > 0 && code == SLUICE_UNAVAILABLE) error->code = code = SLUICE_UNKNOWN;
    }
    if (code != SLUICE_NOT_FOUND || !sending->create) return code;
    sending->create = false;
    code = sluice_queue_create(sending->s, sending->queue, NULL, 0, error);
    if (code != SLUICE_OK) return code;
    if (strcmp(error->reason, "exists") != 0)
        cli_say(sending->cli, "created queue %s", sending->queue);
    return sending_batch(sending, messages, len, sent, error);
}

static int send_one(struct send_input *sending, const void *body, size_t len)
{
    struct sluice_send message = sending->form;
    struct sluice_sent sent = {0};
    struct sluice_error error = {0};
    message.body = body;
    message.body_len = len;
    if (sending_batch(sending, &message, 1, &sent, &error) != SLUICE_OK)
        return cli_fail_unsent(sending->cli, sending->s, sending->queue, &error);
    if (sending->cli->json) {
        struct json *o = json_new();
        json_text(o, "id", sent.id);
        json_text(o, "queue", sending->queue);
        json_bool(o, "duplicate", sent.duplicate);
        json_print(o, stdout);
    } else if (!sending->cli->quiet) {
        print_line(stdout, "%s", sent.id);
        if (sent.duplicate)
            cli_say(sending->cli, "a message with this dedup key exists already; nothing was sent");
    }
    return 0;
}

static int read_headers(const struct cli *cli, const struct cli_value *given,
                        struct sluice_send *form)
{
    struct sluice_header *rows = cli_alloc(given->texts_len * sizeof *rows);
    for (size_t i = 0; i < given->texts_len; i++) {
        char *copy = strdup(given->texts[i]);
        char *equals = copy ? strchr(copy, '=') : NULL;
        if (!equals || equals == copy) {
            free(copy);
            form->headers = rows;
            form->headers_len = i;
            return cli_usage(cli, "--header", "--header \"%.80s\" is not of the form NAME=VALUE",
                             given->texts[i]);
        }
        *equals = '\0';
        rows[i] = (struct sluice_header){copy, equals + 1};
    }
    form->headers = rows;
    form->headers_len = given->texts_len;
    return 0;
}

static int check_text(const struct cli *cli, const char *name, const char *text)
{
    if (!text || utf8_ok(text, strlen(text))) return 0;
    return cli_usage(cli, name, "%s is not UTF-8; only a body may contain other bytes", name);
}

static int read_form(const struct cli *cli, const struct arguments *args, struct sluice_send *form)
{
    const struct cli_value *o = args->options;
    *form = (struct sluice_send){.group = option_text(&o[GROUP]),
                                 .dedup = option_text(&o[DEDUP]),
                                 .needs = option_text(&o[REQUIRES]),
                                 .workflow = option_text(&o[WORKFLOW]),
                                 .workflow_last = o[LAST].given,
                                 .priority = (int)o[PRIORITY].number,
                                 .delay_ms = o[DELAY].number,
                                 .due = o[AT].number};
    if (o[DELAY].given && o[AT].given)
        return cli_usage(cli, "--at", "--delay and --at exclude each other: give one of them");
    if (o[LINES].given && o[DEDUP].given)
        return cli_usage(cli, "--dedup",
                         "--dedup and --lines exclude each other: all lines would have the same "
                         "key, and only the first would be sent");
    if (o[LINES].given && args->words_len > 1)
        return cli_usage(cli, "BODY", "BODY and --lines exclude each other: give one of them");
    if (o[LINES].given && o[FROM].given)
        return cli_usage(cli, "--from", "--from and --lines exclude each other: give one of them");
    if (!o[LINES].given && !o[FROM].given && args->words_len < 2)
        return cli_usage(cli, "BODY",
                         "BODY is missing: sluice send QUEUE BODY, or - for standard "
                         "input, or --lines FILE, or --from ID");
    if (o[LINES].given && o[LAST].given)
        return cli_usage(cli, "--workflow-last",
                         "--workflow-last and --lines exclude each other: send the last message "
                         "by itself");
    int status = check_text(cli, "--group", form->group);
    if (status == 0) status = check_text(cli, "--workflow", form->workflow);
    if (status == 0) status = check_text(cli, "--dedup", form->dedup);
    for (size_t i = 0; i < o[HEADER].texts_len && status == 0; i++)
        status = check_text(cli, "--header", o[HEADER].texts[i]);
    return status ? status : read_headers(cli, &o[HEADER], form);
}

static void headers_done(const struct sluice_header *rows, size_t len)
{
    for (size_t i = 0; i < len; i++)
        free((char *)(uintptr_t)rows[i].name);
    free((struct sluice_header *)(uintptr_t)rows);
}

static int send_from(struct send_input *sending, const struct cli_value *o, const void *body,
                     size_t len)
{
    struct resend again = {0};
    int status = again_read(sending, o[FROM].texts[0], &again, &body, &len);
    // Without --priority the message keeps its own.
    if (status == 0 && !o[PRIORITY].given)
        sending->form.priority = again.batch->messages[0].priority;
    if (status == 0) status = send_one(sending, body, len);
    again_done(&again);
    return status;
}

static int send_what_is_asked(struct send_input *sending, const struct arguments *args)
{
    const struct cli_value *o = args->options, *lines = &o[LINES];
    const char *body = args->words_len > 1 ? args->words[1] : NULL;
    char *input = NULL;
    size_t len = body ? strlen(body) : 0;
    int status = 0;
    if (body && !lines->given && strcmp(body, "-") == 0) {
        input = cli_read_all(sending->cli, "-", "BODY", BODY_BYTES_MAX, &len, &status);
        if (!input) return status;
    }
    struct cli own = *sending->cli;
    if (lines->given) own.deadline_ms = 0; // a file has no time limit
    sending->s = sending->create ? cli_open_making(&own, &status) : cli_open(&own, &status);
    if (sending->s && lines->given)
        status = send_lines(sending, lines->texts[0]);
    else if (sending->s && o[FROM].given)
        status = send_from(sending, o, input ? input : body, len);
    else if (sending->s)
        status = send_one(sending, input ? input : body, len);
    sluice_close(sending->s);
    free(input);
    return status;
}

static int run_send(const struct cli *cli, const struct arguments *args)
{
    struct send_input sending = {
        .cli = cli, .queue = args->words[0], .create = args->options[CREATE].given};
    int status = read_form(cli, args, &sending.form);
    const struct sluice_header *headers = sending.form.headers;
    size_t headers_len = sending.form.headers_len;
    if (status == 0) status = send_what_is_asked(&sending, args);
    headers_done(headers, headers_len);
    return status;
}

const struct command command_send = {
    .name = "send",
    .words = "QUEUE [BODY|-]",
    .summary = "Sends a message, or each line of a file",
    .details = "Prints the message's id when the message is durable. A body may be any bytes.\n"
               "From standard input it includes the last newline. With --lines the options\n"
               "apply to every line, and the newline is not part of the message. With --from\n"
               "the new message has what the other one has, except its dedup key and delay,\n"
               "and the header sluice-sent-again with its id.\n"
               "JSON keys: id, queue, duplicate; with --lines: queue, sent, elapsedMs.",
    OPTIONS(options),
    .run = run_send,
    .brief = true,
};
