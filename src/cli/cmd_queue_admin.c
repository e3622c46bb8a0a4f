// SPDX-License-Identifier: Apache-2.0
// queue pause, resume, purge and delete. Purge and delete cannot be undone, so they ask for
// confirmation.
#include "cli/commands.h"
#include "protocol/routes.h"
#include "json/json.h"

enum { YES, DEAD };

static const struct cli_option delete_options[] = {
    [YES] = FLAG_OPTION("yes", 'y', "do not ask for confirmation"),
};
static const struct cli_option purge_options[] = {
    [YES] = FLAG_OPTION("yes", 'y', "do not ask for confirmation"),
    [DEAD] = OPTION_OF(purge, "dead", NULL, "delete the dead messages instead of the waiting ones"),
};

typedef enum sluice_code queue_fn(struct sluice *s, const char *queue, struct sluice_error *error);

static void say_done(const struct cli *cli, const char *queue, const char *key, const char *verb)
{
    if (!cli->json) {
        cli_say(cli, "%s queue %s", verb, queue);
        return;
    }
    struct json *o = json_new();
    json_text(o, "queue", queue);
    json_bool(o, key, true);
    json_print(o, stdout);
}

static int apply(const struct cli *cli, const char *queue, queue_fn *fn, const char *key,
                 const char *verb)
{
    int status = 0;
    struct sluice *s = cli_open(cli, &status);
    if (!s) return status;
    struct sluice_error error = {0};
    if (fn(s, queue, &error) != SLUICE_OK)
        status = cli_fail_queue(cli, s, queue, &error);
    else
        say_done(cli, queue, key, verb);
    sluice_close(s);
    return status;
}

static int run_pause(const struct cli *cli, const struct arguments *args)
{
    return apply(cli, args->words[0], sluice_queue_pause, "paused", "paused");
}

static int run_resume(const struct cli *cli, const struct arguments *args)
{
    return apply(cli, args->words[0], sluice_queue_resume, "resumed", "resumed");
}

static int run_delete(const struct cli *cli, const struct arguments *args)
{
    char question[160];
    (void)snprintf(question, sizeof question, "Delete queue %.80s and all of its messages?",
                   args->words[0]);
    int status = cli_confirm(cli, args->options[YES].given, "queue delete", question);
    if (status != 0) return status;
    return apply(cli, args->words[0], sluice_queue_delete, "deleted", "deleted");
}

static int run_purge(const struct cli *cli, const struct arguments *args)
{
    const char *queue = args->words[0];
    bool dead = args->options[DEAD].given;
    char question[160];
    (void)snprintf(question, sizeof question, "Delete every message of %.80s that %s?", queue,
                   dead ? "is dead" : "waits");
    int status = cli_confirm(cli, args->options[YES].given, "queue purge", question);
    if (status != 0) return status;
    struct sluice *s = cli_open(cli, &status);
    if (!s) return status;
    struct sluice_error error = {0};
    uint64_t purged = 0;
    if (sluice_queue_purge(s, queue, dead, &purged, &error) != SLUICE_OK)
        status = cli_fail_queue(cli, s, queue, &error);
    else
        cli_count(cli, queue, "purged", purged);
    sluice_close(s);
    return status;
}

const struct command command_queue_pause = {
    .name = "queue pause",
    .words = "NAME",
    .summary = "Stops the delivery of messages",
    .details = "A paused queue still accepts messages, and existing locks stay valid.",
    .run = run_pause,
    .brief = true,
};

const struct command command_queue_resume = {
    .name = "queue resume",
    .words = "NAME",
    .summary = "Resumes the delivery of messages",
    .run = run_resume,
    .brief = true,
};

const struct command command_queue_purge = {
    .name = "queue purge",
    .words = "NAME",
    .summary = "Deletes the waiting messages permanently",
    .details = "Locked messages stay. It asks for confirmation; without a terminal it requires\n"
               "--yes. JSON keys: queue, purged.",
    OPTIONS(purge_options),
    .run = run_purge,
};

const struct command command_queue_delete = {
    .name = "queue delete",
    .words = "NAME",
    .summary = "Deletes a queue and its messages permanently",
    .details = "Refuses to delete the dead-letter queue of another queue. It asks for\n"
               "confirmation; without a terminal it requires --yes.",
    OPTIONS(delete_options),
    .run = run_delete,
};
