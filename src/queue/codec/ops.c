// SPDX-License-Identifier: Apache-2.0
// The codecs of all ops except send (send_codec.c). A payload is a version, the request id, then
// the op's fields.
#include "queue/codec/ops.h"

#include "base/check.h"
#include "queue/codec/ops_signals.h"
#include "queue/codec/send_codec.h"
#include "queue/core/rules.h"

#include <string.h>

#define SEQS_MAX REFS_MAX

void op_head_put(struct buf *out, const struct request_id *request)
{
    buf_put_u8(out, OPS_VERSION);
    buf_put(out, bytes_of(request->bytes, sizeof request->bytes));
}

void op_head_read(struct reader *r, struct request_id *request)
{
    if (read_u8(r) != OPS_VERSION) r->bad = true;
    struct bytes id = read_bytes(r, sizeof request->bytes);
    if (id.len > 0) memcpy(request->bytes, id.data, sizeof request->bytes);
}

bool op_request(const struct op *op, struct request_id *out)
{
    struct reader r = reader_of(op->payload);
    op_head_read(&r, out);
    return reader_ok(&r);
}

static void read_fixed(struct reader *r, void *to, size_t len)
{
    struct bytes from = read_bytes(r, len);
    CHECK(from.len == len || r->bad);
    if (from.len > 0) memcpy(to, from.data, len);
}

static int64_t read_ms(struct reader *r, int64_t max)
{
    CHECK(max > 0);
    int64_t ms = read_i64(r);
    if (ms < 0 || ms > max) r->bad = true;
    return ms;
}

static struct bytes read_worker(struct reader *r)
{
    struct bytes name = read_sized(r, WORKER_NAME_MAX);
    if (name.len == 0) r->bad = true;
    return name;
}

static uint32_t read_count(struct reader *r, uint32_t max)
{
    CHECK(max > 0);
    uint32_t count = read_u32(r);
    if (count > max) r->bad = true;
    return r->bad ? 0 : count;
}

static enum err end(const struct reader *r)
{
    return reader_end(r) ? ERR_OK : ERR_INVALID;
}

void claim_encode(struct buf *out, const struct op_claim *op)
{
    CHECK(op->worker.len > 0 && op->worker.len <= WORKER_NAME_MAX); // as claim_decode asks
    CHECK(op->max <= CLAIM_COUNT_MAX && op->lease_ms >= 0 && op->lease_ms <= LEASE_MAX_MS);
    op_head_put(out, &op->request);
    buf_put(out, bytes_of(op->seed, sizeof op->seed));
    buf_put_u32(out, op->max);
    buf_put_i64(out, op->lease_ms);
    buf_put_sized(out, op->worker);
}

enum err claim_decode(struct bytes payload, struct op_claim *out)
{
    struct reader r = reader_of(payload);
    op_head_read(&r, &out->request);
    read_fixed(&r, out->seed, sizeof out->seed);
    out->max = read_count(&r, CLAIM_COUNT_MAX);
    out->lease_ms = read_ms(&r, LEASE_MAX_MS);
    out->worker = read_worker(&r);
    return end(&r);
}

void lock_ref_put(struct buf *out, const struct lock_ref *ref)
{
    buf_put_u64(out, ref->seq);
    buf_put_hash128(out, ref->token);
}

static uint64_t load_u64(const uint8_t *at)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v |= (uint64_t)at[i] << (8 * i);
    return v;
}

struct lock_ref outcome_ref(const struct op_outcome *op, uint32_t index)
{
    CHECK(index < op->count);
    const uint8_t *at = op->refs.data + (size_t)index * LOCK_REF_BYTES;
    return (struct lock_ref){.seq = load_u64(at), .token = {load_u64(at + 8), load_u64(at + 16)}};
}

