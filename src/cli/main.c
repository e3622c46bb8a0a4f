// SPDX-License-Identifier: Apache-2.0
// The main program: parses global options, finds the command, runs it and returns its exit status.
#include "cli/answer_watch.h"
#include "cli/commands.h"
#include "cli/store.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BRIEF_MS 120000

// An error in the first option must be JSON, too, if --json comes later.
static bool wants_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0) return true;
    return false;
}

static int run(const struct cli *cli, const struct command *command, const struct arguments *args)
{
    int status = 0;
    if (command->run) return command->run(cli, args);
    struct sluice *s = cli_open(cli, &status);
    if (s) status = command->run_on(cli, args, s);
    sluice_close(s);
    return status;
}

static int run_command(struct cli *cli, const struct command *command, size_t argc, char **argv)
{
    struct arguments args;
    int status = arguments_parse(cli, command, argc, argv, &args, NULL);
    if (status == 0 && cli->help) {
        help_command(command, stdout);
    } else if (status == 0 && !cli->store) {
        status =
            cli_usage(cli, "--store",
                      "no store is given, and there is no home directory for the default store; "
                      "give --store or SLUICE_STORE");
    } else if (status == 0) {
        if (command->brief && !cli->deadline_given) cli->deadline_ms = BRIEF_MS;
        if (!command->brief && cli->deadline_given)
            status =
                cli_usage(cli, "--timeout",
                          "\"%s\" does not accept --timeout: its number of requests is not limited",
                          command->name);
        else
            status = run(cli, command, &args);
    }
    arguments_done(&args);
    return status;
}

static int run_program(struct cli *cli, size_t argc, char **argv)
{
    struct arguments args;
    size_t at = 0, used = 0;
    int status = arguments_parse(cli, NULL, argc, argv, &args, &at);
    arguments_done(&args);
    if (status != 0) return status;
    if (cli->version) return run_command(cli, &command_version, argc - at, argv + at);
    if (at == argc) {
        help_overview(cli->help ? stdout : stderr);
        return cli->help ? 0 : EXIT_USAGE;
    }
    const char *const *words = (const char *const *)(argv + at);
    const struct command *command = command_find(words, argc - at, &used);
    bool group_help = argc - at == 2 && (!strcmp(words[1], "--help") || !strcmp(words[1], "-h"));
    if (!command && command_group(words[0]) && (group_help || cli->help)) {
        help_group(words[0], stdout);
        return 0;
    }
    if (!command) return command_unknown(cli, words, argc - at);
    return run_command(cli, command, argc - at - used, argv + at + used);
}

int main(int argc, char **argv)
{
    const char *no_color = getenv("NO_COLOR");
    char *store = store_default();
    struct cli cli = {.json = wants_json(argc, argv),
                      .color = isatty(STDOUT_FILENO) && !(no_color && *no_color),
                      .store = store};
    // If the reader closes standard output, a write fails and the command can clean up.
    // work/spawn.c restores the default for child processes.
    (void)signal(SIGPIPE, SIG_IGN);
    size_t words = argc > 0 ? (size_t)argc - 1 : 0;
    cli.answer_watch = answer_watch_new();
    int status = cli_end(&cli, run_program(&cli, words, argv + 1));
    answer_watch_free(cli.answer_watch);
    free(store);
    return status;
}
