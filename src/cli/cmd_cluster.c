// SPDX-License-Identifier: Apache-2.0
// cluster status, plan, drain, undrain, leave and events: what the nodes of one store do, and
// orders to them.
#include "cli/cluster_status.h"
#include "cli/commands.h"
#include "cli/screen.h"
#include "cli/table.h"
#include "cli/text.h"
#include "protocol/routes.h"
#include "json/json.h"

#include <string.h>

#define INTERVAL_MS 1000
#define SLICE_MS    250 // the longest delay until a signal is noticed

enum { WATCH, INTERVAL, MEMBERS, COORD };
static const struct cli_option status_options[] = {
    [WATCH] = FLAG_OPTION("watch", 'w', "show it again and again until stopped"),
    [INTERVAL] = OPTION(DURATION, "interval", "D", "the pause between two pictures (1s)",
                        .min = 100, .max = 3600000),
    [MEMBERS] = FLAG_OPTION("members", 0, "JSON: an object for each node instead of each shard"),
    [COORD] =
        OPTION(TEXT, "coord", "URL", "on a store: the coordination service of the nodes (store:)"),
};

static void print_json(const struct sluice_cluster *c, bool members)
{
    for (size_t i = 0; members && i < c->members_len; i++)
        json_print(fields_json(&member_answer, &c->members[i]), stdout);
    for (size_t i = 0; !members && i < c->shards_len; i++)
        json_print(fields_json(&shard_answer, &c->shards[i]), stdout);
}

static int run_status(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    const char *coord = option_text(&args->options[COORD]);
    const struct cli_value *interval = &args->options[INTERVAL];
    struct sluice_cluster *c = NULL;
    struct sluice_error error = {0};
    if (args->options[WATCH].given && !cli->json)
        return cluster_status_watch(cli, s, coord,
                                    interval->given ? (int)interval->number : INTERVAL_MS);
    if (sluice_cluster_show(s, coord, &c, &error) != SLUICE_OK) return cli_fail(cli, &error);
    if (cli->json)
        print_json(c, args->options[MEMBERS].given);
    else
        cluster_status_print(cli, c, stdout);
    sluice_cluster_free(c);
    return 0;
}

enum { ALL };
static const struct cli_option plan_options[] = {
    [ALL] = FLAG_OPTION("all", 0, "also the shards that stay where they are"),
};

static void plan_print(const struct cli *cli, const struct sluice_plan *p, bool all)
{
    static const char *const heads[] = {"QUEUE", ">SHARD", ">TRAFFIC", "FROM", "TO", "WHY"};
    struct table *t = table_new(heads, COUNT_OF(heads));
    size_t rows = 0;
    for (size_t i = 0; i < p->len; i++) {
        const struct sluice_move *m = &p->rows[i];
        if (!*m->reason && !all) continue;
        table_cell(t, m->queue);
        table_number(t, m->shard);
        table_number(t, m->traffic);
        table_cell(t, *m->from ? m->from : "-");
        table_cell(t, *m->to ? m->to : "-");
        table_cell(t, m->why);
        rows++;
    }
    if (rows > 0) table_print(t, cli, stdout);
    table_free(t);
    cli_say(cli, "%u of %zu shards move, %u moves wait", p->moves, p->len, p->waiting);
}

static int run_plan(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    struct sluice_plan *p = NULL;
    struct sluice_error error = {0};
    bool all = args->options[ALL].given;
    if (sluice_cluster_plan(s, &p, &error) != SLUICE_OK) return cli_fail(cli, &error);
    for (size_t i = 0; cli->json && i < p->len; i++)
        if (all || *p->rows[i].reason) json_print(fields_json(&move_answer, &p->rows[i]), stdout);
    if (!cli->json) plan_print(cli, p, all);
    sluice_plan_free(p);
    return 0;
}

static int order(const struct cli *cli, struct sluice *s, const char *node, const char *key,
                 bool value, const char *says,
                 enum sluice_code (*give)(struct sluice *, const char *, struct sluice_error *))
{
    struct sluice_error error = {0};
    if (give(s, node, &error) != SLUICE_OK) return cli_fail(cli, &error);
    if (!cli->json) {
        cli_say(cli, "%s %s", node, says);
        return 0;
    }
    struct json *o = json_new();
    json_text(o, "node", node);
    json_bool(o, key, value);
    json_print(o, stdout);
    return 0;
}

static int run_drain(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    return order(cli, s, args->words[0], "draining", true,
                 "gives its shards away; \"cluster status --watch\" shows when it has none",
                 sluice_cluster_drain);
}

static int run_undrain(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    return order(cli, s, args->words[0], "draining", false, "takes shards again, round by round",
                 sluice_cluster_undrain);
}

