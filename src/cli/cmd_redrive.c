// SPDX-License-Identifier: Apache-2.0
// redrive: sends dead messages again.
#include "cli/commands.h"
#include "cli/text.h"
#include "json/json.h"

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

static int run_redrive(const struct cli *cli, const struct arguments *args)
{
    const char *queue = args->words[0];
    const char *to = args->options[TO].given ? args->options[TO].texts[0] : NULL;
    int status = 0;
    struct sluice *s = cli_open(cli, &status);
    if (!s) return status;
    struct sluice_error error = {0};
    uint64_t redriven = 0;
    char count[TEXT_MAX];
    enum sluice_code code =
        sluice_redrive(s, queue, to, (uint32_t)args->options[MAX].number, &redriven, &error);
    if (cli->json && (code == SLUICE_OK || redriven > 0)) {
        struct json *o = json_new();
        json_text(o, "queue", queue);
        json_number(o, "redriven", (int64_t)redriven);
        json_print(o, stdout);
    } else if (code == SLUICE_OK || redriven > 0) {
        cli_say(cli, "redriven %s message%s of %s", number_text(redriven, count),
                redriven == 1 ? "" : "s", queue);
    }
    if (code != SLUICE_OK) status = fail_redrive(cli, s, queue, to, &error);
    sluice_close(s);
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
    .run = run_redrive,
};
