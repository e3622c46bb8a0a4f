// SPDX-License-Identifier: Apache-2.0
// The plain model: what each op does.
#include "model_parts.h"

#include "base/check.h"
#include "queue/codec/body_name.h"

#include <string.h>

void name_of(struct bytes from, char out[MODEL_NAME_MAX])
{
    CHECK(from.len < MODEL_NAME_MAX);
    memset(out, 0, MODEL_NAME_MAX);
    if (from.len > 0) memcpy(out, from.data, from.len);
}

static uint64_t enter(struct model *m, const struct message *msg, int64_t due, uint32_t ordinal,
                      bool sent)
{
    CHECK(m->sent < MODEL_MESSAGES_MAX);
    struct model_message *x = &m->messages[m->sent++];
    *x = (struct model_message){.state = due > 0 ? STATE_DELAYED : STATE_READY,
                                .slot = m->slot,
                                .ordinal = ordinal,
                                .priority = msg->priority,
                                .due = due};
    struct body_name body;
    if (body_name_parse(msg->reference.name, &body)) x->body = body.random[0];
    bool scoped = m->config.workflow_order && msg->group.len == 0;
    name_of(scoped ? msg->workflow : msg->group, x->group);
    char workflow[MODEL_NAME_MAX];
    name_of(msg->workflow, workflow);
    if (sent && workflow[0]) model_join(m, m->sent, workflow, msg->workflow_last);
    say(m, EVENT_MESSAGE_ENQUEUED, m->sent);
    return m->sent;
}

static bool is_stale(const struct model *m, const struct message *msg)
{
    return msg->reference.name.len > 0 && msg->reference.uploaded_at < m->now - BODY_AGE_MAX_MS;
}

static enum reason send_one(struct model *m, const struct message *msg, uint64_t *seq)
{
    const struct queue_config *c = &m->config;
    uint32_t ordinal = m->ordinal++;
    int64_t due = 0;
    *seq = 0;
    if (message_body_len(msg) > c->message_bytes_max) return REASON_TOO_LARGE;
    if (is_stale(m, msg)) return REASON_BODY_STALE;
    if (c->ordering_guarantee && msg->priority > 0) return REASON_STRICT_PRIORITY;
    enum reason refused = model_admit(m, msg);
    if (refused != REASON_NONE) return refused;
    if (c->ordering_guarantee && msg->when != WHEN_NOW) return REASON_STRICT_DELAY;
    if (msg->when == WHEN_DELAY) due = m->from + msg->when_ms;
    if (msg->when == WHEN_DUE) due = msg->when_ms;
    if (due > m->from + DELAY_MAX_MS) return REASON_OUT_OF_RANGE;
    if (due <= m->now) due = 0;
    bool named = msg->dedup.len > 0 && c->dedup_window_ms > 0;
    struct hash128 key = hash128_of(msg->dedup);
    size_t remembered = 0;
    for (size_t i = 0; i < m->dedup_len; i++) {
        const struct model_dedup *d = &m->dedup[i];
        remembered += !d->dropped;
        if (!named || d->expires_at <= m->now || !hash128_equal(d->key, key)) continue;
        *seq = d->seq;
        return REASON_DUPLICATE;
    }
    if (model_held(m) >= c->capacity) return REASON_FULL;
    if (named && remembered >= c->capacity) return REASON_DEDUP_FULL;
    *seq = enter(m, msg, due, ordinal, true);
    if (named) {
        CHECK(m->dedup_len < MODEL_ROWS_MAX);
        m->dedup[m->dedup_len++] = (struct model_dedup){
            .key = key, .seq = *seq, .expires_at = m->from + c->dedup_window_ms};
    }
    return REASON_NONE;
}

