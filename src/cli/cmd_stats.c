// SPDX-License-Identifier: Apache-2.0
// stats: counts messages by state, once or on a live screen.
#include "cli/commands.h"
#include "cli/stats_watch.h"
#include "cli/store.h"
#include "cli/table.h"
#include "cli/text.h"
#include "protocol/routes.h"
#include "json/json.h"

#include <stdlib.h>

#define FIELD_WIDTH 14
#define STATS_SHOWN 6 // fields of the statistics in JSON: ready to oldestAgeMs

enum { WATCH, INTERVAL, PRICE };

static const struct cli_option options[] = {
    [WATCH] = FLAG_OPTION("watch", 'w', "show a live screen; q or Ctrl-C ends it"),
    [INTERVAL] = OPTION(DURATION, "interval", "D", "interval of --watch; default 1s", .min = 100,
                        .max = 3600 * 1000),
    [PRICE] = OPTION(TEXT, "price", "LIST",
                     "dollars per 1,000 requests (and GB-month):\n"
                     "put=0.005,get=0.0004,storage=0.023;\n"
                     "default: $SLUICE_PRICES, else S3 Standard"),
};

void stats_json_print(const char *queue, const struct sluice_stats *v, const struct prices *prices)
{
    struct json *o = json_new(), *cost = cost_json(v, prices);
    json_text(o, "queue", queue);
    fields_put(o, &(struct fields){stats_answer.rows, STATS_SHOWN}, v);
    json_number(o, "workers", (int64_t)v->workers);
    json_number(o, "waiting", (int64_t)v->waiting);
    json_number(o, "cancelled", (int64_t)v->cancelled);
    json_number(o, "signals", (int64_t)v->signals);
    json_number(o, "results", (int64_t)v->results);
    json_number(o, "resultBytes", (int64_t)v->result_bytes);
    json_number(o, "bodies", (int64_t)v->bodies);
    json_bool(o, "paused", v->paused);
    json_bool(o, "takesDeadLetters", v->takes_letters);
    if (cost) json_take(o, "cost", cost);
    json_print(o, stdout);
}

const char *stats_remark(const struct sluice_stats *v, bool paused)
{
    bool wants_workers = v->ready > 0 && !paused && !v->takes_letters;
    bool idle = wants_workers && v->workers == 0 && v->waiting == 0;
    return idle ? "no worker gets the ready messages" : "";
}

static void print_one(const char *queue, bool paused, const struct sluice_stats *v,
                      const struct prices *prices)
{
    char text[TEXT_MAX];
    (void)printf("%-*s  %12s\n", FIELD_WIDTH, "queue", queue);
    if (paused)
        (void)printf("%-*s  %12s  delivers nothing; resume it with: sluice queue resume\n",
                     FIELD_WIDTH, "state", "paused");
    count_print(FIELD_WIDTH, "ready", v->ready,
                v->ready && v->takes_letters ? "dead letters; \"sluice redrive\" sends them again"
                                             : "");
    count_print(FIELD_WIDTH, "locked", v->locked, "");
    count_print(FIELD_WIDTH, "delayed", v->delayed, "");
    count_print(FIELD_WIDTH, "processed", v->processed, "");
    count_print(FIELD_WIDTH, "dead", v->dead, v->dead ? "\"sluice redrive\" sends them again" : "");
    if (v->outbound)
        count_print(FIELD_WIDTH, "outbound", v->outbound, "on the way to the dead-letter queue");
    if (v->moved)
        count_print(FIELD_WIDTH, "dead-lettered", v->moved, "moved to the dead-letter queue");
    if (v->redriven) count_print(FIELD_WIDTH, "redriven", v->redriven, "");
    if (v->purged) count_print(FIELD_WIDTH, "purged", v->purged, "");
    if (v->cancelled) count_print(FIELD_WIDTH, "cancelled", v->cancelled, "");
    count_print(FIELD_WIDTH, "sent", v->sent, "sum of the above");
    if (v->duplicates)
        count_print(FIELD_WIDTH, "duplicates", v->duplicates, "not sent: the dedup key was known");
    if (v->signals) count_print(FIELD_WIDTH, "signals", v->signals, "pending");
    if (v->results) {
        char kept[TEXT_MAX], remark[TEXT_MAX + 8];
        (void)snprintf(remark, sizeof remark, "kept, %s", bytes_text(v->result_bytes, kept));
        count_print(FIELD_WIDTH, "results", v->results, remark);
    }
    if (v->bodies) count_print(FIELD_WIDTH, "bodies", v->bodies, "of finished messages, kept");
    count_print(FIELD_WIDTH, "workers", v->workers, "");
    count_print(FIELD_WIDTH, "waiting", v->waiting, stats_remark(v, paused));
    (void)printf("%-*s  %12s\n", FIELD_WIDTH, "oldest",
                 v->oldest_age_ms ? duration_text(v->oldest_age_ms, text) : "-");
    cost_print(stdout, FIELD_WIDTH, v, prices);
}

