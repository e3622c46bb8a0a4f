// SPDX-License-Identifier: Apache-2.0
// The table of commands. A new command is a file, a line here, and a line in commands.c.
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

// In the order of the overview; NULL past the last.
const struct command *command_at(size_t index);
// The command named by the first one or two of these words; *used is how many. NULL: none.
const struct command *command_find(const char *const *words, size_t len, size_t *used);
// For commands that consist of two words: does any begin with this one?
bool command_group(const char *word);
// Says what is wrong with words that name no command.
int command_unknown(const struct cli *cli, const char *const *words, size_t len);

// --store, --json, --quiet, --help: taken everywhere.
extern const struct cli_option global_options[];
extern const size_t global_options_len;

// Reads options and words from argv[0] on; cli takes the global ones. Without a command it reads
// global options only and stops at the first word; *used is how many were read. 0: go on; else the
// exit status, already explained. In both cases arguments_done is due.
int arguments_parse(struct cli *cli, const struct command *command, size_t argc, char **argv,
                    struct arguments *out, size_t *used);
void arguments_done(struct arguments *args);

void help_command(const struct command *command, FILE *out);
void help_group(const char *word, FILE *out);
void help_overview(FILE *out);
