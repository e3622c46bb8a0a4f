// SPDX-License-Identifier: Apache-2.0
// What each kind of op did, written into the books. The checkers see the books as they were before.
#include "base/check.h"
#include "base/hash.h"
#include "check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void odd(struct reference *g, const struct walk_op *o, const char *what)
{
    findings_add(&g->world->findings, "I9", "lane %u: slot %" PRIu64 " op %u (kind %u): %s",
                 g->lane, g->slot, o->index, o->op->kind, what);
}

// The next event of the op that is about this message; events come in the order of the effects.
const struct event *walk_next_event(struct reference *g, const struct walk_op *o, size_t *at,
                                    enum event_kind kind, uint64_t seq)
{
    while (*at < o->events_len && (o->events[*at].kind == EVENT_ORDERING_BEST_EFFORT ||
                                   o->events[*at].kind == EVENT_WORKFLOW_SUBMITTED))
        (void)walk_workflow(g, &o->events[(*at)++]);
    if (*at == o->events_len || o->events[*at].kind != kind || o->events[*at].seq != seq) {
        odd(g, o, "an effect without its event");
        return NULL;
    }
    return &o->events[(*at)++];
}

static uint32_t group_number(struct bytes group)
{
    return group.len == 2 ? (uint32_t)(group.data[1] - '0') : 0; // "g1" ...
}

static void on_send(struct reference *g, const struct walk_op *o)
{
    struct op_send send;
    struct result result;
    if (send_open(o->op->payload, &send) || result_open(o->body, OP_SEND, &result)) return;
    size_t at = 0;
    for (uint32_t i = 0; i < send.count && i < result.count; i++) {
        struct message m;
        struct send_row answer;
        send_next(&send, &m);
        if (!send_row_next(&result, &answer)) {
            odd(g, o, "a message without an answer");
            return;
        }
        check_dedup(g, &m, &answer);
        if (answer.reason != REASON_NONE) continue;
        const struct event *e = walk_next_event(g, o, &at, EVENT_MESSAGE_ENQUEUED, answer.seq);
        if (!e) return;
        struct row *row = reference_push(g, answer.seq);
        check_upload(g->world, &g->world->life->lanes[g->lane], &m, "sent");
        row->body = body_hash(&m);
        row->upload = body_key(&m);
        row->group = group_number(m.group);
        row->priority = m.priority;
        row->needs = fleet_labels(m.requires);
        row->ready_at = m.when == WHEN_DELAY ? g->from + m.when_ms : m.when_ms;
        row->place = e->place;
        workflow_sent(g, row, &m);
    }
}

static uint32_t lane_by_id(const struct reference *g, const struct queue_id *id, uint32_t shard)
{
    const struct life *life = g->world->life;
    for (uint32_t i = 0; i < life->lanes_len; i++) {
        const struct lane *l = &life->lanes[i];
        if (l->shard == shard && memcmp(l->id.bytes, id->bytes, sizeof id->bytes) == 0) return i;
    }
    return NO_INDEX;
}

static void on_arrive(struct reference *g, const struct walk_op *o)
{
    struct op_arrive a;
    struct result result;
    if (arrive_decode(o->op->payload, &a) || result_open(o->body, OP_ARRIVE, &result)) {
        odd(g, o, "an arrival that cannot be read");
        return;
    }
    check_arrival(g, &a, result.reason);
    if (result.reason != REASON_NONE) return;
    size_t at = 0;
    const struct event *e = walk_next_event(g, o, &at, EVENT_MESSAGE_ENQUEUED, result.value);
    if (!e) return;
    struct row *row = reference_push(g, result.value);
    check_upload(g->world, &g->world->life->lanes[g->lane], &a.message, "brought");
    row->body = body_hash(&a.message);
    row->upload = body_key(&a.message);
    row->group = group_number(a.message.group);
    workflow_scope(g, row, &a.message);
    row->priority = g->config.ordering_guarantee ? 0 : a.message.priority;
    row->place = e->place;
    row->origin = lane_by_id(g, &a.source, a.source_shard) + 1;
    row->origin_seq = a.origin_seq;
    g->world->life->letters++;
}

