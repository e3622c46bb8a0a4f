// SPDX-License-Identifier: Apache-2.0
// The table of commands. A new command needs its own file and a name in this list.
#pragma once

#include "cli/cli.h"

// In the order of the overview. help.c has the headings of its groups.
#define COMMAND_LIST(C)                                                                            \
    C(queue_create), C(queue_list), C(queue_show), C(queue_set), C(queue_pause), C(queue_resume),  \
        C(queue_purge), C(queue_delete), C(send), C(work), C(receive), C(ack), C(fail),            \
        C(release), C(renew), C(collect), C(stats), C(peek), C(show), C(events), C(workers),       \
        C(workflow_list), C(workflow_show), C(audit), C(redrive), C(cancel), C(signal),            \
        C(signals), C(worker_pause), C(worker_resume), C(worker_drain), C(worker_evict), C(serve), \
        C(token_new), C(doctor), C(import), C(upgrade), C(cluster_status), C(cluster_plan),        \
        C(cluster_drain), C(cluster_undrain), C(cluster_leave), C(cluster_events),                 \
        C(cluster_coord_switch), C(bench), C(schema_check), C(completion), C(version), C(help)

#define COMMAND_NAME(name) command_##name
extern const struct command COMMAND_LIST(COMMAND_NAME);

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
