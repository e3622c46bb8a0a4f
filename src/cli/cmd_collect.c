// SPDX-License-Identifier: Apache-2.0
// collect: waits for the outcomes of several messages, and prints them.
#include "cli/answer_watch.h"
#include "cli/choose.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/signal_print.h"
#include "cli/table.h"
#include "cli/text.h"
#include "os/clock.h"
#include "protocol/routes.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

#define EXIT_SOME    1
#define EXIT_NONE    11
#define SLICE_MS     1000 // so that the progress moves
#define DAY_MS       (INT64_C(24) * 3600 * 1000)
#define MISSING_SHOW 20 // ids in the remark for people

enum { WORKFLOW, TIMEOUT, STREAM, ANY, RUNNING, ASK, FROM };

static const struct cli_option options[] = {
    [WORKFLOW] = OPTION_OF(collect, "workflow", "W", "the messages of a workflow, not IDs"),
    [TIMEOUT] = OPTION(DURATION, "timeout", "D", "how long to wait; default: until all have ended",
                       .max = 7 * DAY_MS),
    [STREAM] = FLAG_OPTION("stream", 0, "print each outcome as it comes"),
    [ANY] = FLAG_OPTION("any", 0, "end with the first message that was processed"),
    [RUNNING] =
        OPTION_OF(collect, "running", NULL, "ask the running jobs, and print their answers, too"),
    [ASK] = OPTION_OF(collect, "ask", "TEXT", "the question of --running"),
    [FROM] = OPTION(TEXT, "from", "POS", "continue an earlier collect at its position"),
};

struct collect_command {
    const struct cli *cli;
    struct sluice *s;
    const char *queue;
    FILE *out; // standard output, or a buffer until all is known
    uint64_t processed, failed, unknown, answers;
    int64_t timeout_ms; // 0: no limit
    uint64_t forgotten; // messages of the workflow whose ids are not known any more
};

static void print_text(FILE *out, const void *text, size_t len)
{
    char *safe = safe_text(text ? text : "", len, 0);
    if (*safe) (void)fprintf(out, "  %s", safe);
    free(safe);
}

static void print_outcome(const struct collect_command *c, const struct sluice_message *m)
{
    if (c->cli->json) {
        struct json *o = json_message(c->queue, m);
        json_print(o, c->out);
        return;
    }
    (void)fprintf(c->out, "%s  %s", m->id, m->state);
    if (m->result_len > 0)
        print_text(c->out, m->result, m->result_len);
    else if (m->reason && *m->reason)
        print_text(c->out, m->reason, strlen(m->reason));
    else if (m->failures_len > 0 && m->failures[m->failures_len - 1].reason)
        print_text(c->out, m->failures[m->failures_len - 1].reason,
                   strlen(m->failures[m->failures_len - 1].reason));
    (void)fputc('\n', c->out);
}

static void print_answer(const struct collect_command *c, const struct sluice_signal_state *row)
{
    if (c->cli->json) {
        json_print(signal_json(c->queue, row), c->out);
        return;
    }
    (void)fprintf(c->out, "%s  running  %s", row->message, row->state);
    print_text(c->out, row->answer, row->answer_len);
    (void)fputc('\n', c->out);
}

static void print_unknown(const struct collect_command *c, const char *id)
{
    if (c->cli->json) {
        struct json *o = json_new();
        json_text(o, "id", id);
        json_text(o, "queue", c->queue);
        json_text(o, "state", "unknown");
        json_print(o, c->out);
        return;
    }
    (void)fprintf(c->out, "%s  unknown  no such message was sent\n", id);
}

// Returns true if the message was processed.
static bool take(struct collect_command *c, const struct sluice_collected *one)
{
    if (strcmp(one->kind, "answer") == 0) {
        c->answers++;
        print_answer(c, &one->answer);
        return false;
    }
    if (strcmp(one->kind, "unknown") == 0) {
        c->unknown++;
        print_unknown(c, one->message.id);
        return false;
    }
    bool processed = strcmp(one->message.state, "processed") == 0 ||
                     strcmp(one->message.state, "finished") == 0; // how is not known any more
    *(processed ? &c->processed : &c->failed) += 1;
    print_outcome(c, &one->message);
    return processed;
}

