// SPDX-License-Identifier: Apache-2.0
// The library repeats an op whose result is unknown once, with the same request id, so it cannot be
// applied twice. The answer stays UNKNOWN only if the repeat has no rows either, because the first
// try may have been applied. A send is not repeated by the library, because its caller can repeat
// it with the same request id. sluice_ack, sluice_fail, sluice_release and sluice_renew take no id.
#include "ops/settle.h"
#include "ops/ops.h"
#include "protocol/call_arguments.h"

#include "base/check.h"
#include "base/memory.h"
#include "ops/mailbox_session.h"
#include "os/entropy.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static struct bytes text_of(const char *text)
{
    return text ? bytes_str(text) : BYTES_EMPTY;
}

// The bytes of the texts that a token carries.
static size_t carried_bytes(const struct settle_plan *s, size_t i)
{
    const struct settle_extras *c = s->carried;
    size_t bytes = 0;
    if (c && c->acks && c->acks[i].result)
        bytes += c->acks[i].result_len + text_of(c->acks[i].content_type).len + 2;
    if (c && c->renewals) bytes += text_of(c->renewals[i].text).len + 1;
    return bytes;
}

static uint32_t shard_of(const void *ctx, size_t i)
{
    return ((const struct settle_plan *)ctx)->locks[i].shard;
}

static bool add(void *ctx, size_t i, bool first)
{
    const struct settle_plan *s = ctx;
    struct settle_extras *c = s->carried;
    if (!c) return true;
    c->bytes = (first ? 0 : c->bytes) + carried_bytes(s, i);
    return first || c->bytes <= CARRIED_BYTES_MAX;
}

static const struct by_shard_type split_locks = {
    .shard_of = shard_of, .add = add, .op_max = REFS_MAX};

void settling_init(struct settle_plan *s, const struct settle *what,
                   struct sluice_outcome *outcomes)
{
    static const uint16_t kinds[] = {[SETTLE_ACK] = OP_ACK,
                                     [SETTLE_FAIL] = OP_FAIL,
                                     [SETTLE_RELEASE] = OP_RELEASE,
                                     [SETTLE_RENEW] = OP_RENEW};
    *s = (struct settle_plan){.kind = kinds[what->kind],
                              .wait_ms = what->wait_ms,
                              .reason = what->reason ? bytes_str(what->reason) : BYTES_EMPTY,
                              .tokens = what->tokens,
                              .len = what->len,
                              .named = what->request != NULL,
                              .outcomes = outcomes};
    if (s->reason.len > FAIL_REASON_MAX) s->reason.len = FAIL_REASON_MAX;
    if (what->request) memcpy(s->request.bytes, what->request->bytes, sizeof s->request.bytes);
    buf_init(&s->payload, JOURNAL_OP_MAX);
    by_shard_init(&s->split, &split_locks, s, s->len);
    if (!what->acks && !what->renewals) return;
    s->carried = NEW(struct settle_extras);
    s->carried->acks = what->acks;
    s->carried->renewals = what->renewals;
    s->carried->has_result = memory_zeroed(what->len + 1, sizeof(bool));
    for (size_t i = 0; what->acks && i < what->len; i++)
        s->carried->has_result[i] = what->acks[i].result != NULL;
    buf_init(&s->carried->extras, JOURNAL_OP_MAX);
}

void settling_done(struct settle_plan *s)
{
    if (s->carried) buf_done(&s->carried->extras);
    if (s->carried) memory_free(s->carried->has_result);
    memory_free(s->carried);
    buf_done(&s->payload);
    memory_free(s->locks);
    by_shard_done(&s->split);
    memory_free(s->copy);
}

