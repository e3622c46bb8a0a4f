// SPDX-License-Identifier: Apache-2.0
// Signals, cancels, results and progress, in most worlds of one release. Senders steer, ask and
// interrupt messages, workflows and workers, withdraw what they sent, and cancel messages. Workers
// listen now and then, through any handle, and answer: mostly the first number that waits, else a
// later one, an old one, or one that never was. All of it is drawn from numbers of its own, so that
// the other worlds are what they were.
#include "check.h"

#include "base/hash.h"

#include <stdio.h>
#include <string.h>

#define VIEWS 8

void signals_draw(struct world *w)
{
    struct life *life = w->life;
    struct rng *rng = &life->signals_rng;
    rng_init(rng, hash64_mix(w->seed, 0x7369676e));
    life->signals = !life_is_crowd(w) && !life->raises && rng_chance(rng, 7000);
    if (!life->signals) return;
    for (uint32_t i = 0; i < life->lanes_len; i++)
        life->lanes[i].birth.retain_body = true; // so it begins with version 6
    life->signal_every_ms = rng_range(rng, 200, 2 * SECOND);
    life_after(w, rng_range(rng, SECOND, 5 * SECOND), LIFE_SIGNAL, 0, 0);
}

void signals_configure(struct world *w, struct queue_config *c)
{
    if (w->life->signals) c->retain_body = rng_chance(&w->life->signals_rng, 5000);
}

static void submit(struct world *w, uint32_t ask, struct buf *payload)
{
    w->life->calls[ask].payload = bytes_copy(buf_bytes(payload));
    (void)sim_call_submit(w, ask);
}

// One that waits for a holder, or for the next one; NULL: none does.
static const struct reference_signal *some_pending(struct world *w, const struct reference *g)
{
    uint32_t len = g->signals_len;
    uint32_t first = len > 0 ? (uint32_t)rng_below(&w->life->signals_rng, len) : 0;
    for (uint32_t i = 0; i < len; i++) {
        const struct reference_signal *s = &g->signals[(first + i) % len];
        if (s->state == SIGNAL_PENDING && s->kind != SIGNAL_INTERRUPT) return s;
    }
    return NULL;
}

// Mostly one that a worker holds, often one with a signal; now and then one that never was.
static uint64_t some_message(struct world *w, const struct reference *g)
{
    struct rng *rng = &w->life->signals_rng;
    const struct reference_signal *s = rng_chance(rng, 5500) ? some_pending(w, g) : NULL;
    if (s) return s->seq;
    uint64_t len = g->rows_len, first = len > 0 ? rng_below(rng, len) : 0;
    bool held = rng_chance(rng, 7500);
    for (uint64_t i = 0; held && i < len; i++) {
        uint64_t at = (first + i) % len;
        if (g->rows[at].state == STATE_LOCKED) return at + 1;
    }
    bool recent = len > 12 && rng_chance(rng, 7000);
    uint64_t back = recent ? len - 12 : 0;
    return back + rng_below(rng, len - back + 2);
}

static void target(struct world *w, const struct reference *g, struct op_signal *op,
                   struct buf *seqs, char name[16])
{
    struct rng *rng = &w->life->signals_rng;
    uint64_t r = rng_below(rng, 100);
    if (r < 80) {
        op->count = r < 65 ? 1 : 1 + (uint32_t)rng_below(rng, 3);
        for (uint32_t i = 0; i < op->count; i++)
            buf_put_u64(seqs, some_message(w, g));
        op->seqs = buf_bytes(seqs);
        return;
    }
    op->target = r < 90 ? SIGNAL_TO_WORKER : SIGNAL_TO_WORKFLOW;
    if (op->target == SIGNAL_TO_WORKER)
        (void)snprintf(name, 16, "w%u", (unsigned)rng_below(rng, w->life->thread_pool_len));
    else
        (void)snprintf(name, 16, "f%u", (unsigned)rng_below(rng, REFERENCE_WORKFLOWS));
    op->name = bytes_str(name);
}

static void send(struct world *w, struct lane *l)
{
    struct rng *rng = &w->life->signals_rng;
    CLEANUP(buf_done) struct buf seqs;
    buf_init(&seqs, 64);
    char name[16], text[32];
    uint32_t ask = sim_call_new(w, SIM_CALL_OP, OP_SIGNAL, l->index);
    struct op_signal op = {.request = w->life->calls[ask].request,
                           .kind = (enum signal_kind)rng_below(rng, SIGNAL_KIND_COUNT)};
    (void)snprintf(text, sizeof text, "signal %u", ask);
    if (op.kind == SIGNAL_INTERRUPT && rng_chance(rng, 4000)) op.kind = SIGNAL_STEER;
    if (op.kind == SIGNAL_INTERRUPT) {
        op.then = rng_chance(rng, 6000) ? THEN_CANCEL : (enum signal_then)rng_below(rng, 3);
        op.grace_ms = rng_chance(rng, 3000) ? 0 : rng_range(rng, 1, 6 * SECOND);
        op.reason = bytes_str(text);
    } else {
        op.flags = (uint8_t)rng_below(rng, SIGNAL_FLAGS_ALL + 1);
        op.ttl_ms = rng_chance(rng, 4000) ? rng_range(rng, 1, 10 * SECOND) : 10 * MINUTE;
        op.payload = bytes_str(text);
    }
    target(w, &l->reference, &op, &seqs, name);
    struct buf *out = &w->life->scratch;
    buf_clear(out);
    signal_encode(out, &op);
    submit(w, ask, out);
}

