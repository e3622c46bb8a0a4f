// SPDX-License-Identifier: Apache-2.0
// The workflows of a queue, as its shards have them.
#include "base/array.h"
#include "base/duration.h"
#include "base/memory.h"
#include "ops/look.h"
#include "ops/ops.h"
#include "queue/tables/signal_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE      256
#define TASKS_MAX 10000

static void copy_text(char *to, size_t to_len, struct bytes from)
{
    (void)snprintf(to, to_len, "%.*s", (int)from.len, (const char *)from.data);
}

static void fill(struct sluice_workflow *row, const struct workflow_view *v, uint32_t shard)
{
    *row = (struct sluice_workflow){.open = v->open,
                                    .done = v->done,
                                    .failed = v->failed,
                                    .cancelled = v->cancelled,
                                    .run = v->run,
                                    .shard = shard,
                                    .begun = v->begun,
                                    .seen_at = v->seen,
                                    .last = v->saw_last};
    copy_text(row->id, sizeof row->id, v->id);
    copy_text(row->state, sizeof row->state, bytes_str(workflow_state_name(v->state)));
}

struct list_read {
    struct look look; // first
    struct sluice_workflow *rows;
    size_t len, room;
    struct sluice_workflow *out;
    size_t max;
    size_t *out_len;
};

static void add_rows(void *ctx, const struct machine *m, int64_t now)
{
    struct list_read *l = ctx;
    struct workflow_view page[PAGE];
    size_t len = 0;
    (void)now;
    for (uint64_t after = 0; (len = machine_workflows(m, after, page, PAGE)) > 0;) {
        (void)ARRAY_ROOM(l->rows, l->len, l->room, len);
        for (size_t i = 0; i < len; i++)
            fill(&l->rows[l->len++], &page[i], l->look.at);
        after = page[len - 1].number;
    }
}

static enum sluice_code list_shard(struct look *l, struct sluice_error *error)
{
    (void)error;
    runner_inspect(l->runner, add_rows, l);
    return SLUICE_OK;
}

static int newest_first(const void *left, const void *right)
{
    const struct sluice_workflow *a = left, *b = right;
    if (a->seen_at != b->seen_at) return a->seen_at < b->seen_at ? 1 : -1;
    return strcmp(a->id, b->id);
}

static void end_list(struct look *look, struct local_call *c)
{
    struct list_read *l = (struct list_read *)look;
    if (call_code(c) || l->len == 0) return;
    qsort(l->rows, l->len, sizeof *l->rows, newest_first);
    *l->out_len = l->len < l->max ? l->len : l->max;
    memcpy(l->out, l->rows, *l->out_len * sizeof *l->out);
}

static void release_list(struct look *l)
{
    memory_free(((struct list_read *)l)->rows);
}

enum sluice_code start_workflows(const struct request_origin *as, const char *queue,
                                 struct sluice_workflow *out, size_t max, size_t *len,
                                 struct sluice_error *error)
{
    struct list_read *read = NEW(struct list_read);
    read->look =
        (struct look){.shard = list_shard, .end = end_list, .release = release_list, .owned = true};
    read->out = out;
    read->max = max;
    read->out_len = len;
    *len = 0;
    return look_at_queue(as, queue, &read->look, error);
}

struct show_read {
    struct look look; // first
    const char *id;
    bool found;
    struct sluice_workflow *out;
    struct sluice_task *tasks;
    size_t max, len;
    size_t *out_len;
    int64_t kept_ms; // how long a finished workflow is kept
};

static void add_task(struct show_read *r, const struct machine *m, uint64_t seq, int64_t now)
{
    struct message_view v;
    struct progress_view progress;
    struct sluice_task *t = &r->tasks[r->len];
    if (machine_find(m, seq, now, &v)) return;
    *t = (struct sluice_task){.attempt = v.deliveries, .until = v.until, .percent = -1};
    if (machine_progress(m, seq, &progress)) t->percent = progress.percent;
    id_print(queue_ref(r->look.queue), r->look.at, seq, t->id);
    copy_text(t->state, sizeof t->state, bytes_str(message_state_name(v.state)));
    copy_text(t->worker, sizeof t->worker, v.worker);
    r->len++;
}

static void read_workflow(void *ctx, const struct machine *m, int64_t now)
{
    struct show_read *r = ctx;
    struct workflow_view v;
    r->kept_ms = machine_config(m)->retention_ms;
    size_t room = r->max < TASKS_MAX ? r->max : TASKS_MAX;
    if (!machine_workflow(m, bytes_str(r->id), &v)) return;
    CLEANUP(memory_let_go) uint64_t *seqs = memory_new((room + 1) * sizeof *seqs);
    size_t len = machine_workflow_messages(m, bytes_str(r->id), seqs, room);
    r->found = true;
    fill(r->out, &v, r->look.at);
    for (size_t i = 0; i < len; i++)
        add_task(r, m, seqs[i], now);
}

static enum sluice_code show_shard(struct look *l, struct sluice_error *error)
{
    (void)error;
    runner_inspect(l->runner, read_workflow, l);
    l->enough = ((const struct show_read *)l)->found;
    return SLUICE_OK;
}

static void end_show(struct look *look, struct local_call *c)
{
    struct show_read *r = (struct show_read *)look;
    char kept[DURATION_TEXT_MAX];
    *r->out_len = r->len;
    if (call_code(c) || r->found) return;
    (void)refuse(call_error(c), ERR_NOT_FOUND, "workflow",
                 "queue %s has no workflow \"%.100s\"; a finished one is kept for %s (the setting "
                 "retention)",
                 c->name, r->id, duration_exact(r->kept_ms, kept));
}

enum sluice_code start_workflow_show(const struct request_origin *as, const char *queue,
                                     const char *id, struct sluice_workflow *out,
                                     struct sluice_task *tasks, size_t max, size_t *len,
                                     struct sluice_error *error)
{
    struct show_read *read = NEW(struct show_read);
    read->look = (struct look){.shard = show_shard, .end = end_show, .owned = true};
    read->id = id;
    read->out = out;
    read->tasks = tasks;
    read->max = max;
    read->out_len = len;
    return look_at_queue(as, queue, &read->look, error);
}