static void own_carried(struct settle_extras *c, size_t len, struct sluice_ack *acks,
                        struct sluice_renewal *renewals, char **at)
{
    for (size_t i = 0; c->acks && i < len; i++) {
        acks[i] = (struct sluice_ack){.result = c->acks[i].result};
        if (!acks[i].result) continue;
        acks[i].result_len = c->acks[i].result_len;
        acks[i].result = text_append(at, bytes_of(c->acks[i].result, acks[i].result_len));
        acks[i].content_type = text_append(at, text_of(c->acks[i].content_type));
    }
    for (size_t i = 0; c->renewals && i < len; i++) {
        renewals[i] = c->renewals[i];
        renewals[i].text = text_append(at, text_of(c->renewals[i].text));
    }
    if (c->acks) c->acks = acks;
    if (c->renewals) c->renewals = renewals;
}

void settling_own(struct settle_plan *s)
{
    struct settle_extras *c = s->carried;
    size_t acks = c && c->acks ? s->len : 0, renewals = c && c->renewals ? s->len : 0;
    size_t bytes = s->len * sizeof(char *) + s->reason.len + 1 + acks * sizeof(struct sluice_ack) +
                   renewals * sizeof(struct sluice_renewal);
    for (size_t i = 0; i < s->len; i++)
        bytes += strlen(s->tokens[i]) + 1 + carried_bytes(s, i);
    struct sluice_ack *ack_rows = memory_new(bytes);
    struct sluice_renewal *renewal_rows = (struct sluice_renewal *)(ack_rows + acks);
    const char **rows = (const char **)(renewal_rows + renewals);
    char *at = (char *)(rows + s->len);
    for (size_t i = 0; i < s->len; i++)
        rows[i] = text_append(&at, bytes_str(s->tokens[i]));
    s->reason = bytes_of(text_append(&at, s->reason), s->reason.len);
    s->tokens = rows;
    s->copy = ack_rows;
    if (c) own_carried(c, s->len, ack_rows, renewal_rows, &at);
}

void outcome_refuse(struct sluice_outcome *out, enum sluice_code code, const char *reason)
{
    *out = (struct sluice_outcome){.code = code, .status = ""};
    (void)snprintf(out->reason, sizeof out->reason, "%s", reason);
}

static void note_failure(struct settle_plan *s, struct local_call *c, size_t index,
                         enum sluice_code code, bool note)
{
    if (note && !call_code(c)) call_set_code(c, code);
    outcome_refuse(&s->outcomes[index], code, "");
}

// Returns the number of good tokens. *foreign: one of them is of another queue.
static size_t read_tokens(const struct settle_plan *s, const struct open_queue *q,
                          struct lock_name *to, bool *foreign)
{
    size_t good = 0;
    *foreign = false;
    for (size_t i = 0; i < s->len; i++) {
        enum sluice_code code = token_parse(queue_ref(q), s->tokens[i], &to[i], NULL);
        good += !code;
        *foreign = *foreign || code == SLUICE_NOT_FOUND;
    }
    return good;
}

// Returns the number of good ones.
static size_t note_refused(struct settle_plan *s, struct local_call *c)
{
    size_t good = 0;
    for (size_t i = 0; i < s->len; i++) {
        struct sluice_error why = {.reason = ""};
        enum sluice_code bad = token_parse(queue_ref(c->queue), s->tokens[i], &s->locks[i], &why);
        good += !bad;
        if (!bad) continue;
        s->locks[i].shard = NO_SHARD;
        struct sluice_error *error = c->state.kind == STEP_SETTLE ? call_error(c) : NULL;
        if (error) *error = why;
        outcome_refuse(&s->outcomes[i], bad, why.reason);
    }
    return good;
}

size_t settling_parse(struct settle_plan *s, struct local_call *c, bool may_block, bool *blocks)
{
    bool foreign;
    struct lock_name *locks = memory_zeroed(s->len, sizeof *locks);
    size_t good = read_tokens(s, c->queue, locks, &foreign);
    *blocks = foreign && !may_block;
    // The open queue may be an old life of its name.
    if (*blocks || (foreign && !call_open_again(c))) {
        memory_free(locks);
        return 0;
    }
    s->locks = locks;
    if (good < s->len) good = note_refused(s, c);
    by_shard_begin(&s->split);
    return good;
}

