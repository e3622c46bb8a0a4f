// SPDX-License-Identifier: Apache-2.0
// Claims that may wait. Nothing is proposed unless the state, projected to now, has something to
// give; an empty answer is given only at a tail seen after the call came. A waiting claim joins the
// entry of the send that feeds it, so handing a message over costs one commit.
#include "base/check.h"
#include "base/memory.h"
#include "shard/inside.h"

static bool claimable(const struct shard *s, const struct call *c)
{
    return machine_claimable(s->machine, shard_now(s), c->worker);
}

static void wait_or_end(struct shard *s, struct call *c)
{
    if (shard_now(s) >= c->wait_until) {
        call_answer(s, c, ERR_OK, BYTES_EMPTY);
    } else {
        if (c->wait_until < s->waits_end) s->waits_end = c->wait_until;
        call_push(s, c, CALL_WAITING);
    }
}

// Also the second try of ops that seemed certain to be refused.
void receive_try(struct shard *s, struct call *c)
{
    if (!c->receives) {
        enum reason reason = machine_refuses(s->machine, c->kind, c->max);
        CLEANUP(buf_done) struct buf body;
        buf_init(&body, 64);
        if (reason == REASON_NONE) {
            call_commit(s, c);
        } else {
            result_begin(&body, reason);
            call_answer(s, c, reason_err(reason), buf_bytes(&body));
        }
    } else if (claimable(s, c)) {
        call_commit(s, c);
    } else if (!c->looked) {
        call_push(s, c, CALL_LOOKING);
        journal_sync(s->journal, (uint64_t)(uintptr_t)c, c->deadline, s->now);
    } else {
        wait_or_end(s, c);
    }
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
    }
    struct result result;
    if (err || result_open(body, OP_CLAIM, &result)) {
        call_answer(s, c, err ? err : ERR_CORRUPT, body);
    } else if (result.count == 0) {
        wait_or_end(s, c); // somebody else was faster
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
    while (taken < messages && s->calls[CALL_WAITING].head) {
        struct call *c = call_take(s, s->calls[CALL_WAITING].head);
        taken += c->max;
        call_commit(s, c);
    }
}

static void end_waits(struct shard *s)
{
    if (shard_now(s) < s->waits_end) return;
    s->waits_end = TIME_NEVER;
    for (struct call *c = s->calls[CALL_WAITING].head, *next; c; c = next) {
        next = c->next;
        if (shard_now(s) >= c->wait_until) {
            call_answer(s, call_take(s, c), ERR_OK, BYTES_EMPTY);
        } else if (c->wait_until < s->waits_end) {
            s->waits_end = c->wait_until;
        }
    }
}

// Wakes as many as there is work for, not all of them.
void receive_poke(struct shard *s)
{
    end_waits(s);
    if (!machine_claimable(s->machine, shard_now(s), BYTES_EMPTY)) return;
    struct machine_stats stats;
    bool counted = false;
    for (struct call *c = s->calls[CALL_WAITING].head, *next; c; c = next) {
        next = c->next;
        if (!claimable(s, c)) continue;
        if (!counted) machine_stats(s->machine, shard_now(s), &stats);
        counted = true;
        if (s->offered > 0 && s->offered >= stats.counts[STATE_READY]) break;
        call_commit(s, call_take(s, c));
    }
}