static void withdraw(struct world *w, struct lane *l)
{
    struct rng *rng = &w->life->signals_rng;
    const struct reference *g = &l->reference;
    if (g->signals_len == 0) return;
    uint64_t back = g->signals_len > 10 ? g->signals_len - 10 : 0;
    const struct reference_signal *s = &g->signals[back + rng_below(rng, g->signals_len - back)];
    uint32_t ask = sim_call_new(w, SIM_CALL_OP, OP_SIGNAL_WITHDRAW, l->index);
    struct op_signal_withdraw op = {.request = w->life->calls[ask].request,
                                    .signal = s->id,
                                    .seq = rng_chance(rng, 5000) ? s->seq : 0};
    struct buf *out = &w->life->scratch;
    buf_clear(out);
    signal_withdraw_encode(out, &op);
    submit(w, ask, out);
}

static void cancel(struct world *w, struct lane *l)
{
    CLEANUP(buf_done) struct buf seqs;
    buf_init(&seqs, 64);
    uint32_t ask = sim_call_new(w, SIM_CALL_OP, OP_CANCEL, l->index);
    struct op_cancel op = {.request = w->life->calls[ask].request, .reason = bytes_str("no use")};
    op.count = 1 + (uint32_t)rng_below(&w->life->signals_rng, 3);
    for (uint32_t i = 0; i < op.count; i++)
        buf_put_u64(&seqs, some_message(w, &l->reference));
    op.seqs = buf_bytes(&seqs);
    struct buf *out = &w->life->scratch;
    buf_clear(out);
    cancel_encode(out, &op);
    submit(w, ask, out);
}

// An operator that redrives dead letters locks them by number. The locks of this one expire.
static void lock(struct world *w, struct lane *l)
{
    CLEANUP(buf_done) struct buf seqs;
    buf_init(&seqs, 64);
    struct rng *rng = &w->life->signals_rng;
    uint32_t ask = sim_call_new(w, SIM_CALL_OP, OP_LOCK, l->index);
    struct op_lock op = {.request = w->life->calls[ask].request,
                         .worker = bytes_str("redrive"),
                         .lease_ms = (int64_t)rng_range(rng, 1, 4 * SECOND)};
    op.seed[0] = (uint8_t)rng_below(rng, 256);
    op.count = 1 + (uint32_t)rng_below(rng, 3);
    for (uint32_t i = 0; i < op.count; i++)
        buf_put_u64(&seqs, some_message(w, &l->reference));
    op.seqs = buf_bytes(&seqs);
    struct buf *out = &w->life->scratch;
    buf_clear(out);
    lock_encode(out, &op);
    submit(w, ask, out);
}

void signals_send(struct world *w)
{
    struct rng *rng = &w->life->signals_rng;
    if (w->phase != WORLD_FAULTY) return;
    life_after(w, rng_range(rng, 1, 2 * w->life->signal_every_ms), LIFE_SIGNAL, 0, 0);
    struct lane *l = &w->life->lanes[rng_below(rng, w->life->lanes_len)];
    if (w->now < w->quiet_until) return;
    uint64_t r = rng_below(rng, 100);
    if (r < 78)
        send(w, l);
    else if (r < 90)
        withdraw(w, l);
    else if (r < 97)
        cancel(w, l);
    else
        lock(w, l);
}

// Which number the worker answers: of several often a later one, else mostly the first.
static uint32_t number_of(struct rng *rng, const struct signal_view *v, size_t len)
{
    uint64_t r = rng_below(rng, 100);
    if (len > 1 && r < 45) return v[1 + rng_below(rng, len - 1)].number;
    if (len > 0 && r < 85) return v[0].number;
    return (uint32_t)rng_below(rng, 6);
}

// What came with a call that waited. The reply is valid only until the next call.
void signals_heard(struct world *w, uint32_t ask, const struct shard_reply *r)
{
    struct rng *rng = &w->life->signals_rng;
    if (r->err != ERR_OK || r->signals_len == 0 || !rng_chance(rng, 7000)) return;
    const struct signal_delivery *d = &r->signals[rng_below(rng, r->signals_len)];
    struct lock_ref ref = w->life->calls[ask].refs[d->index];
    uint32_t number = d->reason == REASON_NONE ? d->view.number : 1,
             lane = w->life->calls[ask].lane;
    uint32_t settle = sim_call_new(w, SIM_CALL_OP, OP_SIGNAL_SETTLE, lane);
    struct sim_call *a = &w->life->calls[settle];
    a->refs[0] = ref;
    a->refs_len = 1;
    a->numbers[0] = number;
    world_at(w, w->now + rng_range(rng, 1, SECOND), EVENT_RETRY, settle, 0);
}

