// SPDX-License-Identifier: Apache-2.0
// The codecs of the ops about workers: changes of the registry, and the owner's dispatch. A row of
// a change is: u8 act, u64 instance, u32 capacity, i64 ttl, u32 flags, the name, the labels.
#include "base/check.h"
#include "queue/codec/labels.h"
#include "queue/codec/ops.h"
#include "queue/codec/send_codec.h"

#include <string.h>

static bool is_operators(enum worker_act act)
{
    CHECK((unsigned)act < WORKER_ACT_COUNT);
    return act >= WORKER_PAUSE;
}

// An act that is no join has no capacity, ttl, flags or labels. So each change has one encoding.
static bool change_ok(const struct worker_change *c)
{
    if (c->name.len == 0 || (c->instance == 0) != is_operators(c->act)) return false;
    if (c->act != WORKER_JOIN)
        return c->capacity == 0 && c->ttl_ms == 0 && c->flags == 0 && c->labels.len == 0;
    return c->capacity > 0 && c->capacity <= WORKER_CAPACITY_MAX &&
           c->ttl_ms >= WORKER_TTL_MIN_MS && c->ttl_ms <= WORKER_TTL_MAX_MS &&
           c->flags <= WORKER_FLAGS_ALL && (c->labels.len == 0 || labels_are_canonical(c->labels));
}

void worker_change_put(struct buf *rows, const struct worker_change *row)
{
    CHECK((unsigned)row->act < WORKER_ACT_COUNT && change_ok(row));
    CHECK(row->name.len <= WORKER_NAME_MAX);
    buf_put_u8(rows, (uint8_t)row->act);
    buf_put_u64(rows, row->instance);
    buf_put_u32(rows, row->capacity);
    buf_put_i64(rows, row->ttl_ms);
    buf_put_u32(rows, row->flags);
    buf_put_sized(rows, row->name);
    buf_put_sized(rows, row->labels);
}

bool worker_change_next(struct reader *rows, struct worker_change *out)
{
    uint8_t act = read_u8(rows);
    *out =
        (struct worker_change){.act = act < WORKER_ACT_COUNT ? (enum worker_act)act : WORKER_JOIN};
    out->instance = read_u64(rows);
    out->capacity = read_u32(rows);
    out->ttl_ms = read_i64(rows);
    out->flags = read_u32(rows);
    out->name = read_sized(rows, WORKER_NAME_MAX);
    out->labels = read_sized(rows, LABELS_TEXT_MAX);
    if (act >= WORKER_ACT_COUNT || rows->bad || !change_ok(out)) rows->bad = true;
    return reader_ok(rows);
}

void workers_encode(struct buf *out, const struct op_workers *op)
{
    CHECK(op->count <= WORKER_ROWS_MAX);
    op_head_put(out, &op->request);
    buf_put_u32(out, op->count);
    buf_put(out, op->rows);
}

enum err workers_decode(struct bytes payload, struct op_workers *out)
{
    struct reader r = reader_of(payload);
    op_head_read(&r, &out->request);
    out->count = read_u32(&r);
    if (!reader_ok(&r) || out->count > WORKER_ROWS_MAX) return ERR_INVALID;
    out->rows = bytes_of(r.at, r.left);
    for (uint32_t i = 0; i < out->count; i++) {
        struct worker_change row;
        if (!worker_change_next(&r, &row)) return ERR_INVALID;
    }
    return reader_end(&r) ? ERR_OK : ERR_INVALID;
}

void dispatch_encode(struct buf *out, const struct op_dispatch *op)
{
    CHECK(op->max <= CLAIM_COUNT_MAX && op->ticket_ms >= 0 && op->ticket_ms <= LEASE_MAX_MS);
    op_head_put(out, &op->request);
    buf_put(out, bytes_of(op->seed, sizeof op->seed));
    buf_put_i64(out, op->ticket_ms);
    buf_put_u32(out, op->max);
}

enum err dispatch_decode(struct bytes payload, struct op_dispatch *out)
{
    struct reader r = reader_of(payload);
    op_head_read(&r, &out->request);
    struct bytes seed = read_bytes(&r, sizeof out->seed);
    if (seed.len > 0) memcpy(out->seed, seed.data, sizeof out->seed);
    out->ticket_ms = read_i64(&r);
    out->max = read_u32(&r);
    if (out->ticket_ms < 0 || out->ticket_ms > LEASE_MAX_MS || out->max > CLAIM_COUNT_MAX)
        return ERR_INVALID;
    return reader_end(&r) ? ERR_OK : ERR_INVALID;
}
