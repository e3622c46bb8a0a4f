// SPDX-License-Identifier: Apache-2.0
// ack, fail, release and renew: settle locks by their tokens.
#include "cli/choose.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "cli/text.h"
#include "protocol/routes.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

enum outcome_kind { SETTLE_ACK, SETTLE_FAIL, SETTLE_RELEASE, SETTLE_RENEW };

struct token_input {
    struct id_list tokens;
    char *result; // of ack; NULL: none
    size_t result_len;
};

enum { RESULT, RESULT_TYPE };                 // options of ack
enum { VISIBILITY, PROGRESS, PROGRESS_TEXT }; // options of renew

static void print_done(const struct cli *cli, const char *queue, const char *token,
                       const struct sluice_outcome *o)
{
    char time[TEXT_MAX];
    if (cli->json) {
        struct json *line = json_new();
        json_text(line, "token", token);
        json_text(line, "queue", queue);
        json_text(line, "status", o->status);
        json_number(line, "until", o->until);
        if (o->signals > 0) json_number(line, "signals", o->signals);
        if (*o->reason) json_text(line, "reason", o->reason);
        json_print(line, stdout);
        return;
    }
    if (cli->quiet) return;
    char signals[TEXT_MAX] = "";
    if (o->signals > 0)
        (void)snprintf(signals, sizeof signals, "; %u signal%s wait%s", o->signals,
                       o->signals == 1 ? "" : "s", o->signals == 1 ? "s" : "");
    if (o->until > 0)
        print_line(stdout, "%s  %s until %s%s", token, o->status, moment_text(o->until, time),
                   signals);
    else
        print_line(stdout, "%s  %s%s%s", token, o->status, *o->reason ? ": " : "", o->reason);
}

// The first refusal prints the library's message. Later ones print their own reason.
static int print_refused(const struct cli *cli, const char *token, const struct sluice_outcome *o,
                         const struct sluice_error *first)
{
    struct sluice_error error = {.code = o->code, .field = "token"};
    const char *why = first ? first->message : refusal_text(o->reason, o->code);
    bool named = first && strstr(first->message, token); // the message contains the token already
    if (named)
        (void)snprintf(error.message, sizeof error.message, "%s", why);
    else
        (void)snprintf(error.message, sizeof error.message, "token %.96s: %.250s", token, why);
    return cli_fail(cli, &error);
}

static int print_outcomes(const struct cli *cli, struct sluice *s, const char *queue,
                          const struct token_input *t, const struct sluice_outcome *rows,
                          enum sluice_code code, const struct sluice_error *error)
{
    int status = 0;
    bool named = false; // true if any row has an answer of its own
    for (size_t i = 0; i < t->tokens.len; i++)
        named = named || rows[i].code != SLUICE_OK || rows[i].status;
    bool missing = error->code == SLUICE_NOT_FOUND && strcmp(error->field, "queue") == 0;
    if (code != SLUICE_OK && (!named || missing)) return cli_fail_queue(cli, s, queue, error);
    for (size_t i = 0; i < t->tokens.len; i++) {
        if (rows[i].code == SLUICE_OK) {
            if (rows[i].status) print_done(cli, queue, t->tokens.rows[i], &rows[i]);
            continue;
        }
        const struct sluice_error *first = status == 0 && rows[i].code == code ? error : NULL;
        int mine = print_refused(cli, t->tokens.rows[i], &rows[i], first);
        if (status == 0) status = mine;
    }
    return status ? status : sluice_code_exit(code);
}

// The result of ack. The caller frees it.
static int read_result(const struct cli *cli, const struct cli_value *o, char **result, size_t *len)
{
    int status = 0;
    if (o[RESULT_TYPE].given && !o[RESULT].given)
        return cli_usage(cli, "--result-type", "--result-type needs --result");
    if (!o[RESULT].given) return 0;
    *result = cli_read_text(cli, o[RESULT].texts[0], "--result", SLUICE_RESULT_MAX, len, &status);
    return status;
}

static enum sluice_code ack(struct sluice *s, const char *queue, const struct cli_value *o,
                            const struct token_input *t, struct sluice_outcome *rows,
                            struct sluice_error *error)
{
    if (!t->result) return sluice_ack(s, queue, t->tokens.rows, t->tokens.len, rows, error);
    struct sluice_ack *acks = cli_alloc(t->tokens.len * sizeof *acks);
    for (size_t i = 0; i < t->tokens.len; i++)
        acks[i] = (struct sluice_ack){.token = t->tokens.rows[i],
                                      .result = t->result,
                                      .result_len = t->result_len,
                                      .content_type = option_text(&o[RESULT_TYPE])};
    enum sluice_code code = sluice_ack_with(s, queue, acks, t->tokens.len, rows, error);
    free(acks);
    return code;
}

static enum sluice_code renew(struct sluice *s, const char *queue, const struct cli_value *o,
                              const struct token_input *t, struct sluice_outcome *rows,
                              struct sluice_error *error)
{
    int64_t visibility = o[VISIBILITY].number;
    if (!o[PROGRESS].given)
        return sluice_renew(s, queue, t->tokens.rows, t->tokens.len, visibility, rows, error);
    struct sluice_renewal *renewals = cli_alloc(t->tokens.len * sizeof *renewals);
    for (size_t i = 0; i < t->tokens.len; i++)
        renewals[i] = (struct sluice_renewal){.token = t->tokens.rows[i],
                                              .has_progress = 1,
                                              .percent = (int)o[PROGRESS].number,
                                              .text = option_text(&o[PROGRESS_TEXT])};
    enum sluice_code code =
        sluice_renew_with(s, queue, renewals, t->tokens.len, visibility, rows, error);
    free(renewals);
    return code;
}

