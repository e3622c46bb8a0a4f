// SPDX-License-Identifier: Apache-2.0
// Locks: the holder of a message, the deadline, and the next state of the message when the lock
// ends. The failure strategy is here: failure_policy decides, lock_fail applies the decision.
#include "base/check.h"
#include "base/mutant.h"
#include "base/siphash.h"
#include "queue/tables/registry.h"

// failed: the worker reported a failure; else the lock expired. A message whose lock expired does
// not wait. An expiry counts as a retry in the modes that count retries. maxDeliveries limits the
// attempts in every mode.
struct death_policy failure_policy(const struct machine *m, const struct msg *msg, bool failed)
{
    const struct queue_config *c = &m->config;
    CHECK(msg->state == STATE_LOCKED);
    enum message_state end = c->failure_mode == FAILURE_RETRY ? STATE_DEAD : STATE_OUTBOUND;
    if (c->deliveries_max > 0 && msg->deliveries >= c->deliveries_max)
        return (struct death_policy){end, false, DEAD_DELIVERIES};
    if (c->failure_mode == FAILURE_DEAD_LETTER) {
        if (failed) return (struct death_policy){end, false, DEAD_FAILED};
        return (struct death_policy){STATE_READY, false, DEAD_EXPIRED};
    }
    if (msg->retries >= c->retries_max)
        return (struct death_policy){end, false, failed ? DEAD_FAILED : DEAD_EXPIRED};
    return (struct death_policy){failed ? STATE_DELAYED : STATE_READY, true, DEAD_FAILED};
}

// initial * multiplier ^ (retry - 1), at most max, plus or minus the jitter. The jitter is a hash,
// so every fold computes the same value.
static int64_t backoff_ms(const struct machine *m, uint64_t seq, uint32_t retry)
{
    const struct backoff_config *b = &m->config.backoff;
    int64_t wait = b->initial_ms < b->max_ms ? b->initial_ms : b->max_ms;
    for (uint32_t i = 1; i < retry && wait < b->max_ms && wait > 0; i++) {
        if (b->multiplier_1000 == 1000) break;
        wait = wait * (int64_t)b->multiplier_1000 / 1000;
        if (wait > b->max_ms) wait = b->max_ms;
    }
    int64_t spread = wait * (int64_t)b->jitter_1000 / 1000;
    if (spread > 0) {
        uint64_t chance = mix(mix(hash64_of(bytes_of(m->queue.bytes, 16), m->shard), seq), retry);
        wait += (int64_t)(chance % (uint64_t)(2 * spread + 1)) - spread;
    }
    CHECK(wait >= 0);
    return wait < b->max_ms ? wait : b->max_ms;
}

static void open_enter(struct machine *m, uint32_t h)
{
    const struct msg *msg = msg_at(m, h);
    if (is_strict(m)) return;
    CHECK(!heap_has(&m->open, h));
    heap_push(&m->open, order_key(msg), order_tie(m, msg), h);
}

void open_leave(struct machine *m, uint32_t h)
{
    if (heap_has(&m->open, h)) heap_remove(&m->open, h);
}

// The record is READY and being edited, and nothing offers it any more.
static void lock_put(struct machine *m, uint32_t h, uint32_t worker, const uint8_t seed[16],
                     int64_t deadline, bool ticket)
{
    struct msg *msg = msg_at(m, h);
    CHECK(msg->state == STATE_READY);
    CHECK(deadline > m->now && worker > 0);
    lock_need(m, h);
    msg_move(m, h, STATE_LOCKED);
    struct lock *lock = lock_of(m, msg);
    uint64_t fence = ++m->fence;
    *lock = (struct lock){.token = siphash128(seed, msg->seq, fence),
                          .fence = fence,
                          .deadline = deadline,
                          .worker = worker,
                          .ticket = ticket};
    m->workers[worker].open++;
    heap_push(&m->timers, deadline, msg->seq, h);
    open_enter(m, h);
    if (ticket) {
        lock->order = ++m->order;
        m->tickets++;
        ticket_link(m, worker, h);
    } else {
        msg->deliveries++;
    }
    if (has_row(m, worker)) registry_note_ticket(m, worker, lock->order);
    if (msg->scope) scope_refresh(m, msg->scope);
    if (ticket && has_row(m, worker) && has_affinity(m)) scope_bind(m, msg->scope, worker);
}

