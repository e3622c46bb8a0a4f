// SPDX-License-Identifier: Apache-2.0
// Raises the version of the rules of a queue, shard by shard, and reports which writers are too old
// for it. A raise that was interrupted is completed by the next one: a shard that has the version
// already is left as it is.
#include "coord/coord.h"
#include "ops/change.h"
#include "ops/cluster_show.h"
#include "ops/look.h"
#include "ops/ops.h"
#include "ops/queue_create.h"
#include "queues/owner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LATELY_MS (INT64_C(10) * 60 * 1000) // a writer that wrote this recently may still run

struct shard_report {
    struct sluice_upgrade *out;
    uint16_t rules; // of the shard
};

static void count_writer(struct sluice_upgrade *out, const struct journal_writer *w, int64_t now)
{
    int64_t ago = now > w->seen_at ? now - w->seen_at : 1;
    if (w->rules_newest >= out->newest) {
        out->current++;
        return;
    }
    if (w->rules_newest == 0) out->unknown++;
    if (w->rules_newest != 0) out->old++;
    if (out->old_ago_ms == 0 || ago < out->old_ago_ms) out->old_ago_ms = ago;
}

static void read_journal(void *ctx, const struct journal *j, const struct machine *m, int64_t now)
{
    struct shard_report *r = ctx;
    struct journal_writer w;
    r->rules = machine_rules(m);
    for (size_t i = 0; journal_writer(j, i, &w); i++)
        count_writer(r->out, &w, now);
}

// The first owner that the shards name. Its incarnation stays in the journal.
static void read_owner(struct shard_runner *r, struct sluice_upgrade *out)
{
    struct runner_owner owner;
    struct owner_name name;
    runner_owner(r, &owner);
    if (out->owner[0] || owner.epoch == 0 || !owner_parse(owner.address, &name)) return;
    (void)snprintf(out->owner, sizeof out->owner, "%s", name.url);
    out->owner_version = owner.rules_newest;
}

static void describe_changes(struct sluice_upgrade *out)
{
    size_t len = 0;
    out->changes[0] = '\0';
    for (uint32_t v = out->version + 1; v <= out->newest && len < sizeof out->changes; v++)
        len += (size_t)snprintf(out->changes + len, sizeof out->changes - len, "%s%s",
                                len > 0 ? "; " : "", rules_about((uint16_t)v));
}

struct report {
    struct look look; // first
    struct sluice_upgrade *out;
};

static enum sluice_code report_shard(struct look *l, struct sluice_error *error)
{
    struct sluice_upgrade *out = ((struct report *)l)->out;
    struct shard_report r = {.out = out};
    (void)error;
    runner_read_journal(l->runner, read_journal, &r);
    read_owner(l->runner, out);
    if (out->version == 0 || r.rules < out->version) out->version = r.rules;
    out->raised += r.rules >= out->newest;
    return SLUICE_OK;
}

static enum sluice_code report(struct open_queue *q, struct sluice_upgrade *out,
                               struct sluice_error *error)
{
    struct report l = {.look = {.shard = report_shard}, .out = out};
    *out = (struct sluice_upgrade){.newest = rules_newest(), .shards = q->row.birth.shards};
    enum sluice_code code = look_at_open_queue(q, &l.look, error);
    if (!code) describe_changes(out);
    return code;
}

static void add_member(void *ctx, const char *name, uint32_t rules_newest)
{
    struct sluice_upgrade *out = ctx;
    size_t len = strlen(out->old_members);
    if (rules_newest >= out->newest) return;
    (void)snprintf(out->old_members + len, sizeof out->old_members - len, "%s%s",
                   len > 0 ? ", " : "", name);
}

// A node knows the members of its cluster. A process that opens the store itself lists those that
// coordinate through it.
static void each_member(struct engine *e, void (*each)(void *ctx, const char *name, uint32_t rules),
                        void *ctx)
{
    struct owner_cluster *cluster = atomic_load(&e->cluster);
    struct coord *coord = NULL;
    struct coord_answer a;
    if (cluster) {
        cluster->members(cluster, each, ctx);
        return;
    }
    if (coord_of(e, NULL, &coord, NULL)) return;
    coord_answer_init(&a);
    if (coord_list(coord, &a) == ERR_OK)
        for (size_t i = 0; i < a.members_len; i++)
            each(ctx, a.members[i].name, a.members[i].rules_hi);
    coord_answer_done(&a);
    coord_free(coord);
}

static void note_lowest(void *ctx, const char *name, uint32_t rules_newest)
{
    uint16_t *lowest = ctx;
    (void)name;
    if (rules_newest < *lowest) *lowest = (uint16_t)(rules_newest > 0 ? rules_newest : RULES_FIRST);
}

