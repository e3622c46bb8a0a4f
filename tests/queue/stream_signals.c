// SPDX-License-Identifier: Apache-2.0
// The ops of signals, and the cancel of chosen messages, in a random stream.
#include "stream_parts.h"

#include <stdio.h>
#include <string.h>

static uint32_t choose_messages(struct stream *s, struct buf *seqs)
{
    uint32_t count = (uint32_t)below(s, 4);
    for (uint32_t i = 0; i < count; i++) {
        bool recent = s->model->sent > 12 && chance(s, 80);
        uint64_t back = recent ? s->model->sent - 12 : 0;
        buf_put_u64(seqs, back + below(s, s->model->sent - back + 2));
    }
    return count;
}

static void ask_lock(struct stream *s)
{
    struct buf b = payload(), seqs = payload();
    struct op_lock op = {.request = stream_request(s), .worker = bytes_str("redrive")};
    op.seed[0] = (uint8_t)below(s, 256);
    op.lease_ms = (int64_t)below(s, 3) * 40;
    op.count = choose_messages(s, &seqs);
    op.seqs = buf_bytes(&seqs);
    lock_encode(&b, &op);
    buf_done(&seqs);
    if (chance(s, 1)) b.len -= 1 + below(s, b.len); // damaged
    rig_op(&s->rig, OP_LOCK, &b);
}

static void ask_cancel(struct stream *s)
{
    struct buf b = payload(), seqs = payload();
    struct op_cancel op = {.request = stream_request(s), .reason = bytes_str("not needed")};
    op.count = choose_messages(s, &seqs);
    op.seqs = buf_bytes(&seqs);
    cancel_encode(&b, &op);
    buf_done(&seqs);
    if (chance(s, 1)) b.len -= 1 + below(s, b.len); // damaged
    rig_op(&s->rig, OP_CANCEL, &b);
}

static const struct model_signal *some_pending(struct stream *s)
{
    size_t len = s->model->signals_len, first = len > 0 ? below(s, len) : 0;
    for (size_t i = 0; i < len; i++) {
        const struct model_signal *x = &s->model->signals[(first + i) % len];
        const struct model_message *to = &s->model->messages[x->seq - 1];
        if (x->state == SIGNAL_PENDING && (to->state == STATE_LOCKED || chance(s, 20))) return x;
    }
    return NULL;
}

static uint64_t some_message(struct stream *s)
{
    const struct model_signal *x = chance(s, 50) ? some_pending(s) : NULL;
    if (x) return x->seq; // a message with several signals
    if (s->grants_len > 0 && chance(s, 60)) return s->grants[below(s, s->grants_len)].seq;
    uint64_t back = s->model->sent > 12 && chance(s, 90) ? s->model->sent - 12 : 0;
    return back + below(s, s->model->sent - back + 2);
}

static struct request_id some_id(struct stream *s)
{
    struct request_id id = {.bytes = {200}};
    id.bytes[1] = (uint8_t)below(s, 60);
    id.bytes[2] = (uint8_t)(s->bodies / 64); // most ids are new after a while
    return id;
}

static void ask_signal(struct stream *s)
{
    struct buf b = payload(), seqs = payload();
    char name[16];
    struct op_signal op = {.request = some_id(s), .kind = (enum signal_kind)below(s, 3)};
    if (op.kind == SIGNAL_INTERRUPT) {
        op.then = (enum signal_then)below(s, 3);
        op.grace_ms = chance(s, 25) ? 0 : 1 + (int64_t)below(s, 80);
        if (chance(s, 50)) op.reason = bytes_str("stop");
    } else {
        op.flags = (uint8_t)below(s, SIGNAL_FLAGS_ALL + 1);
        op.ttl_ms = 1 + (int64_t)below(s, chance(s, 30) ? 60 : 50000);
        op.payload = bytes_str("{}");
    }
    op.target = chance(s, 80) ? SIGNAL_TO_MESSAGES : (enum signal_target)(1 + below(s, 2));
    if (op.target == SIGNAL_TO_MESSAGES) op.count = 1 + (uint32_t)below(s, 3);
    for (uint32_t i = 0; i < op.count; i++)
        buf_put_u64(&seqs, some_message(s));
    if (op.target != SIGNAL_TO_MESSAGES) {
        const char *prefix = op.target == SIGNAL_TO_WORKER ? "w" : "f";
        (void)snprintf(name, sizeof name, "%s%u", prefix, (unsigned)below(s, 5));
        op.name = bytes_str(name);
    }
    op.seqs = buf_bytes(&seqs);
    signal_encode(&b, &op);
    buf_done(&seqs);
    if (chance(s, 1)) b.len -= 1 + below(s, b.len); // damaged
    rig_op(&s->rig, OP_SIGNAL, &b);
}