static void on_redrive(struct reference *g, const struct walk_op *o)
{
    for (size_t i = 0; i < o->events_len; i++) {
        const struct event *e = &o->events[i];
        if (walk_workflow(g, e)) continue;
        struct row *old = reference_row(g, e->from);
        if (e->kind != EVENT_MESSAGE_ENQUEUED || !old || old->state != STATE_DEAD) {
            odd(g, o, "a redrive of something that is not dead");
            return;
        }
        reference_move(g, old, STATE_REDRIVEN);
        struct row was = *old;
        struct row *row = reference_push(g, e->seq);
        row->body = was.body;
        row->upload = was.upload;
        row->group = was.group;
        row->priority = was.priority;
        row->needs = was.needs;
        row->place = e->place;
        row->sent_slot = was.sent_slot;
        row->origin = was.origin;
        row->origin_seq = was.origin_seq;
        workflow_redriven(g, row, &was);
    }
}

static void grant_one(struct reference *g, const struct walk_op *o, const struct grant *grant,
                      const struct event *e)
{
    struct row *row = reference_row(g, grant->seq);
    bool publishes = o->op->kind == OP_PUBLISH || o->op->kind == OP_DISPATCH;
    if (!row) {
        odd(g, o, "a message that was never sent is handed out");
        return;
    }
    struct bytes worker = event_worker(&g->events, e);
    uint32_t holder = (uint32_t)hash64_of(worker, 0);
    bool takes_up =
        row->ticket && row->state == STATE_LOCKED && row->holder == holder && !publishes;
    check_fleet(g, o, row, worker, takes_up);
    if (!takes_up) {
        bool chosen = o->op->kind == OP_LOCK; // an operator's: neither pause nor priority count
        check_grant(g, row, grant, chosen);
        if (!chosen || g->config.ordering_guarantee)
            check_opened(g, row, grant->seq, fleet_labels_of(g, worker));
        reference_move(g, row, STATE_LOCKED);
        row->token = grant->token;
        token_granted(g, grant->token);
        row->fence = grant->fence;
        row->holder = holder;
        g->fence = grant->fence;
    } else if (!hash128_equal(row->token, grant->token)) {
        odd(g, o, "a ticket was taken up with another token");
    }
    if (publishes && grant->order <= g->order) odd(g, o, "tickets are not numbered in order");
    if (publishes) g->order = grant->order;
    row->ticket = publishes;
    row->deliveries += !publishes;
    row->deadline = grant->deadline;
    row->expired_slot = 0;
    row->opened = true;
    row->place = grant->place;
    check_attempts(g, row, grant->seq, grant->deliveries, grant->retries);
    if (e->fence != grant->fence || e->until != grant->deadline ||
        e->deliveries != grant->deliveries)
        odd(g, o, "the event of a grant says something else");
}

static void on_grants(struct reference *g, const struct walk_op *o)
{
    struct result result;
    struct op_claim claim;
    if (result_open(o->body, o->op->kind, &result)) return;
    size_t at = 0;
    bool refused = result.reason == REASON_NOT_OWNER && o->op->kind != OP_DISPATCH;
    if (refused && g->config.consume == CONSUME_OWNER) {
        (void)walk_next_event(g, o, &at, EVENT_CLAIM_REJECTED, 0);
        g->ownerless = true;
        return;
    }
    if (o->op->kind == OP_CLAIM && !claim_decode(o->op->payload, &claim))
        g->dry = g->dry || result.count < claim.max;
    if (result.reason != REASON_NONE) return;
    bool publishes = o->op->kind == OP_PUBLISH || o->op->kind == OP_DISPATCH;
    enum event_kind kind = publishes ? EVENT_TICKETS_PUBLISHED : EVENT_MESSAGE_CLAIMED;
    for (uint32_t i = 0; i < result.count; i++) {
        struct grant grant;
        if (!grant_next(&result, &grant)) {
            odd(g, o, "a grant that cannot be read");
            return;
        }
        const struct event *e = walk_next_event(g, o, &at, kind, grant.seq);
        if (!e) return;
        grant_one(g, o, &grant, e);
    }
}

void walk_ended(struct reference *g, struct row *row, const struct route *r, struct bytes reason,
                bool failed)
{
    row->retries += r->counted;
    row->ready_at = 0;
    reference_move(g, row, r->state);
    if (r->state == STATE_READY) return;
    row->opened = false;
    row->number = ++g->deaths;
    row->died_at = g->now;
    row->cause = r->cause;
    row->reason = hash128_of(reason);
    row->reason_slot = failed ? g->slot : 0;
}