uint32_t lock_grant(struct machine *m, uint32_t worker, const uint8_t seed[16], int64_t deadline,
                    bool ticket)
{
    struct reach_lanes reach = reach_of(m, worker);
    CLEANUP(msg_edit_end) struct msg_edit edit = ready_take(m, &reach);
    if (edit.h) lock_put(m, edit.h, worker, seed, deadline, ticket);
    return edit.h;
}

uint32_t lock_grant_chosen(struct machine *m, uint64_t seq, uint32_t worker, const uint8_t seed[16],
                           int64_t deadline)
{
    CLEANUP(msg_edit_end) struct msg_edit edit = ready_take_chosen(m, seq);
    if (edit.h) lock_put(m, edit.h, worker, seed, deadline, false);
    return edit.h;
}

void lock_extend(struct machine *m, uint32_t h, int64_t deadline)
{
    struct msg *msg = msg_at(m, h);
    CHECK(msg->state == STATE_LOCKED);
    CHECK(deadline > m->now);
    CLEANUP(msg_edit_end) struct msg_edit edit = msg_edit(m, h);
    heap_remove(&m->timers, h);
    lock_of(m, msg)->deadline = deadline;
    heap_push(&m->timers, deadline, msg->seq, h);
}

// A ticket becomes a plain lock, and the attempt counts.
void ticket_use(struct machine *m, uint32_t h)
{
    struct msg *msg = msg_at(m, h);
    if (!lock_of(m, msg)->ticket) return;
    CLEANUP(msg_edit_end) struct msg_edit edit = msg_edit(m, h);
    CHECK(m->tickets > 0);
    ticket_unlink(m, h);
    lock_of(m, msg)->ticket = false;
    m->tickets--;
    msg->deliveries++;
}

// Every end of a lock passes through here: the record leaves the timers, the open heap, the
// worker's tickets and the worker's count.
static void lock_let_go(struct machine *m, uint32_t h, enum lock_end end)
{
    struct msg *msg = msg_at(m, h);
    CHECK(m->edited == h && msg->state == STATE_LOCKED);
    struct lock *lock = lock_of(m, msg);
    CHECK(lock->end == LOCK_CURRENT && m->workers[lock->worker].open > 0);
    if (m->signals.boxes_used > 0 && !lock->ticket) signals_lock_over(m, msg->seq);
    heap_remove(&m->timers, h);
    open_leave(m, h);
    if (lock->ticket) {
        CHECK(m->tickets > 0);
        ticket_unlink(m, h);
        lock->ticket = false;
        m->tickets--;
    }
    m->workers[lock->worker].open--;
    if (has_row(m, lock->worker)) idle_refresh(m, lock->worker);
    lock->end = (uint8_t)end;
    worker_settle(m, lock->worker);
    lock->worker = 0;
}

// The record is LOCKED, its worker known.
static inline void note_end(struct machine *m, uint32_t h, enum finished_outcome outcome,
                            const struct retained_source *what)
{
    const struct msg *msg = msg_at(m, h);
    const struct worker *w = &m->workers[lock_of(m, msg)->worker];
    CHECK(msg->state == STATE_LOCKED);
    finished_note(m, msg->seq, 1, msg->deliveries, bytes_of(w->name, w->name_len), outcome);
    retained_note(m, h, what);
}

