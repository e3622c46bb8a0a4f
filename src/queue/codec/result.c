// SPDX-License-Identifier: Apache-2.0
// Result bodies: a reason, then a count or a value, then grants or runs of equal rows.
#include "queue/codec/result.h"

#include "base/check.h"
#include "queue/codec/ops_signals.h"

#include <assert.h>

#define GRANT_BYTES       72
#define SEND_RUN_BYTES    13 // u32 count, u8 reason, u64 first number
#define OUTCOME_RUN_BYTES 14 // u32 count, u8 reason, u8 status, i64 until
#define REASON_RUN_BYTES  5  // u32 count, u8 reason
#define SIGNAL_ROW_BYTES  22 // u64 message, u32 number, u8 reason, u8 state, i64 until

static const char *const status_names[OUTCOME_STATUS_COUNT] = {
    "none", "processed", "retrying", "dead-lettered", "cancelled", "purged"};

const char *outcome_status_name(enum outcome_status s)
{
    CHECK((unsigned)s < OUTCOME_STATUS_COUNT);
    return status_names[s];
}

static size_t row_bytes(uint16_t kind)
{
    switch (kind) {
    case OP_SEND:
        return SEND_RUN_BYTES;
    case OP_CLAIM:
    case OP_TAKE:
    case OP_PUBLISH:
    case OP_DISPATCH:
    case OP_LOCK:
        return GRANT_BYTES;
    case OP_WORKERS:
    case OP_SIGNAL_SETTLE:
        return REASON_RUN_BYTES;
    case OP_SIGNAL:
    case OP_SIGNAL_WITHDRAW:
        return SIGNAL_ROW_BYTES;
    case OP_RENEW:
    case OP_ACK:
    case OP_FAIL:
    case OP_RELEASE:
    case OP_CANCEL:
        return OUTCOME_RUN_BYTES;
    default:
        return 0;
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

// Returns whether the rows add up to the count.
static bool rows_ok(const struct result *out, size_t size)
{
    struct reader r = out->rows;
    CHECK(size > sizeof(uint32_t));
    if (out->count > ROWS_MAX || r.left % size != 0) return false;
    if (size == GRANT_BYTES || size == SIGNAL_ROW_BYTES) return r.left / size == out->count;
    uint64_t sum = 0;
    while (r.left > 0) {
        uint32_t run = read_u32(&r);
        if (run == 0) return false;
        sum += run;
        (void)read_bytes(&r, size - 4);
    }
    return sum == out->count;
}

// The workers that the grants name: u32 count, then the names.
static bool open_names(struct result *out)
{
    struct reader r = out->rows;
    if (out->count > ROWS_MAX || r.left / GRANT_BYTES < out->count) return false;
    out->rows = reader_of(read_bytes(&r, (size_t)out->count * GRANT_BYTES));
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
    size_t size = row_bytes(kind);
    if (size == 0) {
        out->value = read_u64(&r);
        if (kind == OP_REDRIVE) out->count = read_u32(&r);
        return reader_end(&r) ? ERR_OK : ERR_INVALID;
    }
    out->count = read_u32(&r);
    out->rows = r;
    if (reader_ok(&r) && kind == OP_DISPATCH && !open_names(out)) return ERR_INVALID;
    return reader_ok(&r) && rows_ok(out, size) ? ERR_OK : ERR_INVALID;
}

static bool repeats(enum reason reason)
{
    return reason != REASON_NONE && reason != REASON_DUPLICATE;
}

bool send_row_next(struct result *r, struct send_row *out)
{
    if (r->run > 0) {
        r->run--;
        if (!repeats(r->sent.reason)) r->sent.seq++;
    } else if (r->rows.left == 0) {
        return false;
    } else {
        r->run = read_u32(&r->rows) - 1;
        CHECK(r->run < ROWS_MAX); // rows_ok refuses an empty run
        r->sent.reason = read_reason(&r->rows);
        r->sent.seq = read_u64(&r->rows);
    }
    *out = r->sent;
    return reader_ok(&r->rows);
}

void grant_read(struct reader *r, struct grant *out)
{
    size_t before = r->left;
    out->seq = read_u64(r);
    out->place.slot = read_u64(r);
    out->place.skip = read_u32(r);
    out->token = read_hash128(r);
    out->fence = read_u64(r);
    out->deadline = read_i64(r);
    out->deliveries = read_u32(r);
    out->retries = read_u32(r);
    out->order = read_u64(r);
    out->worker_row = read_u32(r);
    CHECK(r->bad || before - r->left == GRANT_BYTES); // as grant_put writes
}

bool grant_next(struct result *r, struct grant *out)
{
    if (r->rows.left == 0) return false;
    CHECK(r->rows.left >= GRANT_BYTES);
    grant_read(&r->rows, out);
    return reader_ok(&r->rows);
}

bool outcome_row_next(struct result *r, struct outcome_row *out)
{
    if (r->run > 0) {
        r->run--;
    } else if (r->rows.left == 0) {
        return false;
    } else {
        r->run = read_u32(&r->rows) - 1;
        CHECK(r->run < ROWS_MAX);
        r->outcome.reason = read_reason(&r->rows);
        uint8_t status = read_u8(&r->rows);
        if (status >= OUTCOME_STATUS_COUNT) r->rows.bad = true;
        r->outcome.status = r->rows.bad ? OUTCOME_NONE : (enum outcome_status)status;
        r->outcome.until = read_i64(&r->rows);
    }
    *out = r->outcome;
    return reader_ok(&r->rows);
}

bool worker_reason_next(struct result *r, enum reason *out)
{
    if (r->run > 0) {
        r->run--;
    } else if (r->rows.left == 0) {
        return false;
    } else {
        r->run = read_u32(&r->rows) - 1;
        CHECK(r->run < ROWS_MAX);
        r->outcome.reason = read_reason(&r->rows);
    }
    *out = r->outcome.reason;
    return reader_ok(&r->rows);
}

bool signal_row_next(struct result *r, struct signal_row *out)
{
    if (r->rows.left == 0) return false;
    CHECK(r->rows.left >= SIGNAL_ROW_BYTES);
    out->seq = read_u64(&r->rows);
    out->number = read_u32(&r->rows);
    out->reason = read_reason(&r->rows);
    uint8_t state = read_u8(&r->rows);
    if (state >= SIGNAL_STATE_COUNT) r->rows.bad = true;
    out->state = r->rows.bad ? SIGNAL_PENDING : (enum signal_state)state;
    out->until = read_i64(&r->rows);
    return reader_ok(&r->rows);
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

// Returns the length of the last run of `size` bytes, to be extended; 0: there is none.
static uint32_t last_run(const struct buf *out, size_t rows_at, size_t size, struct reader *row)
{
    CHECK(size > sizeof(uint32_t) && (out->bad || out->len >= rows_at));
    if (out->bad || out->len < rows_at + size) return 0;
    *row = reader_of(bytes_of(out->data + out->len - size, size));
    return read_u32(row);
}

void send_row_put(struct buf *out, size_t rows_at, enum reason reason, uint64_t seq)
{
    struct reader row;
    uint32_t run = last_run(out, rows_at, SEND_RUN_BYTES, &row);
    CHECK((unsigned)reason < REASON_COUNT && run < ROWS_MAX);
    if (run > 0 && read_u8(&row) == reason && read_u64(&row) + (repeats(reason) ? 0 : run) == seq) {
        buf_set_u32(out, out->len - SEND_RUN_BYTES, run + 1);
        return;
    }
    buf_put_u32(out, 1);
    buf_put_u8(out, (uint8_t)reason);
    buf_put_u64(out, seq);
}

void grant_put(struct buf *out, const struct grant *g)
{
    size_t at = out->len;
    CHECK(g->seq > 0);
    buf_put_u64(out, g->seq);
    buf_put_u64(out, g->place.slot);
    buf_put_u32(out, g->place.skip);
    buf_put_hash128(out, g->token);
    buf_put_u64(out, g->fence);
    buf_put_i64(out, g->deadline);
    buf_put_u32(out, g->deliveries);
    buf_put_u32(out, g->retries);
    buf_put_u64(out, g->order);
    buf_put_u32(out, g->worker_row);
    CHECK(out->bad || out->len - at == GRANT_BYTES);
}

void outcome_row_put(struct buf *out, size_t rows_at, const struct outcome_row *row)
{
    struct reader last;
    uint32_t run = last_run(out, rows_at, OUTCOME_RUN_BYTES, &last);
    CHECK((unsigned)row->reason < REASON_COUNT && run < ROWS_MAX);
    CHECK((unsigned)row->status < OUTCOME_STATUS_COUNT); // as outcome_row_next asks
    if (run > 0 && read_u8(&last) == row->reason && read_u8(&last) == row->status &&
        read_i64(&last) == row->until) {
        buf_set_u32(out, out->len - OUTCOME_RUN_BYTES, run + 1);
        return;
    }
    buf_put_u32(out, 1);
    buf_put_u8(out, (uint8_t)row->reason);
    buf_put_u8(out, (uint8_t)row->status);
    buf_put_i64(out, row->until);
}

void signal_row_put(struct buf *out, const struct signal_row *row)
{
    CHECK((unsigned)row->reason < REASON_COUNT && (unsigned)row->state < SIGNAL_STATE_COUNT);
    buf_put_u64(out, row->seq);
    buf_put_u32(out, row->number);
    buf_put_u8(out, (uint8_t)row->reason);
    buf_put_u8(out, (uint8_t)row->state);
    buf_put_i64(out, row->until);
}

void worker_reason_put(struct buf *out, size_t rows_at, enum reason reason)
{
    struct reader last;
    uint32_t run = last_run(out, rows_at, REASON_RUN_BYTES, &last);
    CHECK((unsigned)reason < REASON_COUNT && run < ROWS_MAX);
    if (run > 0 && read_u8(&last) == reason) {
        buf_set_u32(out, out->len - REASON_RUN_BYTES, run + 1);
        return;
    }
    buf_put_u32(out, 1);
    buf_put_u8(out, (uint8_t)reason);
}
