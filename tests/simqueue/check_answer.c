// SPDX-License-Identifier: Apache-2.0
// I2: what was answered done is in the history with that result; what was answered refused is not,
// and does not get in later; unknown may be either. A request id is answered the same every time.
#include "base/check.h"
#include "base/hash.h"
#include "check.h"

#include <inttypes.h>

static struct sim_call *asked(const struct world *w, uint32_t ask)
{
    return &w->life->calls[ask];
}

static const struct seen *seen_of(const struct world *w, const struct sim_call *a)
{
    return reference_seen(&w->life->lanes[a->lane].reference, &a->request);
}

static void wrong(struct world *w, uint32_t ask, const struct shard_reply *r, const char *what)
{
    findings_add(&w->findings, "I2", "ask %u (kind %u) answered %s, but %s", ask,
                 asked(w, ask)->kind, err_name(r->err), what);
}

static bool is_claim(uint16_t kind)
{
    return op_is_claim(kind);
}

// A claim that got nothing leaves nothing behind: its request id is as good as new.
static bool got_nothing(uint16_t kind, struct bytes body)
{
    struct result result;
    return is_claim(kind) && !result_open(body, kind, &result) && result.count == 0;
}

// A send that finds no room, and any op after a deletion, may be refused without an entry. An entry
// of an earlier attempt may already be in the history, but not where the handle has read it.
static bool refused_at_once(const struct world *w, const struct node *n, const struct sim_call *a,
                            const struct shard_reply *r)
{
    if (r->body.len != 1) return false;
    bool full = a->kind == OP_SEND && r->body.data[0] == REASON_FULL;
    if (!full && r->body.data[0] != REASON_DELETED) return false;
    const struct seen *seen = seen_of(w, a);
    return !seen || seen->slot > journal_slot(n->journal);
}

static bool refuses(const struct world *w, const struct node *n, const struct sim_call *a,
                    const struct shard_reply *r)
{
    bool nothing = r->body.len == 0 && r->err != ERR_UNKNOWN;
    if (a->what == SIM_CALL_RECEIVE && r->body.len == 0) return nothing && r->deliveries_len == 0;
    if (r->body.len > 0 && got_nothing(a->kind, r->body)) return true;
    return refused_at_once(w, n, a, r) || (nothing && r->err != ERR_OK);
}

static void check_done(struct world *w, uint32_t ask, const struct shard_reply *r,
                       const struct seen *seen)
{
    struct sim_call *a = asked(w, ask);
    if (!seen || seen->kind != a->kind) {
        wrong(w, ask, r, "the history does not have it");
    } else if (!bytes_equal(seen->body, r->body)) {
        wrong(w, ask, r, "the history's fold gave another result");
    } else if (reason_err((enum reason)r->body.data[0]) != r->err) {
        wrong(w, ask, r, "its result says something else");
    }
    if (a->kind == OP_ACK) check_acked(w, ask, r->body);
    if (a->is_told && !bytes_equal(a->told, r->body))
        wrong(w, ask, r, "it was told otherwise before");
    if (a->is_told) return;
    a->is_told = true;
    a->told = bytes_copy(r->body);
}

static void check_op(struct world *w, struct node *n, uint32_t ask, const struct shard_reply *r)
{
    struct sim_call *a = asked(w, ask);
    const struct reference *g = &w->life->lanes[a->lane].reference;
    if (refused_at_once(w, n, a, r) && r->body.data[0] == REASON_DELETED) {
        if (!deletion_was_seen(g, n)) wrong(w, ask, r, "the queue is there");
    } else if (refused_at_once(w, n, a, r)) {
        const struct reference_slot *s = reference_at(g, journal_slot(n->journal));
        if (!s || !s->full || journal_slot(n->journal) < a->tail_then)
            wrong(w, ask, r, "there is room");
    } else if (r->body.len > 0) {
        if (!got_nothing(a->kind, r->body)) check_done(w, ask, r, seen_of(w, a));
    } else if (r->err == ERR_OK) {
        wrong(w, ask, r, "it says nothing");
    }
}

// There was a moment since it was asked at which there was nothing, and the handle has seen it.
static bool was_empty(const struct reference *g, uint64_t from, uint64_t to, uint32_t worker)
{
    bool empty = from == 0;
    uint64_t bit = worker < 64 ? UINT64_C(1) << worker : 0;
    for (uint64_t slot = from > 0 ? from : 1; slot <= to && !empty; slot++)
        empty = reference_at(g, slot)->empty || (reference_at(g, slot)->empty_for & bit);
    return empty;
}

// The handle refused a claim without an entry, because only the owner hands out messages.
static bool is_ownerless(const struct shard_reply *r)
{
    return r->body.len == 1 && r->body.data[0] == REASON_NOT_OWNER;
}