// Through any handle, for a while.
static void wait_for_signals(struct world *w, const struct sim_worker *c)
{
    struct rng *rng = &w->life->signals_rng;
    uint32_t ask = sim_call_new(w, SIM_CALL_LISTEN, 0, c->lane);
    struct sim_call *a = &w->life->calls[ask];
    for (uint32_t i = 0; i < c->held_len; i++)
        a->refs[a->refs_len++] = c->held[i].ref;
    a->wait_ms = rng_range(rng, 0, 8 * SECOND);
    (void)sim_call_submit(w, ask);
}

void signals_listen(struct world *w, uint32_t worker)
{
    struct rng *rng = &w->life->signals_rng;
    const struct sim_worker *c = &w->life->workers[worker];
    if (!w->life->signals || c->held_len == 0 || !rng_chance(rng, 8500)) return;
    if (rng_chance(rng, 5000)) {
        wait_for_signals(w, c);
        return;
    }
    struct node *n = node_pick(w, c->lane);
    if (!n) return;
    uint32_t ask = NO_INDEX;
    for (uint32_t i = 0; i < c->held_len; i++) {
        struct signal_view v[VIEWS];
        size_t len;
        struct lock_ref ref = c->held[i].ref;
        const struct machine *m = shard_machine(w->life->handles[n->index].shard);
        enum reason reason = machine_signals(m, &ref, 0, v, VIEWS, &len);
        check_delivered(&w->life->lanes[c->lane].reference, journal_slot(n->journal), &ref, reason,
                        v, len);
        bool answers = len > 0 ? rng_chance(rng, 8000) : rng_chance(rng, 300); // else it lags
        if (!answers) continue;
        if (ask == NO_INDEX) ask = sim_call_new(w, SIM_CALL_OP, OP_SIGNAL_SETTLE, c->lane);
        struct sim_call *a = &w->life->calls[ask];
        a->numbers[a->refs_len] = number_of(rng, v, len);
        a->declines[a->refs_len] = rng_chance(rng, 2500);
        a->refs[a->refs_len++] = ref;
    }
    if (ask != NO_INDEX) (void)sim_call_submit(w, ask);
}

// An old token, or one that never was.
void signals_stale(struct world *w, const struct lane *l, struct lock_ref ref)
{
    struct rng *rng = &w->life->signals_rng;
    const struct reference *g = &l->reference;
    if (!w->life->signals || ref.seq == 0 || ref.seq > g->rows_len) return;
    const struct reference_signal *s = rng_chance(rng, 5000) ? some_pending(w, g) : NULL;
    if (s) ref.seq = s->seq;
    uint32_t ask = sim_call_new(w, SIM_CALL_OP, OP_SIGNAL_SETTLE, l->index);
    struct sim_call *a = &w->life->calls[ask];
    a->refs[0] = ref;
    a->refs_len = 1;
    uint32_t last = g->rows[ref.seq - 1].signals;
    a->numbers[0] = last > 0 && rng_chance(rng, 8000) ? last : 1 + (uint32_t)rng_below(rng, 3);
    if (s) a->numbers[0] = s->number;
    (void)sim_call_submit(w, ask);
}

void signals_put_settle(struct world *w, const struct sim_call *a, const struct node *n,
                        struct buf *out)
{
    CLEANUP(buf_done) struct buf rows;
    buf_init(&rows, 1024);
    for (uint32_t i = 0; i < a->refs_len; i++) {
        char text[32];
        (void)snprintf(text, sizeof text, "answer %u.%u", sim_call_index(w, a), i);
        enum signal_act act = a->declines[i] ? SIGNAL_DECLINE : SIGNAL_ACK;
        signal_answer_put(&rows, &(struct signal_answer){.ref = a->refs[i],
                                                         .number = a->numbers[i],
                                                         .act = act,
                                                         .answer = bytes_str(text)});
    }
    const struct lane *l = &w->life->lanes[a->lane];
    struct op_signal_settle op = {.request = a->request,
                                  .queue = l->id,
                                  .shard = l->shard,
                                  .arrived_at = node_now(n).hi,
                                  .count = a->refs_len,
                                  .rows = buf_bytes(&rows)};
    signal_settle_encode(out, &op);
}

// What an ack or renew carries follows from its request, so that a repeat carries the same.
struct bytes signals_extras(struct world *w, const struct sim_call *a, struct buf *out)
{
    bool any = false;
    if (!w->life->signals || (a->kind != OP_ACK && a->kind != OP_RENEW)) return BYTES_EMPTY;
    for (uint32_t i = 0; i < a->refs_len; i++) {
        char text[32];
        (void)snprintf(text, sizeof text, "result %u.%u", sim_call_index(w, a), i);
        struct outcome_extra extra = {0};
        bool has = a->request.bytes[i] % 2 == 0;
        if (has && a->kind == OP_ACK) {
            extra.has = EXTRA_RESULT;
            extra.result = bytes_str(text);
        } else if (has) {
            extra.has = EXTRA_PROGRESS;
            extra.percent = a->request.bytes[i] % 101;
        }
        outcome_extra_put(out, &extra);
        any = any || has;
    }
    return any ? buf_bytes(out) : BYTES_EMPTY;
}