// "2 of 3 processed, 1 failed", or "1 of 3 ended in 5s; still open:".
static void say_counts(const struct collect_command *c, size_t missing)
{
    uint64_t ended = c->processed + c->failed + c->unknown;
    char some[TEXT_MAX], all[TEXT_MAX], failed[TEXT_MAX], unknown[TEXT_MAX], time[TEXT_MAX];
    (void)number_text(missing > 0 ? ended : c->processed, some);
    (void)number_text(ended + missing, all);
    if (missing > 0) {
        bool limited = c->timeout_ms > 0;
        cli_say(c->cli, "%s of %s ended%s%s; still open:", some, all, limited ? " in " : "",
                limited ? duration_text(c->timeout_ms, time) : "");
        return;
    }
    cli_say(c->cli, "%s of %s processed%s%s%s%s%s%s", some, all, c->failed > 0 ? ", " : "",
            c->failed > 0 ? number_text(c->failed, failed) : "", c->failed > 0 ? " failed" : "",
            c->unknown > 0 ? ", " : "", c->unknown > 0 ? number_text(c->unknown, unknown) : "",
            c->unknown > 0 ? " unknown" : "");
}

static void print_missing(const struct collect_command *c, struct sluice_collector *col)
{
    const char *const *ids;
    size_t len = sluice_collect_missing(col, &ids);
    if (c->cli->json) {
        struct json *o = json_new(), *list = json_list_new();
        json_text(o, "queue", c->queue);
        json_number(o, "processed", (int64_t)c->processed);
        json_number(o, "failed", (int64_t)c->failed);
        json_number(o, "unknown", (int64_t)c->unknown);
        for (size_t i = 0; i < len; i++)
            json_list_text(list, ids[i]);
        json_take(o, "missing", list);
        json_text(o, "position", sluice_collect_position(col));
        json_print(o, c->out);
        return;
    }
    say_counts(c, len);
    for (size_t i = 0; i < len && i < MISSING_SHOW; i++)
        cli_say(c->cli, "  %s", ids[i]);
    if (len > MISSING_SHOW) cli_say(c->cli, "  ... (--json lists all)");
}

static int status_of(const struct collect_command *c, struct sluice_collector *col, bool any)
{
    const char *const *ids;
    size_t missing = sluice_collect_missing(col, &ids);
    if (c->processed == 0) return EXIT_NONE;
    return any || (missing == 0 && c->failed == 0 && c->unknown == 0) ? 0 : EXIT_SOME;
}

static int collect_all(struct collect_command *c, struct sluice_collector *col,
                       const struct cli_value *o)
{
    struct sluice_error error = {0};
    struct progress p;
    int64_t end = o[TIMEOUT].given ? clock_boot_ms() + o[TIMEOUT].number : INT64_MAX;
    const char *const *ids;
    size_t whole = sluice_collect_missing(col, &ids);
    progress_begin(&p, c->cli, "collected", "messages");
    p.shown = p.shown && p.terminal; // a wait can be long, and a log needs only its end
    for (;;) {
        const struct sluice_collected *one = NULL;
        error = (struct sluice_error){0};
        int64_t left = end - clock_boot_ms();
        answer_watch_start(c->cli, 0); // each call ends within a second
        enum sluice_code code = sluice_collect_next(
            col, left < SLICE_MS ? (left > 0 ? left : 0) : SLICE_MS, &one, &error);
        // NOT_FOUND: nothing came in this time, unless it is about the queue.
        bool waits = code == SLUICE_NOT_FOUND && strcmp(error.field, "queue") != 0;
        if (code != SLUICE_OK && !waits) {
            progress_end(&p);
            return cli_fail_queue(c->cli, c->s, c->queue, &error);
        }
        if (code == SLUICE_OK && !one) break; // all have come
        if (one && o[STREAM].given) progress_end(&p);
        bool processed = one && take(c, one);
        if (one && o[STREAM].given && !cli_output_ok()) break;
        uint64_t came = c->processed + c->failed + c->unknown;
        progress_move(&p, came, came, whole);
        if (processed && o[ANY].given) break;
        if (!one && clock_boot_ms() >= end) break;
    }
    progress_end(&p);
    return 0;
}

