// SPDX-License-Identifier: Apache-2.0
// Ends chosen messages that no worker holds: one op for each shard. The shards are independent: if
// one cannot be reached, the messages of the others are cancelled nevertheless.
#include "local/cancel.h"

#include "base/check.h"
#include "base/memory.h"
#include "local/change.h"
#include "local/settle.h"
#include "os/entropy.h"

#include <stdio.h>
#include <string.h>

struct cancelling {
    struct change change; // first
    const char *const *ids;
    struct named_id *rows;
    size_t len;
    const char *reason;
    struct request_id whole;
    uint64_t part; // number of the op under way
    size_t *members;
    size_t count; // of the op under way
    struct open_queue *queue;
    struct sluice_outcome *outcomes;
    struct sluice_error first; // of the first message that was refused
};

static void encode(const struct change *ch, const struct request_id *request, struct buf *out)
{
    const struct cancelling *c = (const struct cancelling *)ch;
    (void)request; // a repeated call has the same ids
    CLEANUP(buf_done) struct buf seqs;
    buf_init(&seqs, (size_t)REFS_MAX * sizeof(uint64_t));
    for (size_t i = 0; i < c->count; i++)
        buf_put_u64(&seqs, c->rows[c->members[i]].seq);
    CHECK(!seqs.bad);
    cancel_encode(out, &(struct op_cancel){.request = request_part(c->whole.bytes, c->part),
                                           .reason = c->reason ? bytes_str(c->reason) : BYTES_EMPTY,
                                           .count = (uint32_t)c->count,
                                           .seqs = buf_bytes(&seqs)});
}

static void refuse_message(const struct cancelling *c, enum reason reason, const char *id,
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

static enum sluice_code take(struct change *ch, const struct result *result, enum sluice_code code)
{
    struct cancelling *c = (struct cancelling *)ch;
    struct result rows = result ? *result : (struct result){0};
    struct outcome_row row;
    ch->shard = UINT32_MAX; // one op
    if (!result || result->count == 0) return code;
    if (result->count != c->count) return SLUICE_INVALID;
    for (size_t i = 0; i < c->count && outcome_row_next(&rows, &row); i++) {
        size_t at = c->members[i];
        outcome_fill(OP_CANCEL, &row, &c->outcomes[at]);
        if (row.reason != REASON_NONE && !c->first.code)
            refuse_message(c, row.reason, c->ids[at], &c->first);
    }
    return SLUICE_OK;
}

static void cancel_some(struct cancelling *c, uint32_t shard)
{
    struct sluice_error why = {.code = SLUICE_OK};
    c->change.shard = shard;
    enum sluice_code code = change_open_queue(c->queue, &c->change, &why);
    if (code == SLUICE_INVALID && !why.code)
        (void)refuse_reason(&why, REASON_REQUEST_REUSED, c->queue->row.name);
    if (code && !c->first.code) c->first = why;
    for (size_t i = 0; i < c->count; i++) {
        struct sluice_outcome *o = &c->outcomes[c->members[i]];
        if (!o->status) *o = (struct sluice_outcome){.code = code, .status = ""};
        if (code) (void)snprintf(o->reason, sizeof o->reason, "%s", why.reason);
    }
    c->part++;
}

static void cancel_shard(struct cancelling *c, uint32_t shard)
{
    c->count = 0;
    for (size_t i = 0; i < c->len; i++) {
        if (c->rows[i].code || c->rows[i].shard != shard) continue;
        c->members[c->count++] = i;
        if (c->count < REFS_MAX) continue;
        cancel_some(c, shard);
        c->count = 0;
    }
    if (c->count > 0) cancel_some(c, shard);
}

static void note_refused(struct cancelling *c)
{
    for (size_t i = 0; i < c->len; i++) {
        if (!c->rows[i].code) continue;
        c->outcomes[i] = (struct sluice_outcome){.code = c->rows[i].code, .status = ""};
        memcpy(c->outcomes[i].reason, c->rows[i].reason, sizeof c->outcomes[i].reason);
    }
}

static enum sluice_code check(const char *reason, struct sluice_error *error)
{
    size_t len = reason ? strlen(reason) : 0;
    if (len <= FAIL_REASON_MAX) return SLUICE_OK;
    return refuse(error, ERR_INVALID, "reason", "reason has %zu bytes; at most %d are allowed", len,
                  FAIL_REASON_MAX);
}

enum sluice_code cancel_messages(struct sluice *s, const char *queue, const char *const *ids,
                                 size_t len, const char *reason, const struct acting *as,
                                 struct sluice_outcome *outcomes, struct sluice_error *error)
{
    struct cancelling c = {
        .change = {.kind = OP_CANCEL, .encode = encode, .take = take, .token = as->token},
        .ids = ids,
        .rows = memory_zeroed(len + 1, sizeof *c.rows),
        .len = len,
        .reason = reason,
        .members = memory_zeroed(REFS_MAX, sizeof *c.members),
        .outcomes = outcomes ? outcomes : memory_zeroed(len + 1, sizeof *outcomes)};
    memset(c.outcomes, 0, len * sizeof *c.outcomes);
    if (as->request) memcpy(c.whole.bytes, as->request->bytes, sizeof c.whole.bytes);
    if (!as->request) entropy_fill(c.whole.bytes, sizeof c.whole.bytes);
    enum sluice_code code = check(reason, error);
    if (!code) code = named_ids_open(s, queue, ids, len, &c.queue, c.rows, &c.first, error);
    if (!code) code = queue_needs_rules(c.queue, RULES_SIGNALS, "cancel needs", error);
    if (!code) note_refused(&c);
    for (uint32_t shard = 0; !code && shard < c.queue->row.birth.shards; shard++)
        cancel_shard(&c, shard);
    for (size_t i = 0; code && i < len; i++)
        c.outcomes[i] = (struct sluice_outcome){.code = code, .status = ""};
    if (!code && c.first.code && error) *error = c.first;
    if (c.queue) queue_let_go(&c.queue);
    memory_free(c.rows);
    memory_free(c.members);
    if (!outcomes) memory_free(c.outcomes);
    return code ? code : c.first.code;
}

enum sluice_code direct_cancel(struct sluice *s, const char *queue, const char *const *ids,
                               size_t len, const char *reason, struct sluice_outcome *outcomes,
                               struct sluice_error *error)
{
    return cancel_messages(s, queue, ids, len, reason, &(struct acting){0}, outcomes, error);
}
