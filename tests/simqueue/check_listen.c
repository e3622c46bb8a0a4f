// SPDX-License-Identifier: Apache-2.0
// What workers get of signals. A handle may be behind the history, so it is compared with what the
// handle has read: only the holder of the lock gets a signal, with its payload, and not after its
// end. A call that waits ends with a signal, or with the end of its lock.
#include "base/memory.h"
#include "check.h"

// Tokens: when each lock ended, in the history.

static struct reference_token *token_of(struct reference *g, struct hash128 token)
{
    for (uint32_t i = g->tokens_len; i > 0; i--)
        if (hash128_equal(g->tokens[i - 1].token, token)) return &g->tokens[i - 1];
    return NULL;
}

void token_granted(struct reference *g, struct hash128 token)
{
    if (g->tokens_len == g->tokens_cap) {
        g->tokens_cap = g->tokens_cap ? g->tokens_cap * 2 : 64;
        g->tokens = memory_resize(g->tokens, g->tokens_cap * sizeof *g->tokens);
    }
    g->tokens[g->tokens_len++] = (struct reference_token){.token = token};
}

void token_ended(struct reference *g, struct hash128 token)
{
    struct reference_token *t = token_of(g, token);
    if (t && t->ended_slot == 0) t->ended_slot = g->slot;
}

void token_interrupted(struct reference *g, struct hash128 token)
{
    struct reference_token *t = token_of(g, token);
    if (t) t->interrupted = true;
}

bool token_was_interrupted(struct reference *g, struct hash128 token)
{
    const struct reference_token *t = token_of(g, token);
    return t && t->interrupted;
}

// What a handle hands out to a worker. The handle may be behind the history.
void check_delivered(struct reference *g, uint64_t slot, const struct lock_ref *ref,
                     enum reason reason, const struct signal_view *v, size_t len)
{
    const struct reference_token *t = token_of(g, ref->token);
    bool over = !t || (t->ended_slot != 0 && t->ended_slot <= slot);
    if (over && (reason == REASON_NONE || len > 0) && g->deleted_slot == 0)
        signal_wrong(g, ref->seq, 0, "(any) comes to a worker that does not hold the message");
    for (size_t i = 0; i < len; i++) {
        const struct reference_signal *s = signal_find(g, &v[i].id, v[i].seq);
        if (!s || v[i].seq != ref->seq || s->number != v[i].number)
            signal_wrong(g, ref->seq, v[i].number, "comes, and was not sent");
        else if (s->state != SIGNAL_PENDING && s->ended_slot <= slot)
            signal_wrong(g, ref->seq, v[i].number, "comes after its end");
        if (i > 0 && v[i].number <= v[i - 1].number)
            signal_wrong(g, ref->seq, v[i].number, "comes out of order");
    }
}

static bool is_sent_text(const struct reference *g, struct op_place place, struct bytes text)
{
    struct entry e;
    const char *why = NULL;
    struct op_signal op;
    const struct reference_slot *slot = reference_at(g, place.slot);
    if (!slot || entry_decode(slot->bytes, &e, &why)) return false;
    bool same = place.op < e.ops_len && !signal_decode(e.ops[place.op].payload, &op) &&
                bytes_equal(text, op.kind == SIGNAL_INTERRUPT ? op.reason : op.payload);
    entry_done(&e);
    return same;
}

static void check_row(struct world *w, struct node *n, const struct sim_call *a,
                      const struct signal_delivery *d)
{
    const struct lock_ref *ref = &a->refs[d->index];
    struct reference *g = &w->life->lanes[w->life->handles[n->index].lane].reference;
    const struct row *row = reference_row(g, ref->seq);
    if (d->reason != REASON_NONE) {
        bool tail = journal_slot(n->journal) == g->len;
        bool current = row && row->state == STATE_LOCKED && hash128_equal(row->token, ref->token);
        if (tail && current && row->deadline > w->now)
            signal_wrong(g, ref->seq, 0, "(none): a poll takes its lock for gone");
        return;
    }
    // The state may have gone on while the payload was read.
    check_delivered(g, a->slot_then, ref, REASON_NONE, &d->view, 1);
    const struct reference_signal *s = signal_find(g, &d->view.id, d->view.seq);
    if (d->kept && !is_sent_text(g, d->view.carried, d->text))
        signal_wrong(g, ref->seq, d->view.number, "comes with another payload");
    if (!d->kept && s && s->state == SIGNAL_PENDING)
        signal_wrong(g, ref->seq, d->view.number, "comes without its payload");
}

// A poll that ends empty: what the handle has read has no signal for these locks, and they are in
// force.
static void check_silence(struct world *w, struct node *n, const struct lock_ref *ref)
{
    struct reference *g = &w->life->lanes[w->life->handles[n->index].lane].reference;
    uint64_t slot = journal_slot(n->journal);
    const struct reference_token *t = token_of(g, ref->token);
    if (g->deleted_slot != 0) return;
    if (t && t->ended_slot != 0 && t->ended_slot <= slot)
        signal_wrong(g, ref->seq, 0, "(none): a poll goes on for a lock that is gone");
    for (uint32_t i = 0; t && t->ended_slot == 0 && i < g->signals_len; i++) {
        const struct reference_signal *s = &g->signals[i];
        bool waits = s->seq == ref->seq && s->sent_slot <= slot && s->state == SIGNAL_PENDING;
        if (waits && hash128_equal(s->delivered, ref->token))
            signal_wrong(g, ref->seq, s->number, "waits, and a poll ends empty");
    }
}

void check_listen(struct world *w, struct node *n, uint32_t ask, const struct shard_reply *r)
{
    const struct sim_call *a = &w->life->calls[ask];
    for (size_t i = 0; i < r->signals_len; i++)
        check_row(w, n, a, &r->signals[i]);
    for (uint32_t i = 0; r->err == ERR_NOT_FOUND && i < a->refs_len; i++)
        check_silence(w, n, &a->refs[i]);
}