void walk_end_holds(struct reference *g, struct hash128 token)
{
    for (size_t i = 0; i < g->holds_len; i++)
        if (hash128_equal(g->holds[i].token, token)) g->holds[i].ended = true;
}

// A worker that renews for less time than it had must count on the shorter time.
static void shorten_holds(struct reference *g, struct hash128 token, int64_t until)
{
    for (size_t i = 0; i < g->holds_len; i++) {
        struct hold *h = &g->holds[i];
        if (hash128_equal(h->token, token) && h->deadline > until) h->deadline = until;
    }
}

static void apply_word(struct reference *g, const struct walk_op *o, const struct op_outcome *op,
                       struct row *row, const struct outcome_row *answer,
                       const struct outcome_extra *extra)
{
    uint16_t kind = o->op->kind;
    const struct reference_signal *in = signals_interrupt(g, row);
    if (in && (kind == OP_FAIL || kind == OP_RELEASE)) {
        if (signals_stop(g, row, in) != answer->status)
            odd(g, o, "an interrupted message ends otherwise");
        return;
    }
    if (kind != OP_RELEASE) row->deliveries += row->ticket;
    if (kind == OP_RELEASE) row->deliveries -= !row->ticket;
    if (kind != OP_RELEASE) row->ticket = false;
    if (kind == OP_RENEW) {
        if (answer->until > signals_limit(g, row)) odd(g, o, "a renewal passes an interrupt");
        row->deadline = answer->until;
        if (extra->has & EXTRA_PROGRESS) row->percent = extra->percent;
        row->has_progress = row->has_progress || extra->has & EXTRA_PROGRESS;
        shorten_holds(g, row->token, answer->until);
        return;
    }
    walk_end_holds(g, row->token);
    if (kind == OP_ACK) {
        reference_move(g, row, STATE_PROCESSED);
        row->acked_by = op->request;
        row->has_result = extra->has & EXTRA_RESULT;
        row->result = hash128_of(extra->result);
        row->result_slot = g->slot;
        row->opened = false;
    } else if (kind == OP_RELEASE) {
        reference_move(g, row, STATE_READY);
        row->ticket = false;
        row->ready_at = answer->until;
    } else {
        struct route r = check_route(g, row, true);
        enum outcome_status status =
            r.state == STATE_READY ? OUTCOME_RETRYING : OUTCOME_DEAD_LETTERED;
        if (answer->status != status)
            findings_add(&g->world->findings, "route",
                         "lane %u: slot %" PRIu64 ": a failed message ends %s after %u retries",
                         g->lane, g->slot, outcome_status_name(answer->status), row->retries);
        walk_ended(g, row, &r, op->reason, true);
        row->ready_at = answer->until;
        if (r.counted) check_backoff(g, row->retries, answer->until);
    }
}

static void on_words(struct reference *g, const struct walk_op *o)
{
    static const enum event_kind kinds[] = {EVENT_LOCK_RENEWED, EVENT_MESSAGE_OUTCOME,
                                            EVENT_MESSAGE_OUTCOME, EVENT_MESSAGE_RELEASED};
    struct op_outcome op;
    struct result result;
    uint16_t kind = o->op->kind;
    if (outcome_decode(o->op->payload, &op) || result_open(o->body, kind, &result)) return;
    size_t at = 0;
    for (uint32_t i = 0; i < op.count && i < result.count; i++) {
        struct lock_ref ref = outcome_ref(&op, i);
        struct outcome_row answer;
        if (!outcome_row_next(&result, &answer)) {
            odd(g, o, "a word without an answer");
            return;
        }
        struct row *row = reference_row(g, ref.seq);
        check_word(g, &op, &ref, answer.reason);
        bool applied = answer.reason == REASON_NONE;
        enum event_kind refused =
            kind == OP_RENEW ? EVENT_LOCK_RENEWAL_REJECTED : EVENT_OUTCOME_REJECTED;
        enum event_kind event = applied ? kinds[kind - OP_RENEW] : refused;
        bool stops = applied && kind == OP_RELEASE && row && signals_interrupt(g, row);
        if (stops) event = EVENT_MESSAGE_OUTCOME;
        struct outcome_extra extra = outcome_extra_of(&op, i);
        if (!walk_next_event(g, o, &at, event, ref.seq)) return;
        if (applied && row) apply_word(g, o, &op, row, &answer, &extra);
    }
}

