// SPDX-License-Identifier: Apache-2.0
// The answers of the journal, and what each means for its call. All answers of one step are handled
// while the journal is held. Ops that are proposed again because of them then form one entry, as
// before: a former owner's acks and the claim behind them stay together.
#include "base/check.h"
#include "base/mutant.h"
#include "shard/inside.h"

// A claim that was answered without an entry gets the answer of a claim that found nothing.
static struct bytes body_of(const struct shard_call *c, const struct journal_reply *r)
{
    static const uint8_t nothing[] = {REASON_NONE, 0, 0, 0, 0};
    bool idle = c->kind == OP_CLAIM && !r->err && r->body.len == 0;
    CHECK(!idle || c->receives);
    return idle ? bytes_of(nothing, sizeof nothing) : r->body;
}

static void on_reply(struct shard *s, struct journal_reply *r)
{
    CHECK(r->ticket != 0);
    struct shard_call *c = call_take(s, (struct shard_call *)(uintptr_t)r->ticket);
    CHECK(c->state == SHARD_CALL_SYNCING || c->state == SHARD_CALL_JOURNAL);
    CHECK(r->slot <= s->view->slot);
    if (c == s->fetch.sync) {
        fetch_tail_seen(s, r->err);
        call_answer(s, c, r->err, BYTES_EMPTY); // it is silent; this frees it
        return;
    }
    CHECK(!c->silent || !c->receives);
    if (r->slot != 0) c->tail_seen = true; // its entry was the tail
    if (fenced_again(s, c, r)) return;
    bool not_applied = r->err == ERR_UNAVAILABLE && r->body.len == 0 && c->kind != 0;
    // An op with the same request id may still be committed.
    if (not_applied && call_under_way(s, c)) r->err = ERR_UNKNOWN;
    if (c->silent && c->kind == 0) {
        if (c->state == SHARD_CALL_SYNCING) s->catch_up_err = r->err;
        s->catching_up = s->catching_up && c->state != SHARD_CALL_SYNCING;
        s->touching = s->touching && c->state != SHARD_CALL_JOURNAL;
    }
    if (c->silent && c->kind == OP_OUTBOX && r->err) outgoing_not_forgotten(s);
    if (c->silent && c->kind == OP_DISPATCH) dispatch_result(s, c);
    if (c->silent && c->kind == OP_SPENT) cost_ledger_result(s, c, r);
    if (c->kind == OP_RENEW && !r->err) signals_of_renewal(s, c);
    if (c->listens) {
        listen_synced(s, c, r->err);
    } else if (c->state == SHARD_CALL_SYNCING && c->kind != 0 && !r->err) {
        c->tail_seen = true;
        receive_try(s, c);
    } else if (c->receives) {
        receive_result(s, c, r->err, body_of(c, r));
    } else {
        call_answer(s, c, r->err, body_of(c, r));
    }
}

void steps_hold(struct shard *s)
{
    CHECK(s->holds < UINT32_MAX);
    if (s->holds++ == 0) journal_hold(s->journal);
}

void steps_release(struct shard *s)
{
    CHECK(s->holds > 0);
    if (--s->holds == 0) journal_release(s->journal, s->now);
}

void replies_handle(struct shard *s)
{
    while (s->view->has_replies) {
        if (!MUTANT(FENCED_APART)) steps_hold(s);
        for (struct journal_reply r; s->view->has_replies && journal_next_reply(s->journal, &r);)
            on_reply(s, &r);
        if (!MUTANT(FENCED_APART)) steps_release(s);
    }
}
