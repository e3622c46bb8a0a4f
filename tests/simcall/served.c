// SPDX-License-Identifier: Apache-2.0
// What is asked of an owner, at the owner: the effects of a served call (call/step.h) on the shards
// of its process. In the product, ops/served.c performs them.
#include "base/check.h"
#include "check.h"

#include <string.h>

#define CLAIM_MS 100 // as in ops/announcements.c

bool ask_listens(struct world *w, const struct sim_ask *k)
{
    return call_at(w, k->call)->state.kind == STEP_LISTEN;
}

static struct shard *shard_there(struct world *w, const struct sim_ask *k, uint32_t part,
                                 struct node **n)
{
    *n = process_node(w, k->process, k->parts[part].shard);
    CHECK((*n)->life == k->life && (*n)->up);
    return w->life->handles[(*n)->index];
}

static uint64_t ticket_of(uint32_t ask, uint32_t part)
{
    return ASK_TICKETS + (uint64_t)ask * SIM_SHARDS_MAX + part;
}

static bool owns(const struct world *w, const struct sim_ask *k)
{
    for (uint32_t i = 0; i < k->parts_len; i++)
        if (w->life->owner[k->parts[i].shard] != k->process) return false;
    return true;
}

static void build(struct world *w, struct sim_ask *k)
{
    bool awaits = k->parts[0].kind == STEP_AWAIT, op = k->op != NOT_INDEX;
    struct call_plan plan = {.ops = op,
                             .at_once = 1,
                             .joined = op && k->parts_len > 1,
                             .awaits_only = awaits,
                             .shared = ask_listens(w, k),
                             .shards = awaits ? k->parts_len : k->parts_len - op};
    if (!owns(w, k) || k->lies_moved)
        call_moved(&k->served);
    else if (w->life->process[k->process].closing)
        call_failed(&k->served);
    else
        call_built(&k->served, &plan);
}

static void submit(struct world *w, uint32_t ask, bool joined)
{
    struct node *n;
    struct sim_ask *k = &w->life->asks[ask];
    struct shard *s = shard_there(w, k, 0, &n);
    struct op_claim claim = claim_of(w, k->call);
    struct op op = op_bytes(w, &w->life->ops[k->op]);
    int64_t deadline = w->now + patience(w), until = k->until > w->now ? k->until : w->now;
    k->parts[0].state = ACTION_OPEN;
    if (joined) k->parts[1].state = ACTION_OPEN;
    if (joined)
        shard_receive_after(s, ticket_of(ask, 0), op, ticket_of(ask, 1), &claim, until, deadline,
                            until + patience(w), node_now(n));
    else
        shard_submit(s, ticket_of(ask, 0), op, deadline, node_now(n));
    node_settle(w, n);
}

static void find(struct world *w, uint32_t ask, uint32_t part)
{
    struct node *n;
    struct sim_ask *k = &w->life->asks[ask];
    struct shard *s = shard_there(w, k, part, &n);
    struct action *a = &k->parts[part];
    struct op_claim claim = claim_of(w, k->call);
    struct listen_ask asks[SIM_REFS_MAX];
    struct shard_listen what = listen_of(call_at(w, k->call), a->shard, asks);
    int64_t until = k->until > w->now ? k->until : w->now, last = until + patience(w);
    uint64_t ticket = ticket_of(ask, part);
    a->state = ACTION_OPEN;
    if (a->kind == STEP_CLAIM)
        shard_receive(s, ticket, &claim, k->waits ? until : TIME_UNKNOWN, last, node_now(n));
    else if (ask_listens(w, k))
        shard_listen(s, ticket, &what, until, last, node_now(n));
    else
        shard_await(s, ticket, claim.worker, until, last, node_now(n));
    node_settle(w, n);
}

static void withdraw(struct world *w, uint32_t ask, const struct call_effect *e)
{
    struct node *n;
    struct sim_ask *k = &w->life->asks[ask];
    uint32_t part = e->kind == STEP_WITHDRAW_CLAIM ? k->parts_len - 1 : e->index;
    struct shard *s = shard_there(w, k, part, &n);
    struct action *a = &k->parts[part];
    CHECK(a->state == ACTION_OPEN || a->state == ACTION_REPLIED);
    CHECK(e->last);
    a->withdrawn = true;
    bool cancelled = a->state == ACTION_OPEN && shard_cancel(s, ticket_of(ask, part), node_now(n));
    if (cancelled) a->state = ACTION_OVER;
    if (a->state == ACTION_OPEN) a->cancelled_at = w->now;
    call_withdrawn(&k->served, e->index, cancelled);
    if (!cancelled) node_settle(w, n); // it may have an earlier deadline
}

static void notify(struct world *w, uint32_t ask, uint32_t part)
{
    struct node *n;
    (void)shard_there(w, &w->life->asks[ask], part, &n);
    w->life->announcements[n->index]++;
    world_at(w, w->now + CLAIM_MS, (enum world_event_kind)LIFE_ANNOUNCEMENT, n->index, n->life);
}

void served_announce(struct world *w, const struct world_event *e)
{
    struct node *n = &w->nodes[e->a];
    if (!n->up || n->life != e->b) return; // it has crashed
    if (w->now < n->paused_until) {
        world_at(w, n->paused_until, e->kind, e->a, e->b);
        return;
    }
    w->life->announcements[e->a]--;
    shard_notify_next(w->life->handles[e->a], node_now(n));
    node_settle(w, n);
}

