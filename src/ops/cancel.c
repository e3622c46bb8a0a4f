// SPDX-License-Identifier: Apache-2.0
// Ends chosen messages that no worker holds: one op for each shard. The shards are independent: if
// one cannot be reached, the messages of the others are cancelled nevertheless.
#include "ops/ops.h"

#include "base/check.h"
#include "base/memory.h"
#include "ops/by_shard.h"
#include "ops/change.h"
#include "ops/named_ids.h"
#include "ops/settle.h"

#include <stdio.h>
#include <string.h>

struct cancel_change {
    struct change_rows rows; // first
    const char *const *ids;
    struct named_id *named;
    const char *reason;
};

static uint32_t shard_of(const void *ctx, size_t i)
{
    const struct named_id *row = &((const struct cancel_change *)ctx)->named[i];
    return row->code ? NO_SHARD : row->shard;
}

static const struct by_shard_type split_ids = {.shard_of = shard_of, .op_max = REFS_MAX};

static void encode(const struct change *ch, const struct request_id *request, struct buf *out)
{
    const struct cancel_change *c = (const struct cancel_change *)ch;
    (void)request; // a repeated call has the same ids
    LOCAL(buf, seqs, (size_t)REFS_MAX * sizeof(uint64_t));
    for (size_t i = 0; i < c->rows.split.count; i++)
        buf_put_u64(&seqs, c->named[by_shard_item(&c->rows.split, i)].seq);
    CHECK(!seqs.bad);
    cancel_encode(
        out, &(struct op_cancel){.request = request_part(c->rows.whole.bytes, c->rows.split.number),
                                 .reason = c->reason ? bytes_str(c->reason) : BYTES_EMPTY,
                                 .count = c->rows.split.count,
                                 .seqs = buf_bytes(&seqs)});
}

static void refuse_message(const struct cancel_change *c, enum reason reason, const char *id,
                           struct sluice_error *why)
{
    const char *queue = c->rows.queue->row.name;
    (void)refuse_reason(why, reason, id);
    (void)snprintf(why->field, sizeof why->field, "id");
    if (reason == REASON_LOCKED)
        (void)snprintf(why->message, sizeof why->message,
                       "a worker holds message %s; stop it with \"sluice signal %s %s interrupt\"",
                       id, queue, id);
    if (reason == REASON_TERMINAL)
        (void)snprintf(why->message, sizeof why->message,
                       "message %s is finished: it cannot be cancelled any more", id);
    if (reason == REASON_UNKNOWN_MESSAGE)
        (void)snprintf(why->message, sizeof why->message, "queue %s has no message %s", queue, id);
}

// A row of the op's result. NULL: it has none, and *why says why.
static void note_row(struct cancel_change *c, size_t at, const struct outcome_row *row,
                     const struct sluice_error *why)
{
    struct sluice_outcome *o = &c->rows.outcomes[at];
    if (row) outcome_fill(OP_CANCEL, row, o);
    if (row && row->reason != REASON_NONE && !c->rows.first.code)
        refuse_message(c, row->reason, c->ids[at], &c->rows.first);
    if (row) return;
    outcome_refuse(o, why->code, why->reason);
    if (!c->rows.first.code) c->rows.first = *why;
}

static enum sluice_code take(struct change *ch, const struct result *result, enum sluice_code code)
{
    struct cancel_change *c = (struct cancel_change *)ch;
    struct result rows = result ? *result : (struct result){0};
    struct outcome_row row;
    (void)code;
    if (rows.count > 0 && rows.count != c->rows.split.count)
        (void)refuse_reason(&ch->why, REASON_REQUEST_REUSED, c->rows.queue->row.name);
    bool decided = rows.count == c->rows.split.count;
    for (size_t i = 0; i < c->rows.split.count; i++)
        note_row(c, by_shard_item(&c->rows.split, i),
                 decided && outcome_row_next(&rows, &row) ? &row : NULL, &ch->why);
    ch->shard = by_shard_next(&c->rows.split);
    return SLUICE_OK;
}

static void note_refused(struct cancel_change *c)
{
    for (size_t i = 0; i < c->rows.len; i++)
        if (c->named[i].code)
            outcome_refuse(&c->rows.outcomes[i], c->named[i].code, c->named[i].reason);
}

static enum sluice_code check(struct change *ch, struct sluice_error *error)
{
    const char *reason = ((struct cancel_change *)ch)->reason;
    size_t len = reason ? strlen(reason) : 0;
    if (len <= FAIL_REASON_MAX) return SLUICE_OK;
    return refuse(error, ERR_INVALID, "reason", "reason has %zu bytes; at most %d are allowed", len,
                  FAIL_REASON_MAX);
}

static enum call_built begin(struct change *ch, struct local_call *call, bool may_block)
{
    struct cancel_change *c = (struct cancel_change *)ch;
    enum call_built built =
        named_ids_begin(call, may_block, c->ids, c->rows.len, c->named, &c->rows.first);
    if (built != CALL_BUILT) return built;
    note_refused(c);
    return change_rows_begin(&c->rows, call);
}

static void release(struct change *ch)
{
    struct cancel_change *c = (struct cancel_change *)ch;
    change_rows_done(&c->rows);
    memory_free(c->named);
}

enum sluice_code start_cancel(const struct request_origin *as, const char *queue,
                              const char *const *ids, size_t len, const char *reason,
                              struct sluice_outcome *outcomes, struct sluice_error *error)
{
    struct cancel_change *c = NEW(struct cancel_change);
    c->rows.change = (struct change){.kind = OP_CANCEL,
                                     .check = check,
                                     .begin = begin,
                                     .encode = encode,
                                     .take = take,
                                     .release = release};
    c->ids = ids;
    c->named = memory_zeroed(len + 1, sizeof *c->named);
    c->reason = reason;
    change_rows_init(&c->rows, as, &split_ids, len, outcomes);
    return change_queue(as, queue, &c->rows.change, error);
}
