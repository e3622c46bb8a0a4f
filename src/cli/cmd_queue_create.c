// SPDX-License-Identifier: Apache-2.0
// queue create and queue set: a name and settings.
#include "cli/commands.h"
#include "cli/settings.h"
#include "queue/codec/settings.h"

#include <string.h>

enum { CONFIG };

static const struct cli_option options[] = {
    [CONFIG] = OPTION(TEXT, "config", "FILE",
                      "settings as a JSON object, nested or with dotted keys;\n"
                      "command-line words override it; - is standard input;\n"
                      "the output of \"queue show --json\" is accepted"),
};

typedef enum sluice_code apply_fn(struct sluice *s, const char *queue,
                                  const struct sluice_setting *settings, size_t len,
                                  struct sluice_error *error);

// `done` is false only if the queue already exists with the same settings.
static void say_done(const struct cli *cli, const char *queue, const char *verb, bool done)
{
    if (cli->json) {
        struct json *o = json_new();
        json_text(o, "queue", queue);
        json_bool(o, verb, done);
        json_print(o, stdout);
    } else if (done) {
        cli_say(cli, "%s queue %s", verb, queue);
    } else {
        cli_say(cli, "queue %s exists already with these settings", queue);
    }
}

static int apply(const struct cli *cli, const struct arguments *args, apply_fn *fn,
                 const char *verb)
{
    const char *queue = args->words[0];
    const struct cli_value *config = &args->options[CONFIG];
    struct settings settings;
    int status =
        settings_read(cli, args->words + 1, args->words_len - 1, option_text(config), &settings);
    if (status != 0) return status;
    bool makes = fn == sluice_queue_create;
    struct sluice *s = makes ? cli_open_making(cli, &status) : cli_open(cli, &status);
    struct sluice_error error = {0};
    if (s && fn(s, queue, settings.rows, settings.len, &error) != SLUICE_OK)
        status = cli_fail_queue(cli, s, queue, &error);
    if (s && status == 0) say_done(cli, queue, verb, !makes || strcmp(error.reason, "exists") != 0);
    sluice_close(s);
    settings_done(&settings);
    return status;
}

static int run_create(const struct cli *cli, const struct arguments *args)
{
    return apply(cli, args, sluice_queue_create, "created");
}

static int run_set(const struct cli *cli, const struct arguments *args)
{
    if (args->words_len < 2 && !args->options[CONFIG].given)
        return cli_usage(cli, "KEY=VALUE", "KEY=VALUE is missing: sluice queue set NAME KEY=VALUE");
    return apply(cli, args, sluice_queue_set, "changed");
}

static void print_settings(FILE *out)
{
    (void)fprintf(out, "\nSettings and their defaults (docs/queues.md explains each):\n");
    for (const struct setting *s = queue_settings; s < queue_settings + QUEUE_SETTINGS_LEN; s++) {
        char text[SETTING_TEXT_MAX] = "NAME";
        if (s->kind != SETTING_NAME) setting_print(s, s->initial, true, text);
        (void)fprintf(out, "  %s=%s%s%s%s\n      %s\n", s->key, text, s->choices ? "  (" : "",
                      s->choices ? s->choices : "", s->choices ? ")" : "", s->meaning);
    }
}

const struct command command_queue_create = {
    .name = "queue create",
    .words = "NAME [KEY=VALUE]...",
    .summary = "Creates a queue",
    .details = "If the queue exists with the same settings, the command succeeds (JSON:\n"
               "\"created\": false). With other settings it reports a conflict. A missing\n"
               "dead-letter queue is created, too.",
    .more = print_settings,
    OPTIONS(options),
    .run = run_create,
    .brief = true,
};

const struct command command_queue_set = {
    .name = "queue set",
    .words = "NAME [KEY=VALUE]...",
    .summary = "Changes settings of a queue, all or none",
    .more = print_settings,
    OPTIONS(options),
    .run = run_set,
    .brief = true,
};