void outcome_encode(struct buf *out, const struct op_outcome *op)
{
    CHECK(op->refs.len == (size_t)op->count * LOCK_REF_BYTES);
    CHECK(op->count <= REFS_MAX && op->reason.len <= FAIL_REASON_MAX); // as outcome_decode asks
    op_head_put(out, &op->request);
    buf_put(out, bytes_of(op->queue.bytes, sizeof op->queue.bytes));
    buf_put_u32(out, op->shard);
    buf_put_i64(out, op->arrived_at);
    buf_put_i64(out, op->wait_ms);
    buf_put_sized(out, op->reason);
    buf_put_u32(out, op->count);
    buf_put(out, op->refs);
    buf_put(out, op->extras);
}

// Reads one extra for each ref. At least one is not empty, so each op has one encoding.
static bool read_extras(struct reader *r, struct op_outcome *out)
{
    bool any = false;
    const uint8_t *start = r->at;
    struct outcome_extra extra;
    for (uint32_t i = 0; i < out->count && outcome_extra_next(r, &extra); i++)
        any = any || extra.has_result || extra.has_progress;
    if (r->bad || !any) return false;
    out->extras = bytes_of(start, (size_t)(r->at - start));
    return true;
}

enum err outcome_decode(struct bytes payload, struct op_outcome *out)
{
    struct reader r = reader_of(payload);
    out->extras = BYTES_EMPTY;
    op_head_read(&r, &out->request);
    read_fixed(&r, out->queue.bytes, sizeof out->queue.bytes);
    out->shard = read_u32(&r);
    out->arrived_at = read_i64(&r);
    out->wait_ms = read_ms(&r, LEASE_MAX_MS);
    out->reason = read_sized(&r, FAIL_REASON_MAX);
    out->count = read_count(&r, REFS_MAX);
    out->refs = read_bytes(&r, (size_t)out->count * LOCK_REF_BYTES);
    if (r.left > 0 && (r.bad || !read_extras(&r, out))) return ERR_INVALID;
    CHECK(r.bad || out->refs.len == (size_t)out->count * LOCK_REF_BYTES); // as outcome_ref needs
    return end(&r);
}

bool outcome_has_extras(const struct op *op)
{
    struct op_outcome outcome;
    return op_has_extras(op->kind) && outcome_decode(op->payload, &outcome) == ERR_OK &&
           outcome.extras.len > 0;
}

void ticket_row_put(struct buf *rows, const struct ticket_row *row)
{
    CHECK(row->worker.len > 0 && row->worker.len <= WORKER_NAME_MAX);
    buf_put_u32(rows, row->max);
    buf_put_sized(rows, row->worker);
}

bool ticket_row_next(struct reader *rows, struct ticket_row *out)
{
    out->max = read_count(rows, CLAIM_COUNT_MAX);
    out->worker = read_worker(rows);
    return reader_ok(rows);
}

void publish_encode(struct buf *out, const struct op_publish *op)
{
    CHECK(op->count <= PUBLISH_ROWS_MAX && op->ticket_ms >= 0 && op->ticket_ms <= LEASE_MAX_MS);
    op_head_put(out, &op->request);
    buf_put(out, bytes_of(op->seed, sizeof op->seed));
    buf_put_i64(out, op->ticket_ms);
    buf_put_u32(out, op->count);
    buf_put(out, op->rows);
}

enum err publish_decode(struct bytes payload, struct op_publish *out)
{
    struct reader r = reader_of(payload);
    op_head_read(&r, &out->request);
    read_fixed(&r, out->seed, sizeof out->seed);
    out->ticket_ms = read_ms(&r, LEASE_MAX_MS);
    out->count = read_count(&r, PUBLISH_ROWS_MAX);
    out->rows = bytes_of(r.at, r.left);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < out->count; i++) {
        struct ticket_row row;
        if (!ticket_row_next(&r, &row)) return ERR_INVALID;
        sum += row.max;
    }
    return sum <= CLAIM_COUNT_MAX ? end(&r) : ERR_INVALID;
}

