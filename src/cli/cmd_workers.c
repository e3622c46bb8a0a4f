// SPDX-License-Identifier: Apache-2.0
// workers: the workers of a queue, or of all queues, once or on a live screen.
#include "cli/commands.h"
#include "cli/screen.h"
#include "cli/table.h"
#include "cli/text.h"
#include "os/clock.h"
#include "protocol/routes.h"
#include "json/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORKERS_MAX 10000
#define INTERVAL_MS 1000
#define PAGE        1000 // locked messages that are read at a time
#define JOB_COLUMNS 60

enum { WATCH, INTERVAL };

static const struct cli_option options[] = {
    [WATCH] = FLAG_OPTION("watch", 'w', "show a live screen; q or Ctrl-C ends it"),
    [INTERVAL] = OPTION(DURATION, "interval", "D", "interval of --watch; default 1s", .min = 100,
                        .max = 3600 * 1000),
};

// A queue with its workers. stats: only if it has none.
struct group {
    char *queue;
    struct sluice_worker *workers;
    size_t len;
    struct sluice_stats stats;
};

struct groups {
    struct group *all;
    size_t len;
};

static void groups_free(struct groups *g)
{
    for (size_t i = 0; i < g->len; i++) {
        free(g->all[i].queue);
        free(g->all[i].workers);
    }
    free(g->all);
    *g = (struct groups){0};
}

static enum sluice_code read_queue(struct sluice *s, const char *queue, struct groups *g,
                                   struct sluice_error *error)
{
    struct group one = {.workers = cli_alloc(WORKERS_MAX * sizeof *one.workers)};
    enum sluice_code code = sluice_workers(s, queue, one.workers, WORKERS_MAX, &one.len, error);
    if (code == SLUICE_OK && one.len == 0) code = sluice_stats(s, queue, &one.stats, error);
    if (code != SLUICE_OK) {
        free(one.workers);
        return code;
    }
    one.workers = cli_realloc(one.workers, (one.len + 1) * sizeof *one.workers);
    one.queue = strdup(queue);
    g->all = cli_realloc(g->all, (g->len + 1) * sizeof *g->all);
    g->all[g->len++] = one;
    return SLUICE_OK;
}

// One queue, or all of them (NULL).
static enum sluice_code read_all(struct sluice *s, const char *queue, struct groups *g,
                                 struct sluice_error *error)
{
    struct sluice_names *names = NULL;
    if (queue) return read_queue(s, queue, g, error);
    enum sluice_code code = sluice_queue_list(s, &names, error);
    for (size_t i = 0; code == SLUICE_OK && i < names->len; i++) {
        code = read_queue(s, names->names[i], g, error);
        if (code == SLUICE_NOT_FOUND) code = SLUICE_OK; // deleted meanwhile
    }
    sluice_names_free(names);
    return code;
}

static const char *state_of(const struct sluice_worker *w)
{
    if (*w->mode && strcmp(w->mode, "running") != 0) return w->mode;
    if (w->open > 0) return w->waiting > 0 ? "working, waits" : "working";
    if (w->waiting > 0) return "waits";
    return w->capacity > 0 ? "registered" : "idle";
}

// "-": not known. The clocks may differ a little.
static void add_age(struct table *t, int64_t at)
{
    char text[TEXT_MAX];
    int64_t age = clock_realtime_ms() - at;
    table_cell(t, at > 0 ? duration_text(age > 0 ? age : 0, text) : "-");
}

// "-": it is not registered.
static void add_count(struct table *t, const struct sluice_worker *w, uint64_t count)
{
    if (w->capacity > 0)
        table_number(t, count);
    else
        table_cell(t, "-");
}

static void print_table(const struct cli *cli, const struct groups *g, bool one, FILE *out)
{
    static const char *const heads[] = {"QUEUE",     "WORKER", "STATE",   ">HOLDS",
                                        ">CAPACITY", ">DONE",  ">FAILED", ">SINCE",
                                        ">SEEN",     "NODE",   "LABELS"};
    struct table *t = table_new(heads + one, COUNT_OF(heads) - one);
    size_t rows = 0;
    for (size_t i = 0; i < g->len; i++)
        for (size_t k = 0; k < g->all[i].len; k++, rows++) {
            const struct sluice_worker *w = &g->all[i].workers[k];
            if (!one) table_cell(t, g->all[i].queue);
            table_cell(t, w->name);
            table_cell(t, state_of(w));
            table_number(t, w->open);
            add_count(t, w, w->capacity);
            add_count(t, w, w->done);
            add_count(t, w, w->failed);
            add_age(t, w->since);
            add_age(t, w->waiting > 0 ? clock_realtime_ms() : w->seen_at);
            table_cell(t, *w->node ? w->node : "-");
            table_cell(t, *w->labels ? w->labels : "-");
        }
    if (rows > 0) table_print(t, cli, out);
    table_free(t);
}