static enum reason do_send(struct model *m, struct bytes payload)
{
    struct op_send op;
    if (send_open(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) {
        m->ordinal += op.count;
        return REASON_DELETED;
    }
    enum reason first = REASON_NONE;
    bool any = op.count == 0;
    buf_put_u8(&m->body, 0);
    buf_put_u32(&m->body, op.count);
    size_t rows_at = m->body.len;
    for (uint32_t i = 0; i < op.count; i++) {
        struct message msg;
        uint64_t seq;
        send_next(&op, &msg);
        enum reason reason = send_one(m, &msg, &seq);
        if (reason_err(reason) == ERR_OK) any = true;
        if (reason_err(reason) != ERR_OK && first == REASON_NONE) first = reason;
        send_row_put(&m->body, rows_at, reason, seq);
    }
    return any ? REASON_NONE : first;
}

static enum reason do_arrive(struct model *m, struct bytes payload)
{
    struct op_arrive op;
    if (arrive_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    uint32_t ordinal = m->ordinal++;
    enum reason reason = op.number <= m->source_mark ? REASON_ARRIVED_BEFORE : REASON_NONE;
    if (reason == REASON_NONE && is_stale(m, &op.message)) reason = REASON_BODY_STALE;
    if (m->deleted) reason = REASON_DELETED;
    uint64_t seq = 0;
    if (reason == REASON_NONE) {
        m->source_mark = op.number;
        if (m->config.ordering_guarantee) op.message.priority = 0;
        seq = enter(m, &op.message, 0, ordinal, false);
    }
    buf_put_u8(&m->body, (uint8_t)reason);
    buf_put_u64(&m->body, seq);
    return reason;
}

void model_put_grant(struct model *m, uint64_t seq, uint32_t row)
{
    const struct model_message *x = at(m, seq);
    grant_put(&m->body, &(struct grant){.seq = seq,
                                        .place = {x->slot, x->ordinal},
                                        .token = x->token,
                                        .fence = x->fence,
                                        .deadline = x->deadline,
                                        .deliveries = x->deliveries,
                                        .retries = x->retries,
                                        .order = x->order,
                                        .worker_row = row});
}

static uint64_t first_ticket(struct model *m, const char *worker)
{
    uint64_t first = 0;
    for (uint64_t seq = 1; seq <= m->sent; seq++) {
        const struct model_message *x = at(m, seq);
        if (x->state != STATE_LOCKED || !x->ticket || strcmp(x->worker, worker) != 0) continue;
        if (first == 0 || x->order < at(m, first)->order) first = seq;
    }
    return first;
}

bool model_refuses(struct model *m, const char *worker, uint32_t wanted)
{
    if (m->config.consume != CONSUME_OWNER || m->epoch > 0) return false;
    struct event *e = say(m, EVENT_CLAIM_REJECTED, 0);
    e->reason = REASON_NOT_OWNER;
    e->count = wanted;
    say_worker(m, e, worker);
    m->refused++;
    return true;
}

void model_claimed(struct model *m, uint64_t seq, const char *worker)
{
    say_worker(m, say(m, EVENT_MESSAGE_CLAIMED, seq), worker);
    model_deliver(m, seq);
    model_put_grant(m, seq, 0);
}

static enum reason do_claim(struct model *m, uint16_t kind, struct bytes payload)
{
    struct op_claim op;
    if (claim_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    char worker[MODEL_NAME_MAX];
    name_of(op.worker, worker);
    if (model_refuses(m, worker, op.max)) return REASON_NOT_OWNER;
    if (m->paused) return REASON_PAUSED;
    if (model_mode(m, worker) != REASON_NONE) return model_mode(m, worker);
    int64_t lease = op.lease_ms ? op.lease_ms : m->config.visibility_timeout_ms;
    uint32_t count = 0;
    uint64_t seq;
    buf_put_u8(&m->body, 0);
    buf_put_u32(&m->body, 0);
    for (; count < op.max && (seq = first_ticket(m, worker)); count++) {
        model_use(m, seq);
        at(m, seq)->deadline = m->from + lease;
        model_claimed(m, seq, worker);
    }
    uint64_t open = model_open(m), fence = m->fence;
    bool overtakes = false;
    for (; kind == OP_CLAIM && count < op.max && (seq = model_next(m)); count++) {
        model_grant(m, seq, worker, op.seed, m->from + lease, false);
        if (model_overtakes(m, seq, fence)) overtakes = true;
        model_claimed(m, seq, worker);
    }
    if (overtakes) say(m, EVENT_ORDERING_BEST_EFFORT, 0)->count = open;
    buf_set_u32(&m->body, 1, count);
    return REASON_NONE;
}

enum reason model_check(struct model *m, const struct lock_ref *ref)
{
    if (ref->seq == 0 || ref->seq > m->sent) return REASON_UNKNOWN_MESSAGE;
    const struct model_message *x = at(m, ref->seq);
    bool same = x->locked_once && hash128_equal(x->token, ref->token);
    switch (x->state) {
    case STATE_LOCKED:
        return same ? REASON_NONE : REASON_TOKEN_MISMATCH;
    case STATE_READY:
    case STATE_DELAYED:
        if (!same) return REASON_NOT_LOCKED;
        return x->expired ? REASON_LOCK_EXPIRED : REASON_LOCK_RELEASED;
    default:
        return REASON_TERMINAL;
    }
}

static struct outcome_row do_word(struct model *m, uint16_t kind, const struct op_outcome *op,
                                  uint64_t seq)
{
    struct model_message *x = at(m, seq);
    struct outcome_row row = {0};
    bool ticket = x->ticket;
    struct bytes text = kind == OP_FAIL ? op->reason : BYTES_EMPTY;
    if (kind != OP_RELEASE) model_use(m, seq);
    if ((kind == OP_FAIL || (kind == OP_RELEASE && !ticket)) &&
        model_interrupted(m, seq, false, text, &row.status))
        return row;
    if (kind == OP_RENEW) {
        int64_t until = m->from + (op->wait_ms ? op->wait_ms : m->config.visibility_timeout_ms);
        int64_t limit = model_limit(m, seq);
        row.reason = limit <= m->now ? REASON_LOCK_EXPIRED : REASON_NONE;
        if (row.reason) return row;
        row.until = x->deadline = limit < until ? limit : until;
        say_worker(m, say(m, EVENT_LOCK_RENEWED, seq), x->worker);
        if (ticket) model_deliver(m, seq);
    } else if (kind == OP_ACK) {
        row.status = OUTCOME_PROCESSED;
        struct event *e = say(m, EVENT_MESSAGE_OUTCOME, seq);
        e->status = row.status;
        e->until = 0;
        say_worker(m, e, x->worker);
        model_end(m, x, FINISHED_PROCESSED, x->worker);
        model_lock_over(m, seq);
        x->state = STATE_PROCESSED;
        x->opened = false;
        model_close(m, seq);
    } else if (kind == OP_FAIL) {
        row.status = model_fail(m, seq, true, &row.until);
        struct event *e = say(m, EVENT_MESSAGE_OUTCOME, seq);
        e->status = row.status;
        say_worker(m, e, x->worker);
    } else {
        row.until = op->wait_ms ? m->from + op->wait_ms : 0;
        struct event *e = say(m, EVENT_MESSAGE_RELEASED, seq);
        e->until = row.until;
        say_worker(m, e, x->worker);
        model_give_back(m, seq, row.until, false);
    }
    return row;
}

static enum reason do_outcome(struct model *m, uint16_t kind, struct bytes payload)
{
    struct op_outcome op;
    if (outcome_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (!model_extras_ok(kind, &op)) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    bool ours = op.shard == m->shard && memcmp(op.queue.bytes, m->queue.bytes, 16) == 0;
    enum reason first = REASON_NONE;
    bool any = op.count == 0;
    buf_put_u8(&m->body, 0);
    buf_put_u32(&m->body, op.count);
    size_t rows_at = m->body.len;
    for (uint32_t i = 0; i < op.count; i++) {
        struct lock_ref ref = outcome_ref(&op, i);
        struct outcome_row row = {.reason = ours ? model_check(m, &ref) : REASON_FOREIGN_QUEUE};
        if (row.reason == REASON_NONE && op.arrived_at >= model_limit(m, ref.seq))
            row.reason = REASON_LOCK_EXPIRED;
        if (row.reason == REASON_NONE) row = do_word(m, kind, &op, ref.seq);
        if (row.reason == REASON_NONE) {
            any = true;
            model_says(m, &op, i, ref.seq);
        } else {
            if (first == REASON_NONE) first = row.reason;
            bool renewal = kind == OP_RENEW;
            struct event *e =
                say(m, renewal ? EVENT_LOCK_RENEWAL_REJECTED : EVENT_OUTCOME_REJECTED, 0);
            e->seq = ref.seq;
            e->reason = row.reason;
            bool lives = ref.seq >= 1 && ref.seq <= m->sent && model_lives(at(m, ref.seq));
            if (lives) say_key(m, e, ref.seq);
            if (!lives && ref.seq > 0) e->key = EVENT_KEY_MESSAGE;
        }
        outcome_row_put(&m->body, rows_at, &row);
    }
    return any ? REASON_NONE : first;
}

static enum reason do_configure(struct model *m, struct bytes payload)
{
    struct op_configure op;
    if (configure_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (op.config.rules > m->rules) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    if (config_check(&op.config, NULL, NULL) != ERR_OK) return REASON_CONFIG_INVALID;
    if (op.expected && op.expected != m->version) return REASON_CONFIG_CHANGED;
    if (op.config.shards != m->config.shards) return REASON_SHARDS_FIXED;
    if ((op.config.ordering_guarantee != m->config.ordering_guarantee ||
         op.config.workflow_order != m->config.workflow_order) &&
        model_held(m) + model_count(m, STATE_OUTBOUND) > 0)
        return REASON_NOT_EMPTY;
    if (model_count(m, STATE_OUTBOUND) > 0 &&
        strcmp(op.config.dead_letter_queue, m->config.dead_letter_queue) != 0)
        return REASON_OUTBOX_BUSY;
    m->config = op.config;
    say(m, EVENT_QUEUE_CONFIGURED, 0)->count = ++m->version;
    buf_put_u8(&m->body, 0);
    buf_put_u64(&m->body, m->version);
    return REASON_NONE;
}

static bool is_purged(const struct model_message *x, bool pending, bool locked, bool dead)
{
    if (x->state == STATE_READY || x->state == STATE_DELAYED) return pending;
    return (locked && x->state == STATE_LOCKED) || (dead && x->state == STATE_DEAD);
}

static uint64_t purge(struct model *m, bool pending, bool locked, bool dead)
{
    uint64_t gone = 0;
    for (uint64_t seq = 1; seq <= m->sent; seq++)
        if (is_purged(at(m, seq), pending, locked, dead)) model_close(m, seq);
    for (uint64_t seq = 1; seq <= m->sent; seq++) {
        struct model_message *x = at(m, seq);
        if (!is_purged(x, pending, locked, dead)) continue;
        model_end(m, x, FINISHED_PURGED, "");
        x->state = STATE_PURGED;
        x->opened = x->waiting = x->ticket = false;
        gone++;
    }
    return gone;
}

static enum reason do_purge(struct model *m, struct bytes payload)
{
    struct op_purge op;
    if (purge_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    uint64_t gone = purge(m, !op.dead, false, op.dead);
    say(m, EVENT_QUEUE_PURGED, 0)->count = gone;
    buf_put_u8(&m->body, 0);
    buf_put_u64(&m->body, gone);
    return REASON_NONE;
}

static enum reason do_delete(struct model *m, struct bytes payload)
{
    struct op_plain op;
    if (plain_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    if (model_count(m, STATE_OUTBOUND) > 0) return REASON_OUTBOX_BUSY;
    uint64_t gone = purge(m, true, true, true);
    m->deleted = true;
    m->workers_len = 0;
    m->dedup_len = 0;
    for (uint64_t seq = 1; seq <= m->sent; seq++)
        at(m, seq)->kept = false;
    say(m, EVENT_QUEUE_DELETED, 0)->count = gone;
    buf_put_u8(&m->body, 0);
    buf_put_u64(&m->body, gone);
    return REASON_NONE;
}

static void redrive_one(struct model *m, uint64_t seq)
{
    struct model_message *x = at(m, seq);
    struct model_message *copy = &m->messages[m->sent++];
    CHECK(m->sent < MODEL_MESSAGES_MAX);
    *copy = (struct model_message){.state = STATE_READY,
                                   .slot = x->slot,
                                   .ordinal = x->ordinal,
                                   .priority = x->priority,
                                   .body = x->body};
    memcpy(copy->group, x->group, sizeof copy->group);
    model_end(m, x, FINISHED_REDRIVEN, "");
    x->state = STATE_REDRIVEN;
    model_join_redriven(m, seq, m->sent);
    say(m, EVENT_MESSAGE_ENQUEUED, m->sent)->from = seq;
}

static enum reason do_redrive(struct model *m, struct bytes payload)
{
    struct op_redrive op;
    if (redrive_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    uint64_t before = m->sent;
    for (uint32_t i = 0; i < op.count; i++) {
        uint64_t seq = op_seq(op.seqs, i);
        if (seq >= 1 && seq <= m->sent && at(m, seq)->state == STATE_DEAD) redrive_one(m, seq);
    }
    for (uint32_t i = 0; op.count == 0 && i < op.max; i++) {
        uint64_t first = 0;
        for (uint64_t seq = 1; seq <= m->sent; seq++)
            if (at(m, seq)->state == STATE_DEAD &&
                (!first || at(m, seq)->death < at(m, first)->death))
                first = seq;
        if (first) redrive_one(m, first);
    }
    enum reason reason = op.count > 0 && m->sent == before ? REASON_NOT_DEAD : REASON_NONE;
    buf_put_u8(&m->body, (uint8_t)reason);
    buf_put_u64(&m->body, before + 1);
    buf_put_u32(&m->body, (uint32_t)(m->sent - before));
    return reason;
}

static enum reason do_pause(struct model *m, struct bytes payload, bool pause)
{
    struct op_plain op;
    if (plain_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    if (m->paused != pause) say(m, pause ? EVENT_QUEUE_PAUSED : EVENT_QUEUE_RESUMED, 0);
    m->paused = pause;
    return REASON_NONE;
}

static enum reason dispatch(struct model *m, const struct op *op)
{
    switch (op->kind) {
    case OP_SEND:
        return do_send(m, op->payload);
    case OP_CLAIM:
    case OP_TAKE:
        return do_claim(m, op->kind, op->payload);
    case OP_RENEW:
    case OP_ACK:
    case OP_FAIL:
    case OP_RELEASE:
        return do_outcome(m, op->kind, op->payload);
    case OP_PUBLISH:
        return model_publish(m, op->payload);
    case OP_CONFIGURE:
        return do_configure(m, op->payload);
    case OP_PAUSE:
        return do_pause(m, op->payload, true);
    case OP_RESUME:
        return do_pause(m, op->payload, false);
    case OP_PURGE:
        return do_purge(m, op->payload);
    case OP_REDRIVE:
        return do_redrive(m, op->payload);
    case OP_DELETE:
        return do_delete(m, op->payload);
    case OP_ARRIVE:
        return do_arrive(m, op->payload);
    case OP_OUTBOX:
        return model_outbox(m, op->payload);
    case OP_SPENT:
        return model_spent(m, op->payload);
    case OP_RAISE:
        return model_raise(m, op->payload);
    case OP_WORKERS:
        return model_workers(m, op->payload);
    case OP_DISPATCH:
        return model_dispatch(m, op->payload);
    case OP_PUBLISHED:
        return model_published(m, op->payload);
    default:
        return model_signals(m, op);
    }
}

void model_answer(struct model *m, const struct op *op)
{
    struct request_id id = {0};
    buf_clear(&m->body);
    bool named = op_request(op, &id) && request_id_set(&id);
    for (size_t i = 0; named && i < m->requests_len; i++) {
        const struct model_request *known = &m->requests[i];
        if (known->dropped || memcmp(known->id.bytes, id.bytes, 16) != 0) continue;
        m->ordinal += ops_messages(op, 1);
        if (known->kind == op->kind) {
            buf_put(&m->body, known->body);
        } else {
            buf_put_u8(&m->body, REASON_REQUEST_REUSED);
        }
        return;
    }
    enum reason reason = dispatch(m, op);
    model_settle(m);
    if (m->body.len == 0) buf_put_u8(&m->body, (uint8_t)reason);
    m->body.data[0] = (uint8_t)reason;
    if (!named || reason == REASON_MALFORMED || reason == REASON_UNKNOWN_OP) return;
    // A claim that got nothing is not remembered: its body is a reason and a count of zero.
    if (op_is_claim(op->kind) && m->body.len <= 5) return;
    CHECK(m->requests_len < MODEL_ROWS_MAX);
    m->requests[m->requests_len++] =
        (struct model_request){.id = id,
                               .kind = op->kind,
                               .expires_at = m->from + REQUEST_KEEP_MS,
                               .body = bytes_copy(buf_bytes(&m->body))};
}