enum call_built settling_check(const struct settle_plan *s, struct local_call *c)
{
    if (!s->carried) return CALL_BUILT;
    struct settle what = {
        .len = s->len, .acks = s->carried->acks, .renewals = s->carried->renewals};
    return settle_check(&what, call_error(c)) ? CALL_ENDED : CALL_BUILT;
}

bool settling_is_one_op(const struct settle_plan *s)
{
    size_t bytes = 0;
    for (size_t i = 0; i < s->len; i++) {
        if (s->locks[i].shard != s->locks[0].shard || s->locks[i].shard == NO_SHARD) return false;
        bytes += carried_bytes(s, i);
    }
    return s->len == 1 || (s->len > 0 && s->len <= REFS_MAX && bytes <= CARRIED_BYTES_MAX);
}

// An op whose locks carry nothing has no such rows.
static struct bytes encode_extras(const struct settle_plan *s)
{
    struct settle_extras *c = s->carried;
    bool any = false;
    if (!c) return BYTES_EMPTY;
    buf_clear(&c->extras);
    for (size_t i = 0; i < s->split.count; i++)
        any = carried_put(&c->extras, c->acks, c->renewals, by_shard_item(&s->split, i)) || any;
    CHECK(!c->extras.bad);
    return any ? buf_bytes(&c->extras) : BYTES_EMPTY;
}

static struct request_id request_of(const struct settle_plan *s)
{
    struct request_id id;
    if (s->named) return request_part(s->request.bytes, s->split.number);
    entropy_fill(id.bytes, sizeof id.bytes);
    return id;
}

static void encode(struct settle_plan *s, struct shard_runner *r)
{
    LOCAL(buf, refs, (size_t)REFS_MAX * LOCK_REF_BYTES);
    for (size_t i = 0; i < s->split.count; i++)
        lock_ref_put(&refs, &s->locks[by_shard_item(&s->split, i)].ref);
    struct op_outcome op = {.wait_ms = s->wait_ms,
                            .reason = s->reason,
                            .count = s->split.count,
                            .refs = buf_bytes(&refs),
                            .extras = encode_extras(s),
                            .request = request_of(s)};
    runner_outcome_origin(r, &op);
    buf_clear(&s->payload);
    outcome_encode(&s->payload, &op);
}

struct shard_runner *settling_op(struct settle_plan *s, struct local_call *c, uint32_t index,
                                 struct op *out, uint32_t *shard)
{
    bool fresh = by_shard_op(&s->split, c, index);
    *shard = s->split.shard;
    struct shard_runner *r = call_runner(c, *shard);
    if (r && fresh) encode(s, r);
    for (size_t i = 0; !r && i < s->split.count; i++)
        note_failure(s, c, by_shard_item(&s->split, i), call_code(c), false);
    *out = (struct op){s->kind, buf_bytes(&s->payload)};
    return r;
}

enum call_op_end settling_op_end(enum err err)
{
    return err == ERR_UNKNOWN ? STEP_OP_UNKNOWN : STEP_OP_DONE;
}

static const char *status_of(uint16_t kind, const struct outcome_row *row)
{
    if (row->reason != REASON_NONE) return "";
    if (kind == OP_RENEW) return "renewed";
    return kind == OP_RELEASE ? "released" : outcome_status_name(row->status);
}

void outcome_fill(uint16_t kind, const struct outcome_row *row, struct sluice_outcome *out)
{
    enum sluice_code code = (enum sluice_code)reason_err(row->reason);
    *out =
        (struct sluice_outcome){.code = code, .status = status_of(kind, row), .until = row->until};
    if (code) (void)snprintf(out->reason, sizeof out->reason, "%s", reason_name(row->reason));
}

static void read_retention(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    *(int64_t *)ctx = machine_config(m)->retention_ms;
}

// Whether the queue keeps results, as far as this process has folded.
static bool keeps_results(struct open_queue *q, uint32_t shard)
{
    int64_t retention_ms = 1;
    struct shard_runner *r = runner_if_open(q, shard);
    if (r) runner_inspect(r, read_retention, &retention_ms);
    return retention_ms > 0;
}