// A queue without workers is named if it has messages that a worker should take. Those of a paused
// queue and of a dead-letter queue wait for an operator: they are named only if the queue was asked
// for.
static void print_without(const struct groups *g, bool one, FILE *out)
{
    char ready[TEXT_MAX];
    for (size_t i = 0; i < g->len; i++) {
        const struct group *q = &g->all[i];
        const struct sluice_stats *v = &q->stats;
        if (q->len > 0) continue;
        const char *messages = v->ready == 1 ? "message" : "messages";
        (void)number_text(v->ready, ready);
        if (v->ready > 0 && !v->paused && !v->takes_letters)
            print_line(out, "queue %s has %s ready %s and no workers", q->queue, ready, messages);
        else if (one && v->ready == 0)
            print_line(out, "queue %s has no workers, and no message is ready", q->queue);
        else if (one)
            print_line(out, "queue %s %s, with %s ready %s", q->queue,
                       v->paused ? "is paused" : "is a dead-letter queue", ready, messages);
    }
}

// The messages that a worker holds, in `to`: a table, or a JSON list. A job without a progress has
// none.
struct jobs {
    const char *worker;
    struct table *table; // one of them
    struct json *list;
    size_t len;
};

static void add_job(struct jobs *to, const struct sluice_message *m)
{
    char time[TEXT_MAX];
    bool has_progress = m->progress_at > 0 && m->percent >= 0;
    to->len++;
    if (to->list) {
        struct json *o = json_new();
        json_text(o, "id", m->id);
        json_number(o, "attempt", m->attempt);
        json_number(o, "deadline", m->deadline);
        if (has_progress) json_number(o, "progress", m->percent);
        if (has_progress && m->progress && *m->progress) json_text(o, "progressText", m->progress);
        if (has_progress) json_number(o, "progressAt", m->progress_at);
        json_list_take(to->list, o);
        return;
    }
    const char *words = has_progress && m->progress ? m->progress : "";
    char *text = safe_text(words, strlen(words), JOB_COLUMNS);
    table_cell(to->table, m->id);
    table_number(to->table, m->attempt);
    if (has_progress)
        table_cellf(to->table, "%d%%", m->percent);
    else
        table_cell(to->table, "-");
    add_age(to->table, has_progress ? m->progress_at : 0);
    table_cell(to->table, moment_text(m->deadline, time));
    table_cell(to->table, text);
    free(text);
}

static enum sluice_code read_jobs(struct sluice *s, const char *queue, struct jobs *to,
                                  struct sluice_error *error)
{
    char after[SLUICE_ID_MAX] = "";
    for (bool more = true; more;) {
        struct sluice_peek page = {
            .state = "locked", .after_id = *after ? after : NULL, .max = PAGE};
        struct sluice_batch *b = NULL;
        enum sluice_code code = sluice_peek(s, queue, &page, &b, error);
        if (code != SLUICE_OK) return code;
        for (size_t i = 0; i < b->len; i++)
            if (strcmp(b->messages[i].worker, to->worker) == 0) add_job(to, &b->messages[i]);
        more = b->len > 0;
        if (more) (void)snprintf(after, sizeof after, "%s", b->messages[b->len - 1].id);
        sluice_batch_free(b);
    }
    return SLUICE_OK;
}

static enum sluice_code print_jobs(const struct cli *cli, struct sluice *s, const char *queue,
                                   const char *worker, FILE *out, struct sluice_error *error)
{
    static const char *const heads[] = {"MESSAGE", ">ATTEMPT",  ">PROGRESS",
                                        ">TOLD",   "LOCK ENDS", "TEXT"};
    struct jobs jobs = {.worker = worker, .table = table_new(heads, COUNT_OF(heads))};
    enum sluice_code code = read_jobs(s, queue, &jobs, error);
    if (code == SLUICE_OK && jobs.len > 0) {
        (void)fputc('\n', out);
        table_print(jobs.table, cli, out);
    }
    table_free(jobs.table);
    return code;
}

