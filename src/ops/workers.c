// SPDX-License-Identifier: Apache-2.0
#include "ops/workers.h"
#include "ops/ops.h"

#include "base/array.h"
#include "base/memory.h"
#include "ops/look.h"
#include "queues/waiting_workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_name(const void *left, const void *right)
{
    const struct sluice_worker *a = left, *b = right;
    return strcmp(a->name, b->name);
}

static void note_waiting(struct sluice_worker *w, const struct waiting_row *row)
{
    w->waiting = row->receives;
    if (w->since == 0) w->since = row->since;
    if (row->seen_at > w->seen_at) w->seen_at = row->seen_at;
    memcpy(w->node, row->node, sizeof w->node);
    // Each shard has at least 1 of it. The node knows what the worker joined with.
    if (w->capacity > 0 && row->capacity > 0) w->capacity = row->capacity;
}

size_t workers_add_waiting(struct sluice_worker *rows, size_t len, size_t max,
                           const struct waiting_list *l, const char *queue)
{
    size_t known = len;
    for (size_t i = 0; i < l->len; i++) {
        const struct waiting_row *row = &l->rows[i];
        struct sluice_worker key = {.open = 0};
        if (strcmp(row->queue, queue) != 0) continue;
        memcpy(key.name, row->name, sizeof row->name);
        struct sluice_worker *w =
            known > 0 ? bsearch(&key, rows, known, sizeof *rows, compare_name) : NULL;
        if (!w && len == max) continue;
        if (!w) {
            w = &rows[len++];
            *w = key;
        }
        note_waiting(w, row);
    }
    if (len > known) qsort(rows, len, sizeof *rows, compare_name);
    return len;
}

struct workers_read {
    struct look look; // first
    struct sluice_worker *rows;
    size_t len, room;
    const char *queue;
    struct sluice_worker *out;
    size_t max;
    size_t *out_len;
};

// A registration whose time is up is no more, even if no entry has said so yet.
static void add_worker(struct workers_read *l, const struct worker_view *w, bool registered)
{
    struct sluice_worker *row = ARRAY_ADD(l->rows, l->len, l->room);
    *row = (struct sluice_worker){.open = w->open, .capacity = registered ? w->capacity : 0};
    if (w->instance != 0 && registered) {
        row->since = w->since;
        row->seen_at = w->last_seen;
        row->ttl_ms = w->ttl_ms;
        row->done = w->done;
        row->failed = w->failed;
        (void)snprintf(row->mode, sizeof row->mode, "%s", worker_mode_name(w->mode));
        (void)snprintf(row->labels, sizeof row->labels, "%.*s", (int)w->labels.len,
                       (const char *)w->labels.data);
    }
    (void)snprintf(row->name, sizeof row->name, "%.*s", (int)w->name.len,
                   (const char *)w->name.data);
}

static void add_workers(void *ctx, const struct machine *m, int64_t now)
{
    struct worker_view w;
    for (size_t i = 0; machine_worker(m, i, &w); i++) {
        bool registered = w.capacity > 0 && w.expires_at > now;
        if (w.open > 0 || registered) add_worker(ctx, &w, registered);
    }
}

// Joins the rows of a worker that has locks on several shards, or is registered in them.
static void join_shards(struct workers_read *l)
{
    size_t kept = 0;
    if (l->len > 0) qsort(l->rows, l->len, sizeof *l->rows, compare_name);
    for (size_t i = 0; i < l->len; i++) {
        struct sluice_worker *last = kept > 0 ? &l->rows[kept - 1] : NULL;
        const struct sluice_worker *row = &l->rows[i];
        if (!last || strcmp(last->name, row->name) != 0) {
            l->rows[kept++] = *row;
            continue;
        }
        last->open += row->open;
        last->capacity += row->capacity;
        last->done += row->done;
        last->failed += row->failed;
        if (row->seen_at > last->seen_at) last->seen_at = row->seen_at;
    }
    l->len = kept;
}

static void end(struct look *look, struct local_call *c)
{
    struct workers_read *l = (struct workers_read *)look;
    struct waiting_list waiting = {0};
    if (call_code(c)) return;
    join_shards(l);
    size_t len = l->len < l->max ? l->len : l->max;
    if (len > 0) memcpy(l->out, l->rows, len * sizeof *l->out);
    owner_waiting(c->engine, l->queue, &waiting);
    *l->out_len = workers_add_waiting(l->out, len, l->max, &waiting, l->queue);
    waiting_list_done(&waiting);
}

static void release(struct look *l)
{
    memory_free(((struct workers_read *)l)->rows);
}

enum sluice_code start_workers(const struct request_origin *as, const char *queue,
                               struct sluice_worker *out, size_t max, size_t *len,
                               struct sluice_error *error)
{
    struct workers_read *read = NEW(struct workers_read);
    read->look =
        (struct look){.inspect = add_workers, .end = end, .release = release, .owned = true};
    read->queue = queue;
    read->out = out;
    read->max = max;
    read->out_len = len;
    *len = 0;
    return look_at_queue(as, queue, &read->look, error);
}
