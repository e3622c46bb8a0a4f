// SPDX-License-Identifier: Apache-2.0
// Prints help from the same tables that the parser reads.
#include "cli/commands.h"

#include <string.h>

#define OPTION_COLUMN 22

// The commands from this one on belong together.
static const struct {
    const char *first, *title;
} groups[] = {
    {"queue create", "Queues"}, {"send", "Send and work"},
    {"stats", "Look"},          {"redrive", "Act on messages and workers"},
    {"serve", "Operate"},       {"bench", "Measure and build"},
};

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
    (void)cli_option_of(o); // an option that names no field of its call is found here
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

static bool has_own(const struct command *c, const char *name)
{
    for (size_t i = 0; i < c->options_len; i++)
        if (strcmp(c->options[i].name, name) == 0) return true;
    return false;
}

// --timeout is for commands that make few requests, and some have an option of that name.
static void print_global(bool timeout, FILE *out)
{
    (void)fprintf(out, "\nOptions of every command:\n");
    for (size_t i = 0; i < global_options_len; i++)
        if (timeout || strcmp(global_options[i].name, "timeout") != 0)
            print_option(&global_options[i], out);
}

void help_command(const struct command *c, FILE *out)
{
    (void)fprintf(out, "Usage: sluice %s%s%s%s\n\n%s.\n", c->name,
                  c->options_len ? " [OPTIONS]" : "", c->words ? " " : "", c->words ? c->words : "",
                  c->summary);
    if (c->details) (void)fprintf(out, "\n%s\n", c->details);
    if (c->more) c->more(out);
    print_options("Options", c->options, c->options_len, out);
    print_global(c->brief && !has_own(c, "timeout"), out);
}

static bool begins_group(size_t index, const char **title)
{
    const struct command *c = command_at(index);
    for (size_t i = 0; c && i < COUNT_OF(groups); i++) {
        if (strcmp(c->name, groups[i].first) != 0) continue;
        *title = groups[i].title;
        return true;
    }
    return !c;
}

// Prints commands from one index up to another. Their summaries begin in one column.
static void print_commands(size_t from, size_t to, FILE *out)
{
    size_t width = 0;
    for (size_t i = from; i < to; i++) {
        size_t len = strlen(command_at(i)->name);
        if (len > width) width = len;
    }
    for (size_t i = from; i < to; i++)
        (void)fprintf(out, "  %-*s  %s\n", (int)width, command_at(i)->name, command_at(i)->summary);
}

static bool is_of_group(const struct command *c, const char *word)
{
    size_t len = strlen(word);
    return c && strncmp(c->name, word, len) == 0 && c->name[len] == ' ';
}

void help_group(const char *word, FILE *out)
{
    size_t from = 0, to;
    while (command_at(from) && !is_of_group(command_at(from), word))
        from++;
    for (to = from; is_of_group(command_at(to), word); to++)
        continue;
    (void)fprintf(out, "Usage: sluice %s COMMAND\n\n", word);
    print_commands(from, to, out);
    (void)fprintf(out, "\n\"sluice help %s COMMAND\" explains a command.\n", word);
}

void help_overview(FILE *out)
{
    (void)fprintf(out, "sluice: a durable work queue in a directory or a bucket, or over HTTP\n\n"
                       "Usage: sluice COMMAND [OPTIONS] [WORDS]\n");
    const char *title = "", *next = "";
    for (size_t from = 0; begins_group(from, &title) && command_at(from);) {
        size_t to = from + 1;
        while (!begins_group(to, &next))
            to++;
        (void)fprintf(out, "\n%s:\n", title);
        print_commands(from, to, out);
        from = to;
    }
    print_global(false, out);
    (void)fprintf(
        out, "\nA command that makes few requests also has --timeout D, as its help says.\n"
             "\"sluice --version\" prints the version. Write durations as 500ms, 30s, 5m or 2h.\n"
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