void configure_encode(struct buf *out, const struct op_configure *op)
{
    op_head_put(out, &op->request);
    buf_put_u64(out, op->expected);
    config_encode(&op->config, out);
}

enum err configure_decode(struct bytes payload, struct op_configure *out)
{
    struct reader r = reader_of(payload);
    op_head_read(&r, &out->request);
    out->expected = read_u64(&r);
    if (config_decode(&r, &out->config) != ERR_OK) return ERR_INVALID;
    return end(&r);
}

void plain_encode(struct buf *out, const struct op_plain *op)
{
    op_head_put(out, &op->request);
}

enum err plain_decode(struct bytes payload, struct op_plain *out)
{
    struct reader r = reader_of(payload);
    op_head_read(&r, &out->request);
    return end(&r);
}

void purge_encode(struct buf *out, const struct op_purge *op)
{
    op_head_put(out, &op->request);
    buf_put_u8(out, op->dead);
}

enum err purge_decode(struct bytes payload, struct op_purge *out)
{
    struct reader r = reader_of(payload);
    op_head_read(&r, &out->request);
    uint8_t dead = read_u8(&r);
    out->dead = dead == 1;
    return dead <= 1 ? end(&r) : ERR_INVALID;
}

void redrive_encode(struct buf *out, const struct op_redrive *op)
{
    CHECK(op->seqs.len == (size_t)op->count * 8);
    CHECK(op->max <= SEQS_MAX && op->count <= SEQS_MAX);
    op_head_put(out, &op->request);
    buf_put_u32(out, op->max);
    buf_put_u32(out, op->count);
    buf_put(out, op->seqs);
}

enum err redrive_decode(struct bytes payload, struct op_redrive *out)
{
    struct reader r = reader_of(payload);
    op_head_read(&r, &out->request);
    out->max = read_count(&r, SEQS_MAX);
    out->count = read_count(&r, SEQS_MAX);
    out->seqs = read_bytes(&r, (size_t)out->count * 8);
    CHECK(r.bad || out->seqs.len == (size_t)out->count * 8); // as redrive_seq needs
    return end(&r);
}

uint64_t redrive_seq(const struct op_redrive *op, uint32_t index)
{
    CHECK(index < op->count);
    CHECK(op->seqs.len == (size_t)op->count * 8);
    struct reader r = reader_of(bytes_of(op->seqs.data + (size_t)index * 8, 8));
    return read_u64(&r);
}

static const char *const cause_names[DEAD_CAUSE_COUNT] = {"failed", "expired", "max-deliveries"};

const char *dead_cause_name(enum dead_cause cause)
{
    CHECK((unsigned)cause < DEAD_CAUSE_COUNT);
    return cause_names[cause];
}

struct bytes arrive_reason(const struct op_arrive *op)
{
    CHECK(op->reason.len <= FAIL_REASON_MAX);
    return op->reason.len > 0 ? op->reason : bytes_str(dead_cause_name(op->cause));
}

struct bytes arrive_worker(const struct op_arrive *op)
{
    struct reader r = reader_of(op->message.headers);
    CHECK(op->message.headers.len <= MESSAGE_HEADERS_MAX);
    struct bytes name, value, worker = BYTES_EMPTY;
    while (headers_next(&r, &name, &value))
        if (bytes_equal(name, bytes_str(ARRIVE_WORKER_HEADER))) worker = value;
    return worker.len <= WORKER_NAME_MAX ? worker : BYTES_EMPTY;
}

