// SPDX-License-Identifier: Apache-2.0
// A plan as bytes: the head with the nodes, u32 queues, then each: its head, then its rows. A row
// has its shard without the queue, because a queue has many. A reader checks every field, because
// other processes write these bytes.
#include "base/check.h"
#include "base/layout.h"
#include "base/memory.h"
#include "cluster/placement.h"

#include <string.h>

#define FORMAT    1
#define NODES_MAX ((size_t)2 * PLACEMENT_MEMBERS_MAX)

#define LAYOUT_OF struct member_id
static const struct layout_field plan_node_fields[] = {TEXT(name, .min = 1), FIXED(incarnation)};
const struct layout plan_node_layout = LAYOUT(plan_node_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct plan
static const struct layout_field plan_fields[] = {
    MARK(1, "format", FORMAT),
    U64(epoch, .min = 1),
    U64(number, .min = 1),
    I64(rebalanced_at),
    U32(moves),
    U32(waiting),
    ARRAY(nodes, nodes_len, plan_node_layout, .max = NODES_MAX),
};
const struct layout plan_layout = LAYOUT(plan_fields);
#undef LAYOUT_OF

struct plan_queue {
    uint8_t id[16];
    uint32_t rows;
};

#define LAYOUT_OF struct plan_queue
static const struct layout_field plan_queue_fields[] = {FIXED(id), U32(rows, .min = 1)};
const struct layout plan_queue_layout = LAYOUT(plan_queue_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct plan_row
static const struct layout_field plan_row_fields[] = {
    U32(shard.shard), U32(owner), U32(from), ENUM(reason, MOVE_REASONS), I64(moved_at),
};
const struct layout plan_row_layout = LAYOUT(plan_row_fields);
#undef LAYOUT_OF

static size_t queue_rows(const struct plan *p, size_t from)
{
    size_t to = from;
    while (to < p->rows_len && memcmp(p->rows[to].shard.queue, p->rows[from].shard.queue, 16) == 0)
        to++;
    return to - from;
}

static void put_rows(const struct plan *p, struct buf *out)
{
    uint32_t queues = 0;
    size_t count_at = out->len;
    buf_put_u32(out, 0);
    for (size_t i = 0; i < p->rows_len; queues++) {
        size_t len = queue_rows(p, i);
        struct plan_queue queue = {.rows = (uint32_t)len};
        memcpy(queue.id, p->rows[i].shard.queue, sizeof queue.id);
        layout_put(&plan_queue_layout, out, &queue);
        for (size_t end = i + len; i < end; i++)
            layout_put(&plan_row_layout, out, &p->rows[i]);
    }
    if (!out->bad) buf_set_u32(out, count_at, queues);
}

void plan_encode(const struct plan *p, struct buf *out)
{
    layout_put(&plan_layout, out, p);
    put_rows(p, out);
}

static bool get_row(struct reader *r, const struct plan *p, struct plan_row *row)
{
    return layout_read(&plan_row_layout, r, row) &&
           (row->owner == SHARD_NONE || row->owner < p->nodes_len) &&
           (row->from == SHARD_NONE || row->from < p->nodes_len);
}

// Rows must ascend: plan_find searches by halves. A queue stands once, so a plan has one encoding.
static bool get_queue(struct reader *r, struct plan *p)
{
    struct plan_queue queue;
    if (!layout_read(&plan_queue_layout, r, &queue)) return false;
    const struct plan_row *last = p->rows_len > 0 ? &p->rows[p->rows_len - 1] : NULL;
    if (last && memcmp(last->shard.queue, queue.id, sizeof queue.id) == 0) return false;
    size_t len = queue.rows, least = layout_bytes_min(&plan_row_layout);
    if (len > r->left / least || p->rows_len + len > PLACEMENT_SHARDS_MAX) return false;
    p->rows = memory_resize(p->rows, (p->rows_len + len + 1) * sizeof *p->rows);
    for (size_t i = 0; i < len; i++) {
        struct plan_row *row = &p->rows[p->rows_len];
        *row = (struct plan_row){0};
        memcpy(row->shard.queue, queue.id, sizeof queue.id);
        if (!get_row(r, p, row)) return false;
        if (p->rows_len > 0 && shard_key_compare(&row[-1].shard, &row->shard) >= 0) return false;
        p->rows_len++;
    }
    return true;
}

static bool get_plan(struct reader *r, struct plan *p)
{
    if (!layout_read(&plan_layout, r, p) || p->number > PLAN_NUMBER_MAX) return false;
    uint32_t queues = read_u32(r);
    if (!reader_ok(r) || queues > r->left / layout_bytes_min(&plan_queue_layout)) return false;
    for (uint32_t i = 0; i < queues; i++)
        if (!get_queue(r, p)) return false;
    return reader_end(r);
}

bool plan_decode(struct bytes from, struct plan *out)
{
    struct reader r = reader_of(from);
    plan_done(out);
    if (from.len <= PLAN_BYTES_MAX && get_plan(&r, out)) return true;
    plan_done(out);
    return false;
}