// Messages of a workflow that ended before the time of retention are counted. `whole`: how many are
// known.
static void count_forgotten(struct collect_command *c, const char *workflow, size_t whole)
{
    struct sluice_workflow w;
    size_t len = 0;
    if (sluice_workflow_show(c->s, c->queue, workflow, &w, NULL, 0, &len, NULL) != SLUICE_OK)
        return;
    uint64_t sent = w.open + w.done + w.failed + w.cancelled;
    if (sent <= whole) return;
    c->forgotten = sent - whole;
    uint64_t done = w.done > c->processed ? w.done - c->processed : 0;
    if (done > c->forgotten) done = c->forgotten;
    c->processed += done;
    c->failed += c->forgotten - done;
}

static void say_forgotten(const struct collect_command *c, const char *workflow)
{
    char count[TEXT_MAX];
    if (c->forgotten > 0)
        cli_say(c->cli,
                "%s message%s of workflow %s ended before, and how is not kept any more: sluice "
                "workflow show %s %s",
                number_text(c->forgotten, count), c->forgotten == 1 ? "" : "s", workflow, c->queue,
                workflow);
}

// Standard input gives ids, one in a line.
static int read_ids(const struct cli *cli, const struct arguments *args, struct id_list *ids)
{
    bool workflow = args->options[WORKFLOW].given;
    if (workflow && args->words_len > 1)
        return cli_usage(cli, "ID", "ID and --workflow exclude each other: give one of them");
    if (!workflow && args->words_len == 1)
        return cli_usage(cli, "ID", "ID is missing: give ids, - for standard input, or --workflow");
    return workflow ? 0 : id_list_read(cli, "ID", args->words + 1, args->words_len - 1, ids);
}

static int run_collect(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    const struct cli_value *o = args->options;
    struct collect_command c = {.cli = cli, .s = s, .queue = args->words[0], .out = stdout};
    if (o[TIMEOUT].given) c.timeout_ms = o[TIMEOUT].number;
    struct id_list ids = {0};
    struct sluice_error error = {0};
    struct sluice_collector *col = NULL;
    char *text = NULL;
    size_t text_len = 0;
    if (o[ASK].given && !o[RUNNING].given)
        return cli_usage(cli, "--ask", "--ask needs --running: it asks the running jobs");
    int status = read_ids(cli, args, &ids);
    struct sluice_collect what = {.ids = ids.rows,
                                  .ids_len = ids.len,
                                  .workflow = option_text(&o[WORKFLOW]),
                                  .position = option_text(&o[FROM]),
                                  .running = o[RUNNING].given,
                                  .ask = option_text(&o[ASK])};
    if (status == 0 && sluice_collect_open(s, c.queue, &what, &col, &error) != SLUICE_OK)
        status = cli_fail_queue(cli, s, c.queue, &error);
    if (col) {
        const char *const *missing;
        size_t whole = sluice_collect_missing(col, &missing);
        if (!o[STREAM].given) c.out = open_memstream(&text, &text_len);
        if (!c.out) c.out = stdout;
        status = collect_all(&c, col, o);
        if (what.workflow) count_forgotten(&c, what.workflow, whole);
        if (status == 0 && cli->json) print_missing(&c, col);
        if (c.out != stdout) (void)fclose(c.out);
        if (text) (void)fwrite(text, 1, text_len, stdout);
        (void)fflush(stdout); // the remarks follow
        if (status == 0 && !cli->json) print_missing(&c, col);
        if (what.workflow) say_forgotten(&c, what.workflow);
        if (status == 0) status = status_of(&c, col, o[ANY].given);
    }
    free(text);
    sluice_collect_close(col);
    id_list_done(&ids);
    return status;
}

const struct command command_collect = {
    .name = "collect",
    .words = "QUEUE [ID]...",
    .summary = "Waits for the outcomes and results of messages",
    .details =
        "It changes nothing: begin it before or after the messages end, and repeat it.\n"
        "ID - reads ids from standard input, one in a line. With --running it asks the\n"
        "jobs that run now, and prints their answers.\n"
        "\n"
        "  exit status   0    every message was processed (--any: one was)\n"
        "                1    some were processed; others failed or are missing\n"
        "                11   none was processed\n"
        "\n"
        "JSON keys: those of \"show\" for an outcome, those of \"signal\" for an answer. The\n"
        "last line has queue, processed, failed, unknown, missing, position.",
    OPTIONS(options),
    .run_on = run_collect,
};