// Leaves only this worker in the group. False: it is not there.
static bool keep_worker(struct group *g, const char *name)
{
    for (size_t i = 0; i < g->len; i++) {
        if (strcmp(g->workers[i].name, name) != 0) continue;
        g->workers[0] = g->workers[i];
        g->len = 1;
        return true;
    }
    return false;
}

static int show_worker(const struct cli *cli, struct sluice *s, struct groups *g, const char *name)
{
    struct group *only = &g->all[0];
    struct sluice_error error = {0};
    enum sluice_code code = SLUICE_OK;
    if (!keep_worker(only, name))
        return cli_fail_as(cli, SLUICE_NOT_FOUND, "NAME",
                           "queue %s has no worker %.128s; \"sluice workers %s\" lists them",
                           only->queue, name, only->queue);
    if (cli->json) {
        struct jobs jobs = {.worker = name, .list = json_list_new()};
        struct json *o = json_new();
        json_text(o, "queue", only->queue);
        fields_put(o, &worker_answer, &only->workers[0]);
        code = read_jobs(s, only->queue, &jobs, &error);
        json_take(o, "jobs", jobs.list);
        if (code == SLUICE_OK)
            json_print(o, stdout);
        else
            json_free(o);
    } else {
        print_table(cli, g, true, stdout);
        code = print_jobs(cli, s, only->queue, name, stdout, &error);
    }
    return code == SLUICE_OK ? 0 : cli_fail_queue(cli, s, only->queue, &error);
}

static void print_json(const struct groups *g)
{
    for (size_t i = 0; i < g->len; i++)
        for (size_t k = 0; k < g->all[i].len; k++) {
            struct json *o = json_new();
            json_text(o, "queue", g->all[i].queue);
            fields_put(o, &worker_answer, &g->all[i].workers[k]);
            json_print(o, stdout);
        }
}

static void print(const struct cli *cli, const struct groups *g, bool one, FILE *out)
{
    print_table(cli, g, one, out);
    print_without(g, one, out);
}

struct workers_screen {
    const struct cli *cli;
    struct sluice *store;
    const char *queue;
};

static void draw(void *ctx, FILE *out)
{
    const struct workers_screen *p = ctx;
    struct groups g = {0};
    struct sluice_error error = {0};
    if (read_all(p->store, p->queue, &g, &error) == SLUICE_OK)
        print(p->cli, &g, p->queue != NULL, out);
    else // a node that is gone comes back, or another one answers
        print_line(out, "%s: %s", sluice_code_name(error.code), error.message);
    groups_free(&g);
}

static int run_workers(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    const char *queue = args->words_len > 0 ? args->words[0] : NULL;
    const char *name = args->words_len > 1 ? args->words[1] : NULL;
    const struct cli_value *interval = &args->options[INTERVAL];
    struct groups g = {0};
    struct sluice_error error = {0};
    int status = 0;
    if (name && args->options[WATCH].given)
        return cli_usage(cli, "--watch", "--watch is for all workers: leave NAME out");
    // An error is reported before a screen opens.
    if (read_all(s, queue, &g, &error) != SLUICE_OK)
        status = cli_fail_queue(cli, s, queue ? queue : "", &error);
    else if (name)
        status = show_worker(cli, s, &g, name);
    else if (args->options[WATCH].given && !cli->json)
        status = screen_watch(interval->given ? (int)interval->number : INTERVAL_MS, draw,
                              &(struct workers_screen){cli, s, queue});
    else if (cli->json)
        print_json(&g);
    else
        print(cli, &g, queue != NULL, stdout);
    groups_free(&g);
    return status;
}

const struct command command_workers = {
    .name = "workers",
    .words = "[QUEUE] [NAME]",
    .summary = "Lists workers, or shows one with the messages it holds",
    .details = "HOLDS is the number of locks. SINCE says for how long the worker receives at its\n"
               "node without a longer pause, SEEN how long ago its last sign of life was. All\n"
               "nodes of a cluster are asked. A worker that uses the store itself, without a\n"
               "node, is listed only while it holds messages. Without a queue it lists all\n"
               "queues. A registered worker (\"work --register\") also has its capacity, labels,\n"
               "and what it finished and failed since it joined. JSON prints an object per\n"
               "worker: queue, name, open, capacity, waiting, and where they apply since,\n"
               "seenAt, node, mode, labels, ttlMs, done, failed.\n"
               "\n"
               "With NAME it shows one worker and the messages that it holds, with their\n"
               "progress. In JSON, \"jobs\" lists them: id, attempt, deadline, and where they\n"
               "apply progress, progressText, progressAt.",
    OPTIONS(options),
    .run_on = run_workers,
};
