// SPDX-License-Identifier: Apache-2.0
// upgrade: raises queues to the newest version of the rules, one after the other, or only reports
// what would change. A run that was interrupted is repeated: queues that are done are left alone.
#include "cli/commands.h"
#include "cli/table.h"
#include "cli/text.h"
#include "protocol/routes.h"
#include "json/json.h"

#include <string.h>

enum { CHECK_ONLY, FORCE };

static const struct cli_option options[] = {
    [CHECK_ONLY] = OPTION_OF(upgrade, "check", NULL, "only report what would change"),
    [FORCE] = OPTION_OF(upgrade, "force", NULL,
                        "raise a queue although a program that is too old, or of\n"
                        "unknown version, wrote to it in the last 10 minutes or is\n"
                        "a node of the cluster"),
};

struct run {
    const struct cli *cli;
    struct sluice *s;
    unsigned flags;
    size_t all;
    size_t done; // queues so far
    size_t raised;
    size_t waiting; // --check: queues that can be raised
    int status;     // of the first failure
};

static void print_json(const char *queue, const struct sluice_upgrade *u, bool raised)
{
    struct json *o = json_new();
    json_text(o, "queue", queue);
    fields_put(o, &upgrade_answer, u);
    json_bool(o, "upgraded", raised);
    json_print(o, stdout);
}

static void print_writers(const struct sluice_upgrade *u)
{
    char ago[TEXT_MAX];
    (void)printf(
        "  writers of the last 24 h: %u know version %u, %u too old, %u of unknown version",
        u->current, u->newest, u->old, u->unknown);
    if (u->old_ago_ms > 0)
        (void)printf("; the last of these wrote %s ago", duration_text(u->old_ago_ms, ago));
    (void)printf("\n");
    if (u->old_members[0])
        print_line(stdout, "  nodes of the cluster that are too old: %s", u->old_members);
    if (!u->owner[0]) return;
    if (u->owner_version == 0)
        print_line(stdout, "  owner: %s, of unknown version", u->owner);
    else
        print_line(stdout, "  owner: %s, knows version %u%s", u->owner, u->owner_version,
                   u->owner_version < u->newest ? " and is too old" : "");
}

static void print_text(const struct run *r, const char *queue, const struct sluice_upgrade *u,
                       bool raised)
{
    (void)printf("[%zu/%zu] ", r->done, r->all);
    if (raised)
        print_line(stdout, "%s: raised from version %u to %u (shards: %u)", queue, u->version,
                   u->newest, u->shards);
    else if (u->raised == u->shards)
        print_line(stdout, "%s: has version %u, nothing to do", queue, u->version);
    else
        print_line(stdout, "%s: has version %u, can be raised to %u (shards: %u, raised: %u)",
                   queue, u->version, u->newest, u->shards, u->raised);
    if (raised || u->raised == u->shards) return;
    print_line(stdout, "  changes: %s", u->changes);
    print_writers(u);
}

static void upgrade_one(struct run *r, const char *queue)
{
    struct sluice_upgrade u = {0};
    struct sluice_error error = {0};
    r->done++;
    if (sluice_queue_upgrade(r->s, queue, r->flags, &u, &error) != SLUICE_OK) {
        int status = cli_fail_queue(r->cli, r->s, queue, &error);
        if (r->status == 0) r->status = status;
        return;
    }
    bool raised = !(r->flags & SLUICE_UPGRADE_CHECK) && u.version < u.newest;
    r->raised += raised;
    r->waiting += u.raised < u.shards;
    if (r->cli->json)
        print_json(queue, &u, raised);
    else if (!r->cli->quiet)
        print_text(r, queue, &u, raised);
    (void)fflush(stdout); // the progress of a long run
}

static int run_upgrade(const struct cli *cli, const struct arguments *args)
{
    struct run r = {.cli = cli};
    struct sluice_names *names = NULL;
    struct sluice_error error = {0};
    if (args->options[CHECK_ONLY].given) r.flags |= SLUICE_UPGRADE_CHECK;
    if (args->options[FORCE].given) r.flags |= SLUICE_UPGRADE_FORCE;
    r.s = cli_open(cli, &r.status);
    if (!r.s) return r.status;
    if (args->words_len == 0 && sluice_queue_list(r.s, &names, &error) != SLUICE_OK)
        r.status = cli_fail(cli, &error);
    r.all = names ? names->len : args->words_len;
    for (size_t i = 0; i < r.all && cli_output_ok(); i++)
        upgrade_one(&r, names ? names->names[i] : args->words[i]);
    if (r.status == 0 && r.flags & SLUICE_UPGRADE_CHECK)
        cli_say(cli, "%zu of %zu queues can be raised", r.waiting, r.all);
    else if (r.status == 0)
        cli_say(cli, "raised %zu of %zu queues", r.raised, r.all);
    sluice_names_free(names);
    sluice_close(r.s);
    return r.status;
}

const struct command command_upgrade = {
    .name = "upgrade",
    .words = "[QUEUE...]",
    .summary = "Raises queues to the newest version of the rules",
    .details = "Run it after all processes have the new release. A process of the release\n"
               "before cannot work on a queue that was raised: it stops with \"upgrade\n"
               "needed\". A queue is never lowered again. Without a QUEUE it raises all.\n"
               "\n"
               "It stops at no failure: it goes on with the next queue. Run it again to raise\n"
               "the queues that are left.\n"
               "\n"
               "JSON prints an object per queue: queue, version, newest, shards, raised,\n"
               "changes, current, old, unknown, oldAgoMs, owner, ownerVersion, oldMembers,\n"
               "upgraded.",
    OPTIONS(options),
    .run = run_upgrade,
};