uint16_t rules_of_new_queue(struct engine *e)
{
    uint16_t lowest = rules_newest();
    each_member(e, note_lowest, &lowest);
    return lowest;
}

enum sluice_code rules_read(const char *value, uint16_t *out, struct sluice_error *error)
{
    unsigned long version = 0;
    if (value[0] >= '1' && value[0] <= '9' && strlen(value) < 5) version = strtoul(value, NULL, 10);
    char again[8];
    (void)snprintf(again, sizeof again, "%lu", version);
    if (version == 0 || version > rules_newest() || strcmp(again, value) != 0)
        return refuse(error, ERR_INVALID, SETTING_RULES,
                      rules_newest() > 1
                          ? "rules is \"%.32s\"; it must be a version of the rules from 1 to %u"
                          : "rules is \"%.32s\"; this program knows only version %u of the rules",
                      value, rules_newest());
    *out = (uint16_t)version;
    return SLUICE_OK;
}

struct raise_change {
    struct change change; // first
    struct open_queue *queue;
    uint16_t version; // of the present shard
    uint16_t newest;
};

static void machine_version(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    *(uint16_t *)ctx = machine_rules(m);
}

// Moves to the first shard, from this one on, that lacks the newest version.
static void find_old_shard(struct raise_change *r)
{
    for (; r->change.shard < r->queue->row.birth.shards; r->change.shard++) {
        struct shard_runner *runner = runner_if_open(r->queue, r->change.shard);
        if (runner) runner_inspect(runner, machine_version, &r->version);
        if (runner && r->version < r->newest) return;
    }
}

static void encode_raise(const struct change *ch, const struct request_id *request, struct buf *out)
{
    const struct raise_change *r = (const struct raise_change *)ch;
    raise_encode(out, &(struct op_raise){.request = *request, .to = r->version + 1});
}

static enum sluice_code take_raised(struct change *ch, const struct result *result,
                                    enum sluice_code code)
{
    struct raise_change *r = (struct raise_change *)ch;
    (void)result;
    if (code) return code;
    if (++r->version < r->newest) return SLUICE_OK;
    ch->shard++;
    find_old_shard(r);
    return SLUICE_OK;
}

static enum sluice_code refuse_old(const struct open_queue *q, const struct sluice_upgrade *u,
                                   struct sluice_error *error)
{
    enum sluice_code code = refuse(
        error, ERR_CONFLICT, "force",
        "queue %s keeps version %u: in the last %d minutes a program wrote to it that is too old "
        "for version %u or of unknown version (writers of the last day: %u too old, %u unknown); "
        "stop these programs, or force the upgrade",
        q->row.name, u->version, (int)(LATELY_MS / 60000), u->newest, u->old, u->unknown);
    if (error) (void)snprintf(error->reason, sizeof error->reason, "older-programs");
    return code;
}

static enum sluice_code refuse_members(const struct open_queue *q, const struct sluice_upgrade *u,
                                       struct sluice_error *error)
{
    enum sluice_code code =
        refuse(error, ERR_CONFLICT, "force",
               "queue %s keeps version %u: the cluster has mixed versions, and these nodes are too "
               "old for version %u: %s; replace them, or force the upgrade",
               q->row.name, u->version, u->newest, u->old_members);
    if (error) (void)snprintf(error->reason, sizeof error->reason, "older-members");
    return code;
}

enum sluice_code ops_queue_upgrade(struct engine *e, const char *queue, unsigned flags,
                                   struct sluice_upgrade *out, struct sluice_error *error)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    enum sluice_code code = queue_get(e, queue, &q, error);
    if (!code) code = report(q, out, error);
    if (!code && out->raised < out->shards) each_member(e, add_member, out);
    if (code || flags & SLUICE_UPGRADE_CHECK || out->raised == out->shards) return code;
    bool lately = out->old_ago_ms > 0 && out->old_ago_ms < LATELY_MS;
    bool forced = flags & SLUICE_UPGRADE_FORCE;
    if (out->old_members[0] && !forced) return refuse_members(q, out, error);
    if (lately && !forced) return refuse_old(q, out, error);
    struct raise_change r = {
        .change = {.kind = OP_RAISE, .whole = true, .encode = encode_raise, .take = take_raised},
        .queue = q,
        .newest = (uint16_t)out->newest};
    find_old_shard(&r);
    if (r.change.shard < out->shards) code = change_open_queue(q, &r.change, error);
    if (!code) out->raised = out->shards;
    return code;
}
