// SPDX-License-Identifier: Apache-2.0
// Tickets: a worker holds them until a receive wants a message, renews them, and hands out the
// messages whose renewal was applied.
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "mailbox/worker_inside.h"

#include <string.h>

#define TICKET_AGE_MAX_MS 60000 // no ticket lasts longer

static struct held_ticket *held_find(struct mailbox_worker *w, const struct lock_ref *ref)
{
    struct held_ticket *t = w->held;
    while (t && (t->ref.seq != ref->seq || !hash128_equal(t->ref.token, ref->token)))
        t = t->next;
    return t;
}

static void hand_out(struct mailbox_worker *w, struct held_ticket *t, int64_t deadline,
                     bool has_signals)
{
    CHECK(t->state != TICKET_GONE);
    struct mailbox_effect e = {.kind = MAILBOX_MESSAGE,
                               .ref = t->ref,
                               .deadline = deadline,
                               .has_signals = has_signals,
                               .body = t->message};
    t->state = TICKET_GONE;
    t->message = BYTES_EMPTY;
    side_effect_put(w, &e, true);
}

bool side_ticket_add(struct mailbox_worker *w, const struct mailbox_ticket *ticket)
{
    // Two owners can deliver the same ticket.
    if (held_find(w, &ticket->ref) && !MUTANT(MAILBOX_TICKET_REPEATED)) return false;
    if (ticket->deadline <= w->now.hi) return false;
    struct held_ticket *t = NEW(struct held_ticket);
    t->ref = ticket->ref;
    t->deadline = ticket->deadline;
    t->message = bytes_copy(ticket->message);
    *(w->held_tail ? &w->held_tail->next : &w->held) = t;
    w->held_tail = t;
    if (MUTANT(MAILBOX_UNTAKEN) && w->want > 0)
        hand_out(w, t, ticket->deadline + MAILBOX_ANSWER_MS, false);
    return true;
}

void side_tickets_expire(struct mailbox_worker *w)
{
    struct held_ticket *before = NULL;
    for (struct held_ticket *t = w->held, *next; t; t = next) {
        next = t->next;
        if (t->deadline > w->now.hi || t->state == TICKET_TAKING) {
            before = t;
            continue;
        }
        *(before ? &before->next : &w->held) = next;
        if (w->held_tail == t) w->held_tail = before;
        bytes_free(t->message);
        memory_free(t);
    }
    CHECK(!w->held == !w->held_tail);
}

static uint32_t put_refs(struct mailbox_worker *w, struct buf *refs, uint64_t id)
{
    uint32_t taking = 0, count = 0;
    for (const struct held_ticket *t = w->held; t; t = t->next)
        taking += t->state == TICKET_TAKING;
    for (struct held_ticket *t = w->held; t && taking + count < w->want; t = t->next) {
        if (t->state != TICKET_HELD || count == REFS_MAX) continue;
        t->state = TICKET_TAKING;
        t->taken_by = id;
        lock_ref_put(refs, &t->ref);
        count++;
    }
    return count;
}

void side_take_tickets(struct mailbox_worker *w)
{
    if (w->want == 0 || !w->held) return;
    LOCAL(buf, refs, SIZE_MAX);
    LOCAL(buf, payload, SIZE_MAX);
    struct op_outcome op = {.queue = w->config.queue, .shard = w->config.shard};
    op.count = put_refs(w, &refs, w->ids + 1);
    if (op.count == 0) return;
    op.refs = buf_bytes(&refs);
    op.wait_ms = w->lease_ms;
    op.arrived_at = w->now.lo;
    uint64_t half[2] = {rng_next(&w->rng), rng_next(&w->rng)};
    memcpy(op.request.bytes, half, sizeof op.request.bytes);
    outcome_encode(&payload, &op);
    side_open_add(w, 0, (struct op){.kind = OP_RENEW, .payload = buf_bytes(&payload)}, op.count);
}

// Whether signals wait for the lock with this index.
static bool has_signals(struct bytes signals, uint32_t wanted)
{
    struct reader rows = reader_of(signals);
    uint32_t index, waiting;
    while (rows.left > 0 && mailbox_signal_next(&rows, &index, &waiting))
        if (index == wanted && waiting > 0) return true;
    return false;
}

void side_taken(struct mailbox_worker *w, const struct mailbox_request *r, enum err err,
                struct bytes result)
{
    struct result rows;
    bool known = !result_open(result, OP_RENEW, &rows);
    uint32_t index = 0;
    for (struct held_ticket *t = w->held; t; t = t->next) {
        if (t->taken_by != r->id || t->state != TICKET_TAKING) continue;
        bool signals = has_signals(r->signals, index++);
        struct outcome_row row = {0};
        // The rows are in the order of the references. Without a result no ticket counts as taken:
        // the message comes again when its lock expires.
        bool taken = known && outcome_row_next(&rows, &row) && row.reason == REASON_NONE && !err;
        // An answer can come so late that the lock is over.
        if (taken && row.until > w->now.hi) {
            hand_out(w, t, row.until, signals);
        } else {
            bytes_free(t->message);
            t->message = BYTES_EMPTY;
            t->state = TICKET_GONE;
        }
    }
}

bool mailbox_takes(const struct mailbox_worker *w)
{
    for (const struct held_ticket *t = w->held; t; t = t->next)
        if (t->state == TICKET_TAKING) return true;
    return false;
}

// The worker claims directly now, and its claims get its tickets, too.
void side_tickets_forget(struct mailbox_worker *w)
{
    for (struct held_ticket *t = w->held; t; t = t->next)
        if (t->state == TICKET_HELD) t->state = TICKET_GONE;
}

void mailbox_claimed(struct mailbox_worker *w, const struct lock_ref *ref, struct interval now)
{
    struct held_ticket *t = held_find(w, ref);
    CHECK(ref->seq > 0);
    if (!t) {
        t = NEW(struct held_ticket);
        t->ref = *ref;
        t->deadline = now.hi + TICKET_AGE_MAX_MS;
        *(w->held_tail ? &w->held_tail->next : &w->held) = t;
        w->held_tail = t;
    }
    t->state = TICKET_GONE;
}
