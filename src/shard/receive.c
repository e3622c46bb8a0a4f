// SPDX-License-Identifier: Apache-2.0
// Claims that can wait. A claim is proposed only if the state, projected to now, has something to
// give. An empty answer is given only at a tail that was seen after the call began. A waiting claim
// joins the entry of the send that feeds it, so a hand-over costs one commit.
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "shard/inside.h"

#include <string.h>

// How long a receive waits in a process that may not hand out messages: an owner may appear.
#define OWNER_WAIT_MS 200

bool shard_may_grant(const struct shard *s)
{
    return !s->owner_only || s->view->is_owner;
}

static bool claimable(const struct shard *s, const struct shard_call *c)
{
    return shard_may_grant(s) && machine_claimable(s->machine, shard_now(s), c->worker);
}

void receive_set_claim(struct shard_call *c, const struct op_claim *claim)
{
    LOCAL(buf, payload, JOURNAL_OP_MAX);
    claim_encode(&payload, claim);
    CHECK(!payload.bad);
    if (payload.len <= sizeof c->near)
        c->payload = bytes_of(memcpy(c->near, payload.data, payload.len), payload.len);
    else
        c->payload = buf_take(&payload);
    struct op_claim own;
    CHECK(c->receives && c->kind == OP_CLAIM);
    CHECK(!claim_decode(c->payload, &own));
    c->worker = own.worker;
    c->max = own.max;
}

// There is something to claim.
static void claim_or_notify(struct shard *s, struct shard_call *c)
{
    CHECK(!c->next && !c->recalls);
    CHECK(!c->receives || shard_may_grant(s));
    CHECK(!c->awaits || c->receives);
    if (c->awaits) {
        call_answer(s, c, ERR_OK, BYTES_EMPTY);
    } else {
        call_commit(s, c);
    }
}

static struct op op_of(const struct shard_call *c)
{
    CHECK(c->kind >= OP_KIND_MACHINE); // a sync has no op
    return (struct op){.kind = c->kind, .payload = c->payload};
}

static bool recall(struct shard *s, struct shard_call *c);

// Nothing came in time. But another call with the same id may have a result by now.
static void end_wait(struct shard *s, struct shard_call *c)
{
    CHECK(c->receives);
    if (!c->awaits && recall(s, c)) return;
    if (!shard_may_grant(s)) {
        call_refuse(s, c, REASON_NOT_OWNER);
        return;
    }
    call_answer(s, c, c->awaits ? ERR_NOT_FOUND : ERR_OK, BYTES_EMPTY);
}

// Compares request ids: seeds and times of arrival can differ.
static bool is_same(void *other, const struct op *op)
{
    struct request_id one, two;
    return op->kind == ((struct op *)other)->kind && op_request(op, &one) &&
           op_request(other, &two) && memcmp(&one, &two, sizeof one) == 0;
}

// A caller that repeats its request has given up on the first one. If both waited, they would have
// to get the same messages, and the first answer would be of no use.
static void end_same_request(struct shard *s, const struct shard_call *successor)
{
    struct request_id id;
    CHECK(successor->receives && !successor->next);
    struct op wanted = op_of(successor);
    if (!op_request(&wanted, &id) || !request_id_set(&id)) return;
    for (struct shard_call *c = s->calls[SHARD_CALL_WAITING].head, *next; c; c = next) {
        next = c->next;
        struct op op = op_of(c);
        if (is_same(&wanted, &op)) call_answer(s, call_take(s, c), ERR_OK, BYTES_EMPTY);
    }
}

// When the wait of a call ends. In a process that may not hand out messages it ends soon, and at
// once if another process becomes the owner: the caller then turns to that one.
static int64_t wait_end(const struct shard *s, const struct shard_call *c)
{
    CHECK(c->receives);
    if (shard_may_grant(s)) return c->wait_until;
    if (c->owner_epoch != s->view->epoch) return TIME_UNKNOWN;
    return c->owner_until < c->wait_until ? c->owner_until : c->wait_until;
}

