// SPDX-License-Identifier: Apache-2.0
// The ops, except send (send_codec.c), those of signals and those of workers: one list of fields
// for each. A payload is a version, the request id, then the op's fields.
#include "queue/codec/ops.h"

#include "base/check.h"
#include "base/layout_inline.h"
#include "queue/codec/ops_signals.h"
#include "queue/codec/send_codec.h"
#include "queue/core/rules.h"

#include <string.h>

#define SEQS_MAX REFS_MAX

struct seq_row {
    uint64_t seq;
};

#define LAYOUT_OF struct seq_row
static const struct layout_field seq_fields[] = {U64(seq)};
const struct layout seq_layout = LAYOUT(seq_fields, .fixed = 8);
#undef LAYOUT_OF

#define LAYOUT_OF struct op_plain
static const struct layout_field op_plain_fields[] = {OP_HEAD};
const struct layout op_plain_layout = LAYOUT(op_plain_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct op_claim
static const struct layout_field op_claim_fields[] = {
    OP_HEAD,
    FIXED(seed),
    U32(max, .max = CLAIM_COUNT_MAX),
    I64(lease_ms, .max = LEASE_MAX_MS),
    BYTES(worker, .min = 1, .max = WORKER_NAME_MAX),
};
const struct layout op_claim_layout = LAYOUT(op_claim_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct lock_ref
static const struct layout_field lock_ref_fields[] = {U64(seq), HASH(token)};
const struct layout lock_ref_layout = LAYOUT(lock_ref_fields, .fixed = LOCK_REF_BYTES);
#undef LAYOUT_OF

#define LAYOUT_OF struct op_outcome
static const struct layout_field op_outcome_fields[] = {
    OP_HEAD,
    FIXED(queue),
    U32(shard),
    I64(arrived_at),
    I64(wait_ms, .max = LEASE_MAX_MS),
    BYTES(reason, .max = FAIL_REASON_MAX),
    ROWS(refs, count, lock_ref_layout, .max = REFS_MAX),
    REST(extras),
};
const struct layout op_outcome_layout = LAYOUT(op_outcome_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct ticket_row
static const struct layout_field ticket_row_fields[] = {
    U32(max, .max = CLAIM_COUNT_MAX),
    BYTES(worker, .min = 1, .max = WORKER_NAME_MAX),
};
const struct layout ticket_row_layout = LAYOUT(ticket_row_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct op_publish
static const struct layout_field op_publish_fields[] = {
    OP_HEAD,
    FIXED(seed),
    I64(ticket_ms, .max = LEASE_MAX_MS),
    ROWS(rows, count, ticket_row_layout, .max = PUBLISH_ROWS_MAX),
};
const struct layout op_publish_layout = LAYOUT(op_publish_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct op_configure
static const struct layout_field op_configure_fields[] = {OP_HEAD, U64(expected)};
const struct layout op_configure_layout = LAYOUT(op_configure_fields); // then the configuration
#undef LAYOUT_OF

#define LAYOUT_OF struct op_purge
static const struct layout_field op_purge_fields[] = {OP_HEAD, FLAG(dead)};
const struct layout op_purge_layout = LAYOUT(op_purge_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct op_redrive
static const struct layout_field op_redrive_fields[] = {
    OP_HEAD,
    U32(max, .max = SEQS_MAX),
    ROWS(seqs, count, seq_layout, .max = SEQS_MAX),
};
const struct layout op_redrive_layout = LAYOUT(op_redrive_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct op_arrive
static const struct layout_field op_arrive_fields[] = {
    OP_HEAD,
    FIXED(source),
    U32(source_shard),
    U64(number, .min = 1),
    U64(origin_seq),
    U32(retries),
    U32(deliveries),
    ENUM(cause, DEAD_CAUSE_COUNT),
    I64(died_at),
    BYTES(origin, .max = QUEUE_NAME_MAX),
    BYTES(reason, .max = FAIL_REASON_MAX),
};
const struct layout op_arrive_layout = LAYOUT(op_arrive_fields); // then the message
#undef LAYOUT_OF

#define LAYOUT_OF struct op_outbox
static const struct layout_field op_outbox_fields[] = {OP_HEAD, U64(upto)};
const struct layout op_outbox_layout = LAYOUT(op_outbox_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct op_spent
static const struct layout_field op_spent_fields[] = {
    OP_HEAD,
    U64(cost.writes, .max = SPENT_MAX),
    U64(cost.reads, .max = SPENT_MAX),
    U64(cost.deletes, .max = SPENT_MAX),
};
const struct layout op_spent_layout = LAYOUT(op_spent_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct op_raise
static const struct layout_field op_raise_fields[] = {OP_HEAD, U16(to, .min = RULES_FIRST)};
const struct layout op_raise_layout = LAYOUT(op_raise_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct op_published
static const struct layout_field op_published_fields[] = {
    OP_HEAD,
    U64(slot),
    U64(sequence),
    U8(flags, .max = PUBLISHED_FLAGS_ALL),
};
const struct layout op_published_layout = LAYOUT(op_published_fields);
#undef LAYOUT_OF

OP_CODEC_INLINE(claim)
OP_CODEC(plain)
OP_CODEC(purge)
OP_CODEC(redrive)
OP_CODEC(outbox)
OP_CODEC(spent)
OP_CODEC(raise)
OP_CODEC(published)

void op_head_put(struct buf *out, const struct request_id *request)
{
    LAYOUT_PUT(op_plain_fields, out, request);
}

bool op_head_read(struct reader *r, struct request_id *request)
{
    return LAYOUT_READ(op_plain_fields, r, request);
}

bool op_request(const struct op *op, struct request_id *out)
{
    struct reader r = reader_of(op->payload);
    return op_head_read(&r, out);
}

uint64_t op_seq(struct bytes seqs, uint32_t index)
{
    struct seq_row row;
    layout_at(&seq_layout, seqs, index, &row);
    return row.seq;
}

void lock_ref_put(struct buf *out, const struct lock_ref *ref)
{
    LAYOUT_PUT(lock_ref_fields, out, ref);
}

struct lock_ref outcome_ref(const struct op_outcome *op, uint32_t index)
{
    struct lock_ref ref;
    CHECK(index < op->count);
    struct reader r =
        reader_of(bytes_of(op->refs.data + (size_t)index * LOCK_REF_BYTES, LOCK_REF_BYTES));
    CHECK(LAYOUT_READ(lock_ref_fields, &r, &ref));
    return ref;
}

void outcome_encode(struct buf *out, const struct op_outcome *op)
{
    LAYOUT_PUT(op_outcome_fields, out, op);
}

// There is one extra for each ref. At least one is not empty, so each op has one encoding.
static bool extras_ok(const struct op_outcome *op)
{
    struct reader r = reader_of(op->extras);
    struct outcome_extra extra;
    unsigned has = 0;
    for (uint32_t i = 0; i < op->count && outcome_extra_next(&r, &extra); i++)
        has |= extra.has;
    return reader_end(&r) && has != 0;
}

enum err outcome_decode(struct bytes payload, struct op_outcome *out)
{
    struct reader r = reader_of(payload);
    if (!LAYOUT_READ(op_outcome_fields, &r, out)) return ERR_INVALID;
    return out->extras.len == 0 || extras_ok(out) ? ERR_OK : ERR_INVALID;
}

bool outcome_has_extras(const struct op *op)
{
    struct op_outcome outcome;
    return op_has_extras(op->kind) && outcome_decode(op->payload, &outcome) == ERR_OK &&
           outcome.extras.len > 0;
}

void ticket_row_put(struct buf *rows, const struct ticket_row *row)
{
    layout_put(&ticket_row_layout, rows, row);
}

bool ticket_row_next(struct reader *rows, struct ticket_row *out)
{
    return layout_next(&ticket_row_layout, rows, out);
}

void publish_encode(struct buf *out, const struct op_publish *op)
{
    layout_put(&op_publish_layout, out, op);
}

enum err publish_decode(struct bytes payload, struct op_publish *out)
{
    if (!layout_read_all(&op_publish_layout, payload, out)) return ERR_INVALID;
    struct reader r = reader_of(out->rows);
    struct ticket_row row;
    uint64_t sum = 0;
    while (ticket_row_next(&r, &row))
        sum += row.max;
    return sum <= CLAIM_COUNT_MAX ? ERR_OK : ERR_INVALID;
}

void configure_encode(struct buf *out, const struct op_configure *op)
{
    layout_put(&op_configure_layout, out, op);
    config_encode(&op->config, out);
}

enum err configure_decode(struct bytes payload, struct op_configure *out)
{
    struct reader r = reader_of(payload);
    if (!layout_read(&op_configure_layout, &r, out)) return ERR_INVALID;
    return config_decode(&r, &out->config) == ERR_OK && reader_end(&r) ? ERR_OK : ERR_INVALID;
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

// A dead letter requires no labels and ends no workflow.
static bool can_arrive(const struct message *m)
{
    return m->requires.len == 0 && !m->workflow_last;
}

void arrive_encode(struct buf *out, const struct op_arrive *op)
{
    CHECK(can_arrive(&op->message));
    layout_put(&op_arrive_layout, out, op);
    send_add(out, &op->message);
}

enum err arrive_decode(struct bytes payload, struct op_arrive *out)
{
    struct reader r = reader_of(payload);
    if (!layout_read(&op_arrive_layout, &r, out)) return ERR_INVALID;
    if (!message_read(&r, &out->message)) return ERR_INVALID;
    return can_arrive(&out->message) && reader_end(&r) ? ERR_OK : ERR_INVALID;
}
