// SPDX-License-Identifier: Apache-2.0
// Commands about chosen messages: by their ids, or by a filter. With a filter, the command counts
// first and asks for confirmation.
#pragma once

#include "cli/cli.h"

// The options of a filter, in this order from `first` on.
enum { FILTER_STATE, FILTER_HEADER, FILTER_CONTAINS, FILTER_BEFORE, FILTER_OPTIONS };
#define FILTER_ROWS(first, state_help)                                                             \
    [(first) + FILTER_STATE] = OPTION(TEXT, "state", "S", state_help),                             \
               [(first) + FILTER_HEADER] =                                                         \
                   OPTION(TEXTS, "header", "K=V",                                                  \
                          "only messages with this header; may be repeated", .letter = 'H'),       \
               [(first) + FILTER_CONTAINS] =                                                       \
                   OPTION(TEXT, "contains", "TEXT", "only messages whose body contains the text"), \
               [(first) + FILTER_BEFORE] = OPTION(MOMENT, "before", "TIME",                        \
                                                  "only messages that were sent before this time")

// Reads the options into `out`. Returns 0, or the exit status after printing the error. Call
// filter_done in both cases.
int filter_read(const struct cli *cli, const struct cli_value *rows, struct sluice_find *out);
void filter_done(struct sluice_find *f);
bool filter_given(const struct cli_value *rows); // more than a state

// Ids or tokens from the command line, or from standard input ("-": one in each line).
struct id_list {
    const char **rows;
    size_t len, room;
    char *input; // the content of standard input
};
// Returns 0, or the exit status after printing the error. Call id_list_done in both cases.
int id_list_read(const struct cli *cli, const char *what, const char **words, size_t len,
                 struct id_list *ids);
// Refuses what has not the form of an id, or of a token, and an id that is given twice. So nothing
// is done if one of them is wrong.
int id_list_check(const struct cli *cli, const struct id_list *ids, bool tokens);
void id_list_done(struct id_list *ids);

struct choice {
    const struct cli *cli;
    struct sluice *s;
    const char *queue;
    const char *command;       // "redrive"
    const char *verb;          // "redriven": what a message is afterwards
    const char *warning;       // "sends messages again"
    const char *const *states; // that are searched unless --state is given
    size_t states_len;
    // Whether a message that was found is one; NULL: each is.
    bool (*wanted)(const struct sluice_message *m);
    enum sluice_code (*act)(void *ctx, const char *const *ids, size_t len,
                            struct sluice_outcome *rows, struct sluice_error *error);
    // Writes a sentence of its own about a refusal, or returns false; may be NULL.
    bool (*explain)(const struct choice *c, const char *id, const char *reason,
                    struct sluice_error *error);
    void *ctx;
};

// Whether the command line chooses messages: by ids after the queue, or by a filter. Both together
// are refused. Returns 0, or the exit status after printing the error.
int choose_check(const struct cli *cli, const struct arguments *args, size_t filter, bool *chosen);
// Acts on the ids after the queue ("-": one in each line of standard input), and prints a line for
// each. Without ids, finds the messages of the filter, asks unless `yes`, and acts on them. Returns
// the exit status.
int choose(const struct choice *c, const struct arguments *args, size_t filter, bool yes);