static void wait_or_end(struct shard *s, struct shard_call *c)
{
    CHECK(c->receives);
    if (call_wait_is_over(s, c)) {
        end_wait(s, c);
    } else {
        end_same_request(s, c);
        c->owner_epoch = s->view->epoch;
        c->owner_until = shard_may_grant(s) ? TIME_UNKNOWN : shard_now(s) + OWNER_WAIT_MS;
        int64_t end = wait_end(s, c);
        if (end < s->waits_end) s->waits_end = end;
        CHECK(s->waits_end <= end);
        call_push(s, c, SHARD_CALL_WAITING);
    }
}

// There was nothing, or the queue was paused meanwhile: a receive goes on waiting.
static bool is_empty_claim(struct bytes body)
{
    struct result result;
    if (result_open(body, OP_CLAIM, &result)) return false;
    return result.reason == REASON_PAUSED || (result.reason == REASON_NONE && result.count == 0);
}

// Answers with the earlier result of the request id. Returns false if there is none.
static bool recall(struct shard *s, struct shard_call *c)
{
    LOCAL(buf, text, SIZE_MAX);
    struct op op = op_of(c);
    struct op_result r;
    if (!machine_recall(s->machine, &op, &r, &text)) return false;
    CHECK((uint64_t)r.body_at + r.body_len <= text.len);
    struct bytes body = bytes_of(text.data + r.body_at, r.body_len);
    if (c->receives) {
        receive_result(s, c, r.err, body);
    } else {
        call_answer(s, c, r.err, body);
    }
    return true;
}

static void sync_first(struct shard *s, struct shard_call *c)
{
    CHECK(!c->tail_seen);
    call_push(s, c, SHARD_CALL_SYNCING);
    journal_sync(s->journal, call_ticket(c), c->deadline, s->now);
}

static bool has_dedup(struct bytes payload)
{
    struct op_send send;
    if (send_open(payload, &send)) return false;
    for (uint32_t i = 0; i < send.count; i++) {
        struct message m;
        send_next(&send, &m);
        if (m.dedup.len > 0) return true;
    }
    return false;
}

enum reason call_certain_refusal(const struct shard *s, const struct shard_call *c)
{
    CHECK(c->kind >= OP_KIND_MACHINE);
    bool sends = c->kind == OP_SEND && c->max > 0;
    enum reason reason = machine_refuses(s->machine, c->kind, sends ? 1 : 0);
    bool grants = c->kind == OP_CLAIM || c->kind == OP_TAKE || c->kind == OP_PUBLISH;
    if (grants && reason != REASON_DELETED && !shard_may_grant(s)) return REASON_NOT_OWNER;
    if (grants && reason == REASON_NONE) return machine_refuses_worker(s->machine, c->worker);
    if (reason != REASON_FULL) return reason;
    // A duplicate needs no capacity, and a timer that is due may free some.
    bool may_fit = machine_wake_at(s->machine) <= shard_now(s) || has_dedup(c->payload);
    return may_fit ? REASON_NONE : reason;
}

bool call_under_way(const struct shard *s, const struct shard_call *c)
{
    struct request_id id;
    struct op op = op_of(c);
    if (!op_request(&op, &id) || !request_id_set(&id)) return false;
    return journal_holds(s->journal, is_same, &op);
}

// A registered worker that an operator paused, drains or evicted gets nothing. It learns so even
// if there is no message for it.
static enum reason mode_refusal(const struct shard *s, const struct shard_call *c)
{
    struct worker_view w;
    if (!c->receives || c->recalls) return REASON_NONE;
    if (!machine_worker_find(s->machine, c->worker, &w) || w.instance == 0) return REASON_NONE;
    CHECK(w.mode <= WORKER_IS_EVICTED);
    switch (w.mode) {
    case WORKER_IS_PAUSED:
        return REASON_WORKER_PAUSED;
    case WORKER_IS_DRAINING:
        return REASON_WORKER_DRAINING;
    case WORKER_IS_EVICTED: // an await that is refused so would look for another owner
        return c->awaits ? REASON_NONE : REASON_WORKER_EVICTED;
    default:
        return REASON_NONE;
    }
}

