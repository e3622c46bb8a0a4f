// SPDX-License-Identifier: Apache-2.0
// The requests of this handle, on their way into the cost ledger of the shard. The sums join an
// entry that has another reason. So the ledger causes no request, and an idle shard stays idle.
// Costs after a handle's last entry are never entered. So the entry that carries the sums counts
// itself in advance, and a process that sends once and exits is in the ledger.
#include "base/check.h"
#include "shard/inside.h"

#define LEDGER_EVERY_MS 10000
// This many are entered earlier, because a busy process may be short-lived.
#define LEDGER_REQUESTS 64

void shard_add_cost(struct shard *s, const struct cost *cost)
{
    struct cost more = *cost;
    uint64_t ahead = more.writes < s->counted_ahead ? more.writes : s->counted_ahead;
    more.writes -= ahead;
    s->counted_ahead -= ahead;
    cost_add(&s->cost, &more);
}

// Called while the journal is held: the sums follow the ops that wait for the next entry.
static void cost_ledger_join(struct shard *s)
{
    uint64_t requests = cost_requests(&s->cost);
    bool due = s->now.lo >= s->ledger_at || requests >= LEDGER_REQUESTS;
    if (requests == 0 || !due || s->ledger_op_open) return;
    struct op_spent op = {.cost = s->cost};
    op.cost.writes++;
    s->counted_ahead++;
    LOCAL(buf, payload, JOURNAL_OP_MAX);
    spent_encode(&payload, &op);
    CHECK(!payload.bad);
    struct shard_call *c = call_new(s, 0, TIME_NEVER);
    c->silent = true;
    c->kind = OP_SPENT;
    c->payload = buf_take(&payload);
    s->cost = (struct cost){0};
    s->ledger_op_open = true;
    s->ledger_at = s->now.lo + LEDGER_EVERY_MS;
    call_push(s, c, SHARD_CALL_JOURNAL);
    journal_submit(s->journal, call_ticket(c), (struct op){c->kind, c->payload}, c->deadline,
                   s->now);
}

void cost_ledger_journal_submit(struct shard *s, struct shard_call *c, struct op op)
{
    CHECK(c->state == SHARD_CALL_JOURNAL);
    steps_hold(s); // one entry for both
    journal_submit(s->journal, call_ticket(c), op, c->deadline, s->now);
    cost_ledger_join(s);
    steps_release(s);
}

// Ops that waited for a recovery go into an entry now, with the cost of the recovery.
void cost_ledger_journal_respond(struct shard *s, const struct response *r)
{
    steps_hold(s);
    journal_respond(s->journal, r, s->now);
    if (s->view->is_current && s->view->has_waiting) cost_ledger_join(s);
    steps_release(s);
}

// An unknown result counts as entered. The figures are for operators: one request too few is better
// than one counted twice.
void cost_ledger_result(struct shard *s, const struct shard_call *c, const struct journal_reply *r)
{
    CHECK(c->kind == OP_SPENT && c->silent);
    CHECK(s->ledger_op_open);
    s->ledger_op_open = false;
    bool committed = r->slot != 0 && r->err == ERR_OK;
    if (committed || r->err == ERR_UNKNOWN) return;
    struct op_spent op;
    CHECK(!spent_decode(c->payload, &op));
    if (s->counted_ahead > 0) {
        CHECK(op.cost.writes > 0); // the entry's own
        s->counted_ahead--;
        op.cost.writes--;
    }
    cost_add(&s->cost, &op.cost);
    s->ledger_at = TIME_UNKNOWN;
}
