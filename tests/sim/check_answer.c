// SPDX-License-Identifier: Apache-2.0
// I2: what was answered done is in the history with that result, what was answered not applied is
// not, unknown may be either; every ticket is answered once. That nothing answered "not applied"
// gets in afterwards, and that no request takes effect twice, is checked by the reference
// fold (history.c).
#include "check.h"

#include <inttypes.h>

static void wrong(struct world *w, const struct journal_reply *r, const char *what)
{
    findings_add(&w->findings, "I2", "ticket %" PRIu64 " answered %s at slot %" PRIu64 ", but %s",
                 r->ticket, err_name(r->err), r->slot, what);
}

static bool in_force(const struct ticket *t)
{
    return t->slot != 0 && !t->is_void;
}

// The fold's own result of an op of the machine. Slot 0: the slot is gone and the machine
// remembered the answer.
static void check_findings(struct world *w, const struct ticket *t, const struct journal_reply *r)
{
    struct reader body = reader_of(r->body);
    int64_t value = read_i64(&body);
    if (!in_force(t)) {
        wrong(w, r, "the history does not have it");
    } else if (r->slot != 0 && r->slot != t->slot) {
        wrong(w, r, "the history has it in another slot");
    } else if (t->fold_err != r->err) {
        wrong(w, r, "the history's fold said something else");
    } else if (!reader_end(&body) || value != t->fold_value) {
        wrong(w, r, "the history's fold gave another result");
    }
}

static void check_op(struct world *w, const struct ticket *t, const struct journal_reply *r)
{
    switch (r->err) {
    case ERR_OK:
    case ERR_CONFLICT:
    case ERR_NOT_FOUND:
    case ERR_INVALID:
        check_findings(w, t, r);
        break;
    case ERR_UNKNOWN:
        break;
    default:
        if (in_force(t)) wrong(w, r, "the history has it");
        break;
    }
}

// An own has its result from the fold whenever it has a slot.
static void check_own(struct world *w, const struct ticket *t, const struct journal_reply *r)
{
    if (r->slot == 0) {
        if (r->err == ERR_OK) wrong(w, r, "it says nowhere");
        if (r->err != ERR_UNKNOWN && in_force(t)) wrong(w, r, "the history has it");
    } else if (t->slot != r->slot) {
        wrong(w, r, "the history has it in another slot");
    } else if (t->is_void ? r->err != ERR_FENCED : r->err != t->fold_err) {
        findings_add(&w->findings, "I7", "own %" PRIu64 " answered %s, the history's fold says %s",
                     r->ticket, err_name(r->err), t->is_void ? "void" : err_name(t->fold_err));
    }
}

static void check_sync(struct world *w, const struct node *n, const struct ticket *t,
                       const struct journal_reply *r)
{
    if (r->err == ERR_OK && journal_slot(n->journal) < t->tail_then)
        wrong(w, r, "the handle has not folded what was committed before");
}

void check_answer(struct world *w, struct node *n, const struct journal_reply *r)
{
    const struct ticket *t = tickets_at(&w->tickets, r->ticket);
    if (!t || t->node != n->index || t->life != n->life) {
        wrong(w, r, "no call has this ticket");
        return;
    }
    if (t->answered) wrong(w, r, "it was answered before");
    if (w->lying) return;
    switch (t->kind) {
    case TICKET_OP:
        check_op(w, t, r);
        break;
    case TICKET_OWN:
        check_own(w, t, r);
        break;
    case TICKET_SYNC:
        check_sync(w, n, t, r);
        break;
    case TICKET_COORD:
    case TICKET_TOUCH: // their entries do not say whose they are
        if (r->err == ERR_OK && !history_at(&w->history, r->slot)) wrong(w, r, "it is nowhere");
        break;
    }
}

void check_patience(struct world *w, struct node *n)
{
    int64_t now = node_now(n).lo;
    for (size_t i = w->tickets_open; i < w->tickets.len; i++) {
        const struct ticket *t = &w->tickets.rows[i];
        bool done = t->answered || t->orphan;
        if (done && i == w->tickets_open) w->tickets_open++;
        if (done || t->node != n->index || t->life != n->life || t->deadline >= now) continue;
        findings_add(&w->findings, "I2", "ticket %zu waits past its deadline", i + 1);
    }
}