// Also retries ops that seemed certain to be refused.
void receive_try(struct shard *s, struct shard_call *c)
{
    CHECK(!c->next); // it is in no list
    CHECK(!c->silent || !c->receives);
    enum reason reason = call_certain_refusal(s, c);
    if (recall(s, c)) return;
    enum reason mode = mode_refusal(s, c);
    if (mode != REASON_NONE && c->tail_seen) {
        call_refuse(s, c, mode);
    } else if (mode != REASON_NONE) {
        sync_first(s, c);
    } else if (!c->receives && reason != REASON_NONE) {
        call_refuse(s, c, reason);
    } else if (c->recalls && c->tail_seen) {
        call_answer(s, c, call_under_way(s, c) ? ERR_UNKNOWN : ERR_OK, BYTES_EMPTY);
    } else if (!c->recalls && (!c->receives || claimable(s, c))) {
        claim_or_notify(s, c);
    } else if (!c->tail_seen) {
        sync_first(s, c);
    } else if (reason == REASON_DELETED) {
        call_refuse(s, c, reason);
    } else {
        wait_or_end(s, c);
    }
}

// The op makes an entry in any case, and only the fold knows which messages it frees.
void receive_join_op(struct shard *s, struct shard_call *c)
{
    CHECK(c->receives && !c->awaits && !c->recalls);
    if (MUTANT(JOINED_NAMELESS))
        memset((uint8_t *)c->payload.data + 1, 0, sizeof(struct request_id));
    if (MUTANT(JOINED_APART)) steps_release(s);
    if (MUTANT(JOINED_APART)) steps_hold(s);
    if (call_certain_refusal(s, c) != REASON_NONE)
        receive_try(s, c);
    else if (!recall(s, c))
        call_commit(s, c);
}

static void keep_grants(struct shard_call *c, struct result *result)
{
    CHECK(!c->grants && result->count <= c->max);
    c->grants = memory_zeroed(result->count, sizeof *c->grants);
    while (c->grants_len < result->count && grant_next(result, &c->grants[c->grants_len]))
        c->grants_len++;
}

void receive_result(struct shard *s, struct shard_call *c, enum err err, struct bytes body)
{
    CHECK(c->receives);
    if (c->state == SHARD_CALL_JOURNAL) {
        CHECK(s->offered >= c->max);
        s->offered -= c->max;
        c->state = SHARD_CALL_SYNCING; // it is in no list and no longer counts as offered
    }
    struct result result;
    if (is_empty_claim(body) && !c->tail_seen) {
        sync_first(s, c);
    } else if (is_empty_claim(body)) {
        wait_or_end(s, c); // another claim was faster
    } else if (err || result_open(body, OP_CLAIM, &result)) {
        call_answer(s, c, err ? err : ERR_CORRUPT, body);
    } else if (result.count > c->max) {
        call_refuse(s, c, REASON_REQUEST_REUSED); // by a request for more messages
    } else {
        c->result = bytes_copy(body);
        keep_grants(c, &result);
        signals_of_grants(s, c);
        fetch_start(s, c);
    }
}

void receive_join_send(struct shard *s, uint32_t messages)
{
    if (machine_paused(s->machine) || !shard_may_grant(s)) return;
    uint64_t taken = 0;
    for (struct shard_call *c = s->calls[SHARD_CALL_WAITING].head, *next; c && taken < messages;
         c = next) {
        next = c->next;
        if (c->awaits) continue; // it is notified when there is something
        CHECK(c->receives && c->state == SHARD_CALL_WAITING);
        taken += c->max;
        call_commit(s, call_take(s, c));
    }
}

// A call began to wait where it could get nothing, and its handle may hand out messages by now. If
// there are some, "nothing to claim" was true at no moment of the call.
static bool is_unserved(const struct shard *s, const struct shard_call *c)
{
    CHECK(c->receives && c->state == SHARD_CALL_WAITING);
    return c->owner_until != TIME_UNKNOWN && claimable(s, c);
}

static void end_waits(struct shard *s)
{
    if (shard_now(s) < s->waits_end && shard_may_grant(s)) return;
    s->waits_end = TIME_NEVER;
    for (struct shard_call *c = s->calls[SHARD_CALL_WAITING].head, *next; c; c = next) {
        next = c->next;
        CHECK(c->state == SHARD_CALL_WAITING);
        int64_t end = wait_end(s, c);
        if (shard_now(s) >= end && is_unserved(s, c)) {
            claim_or_notify(s, call_take(s, c));
        } else if (shard_now(s) >= end) {
            end_wait(s, call_take(s, c));
        } else if (end < s->waits_end) {
            s->waits_end = end;
        }
    }
}

