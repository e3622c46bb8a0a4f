// SPDX-License-Identifier: Apache-2.0
// Acks that a receive carries. The claim takes effect behind them: in their entry, also when both
// are proposed again because the handle was not the owner any more, unless the handle knew that the
// queue is paused or that it may hand out nothing; never before them while they may still come. And
// an ack, carried or not, is answered done exactly if the message is finished by it, at once and in
// every later fold.
#include "check.h"

#include <inttypes.h>
#include <string.h>

static void wrong(struct reference *g, const struct sim_call *r, const char *what)
{
    findings_add(&g->world->findings, "joined", "lane %u: slot %" PRIu64 ": the claim of ask %u %s",
                 g->lane, g->slot, sim_call_index(g->world, r), what);
}

static struct sim_call *receive_of(struct world *w, const struct op *op)
{
    struct request_id id;
    if (op->kind != OP_CLAIM || !op_request(op, &id) || !request_id_set(&id)) return NULL;
    struct sim_call *r = sim_call_by_request(w, &id);
    return r && r->partner ? r : NULL;
}

static void note(struct world *w, enum joined_figure figure, bool seen)
{
    w->life->joined[figure] += seen;
}

static void counts(struct reference *g, const struct walk_op *o, const struct seen *acks)
{
    struct world *w = g->world;
    struct result result;
    struct outcome_row row;
    bool given = o->events_len > 0, refused = false, done = false;
    if (result_open(acks->body, acks->kind, &result)) return;
    while (outcome_row_next(&result, &row)) {
        refused = refused || row.reason != REASON_NONE;
        done = done || row.status == OUTCOME_PROCESSED;
    }
    note(w, JOINED_ENTRIES, true);
    note(w, JOINED_GIVEN, given);
    note(w, JOINED_REFUSED, refused);
    note(w, JOINED_BOTH, refused && given);
    note(w, JOINED_STRICT, done && given && g->config.ordering_guarantee);
    note(w, JOINED_EXPIRED, g->expired > 0);
}

static bool has(const struct entry *e, const struct sim_call *a)
{
    struct request_id id;
    for (size_t i = 0; i < e->ops_len; i++)
        if (op_request(&e->ops[i], &id) && memcmp(&id, &a->request, sizeof id) == 0) return true;
    return false;
}

// The claim of a former owner is not proposed again, if only the owner hands out messages. The
// handle decides that when it learns of the new owner. The setting can change between that slot and
// the entry of the acks, and also in that entry.
static bool was_dropped(const struct reference *g, const struct sim_call *a, uint64_t acks_slot)
{
    bool dropped = false;
    for (uint64_t slot = a->fenced_slot; slot > 0 && slot < acks_slot && !dropped; slot++)
        dropped = reference_at(g, slot)->owner_only;
    return dropped;
}

void check_joined(struct reference *g, const struct walk_op *o)
{
    struct sim_call *r = receive_of(g->world, o->op);
    if (!r) return;
    const struct sim_call *a = &g->world->life->calls[r->partner - 1];
    const struct seen *acks = reference_seen(g, &a->request);
    bool first = !r->in_an_entry;
    r->in_an_entry = true;
    bool together = acks && acks->slot == g->slot;
    note(g->world, JOINED_REPEATS, !together && has(o->entry, a));
    if (together) counts(g, o, acks);
    // Sent twice they are in two entries, and a client that was answered is not waited for.
    if (!first || r->in_turn || r->tries > 1 || a->tries > 1) return;
    if (!acks && a->open) wrong(g, r, "comes before the acks it was sent with");
    if (acks && !together && !r->paused_then && !was_dropped(g, a, acks->slot))
        wrong(g, r, "is not in the entry of the acks it was sent with");
}

// The same message may be named twice, and is done once.
static bool is_done(const struct sim_call *a, struct bytes body, uint64_t seq)
{
    struct result result;
    struct outcome_row row;
    bool done = false;
    if (result_open(body, OP_ACK, &result)) return false;
    for (uint32_t i = 0; i < a->refs_len && outcome_row_next(&result, &row); i++)
        done = done || (a->refs[i].seq == seq && row.status == OUTCOME_PROCESSED);
    return done;
}

void check_acked(struct world *w, uint32_t ask, struct bytes body)
{
    const struct sim_call *a = &w->life->calls[ask];
    struct reference *g = &w->life->lanes[a->lane].reference;
    for (uint32_t i = 0; i < a->refs_len; i++) {
        uint64_t seq = a->refs[i].seq;
        const struct row *row = reference_row(g, seq);
        bool told = is_done(a, body, seq);
        bool done = row && row->state == STATE_PROCESSED &&
                    memcmp(&row->acked_by, &a->request, sizeof a->request) == 0;
        if (told != done)
            findings_add(&w->findings, "joined",
                         "ask %u was told that its ack of message %" PRIu64 " is %s, and it is %s",
                         ask, seq, told ? "done" : "refused", done ? "done" : "not");
    }
}
