// SPDX-License-Identifier: Apache-2.0
// A plan as bytes, little-endian:
//
//   u8   format, 1
//   u64  epoch, number; i64 rebalanced_at; u32 moves, waiting
//   u32  nodes, then each: sized name, 32 bytes incarnation
//   u32  queues, then each: 16 bytes id, u32 rows, then each row:
//        u32 shard, owner, from (SHARD_NONE: none); u8 reason; i64 moved_at
//
// The nodes of a plan are few and a queue has many shards, so a row has 21 bytes. A reader checks
// every field, because other processes write these bytes.
#include "base/check.h"
#include "base/memory.h"
#include "cluster/placement.h"

#include <string.h>

#define FORMAT    1
#define NODES_MAX ((size_t)2 * PLACEMENT_MEMBERS_MAX)

static size_t queue_rows(const struct plan *p, size_t from)
{
    size_t to = from;
    while (to < p->rows_len && memcmp(p->rows[to].shard.queue, p->rows[from].shard.queue, 16) == 0)
        to++;
    return to - from;
}

static void put_row(const struct plan_row *row, struct buf *out)
{
    buf_put_u32(out, row->shard.shard);
    buf_put_u32(out, row->owner);
    buf_put_u32(out, row->from);
    buf_put_u8(out, (uint8_t)row->reason);
    buf_put_i64(out, row->moved_at);
}

static void put_rows(const struct plan *p, struct buf *out)
{
    uint32_t queues = 0;
    size_t count_at = out->len;
    buf_put_u32(out, 0);
    for (size_t i = 0; i < p->rows_len; queues++) {
        size_t len = queue_rows(p, i);
        buf_put(out, bytes_of(p->rows[i].shard.queue, 16));
        buf_put_u32(out, (uint32_t)len);
        for (size_t end = i + len; i < end; i++)
            put_row(&p->rows[i], out);
    }
    if (!out->bad) buf_set_u32(out, count_at, queues);
}

void plan_encode(const struct plan *p, struct buf *out)
{
    CHECK(p->nodes_len <= NODES_MAX);
    buf_put_u8(out, FORMAT);
    buf_put_u64(out, p->epoch);
    buf_put_u64(out, p->number);
    buf_put_i64(out, p->rebalanced_at);
    buf_put_u32(out, p->moves);
    buf_put_u32(out, p->waiting);
    buf_put_u32(out, (uint32_t)p->nodes_len);
    for (size_t i = 0; i < p->nodes_len; i++) {
        buf_put_sized(out, bytes_str(p->nodes[i].name));
        buf_put(out, bytes_of(p->nodes[i].incarnation, sizeof p->nodes[i].incarnation));
    }
    put_rows(p, out);
}

static bool get_node(struct reader *r, struct member_id *id)
{
    struct bytes name = read_sized(r, MEMBER_NAME_MAX);
    struct bytes incarnation = read_bytes(r, sizeof id->incarnation);
    if (!reader_ok(r) || name.len == 0 || memchr(name.data, 0, name.len)) return false;
    *id = (struct member_id){0};
    memcpy(id->name, name.data, name.len);
    memcpy(id->incarnation, incarnation.data, sizeof id->incarnation);
    return true;
}

static bool get_nodes(struct reader *r, struct plan *p)
{
    size_t len = read_u32(r);
    if (!reader_ok(r) || len > NODES_MAX || len > r->left / 32) return false;
    p->nodes = memory_zeroed(len + 1, sizeof *p->nodes);
    for (; p->nodes_len < len; p->nodes_len++)
        if (!get_node(r, &p->nodes[p->nodes_len])) return false;
    return true;
}

static bool get_row(struct reader *r, const struct plan *p, struct plan_row *row)
{
    row->shard.shard = read_u32(r);
    row->owner = read_u32(r);
    row->from = read_u32(r);
    row->reason = (enum move_reason)read_u8(r);
    row->moved_at = read_i64(r);
    return reader_ok(r) && row->reason < MOVE_REASONS &&
           (row->owner == SHARD_NONE || row->owner < p->nodes_len) &&
           (row->from == SHARD_NONE || row->from < p->nodes_len);
}

// Rows must ascend: plan_find searches by halves.
static bool get_queue(struct reader *r, struct plan *p)
{
    struct bytes queue = read_bytes(r, 16);
    size_t len = read_u32(r);
    if (!reader_ok(r) || len > r->left / 21 || p->rows_len + len > PLACEMENT_SHARDS_MAX)
        return false;
    p->rows = memory_resize(p->rows, (p->rows_len + len + 1) * sizeof *p->rows);
    for (size_t i = 0; i < len; i++) {
        struct plan_row *row = &p->rows[p->rows_len];
        *row = (struct plan_row){0};
        memcpy(row->shard.queue, queue.data, 16);
        if (!get_row(r, p, row)) return false;
        if (p->rows_len > 0 && shard_key_compare(&row[-1].shard, &row->shard) >= 0) return false;
        p->rows_len++;
    }
    return true;
}

static bool get_plan(struct reader *r, struct plan *p)
{
    if (read_u8(r) != FORMAT) return false;
    p->epoch = read_u64(r);
    p->number = read_u64(r);
    p->rebalanced_at = read_i64(r);
    p->moves = read_u32(r);
    p->waiting = read_u32(r);
    if (!get_nodes(r, p)) return false;
    uint32_t queues = read_u32(r);
    if (!reader_ok(r) || queues > r->left / 20) return false;
    for (uint32_t i = 0; i < queues; i++)
        if (!get_queue(r, p)) return false;
    return reader_end(r) && p->epoch > 0 && p->number > 0;
}

bool plan_decode(struct bytes from, struct plan *out)
{
    struct reader r = reader_of(from);
    plan_done(out);
    if (from.len <= PLAN_BYTES_MAX && get_plan(&r, out)) return true;
    plan_done(out);
    return false;
}
