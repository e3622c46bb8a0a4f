// SPDX-License-Identifier: Apache-2.0
// The ops about workers: changes of the registry, and the owner's dispatch.
#include "base/check.h"
#include "queue/codec/labels.h"
#include "queue/codec/send_codec.h"

#define LAYOUT_OF struct worker_change
static const struct layout_field worker_change_fields[] = {
    ENUM(act, WORKER_ACT_COUNT),
    U64(instance),
    U32(capacity),
    I64(ttl_ms),
    U32(flags),
    BYTES(name, .max = WORKER_NAME_MAX),
    BYTES(labels, .max = LABELS_TEXT_MAX),
};
const struct layout worker_change_layout = LAYOUT(worker_change_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct op_workers
static const struct layout_field op_workers_fields[] = {
    OP_HEAD,
    ROWS(rows, count, worker_change_layout, .max = WORKER_ROWS_MAX),
};
const struct layout op_workers_layout = LAYOUT(op_workers_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct op_dispatch
static const struct layout_field op_dispatch_fields[] = {
    OP_HEAD,
    FIXED(seed),
    I64(ticket_ms, .max = LEASE_MAX_MS),
    U32(max, .max = CLAIM_COUNT_MAX),
};
const struct layout op_dispatch_layout = LAYOUT(op_dispatch_fields);
#undef LAYOUT_OF

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
    CHECK(change_ok(row));
    layout_put(&worker_change_layout, rows, row);
}

bool worker_change_next(struct reader *rows, struct worker_change *out)
{
    if (!layout_next(&worker_change_layout, rows, out)) return false;
    if (!change_ok(out)) rows->bad = true;
    return reader_ok(rows);
}

OP_CODEC(dispatch)

void workers_encode(struct buf *out, const struct op_workers *op)
{
    layout_put(&op_workers_layout, out, op);
}

enum err workers_decode(struct bytes payload, struct op_workers *out)
{
    if (!layout_read_all(&op_workers_layout, payload, out)) return ERR_INVALID;
    struct reader r = reader_of(out->rows);
    struct worker_change row;
    while (worker_change_next(&r, &row))
        continue;
    return reader_end(&r) ? ERR_OK : ERR_INVALID;
}
