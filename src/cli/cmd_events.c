// SPDX-License-Identifier: Apache-2.0
// events: prints what happened to a queue, in the order of its journal.
#include "cli/answer_watch.h"
#include "cli/commands.h"
#include "cli/events_bus.h"
#include "cli/screen.h"
#include "cli/table.h"
#include "cli/text.h"
#include "protocol/routes.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

#define SLICE_MS     250 // the longest delay until a signal is noticed
#define TYPE_COLUMNS 21  // as wide as most type names

enum { FOLLOW, FROM, BUS, TYPE, WORKFLOW, TASK, POSITION };

static const struct cli_option options[] = {
    [FOLLOW] = FLAG_OPTION("follow", 'f', "continue with new events until stopped"),
    [FROM] = OPTION(TEXT, "from", "POS",
                    "start at this position of the journal, or \"now\" for new\n"
                    "events only; default: the oldest that is kept"),
    [BUS] = OPTION(TEXT, "bus", "URL",
                   "read from a bus, such as nats://host:4222, instead of\n"
                   "the journal; several queues are possible"),
    [TYPE] = OPTION(TEXT, "type", "TYPE", "with --bus: only events of this type"),
    [WORKFLOW] = OPTION(TEXT, "workflow", "ID", "with --bus: only events of this workflow"),
    [TASK] = OPTION(TEXT, "task", "ID", "with --bus: only events of this message"),
    [POSITION] = OPTION(TEXT, "position", "FILE",
                        "with --bus: continue where FILE says, and keep it current"),
};

static void put_origin(FILE *out, const struct sluice_origin *from)
{
    (void)fprintf(out, "  from %s in %s%s%s", from->id, from->queue, *from->reason ? ": " : "",
                  from->reason);
}

// Workers choose the texts freely, so the whole line is escaped.
static void event_print(const struct sluice_event *e)
{
    char time[TEXT_MAX], until[TEXT_MAX], *line = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&line, &len);
    if (!out) return;
    (void)fprintf(out, "%8llu  %s  %-*s  %s", (unsigned long long)e->position,
                  moment_text(e->time, time), TYPE_COLUMNS, e->type,
                  *e->message ? e->message : "-");
    if (*e->status) (void)fprintf(out, "  %s", e->status);
    if (*e->reason) (void)fprintf(out, "  %s", e->reason);
    if (e->attempt) (void)fprintf(out, "  attempt %u", e->attempt);
    if (*e->worker) (void)fprintf(out, "  by %s", e->worker);
    if (e->until)
        (void)fprintf(out, "  until %s", moment_text(e->until, until) + strlen("2030-01-31 "));
    if (*e->signal)
        (void)fprintf(out, "  %s %llu  signal %s", e->signal_kind, (unsigned long long)e->count,
                      e->signal);
    else if (e->count)
        (void)fprintf(out, "  count %llu", (unsigned long long)e->count);
    if (e->order) (void)fprintf(out, "  order %llu", (unsigned long long)e->order);
    if (*e->from.queue) put_origin(out, &e->from);
    (void)fclose(out);
    char *safe = safe_text(line, len, 0);
    (void)printf("%s\n", safe);
    free(safe);
    free(line);
}

// Skips all existing events.
static enum sluice_code skip_old(struct sluice_events *events, struct sluice_error *error)
{
    struct sluice_event e;
    enum sluice_code code = SLUICE_OK;
    while (code == SLUICE_OK && !stop_requested())
        code = sluice_events_next(events, 0, &e, error);
    return code == SLUICE_NOT_FOUND ? SLUICE_OK : code;
}

static int print_events(const struct cli *cli, struct sluice *s, const char *queue,
                        struct sluice_events *events, bool follow, bool now)
{
    struct sluice_error error = {0};
    enum sluice_code code = now ? skip_old(events, &error) : SLUICE_OK;
    bool live = false; // old events are printed; from here on each line is flushed
    while (code == SLUICE_OK && !stop_requested()) {
        struct sluice_event e;
        code = sluice_events_next(events, live ? SLICE_MS : 0, &e, &error);
        if (code == SLUICE_NOT_FOUND) {
            answer_watch_stop(cli);
            if (!cli_output_ok() || !follow) return 0;
            live = true;
            code = SLUICE_OK;
            continue;
        }
        if (code != SLUICE_OK) break;
        if (!live) answer_watch_start(cli, 0);
        if (cli->json)
            json_print(json_event(queue, &e), stdout);
        else
            event_print(&e);
        if (ferror(stdout)) return 0;
    }
    return code == SLUICE_OK ? 0 : cli_fail_queue(cli, s, queue, &error);
}