void lock_finish(struct machine *m, uint32_t h, const struct retained_source *result)
{
    uint32_t worker = lock_of(m, msg_at(m, h))->worker;
    CHECK(!lock_of(m, msg_at(m, h))->ticket);
    if (has_row(m, worker)) registry_note_end(m, worker, true);
    note_end(m, h, FINISHED_PROCESSED, result);
    workflow_note_end(m, msg_at(m, h)->seq, WORKFLOW_DONE);
    CLEANUP(msg_edit_end) struct msg_edit edit = msg_edit(m, h);
    lock_let_go(m, h, LOCK_END_RELEASED);
    msg_move(m, h, STATE_PROCESSED);
    scope_leave(m, h);
    msg_free(m, h);
}

// The queue is deleted: the record leaves with its lock.
void lock_abandon(struct machine *m, uint32_t h)
{
    CHECK(msg_at(m, h)->lock);
    lock_let_go(m, h, LOCK_END_RELEASED);
}

static void make_ready(struct machine *m, uint32_t h)
{
    msg_move(m, h, STATE_READY);
    ready_offer(m, h);
}

static void make_delayed(struct machine *m, uint32_t h, int64_t due)
{
    CHECK(due > m->now);
    msg_move(m, h, STATE_DELAYED);
    heap_push(&m->timers, due, msg_at(m, h)->seq, h);
}

// The attempt does not count.
void lock_give_back(struct machine *m, uint32_t h, int64_t due, enum lock_end end)
{
    struct msg *msg = msg_at(m, h);
    bool ticket = lock_of(m, msg)->ticket;
    CLEANUP(msg_edit_end) struct msg_edit edit = msg_edit(m, h);
    lock_let_go(m, h, end);
    if (!ticket) {
        CHECK(msg->deliveries > 0);
        msg->deliveries--;
    }
    if (due > m->now) {
        make_delayed(m, h, due);
    } else {
        make_ready(m, h);
    }
}

// The worker failed, or its lock expired. until: when the message is ready again, or 0.
enum outcome_status lock_fail(struct machine *m, uint32_t h, bool failed, int64_t *until)
{
    struct msg *msg = msg_at(m, h);
    CHECK(!lock_of(m, msg)->ticket);
    struct death_policy v = failure_policy(m, msg, failed);
    failure_note(m, h, failed);
    if (has_row(m, lock_of(m, msg)->worker)) registry_note_end(m, lock_of(m, msg)->worker, false);
    struct op_place why = {failed ? m->slot : 0, failed ? m->op_index : 0, 0};
    if (v.state == STATE_OUTBOUND)
        note_end(m, h, FINISHED_DEAD_LETTERED, &(struct retained_source){.place = why});
    CLEANUP(msg_edit_end) struct msg_edit edit = msg_edit(m, h);
    lock_let_go(m, h, failed ? LOCK_END_RELEASED : LOCK_END_EXPIRED);
    *until = 0;
    if (v.state == STATE_DEAD || v.state == STATE_OUTBOUND) {
        dead_list_add(m, h, v.state, v.cause, why);
        return OUTCOME_DEAD_LETTERED;
    }
    if (v.counted && !MUTANT(ATTEMPTS_OFF)) msg->retries++;
    int64_t due =
        v.state == STATE_DELAYED ? m->deadline_base + backoff_ms(m, msg->seq, msg->retries) : 0;
    if (due <= m->now) {
        make_ready(m, h);
        return OUTCOME_RETRYING;
    }
    *until = due;
    msg->flags |= MSG_WAITING;
    m->waiting++;
    make_delayed(m, h, due);
    open_enter(m, h);
    return OUTCOME_RETRYING;
}

void lock_stop(struct machine *m, uint32_t h, enum message_state state, bool expired,
               struct op_place why)
{
    lock_let_go(m, h, expired ? LOCK_END_EXPIRED : LOCK_END_RELEASED);
    if (state == STATE_READY) {
        make_ready(m, h);
    } else if (state == STATE_CANCELLED) {
        msg_move(m, h, STATE_CANCELLED);
        scope_leave(m, h);
        msg_free(m, h);
    } else {
        CHECK(state == STATE_DEAD || state == STATE_OUTBOUND);
        dead_list_add(m, h, state, DEAD_FAILED, why);
    }
}

