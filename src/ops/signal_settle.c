// SPDX-License-Identifier: Apache-2.0
// The holder of a lock ends signals: sluice_signals_ack. One op has answers of one shard, in the
// order in which they are given.
#include "ops/ops.h"

#include "base/check.h"
#include "base/memory.h"
#include "ops/by_shard.h"
#include "ops/change.h"
#include "ops/settle.h"

#include <stdio.h>
#include <string.h>

#define ROWS_BYTES_MAX ((size_t)1 << 20) // of the answers in one op, unless one is larger

struct signal_settle_change {
    struct change_rows rows; // first
    const struct sluice_signal_answer *answers;
    struct lock_name *locks;
    size_t op_bytes; // of the answers in the op under way
};

static uint32_t shard_of(const void *ctx, size_t i)
{
    const struct signal_settle_change *s = ctx;
    return s->rows.outcomes[i].code ? NO_SHARD : s->locks[i].shard;
}

static bool add(void *ctx, size_t i, bool first)
{
    struct signal_settle_change *s = ctx;
    s->op_bytes = (first ? 0 : s->op_bytes) + s->answers[i].answer_len;
    return first || s->op_bytes <= ROWS_BYTES_MAX;
}

static const struct by_shard_type split_answers = {
    .shard_of = shard_of, .add = add, .op_max = REFS_MAX};

static void encode(const struct change *ch, const struct request_id *request, struct buf *out)
{
    const struct signal_settle_change *s = (const struct signal_settle_change *)ch;
    struct op_outcome origin = {0};
    (void)request; // a repeated call has the same ids
    LOCAL(buf, rows, JOURNAL_OP_MAX);
    for (size_t i = 0; i < s->rows.split.count; i++) {
        size_t at = by_shard_item(&s->rows.split, i);
        const struct sluice_signal_answer *a = &s->answers[at];
        struct signal_answer row = {.ref = s->locks[at].ref,
                                    .number = a->number,
                                    .act = a->decline ? SIGNAL_DECLINE : SIGNAL_ACK,
                                    .answer = bytes_of(a->answer, a->answer_len)};
        signal_answer_put(&rows, &row);
    }
    CHECK(!rows.bad);
    runner_outcome_origin(runner_if_open(s->rows.queue, ch->shard), &origin);
    signal_settle_encode(out,
                         &(struct op_signal_settle){
                             .request = request_part(s->rows.whole.bytes, s->rows.split.number),
                             .queue = origin.queue,
                             .shard = origin.shard,
                             .arrived_at = origin.arrived_at,
                             .count = s->rows.split.count,
                             .rows = buf_bytes(&rows)});
}

static void refuse_answer(struct signal_settle_change *s, size_t at, enum reason reason)
{
    outcome_refuse(&s->rows.outcomes[at], (enum sluice_code)reason_err(reason),
                   reason_name(reason));
    if (s->rows.first.code) return;
    (void)refuse_reason(&s->rows.first, reason, s->rows.queue->row.name);
    const struct sluice_signal_answer *a = &s->answers[at];
    if (reason == REASON_UNKNOWN_SIGNAL)
        (void)snprintf(s->rows.first.message, sizeof s->rows.first.message,
                       "signal %u was never delivered to the holder of token %.60s", a->number,
                       a->token);
    else
        (void)snprintf(s->rows.first.message, sizeof s->rows.first.message,
                       "signal %u of token %.60s: %s", a->number, a->token, reason_text(reason));
}

static enum sluice_code take(struct change *ch, const struct result *result, enum sluice_code code)
{
    struct signal_settle_change *s = (struct signal_settle_change *)ch;
    struct result rows = result ? *result : (struct result){0};
    enum reason reason;
    bool decided = rows.count == s->rows.split.count;
    if (!decided && !code)
        (void)refuse_reason(&ch->why, REASON_REQUEST_REUSED, s->rows.queue->row.name);
    if (!decided && !s->rows.first.code) s->rows.first = ch->why;
    for (size_t i = 0; i < s->rows.split.count; i++) {
        size_t at = by_shard_item(&s->rows.split, i);
        struct sluice_outcome *o = &s->rows.outcomes[at];
        *o = (struct sluice_outcome){.status = ""};
        bool has = decided && worker_reason_next(&rows, &reason);
        if (has && reason == REASON_NONE)
            o->status = s->answers[at].decline ? "declined" : "acked";
        else if (has)
            refuse_answer(s, at, reason);
        else
            outcome_refuse(o, ch->why.code, ch->why.reason);
    }
    ch->shard = by_shard_next(&s->rows.split);
    return SLUICE_OK;
}

// *foreign: a token is of another queue, or of another life of this one.
static void parse(struct signal_settle_change *s, const struct open_queue *q, bool *foreign)
{
    s->rows.first = (struct sluice_error){.code = SLUICE_OK};
    *foreign = false;
    for (size_t i = 0; i < s->rows.len; i++) {
        struct sluice_error why;
        const char *token = s->answers[i].token ? s->answers[i].token : "";
        s->rows.outcomes[i] = (struct sluice_outcome){.code = SLUICE_OK};
        if (!token_parse(queue_ref(q), token, &s->locks[i], &why)) continue;
        *foreign = *foreign || why.code == SLUICE_NOT_FOUND;
        outcome_refuse(&s->rows.outcomes[i], why.code, why.reason);
        if (!s->rows.first.code) s->rows.first = why;
    }
}

static enum sluice_code check(struct change *ch, struct sluice_error *error)
{
    const struct signal_settle_change *s = (struct signal_settle_change *)ch;
    return signal_answers_check(s->answers, s->rows.len, error);
}

static enum call_built begin(struct change *ch, struct local_call *c, bool may_block)
{
    struct signal_settle_change *s = (struct signal_settle_change *)ch;
    enum call_built built = CALL_BUILT;
    bool foreign;
    parse(s, c->queue, &foreign);
    if (foreign) built = change_open_again(c, may_block); // it may be an old life of its name
    if (foreign && built == CALL_BUILT) parse(s, c->queue, &foreign);
    if (built != CALL_BUILT) return built;
    return change_rows_begin(&s->rows, c);
}

static void release(struct change *ch)
{
    struct signal_settle_change *s = (struct signal_settle_change *)ch;
    change_rows_done(&s->rows);
    memory_free(s->locks);
}

enum sluice_code start_signals_ack(const struct request_origin *as, const char *queue,
                                   const struct sluice_signal_answer *answers, size_t len,
                                   struct sluice_outcome *outcomes, struct sluice_error *error)
{
    struct signal_settle_change *s = NEW(struct signal_settle_change);
    s->rows.change = (struct change){.kind = OP_SIGNAL_SETTLE,
                                     .check = check,
                                     .begin = begin,
                                     .encode = encode,
                                     .take = take,
                                     .release = release};
    s->answers = answers;
    s->locks = memory_zeroed(len + 1, sizeof *s->locks);
    change_rows_init(&s->rows, as, &split_answers, len, outcomes);
    return change_queue(as, queue, &s->rows.change, error);
}
