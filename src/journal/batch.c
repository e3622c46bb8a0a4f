// SPDX-License-Identifier: Apache-2.0
// Ops from their submission to their answer: the queue, the one batch in flight, and deadlines.
// This is group commit: ops that arrive while a batch is in flight form the next one.
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "journal/inside.h"

#include <string.h>

void pending_push(struct pending_list *l, struct pending_call *p)
{
    CHECK(!l->head == !l->tail);
    CHECK(!l->head == (l->len == 0));
    p->next = NULL;
    if (l->tail) {
        l->tail->next = p;
    } else {
        l->head = p;
    }
    l->tail = p;
    l->len++;
}

static struct pending_call *pending_pop(struct pending_list *l)
{
    struct pending_call *p = l->head;
    if (!p) return NULL;
    CHECK(l->len > 0);
    l->len--;
    l->head = p->next;
    if (!l->head) l->tail = NULL;
    CHECK(!l->head == (l->len == 0));
    p->next = NULL;
    return p;
}

static void pending_free(struct pending_call *p)
{
    CHECK(!p->next); // it is in no list
    bytes_free(p->op.payload);
    memory_free(p);
}

void pending_free_all(struct pending_list *l)
{
    for (struct pending_call *p; (p = pending_pop(l));)
        pending_free(p);
}

static void reply_push(struct journal *j, const struct journal_reply *out)
{
    CHECK(!j->replies == !j->replies_tail);
    struct reply *r = NEW(struct reply);
    r->out = *out;
    r->out.body = bytes_copy(out->body);
    if (j->replies_tail) {
        j->replies_tail->next = r;
    } else {
        j->replies = r;
    }
    j->replies_tail = r;
}

static void journal_answer(struct journal *j, struct pending_call *p, enum err err, uint64_t slot,
                           struct bytes body)
{
    CHECK(slot <= j->core.slot); // an answer names only a slot that is folded
    if (p->answered) return;
    p->answered = true;
    struct journal_reply out = {.ticket = p->ticket, .err = err, .slot = slot, .body = body};
    reply_push(j, &out);
}

void journal_answer_all(struct journal *j, struct pending_list *l, enum err err)
{
    for (struct pending_call *p; (p = pending_pop(l));) {
        journal_answer(j, p, err, 0, BYTES_EMPTY);
        pending_free(p);
    }
    CHECK(l->len == 0);
}

static void note_deadline(struct journal *j, const struct pending_call *p)
{
    if (!p->answered && p->deadline < j->deadline_at) j->deadline_at = p->deadline;
}

// Returns true if p repeats an op that got no answer and is in flight. That op may still be
// applied, and then so was p.
static bool is_in_flight(const struct journal *j, const struct pending_call *p)
{
    CHECK(j->batch.active || !j->batch.ops.head);
    for (const struct pending_call *o = j->batch.ops.head; o; o = o->next)
        if (p->op.payload.len > 0 && o->op.kind == p->op.kind &&
            bytes_equal(o->op.payload, p->op.payload))
            return true;
    return false;
}

static bool list_holds(const struct pending_list *l, bool (*is)(void *ctx, const struct op *op),
                       void *ctx)
{
    CHECK(!l->head == (l->len == 0));
    for (const struct pending_call *p = l->head; p; p = p->next)
        if (is(ctx, &p->op)) return true;
    return false;
}

bool journal_holds(const struct journal *j, bool (*is)(void *ctx, const struct op *op), void *ctx)
{
    return list_holds(&j->queue, is, ctx) || list_holds(&j->batch.ops, is, ctx);
}

static void expire_waiting(struct journal *j, struct pending_list *l)
{
    CHECK(l != &j->batch.ops); // an op in flight is never answered as failed
    struct pending_list kept = {0};
    for (struct pending_call *p; (p = pending_pop(l));) {
        if (p->deadline > j->heard_lo) {
            note_deadline(j, p);
            pending_push(&kept, p);
            continue;
        }
        bool same_id = is_in_flight(j, p);
        journal_answer(j, p, same_id ? ERR_UNKNOWN : ERR_UNAVAILABLE, 0, BYTES_EMPTY);
        pending_free(p);
    }
    *l = kept;
}

// Waiting ops were never sent, or certainly did not land. Ops in flight may have landed: they are
// answered unknown, never failed, and the batch is still resolved.
void journal_expire(struct journal *j)
{
    j->deadline_at = TIME_NEVER;
    expire_waiting(j, &j->queue);
    expire_waiting(j, &j->syncs);
    for (struct pending_call *p = j->batch.ops.head; p; p = p->next) {
        if (p->deadline <= j->heard_lo) journal_answer(j, p, ERR_UNKNOWN, 0, BYTES_EMPTY);
        note_deadline(j, p);
    }
    CHECK(j->deadline_at > j->heard_lo);
}

static void hasten(struct journal *j, struct pending_list *l, uint64_t ticket, int64_t deadline)
{
    for (struct pending_call *p = l->head; p; p = p->next) {
        if (p->ticket != ticket || p->answered) continue;
        CHECK(deadline <= p->deadline);
        p->deadline = deadline;
        note_deadline(j, p);
        CHECK(j->deadline_at <= deadline);
    }
}

