// SPDX-License-Identifier: Apache-2.0
// redrive: sends dead messages again.
#include "cli/commands.h"

#include <string.h>

enum { TO, MAX };

static const struct cli_option options[] = {
    [TO] = {.name = "to",
            .value = "QUEUE",
            .kind = OPTION_TEXT,
            .help = "target of dead letters; default: the queue of each"},
    [MAX] = {.name = "max",
             .value = "N",
             .kind = OPTION_COUNT,
             .min = 1,
             .max = UINT32_MAX,
             .help = "the most messages to send; default: all"},
};

// Names the missing queue: the source or the target.
static int fail_redrive(const struct cli *cli, struct sluice *s, const char *queue, const char *to,
                        struct sluice_error *error)
{
    bool target = to && strcmp(error->field, "to") == 0 && error->code == SLUICE_NOT_FOUND;
    if (target) (void)snprintf(error->field, sizeof error->field, "queue");
    return cli_fail_queue(cli, s, target ? to : queue, error);
}

static int run_redrive(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    const char *queue = args->words[0];
    const char *to = args->options[TO].given ? args->options[TO].texts[0] : NULL;
    int status = 0;
    struct sluice_error error = {0};
    uint64_t redriven = 0;
    enum sluice_code code =
        sluice_redrive(s, queue, to, (uint32_t)args->options[MAX].number, &redriven, &error);
    if (code == SLUICE_OK || redriven > 0) cli_count(cli, queue, "redriven", redriven);
    if (code != SLUICE_OK) status = fail_redrive(cli, s, queue, to, &error);
    return status;
}

const struct command command_redrive = {
    .name = "redrive",
    .words = "DLQ",
    .summary = "Sends dead messages again",
    .details = "Messages that died in this queue are sent again in it. Dead letters of other\n"
               "queues go back to their queue, or to --to. Each becomes a new message that\n"
               "names its origin.\n"
               "JSON keys: queue, redriven.",
    .options = options,
    .options_len = COUNT_OF(options),
    .run_on = run_redrive,
};
