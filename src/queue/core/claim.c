// SPDX-License-Identifier: Apache-2.0
// Delivery: a claim by a worker gets its tickets first; the shard's owner publishes tickets.
#include "base/check.h"
#include "base/mutant.h"
#include "queue/codec/ops_signals.h"
#include "queue/tables/registry.h"

struct grant grant_of(const struct machine *m, uint32_t h)
{
    const struct msg *msg = msg_at(m, h);
    const struct lock *lock = lock_of(m, msg);
    CHECK(msg->state == STATE_LOCKED);
    return (struct grant){.seq = msg->seq,
                          .place = {msg->slot, msg->skip},
                          .token = lock->token,
                          .fence = lock->fence,
                          .deadline = lock->deadline,
                          .deliveries = msg->deliveries,
                          .retries = msg->retries,
                          .order = lock->order};
}

void grant_report(struct machine *m, uint32_t h, uint32_t worker_row)
{
    struct grant grant = grant_of(m, h);
    CHECK(grant.deadline > m->now);
    grant.worker_row = worker_row;
    grant_put(&m->result, &grant);
}

// Best-effort order: an event reports a batch that delivers a message while an earlier message is
// still open.

struct overtaken_batch overtaking_begin(const struct machine *m)
{
    struct overtaken_batch o = {.open = m->open.len};
    if (o.open > 0) o.top = *heap_top(&m->open);
    return o;
}

void overtaking_look(const struct machine *m, struct overtaken_batch *o, uint32_t h)
{
    if (o->open == 0 || o->seen) return;
    const struct msg *msg = msg_at(m, h);
    int64_t key = order_key(msg);
    o->seen = key != o->top.key ? key > o->top.key : order_tie(m, msg) > o->top.tie;
}

void overtaking_end(struct machine *m, const struct overtaken_batch *o)
{
    if (!o->seen) return;
    CHECK(o->open > 0);
    struct event *e = emit(m, EVENT_ORDERING_BEST_EFFORT, 0);
    if (e) e->count = o->open;
}

static void claimed(struct machine *m, uint32_t h, uint32_t worker)
{
    CHECK(!lock_of(m, msg_at(m, h))->ticket && msg_at(m, h)->deliveries > 0);
    struct event *e = emit(m, EVENT_MESSAGE_CLAIMED, h);
    if (e) emit_worker(m, e, worker);
    if (m->signals.boxes_used > 0) signals_deliver(m, h);
    grant_report(m, h, 0);
}

// The setting `consume`: an entry that is not the owner's grants nothing. The journal does not pass
// the entries of a former owner, so an epoch is the present one.
static bool is_refused(struct machine *m, struct bytes worker, uint32_t wanted)
{
    if (!is_owner_only(m) || m->epoch != 0) return false;
    m->refused_claims++;
    struct event *e = emit(m, EVENT_CLAIM_REJECTED, 0);
    if (!e) return true;
    e->reason = REASON_NOT_OWNER;
    e->count = wanted;
    emit_worker_name(m, e, worker);
    return true;
}

// With dispatch=affinity, the owner decides which worker a group goes to, as long as there are
// rows.
bool gives_only_tickets(const struct machine *m)
{
    return has_affinity(m) && machine_rows(m) > 0 && !MUTANT(AFFINITY_CLAIMS);
}