static int run_outcome(const struct cli *cli, const struct arguments *args, enum outcome_kind kind)
{
    struct token_input t = {0};
    struct sluice_error error = {0};
    const char *queue = args->words[0];
    const struct cli_value *o = args->options;
    int status = id_list_read(cli, "TOKEN", args->words + 1, args->words_len - 1, &t.tokens);
    if (status == 0) status = id_list_check(cli, &t.tokens, true);
    if (status == 0 && kind == SETTLE_ACK) status = read_result(cli, o, &t.result, &t.result_len);
    if (status == 0 && kind == SETTLE_RENEW && o[PROGRESS_TEXT].given && !o[PROGRESS].given)
        status = cli_usage(cli, "--text", "--text needs --progress: a number from 0 to 100");
    struct sluice *s = status == 0 ? cli_open(cli, &status) : NULL;
    if (s) {
        struct sluice_outcome *rows = cli_alloc(t.tokens.len * sizeof *rows);
        memset(rows, 0, t.tokens.len * sizeof *rows);
        enum sluice_code code;
        if (kind == SETTLE_ACK)
            code = ack(s, queue, o, &t, rows, &error);
        else if (kind == SETTLE_FAIL)
            code = sluice_fail(s, queue, t.tokens.rows, t.tokens.len, o->given ? *o->texts : "",
                               rows, &error);
        else if (kind == SETTLE_RELEASE)
            code = sluice_release(s, queue, t.tokens.rows, t.tokens.len, o->number, rows, &error);
        else
            code = renew(s, queue, o, &t, rows, &error);
        status = print_outcomes(cli, s, queue, &t, rows, code, &error);
        free(rows);
    }
    sluice_close(s);
    id_list_done(&t.tokens);
    free(t.result);
    return status;
}

static int run_ack(const struct cli *cli, const struct arguments *args)
{
    return run_outcome(cli, args, SETTLE_ACK);
}

static int run_fail(const struct cli *cli, const struct arguments *args)
{
    return run_outcome(cli, args, SETTLE_FAIL);
}

static int run_release(const struct cli *cli, const struct arguments *args)
{
    return run_outcome(cli, args, SETTLE_RELEASE);
}

static int run_renew(const struct cli *cli, const struct arguments *args)
{
    return run_outcome(cli, args, SETTLE_RENEW);
}

#define OUTCOME_KEYS                                                                               \
    "TOKEN - reads tokens from standard input, one per line. Every token gets its own\n"           \
    "answer. The exit status is that of the first refused token.\n"                                \
    "JSON keys: token, queue, status, until, and where they apply signals, reason."

static const struct cli_option ack_options[] = {
    [RESULT] =
        OPTION_OF(ack, "result", "TEXT", "the result of the job, or @FILE with it; up to 256 KiB"),
    [RESULT_TYPE] = OPTION_OF(ack, "result-type", "TYPE",
                              "content type of the result, such as application/json"),
};

const struct command command_ack = {
    .name = "ack",
    .words = "QUEUE TOKEN...",
    .summary = "Acknowledges messages: they were processed",
    .details = "A result is kept as long as the finished message: the setting retention.\n"
               "\"show\" and \"collect\" print it.\n\n" OUTCOME_KEYS,
    OPTIONS(ack_options),
    .run = run_ack,
    .brief = true,
};

static const struct cli_option fail_options[] = {
    OPTION_OF(fail, "reason", "TEXT", "the reason, kept with the message"),
};

const struct command command_fail = {
    .name = "fail",
    .words = "QUEUE TOKEN...",
    .summary = "Reports that processing failed: retry or dead letter",
    .details = "The queue's failureStrategy decides what happens next.\n\n" OUTCOME_KEYS,
    OPTIONS(fail_options),
    .run = run_fail,
    .brief = true,
};

static const struct cli_option release_options[] = {
    OPTION_OF(release, "delay", "D", "time until the message is ready again; default: at once"),
};

const struct command command_release = {
    .name = "release",
    .words = "QUEUE TOKEN...",
    .summary = "Releases messages without counting an attempt",
    .details = OUTCOME_KEYS,
    OPTIONS(release_options),
    .run = run_release,
    .brief = true,
};

static const struct cli_option renew_options[] = {
    [VISIBILITY] = OPTION_OF(renew, "visibility", "D",
                             "new lock time from now; default: the queue's\n"
                             "visibilityTimeout",
                             .min = 1),
    [PROGRESS] = OPTION_OF(renew, "progress", "N", "progress of the job in percent, 0 to 100"),
    [PROGRESS_TEXT] =
        OPTION(TEXT, "text", "TEXT", "with --progress: what the job does; up to 256 bytes"),
};

const struct command command_renew = {
    .name = "renew",
    .words = "QUEUE TOKEN...",
    .summary = "Extends locks",
    .details = "The answer says how many signals wait for the job. Every view of the message\n"
               "shows its progress.\n\n" OUTCOME_KEYS,
    OPTIONS(renew_options),
    .run = run_renew,
    .brief = true,
};