// There was a moment since it was asked at which that was so, and the handle has seen it.
static void check_ownerless(struct world *w, struct node *n, uint32_t ask,
                            const struct shard_reply *r)
{
    const struct sim_call *a = asked(w, ask);
    const struct lane *l = &w->life->lanes[a->lane];
    uint64_t to = journal_slot(n->journal);
    bool only = l->birth.consume == CONSUME_OWNER && a->tail_then == 0;
    for (uint64_t slot = a->tail_then > 0 ? a->tail_then : 1; slot <= to && !only; slot++) {
        // One entry can switch the setting on, refuse a claim, and switch the setting off again.
        const struct reference_slot *s = reference_at(&l->reference, slot);
        only = s->owner_only || (s->ownerless && slot > a->tail_then);
    }
    if (!only) wrong(w, ask, r, "any process may claim");
}

// The worker is paused, drains, or was evicted.
static bool is_of_mode(const struct shard_reply *r)
{
    enum reason reason = r->body.len == 1 ? (enum reason)r->body.data[0] : REASON_NONE;
    return reason == REASON_WORKER_PAUSED || reason == REASON_WORKER_DRAINING ||
           reason == REASON_WORKER_EVICTED;
}

static void check_receive(struct world *w, struct node *n, uint32_t ask,
                          const struct shard_reply *r)
{
    struct sim_call *a = asked(w, ask);
    const struct reference *g = &w->life->lanes[a->lane].reference;
    if (is_ownerless(r)) {
        check_ownerless(w, n, ask, r);
    } else if (refused_at_once(w, n, a, r)) {
        if (!deletion_was_seen(g, n)) wrong(w, ask, r, "the queue is there");
    } else if (is_of_mode(r)) {
        if (!w->life->fleet) wrong(w, ask, r, "no operator acts on workers");
    } else if (r->body.len > 0) {
        check_done(w, ask, r, seen_of(w, a));
    } else if (r->err == ERR_OK &&
               !was_empty(g, a->tail_then, journal_slot(n->journal), a->worker)) {
        wrong(w, ask, r, "there was something all the time");
    }
}

static void check_own(struct world *w, uint32_t ask, const struct shard_reply *r)
{
    struct sim_call *a = asked(w, ask);
    const struct seen *seen = seen_of(w, a);
    bool owns = seen && seen->body.data[0] == 'y';
    if (r->err != ERR_UNKNOWN && owns != (r->err == ERR_OK))
        findings_add(&w->findings, "I7", "own %u answered %s, the history's fold says %s", ask,
                     err_name(r->err), owns ? "owner" : "not owner");
}

// It was dropped, or it is not the history's, or it may be dropped at any moment.
static bool is_gone(const struct lane *l, uint64_t slot)
{
    const struct bucket_slot *there = bucket_slot(&l->bucket, slot);
    const struct reference_slot *s = reference_at(&l->reference, slot);
    if (!there || !s || s->made_at != there->made_at) return true;
    return slot <= l->reference.floor;
}

static void check_fetch(struct world *w, uint32_t ask, const struct shard_reply *r)
{
    struct sim_call *a = asked(w, ask);
    struct lane *l = &w->life->lanes[a->lane];
    if (r->err == ERR_OK && r->deliveries_len == 1) {
        check_body(w, l, a->place_seq, &r->deliveries[0]);
    } else if (r->err == ERR_NOT_FOUND) {
        const struct row *row = reference_row(&l->reference, a->place_seq);
        bool gone = false;
        for (uint64_t s = a->place.slot; s <= row->sent_slot; s++)
            gone = gone || is_gone(l, s);
        bool lives = row->state == STATE_READY || row->state == STATE_LOCKED ||
                     row->state == STATE_DEAD || row->state == STATE_OUTBOUND;
        if (!gone || lives) wrong(w, ask, r, "the slot is there");
    } else if (r->err == ERR_OK) {
        wrong(w, ask, r, "it brings nothing");
    }
}

static void check_await(struct world *w, struct node *n, uint32_t ask, const struct shard_reply *r)
{
    const struct sim_call *a = asked(w, ask);
    const struct reference *g = &w->life->lanes[a->lane].reference;
    if (r->err == ERR_NOT_FOUND && r->body.len == 0 &&
        !was_empty(g, a->tail_then, journal_slot(n->journal), a->worker))
        wrong(w, ask, r, "there was something all the time");
    if (is_ownerless(r)) {
        check_ownerless(w, n, ask, r);
    } else if (r->body.len > 0 && !deletion_was_seen(g, n)) {
        wrong(w, ask, r, "the queue is there");
    }
}

// What the receive brought, or that it had brought nothing when this was asked.
static void check_recall(struct world *w, uint32_t ask, const struct shard_reply *r)
{
    const struct sim_call *a = asked(w, ask);
    struct lane *l = &w->life->lanes[a->lane];
    const struct seen *seen = reference_seen(&l->reference, &w->life->calls[a->of].request);
    if (r->err == ERR_OK && r->body.len > 0 && (!seen || !bytes_equal(seen->body, r->body)))
        wrong(w, ask, r, "the history's fold gave another result");
    if (r->err == ERR_OK && r->body.len == 0 && seen && seen->slot <= a->tail_then)
        wrong(w, ask, r, "the receive brought something");
    for (size_t i = 0; i < r->deliveries_len; i++)
        check_body(w, l, r->deliveries[i].grant.seq, &r->deliveries[i]);
}

