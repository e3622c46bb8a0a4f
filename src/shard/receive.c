// SPDX-License-Identifier: Apache-2.0
// Claims that may wait. Nothing is proposed unless the state, projected to now, has something to
// give; an empty answer is given only at a tail seen after the call came. A waiting claim joins the
// entry of the send that feeds it, so handing a message over costs one commit.
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "shard/inside.h"

#include <string.h>

static bool claimable(const struct shard *s, const struct call *c)
{
    return machine_claimable(s->machine, shard_now(s), c->worker);
}

void receive_set_claim(struct call *c, const struct op_claim *claim)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, JOURNAL_OP_MAX);
    claim_encode(&payload, claim);
    c->payload = buf_take(&payload);
    struct op_claim own;
    CHECK(!claim_decode(c->payload, &own));
    c->worker = own.worker;
    c->max = own.max;
}

// There is something for it.
static void take_up(struct shard *s, struct call *c)
{
    if (c->awaits) {
        call_answer(s, c, ERR_OK, BYTES_EMPTY);
    } else {
        call_commit(s, c);
    }
}

static struct op op_of(const struct call *c)
{
    return (struct op){.kind = c->kind, .payload = c->payload};
}

static bool recall(struct shard *s, struct call *c);

// Nothing came in time; unless somebody else asked with the same id meanwhile.
static void end_wait(struct shard *s, struct call *c)
{
    if (!c->awaits && recall(s, c)) return;
    call_answer(s, c, c->awaits ? ERR_NOT_FOUND : ERR_OK, BYTES_EMPTY);
}

// By its request id: seeds and times of arrival may differ.
static bool is_same(void *other, const struct op *op)
{
    struct request_id one, two;
    return op->kind == ((struct op *)other)->kind && op_request(op, &one) &&
           op_request(other, &two) && memcmp(&one, &two, sizeof one) == 0;
}

// Whoever asks again has given up on the first question: with both waiting, the messages that come
// would have to be the same, and the first one's would be of use to nobody.
static void relieve(struct shard *s, const struct call *successor)
{
    struct request_id id;
    struct op wanted = op_of(successor);
    if (!op_request(&wanted, &id) || !request_id_set(&id)) return;
    for (struct call *c = s->calls[CALL_WAITING].head, *next; c; c = next) {
        next = c->next;
        struct op op = op_of(c);
        if (is_same(&wanted, &op)) call_answer(s, call_take(s, c), ERR_OK, BYTES_EMPTY);
    }
}

static void wait_or_end(struct shard *s, struct call *c)
{
    if (shard_now(s) >= c->wait_until) {
        end_wait(s, c);
    } else {
        relieve(s, c);
        if (c->wait_until < s->waits_end) s->waits_end = c->wait_until;
        call_push(s, c, CALL_WAITING);
    }
}

// Nothing was there, or the queue was paused in the meantime: a receive waits on.
static bool came_empty(struct bytes body)
{
    struct result result;
    if (result_open(body, OP_CLAIM, &result)) return false;
    return result.reason == REASON_PAUSED || (result.reason == REASON_NONE && result.count == 0);
}

// What its request id brought earlier, if it did.
static bool recall(struct shard *s, struct call *c)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, SIZE_MAX);
    struct op op = op_of(c);
    struct op_result r;
    if (!machine_recall(s->machine, &op, &r, &text)) return false;
    struct bytes body = bytes_of(text.data + r.body_at, r.body_len);
    if (c->receives) {
        receive_result(s, c, r.err, body);
    } else {
        call_answer(s, c, r.err, body);
    }
    return true;
}

