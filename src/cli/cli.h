// SPDX-License-Identifier: Apache-2.0
// What all commands share: the command table, the parsed command line, and errors with their exit
// status. Related headers: text.h (durations, numbers, times), json.h, table.h, progress.h,
// screen.h (a live screen).
//
// Each command is one file cmd_<name>.c. It defines one const struct command, which commands.h
// lists. A command's options are a table that the parser, the help and the completion read.
#pragma once

#include <sluice.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PRINTF(text, first) __attribute__((format(printf, text, first)))
#define COUNT_OF(array)     (sizeof(array) / sizeof *(array))

#define EXIT_USAGE          2
#define EXIT_BROKEN_PIPE    141 // the status that a shell shows for SIGPIPE

struct cli {
    const char *store; // URL or path, never empty
    bool store_given;  // with --store; a suggested command repeats the option
    bool json;
    bool quiet;
    bool color;                        // standard output is a terminal and NO_COLOR is not set
    bool help;                         // --help: main prints the command's help
    bool version;                      // --version: main prints the version
    struct answer_watch *answer_watch; // reports a store that does not answer; NULL: silent
    int64_t deadline_ms;               // time limit of the command; 0: none
    bool deadline_given;               // with --timeout
};

enum option_kind {
    OPTION_FLAG,     // given or not
    OPTION_TEXT,     // texts[0]
    OPTION_TEXTS,    // may be given many times
    OPTION_COUNT,    // number, from min to max
    OPTION_DURATION, // number in ms, from min to max
    OPTION_MOMENT    // number, in ms since 1970
};

struct cli_option {
    const char *name;  // "visibility" for --visibility
    char letter;       // 'c' for -c; 0: none
    const char *value; // placeholder in the help, such as "D"; NULL for a flag
    enum option_kind kind;
    int64_t min; // COUNT, DURATION
    int64_t max; // 0: only the limit of the type
    const char *help;
    // The fields of a call. The one of this name ("workflowLast" for --workflow-last) gives the
    // kind and the range. A min of the row is the higher one.
    const struct fields *of;
};
// A row: OPTION(DURATION, "interval", "D", "the pause between two pictures", .min = 100).
#define OPTION(kind_of, option, placeholder, ...)                                                  \
    {                                                                                              \
        .name = (option), .value = (placeholder), .kind = OPTION_##kind_of, .help = __VA_ARGS__    \
    }
// FLAG_OPTION("watch", 'w', "show it again and again"); without a letter: 0.
#define FLAG_OPTION(option, short_form, text)                                                      \
    {                                                                                              \
        .name = (option), .letter = (short_form), .help = (text)                                   \
    }
// A row whose field says the rest: OPTION_OF(send, "priority", "N", "0 to 9", .min = 1).
#define OPTION_OF(table, option, placeholder, ...)                                                 \
    {                                                                                              \
        .name = (option), .value = (placeholder), .of = &table##_fields, .help = __VA_ARGS__       \
    }
struct cli_option cli_option_of(const struct cli_option *o); // with what the field gives

struct cli_value {
    bool given;
    int64_t number;
    const char **texts; // as typed
    size_t texts_len;
};

static inline const char *option_text(const struct cli_value *v) // NULL: it is not given
{
    return v->given ? v->texts[0] : NULL;
}

struct arguments {
    const struct cli_value *options; // one row for each option of the command, in the same order
    size_t options_len;
    const char **words; // all arguments that are not options
    size_t words_len;
    size_t words_before_dashes; // words before "--"; words_len without "--"
};

// The options of a command: OPTIONS(rows), in its row.
#define OPTIONS(rows) .options = (rows), .options_len = COUNT_OF(rows)

struct command {
    const char *name;        // "QUEUE [BODY]", "QUEUE TOKEN..."; NULL: no words
    const char *words;       // "QUEUE [BODY]", "QUEUE TOKEN..."; NULL: none
    const char *summary;     // the line in the overview
    const char *details;     // paragraphs of the help, lines under 80 columns; may be NULL
    void (*more)(FILE *out); // prints what follows the details; may be NULL
    const struct cli_option *options;
    size_t options_len;
    int (*run)(const struct cli *cli, const struct arguments *args); // returns the exit status
    // Instead of run: the store is opened before and closed after it.
    int (*run_on)(const struct cli *cli, const struct arguments *args, struct sluice *s);
    bool brief; // makes only a few requests, so it has a default time limit
};

// These print an error and return the exit status. `field` of a usage error names the argument at
// fault ("--max", "BODY").
int cli_usage(const struct cli *cli, const char *field, const char *format, ...) PRINTF(3, 4);
int cli_fail(const struct cli *cli, const struct sluice_error *error);
int cli_fail_as(const struct cli *cli, enum sluice_code code, const char *field, const char *format,
                ...) PRINTF(4, 5);
// Prints a remark on standard error. Prints nothing with --quiet or --json.
void cli_say(const struct cli *cli, const char *format, ...) PRINTF(2, 3);

// Says how many messages of a queue a command has "purged" or "redriven"; the verb is the JSON key.
void cli_count(const struct cli *cli, const char *queue, const char *verb, uint64_t count);

// Opens cli->store. A missing directory reads as an empty store and is not created. On NULL the
// error is printed; return *status.
struct sluice *cli_open(const struct cli *cli, int *status);
// For commands that write: creates a missing directory. The default store's parents are created,
// too.
struct sluice *cli_open_making(const struct cli *cli, int *status);
// Calls sluice_queues_status for all names. Free the result with cli_status_free.
struct sluice_queue_status *cli_status(struct sluice *s, const struct sluice_names *names,
                                       unsigned what);
void cli_status_free(struct sluice_queue_status *seen, size_t len);
// If the queue is missing, prints "NAME does not exist; did you mean NAMES?". Otherwise like
// cli_fail.
int cli_fail_queue(const struct cli *cli, struct sluice *s, const char *queue,
                   const struct sluice_error *error);
// Like cli_fail_queue for a send, which may be the first use of a queue: also shows how to create
// the queue.
int cli_fail_unsent(const struct cli *cli, struct sluice *s, const char *queue,
                    const struct sluice_error *error);

// Asks for confirmation on a terminal; `yes` (from --yes) confirms. Returns 0 to continue, else the
// exit status after printing the reason.
int cli_confirm(const struct cli *cli, bool yes, const char *command, const char *question);
// The same for another warning: "redrive sends messages again, 3 of tasks".
int cli_confirm_as(const struct cli *cli, bool yes, const char *warning, const char *question);
// Flushes standard output. On false, it is closed or full. A loop that prints must then end, and
// cli_end reports the reason.
bool cli_output_ok(void);
// Returns the exit status of a run: `status`, or the status for a failed standard output.
int cli_end(const struct cli *cli, int status);
// Makes a random request id for sluice_send and sluice_receive.
struct sluice_request cli_request(void);
// malloc and realloc that end the program with a message if no memory is left.
void *cli_alloc(size_t len);
void *cli_realloc(void *old, size_t len);
// Reads a whole file ("-" is standard input) of up to max bytes and appends a zero. `what` names
// the argument in an error ("BODY", "--config"). On NULL the error is printed; return *status.
char *cli_read_all(const struct cli *cli, const char *path, const char *what, size_t max,
                   size_t *len, int *status);
// The value of an option: a text, or @FILE with it ("@-" is standard input), of up to max bytes,
// and a zero. The caller frees it. On NULL the error is printed; return *status.
char *cli_read_text(const struct cli *cli, const char *text, const char *what, size_t max,
                    size_t *len, int *status);