static void check_carried(struct world *w, uint32_t ask, const struct shard_reply *r)
{
    struct sim_call *a = asked(w, ask);
    if (r->err != ERR_OK) return;
    uint32_t from = w->life->handles[a->from_node].lane;
    const struct reference *g = &w->life->lanes[from].reference;
    for (uint64_t i = 0; i < g->rows_len; i++)
        if (g->rows[i].number == a->number && g->rows[i].arrived) return;
    wrong(w, ask, r, "the letter has not arrived");
}

static void note_refusal(struct world *w, struct node *n, uint32_t ask, const struct shard_reply *r)
{
    struct trial *t = sim_call_trial(asked(w, ask), w->life->handles[n->index].pen);
    CHECK(t);
    t->refused++;
    if (t->in_force + t->refused > t->count) wrong(w, ask, r, "the history has it");
}

void check_answer(struct world *w, struct node *n, uint32_t ask, const struct shard_reply *r)
{
    struct sim_call *a = asked(w, ask);
    if (!a->open || a->node != n->index || a->life != n->life) {
        wrong(w, ask, r, "no call waits for it");
        return;
    }
    if (r->err == ERR_CORRUPT) wrong(w, ask, r, "the store is honest");
    bool named = a->what == SIM_CALL_OP || a->what == SIM_CALL_RECEIVE;
    if (named && refuses(w, n, a, r)) note_refusal(w, n, ask, r);
    switch (a->what) {
    case SIM_CALL_OP:
        check_op(w, n, ask, r);
        break;
    case SIM_CALL_RECEIVE:
        check_receive(w, n, ask, r);
        break;
    case SIM_CALL_SYNC:
        if (r->err == ERR_OK && journal_slot(n->journal) < a->tail_then)
            wrong(w, ask, r, "the handle has not folded what was committed before");
        break;
    case SIM_CALL_OWN:
        check_own(w, ask, r);
        break;
    case SIM_CALL_FETCH:
        check_fetch(w, ask, r);
        break;
    case SIM_CALL_ARRIVE:
        check_carried(w, ask, r);
        break;
    case SIM_CALL_AWAIT:
        check_await(w, n, ask, r);
        break;
    case SIM_CALL_LISTEN:
        check_listen(w, n, ask, r);
        break;
    case SIM_CALL_RECALL:
        check_recall(w, ask, r);
        break;
    }
}

void check_patience(struct world *w, struct node *n)
{
    struct life *life = w->life;
    int64_t now = node_now(n).lo;
    while (life->sim_calls_open < life->sim_calls_len && life->calls[life->sim_calls_open].closed)
        life->sim_calls_open++;
    for (uint32_t i = life->sim_calls_open; i < life->sim_calls_len; i++) {
        const struct sim_call *a = &life->calls[i];
        bool here = a->open && a->node == n->index && a->life == n->life;
        if (here && a->deadline < now)
            findings_add(&w->findings, "I2", "ask %u waits past its deadline", i);
    }
}

void check_conclusion(struct world *w, uint32_t ask, const struct shard_reply *r)
{
    struct sim_call *a = asked(w, ask);
    if (a->what != SIM_CALL_OP || r->body.len != 1 || r->body.data[0] == REASON_NONE) return;
    const struct seen *seen = seen_of(w, a);
    a->given_up = true;
    if (seen && !bytes_equal(seen->body, r->body))
        wrong(w, ask, r, "an earlier attempt took effect, and the caller concludes otherwise");
}

static uint32_t pen_of(const struct world *w, struct hash128 writer)
{
    for (uint32_t i = 0; i < w->life->pens_len; i++)
        if (hash128_equal(w->life->pens[i].writer, writer)) return i;
    return NO_INDEX;
}

void check_committed(struct reference *g, const struct entry *e, const struct walk_op *o)
{
    struct world *w = g->world;
    struct request_id id;
    if (!op_request(o->op, &id) || !request_id_set(&id)) return; // the shard's own
    struct sim_call *a = sim_call_by_request(w, &id);
    struct trial *t = a ? sim_call_trial(a, pen_of(w, e->writer)) : NULL;
    if (!t) {
        findings_add(&w->findings, "I2",
                     "lane %u: slot %" PRIu64 " holds an op no client submitted", g->lane, g->slot);
        return;
    }
    bool rejected = o->events_len > 0 && o->events[0].kind == EVENT_CLAIM_REJECTED;
    if (is_claim(o->op->kind) && (o->events_len == 0 || rejected)) return;
    if (a->given_up && o->events_len > 0)
        findings_add(&w->findings, "I2",
                     "ask %u took effect in slot %" PRIu64 " after its caller gave it up",
                     sim_call_index(w, a), g->slot);
    t->in_force++;
    if (t->in_force + t->refused > t->count)
        findings_add(&w->findings, "I2",
                     "ask %u was answered not applied, then committed in slot %" PRIu64,
                     sim_call_index(w, a), g->slot);
}