static void look_first(struct shard *s, struct call *c)
{
    call_push(s, c, CALL_LOOKING);
    journal_sync(s->journal, (uint64_t)(uintptr_t)c, c->deadline, s->now);
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

enum reason call_certain_refusal(const struct shard *s, const struct call *c)
{
    bool sends = c->kind == OP_SEND && c->max > 0;
    enum reason reason = machine_refuses(s->machine, c->kind, sends ? 1 : 0);
    if (reason != REASON_FULL) return reason;
    // A duplicate needs no room, and what falls due may make some.
    bool may_fit = machine_wake_at(s->machine) <= shard_now(s) || has_dedup(c->payload);
    return may_fit ? REASON_NONE : reason;
}

bool call_under_way(const struct shard *s, const struct call *c)
{
    struct request_id id;
    struct op op = op_of(c);
    if (!op_request(&op, &id) || !request_id_set(&id)) return false;
    return journal_holds(s->journal, is_same, &op);
}

// Also the second try of ops that seemed certain to be refused.
void receive_try(struct shard *s, struct call *c)
{
    enum reason reason = call_certain_refusal(s, c);
    if (recall(s, c)) return;
    if (!c->receives && reason != REASON_NONE) {
        call_refuse(s, c, reason);
    } else if (c->recalls && c->looked) {
        call_answer(s, c, call_under_way(s, c) ? ERR_UNKNOWN : ERR_OK, BYTES_EMPTY);
    } else if (!c->recalls && (!c->receives || claimable(s, c))) {
        take_up(s, c);
    } else if (!c->looked) {
        look_first(s, c);
    } else if (reason == REASON_DELETED) {
        call_refuse(s, c, reason);
    } else {
        wait_or_end(s, c);
    }
}

// An entry is made in any case, and what its first op sets free cannot be known before.
void receive_join_op(struct shard *s, struct call *c)
{
    if (MUTANT(JOINED_NAMELESS))
        memset((uint8_t *)c->payload.data + 1, 0, sizeof(struct request_id));
    if (MUTANT(JOINED_APART)) journal_release(s->journal, s->now);
    if (MUTANT(JOINED_APART)) journal_hold(s->journal);
    if (call_certain_refusal(s, c) != REASON_NONE)
        receive_try(s, c);
    else if (!recall(s, c))
        call_commit(s, c);
}

static void keep_grants(struct call *c, struct result *result)
{
    c->grants = memory_zeroed(result->count, sizeof *c->grants);
    while (c->grants_len < result->count && grant_next(result, &c->grants[c->grants_len]))
        c->grants_len++;
}

void receive_result(struct shard *s, struct call *c, enum err err, struct bytes body)
{
    if (c->state == CALL_JOURNAL) {
        CHECK(s->offered >= c->max);
        s->offered -= c->max;
        c->state = CALL_LOOKING; // it is in no list, and no offer any more
    }
    struct result result;
    if (came_empty(body) && !c->looked) {
        look_first(s, c);
    } else if (came_empty(body)) {
        wait_or_end(s, c); // somebody else was faster
    } else if (err || result_open(body, OP_CLAIM, &result)) {
        call_answer(s, c, err ? err : ERR_CORRUPT, body);
    } else if (result.count > c->max) {
        call_refuse(s, c, REASON_REQUEST_REUSED); // by one who asked for more
    } else {
        c->result = bytes_copy(body);
        keep_grants(c, &result);
        fetch_start(s, c);
    }
}

void receive_join_send(struct shard *s, uint32_t messages)
{
    if (machine_paused(s->machine)) return;
    uint64_t taken = 0;
    for (struct call *c = s->calls[CALL_WAITING].head, *next; c && taken < messages; c = next) {
        next = c->next;
        if (c->awaits) continue; // it is told when there is something
        taken += c->max;
        call_commit(s, call_take(s, c));
    }
}

static void end_waits(struct shard *s)
{
    if (shard_now(s) < s->waits_end) return;
    s->waits_end = TIME_NEVER;
    for (struct call *c = s->calls[CALL_WAITING].head, *next; c; c = next) {
        next = c->next;
        if (shard_now(s) >= c->wait_until) {
            end_wait(s, call_take(s, c));
        } else if (c->wait_until < s->waits_end) {
            s->waits_end = c->wait_until;
        }
    }
}

// Nothing will ever come for them.
static void end_all_waits(struct shard *s, bool halted)
{
    while (s->calls[CALL_WAITING].head) {
        struct call *c = call_take(s, s->calls[CALL_WAITING].head);
        if (halted) {
            call_answer(s, c, ERR_CORRUPT, BYTES_EMPTY);
        } else {
            call_refuse(s, c, REASON_DELETED);
        }
    }
}

static bool has_ticket(const struct shard *s, const struct call *c)
{
    struct grant first;
    return machine_tickets(s->machine, c->worker, &first, 1) > 0;
}

// Wakes as many as there is work for, not all of them; tickets wake the one they are for.
void receive_poke(struct shard *s)
{
    end_waits(s);
    if (!s->calls[CALL_WAITING].head) return;
    bool halted = journal_halted(s->journal, NULL);
    if (halted || machine_deleted(s->machine)) end_all_waits(s, halted);
    if (machine_paused(s->machine)) return;
    struct machine_stats stats;
    machine_stats(s->machine, shard_now(s), &stats);
    bool any = machine_claimable(s->machine, shard_now(s), BYTES_EMPTY);
    uint64_t told = 0; // to those who only await: they will come for it
    for (struct call *c = s->calls[CALL_WAITING].head, *next; c; c = next) {
        next = c->next;
        uint64_t offered = s->offered + told;
        bool room = any && (offered == 0 || offered < stats.counts[STATE_READY]);
        if (!room && stats.tickets == 0) break;
        if (!room && !has_ticket(s, c)) continue;
        if (c->awaits) told += c->max;
        take_up(s, call_take(s, c));
    }
}

bool shard_cancel(struct shard *s, uint64_t ticket)
{
    struct call *waits = NULL;
    for (int state = CALL_LOOKING; state < CALL_STATES; state++)
        for (struct call *c = s->calls[state].head; c; c = c->next) {
            if (!c->receives || c->ticket != ticket) continue;
            c->wait_until =
                TIME_UNKNOWN; // a claim under way that comes back empty does not wait again
            if (state == CALL_WAITING) waits = c;
        }
    if (waits) call_free(call_take(s, waits));
    return waits;
}

bool shard_has_waiting(const struct shard *s)
{
    return s->calls[CALL_WAITING].head;
}

size_t shard_waiting(const struct shard *s)
{
    size_t waiting = 0;
    for (const struct call *c = s->calls[CALL_WAITING].head; c; c = c->next)
        waiting++;
    return waiting;
}

bool shard_is_looking(const struct shard *s)
{
    return s->looking;
}
