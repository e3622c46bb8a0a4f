// SPDX-License-Identifier: Apache-2.0
// import: copies the messages of another queue.
#include "cli/commands.h"
#include "cli/import.h"
#include "cli/text.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

enum { STATE, KEEP, RECORD, UNSURE };

static const struct cli_option options[] = {
    [STATE] = OPTION(TEXT, "state", "STATES",
                     "which jobs of a tube: ready, delayed, buried, several of\n"
                     "them with commas, or all; ready,delayed by default"),
    [KEEP] = FLAG_OPTION("keep", 0, "delete nothing at the source"),
    [RECORD] = OPTION(TEXT, "record", "FILE",
                      "where the import writes what it has done, to go on after\n"
                      "an interruption; by default a file of its own in\n"
                      "~/.local/state/sluice"),
    [UNSURE] = OPTION(TEXT, "unsure", "WHAT",
                      "send or skip what an interrupted run may have sent, if\n"
                      "the queue cannot tell any more"),
};

static void print_json(const struct import_run *run, uint64_t in_queue, int64_t elapsed,
                       struct json *left)
{
    struct json *o = json_new();
    const struct resume *r = &run->record;
    json_text(o, "queue", run->sending.queue);
    json_text(o, "source", run->source);
    json_number(o, "imported", (int64_t)(r->sent + r->known));
    json_number(o, "sent", (int64_t)r->sent);
    json_number(o, "alreadyThere", (int64_t)r->known);
    json_number(o, "runs", (int64_t)r->runs);
    json_number(o, "copiedNow", (int64_t)(r->sent + r->known - run->earlier));
    json_number(o, "deletedNow", (int64_t)run->deleted);
    json_number(o, "takenByOthers", (int64_t)run->taken);
    json_number(o, "queueGrewBy", (int64_t)in_queue);
    if (left) json_take(o, "left", left);
    json_number(o, "elapsedMs", elapsed);
    json_print(o, stdout);
}

static void print_plain(const struct import_run *run, uint64_t in_queue, int64_t elapsed)
{
    const struct cli *cli = run->sending.cli;
    const struct resume *r = &run->record;
    char count[TEXT_MAX], time[TEXT_MAX], rate[TEXT_MAX], grew[TEXT_MAX];
    uint64_t now = r->sent + r->known - run->earlier;
    uint64_t per_second = now * 1000 / (uint64_t)(elapsed > 0 ? elapsed : 1);
    cli_say(cli, "imported %s %s%s to %s in %s, %s/s", number_text(now, count), run->noun,
            now == 1 ? "" : "s", run->sending.queue, duration_text(elapsed, time),
            number_text(per_second, rate));
    if (run->earlier || r->known)
        cli_say(cli, "all %llu runs together: %s %ss, of which %llu were in the queue already",
                (unsigned long long)r->runs, number_text(r->sent + r->known, count), run->noun,
                (unsigned long long)r->known);
    cli_say(cli, "verified: the queue counts %s new messages since the import began",
            number_text(in_queue, grew));
}

int import_report(struct import_run *run, struct json *left)
{
    struct sluice_stats now;
    struct sluice_error error = {0};
    struct send_input *to = &run->sending;
    const struct resume *r = &run->record;
    int64_t elapsed = progress_elapsed_ms(&run->progress);
    if (sluice_stats(to->s, to->queue, &now, &error) != SLUICE_OK) {
        json_free(left);
        return cli_fail_queue(to->cli, to->s, to->queue, &error);
    }
    uint64_t in_queue = now.sent - r->base;
    if (to->cli->json)
        print_json(run, in_queue, elapsed, left);
    else
        print_plain(run, in_queue, elapsed);
    if (!to->cli->json) json_free(left);
    if (in_queue < r->sent)
        return cli_fail_as(to->cli, SLUICE_CORRUPT, "queue",
                           "the queue counts %llu new messages, fewer than the %llu that were sent",
                           (unsigned long long)in_queue, (unsigned long long)r->sent);
    if (run->taken)
        return cli_fail_as(to->cli, SLUICE_CONFLICT, "SOURCE",
                           "another client took %llu of the %ss while they were copied: they are "
                           "in the queue, too",
                           (unsigned long long)run->taken, run->noun);
    return 0;
}

