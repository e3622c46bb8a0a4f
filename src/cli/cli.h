// SPDX-License-Identifier: Apache-2.0
// What the commands share: the entry of the command table, the parsed command line, errors with
// their exit status. Beside it: text.h (durations, numbers, times), json.h, table.h, progress.h,
// screen.h (a live screen that is always put back).
//
// A command is one file cmd_<name>.c that defines one const struct command, listed in commands.h.
// Its options are a table: the parser, the help and the completion all read it.
#pragma once

#include <sluice.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PRINTF(text, first) __attribute__((format(printf, text, first)))
#define COUNT_OF(array)     (sizeof(array) / sizeof *(array))

#define EXIT_USAGE          2
#define EXIT_BROKEN_PIPE    141 // what a shell shows for SIGPIPE

struct cli {
    const char *store; // URL or path, never empty
    bool store_given;  // by --store: a suggested command repeats it
    bool json;
    bool quiet;
    bool color;                // standard output is a terminal and NO_COLOR is not set
    bool help;                 // the command's help is wanted; main answers that
    bool version;              // --version: main answers that too
    struct patience *patience; // says what is waited for; NULL: silent
    int64_t deadline_ms;       // when the command shall have ended; 0: no such end
    bool deadline_given;       // by --timeout
};

enum option_kind {
    OPTION_FLAG,     // given or not
    OPTION_TEXT,     // texts[0]
    OPTION_TEXTS,    // may be given many times
    OPTION_COUNT,    // number, min .. max
    OPTION_DURATION, // number, in ms, min .. max
    OPTION_MOMENT    // number, in ms since 1970
};

struct cli_option {
    const char *name;  // "visibility": --visibility
    char letter;       // 'c': -c too; 0: none
    const char *value; // what the help calls it, "D"; NULL for a flag
    enum option_kind kind;
    int64_t min; // COUNT, DURATION
    int64_t max; // 0: no limit but the type's
    const char *help;
};

struct cli_value {
    bool given;
    int64_t number;
    const char **texts; // as they were typed
    size_t texts_len;
};

struct arguments {
    const struct cli_value *options; // a row for each of the command's options, in its order
    size_t options_len;
    const char **words; // all that is no option
    size_t words_len;
    size_t words_before_dashes; // how many came before "--"; words_len when there is none
};

struct command {
    const char *name;    // "send", "queue create"
    const char *words;   // "QUEUE [BODY]", "QUEUE TOKEN..."; NULL: none
    const char *summary; // one line of the overview
    const char *details; // paragraphs of the help, lines under 80 columns; may be NULL
    const struct cli_option *options;
    size_t options_len;
    int (*run)(const struct cli *cli, const struct arguments *args); // answers the exit status
    bool brief; // makes a few requests: it has a deadline without --timeout too
};

// Answer the exit status. The usage error's field names the thing at fault ("--max", "BODY").
int cli_usage(const struct cli *cli, const char *field, const char *format, ...) PRINTF(3, 4);
int cli_fail(const struct cli *cli, const struct sluice_error *error);
int cli_fail_as(const struct cli *cli, enum sluice_code code, const char *field, const char *format,
                ...) PRINTF(4, 5);
// A remark for a person on standard error; nothing with --quiet or --json.
void cli_say(const struct cli *cli, const char *format, ...) PRINTF(2, 3);

// Opens cli->store. A directory that is not there is not made: its stand-in is empty. On failure
// the error was printed: return *status.
struct sluice *cli_open(const struct cli *cli, int *status);
// For what is to be kept: makes the directory, and the default one with its parents.
struct sluice *cli_open_making(const struct cli *cli, int *status);
// sluice_queues_status at all of them; cli_look_free frees it.
struct sluice_queue_status *cli_look(struct sluice *s, const struct sluice_names *names,
                                     unsigned what);
void cli_look_free(struct sluice_queue_status *seen, size_t len);
// "NAME does not exist; did you mean NAMES?", when the queue is what is missing, else cli_fail.
int cli_fail_queue(const struct cli *cli, struct sluice *s, const char *queue,
                   const struct sluice_error *error);
// The same for a send, which may well be the first: it also shows how to create the queue.
int cli_fail_unsent(const struct cli *cli, struct sluice *s, const char *queue,
                    const struct sluice_error *error);

// Asks on a terminal; --yes (given) answers. 0: go on; else the exit status, already explained.
int cli_confirm(const struct cli *cli, bool yes, const char *command, const char *question);
// Flushes standard output. False: it is gone or full; loops that print end then, cli_end says why.
bool cli_output_ok(void);
// The last word of a run: status, or what standard output's failure amounts to.
int cli_end(const struct cli *cli, int status);
// Random bytes for sluice_send and sluice_receive.
struct sluice_request cli_request(void);
// malloc and realloc that end the program with a sentence when there is no memory.
void *cli_alloc(size_t len);
void *cli_realloc(void *old, size_t len);
// Reads a file ("-": standard input) whole, up to max bytes; a zero follows them. NULL: the error
// was printed, return *status. what names it in the sentence ("BODY", "--config").
char *cli_read_all(const struct cli *cli, const char *path, const char *what, size_t max,
                   size_t *len, int *status);
