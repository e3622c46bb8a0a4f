// SPDX-License-Identifier: Apache-2.0
// cancel: ends chosen messages that no worker holds.
#include "cli/choose.h"
#include "cli/commands.h"
#include "protocol/routes.h"

#include <string.h>

enum { REASON, YES, FILTER };

static const struct cli_option options[] = {
    [REASON] = OPTION_OF(cancel, "reason", "TEXT", "the reason, kept with the message"),
    [YES] = FLAG_OPTION("yes", 'y', "with a filter: do not ask for confirmation"),
    FILTER_ROWS(FILTER, "with a filter: ready, delayed or dead; default: ready and\n"
                        "delayed"),
};

struct cancel_command {
    struct sluice *s;
    const char *queue, *reason;
};

static enum sluice_code cancel_ids(void *ctx, const char *const *ids, size_t len,
                                   struct sluice_outcome *rows, struct sluice_error *error)
{
    const struct cancel_command *c = ctx;
    return sluice_cancel(c->s, c->queue, ids, len, c->reason, rows, error);
}

static bool explain(const struct choice *c, const char *id, const char *reason,
                    struct sluice_error *error)
{
    if (strcmp(reason, "locked") != 0) return false;
    (void)snprintf(error->message, sizeof error->message,
                   "a worker holds message %.64s; to end it: sluice signal %.80s %.64s interrupt",
                   id, c->queue, id);
    return true;
}

static int run_cancel(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    static const char *const states[] = {"ready", "delayed"};
    const struct cli_value *o = args->options, *state = &o[FILTER + FILTER_STATE];
    struct cancel_command cancelling = {s, args->words[0], option_text(&o[REASON])};
    struct choice c = {.cli = cli,
                       .s = s,
                       .queue = args->words[0],
                       .command = "cancel",
                       .verb = "cancelled",
                       .warning = "ends messages permanently",
                       .states = states,
                       .states_len = COUNT_OF(states),
                       .act = cancel_ids,
                       .explain = explain,
                       .ctx = &cancelling};
    bool chosen;
    int status = choose_check(cli, args, FILTER, &chosen);
    if (status == 0 && !chosen)
        return cli_usage(cli, "ID", "give the ids of messages, or a filter such as --state ready");
    if (status == 0 && state->given && strcmp(state->texts[0], "locked") == 0)
        return cli_usage(cli, "--state",
                         "workers hold locked messages; to end one: sluice signal %.80s ID "
                         "interrupt",
                         c.queue);
    return status ? status : choose(&c, args, FILTER, o[YES].given);
}

const struct command command_cancel = {
    .name = "cancel",
    .words = "QUEUE [ID]...",
    .summary = "Ends messages that no worker holds",
    .details = "A message that is ready, delayed or waits for a retry ends as \"cancelled\". A\n"
               "dead message is purged. If a worker holds the message, use \"signal\" with\n"
               "\"interrupt\". ID - reads ids from standard input, one in a line. With a filter,\n"
               "the command counts the messages first and asks for confirmation; without a\n"
               "terminal it requires --yes.\n"
               "JSON keys: id, queue, status; with a filter: queue, found, cancelled.",
    OPTIONS(options),
    .run_on = run_cancel,
};