static void note_outcome(struct settle_plan *s, struct local_call *c, size_t index,
                         const struct outcome_row *row, bool note)
{
    bool refused = reason_err(row->reason) != ERR_OK;
    if (refused && note) (void)refuse_reason(call_error(c), row->reason, c->queue->row.name);
    if (row->status == OUTCOME_DEAD_LETTERED) engine_wake(c->engine);
    struct sluice_outcome *o = &s->outcomes[index];
    outcome_fill(s->kind, row, o);
    bool result = s->carried && s->carried->has_result[index];
    if (result && !refused && !keeps_results(c->queue, s->locks[index].shard))
        (void)snprintf(o->reason, sizeof o->reason, RESULT_NOT_KEPT);
}

// A renewal says how many signals wait.
static void note_signals(const struct settle_plan *s, const struct kept_signals *signals)
{
    for (size_t i = 0; signals && i < signals->len; i++) {
        const struct signal_delivery *row = &signals->rows[i];
        if (row->index < s->split.count)
            s->outcomes[by_shard_item(&s->split, row->index)].signals = row->waiting;
    }
}

void settling_conclude(struct settle_plan *s, struct local_call *c, const struct call_slot *slot,
                       bool note)
{
    struct result result = {0};
    struct outcome_row row;
    const struct kept_reply *a = &slot->async.answer;
    enum sluice_code code = SLUICE_OK;
    enum err err = slot->err;
    bool again = call_op_was_repeated(&c->state, slot->index);
    if (again && a->body.len == 0) err = ERR_UNKNOWN; // the first try may be applied
    bool answered = a->body.len > 0 && !result_open(buf_bytes(&a->body), s->kind, &result);
    if (!answered || result.count == 0)
        code = refuse_op(note ? call_error(c) : NULL, err ? err : ERR_CORRUPT, s->kind, a,
                         c->queue->row.name);
    else if (result.count != s->split.count)
        code =
            refuse_reason(note ? call_error(c) : NULL, REASON_REQUEST_REUSED, c->queue->row.name);
    by_shard_mark_away(&s->split, slot);
    for (size_t i = 0; i < s->split.count; i++) {
        if (!code && outcome_row_next(&result, &row))
            note_outcome(s, c, by_shard_item(&s->split, i), &row, note);
        else
            note_failure(s, c, by_shard_item(&s->split, i), code ? code : SLUICE_CORRUPT, note);
    }
    note_signals(s, a->signals);
}

void acks_fill(struct sluice_outcome *acked, size_t len, enum sluice_code code)
{
    for (size_t i = 0; i < len; i++)
        if (!acked[i].status) acked[i] = (struct sluice_outcome){.code = code, .status = ""};
}

struct settle_call {
    struct local_call call; // first
    struct settle_plan settling;
    struct sluice_outcome *rows; // owned, if the caller has none
    enum settle_kind kind;
    bool reached; // the outcomes are filled in
};
static_assert(sizeof(struct settle_call) <= CALL_BYTES_MAX, "malloc has it at hand");

static enum call_built build(struct local_call *c, bool may_block, struct call_plan *plan)
{
    struct settle_call *m = (struct settle_call *)c;
    struct settle_plan *s = &m->settling;
    const char *field = m->kind == SETTLE_RENEW ? "visibility" : "delay";
    bool blocks;
    if (s->wait_ms < 0 || s->wait_ms > LEASE_MAX_MS) {
        (void)refuse(call_error(c), ERR_INVALID, field,
                     "%s must be between 0ms and 24h, not %lldms", field, (long long)s->wait_ms);
        return CALL_ENDED;
    }
    enum call_built opened = call_open_queue(c, may_block);
    if (opened != CALL_BUILT || s->len == 0) return opened == CALL_BUILT ? CALL_ENDED : opened;
    opened = settling_check(s, c);
    if (opened != CALL_BUILT) return opened;
    size_t good = settling_parse(s, c, may_block, &blocks);
    if (blocks) return CALL_BLOCKS;
    m->reached = s->locks;
    *plan = (struct call_plan){.ops = 1, .at_once = 1};
    return good > 0 ? CALL_BUILT : CALL_ENDED;
}

