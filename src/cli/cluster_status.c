// SPDX-License-Identifier: Apache-2.0
// The tables of cluster status, once or as a live screen.
#include "cli/cluster_status.h"

#include "cli/screen.h"
#include "cli/table.h"
#include "cli/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RANGES_MAX 200

// Untrusted text inside a line.
static void put_safe(FILE *out, const char *text)
{
    char *safe = safe_text(text, strlen(text), 0);
    (void)fputs(safe, out);
    free(safe);
}

static void print_head(const struct cli *cli, const struct sluice_cluster *c, FILE *out)
{
    char ms[TEXT_MAX];
    (void)fprintf(out, "%scoordination%s ", bold(cli), plain(cli));
    put_safe(out, c->backend);
    if (*c->leader) {
        (void)fprintf(out, ", %sleader%s ", bold(cli), plain(cli));
        put_safe(out, c->leader);
        (void)fprintf(out, " (epoch %" PRIu64 ")", c->epoch);
    } else {
        (void)fprintf(out, ", no leader");
    }
    if (c->lease_ms > 0) (void)fprintf(out, ", lease %s", duration_text(c->lease_ms, ms));
    if (c->plan_number > 0)
        (void)fprintf(out, ", plan %" PRIu64 ".%" PRIu64 " (%u moves, %u waiting)", c->plan_epoch,
                      c->plan_number, c->moves, c->waiting);
    if (*c->node) {
        (void)fprintf(out, ", as ");
        put_safe(out, c->node);
        (void)fprintf(out, " sees it");
    }
    (void)fprintf(out, "\n");
    if (c->degraded)
        print_line(out, "DEGRADED for %s: %s", duration_text(c->degraded_ms, ms),
                   *c->degraded_why ? c->degraded_why : "coordination does not answer");
    if (c->unowned_events > 0)
        print_line(out, "%u shards have no owner, and %" PRIu64 " events wait there", c->unowned,
                   c->unowned_events);
    if (c->draining) print_line(out, "%s gives its shards away", c->node);
    if (c->observe_only) print_line(out, "%s only observes: it claims no shard", c->node);
    if (*c->flags) print_line(out, "%s: %s", c->node, c->flags);
    if (*c->settings) print_line(out, "settings %s", c->settings);
    if (*c->differs)
        print_line(out, "SETTINGS DIFFER: %s. Give all nodes the same ones.", c->differs);
    if (c->replaced) print_line(out, "%s was replaced by a later start of the same name", c->node);
}

static void print_members(const struct cli *cli, const struct sluice_cluster *c, FILE *out)
{
    static const char *const heads[] = {"NODE",      "STATUS", "LEADS",   ">SHARDS",
                                        ">CAPACITY", ">SEEN",  "VERSION", "URL"};
    struct table *t = table_new(heads, COUNT_OF(heads));
    for (size_t i = 0; i < c->members_len; i++) {
        const struct sluice_member *m = &c->members[i];
        char ms[TEXT_MAX];
        table_cell(t, m->name);
        table_cell(t, m->status);
        table_cell(t, m->leads ? "yes" : "");
        table_number(t, m->shards);
        table_number(t, m->capacity);
        table_cell(t, *c->node ? duration_text(m->beat_age_ms, ms) : "-");
        table_cell(t, m->version);
        table_cell(t, m->url);
    }
    table_print(t, cli, out);
    table_free(t);
}

// The node that a row is listed under.
static const char *holder_of(const struct sluice_shard *s)
{
    return *s->owner ? s->owner : s->epoch > 0 || *s->planned ? "(not known)" : "(none)";
}

// What the rows of one holder have together.
struct sums {
    uint64_t epoch; // the highest
    size_t moving, counted;
    uint64_t ready, open, refused;
};

static void sums_add(struct sums *sums, const struct sluice_shard *s)
{
    if (s->epoch > sums->epoch) sums->epoch = s->epoch;
    sums->moving += s->moving != 0;
    sums->counted += s->counted != 0;
    sums->ready += s->ready;
    sums->open += s->open;
    sums->refused += s->refused;
}

