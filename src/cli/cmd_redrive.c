// SPDX-License-Identifier: Apache-2.0
// redrive: sends dead messages again.
#include "cli/choose.h"
#include "cli/commands.h"
#include "protocol/routes.h"

#include <string.h>

enum { TO, MAX, YES, FILTER };

static const struct cli_option options[] = {
    [TO] = OPTION_OF(redrive, "to", "QUEUE", "target of dead letters; default: the queue of each"),
    [MAX] = OPTION_OF(redrive, "max", "N", "the most messages to send; default: all", .min = 1),
    [YES] = FLAG_OPTION("yes", 'y', "with a filter: do not ask for confirmation"),
    FILTER_ROWS(FILTER, "with a filter: dead, or ready for dead letters; default: both"),
};

// Names the missing queue: the source or the target.
static int fail_redrive(const struct cli *cli, struct sluice *s, const char *queue, const char *to,
                        struct sluice_error *error)
{
    bool target = to && strcmp(error->field, "to") == 0 && error->code == SLUICE_NOT_FOUND;
    if (target) (void)snprintf(error->field, sizeof error->field, "queue");
    return cli_fail_queue(cli, s, target ? to : queue, error);
}

struct redrive_command {
    struct sluice *s;
    const char *queue, *to;
};

static enum sluice_code redrive_ids(void *ctx, const char *const *ids, size_t len,
                                    struct sluice_outcome *rows, struct sluice_error *error)
{
    const struct redrive_command *r = ctx;
    return sluice_redrive_messages(r->s, r->queue, r->to, ids, len, rows, error);
}

// A ready message is one to redrive if it died in another queue.
static bool can_redrive(const struct sluice_message *m)
{
    return strcmp(m->state, "ready") != 0 || (m->from.queue && *m->from.queue);
}

static int redrive_chosen(const struct cli *cli, const struct arguments *args, struct sluice *s,
                          const char *to)
{
    static const char *const states[] = {"dead", "ready"};
    const struct cli_value *o = args->options;
    struct redrive_command redriving = {s, args->words[0], to};
    struct choice c = {.cli = cli,
                       .s = s,
                       .queue = args->words[0],
                       .command = "redrive",
                       .verb = "redriven",
                       .warning = "sends messages again",
                       .states = states,
                       .states_len = COUNT_OF(states),
                       .wanted = can_redrive,
                       .act = redrive_ids,
                       .ctx = &redriving};
    if (o[MAX].given)
        return cli_usage(cli, "--max", "--max is for a redrive without IDs and filters");
    return choose(&c, args, FILTER, o[YES].given);
}

static int run_redrive(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    const char *queue = args->words[0];
    const char *to = option_text(&args->options[TO]);
    struct sluice_error error = {0};
    uint64_t redriven = 0;
    bool chosen;
    int status = choose_check(cli, args, FILTER, &chosen);
    if (status != 0) return status;
    if (chosen) return redrive_chosen(cli, args, s, to);
    enum sluice_code code =
        sluice_redrive(s, queue, to, (uint32_t)args->options[MAX].number, &redriven, &error);
    if (code == SLUICE_OK || redriven > 0) cli_count(cli, queue, "redriven", redriven);
    if (code != SLUICE_OK) status = fail_redrive(cli, s, queue, to, &error);
    return status;
}

const struct command command_redrive = {
    .name = "redrive",
    .words = "DLQ [ID]...",
    .summary = "Sends dead messages again",
    .details = "Messages that died in this queue are sent again in it. Dead letters of other\n"
               "queues go back to their queue, or to --to. Each becomes a new message that\n"
               "names its origin. ID chooses messages; - reads ids from standard input, one\n"
               "in a line. With a filter, the command counts the messages first and asks for\n"
               "confirmation; without a terminal it requires --yes. No other message is\n"
               "touched. The command also works while the queue is paused.\n"
               "JSON keys: queue, redriven; for IDs: id, queue, status; with a filter: queue,\n"
               "found, redriven.",
    OPTIONS(options),
    .run_on = run_redrive,
};