void arrive_encode(struct buf *out, const struct op_arrive *op)
{
    CHECK(op->number > 0 && (unsigned)op->cause < DEAD_CAUSE_COUNT); // as arrive_decode asks
    CHECK(op->origin.len <= QUEUE_NAME_MAX && op->reason.len <= FAIL_REASON_MAX);
    CHECK(op->message.requires.len == 0 && !op->message.workflow_last);
    op_head_put(out, &op->request);
    buf_put(out, bytes_of(op->source.bytes, sizeof op->source.bytes));
    buf_put_u32(out, op->source_shard);
    buf_put_u64(out, op->number);
    buf_put_u64(out, op->origin_seq);
    buf_put_u32(out, op->retries);
    buf_put_u32(out, op->deliveries);
    buf_put_u8(out, (uint8_t)op->cause);
    buf_put_i64(out, op->died_at);
    buf_put_sized(out, op->origin);
    buf_put_sized(out, op->reason);
    send_add(out, &op->message);
}

enum err arrive_decode(struct bytes payload, struct op_arrive *out)
{
    struct reader r = reader_of(payload);
    op_head_read(&r, &out->request);
    read_fixed(&r, out->source.bytes, sizeof out->source.bytes);
    out->source_shard = read_u32(&r);
    out->number = read_u64(&r);
    out->origin_seq = read_u64(&r);
    out->retries = read_u32(&r);
    out->deliveries = read_u32(&r);
    uint8_t cause = read_u8(&r);
    if (cause >= DEAD_CAUSE_COUNT || out->number == 0) r.bad = true;
    out->cause = r.bad ? DEAD_FAILED : (enum dead_cause)cause;
    out->died_at = read_i64(&r);
    out->origin = read_sized(&r, QUEUE_NAME_MAX);
    out->reason = read_sized(&r, FAIL_REASON_MAX);
    if (!message_read(&r, &out->message)) return ERR_INVALID;
    // A dead letter requires no labels and ends no workflow.
    if (out->message.requires.len > 0 || out->message.workflow_last) r.bad = true;
    return end(&r);
}

void outbox_encode(struct buf *out, const struct op_outbox *op)
{
    op_head_put(out, &op->request);
    buf_put_u64(out, op->upto);
}

enum err outbox_decode(struct bytes payload, struct op_outbox *out)
{
    struct reader r = reader_of(payload);
    op_head_read(&r, &out->request);
    out->upto = read_u64(&r);
    return end(&r);
}

void spent_encode(struct buf *out, const struct op_spent *op)
{
    op_head_put(out, &op->request);
    buf_put_u64(out, op->cost.writes);
    buf_put_u64(out, op->cost.reads);
    buf_put_u64(out, op->cost.deletes);
}

enum err spent_decode(struct bytes payload, struct op_spent *out)
{
    struct reader r = reader_of(payload);
    op_head_read(&r, &out->request);
    out->cost.writes = read_u64(&r);
    out->cost.reads = read_u64(&r);
    out->cost.deletes = read_u64(&r);
    const struct cost *c = &out->cost;
    if (c->writes > SPENT_MAX || c->reads > SPENT_MAX || c->deletes > SPENT_MAX) r.bad = true;
    return end(&r);
}

void raise_encode(struct buf *out, const struct op_raise *op)
{
    op_head_put(out, &op->request);
    buf_put_u16(out, op->to);
}

enum err raise_decode(struct bytes payload, struct op_raise *out)
{
    struct reader r = reader_of(payload);
    op_head_read(&r, &out->request);
    out->to = read_u16(&r);
    if (out->to < RULES_FIRST) r.bad = true;
    return end(&r);
}

void published_encode(struct buf *out, const struct op_published *op)
{
    CHECK(op->flags <= PUBLISHED_FLAGS_ALL);
    op_head_put(out, &op->request);
    buf_put_u64(out, op->slot);
    buf_put_u64(out, op->sequence);
    buf_put_u8(out, op->flags);
}

enum err published_decode(struct bytes payload, struct op_published *out)
{
    struct reader r = reader_of(payload);
    op_head_read(&r, &out->request);
    out->slot = read_u64(&r);
    out->sequence = read_u64(&r);
    out->flags = read_u8(&r);
    if (out->flags > PUBLISHED_FLAGS_ALL) r.bad = true;
    return end(&r);
}
