// SPDX-License-Identifier: Apache-2.0
// The holder of a lock ends signals: sluice_signals_ack. One op has answers of one shard, in the
// order in which they are given.
#include "local/signals.h"

#include "base/check.h"
#include "base/memory.h"
#include "local/change.h"
#include "os/entropy.h"

#include <stdio.h>
#include <string.h>

#define ROWS_BYTES_MAX ((size_t)1 << 20) // of the answers in one op, unless one is larger

struct signal_settling {
    struct change change; // first
    struct open_queue *queue;
    const struct sluice_signal_answer *answers;
    struct lock_name *locks;
    struct sluice_outcome *outcomes;
    size_t len;
    size_t *members; // of the op under way
    size_t count;
    uint32_t shard;
    struct request_id whole;
    uint64_t part;
    struct sluice_error first;
};

static void encode(const struct change *ch, const struct request_id *request, struct buf *out)
{
    const struct signal_settling *s = (const struct signal_settling *)ch;
    struct op_outcome origin = {0};
    (void)request; // a repeated call has the same ids
    CLEANUP(buf_done) struct buf rows;
    buf_init(&rows, JOURNAL_OP_MAX);
    for (size_t i = 0; i < s->count; i++) {
        const struct sluice_signal_answer *a = &s->answers[s->members[i]];
        struct signal_answer row = {.ref = s->locks[s->members[i]].ref,
                                    .number = a->number,
                                    .act = a->decline ? SIGNAL_DECLINE : SIGNAL_ACK,
                                    .answer = bytes_of(a->answer, a->answer_len)};
        signal_answer_put(&rows, &row);
    }
    CHECK(!rows.bad);
    runner_outcome_origin(runner_if_open(s->queue, s->shard), &origin);
    signal_settle_encode(
        out, &(struct op_signal_settle){.request = request_part(s->whole.bytes, s->part),
                                        .queue = origin.queue,
                                        .shard = origin.shard,
                                        .arrived_at = origin.arrived_at,
                                        .count = (uint32_t)s->count,
                                        .rows = buf_bytes(&rows)});
}

static void refuse_answer(struct signal_settling *s, size_t at, enum reason reason)
{
    struct sluice_outcome *o = &s->outcomes[at];
    o->code = (enum sluice_code)reason_err(reason);
    (void)snprintf(o->reason, sizeof o->reason, "%s", reason_name(reason));
    if (s->first.code) return;
    (void)refuse_reason(&s->first, reason, s->queue->row.name);
    const struct sluice_signal_answer *a = &s->answers[at];
    if (reason == REASON_UNKNOWN_SIGNAL)
        (void)snprintf(s->first.message, sizeof s->first.message,
                       "signal %u was never delivered to the holder of token %.60s", a->number,
                       a->token);
    else
        (void)snprintf(s->first.message, sizeof s->first.message, "signal %u of token %.60s: %s",
                       a->number, a->token, reason_text(reason));
}

static enum sluice_code take(struct change *ch, const struct result *result, enum sluice_code code)
{
    struct signal_settling *s = (struct signal_settling *)ch;
    struct result rows = result ? *result : (struct result){0};
    enum reason reason;
    ch->shard = UINT32_MAX; // one op
    if (!result || result->count != s->count) return code;
    for (size_t i = 0; i < s->count && worker_reason_next(&rows, &reason); i++) {
        size_t at = s->members[i];
        s->outcomes[at] = (struct sluice_outcome){.status = ""};
        if (reason == REASON_NONE)
            s->outcomes[at].status = s->answers[at].decline ? "declined" : "acked";
        else
            refuse_answer(s, at, reason);
    }
    return SLUICE_OK;
}

static void settle_some(struct signal_settling *s)
{
    struct sluice_error why = {.code = SLUICE_OK};
    s->change.shard = s->shard;
    enum sluice_code code = change_open_queue(s->queue, &s->change, &why);
    bool reused = !code && !s->outcomes[s->members[0]].status;
    if (reused) code = refuse_reason(&why, REASON_REQUEST_REUSED, s->queue->row.name);
    if (code && !s->first.code) s->first = why;
    for (size_t i = 0; code && i < s->count; i++) {
        struct sluice_outcome *o = &s->outcomes[s->members[i]];
        *o = (struct sluice_outcome){.code = code, .status = ""};
        (void)snprintf(o->reason, sizeof o->reason, "%s", why.reason);
    }
    s->part++;
    s->count = 0;
}

