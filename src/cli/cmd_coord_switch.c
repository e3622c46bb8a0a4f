// SPDX-License-Identifier: Apache-2.0
// cluster coord-switch: makes every shard of every queue follow another coordination service, one
// queue after the other. A run that was interrupted is repeated: shards that are done are left
// alone.
#include "cli/commands.h"
#include "cli/table.h"
#include "sluice_cluster.h"
#include "json/json.h"

#include <string.h>

enum { COORD, CHECK_ONLY, YES };

static const struct cli_option options[] = {
    [COORD] = OPTION(TEXT, "coord", "URL",
                     "the service to follow: store:, etcd://h1,h2 or consul://host"),
    [CHECK_ONLY] = FLAG_OPTION("check", 0, "only report what would change"),
    [YES] = FLAG_OPTION("yes", 'y', "do not ask for confirmation"),
};

struct run {
    const struct cli *cli;
    struct sluice *s;
    const char *coord;
    unsigned flags;
    size_t all;
    size_t done;       // queues so far
    uint64_t shards;   // of these queues
    uint64_t switched; // by this run
    uint64_t left;     // shards that follow another service
    int status;        // of the first failure
    bool over;         // the failure concerns all queues
};

static void print_json(const char *queue, const struct sluice_coord_switch *c)
{
    struct json *o = json_new();
    json_text(o, "queue", queue);
    json_text(o, "to", c->to);
    if (c->from[0]) json_text(o, "from", c->from);
    json_number(o, "shards", c->shards);
    json_number(o, "following", c->following);
    json_number(o, "switched", c->switched);
    json_print(o, stdout);
}

static void print_text(const struct run *r, const char *queue, const struct sluice_coord_switch *c)
{
    (void)printf("[%zu/%zu] ", r->done, r->all);
    if (c->switched > 0)
        print_line(stdout, "%s: switched %u of %u shards", queue, c->switched, c->shards);
    else if (c->following == c->shards)
        print_line(stdout, "%s: all %u shards follow the service, nothing to do", queue, c->shards);
    else
        print_line(stdout, "%s: %u of %u shards follow another service (%s)", queue,
                   c->shards - c->following, c->shards, c->from);
}

static void switch_one(struct run *r, const char *queue)
{
    struct sluice_coord_switch c;
    struct sluice_error error = {0};
    r->done++;
    enum sluice_code code = sluice_coord_switch(r->s, queue, r->coord, r->flags, &c, &error);
    r->shards += c.shards;
    r->switched += c.switched;
    r->left += c.shards - c.following;
    if (code) {
        // A service that does not answer, or a store that is a node, concerns every queue.
        r->over = strcmp(error.field, "coord") == 0 || strcmp(error.field, "store") == 0;
        int status = cli_fail_queue(r->cli, r->s, queue, &error);
        if (r->status == 0) r->status = status;
        return;
    }
    if (r->cli->json)
        print_json(queue, &c);
    else if (!r->cli->quiet)
        print_text(r, queue, &c);
    (void)fflush(stdout); // the progress of a long run
}

// A URL that cannot be followed is refused before the question.
static int check_service(const struct run *r, const char *queue)
{
    struct sluice_coord_switch c;
    struct sluice_error error = {0};
    if (!sluice_coord_switch(r->s, queue, r->coord, SLUICE_COORD_SWITCH_CHECK, &c, &error))
        return 0;
    bool all = strcmp(error.field, "coord") == 0 || strcmp(error.field, "store") == 0;
    return all ? cli_fail(r->cli, &error) : 0;
}

static int confirm(const struct cli *cli, const struct arguments *args)
{
    char question[300];
    (void)snprintf(question, sizeof question,
                   "Make every shard follow %.100s? Nodes of another coordination service can then "
                   "own no shard.",
                   args->options[COORD].texts[0]);
    return cli_confirm_as(cli, args->options[YES].given,
                          "nodes of another coordination service can own no shard afterwards",
                          question);
}

static int run_coord_switch(const struct cli *cli, const struct arguments *args)
{
    struct run r = {.cli = cli};
    struct sluice_names *names = NULL;
    struct sluice_error error = {0};
    if (!args->options[COORD].given)
        return cli_usage(cli, "--coord",
                         "cluster coord-switch needs --coord URL: the service that "
                         "the shards follow from now on");
    r.coord = args->options[COORD].texts[0];
    bool checks = args->options[CHECK_ONLY].given;
    if (checks) r.flags |= SLUICE_COORD_SWITCH_CHECK;
    r.s = cli_open(cli, &r.status);
    if (!r.s) return r.status;
    if (args->words_len == 0 && sluice_queue_list(r.s, &names, &error) != SLUICE_OK)
        r.status = cli_fail(cli, &error);
    r.all = names ? names->len : args->words_len;
    const char *const *queues = names ? (const char *const *)names->names : args->words;
    if (!r.status && !checks && r.all > 0) r.status = check_service(&r, queues[0]);
    if (!r.status && !checks) r.status = confirm(cli, args);
    r.over = r.status != 0;
    for (size_t i = 0; i < r.all && !r.over && cli_output_ok(); i++)
        switch_one(&r, queues[i]);
    if (r.status == 0 && r.flags & SLUICE_COORD_SWITCH_CHECK)
        cli_say(cli, "%llu of %llu shards would be switched to %s", (unsigned long long)r.left,
                (unsigned long long)r.shards, r.coord);
    else if (r.status == 0)
        cli_say(cli, "switched %llu of %llu shards to %s", (unsigned long long)r.switched,
                (unsigned long long)r.shards, r.coord);
    sluice_names_free(names);
    sluice_close(r.s);
    return r.status;
}

const struct command command_cluster_coord_switch = {
    .name = "cluster coord-switch",
    .words = "[QUEUE...]",
    .summary = "Makes shards follow another coordination service",
    .details = "Each shard accepts owners of one coordination service only. Run this after the\n"
               "service was replaced, on the store itself (not through a node). First stop the\n"
               "nodes or start them with the new --coord. Without a QUEUE it switches all.\n"
               "\n"
               "No message is touched, and locks stay valid. It stops at no failure: it goes on\n"
               "with the next queue. Run it again to switch what is left. It asks for\n"
               "confirmation; without a terminal it requires --yes.\n"
               "\n"
               "JSON prints an object per queue: queue, to, from, shards, following, switched.",
    OPTIONS(options),
    .run = run_coord_switch,
};