void journal_hasten(struct journal *j, uint64_t ticket, int64_t deadline)
{
    hasten(j, &j->queue, ticket, deadline);
    hasten(j, &j->syncs, ticket, deadline);
    hasten(j, &j->batch.ops, ticket, deadline);
}

// The session row of this writer may have been removed, so the outcome of its next batch could not
// be decided. The writer takes a new id.
static void renew_writer(struct journal *j)
{
    CHECK(!j->batch.active);
    j->config.writer.lo = rng_next(&j->rng);
    j->config.writer.hi = rng_next(&j->rng);
    journal_writer_mark(&j->config.writer, j->config.rules_newest);
    j->born = j->now.lo;
    j->committed = 0;
}

static bool digest_due(const struct journal *j, uint64_t slot)
{
    CHECK(slot > 0);
    uint32_t every = j->config.rules.digest_every;
    return every != 0 && slot > 1 && slot % every == 0;
}

static size_t op_len(const struct op *op)
{
    CHECK(op->payload.len <= JOURNAL_OP_MAX);
    return ENTRY_OP_HEADER_LEN + op->payload.len;
}

// An op behind another op of the batch may find what that op adds, so it is not idle.
static bool is_idle(const struct journal *j, const struct op *op, size_t before)
{
    CHECK(before == j->batch.ops.len);
    if (!j->fold.idle || before > 0 || op->kind < OP_KIND_MACHINE) return false;
    return j->fold.idle(j->fold.ctx, op, j->now.lo);
}

static bool answer_if_idle(struct journal *j, size_t before)
{
    CHECK(j->queue.head);
    if (!is_idle(j, &j->queue.head->op, before)) return false;
    struct pending_call *p = pending_pop(&j->queue);
    journal_answer(j, p, ERR_OK, 0, BYTES_EMPTY);
    pending_free(p);
    return true;
}

void batch_answer_idle(struct journal *j)
{
    CHECK(!j->batch.active);
    while (j->queue.head && answer_if_idle(j, 0))
        ;
}

// Moves as many ops from the queue as fit. Answers ops that fit in no entry, and ops that are idle.
static size_t take_ops(struct journal *j, size_t space)
{
    CHECK(j->batch.ops.len == 0);
    size_t count = 0;
    while (j->queue.head && count < ENTRY_OPS_MAX - 1) {
        if (answer_if_idle(j, count)) continue;
        size_t need = op_len(&j->queue.head->op);
        if (need > space && count > 0) break;
        struct pending_call *p = pending_pop(&j->queue);
        if (need > space) {
            journal_answer(j, p, ERR_LIMIT, 0, BYTES_EMPTY);
            pending_free(p);
            continue;
        }
        space -= need;
        j->batch.grows = j->batch.grows || p->grows;
        pending_push(&j->batch.ops, p);
        count++;
    }
    CHECK(count == j->batch.ops.len);
    return count;
}

static void encode(struct journal *j, size_t count)
{
    struct batch *b = &j->batch;
    LOCAL(buf, digest, 8);
    CLEANUP(memory_let_go) struct op *ops = memory_zeroed(count + 1, sizeof *ops);
    size_t n = 0;
    if (digest_due(j, b->slot)) {
        buf_put_u64(&digest, journal_digest(j));
        ops[n++] = (struct op){.kind = JOURNAL_OP_DIGEST, .payload = buf_bytes(&digest)};
    }
    b->first_op = n;
    for (struct pending_call *p = b->ops.head; p; p = p->next)
        ops[n++] = p->op;
    CHECK(n == b->first_op + count);
    uint16_t rules = journal_rules_needed(j, ops, n);
    CHECK(journal_folds(j, rules));
    CHECK(j->my_epoch <= j->core.epoch); // an epoch is owned only after its entry was folded
    struct entry e = {.id = j->config.id,
                      .rules = rules,
                      .slot = b->slot,
                      .previous = j->core.chain,
                      .epoch = j->my_epoch,
                      .writer = j->config.writer,
                      .sequence = b->sequence,
                      .nonce = rng_next(&j->rng),
                      .time = j->now,
                      .ops = ops,
                      .ops_len = n};
    buf_clear(&b->bytes);
    entry_encode(&e, &b->bytes);
    CHECK(!b->bytes.bad);
    struct reader end =
        reader_of(bytes_of(b->bytes.data + b->bytes.len - ENTRY_CHECKSUM_LEN, ENTRY_CHECKSUM_LEN));
    b->hash = read_hash128(&end);
}