static void ask_settle(struct stream *s)
{
    struct buf b = payload(), rows = payload();
    struct op_signal_settle op = {.request = stream_request(s),
                                  .queue = s->rig.queue,
                                  .shard = chance(s, 98) ? RIG_SHARD : 9,
                                  .arrived_at = s->rig.time.lo - (int64_t)below(s, 60)};
    op.count = (uint32_t)below(s, 4);
    uint32_t number = 1 + (uint32_t)below(s, 2);
    for (uint32_t i = 0; i < op.count; i++) {
        struct signal_answer row = {.ref = {some_message(s), {1, 2}},
                                    .number = number++,
                                    .act = chance(s, 70) ? SIGNAL_ACK : SIGNAL_DECLINE};
        const struct model_signal *x = chance(s, 70) ? some_pending(s) : NULL;
        if (x) {
            row.ref = (struct lock_ref){x->seq, s->model->messages[x->seq - 1].token};
            row.number = x->number;
        } else if (s->grants_len > 0 && chance(s, 95)) {
            const struct grant *g = &s->grants[below(s, s->grants_len)];
            row.ref = (struct lock_ref){g->seq, g->token};
        }
        if (chance(s, 50)) row.answer = bytes_str("half done");
        signal_answer_put(&rows, &row);
    }
    op.rows = buf_bytes(&rows);
    signal_settle_encode(&b, &op);
    buf_done(&rows);
    rig_op(&s->rig, OP_SIGNAL_SETTLE, &b);
}

static void ask_withdraw(struct stream *s)
{
    struct buf b = payload();
    struct op_signal_withdraw op = {.request = stream_request(s), .signal = some_id(s)};
    if (s->model->signals_len > 0 && chance(s, 90))
        op.signal = s->model->signals[below(s, s->model->signals_len)].id;
    if (chance(s, 30)) op.seq = some_message(s);
    signal_withdraw_encode(&b, &op);
    rig_op(&s->rig, OP_SIGNAL_WITHDRAW, &b);
}

struct bytes stream_extras(struct stream *s, uint16_t kind, uint32_t count, struct buf *out)
{
    bool any = false;
    if ((kind != OP_ACK && kind != OP_RENEW && !chance(s, 2)) || chance(s, 50)) return BYTES_EMPTY;
    for (uint32_t i = 0; i < count; i++) {
        struct outcome_extra extra = {0};
        char text[MODEL_NAME_MAX];
        int len = snprintf(text, sizeof text, "r%llu", (unsigned long long)++s->bodies);
        bool renew = kind == OP_RENEW;
        if (chance(s, 2)) renew = !renew; // malformed
        if (chance(s, 70)) {
            extra.has = renew ? EXTRA_PROGRESS : EXTRA_RESULT;
            if (renew) extra.percent = (uint8_t)below(s, 101);
            if (!renew && chance(s, 80)) extra.result = bytes_of(text, (size_t)len);
            if (renew) extra.text = bytes_of(text, (size_t)len);
            any = true;
        }
        outcome_extra_put(out, &extra);
    }
    return any ? buf_bytes(out) : BYTES_EMPTY;
}

static const struct op *op_at(const struct stream *s, struct op_place place)
{
    for (size_t i = s->rig.log_len; i > 0; i--)
        if (s->rig.log[i - 1].slot == place.slot)
            return place.op < s->rig.log[i - 1].ops_len ? &s->rig.log[i - 1].ops[place.op] : NULL;
    return NULL;
}

static bool carries(const struct stream *s, struct op_place place, struct outcome_extra *out)
{
    struct op_outcome op;
    const struct op *found = op_at(s, place);
    if (!found || outcome_decode(found->payload, &op) != ERR_OK || place.index >= op.count)
        return false;
    *out = outcome_extra_of(&op, place.index);
    return true;
}