static void on_purge(struct reference *g, const struct walk_op *o)
{
    struct op_purge op;
    if (purge_decode(o->op->payload, &op) || o->events_len == 0 ||
        o->events[0].kind != EVENT_QUEUE_PURGED) {
        odd(g, o, "a purge that was not told");
        return;
    }
    enum message_state from = op.dead ? STATE_DEAD : STATE_READY;
    uint64_t gone = g->counts[from];
    if (gone != o->events[0].count)
        findings_add(&g->world->findings, "I5",
                     "lane %u: slot %" PRIu64 ": purged %" PRIu64 " where there were %" PRIu64,
                     g->lane, g->slot, o->events[0].count, gone);
    for (uint64_t i = 0; i < g->rows_len; i++) {
        if (g->rows[i].state != from) continue;
        reference_move(g, &g->rows[i], STATE_PURGED);
        g->rows[i].opened = false;
    }
}

// All goes but what is on its way, for which it waits.
static void on_delete(struct reference *g, const struct walk_op *o)
{
    if (o->body.len == 0 || o->body.data[0] != REASON_NONE) return;
    uint64_t gone = 0;
    for (uint64_t i = 0; i < g->rows_len; i++) {
        enum message_state state = g->rows[i].state;
        if (state != STATE_READY && state != STATE_LOCKED && state != STATE_DEAD) continue;
        reference_move(g, &g->rows[i], STATE_PURGED);
        g->rows[i].opened = false;
        gone++;
    }
    bool told = o->events_len == 1 && o->events[0].kind == EVENT_QUEUE_DELETED;
    if (!told || o->events[0].count != gone) odd(g, o, "a deletion that was told otherwise");
    for (size_t i = 0; i < g->holds_len; i++)
        g->holds[i].ended = true;
    check_deletion(g);
    g->deleted_slot = g->slot;
}

static void on_outbox(struct reference *g, const struct walk_op *o)
{
    for (size_t i = 0; i < o->events_len; i++) {
        struct row *row = reference_row(g, o->events[i].seq);
        if (o->events[i].kind != EVENT_MESSAGE_MOVED || !row || row->state != STATE_OUTBOUND) {
            odd(g, o, "something moved that was not on its way");
            return;
        }
        check_forgotten(g, row, o->events[i].seq);
        reference_move(g, row, STATE_MOVED);
    }
}

static void on_configure(struct reference *g, const struct walk_op *o)
{
    struct op_configure op;
    if (o->events_len != 1 || configure_decode(o->op->payload, &op)) return;
    if (g->config.dispatch != op.config.dispatch) fleet_forget(g);
    g->config = op.config;
}

void walk_op(struct reference *g, const struct walk_op *o)
{
    switch (o->op->kind) {
    case OP_SEND:
        on_send(g, o);
        break;
    case OP_ARRIVE:
        on_arrive(g, o);
        break;
    case OP_REDRIVE:
        on_redrive(g, o);
        break;
    case OP_CLAIM:
    case OP_TAKE:
    case OP_PUBLISH:
    case OP_DISPATCH:
    case OP_LOCK:
        on_grants(g, o);
        break;
    case OP_RENEW:
    case OP_ACK:
    case OP_FAIL:
    case OP_RELEASE:
        on_words(g, o);
        break;
    case OP_PURGE:
        on_purge(g, o);
        break;
    case OP_OUTBOX:
        on_outbox(g, o);
        break;
    case OP_DELETE:
        on_delete(g, o);
        break;
    case OP_CONFIGURE:
        on_configure(g, o);
        break;
    case OP_RAISE:
        check_raise(g, o);
        break;
    case OP_PAUSE:
    case OP_RESUME:
        g->paused = o->op->kind == OP_PAUSE;
        break;
    case OP_WORKERS:
        fleet_walk(g, o);
        break;
    case OP_SIGNAL:
    case OP_SIGNAL_SETTLE:
    case OP_SIGNAL_WITHDRAW:
    case OP_CANCEL:
        signals_walk(g, o);
        break;
    case OP_PUBLISHED:
        walk_published(g, o);
        break;
    default:
        break;
    }
}
