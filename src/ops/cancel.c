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
    struct change change; // first
    const char *const *ids;
    struct named_id *rows;
    size_t len;
    const char *reason;
    struct request_id whole;
    struct by_shard split;
    struct open_queue *queue; // of the call
    struct sluice_outcome *outcomes;
    struct sluice_outcome *own; // the memory of them, if the caller has none
    struct sluice_error first;  // of the first message that was refused
};

static uint32_t shard_of(const void *ctx, size_t i)
{
    const struct named_id *row = &((const struct cancel_change *)ctx)->rows[i];
    return row->code ? NO_SHARD : row->shard;
}

static const struct by_shard_type split_ids = {.shard_of = shard_of, .op_max = REFS_MAX};

static void encode(const struct change *ch, const struct request_id *request, struct buf *out)
{
    const struct cancel_change *c = (const struct cancel_change *)ch;
    (void)request; // a repeated call has the same ids
    CLEANUP(buf_done) struct buf seqs;
    buf_init(&seqs, (size_t)REFS_MAX * sizeof(uint64_t));
    for (size_t i = 0; i < c->split.count; i++)
        buf_put_u64(&seqs, c->rows[by_shard_item(&c->split, i)].seq);
    CHECK(!seqs.bad);
    cancel_encode(out, &(struct op_cancel){.request = request_part(c->whole.bytes, c->split.number),
                                           .reason = c->reason ? bytes_str(c->reason) : BYTES_EMPTY,
                                           .count = c->split.count,
                                           .seqs = buf_bytes(&seqs)});
}

static void refuse_message(const struct cancel_change *c, enum reason reason, const char *id,
                           struct sluice_error *why)
{
    const char *queue = c->queue->row.name;
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
    struct sluice_outcome *o = &c->outcomes[at];
    if (row) outcome_fill(OP_CANCEL, row, o);
    if (row && row->reason != REASON_NONE && !c->first.code)
        refuse_message(c, row->reason, c->ids[at], &c->first);
    if (row) return;
    outcome_refuse(o, why->code, why->reason);
    if (!c->first.code) c->first = *why;
}

static enum sluice_code take(struct change *ch, const struct result *result, enum sluice_code code)
{
    struct cancel_change *c = (struct cancel_change *)ch;
    struct result rows = result ? *result : (struct result){0};
    struct outcome_row row;
    (void)code;
    if (rows.count > 0 && rows.count != c->split.count)
        (void)refuse_reason(&ch->why, REASON_REQUEST_REUSED, c->queue->row.name);
    bool decided = rows.count == c->split.count;
    for (size_t i = 0; i < c->split.count; i++)
        note_row(c, by_shard_item(&c->split, i),
                 decided && outcome_row_next(&rows, &row) ? &row : NULL, &ch->why);
    ch->shard = by_shard_next(&c->split);
    return SLUICE_OK;
}

static void note_refused(struct cancel_change *c)
{
    for (size_t i = 0; i < c->len; i++)
        if (c->rows[i].code) outcome_refuse(&c->outcomes[i], c->rows[i].code, c->rows[i].reason);
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
    enum call_built built = named_ids_begin(call, may_block, c->ids, c->len, c->rows, &c->first);
    if (built == CALL_BUILT)
        built = call_needs_rules(call, may_block, RULES_SIGNALS, "cancel needs");
    if (built != CALL_BUILT) return built;
    c->queue = call->queue;
    note_refused(c);
    by_shard_begin(&c->split);
    ch->shard = by_shard_next(&c->split);
    return ch->shard == NO_SHARD ? CALL_ENDED : CALL_BUILT;
}

static void end(struct change *ch, struct local_call *call)
{
    struct cancel_change *c = (struct cancel_change *)ch;
    enum sluice_code code = call_code(call);
    for (size_t i = 0; code && i < c->len; i++)
        outcome_refuse(&c->outcomes[i], code, "");
    if (!code && c->first.code) *call_error(call) = c->first;
}

static void release(struct change *ch)
{
    struct cancel_change *c = (struct cancel_change *)ch;
    by_shard_done(&c->split);
    memory_free(c->rows);
    memory_free(c->own);
}

enum sluice_code start_cancel(const struct request_origin *as, const char *queue,
                              const char *const *ids, size_t len, const char *reason,
                              struct sluice_outcome *outcomes, struct sluice_error *error)
{
    struct cancel_change *c = NEW(struct cancel_change);
    c->change = (struct change){.kind = OP_CANCEL,
                                .check = check,
                                .begin = begin,
                                .encode = encode,
                                .take = take,
                                .end = end,
                                .release = release,
                                .owned = true};
    c->ids = ids;
    c->len = len;
    c->rows = memory_zeroed(len + 1, sizeof *c->rows);
    c->reason = reason;
    c->whole = request_or_new(as->request);
    by_shard_init(&c->split, &split_ids, c, len);
    c->own = outcomes ? NULL : memory_zeroed(len + 1, sizeof *outcomes);
    c->outcomes = outcomes ? outcomes : c->own;
    return change_queue(as, queue, &c->change, error);
}