// The slot of a place that is shown was not dropped.
static bool stays(const struct stream *s, struct op_place place)
{
    return machine_needs(s->rig.m, place.slot, place.slot) &&
           machine_signal_lives_at(s->rig.m, place.slot, place.op);
}

bool stream_same_kept(struct stream *s, uint64_t seq, const struct finished_view *v)
{
    const struct model_message *x = &s->model->messages[seq - 1];
    struct outcome_extra extra = {0};
    bool has = v->result.slot > 0;
    if (has != x->has_result || (has && (!stays(s, v->result) || !carries(s, v->result, &extra))))
        return stream_differs(s, "the result of message %llu", (unsigned long long)seq);
    if (has && !bytes_equal(extra.result, bytes_of(x->result, x->result_len)))
        return stream_differs(s, "message %llu has another result", (unsigned long long)seq);
    if (v->reason.slot != x->why_slot || (x->why_slot && !stays(s, v->reason)))
        return stream_differs(s, "the reason of message %llu", (unsigned long long)seq);
    if ((v->body.slot > 0) != x->body_kept ||
        (x->body_kept && !machine_lives_at(s->rig.m, v->body)))
        return stream_differs(s, "the body of message %llu", (unsigned long long)seq);
    return true;
}

bool stream_same_progress(struct stream *s, uint64_t seq)
{
    const struct model_message *x = &s->model->messages[seq - 1];
    struct progress_view v;
    struct outcome_extra extra;
    bool has = machine_progress(s->rig.m, seq, &v);
    bool same = has == x->has_progress;
    if (same && has)
        same = v.percent == x->percent && v.at == x->progress_at && stays(s, v.text) &&
               carries(s, v.text, &extra) && extra.percent == x->percent;
    return same || stream_differs(s, "the progress of message %llu", (unsigned long long)seq);
}

// After its end is forgotten, an id can be used again.
static bool is_replaced(const struct stream *s, const struct model_signal *x)
{
    for (const struct model_signal *y = x + 1; y < s->model->signals + s->model->signals_len; y++)
        if (y->seq == x->seq && memcmp(y->id.bytes, x->id.bytes, sizeof y->id.bytes) == 0)
            return x->dropped;
    return false;
}

static bool same_signal(struct stream *s, const struct model_signal *x)
{
    struct signal_view v;
    if (is_replaced(s, x)) return true;
    bool found = machine_signal_find(s->rig.m, &x->id, x->seq, &v);
    if (found == x->dropped)
        return stream_differs(s, "signal %u of message %llu is %sknown", x->number,
                              (unsigned long long)x->seq, found ? "" : "not ");
    if (!found) return true;
    if (v.state == SIGNAL_PENDING &&
        (v.carried.slot != x->slot || !machine_needs(s->rig.m, x->slot, x->slot)))
        return stream_differs(s, "slot %llu has a signal", (unsigned long long)x->slot);
    bool same = v.state == x->state && v.number == x->number && v.deliveries == x->deliveries &&
                v.ended_at == x->ended_at && (v.answer.slot > 0) == x->answered;
    return same || stream_differs(s,
                                  "signal %u of message %llu is %s in the machine, %s in the "
                                  "model",
                                  x->number, (unsigned long long)x->seq, signal_state_name(v.state),
                                  signal_state_name(x->state));
}

bool stream_same_signals(struct stream *s)
{
    uint32_t pending = 0;
    for (size_t i = 0; i < s->model->signals_len; i++) {
        if (!s->model->deleted && !same_signal(s, &s->model->signals[i])) return false;
        pending += s->model->signals[i].state == SIGNAL_PENDING;
    }
    return machine_signal_count(s->rig.m) == pending ||
           stream_differs(s, "%u signals wait in the machine, %u in the model",
                          machine_signal_count(s->rig.m), pending);
}

void stream_ask_signals(struct stream *s)
{
    if (s->rig.next.ops_len < RIG_OPS_MAX && chance(s, 12)) ask_cancel(s);
    if (s->rig.next.ops_len < RIG_OPS_MAX && chance(s, 12)) ask_lock(s);
    if (s->rig.next.ops_len < RIG_OPS_MAX && chance(s, 30)) ask_signal(s);
    if (s->rig.next.ops_len < RIG_OPS_MAX && chance(s, 30)) ask_settle(s);
    if (s->rig.next.ops_len < RIG_OPS_MAX && chance(s, 6)) ask_withdraw(s);
}
