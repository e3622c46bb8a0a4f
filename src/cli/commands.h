// SPDX-License-Identifier: Apache-2.0
// The table of commands. A new command needs its own file, a line here and a line in commands.c.
#pragma once

#include "cli/cli.h"

extern const struct command command_queue_create;
extern const struct command command_queue_list;
extern const struct command command_queue_show;
extern const struct command command_queue_set;
extern const struct command command_queue_pause;
extern const struct command command_queue_resume;
extern const struct command command_queue_purge;
extern const struct command command_queue_delete;
extern const struct command command_send;
extern const struct command command_receive;
extern const struct command command_ack;
extern const struct command command_fail;
extern const struct command command_release;
extern const struct command command_renew;
extern const struct command command_work;
extern const struct command command_serve;
extern const struct command command_token_new;
extern const struct command command_peek;
extern const struct command command_show;
extern const struct command command_stats;
extern const struct command command_events;
extern const struct command command_redrive;
extern const struct command command_audit;
extern const struct command command_doctor;
extern const struct command command_bench;
extern const struct command command_completion;
extern const struct command command_version;
extern const struct command command_help;

// Returns commands in the order of the overview, and NULL after the last.
const struct command *command_at(size_t index);
// Returns the command that the first one or two words name, or NULL. *used is the number of words.
const struct command *command_find(const char *const *words, size_t len, size_t *used);
// True if `word` is the first word of a command with two words.
bool command_group(const char *word);
// Reports words that name no command. Returns the exit status.
int command_unknown(const struct cli *cli, const char *const *words, size_t len);

// --store, --json, --quiet, --timeout, --help: accepted by every command.
extern const struct cli_option global_options[];
extern const size_t global_options_len;

// Parses options and words from argv[0] on, and stores global options in cli. Without a command it
// parses only global options and stops at the first word; *used is the number of arguments parsed.
// Returns 0 to continue, else the exit status after printing the error. Call arguments_done in both
// cases.
int arguments_parse(struct cli *cli, const struct command *command, size_t argc, char **argv,
                    struct arguments *out, size_t *used);
void arguments_done(struct arguments *args);

void help_command(const struct command *command, FILE *out);
void help_group(const char *word, FILE *out);
void help_overview(FILE *out);