static void delay_ends(struct machine *m, uint32_t h)
{
    struct msg *msg = msg_at(m, h);
    CLEANUP(msg_edit_end) struct msg_edit edit = msg_edit(m, h);
    heap_remove(&m->timers, h);
    open_leave(m, h);
    CHECK(m->waiting > 0 || !(msg->flags & MSG_WAITING));
    if (msg->flags & MSG_WAITING) m->waiting--;
    msg->flags &= (uint8_t)~MSG_WAITING;
    make_ready(m, h);
}

static void ticket_expires(struct machine *m, uint32_t h)
{
    CHECK(lock_of(m, msg_at(m, h))->deadline <= m->now);
    struct event *e = emit(m, EVENT_TICKETS_RECOVERED, h);
    if (e) {
        e->reason = REASON_LOCK_EXPIRED;
        emit_worker(m, e, lock_of(m, msg_at(m, h))->worker);
    }
    lock_give_back(m, h, 0, LOCK_END_EXPIRED);
}

// The time of a delayed or locked record has come.
void lock_expire(struct machine *m, uint32_t h)
{
    const struct msg *msg = msg_at(m, h);
    if (msg->state == STATE_DELAYED) {
        delay_ends(m, h);
        return;
    }
    CHECK(msg->state == STATE_LOCKED);
    if (MUTANT(EXPIRY_OFF)) {
        lock_extend(m, h, m->now + LEASE_MAX_MS);
        return;
    }
    if (lock_of(m, msg)->ticket) {
        ticket_expires(m, h);
        return;
    }
    m->expired++;
    struct event *e = emit(m, EVENT_LOCK_EXPIRED, h);
    if (e) emit_worker(m, e, lock_of(m, msg)->worker);
    struct outcome_row row;
    if (m->signals.boxes_used > 0 && interrupt_take(m, h, true, BYTES_EMPTY, &row)) return;
    struct event by = e ? *e : (struct event){0};
    int64_t until;
    uint32_t retries = msg->retries;
    enum outcome_status status = lock_fail(m, h, false, &until);
    bool counted = msg_at(m, h)->retries != retries;
    if (status != OUTCOME_DEAD_LETTERED && !counted) return;
    e = emit(m, EVENT_MESSAGE_OUTCOME, h);
    if (!e) return;
    e->status = status;
    e->reason = REASON_LOCK_EXPIRED;
    e->worker_at = by.worker_at;
    e->worker_len = by.worker_len;
}

enum reason lock_check(const struct machine *m, const struct lock_ref *ref, uint32_t *h)
{
    *h = 0;
    if (ref->seq == 0 || ref->seq >= m->seq_next) return REASON_UNKNOWN_MESSAGE;
    uint32_t found = map_find(&m->by_seq, ref->seq);
    if (found == MAP_NONE) return backlog_find(m, ref->seq) ? REASON_NOT_LOCKED : REASON_TERMINAL;
    *h = found;
    const struct msg *msg = msg_at(m, found);
    CHECK(msg->seq == ref->seq);
    if (msg->state == STATE_DEAD || msg->state == STATE_OUTBOUND) return REASON_TERMINAL;
    if (!msg->lock) return REASON_NOT_LOCKED;
    const struct lock *lock = lock_of(m, msg);
    bool same = hash128_equal(lock->token, ref->token) || MUTANT(TOKEN_OFF);
    if (msg->state == STATE_LOCKED) return same ? REASON_NONE : REASON_TOKEN_MISMATCH;
    if (!same) return REASON_NOT_LOCKED;
    return lock->end == LOCK_END_EXPIRED ? REASON_LOCK_EXPIRED : REASON_LOCK_RELEASED;
}

enum reason machine_lock(const struct machine *m, const struct lock_ref *ref)
{
    uint32_t h;
    return lock_check(m, ref, &h);
}
