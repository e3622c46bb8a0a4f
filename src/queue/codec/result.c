// SPDX-License-Identifier: Apache-2.0
// Result bodies: a reason, then a count or a value, then grants or runs of equal rows.
#include "queue/codec/result.h"

#include "base/check.h"
#include "base/layout_inline.h"
#include "queue/codec/layouts.h"
#include "queue/codec/ops_signals.h"

#include <assert.h>

#define LAYOUT_OF struct send_row
static const struct layout_field send_row_fields[] = {ENUM(reason, REASON_COUNT), U64(seq)};
const struct layout send_row_layout = LAYOUT(send_row_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct outcome_row
static const struct layout_field outcome_row_fields[] = {
    ENUM(reason, REASON_COUNT),
    ENUM(status, OUTCOME_STATUS_COUNT),
    I64(until),
};
const struct layout outcome_row_layout = LAYOUT(outcome_row_fields);
static const struct layout_field reason_row_fields[] = {ENUM(reason, REASON_COUNT)};
const struct layout reason_row_layout = LAYOUT(reason_row_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct signal_row
static const struct layout_field signal_row_fields[] = {
    U64(seq), U32(number), ENUM(reason, REASON_COUNT), ENUM(state, SIGNAL_STATE_COUNT), I64(until),
};
const struct layout signal_row_layout = LAYOUT(signal_row_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct grant
static const struct layout_field grant_fields[] = {
    U64(seq),      U64(place.slot), U32(place.skip), HASH(token), U64(fence),
    I64(deadline), U32(deliveries), U32(retries),    U64(order),  U32(worker_row),
};
const struct layout grant_layout = LAYOUT(grant_fields);
#undef LAYOUT_OF

static const char *const status_names[OUTCOME_STATUS_COUNT] = {
    "none", "processed", "retrying", "dead-lettered", "cancelled", "purged"};

const char *outcome_status_name(enum outcome_status s)
{
    CHECK((unsigned)s < OUTCOME_STATUS_COUNT);
    return status_names[s];
}

// The rows of a result. NULL: it has none.
static const struct layout *rows_of(uint16_t kind)
{
    switch (kind) {
    case OP_SEND:
        return &send_row_layout;
    case OP_CLAIM:
    case OP_TAKE:
    case OP_PUBLISH:
    case OP_DISPATCH:
    case OP_LOCK:
        return &grant_layout;
    case OP_WORKERS:
    case OP_SIGNAL_SETTLE:
        return &reason_row_layout;
    case OP_SIGNAL:
    case OP_SIGNAL_WITHDRAW:
        return &signal_row_layout;
    case OP_RENEW:
    case OP_ACK:
    case OP_FAIL:
    case OP_RELEASE:
    case OP_CANCEL:
        return &outcome_row_layout;
    default:
        return NULL;
    }
}

static enum reason read_reason(struct reader *r)
{
    uint8_t reason = read_u8(r);
    if (reason >= REASON_COUNT) r->bad = true;
    return r->bad ? REASON_MALFORMED : (enum reason)reason;
}

#define ROWS_MAX 10000
static_assert(SEND_COUNT_MAX <= ROWS_MAX && CLAIM_COUNT_MAX <= ROWS_MAX && REFS_MAX <= ROWS_MAX &&
                  WORKER_ROWS_MAX <= ROWS_MAX,
              "an op has no more rows than this");

// Returns whether the rows, or runs of them, are good and add up to the count. Any bytes are a
// grant.
static bool rows_ok(const struct result *out, const struct layout *rows)
{
    uint64_t row[LAYOUT_ROW_SIZE_MAX / sizeof(uint64_t)], sum = 0;
    struct reader r = out->rows;
    CHECK(rows->size <= sizeof row);
    if (out->count > ROWS_MAX) return false;
    if (rows == &grant_layout) return r.left == out->count * LAYOUT_BYTES_MIN(grant_fields);
    while (r.left > 0) {
        uint32_t run = rows == &signal_row_layout ? 1 : read_u32(&r);
        sum += run;
        if (run == 0 || !layout_read(rows, &r, row)) return false;
    }
    return sum == out->count;
}

// The workers that the grants name: u32 count, then the names.
static bool open_names(struct result *out)
{
    struct reader r = out->rows;
    if (out->count > ROWS_MAX) return false;
    out->rows = reader_of(read_bytes(&r, out->count * LAYOUT_BYTES_MIN(grant_fields)));
    out->names = r;
    uint32_t count = read_u32(&r);
    if (count > out->count) return false;
    for (uint32_t i = 0; i < count; i++)
        if (read_sized(&r, WORKER_NAME_MAX).len == 0) return false;
    return reader_end(&r);
}

enum err result_open(struct bytes body, uint16_t kind, struct result *out)
{
    struct reader r = reader_of(body);
    *out = (struct result){.reason = read_reason(&r)};
    if (!reader_ok(&r)) return ERR_INVALID;
    if (r.left == 0) return ERR_OK; // refused as a whole, or without further fields
    const struct layout *rows = rows_of(kind);
    if (!rows) {
        out->value = read_u64(&r);
        if (kind == OP_REDRIVE) out->count = read_u32(&r);
        return reader_end(&r) ? ERR_OK : ERR_INVALID;
    }
    out->count = read_u32(&r);
    out->rows = r;
    if (reader_ok(&r) && kind == OP_DISPATCH && !open_names(out)) return ERR_INVALID;
    return reader_ok(&r) && rows_ok(out, rows) ? ERR_OK : ERR_INVALID;
}

static bool repeats(enum reason reason)
{
    return reason != REASON_NONE && reason != REASON_DUPLICATE;
}

// Reads a run's row unless the last one goes on.
static bool run_next(struct result *r, const struct layout *rows, void *row)
{
    if (r->run > 0) return r->run--, true;
    if (r->rows.left == 0) return false;
    r->run = read_u32(&r->rows) - 1;
    CHECK(r->run < ROWS_MAX && layout_read(rows, &r->rows, row)); // rows_ok has read it
    return true;
}

bool send_row_next(struct result *r, struct send_row *out)
{
    if (r->run > 0 && !repeats(r->sent.reason)) r->sent.seq++;
    if (!run_next(r, &send_row_layout, &r->sent)) return false;
    *out = r->sent;
    return true;
}

bool outcome_row_next(struct result *r, struct outcome_row *out)
{
    if (!run_next(r, &outcome_row_layout, &r->outcome)) return false;
    *out = r->outcome;
    return true;
}

bool worker_reason_next(struct result *r, enum reason *out)
{
    if (!run_next(r, &reason_row_layout, &r->outcome)) return false;
    *out = r->outcome.reason;
    return true;
}

bool grant_next(struct result *r, struct grant *out)
{
    return r->rows.left > 0 && LAYOUT_READ(grant_fields, &r->rows, out);
}

bool signal_row_next(struct result *r, struct signal_row *out)
{
    return layout_next(&signal_row_layout, &r->rows, out);
}

bool dispatch_worker(const struct result *r, uint32_t worker_row, struct bytes *name)
{
    struct reader names = r->names;
    uint32_t count = read_u32(&names);
    if (!reader_ok(&names) || worker_row >= count) return false;
    for (uint32_t i = 0; i <= worker_row; i++)
        *name = read_sized(&names, WORKER_NAME_MAX);
    CHECK(reader_ok(&names)); // result_open has checked it
    return true;
}

void result_begin(struct buf *out, enum reason reason)
{
    static_assert(REASON_COUNT < 256, "a reason is one byte");
    CHECK(out->len == 0 && (unsigned)reason < REASON_COUNT);
    buf_put_u8(out, (uint8_t)reason);
}

// Returns the bytes of the last run's row, to be compared, and its count in *run; NULL: there is
// none.
static const uint8_t *last_run(const struct buf *out, size_t rows_at, size_t row_bytes,
                               uint32_t *run)
{
    CHECK(out->bad || out->len >= rows_at);
    if (out->bad || out->len < rows_at + 4 + row_bytes) return NULL;
    const uint8_t *row = out->data + out->len - row_bytes;
    *run = (uint32_t)le_get(row - 4, 4);
    CHECK(*run > 0 && *run < ROWS_MAX);
    return row;
}

void send_row_put(struct buf *out, size_t rows_at, enum reason reason, uint64_t seq)
{
    const size_t size = LAYOUT_BYTES_MIN(send_row_fields);
    uint32_t run;
    const uint8_t *last = last_run(out, rows_at, size, &run);
    if (last && last[0] == reason && le_get(last + 1, 8) + (repeats(reason) ? 0 : run) == seq) {
        buf_set_u32(out, out->len - size - 4, run + 1);
        return;
    }
    buf_put_u32(out, 1);
    LAYOUT_PUT(send_row_fields, out, (&(struct send_row){reason, seq}));
}

// Drops a run of one row that was just added if the last run before it has the same row.
static void join_run(struct buf *out, size_t rows_at, size_t row_bytes)
{
    uint32_t run;
    size_t at = out->len - row_bytes;
    if (out->bad || at < rows_at + 4 + 4 + row_bytes) return;
    out->len = at - 4;
    const uint8_t *last = last_run(out, rows_at, row_bytes, &run);
    if (memcmp(last, out->data + at, row_bytes) == 0)
        buf_set_u32(out, out->len - row_bytes - 4, run + 1);
    else
        out->len = at + row_bytes;
}

void outcome_row_put(struct buf *out, size_t rows_at, const struct outcome_row *row)
{
    buf_put_u32(out, 1);
    LAYOUT_PUT(outcome_row_fields, out, row);
    join_run(out, rows_at, LAYOUT_BYTES_MIN(outcome_row_fields));
}

void worker_reason_put(struct buf *out, size_t rows_at, enum reason reason)
{
    buf_put_u32(out, 1);
    layout_put(&reason_row_layout, out, &(struct outcome_row){.reason = reason});
    join_run(out, rows_at, LAYOUT_BYTES_MIN(reason_row_fields));
}

void grant_put(struct buf *out, const struct grant *g)
{
    CHECK(g->seq > 0);
    LAYOUT_PUT(grant_fields, out, g);
}

void signal_row_put(struct buf *out, const struct signal_row *row)
{
    layout_put(&signal_row_layout, out, row);
}
