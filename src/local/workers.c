// SPDX-License-Identifier: Apache-2.0
#include "local/workers.h"

#include "base/check.h"
#include "base/memory.h"
#include "local/look.h"
#include "owner/waiting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void waiting_list_add(struct waiting_list *l, const struct waiting_row *row)
{
    if (l->len == l->room) {
        l->room = l->room ? 2 * l->room : 64;
        l->rows = memory_resize(l->rows, l->room * sizeof *l->rows);
    }
    l->rows[l->len++] = *row;
    CHECK(l->len <= l->room);
}

void waiting_list_done(struct waiting_list *l)
{
    memory_free(l->rows);
    *l = (struct waiting_list){0};
}

static int compare_worker(const struct waiting_row *a, const struct waiting_row *b)
{
    int order = strcmp(a->queue, b->queue);
    return order ? order : strcmp(a->name, b->name);
}

// Rows of a worker are consecutive: first those of its own node.
static int compare_row(const void *left, const void *right)
{
    const struct waiting_row *a = left, *b = right;
    int order = compare_worker(a, b);
    if (order) return order;
    return a->relayed != b->relayed ? (a->relayed ? 1 : -1) : strcmp(a->node, b->node);
}

// The same node may have answered twice, so its receives are not added up.
static void join(struct waiting_row *to, const struct waiting_row *from, bool same_node)
{
    if (same_node)
        to->receives = from->receives > to->receives ? from->receives : to->receives;
    else
        to->receives += from->receives;
    if (from->since < to->since) to->since = from->since;
    if (from->ago_ms < to->ago_ms) to->ago_ms = from->ago_ms;
    if (to->capacity == 0 || (from->capacity > 0 && from->seen_at > to->seen_at))
        to->capacity = from->capacity;
    if (from->seen_at <= to->seen_at) return;
    to->seen_at = from->seen_at;
    memcpy(to->node, from->node, sizeof to->node);
}

void waiting_list_tidy(struct waiting_list *l)
{
    size_t kept = 0;
    char node[NODE_SHOWN_MAX] = ""; // of the row that was joined last
    if (l->len > 0) qsort(l->rows, l->len, sizeof *l->rows, compare_row);
    for (size_t i = 0; i < l->len; i++) {
        const struct waiting_row *row = &l->rows[i];
        struct waiting_row *last = kept > 0 ? &l->rows[kept - 1] : NULL;
        bool same = last && compare_worker(last, row) == 0;
        // What another node passed on is in that node's row.
        if (same && row->relayed && !last->relayed) continue;
        if (same)
            join(last, row, strcmp(node, row->node) == 0);
        else
            l->rows[kept++] = *row;
        memcpy(node, row->node, sizeof node);
    }
    CHECK(kept <= l->len);
    l->len = kept;
}

// The first row whose queue is not before this one, or, with `after`, that is after it.
static size_t bound(const struct waiting_list *l, const char *queue, bool after)
{
    size_t from = 0, to = l->len;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = strcmp(l->rows[middle].queue, queue);
        if (order < 0 || (after && order == 0))
            from = middle + 1;
        else
            to = middle;
    }
    CHECK(from <= l->len);
    return from;
}

size_t waiting_list_count(const struct waiting_list *l, const char *queue)
{
    return bound(l, queue, true) - bound(l, queue, false);
}

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
};

// A registration whose time is up is no more, even if no entry has said so yet.
static void add_worker(struct workers_read *l, const struct worker_view *w, bool registered)
{
    if (l->len == l->room) {
        l->room = l->room ? 2 * l->room : 64;
        l->rows = memory_resize(l->rows, l->room * sizeof *l->rows);
    }
    struct sluice_worker *row = &l->rows[l->len++];
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

enum sluice_code direct_workers(struct sluice *s, const char *queue, struct sluice_worker *out,
                                size_t max, size_t *len, struct sluice_error *error)
{
    struct workers_read read = {.look = {.inspect = add_workers}};
    *len = 0;
    enum sluice_code code = look_at_queue(s, queue, &read.look, error);
    if (!code) {
        struct waiting_list waiting = {0};
        join_shards(&read);
        *len = read.len < max ? read.len : max;
        if (*len > 0) memcpy(out, read.rows, *len * sizeof *out);
        owner_waiting(s, queue, &waiting);
        *len = workers_add_waiting(out, *len, max, &waiting, queue);
        waiting_list_done(&waiting);
    }
    memory_free(read.rows);
    return code;
}