static int read_unsure(const struct cli *cli, const struct cli_value *given,
                       enum import_unsure *out)
{
    *out = UNSURE_ASK;
    if (!given->given) return 0;
    *out = strcmp(given->texts[0], "send") == 0 ? UNSURE_SEND : UNSURE_SKIP;
    if (*out == UNSURE_SEND || strcmp(given->texts[0], "skip") == 0) return 0;
    return cli_usage(cli, "--unsure", "--unsure \"%.80s\" is not one of send, skip",
                     given->texts[0]);
}

static int read_states(const struct cli *cli, const struct cli_value *given, unsigned *out)
{
    *out = given->given ? jobs_states(given->texts[0]) : JOBS_DEFAULT;
    if (*out) return 0;
    return cli_usage(cli, "--state", "--state \"%.80s\" is not one of ready, delayed, buried, all",
                     given->texts[0]);
}

// Opens the store, and copies from the source that the URL or path names.
static int import_from(struct import_run *run, const struct tube_place *place, unsigned states)
{
    struct cli own = *run->sending.cli;
    int status = 0;
    own.deadline_ms = 0; // an import has no time limit
    run->sending.s = cli_open(&own, &status);
    if (!run->sending.s) return status;
    status = import_queue(run);
    progress_begin(&run->progress, run->sending.cli, "imported", "messages");
    if (status == 0)
        status = place ? import_tube(run, place, states) : import_file(run, run->source);
    progress_end(&run->progress);
    import_record_close(run);
    sluice_close(run->sending.s);
    return status;
}

static int run_import(const struct cli *cli, const struct arguments *args)
{
    const struct cli_value *o = args->options;
    struct import_run run = {.sending = {.cli = cli, .queue = args->words[0]},
                             .keep = o[KEEP].given,
                             .record_path = option_text(&o[RECORD]),
                             .source = args->words[1],
                             .fd = -1};
    struct tube_place place;
    unsigned states;
    char why[400] = "";
    int status = read_states(cli, &o[STATE], &states);
    if (status == 0) status = read_unsure(cli, &o[UNSURE], &run.unsure);
    if (status) return status;
    if (strlen(run.source) > RESUME_SOURCE_MAX || !text_is_plain(run.source))
        return cli_usage(cli, "SOURCE", "SOURCE is not a URL or a path of up to %d bytes",
                         RESUME_SOURCE_MAX);
    bool is_url = strstr(run.source, "://") != NULL;
    if (is_url && !tube_place_read(run.source, &place, why, sizeof why))
        return cli_usage(cli, "SOURCE", "%s", why);
    if (!is_url && o[STATE].given)
        return cli_usage(cli, "--state", "--state is for a tube of beanstalkd, not for a file");
    return import_from(&run, is_url ? &place : NULL, states);
}

const struct command command_import = {
    .name = "import",
    .words = "QUEUE SOURCE",
    .summary = "Copies messages from beanstalkd or from a file of JSON lines",
    .details = "SOURCE is beanstalkd://HOST:PORT/TUBE, or a file with one JSON object per line.\n"
               "A job is deleted in beanstalkd when its message is durable. Priority and delay\n"
               "are kept as far as a queue has them. Jobs that workers hold are reported, not\n"
               "copied. If the command is interrupted, even with kill -9, repeat it: it goes on,\n"
               "and no message comes twice. docs/migration.md has the details.\n"
               "JSON keys: queue, source, imported, sent, alreadyThere, runs, copiedNow,\n"
               "deletedNow, takenByOthers, queueGrewBy, left, elapsedMs.",
    OPTIONS(options),
    .run = run_import,
};