void batch_form(struct journal *j)
{
    struct batch *b = &j->batch;
    CHECK(!b->active && !b->ops.head);
    CHECK(j->phase == PHASE_IDLE && !j->replaying); // entries are proposed only at the tail
    // After a long pause of this process, the time of an op may be over before the next tick. The
    // machine may have forgotten the op's request id meanwhile, so the op is not proposed any more.
    if (j->heard_lo >= j->deadline_at) journal_expire(j);
    b->grows = false;
    size_t fixed = ENTRY_HEADER_LEN + ENTRY_CHECKSUM_LEN + ENTRY_OP_HEADER_LEN + 8;
    CHECK(j->config.entry_bytes_max > fixed);
    size_t count = take_ops(j, j->config.entry_bytes_max - fixed);
    if (count == 0) return;
    bool forgotten = core_session(&j->core, j->config.writer, 1, j->born) == SESSION_UNDECIDABLE;
    if (forgotten) renew_writer(j);
    b->active = true;
    b->maybe_landed = false;
    b->slot = j->core.slot + 1;
    b->sequence = ++j->sequence;
    b->sent_at = j->now.lo;
    encode(j, count);
}

static void batch_close(struct journal *j)
{
    CHECK(!j->batch.ops.head);
    j->batch.active = false;
    j->batch.maybe_landed = false;
}

void batch_fail(struct journal *j, enum err err)
{
    CHECK(err != ERR_OK);
    journal_answer_all(j, &j->batch.ops, err);
    batch_close(j);
}

void batch_unknown(struct journal *j)
{
    CHECK(j->batch.active && j->batch.maybe_landed);
    for (struct pending_call *p = j->batch.ops.head; p; p = p->next)
        journal_answer(j, p, ERR_UNKNOWN, 0, BYTES_EMPTY);
}

void batch_requeue(struct journal *j)
{
    CHECK(j->batch.active);
    struct pending_list again = {0};
    for (struct pending_call *p; (p = pending_pop(&j->batch.ops));) {
        if (p->answered) {
            pending_free(p); // its caller was answered "unknown"
        } else {
            pending_push(&again, p);
        }
    }
    if (again.head) {
        again.tail->next = j->queue.head;
        if (!j->queue.tail) j->queue.tail = again.tail;
        j->queue.head = again.head;
        j->queue.len += again.len;
    }
    CHECK(!j->queue.head == !j->queue.tail);
    CHECK(!j->queue.head == (j->queue.len == 0));
    batch_close(j);
}

bool batch_refuse_growth(struct journal *j)
{
    struct batch *b = &j->batch;
    CHECK(b->active && !b->maybe_landed);
    if (!b->grows) return false;
    struct pending_list kept = {0}, refused = {0};
    for (struct pending_call *p; (p = pending_pop(&b->ops));)
        pending_push(p->grows ? &refused : &kept, p);
    journal_answer_all(j, &refused, ERR_LIMIT);
    b->ops = kept;
    batch_requeue(j);
    return true;
}

static struct bytes result_body(const struct journal *j, const struct op_result *r)
{
    CHECK(r->body_len == 0 || (uint64_t)r->body_at + r->body_len <= j->text.len);
    return r->body_len > 0 ? bytes_of(j->text.data + r->body_at, r->body_len) : BYTES_EMPTY;
}

void batch_committed(struct journal *j, const struct op_result *results, bool is_void)
{
    CHECK(j->batch.active);
    CHECK(is_void || results);
    struct batch *b = &j->batch;
    size_t i = b->first_op;
    for (struct pending_call *p; (p = pending_pop(&b->ops)); i++) {
        if (is_void) {
            journal_answer(j, p, ERR_FENCED, b->slot, BYTES_EMPTY);
        } else {
            journal_answer(j, p, results[i].err, b->slot, result_body(j, &results[i]));
        }
        pending_free(p);
    }
    if (!is_void) {
        j->committed = b->sequence;
        j->committed_slot = b->slot;
    }
    batch_close(j);
}

// The batch was committed but its slot was not read: the machine may still have the answers.
static void answer_from_memory(struct journal *j)
{
    CHECK(j->batch.active);
    for (struct pending_call *p; (p = pending_pop(&j->batch.ops));) {
        struct op_result r = {0};
        buf_clear(&j->text);
        bool machine = p->op.kind >= OP_KIND_MACHINE;
        if (machine && j->fold.recall(j->fold.ctx, &p->op, &r, &j->text)) {
            journal_answer(j, p, r.err, 0, result_body(j, &r));
        } else {
            journal_answer(j, p, ERR_UNKNOWN, 0, BYTES_EMPTY);
        }
        pending_free(p);
    }
    batch_close(j);
}

void batch_jumped(struct journal *j)
{
    CHECK(j->batch.active && j->batch.slot <= j->core.slot);
    bool sent = j->batch.maybe_landed && !MUTANT(SESSION_OFF);
    enum session_outcome outcome =
        sent ? core_session(&j->core, j->config.writer, j->batch.sequence, j->born)
             : SESSION_NOT_COMMITTED;
    switch (outcome) {
    case SESSION_COMMITTED:
        answer_from_memory(j);
        break;
    case SESSION_NOT_COMMITTED:
        batch_requeue(j);
        break;
    case SESSION_UNDECIDABLE:
        batch_fail(j, ERR_UNKNOWN);
        break;
    }
}