static void own(struct local_call *c)
{
    settling_own(&((struct settle_call *)c)->settling);
}

static struct shard_runner *op(struct local_call *c, uint32_t index, struct op *out,
                               uint32_t *shard)
{
    return settling_op(&((struct settle_call *)c)->settling, c, index, out, shard);
}

static enum call_op_end op_end(struct local_call *c, const struct call_slot *slot)
{
    (void)c;
    return settling_op_end(slot->err);
}

static void conclude(struct local_call *c, const struct call_slot *slot)
{
    struct settle_call *m = (struct settle_call *)c;
    settling_conclude(&m->settling, c, slot, true);
}

static void answer(struct local_call *c, struct async_answer *out)
{
    struct settle_call *m = (struct settle_call *)c;
    out->outcomes = m->settling.outcomes;
    out->len = m->reached ? m->settling.len : 0;
}

static void release(struct local_call *c)
{
    struct settle_call *m = (struct settle_call *)c;
    settling_done(&m->settling);
    memory_free(m->rows);
    memory_free(m);
}

static const struct call_type settle_type = {.kind = STEP_SETTLE,
                                             .build = build,
                                             .own = own,
                                             .op = op,
                                             .op_end = op_end,
                                             .conclude = conclude,
                                             .answer = answer,
                                             .release = release};

static struct settle_call *settle_new(struct engine *e, const char *queue,
                                      const struct settle *what, struct sluice_outcome *outcomes,
                                      struct async_call *caller)
{
    struct settle_call *m = NEW(struct settle_call);
    if (!outcomes) m->rows = memory_zeroed(what->len + 1, sizeof *m->rows);
    m->kind = what->kind;
    settling_init(&m->settling, what, outcomes ? outcomes : m->rows);
    call_prepare(&m->call, &settle_type, e, queue, caller);
    return m;
}

void async_settle(struct engine *e, const char *queue, const struct settle *what,
                  struct async_call *a)
{
    call_start(&settle_new(e, queue, what, NULL, a)->call);
}

enum sluice_code ops_settle(struct engine *e, const char *queue, const struct settle *what,
                            struct sluice_outcome *outcomes, struct sluice_error *error)
{
    enum sluice_code code;
    code = settle_check(what, error);
    if (code) return code;
    if (mailbox_settle(e, queue, what, outcomes, error, &code)) return code;
    return call_blocking(&settle_new(e, queue, what, outcomes, NULL)->call, error);
}

void settle_locks(struct open_queue *q, uint16_t kind, const char *reason,
                  const struct lock_name *locks, size_t len)
{
    struct shard_runner *r;
    if (len == 0 || queue_work_runner(q, locks[0].shard, &r, NULL)) return;
    LOCAL(buf, refs, (size_t)REFS_MAX * LOCK_REF_BYTES);
    LOCAL(buf, payload, JOURNAL_OP_MAX);
    CHECK(len <= REFS_MAX);
    for (size_t i = 0; i < len; i++)
        lock_ref_put(&refs, &locks[i].ref);
    struct op_outcome out = {
        .reason = bytes_str(reason), .count = (uint32_t)len, .refs = buf_bytes(&refs)};
    entropy_fill(out.request.bytes, sizeof out.request.bytes);
    runner_outcome_origin(r, &out);
    outcome_encode(&payload, &out);
    struct op op = {kind, buf_bytes(&payload)};
    enum err err = runner_do(r, op, NULL);
    if (err == ERR_UNKNOWN) err = runner_do(r, op, NULL);
    (void)err; // the locks expire otherwise
    if (kind == OP_FAIL) engine_wake(q->engine);
}
