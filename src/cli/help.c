// SPDX-License-Identifier: Apache-2.0
// Prints help from the same tables that the parser reads.
#include "cli/commands.h"

#include <string.h>

#define OPTION_COLUMN  22
#define COMMAND_COLUMN 16

// Indents all lines after the first to the column.
static void print_indented(FILE *out, int column, const char *text)
{
    for (const char *at = text; *at;) {
        size_t len = strcspn(at, "\n");
        if (at != text) (void)fprintf(out, "%*s", column, "");
        (void)fprintf(out, "%.*s\n", (int)len, at);
        at += len;
        if (*at == '\n') at++;
    }
}

static void print_option(const struct cli_option *o, FILE *out)
{
    char left[64];
    char letter[8] = "";
    if (o->letter) (void)snprintf(letter, sizeof letter, "-%c, ", o->letter);
    int len = snprintf(left, sizeof left, "  %s--%s%s%s", letter, o->name, o->value ? " " : "",
                       o->value ? o->value : "");
    (void)fprintf(out, "%-*s", OPTION_COLUMN, left);
    if (len >= OPTION_COLUMN) (void)fprintf(out, "\n%*s", OPTION_COLUMN, "");
    print_indented(out, OPTION_COLUMN, o->help);
}

static void print_options(const char *title, const struct cli_option *rows, size_t len, FILE *out)
{
    if (len == 0) return;
    (void)fprintf(out, "\n%s:\n", title);
    for (size_t i = 0; i < len; i++)
        print_option(&rows[i], out);
}

void help_command(const struct command *c, FILE *out)
{
    (void)fprintf(out, "Usage: sluice %s%s%s%s\n\n%s.\n", c->name,
                  c->options_len ? " [OPTIONS]" : "", c->words ? " " : "", c->words ? c->words : "",
                  c->summary);
    if (c->details) (void)fprintf(out, "\n%s\n", c->details);
    if (c->more) c->more(out);
    print_options("Options", c->options, c->options_len, out);
    print_options("Options of every command", global_options, global_options_len, out);
}

static void print_command(const struct command *c, FILE *out)
{
    (void)fprintf(out, "  %-*s%s\n", COMMAND_COLUMN, c->name, c->summary);
}

void help_group(const char *word, FILE *out)
{
    size_t len = strlen(word);
    (void)fprintf(out, "Usage: sluice %s COMMAND\n\n", word);
    for (size_t i = 0; command_at(i); i++) {
        const struct command *c = command_at(i);
        if (strncmp(c->name, word, len) == 0 && c->name[len] == ' ') print_command(c, out);
    }
    (void)fprintf(out, "\n\"sluice help %s COMMAND\" explains a command.\n", word);
}

void help_overview(FILE *out)
{
    (void)fprintf(out, "sluice: a durable work queue in a directory or a bucket, or over HTTP\n\n"
                       "Usage: sluice COMMAND [OPTIONS] [WORDS]\n\nCommands:\n");
    for (size_t i = 0; command_at(i); i++)
        print_command(command_at(i), out);
    print_options("Options of every command", global_options, global_options_len, out);
    (void)fprintf(
        out, "\n\"sluice --version\" prints the version. Write durations as 500ms, 30s, 5m or 2h.\n"
             "\"-\" is standard input.\n"
             "Exit status: 0 done, 1 a check found a problem, 2 invalid request, 3 not found,\n"
             "4 conflict, 5 the lock is not yours, 6 limit, 7 not done, 8 perhaps done,\n"
             "9 corrupt store, 10 denied.\n"
             "\n\"sluice help COMMAND\" explains a command; see also \"man sluice\".\n");
}

static int run_help(const struct cli *cli, const struct arguments *args)
{
    size_t used;
    if (args->words_len == 0) {
        help_overview(stdout);
        return 0;
    }
    const struct command *c = command_find(args->words, args->words_len, &used);
    if (c) {
        help_command(c, stdout);
    } else if (args->words_len == 1 && command_group(args->words[0])) {
        help_group(args->words[0], stdout);
    } else {
        return command_unknown(cli, args->words, args->words_len);
    }
    return 0;
}

const struct command command_help = {
    .name = "help",
    .words = "[COMMAND]...",
    .summary = "Explains a command",
    .run = run_help,
};