// Writes "0-3,7" for the rows of the queue that begins at `from` and have the same holder.
static size_t print_ranges(const struct sluice_cluster *c, size_t from, bool *listed,
                           char out[RANGES_MAX], struct sums *sums)
{
    const char *queue = c->shards[from].queue, *holder = holder_of(&c->shards[from]);
    size_t count = 0, len = 0;
    out[0] = '\0';
    for (size_t i = from; i < c->shards_len && strcmp(c->shards[i].queue, queue) == 0; i++) {
        const struct sluice_shard *s = &c->shards[i];
        if (strcmp(holder_of(s), holder) != 0) continue;
        uint32_t first = s->shard, last = first;
        for (; i < c->shards_len && strcmp(c->shards[i].queue, queue) == 0 &&
               strcmp(holder_of(&c->shards[i]), holder) == 0;
             i++) {
            listed[i] = true;
            last = c->shards[i].shard;
            sums_add(sums, &c->shards[i]);
            count++;
        }
        int more =
            len + 24 >= RANGES_MAX ? 0
            : last > first
                ? snprintf(out + len, RANGES_MAX - len, "%s%u-%u", len ? "," : "", first, last)
                : snprintf(out + len, RANGES_MAX - len, "%s%u", len ? "," : "", first);
        len += (size_t)more;
        i--;
    }
    return count;
}

// "-": no shard of the row was read.
static void print_count(struct table *t, const struct sums *sums, uint64_t count)
{
    if (sums->counted > 0)
        table_number(t, count);
    else
        table_cell(t, "-");
}

static void print_shards(const struct cli *cli, const struct sluice_cluster *c, FILE *out)
{
    static const char *const heads[] = {"QUEUE",  "OWNER", ">SHARDS",  ">EPOCH", ">MOVING",
                                        ">READY", ">OPEN", ">REFUSED", "NUMBERS"};
    struct table *t = table_new(heads, COUNT_OF(heads));
    bool *listed = calloc(c->shards_len + 1, sizeof *listed);
    for (size_t i = 0; listed && i < c->shards_len; i++) {
        char ranges[RANGES_MAX];
        struct sums sums = {0};
        if (listed[i]) continue;
        size_t count = print_ranges(c, i, listed, ranges, &sums);
        table_cell(t, c->shards[i].queue);
        table_cell(t, holder_of(&c->shards[i]));
        table_number(t, count);
        table_number(t, sums.epoch);
        table_number(t, sums.moving);
        print_count(t, &sums, sums.ready);
        print_count(t, &sums, sums.open);
        print_count(t, &sums, sums.refused);
        table_cell(t, ranges);
    }
    table_print(t, cli, out);
    table_free(t);
    free(listed);
}

void cluster_status_print(const struct cli *cli, const struct sluice_cluster *c, FILE *out)
{
    print_head(cli, c, out);
    if (c->members_len > 0) {
        (void)fprintf(out, "\n");
        print_members(cli, c, out);
    }
    if (c->shards_len > 0) {
        (void)fprintf(out, "\n");
        print_shards(cli, c, out);
    }
}

struct cluster_screen {
    const struct cli *cli;
    struct sluice *store;
    const char *coord;
};

static void draw(void *ctx, FILE *out)
{
    const struct cluster_screen *p = ctx;
    struct sluice_cluster *c = NULL;
    struct sluice_error error = {0};
    if (sluice_cluster_show(p->store, p->coord, &c, &error) == SLUICE_OK)
        cluster_status_print(p->cli, c, out);
    else // a node that is gone comes back, or another one answers
        print_line(out, "%s: %s", sluice_code_name(error.code), error.message);
    sluice_cluster_free(c);
}

int cluster_status_watch(const struct cli *cli, struct sluice *s, const char *coord,
                         int interval_ms)
{
    return screen_watch(interval_ms, draw, &(struct cluster_screen){cli, s, coord});
}