static void settle_shard(struct signal_settling *s, uint32_t shard)
{
    size_t bytes = 0;
    s->shard = shard;
    s->count = 0;
    for (size_t i = 0; i < s->len; i++) {
        if (s->outcomes[i].code || s->locks[i].shard != shard) continue;
        if (s->count > 0 &&
            (s->count == REFS_MAX || bytes + s->answers[i].answer_len > ROWS_BYTES_MAX)) {
            settle_some(s);
            bytes = 0;
        }
        s->members[s->count++] = i;
        bytes += s->answers[i].answer_len;
    }
    if (s->count > 0) settle_some(s);
}

// *foreign: a token is of another queue, or of another life of this one.
static void parse(struct signal_settling *s, bool *foreign)
{
    s->first = (struct sluice_error){.code = SLUICE_OK};
    *foreign = false;
    for (size_t i = 0; i < s->len; i++) {
        struct sluice_error why;
        const char *token = s->answers[i].token ? s->answers[i].token : "";
        s->outcomes[i] = (struct sluice_outcome){.code = SLUICE_OK};
        if (!token_parse(s->queue, token, &s->locks[i], &why)) continue;
        *foreign = *foreign || why.code == SLUICE_NOT_FOUND;
        s->outcomes[i] = (struct sluice_outcome){.code = why.code, .status = ""};
        (void)snprintf(s->outcomes[i].reason, sizeof why.reason, "%s", why.reason);
        if (!s->first.code) s->first = why;
    }
}

static enum sluice_code open_queue(struct signal_settling *s, struct sluice *h, const char *queue,
                                   struct sluice_error *error)
{
    bool foreign;
    enum sluice_code code = queue_get(h, queue, &s->queue, error);
    if (code) return code;
    parse(s, &foreign);
    if (!foreign) return SLUICE_OK;
    struct open_queue *fresh = NULL; // the open queue may be an old life of its name
    code = queue_get_fresh(h, queue, &fresh, error);
    queue_let_go(&s->queue);
    s->queue = fresh;
    if (!code) parse(s, &foreign);
    return code;
}

enum sluice_code signals_settle(struct sluice *h, const char *queue,
                                const struct sluice_signal_answer *answers, size_t len,
                                const struct acting *as, struct sluice_outcome *outcomes,
                                struct sluice_error *error)
{
    struct signal_settling s = {
        .change = {.kind = OP_SIGNAL_SETTLE, .encode = encode, .take = take, .token = as->token},
        .answers = answers,
        .locks = memory_zeroed(len + 1, sizeof *s.locks),
        .outcomes = outcomes ? outcomes : memory_zeroed(len + 1, sizeof *outcomes),
        .len = len,
        .members = memory_zeroed(len + 1, sizeof *s.members)};
    if (as->request) memcpy(s.whole.bytes, as->request->bytes, sizeof s.whole.bytes);
    if (!as->request) entropy_fill(s.whole.bytes, sizeof s.whole.bytes);
    enum sluice_code code = signal_answers_check(answers, len, error);
    if (!code) code = open_queue(&s, h, queue, error);
    if (!code) code = queue_needs_rules(s.queue, RULES_SIGNALS, "a signal needs", error);
    for (uint32_t shard = 0; !code && shard < s.queue->row.birth.shards; shard++)
        settle_shard(&s, shard);
    for (size_t i = 0; code && i < len; i++)
        s.outcomes[i] = (struct sluice_outcome){.code = code, .status = ""};
    if (!code && s.first.code && error) *error = s.first;
    if (s.queue) queue_let_go(&s.queue);
    memory_free(s.locks);
    memory_free(s.members);
    if (!outcomes) memory_free(s.outcomes);
    return code ? code : s.first.code;
}

enum sluice_code direct_signals_ack(struct sluice *s, const char *queue,
                                    const struct sluice_signal_answer *answers, size_t len,
                                    struct sluice_outcome *outcomes, struct sluice_error *error)
{
    return signals_settle(s, queue, answers, len, &(struct acting){0}, outcomes, error);
}