static int run_leave(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    return order(cli, s, args->words[0], "leaving", true, "gives its shards away, leaves and ends",
                 sluice_cluster_leave);
}

enum { FOLLOW, FROM };
static const struct cli_option events_options[] = {
    [FOLLOW] = FLAG_OPTION("follow", 'f', "continue with new events until stopped"),
    [FROM] = OPTION(TEXT, "from", "ID",
                    "start after this event, or \"now\" for new events only;\n"
                    "default: the oldest that the node keeps"),
};

static void event_print(const struct sluice_cluster_event *e)
{
    char at[TEXT_MAX], shard[120] = "", epoch[40] = "";
    if (*e->queue) (void)snprintf(shard, sizeof shard, "  %.80s/%u", e->queue, e->shard);
    if (e->epoch > 0)
        (void)snprintf(epoch, sizeof epoch, "  epoch %llu", (unsigned long long)e->epoch);
    print_line(stdout, "%s  %-24s  %s%s%s%s%s", moment_text(e->time, at), e->type, e->node,
               *e->status ? "  " : "", e->status, shard, epoch);
}

static int run_events(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    const char *from = option_text(&args->options[FROM]);
    bool follow = args->options[FOLLOW].given, live = false;
    struct sluice_cluster_events *events = NULL;
    struct sluice_error error = {0};
    if (follow) stop_on_signals();
    enum sluice_code code = sluice_cluster_events_open(s, from, &events, &error);
    while (code == SLUICE_OK && !stop_requested()) {
        struct sluice_cluster_event e;
        code = sluice_cluster_events_next(events, live ? SLICE_MS : 0, &e, &error);
        if (code == SLUICE_NOT_FOUND) {
            if (!cli_output_ok() || !follow) break;
            live = true;
            code = SLUICE_OK;
            continue;
        }
        if (code != SLUICE_OK) break;
        if (cli->json)
            json_print(fields_json(&cluster_event_answer, &e), stdout);
        else
            event_print(&e);
    }
    sluice_cluster_events_close(events);
    return code == SLUICE_OK || code == SLUICE_NOT_FOUND ? 0 : cli_fail(cli, &error);
}

const struct command command_cluster_status = {
    .name = "cluster status",
    .summary = "Shows the nodes, the leader, and the owner of each shard",
    .details = "A node shows the cluster as it sees it. On a store, it lists the members of the\n"
               "coordination service and reads the owners from the journals; no node is needed.\n"
               "\n"
               "JSON prints an object per shard: queue, shard, owner, epoch, planned, moving,\n"
               "reason, from, counted, ready, open, refusedClaims. With --members, an object per\n"
               "node: name, url, version, status, capacity, shards, rulesLowest, rulesNewest,\n"
               "beatAgeMs, leads, self, settings.",
    OPTIONS(status_options),
    .run_on = run_status,
};

const struct command command_cluster_plan = {
    .name = "cluster plan",
    .summary = "Shows the shards that the next plan moves, and why",
    .details = "A node computes it; nothing changes. JSON prints an object per shard: queue,\n"
               "shard, from, to, reason, why, traffic (a second, if the node leads).",
    OPTIONS(plan_options),
    .run_on = run_plan,
};

const struct command command_cluster_drain = {
    .name = "cluster drain",
    .words = "NODE",
    .summary = "Makes a node give its shards to the others",
    .details = "The node goes on serving and takes no more shards, until \"cluster undrain\" or a\n"
               "restart. The store is that node's URL, or a list that has it. JSON keys: node,\n"
               "draining.",
    .run_on = run_drain,
    .brief = true,
};

const struct command command_cluster_undrain = {
    .name = "cluster undrain",
    .words = "NODE",
    .summary = "Ends the drain of a node: it takes shards again",
    .details = "The next plans give it shards, round by round. The store is that node's URL, or a\n"
               "list that has it. JSON keys: node, draining.",
    .run_on = run_undrain,
    .brief = true,
};

const struct command command_cluster_leave = {
    .name = "cluster leave",
    .words = "NODE",
    .summary = "Makes a node give its shards away, leave, and end",
    .details = "It is the same as SIGTERM to the node's process. The store is that node's URL, or\n"
               "a list that has it. JSON keys: node, leaving.",
    .run_on = run_leave,
    .brief = true,
};

const struct command command_cluster_events = {
    .name = "cluster events",
    .summary = "Prints elections, members and changes of owners",
    .details = "A node keeps its newest 1,000 events since its start. An event \"gap\" says that\n"
               "some were missed, or that another node answers now. JSON keys: id, type, time,\n"
               "node, status, queue, shard, epoch.",
    OPTIONS(events_options),
    .run_on = run_events,
};