enum reason apply_claim(struct machine *m, uint16_t kind, struct bytes payload)
{
    struct op_claim op;
    if (claim_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    if (is_refused(m, op.worker, op.max)) return REASON_NOT_OWNER;
    if (m->paused) return REASON_PAUSED;
    uint32_t worker = worker_need(m, op.worker);
    enum reason mode = has_row(m, worker) ? registry_refuses(m, worker) : REASON_NONE;
    if (mode != REASON_NONE) return mode;
    int64_t lease = op.lease_ms > 0 ? op.lease_ms : m->config.visibility_timeout_ms;
    uint32_t count = 0;
    result_begin(&m->result, REASON_NONE);
    size_t count_at = m->result.len;
    buf_put_u32(&m->result, 0);
    for (; count < op.max && m->workers[worker].first_ticket; count++) {
        uint32_t h = m->workers[worker].first_ticket;
        ticket_use(m, h);
        lock_extend(m, h, m->deadline_base + lease);
        claimed(m, h, worker);
    }
    struct overtaken_batch o = overtaking_begin(m);
    bool direct = kind == OP_CLAIM && !gives_only_tickets(m);
    while (direct && count < op.max) {
        uint32_t h = lock_grant(m, worker, op.seed, m->deadline_base + lease, false);
        if (!h) break;
        overtaking_look(m, &o, h);
        claimed(m, h, worker);
        count++;
    }
    overtaking_end(m, &o);
    CHECK(count <= op.max && m->workers[worker].open >= count);
    worker_settle(m, worker);
    buf_set_u32(&m->result, count_at, count);
    return REASON_NONE;
}

// Like a claim, but of the messages that the caller names. An operator redrives them also while the
// queue is paused. Labels that a message requires do not matter: no worker does its work.
enum reason apply_lock(struct machine *m, struct bytes payload)
{
    struct op_lock op;
    if (lock_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    if (is_refused(m, op.worker, op.count)) return REASON_NOT_OWNER;
    uint32_t worker = worker_need(m, op.worker);
    int64_t lease = op.lease_ms > 0 ? op.lease_ms : m->config.visibility_timeout_ms;
    uint32_t count = 0;
    result_begin(&m->result, REASON_NONE);
    size_t count_at = m->result.len;
    buf_put_u32(&m->result, 0);
    struct overtaken_batch o = overtaking_begin(m);
    for (uint32_t i = 0; i < op.count && !gives_only_tickets(m); i++) {
        uint32_t h =
            lock_grant_chosen(m, op_seq(op.seqs, i), worker, op.seed, m->deadline_base + lease);
        if (!h) continue;
        overtaking_look(m, &o, h);
        claimed(m, h, worker);
        count++;
    }
    overtaking_end(m, &o);
    CHECK(count <= op.count && m->workers[worker].open >= count);
    worker_settle(m, worker);
    buf_set_u32(&m->result, count_at, count);
    return REASON_NONE;
}

static uint32_t room_of(const struct machine *m, uint32_t w, uint32_t max)
{
    const struct worker *row = &m->workers[w];
    CHECK(w > 0 && w < m->workers_len);
    if (row->open >= row->capacity) return 0;
    uint32_t room = row->capacity - row->open;
    return room < max ? room : max;
}

enum reason apply_publish(struct machine *m, struct bytes payload)
{
    struct op_publish op;
    if (publish_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    if (is_refused(m, BYTES_EMPTY, op.count) || m->epoch == 0) return REASON_NOT_OWNER;
    if (m->paused) return REASON_PAUSED;
    int64_t deadline = m->deadline_base + (op.ticket_ms > 0 ? op.ticket_ms : TICKET_DEFAULT_MS);
    uint32_t count = 0, known = 0;
    result_begin(&m->result, REASON_NONE);
    size_t count_at = m->result.len;
    buf_put_u32(&m->result, 0);
    struct overtaken_batch o = overtaking_begin(m);
    struct reader rows = reader_of(op.rows);
    for (uint32_t i = 0; i < op.count; i++) {
        struct ticket_row row = {0};
        CHECK(ticket_row_next(&rows, &row));
        uint32_t w = worker_find(m, row.worker);
        if (!w || !has_row(m, w) || m->workers[w].expires_at <= m->now) continue;
        if (registry_refuses(m, w) != REASON_NONE) continue;
        known++;
        for (uint32_t left = room_of(m, w, row.max); left > 0; left--) {
            uint32_t h = lock_grant(m, w, op.seed, deadline, true);
            if (!h) break;
            overtaking_look(m, &o, h);
            struct event *e = emit(m, EVENT_TICKETS_PUBLISHED, h);
            if (e) emit_worker(m, e, w);
            grant_report(m, h, i);
            count++;
        }
    }
    overtaking_end(m, &o);
    CHECK(known > 0 || count == 0);
    buf_set_u32(&m->result, count_at, count);
    if (known > 0 || op.count == 0) return REASON_NONE;
    m->result.data[0] = REASON_UNKNOWN_WORKER;
    return REASON_UNKNOWN_WORKER;
}
