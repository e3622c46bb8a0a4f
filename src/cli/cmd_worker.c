// SPDX-License-Identifier: Apache-2.0
// worker pause, resume, drain, evict: orders to a registered worker.
#include "cli/commands.h"
#include "json/json.h"

#include <string.h>

enum { YES };
static const struct cli_option evict_options[] = {
    [YES] = FLAG_OPTION("yes", 0, "confirm: its locks end, its work is lost"),
};

static int order(const struct cli *cli, struct sluice *s, const struct arguments *args,
                 const char *mode, const char *says,
                 enum sluice_code (*give)(struct sluice *, const char *, const char *,
                                          struct sluice_error *))
{
    const char *queue = args->words[0], *worker = args->words[1];
    struct sluice_error error = {0};
    if (give(s, queue, worker, &error) != SLUICE_OK) {
        if (strcmp(error.reason, "unknown-worker") == 0)
            (void)snprintf(error.message, sizeof error.message,
                           "queue %.80s has no registered worker %.100s; \"sluice workers %.80s\" "
                           "lists them",
                           queue, worker, queue);
        return cli_fail_queue(cli, s, queue, &error);
    }
    if (!cli->json) {
        cli_say(cli, "worker %s %s", worker, says);
        return 0;
    }
    struct json *o = json_new();
    json_text(o, "queue", queue);
    json_text(o, "worker", worker);
    json_text(o, "mode", mode);
    json_print(o, stdout);
    return 0;
}

static int run_pause(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    return order(cli, s, args, "paused", "gets nothing until it is resumed", sluice_worker_pause);
}

static int run_resume(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    return order(cli, s, args, "running", "gets messages again", sluice_worker_resume);
}

static int run_drain(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    return order(cli, s, args, "draining", "finishes what it holds and gets nothing more",
                 sluice_worker_drain);
}

static int run_evict(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    if (!args->options[YES].given)
        return cli_usage(cli, "--yes",
                         "evict ends the locks of worker %s at once, and other workers get its "
                         "messages; confirm with --yes",
                         args->words[1]);
    return order(cli, s, args, "evicted", "lost its locks, and stays out for ten minutes",
                 sluice_worker_evict);
}

const struct command command_worker_pause = {
    .name = "worker pause",
    .words = "QUEUE WORKER",
    .summary = "Gives a registered worker nothing until it is resumed",
    .details = "What it holds goes on. JSON keys: queue, worker, mode.",
    .run_on = run_pause,
    .brief = true,
};

const struct command command_worker_resume = {
    .name = "worker resume",
    .words = "QUEUE WORKER",
    .summary = "Ends the pause or the drain of a worker",
    .details = "JSON keys: queue, worker, mode.",
    .run_on = run_resume,
    .brief = true,
};

const struct command command_worker_drain = {
    .name = "worker drain",
    .words = "QUEUE WORKER",
    .summary = "Lets a worker finish what it holds, and gives it nothing more",
    .details = "\"sluice work\" ends when it has finished. JSON keys: queue, worker, mode.",
    .run_on = run_drain,
    .brief = true,
};

const struct command command_worker_evict = {
    .name = "worker evict",
    .words = "QUEUE WORKER",
    .summary = "Ends the locks of a worker and keeps it out",
    .details = "Its messages return to their place, and no attempt is counted. Its tokens are\n"
               "invalid. Its process cannot receive or join for ten minutes; another process of\n"
               "the same name can. JSON keys: queue, worker, mode.",
    OPTIONS(evict_options),
    .run_on = run_evict,
};