// Returns the next position of a queue with one shard. The caller reads it before it opens the
// stream, so events that happen in between are not missed. Positions of several shards are not
// comparable.
static bool position_now(struct sluice *s, const char *queue, int64_t *position)
{
    struct sluice_queue_info *info = NULL;
    struct sluice_stats stats;
    bool single = false;
    if (sluice_queue_show(s, queue, &info, NULL) != SLUICE_OK) return false;
    for (size_t i = 0; i < info->settings_len; i++)
        if (strcmp(info->settings[i].key, "shards") == 0)
            single = strcmp(info->settings[i].value, "1") == 0;
    sluice_queue_info_free(info);
    if (!single || sluice_stats(s, queue, &stats, NULL) != SLUICE_OK) return false;
    *position = (int64_t)stats.entries + 1;
    return true;
}

static int run_bus(const struct cli *cli, const struct arguments *args)
{
    const char *from = option_text(&args->options[FROM]);
    struct events_bus b = {.url = option_text(&args->options[BUS]),
                           .options = {.queues = args->words,
                                       .queues_len = args->words_len,
                                       .type = option_text(&args->options[TYPE]),
                                       .workflow = option_text(&args->options[WORKFLOW]),
                                       .task = option_text(&args->options[TASK]),
                                       .from_now = from != NULL},
                           .position_file = option_text(&args->options[POSITION]),
                           .follow = args->options[FOLLOW].given};
    if (from && strcmp(from, "now") != 0)
        return cli_usage(
            cli, "--from",
            "--from \"%.60s\" is no place on a bus: use --from now, or --position FILE", from);
    return events_bus_print(cli, &b);
}

// Refuses what only a bus can do.
static int check_journal(const struct cli *cli, const struct arguments *args)
{
    for (int i = TYPE; i <= POSITION; i++) {
        char name[32];
        if (!args->options[i].given) continue;
        (void)snprintf(name, sizeof name, "--%s", options[i].name);
        return cli_usage(cli, name, "%s needs --bus URL: the journal has no such choice", name);
    }
    if (args->words_len > 1)
        return cli_usage(cli, "QUEUE",
                         "unexpected argument \"%.60s\": the events of several queues need --bus",
                         args->words[1]);
    return 0;
}

static int run_events(const struct cli *cli, const struct arguments *args)
{
    if (args->options[BUS].given) return run_bus(cli, args);
    int wrong = check_journal(cli, args);
    if (wrong) return wrong;
    const char *queue = args->words[0];
    const struct cli_value *from = &args->options[FROM];
    bool follow = args->options[FOLLOW].given;
    bool now = from->given && strcmp(from->texts[0], "now") == 0;
    int64_t position = 0;
    int status = 0;
    if (from->given && !now && !text_to_number(from->texts[0], &position))
        return cli_usage(cli, "--from", "--from \"%.60s\" is not a position: a whole number or now",
                         from->texts[0]);
    struct sluice *s = cli_open(cli, &status);
    if (!s) return status;
    struct sluice_events *events = NULL;
    struct sluice_error error = {0};
    if (follow) stop_on_signals();
    bool skips = now && !position_now(s, queue, &position);
    if (sluice_events_open(s, queue, (uint64_t)position, &events, &error) != SLUICE_OK)
        status = cli_fail_queue(cli, s, queue, &error);
    else
        status = print_events(cli, s, queue, events, follow, skips);
    sluice_events_close(events);
    sluice_close(s);
    return status;
}

const struct command command_events = {
    .name = "events",
    .words = "QUEUE...",
    .summary = "Prints the events of a queue, or follows them",
    .details = "Events are kept as long as the journal's entries, at least an hour. To continue\n"
               "after an interruption, give --from the last position plus one. A position can\n"
               "hold several events, each with an id that never changes. If the queue is\n"
               "deleted, --follow ends with status 5.\n"
               "JSON keys: id, type, queue, message, attempt, time, position, shard, and if\n"
               "they apply status, reason, worker, fence, until, count, order, from, sequence,\n"
               "workflow, orderingKey, signal (its id), signalKind.\n"
               "With --bus, each event comes once and in order, and a line is its envelope\n"
               "(docs/events.md), or has the key gap or refused.",
    OPTIONS(options),
    .run = run_events,
};