static int print_queue(const struct cli *cli, struct sluice *s, const char *queue,
                       const struct prices *prices)
{
    char *name = (char *)(uintptr_t)queue;
    int status = 0;
    struct sluice_names names = {.names = &name, .len = 1};
    struct sluice_queue_status *seen =
        cli_status(s, &names, SLUICE_STATUS_INFO | SLUICE_STATUS_STATS);
    if (seen->error.code != SLUICE_OK)
        status = cli_fail_queue(cli, s, queue, &seen->error);
    else if (cli->json)
        stats_json_print(queue, &seen->stats, prices);
    else
        print_one(queue, seen->info && seen->info->paused, &seen->stats, prices);
    cli_status_free(seen, 1);
    return status;
}

static bool any_cancelled(const struct sluice_queue_status *seen, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (seen[i].error.code == SLUICE_OK && seen[i].stats.cancelled > 0) return true;
    return false;
}

static int print_all(const struct cli *cli, struct sluice *s, const struct sluice_names *names,
                     const struct prices *prices)
{
    static const char *const with[] = {"QUEUE", ">READY",     ">LOCKED", ">DELAYED", ">PROCESSED",
                                       ">DEAD", ">CANCELLED", ">OLDEST", "STATE"};
    static const char *const without[] = {"QUEUE",      ">READY", ">LOCKED", ">DELAYED",
                                          ">PROCESSED", ">DEAD",  ">OLDEST", "STATE"};
    int status = 0;
    struct sluice_queue_status *seen =
        cli_status(s, names, SLUICE_STATUS_INFO | SLUICE_STATUS_STATS);
    bool cancelled = any_cancelled(seen, names->len);
    struct table *t =
        cancelled ? table_new(with, COUNT_OF(with)) : table_new(without, COUNT_OF(without));
    // A queue that cannot be read does not hide the others.
    for (size_t i = 0; i < names->len; i++) {
        const struct sluice_stats *v = &seen[i].stats;
        char text[TEXT_MAX];
        enum sluice_code code = seen[i].error.code;
        if (code == SLUICE_NOT_FOUND) continue; // deleted meanwhile
        if (code != SLUICE_OK) {
            int mine = cli_fail(cli, &seen[i].error);
            status = status ? status : mine;
        } else if (cli->json) {
            stats_json_print(names->names[i], v, prices);
        } else {
            table_cell(t, names->names[i]);
            table_number(t, v->ready);
            table_number(t, v->locked);
            table_number(t, v->delayed);
            table_number(t, v->processed);
            table_number(t, v->dead);
            if (cancelled) table_number(t, v->cancelled);
            table_cell(t, v->oldest_age_ms ? duration_text(v->oldest_age_ms, text) : "-");
            bool paused = seen[i].info && seen[i].info->paused;
            const char *remark = v->oldest_age_ms > STATS_IDLE_MS ? stats_remark(v, paused) : "";
            table_cell(t, paused ? "paused" : *remark ? remark : "active");
        }
    }
    cli_status_free(seen, names->len);
    if (!cli->json && names->len > 0) table_print(t, cli, stdout);
    if (names->len == 0 && store_missing(cli))
        cli_say(cli, "there are no queues yet: " STORE_MISSING, cli->store);
    else if (names->len == 0)
        cli_say(cli, "there are no queues yet");
    table_free(t);
    return status;
}

static int run_stats(const struct cli *cli, const struct arguments *args)
{
    const char *queue = args->words_len > 0 ? args->words[0] : NULL;
    const struct cli_value *interval = &args->options[INTERVAL];
    const struct cli_value *price = &args->options[PRICE];
    struct prices prices;
    int status = prices_get(cli, option_text(price), &prices);
    if (status) return status;
    // The empty stand-in never changes.
    if (args->options[WATCH].given && !queue && store_missing(cli))
        return cli_fail_as(cli, SLUICE_NOT_FOUND, "store", STORE_MISSING, cli->store);
    struct sluice *s = cli_open(cli, &status);
    if (!s) return status;
    struct sluice_names *names = NULL;
    struct sluice_error error = {0};
    if (args->options[WATCH].given) {
        status =
            stats_watch(cli, s, queue, interval->given ? (int)interval->number : 1000, &prices);
    } else if (queue) {
        status = print_queue(cli, s, queue, &prices);
    } else if (sluice_queue_list(s, &names, &error) != SLUICE_OK) {
        status = cli_fail(cli, &error);
    } else {
        status = print_all(cli, s, names, &prices);
    }
    sluice_names_free(names);
    sluice_close(s);
    return status;
}

const struct command command_stats = {
    .name = "stats",
    .words = "[QUEUE]",
    .summary = "Counts messages by state, once or live",
    .details = "Without a queue it counts all queues. --watch shows the queues with most\n"
               "messages first; arrows, PgUp and PgDn show the others. Without a terminal it\n"
               "prints a line per queue every interval. If the store bills requests (a bucket),\n"
               "stats also prints requests per message and their cost. These numbers are some\n"
               "seconds old, because each process reports them with its entries.\n"
               "\"waiting\" counts the workers that wait in a receive at a node.\n"
               "JSON keys: queue, ready, locked, delayed, processed, dead, oldestAgeMs,\n"
               "workers, waiting, cancelled, signals, results, resultBytes, bodies, paused,\n"
               "takesDeadLetters, and cost with writes, reads, deletes, perMessage (processed,\n"
               "or sent while none is), requestsPerMessage, writesPerMessage,\n"
               "dollarsPerMillion, dollarsPerDay, prices.",
    OPTIONS(options),
    .run = run_stats,
};