// No message can ever come for them.
static void end_all_waits(struct shard *s, enum err halted)
{
    CHECK(halted || machine_deleted(s->machine));
    while (s->calls[SHARD_CALL_WAITING].head) {
        struct shard_call *c = call_take(s, s->calls[SHARD_CALL_WAITING].head);
        if (halted) {
            call_answer(s, c, halted, BYTES_EMPTY);
        } else {
            call_refuse(s, c, REASON_DELETED);
        }
    }
    CHECK(!s->calls[SHARD_CALL_WAITING].tail);
}

static bool has_ticket(const struct shard *s, const struct shard_call *c)
{
    CHECK(c->receives && c->state == SHARD_CALL_WAITING);
    struct grant first;
    return machine_tickets(s->machine, c->worker, &first, 1) > 0;
}

// A caller that only awaits then claims, and its claim is refused.
static bool is_evicted(const struct shard *s, const struct shard_call *c)
{
    struct worker_view w;
    CHECK(c->receives && c->state == SHARD_CALL_WAITING);
    return machine_worker_find(s->machine, c->worker, &w) && w.instance != 0 &&
           w.mode == WORKER_IS_EVICTED;
}

// A worker that an operator has paused, drained or evicted learns it at once.
static void end_waits_of_ordered(struct shard *s)
{
    uint64_t orders = machine_orders(s->machine);
    if (orders == s->orders_seen) return;
    s->orders_seen = orders;
    for (struct shard_call *c = s->calls[SHARD_CALL_WAITING].head, *next; c; c = next) {
        next = c->next;
        CHECK(c->receives && c->state == SHARD_CALL_WAITING);
        enum reason mode = mode_refusal(s, c);
        if (mode != REASON_NONE)
            call_refuse(s, call_take(s, c), mode);
        else if (c->awaits && is_evicted(s, c))
            claim_or_notify(s, call_take(s, c));
    }
}

// Wakes as many calls as there are messages, not all of them. A ticket wakes the worker that it is
// for.
void receive_wake(struct shard *s)
{
    end_waits(s);
    end_waits_of_ordered(s);
    if (!s->calls[SHARD_CALL_WAITING].head) return;
    enum err halted = s->view->halt_err;
    if (halted || machine_deleted(s->machine)) end_all_waits(s, halted);
    if (machine_paused(s->machine) || !shard_may_grant(s)) return;
    struct machine_stats stats;
    machine_stats(s->machine, shard_now(s), &stats);
    bool any = machine_claimable(s->machine, shard_now(s), BYTES_EMPTY);
    bool required = machine_requires(s->machine);
    uint64_t announced = 0; // messages announced to calls that only await
    for (struct shard_call *c = s->calls[SHARD_CALL_WAITING].head, *next; c; c = next) {
        next = c->next;
        uint64_t offered = s->offered + announced;
        bool mine = any || (required && machine_claimable(s->machine, shard_now(s), c->worker));
        bool room = mine && (offered == 0 || offered < stats.counts[STATE_READY]);
        if (!room && stats.tickets == 0 && !required) break;
        if (!room && !has_ticket(s, c)) continue;
        CHECK(c->receives && c->max > 0);
        if (c->awaits) announced += c->max;
        claim_or_notify(s, call_take(s, c));
    }
}

bool shard_has_waiting(const struct shard *s)
{
    CHECK(!s->calls[SHARD_CALL_WAITING].head == !s->calls[SHARD_CALL_WAITING].tail);
    CHECK(!s->calls[SHARD_CALL_FOLLOWING].head == !s->calls[SHARD_CALL_FOLLOWING].tail);
    return s->calls[SHARD_CALL_WAITING].head || s->calls[SHARD_CALL_FOLLOWING].head ||
           s->calls[SHARD_CALL_LISTENING].head;
}

size_t shard_waiting(const struct shard *s)
{
    size_t waiting = 0;
    for (const struct shard_call *c = s->calls[SHARD_CALL_WAITING].head; c; c = c->next)
        waiting++;
    CHECK((waiting == 0) == !s->calls[SHARD_CALL_WAITING].tail);
    return waiting;
}

bool shard_is_catching_up(const struct shard *s)
{
    CHECK(!s->catching_up || s->calls[SHARD_CALL_SYNCING].head);
    return s->catching_up;
}