// What has no result is not done, or another shard of the await has something.
static void answer(struct world *w, uint32_t ask)
{
    struct sim_ask *k = &w->life->asks[ask];
    for (uint32_t i = 0; i < k->parts_len; i++) {
        struct action *a = &k->parts[i];
        bool waits = a->kind == STEP_CLAIM || a->kind == STEP_AWAIT;
        bool nothing = a->state != ACTION_REPLIED || (waits && find_end(a) == STEP_NOTHING);
        if (nothing && k->served.undone)
            a->err = ERR_UNAVAILABLE;
        else if (a->state != ACTION_REPLIED && a->kind == STEP_AWAIT)
            a->err = ERR_NOT_FOUND;
        if (nothing && k->served.undone) a->has_body = false;
    }
    const struct node *n = process_node(w, k->process, k->parts[0].shard);
    if (k->op != NOT_INDEX && !k->served.moved)
        k->remembered = fold_has_answer_to(w, w->life->handles[n->index], &w->life->ops[k->op]);
    owner_answers(w, ask);
}

static void perform(struct world *w, uint32_t ask, const struct call_effect *e)
{
    struct sim_ask *k = &w->life->asks[ask];
    switch (e->kind) {
    case STEP_BUILD:
        build(w, k);
        break;
    case STEP_SUBMIT:
    case STEP_SUBMIT_JOINED:
        submit(w, ask, e->kind == STEP_SUBMIT_JOINED);
        break;
    case STEP_CLAIM:
        find(w, ask, k->parts_len - 1);
        break;
    case STEP_AWAIT:
        find(w, ask, e->index);
        break;
    case STEP_WITHDRAW_AWAIT:
    case STEP_WITHDRAW_CLAIM:
        withdraw(w, ask, e);
        break;
    case STEP_NOTIFY:
        notify(w, ask, e->index);
        break;
    case STEP_ANSWER:
        answer(w, ask);
        break;
    default:
        CHECK(false); // no effect of a served call
    }
}

static void pump(struct world *w, uint32_t ask)
{
    struct call_effect e;
    if (w->life->asks[ask].pumping) return;
    w->life->asks[ask].pumping = true;
    while (!w->findings.broken && call_next(&w->life->asks[ask].served, &e))
        perform(w, ask, &e);
    struct sim_ask *k = &w->life->asks[ask];
    k->pumping = false;
    if (w->findings.broken) return;
    check_withdrawn(w, ask);
    if (call_is_over(&k->served)) call_done(&k->served);
}

void served_arrives(struct world *w, uint32_t ask)
{
    call_init(&w->life->asks[ask].served, STEP_SERVED);
    pump(w, ask);
}

void served_reply(struct world *w, const struct shard_reply *r)
{
    if (r->ticket == RELEASES) return;
    uint32_t ask = (uint32_t)((r->ticket - ASK_TICKETS) / SIM_SHARDS_MAX);
    uint32_t part = (uint32_t)(r->ticket % SIM_SHARDS_MAX);
    CHECK(ask < w->life->asks_len);
    struct sim_ask *k = &w->life->asks[ask];
    CHECK(k->state == ASK_THERE && part < k->parts_len && k->parts[part].state == ACTION_OPEN);
    struct action *a = &k->parts[part];
    keep_reply(a, r);
    check_cancelled(w, a, process_node(w, k->process, a->shard));
    if (a->kind == STEP_AWAIT)
        call_awaited(&k->served, part, find_end(a));
    else if (a->kind == STEP_CLAIM)
        call_claimed(&k->served, 0, find_end(a), w->now >= k->until);
    else
        CHECK(call_op_ended(&k->served, 0, a->err == ERR_UNKNOWN ? STEP_OP_UNKNOWN : STEP_OP_DONE));
    pump(w, ask);
}

void served_cancel(struct world *w, uint32_t ask)
{
    struct sim_ask *k = &w->life->asks[ask];
    if (k->state != ASK_THERE || call_is_over(&k->served)) return;
    k->cut = true;
    call_cancel(&k->served);
    pump(w, ask);
}

// The locks of the answer are given back, unless the caller may repeat the request. A message that
// it announced is announced to another waiter.
void served_lost(struct world *w, uint32_t ask)
{
    for (uint32_t i = 0; i < w->life->asks[ask].parts_len; i++) {
        struct node *n;
        const struct sim_ask *k = &w->life->asks[ask];
        const struct action *a = &k->parts[i];
        if (a->state != ACTION_REPLIED) continue;
        struct shard *s = shard_there(w, k, i, &n);
        if (a->kind == STEP_AWAIT && !a->err && !ask_listens(w, k))
            shard_notify_next(s, node_now(n));
        if (a->kind == STEP_CLAIM && a->refs_len > 0 && !call_at(w, k->call)->named) {
            struct sim_op op = {.kind = OP_RELEASE,
                                .shard = a->shard,
                                .arrived_at = node_now(n).hi,
                                .len = a->refs_len,
                                .id = NOT_INDEX};
            memcpy(op.refs, a->refs, sizeof op.refs);
            shard_submit(s, RELEASES, op_bytes(w, &op), w->now + w->mix.patience_ms, node_now(n));
        }
        node_settle(w, n);
    }
}

void served_closes(struct world *w, uint32_t process)
{
    for (uint32_t i = w->life->asks_open; i < w->life->asks_len && !w->findings.broken; i++)
        if (w->life->asks[i].process == process) served_cancel(w, i);
}

bool served_any(const struct world *w, uint32_t process)
{
    for (uint32_t i = w->life->asks_open; i < w->life->asks_len; i++) {
        const struct sim_ask *k = &w->life->asks[i];
        if (k->process == process && k->state == ASK_THERE) return true;
    }
    return false;
}

void served_drop(struct sim_ask *k)
{
    call_drop(&k->served);
}
