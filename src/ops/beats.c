// SPDX-License-Identifier: Apache-2.0
// The fold knows which workers are registered, so a node keeps no list of its own: a worker may
// join at one node and receive at another. A shard that this node owns is read as it is. Others are
// read up to their tails.
#include "ops/beats.h"

#include "base/memory.h"
#include "ops/look.h"
#include "ops/worker_change.h"

#include <stdlib.h>
#include <string.h>

struct beats_read {
    struct look look; // first
    const struct waiting_list *waiting;
    struct worker_order *orders; // of workers that are due, each once
    size_t len;
    bool *due; // by the index in waiting
    int64_t again_ms;
};

int beats_compare(const struct waiting_row *a, const struct waiting_row *b)
{
    int order = strcmp(a->name, b->name);
    return order ? order : (a->instance > b->instance) - (a->instance < b->instance);
}

static int compare_view(const void *key, const void *row)
{
    const struct waiting_row *b = row;
    const struct worker_view *a = key;
    int order = strncmp((const char *)a->name.data, b->name, a->name.len);
    if (order == 0) order = -(b->name[a->name.len] != '\0');
    return order ? order : (a->instance > b->instance) - (a->instance < b->instance);
}

// A row is written a little early, together with others.
static void note_row(struct beats_read *b, const struct worker_view *w, int64_t now)
{
    const struct waiting_row *row =
        bsearch(w, b->waiting->rows, b->waiting->len, sizeof *b->waiting->rows, compare_view);
    if (w->instance == 0 || w->mode == WORKER_IS_EVICTED || !row || w->expires_at <= now) return;
    int64_t part = w->ttl_ms / 3, age = now - w->last_seen;
    if (part < b->again_ms) b->again_ms = part;
    if (age < part / 2 || row->ago_ms >= age) return; // nothing was heard since the last one
    b->due[row - b->waiting->rows] = true;
}

static void read_rows(void *ctx, const struct machine *m, int64_t now)
{
    struct worker_view w;
    for (size_t i = 0; machine_worker(m, i, &w); i++)
        note_row(ctx, &w, now);
}

static bool read_owned(struct open_queue *q, struct beats_read *b)
{
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct shard_runner *r = runner_if_open(q, i);
        struct runner_owner o = {.mine = false};
        if (r) runner_owner(r, &o);
        if (!o.mine) return false;
    }
    for (uint32_t i = 0; i < q->row.birth.shards; i++)
        runner_inspect(runner_if_open(q, i), read_rows, b);
    return true;
}

size_t beats_write(struct engine *e, const char *queue, const struct waiting_list *waiting,
                   int64_t *again_ms)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    *again_ms = BEATS_NONE_MS;
    if (waiting->len == 0 || queue_get(e, queue, &q, NULL)) return 0;
    struct beats_read b = {.look = {.inspect = read_rows},
                           .waiting = waiting,
                           .again_ms = BEATS_NONE_MS,
                           .due = memory_zeroed(waiting->len, sizeof *b.due)};
    if (!read_owned(q, &b)) (void)look_at_open_queue(q, &b.look, NULL);
    b.orders = memory_zeroed(waiting->len, sizeof *b.orders);
    for (size_t i = 0; i < waiting->len; i++)
        if (b.due[i])
            b.orders[b.len++] = (struct worker_order){.act = WORKER_BEAT,
                                                      .name = waiting->rows[i].name,
                                                      .instance = waiting->rows[i].instance};
    if (b.len > 0 && workers_change(e, queue, b.orders, b.len, NULL, NULL)) b.len = 0;
    *again_ms = b.again_ms;
    memory_free(b.orders);
    memory_free(b.due);
    return b.len;
}
