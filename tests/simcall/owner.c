// SPDX-License-Identifier: Apache-2.0
// Shards with an owner: another process of the world, whose shard does what is asked of it. A
// request can be refused, lost or late. Its answer can be lost. The owner can crash, close or be
// replaced meanwhile. What a process knows of the owner can be old. In the product, local/away.c is
// the caller's side and owner/guest.c the owner's.
#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "call/route.h"
#include "check.h"

#include <string.h>

// A false answer: the bytes of the owner's answer are none, or it says that it is not the owner.
enum lie { LIE_NONE, LIE_BYTES, LIE_MOVED, LIES };
enum fate { FATE_FINE, FATE_UNDONE, FATE_LOST, FATE_LATE, FATE_ANSWER_LOST, FATE_RESET, FATES };

static bool has_faults(const struct world *w)
{
    return w->phase == WORLD_FAULTY && !w->life->calm;
}

static int64_t draw_latency(struct world *w)
{
    return rng_range(&w->rng, 1, has_faults(w) && rng_chance(&w->rng, 1000) ? 400 : 30);
}

// Worlds without owners draw nothing from the world's own numbers.
void owner_init(struct world *w)
{
    struct life *life = w->life;
    struct rng rng;
    rng_init(&rng, hash64_mix(w->seed, 12));
    life->owned = life->processes > 1 && rng_chance(&rng, 6000);
    if (!life->owned) return;
    life->own_every_ms = rng_chance(&rng, 6000) ? rng_range(&rng, 200, 3 * SECOND) : 0;
    life->ask_ms = rng_range(&rng, 100, 1500);
    life->ask_part_ms = rng_range(&rng, 300, 2 * SECOND);
    life->ask_faults = rng_chance(&rng, 7000) ? (uint32_t)rng_range(&rng, 200, 5000) : 0;
    for (uint32_t i = 0; i < life->shards; i++)
        life->owner[i] =
            rng_chance(&rng, 1500) ? NOT_INDEX : (uint32_t)rng_below(&rng, life->processes);
    life->ask_lies = rng_chance(&rng, 3000) ? (uint32_t)rng_range(&rng, 100, 3000) : 0;
    world_every(w, life->own_every_ms, (enum world_event_kind)LIFE_OWN, 0);
}

static void learn_soon(struct world *w, uint32_t process, uint32_t shard)
{
    life_after(w, rng_range(&w->rng, 1, 600), LIFE_LEARN, process * SIM_SHARDS_MAX + shard);
}

void owner_started(struct world *w, uint32_t process)
{
    for (uint32_t i = 0; w->life->owned && i < w->life->shards; i++) {
        w->life->process[process].owners[i].owner = NOT_INDEX;
        learn_soon(w, process, i);
    }
}

static void learn(struct world *w, uint32_t process, uint32_t shard)
{
    struct sim_belief *b = &w->life->process[process].owners[shard];
    struct sim_belief now = {.owner = w->life->owner[shard]};
    bool same = b->owner == now.owner && b->away_until <= w->now;
    *b = now;
    if (same || !process_is_up(w, process)) return;
    trace_line(&w->trace, w->now, "p%u learns the owner of shard %u: p%u", process, shard,
               now.owner);
    shell_reroute(w, process);
}

static void change_owner(struct world *w)
{
    struct life *life = w->life;
    uint32_t shard = (uint32_t)rng_below(&w->rng, life->shards);
    uint32_t process = (uint32_t)rng_below(&w->rng, life->processes + 1);
    if (w->phase == WORLD_HEALED) return;
    world_every(w, life->own_every_ms, (enum world_event_kind)LIFE_OWN, 0);
    life->owner[shard] = process == life->processes ? NOT_INDEX : process;
    trace_line(&w->trace, w->now, "! the owner of shard %u is p%u", shard, life->owner[shard]);
    for (uint32_t i = 0; i < life->processes; i++)
        if (rng_chance(&w->rng, 6000)) learn_soon(w, i, shard);
}

// Finds the owners again. What is read may be old.
void owner_find(struct world *w, uint32_t process)
{
    for (uint32_t i = 0; i < w->life->shards; i++)
        if (!has_faults(w) || rng_chance(&w->rng, 9000))
            w->life->process[process].owners[i] = (struct sim_belief){.owner = w->life->owner[i]};
}

static enum route_owner state_of(const struct world *w, uint32_t process, uint32_t shard)
{
    const struct sim_belief *b = &w->life->process[process].owners[shard];
    if (!w->life->owned || b->owner == NOT_INDEX) return ROUTE_OWNER_NONE;
    if (b->owner == process) return ROUTE_OWNER_SELF;
    return w->now < b->away_until ? ROUTE_OWNER_AWAY : ROUTE_OWNER_PROVEN;
}

bool owner_is_away(struct world *w, uint32_t process, uint32_t shard)
{
    return state_of(w, process, shard) == ROUTE_OWNER_PROVEN;
}

static enum fate draw_fate(struct world *w)
{
    if (!has_faults(w) || !rng_chance(&w->rng, w->life->ask_faults)) return FATE_FINE;
    return (enum fate)rng_range(&w->rng, 1, FATES - 1);
}

static enum lie draw_lie(struct world *w, uint32_t ask)
{
    struct rng rng;
    if (!has_faults(w) || w->life->ask_lies == 0) return LIE_NONE;
    rng_init(&rng, hash64_mix(w->seed, 1000 + (uint64_t)ask));
    if (!rng_chance(&rng, w->life->ask_lies)) return LIE_NONE;
    w->life->figures[FIGURE_LIES]++;
    return (enum lie)rng_range(&rng, 1, LIES - 1);
}

static uint32_t ask_new(struct world *w, uint32_t action, uint32_t process)
{
    struct life *life = w->life;
    const struct action *a = &life->actions[action];
    const struct sim_call *c = call_at(w, a->call);
    bool op = a->kind == CALL_SUBMIT || a->kind == CALL_SUBMIT_JOINED;
    if (life->asks_len % 256 == 0)
        life->asks = memory_resize(life->asks, (life->asks_len + 256) * sizeof *life->asks);
    struct sim_ask *k = &life->asks[life->asks_len];
    *k = (struct sim_ask){.caller = c->process,
                          .process = process,
                          .call = a->call,
                          .shard = a->shard,
                          .op = op ? c->ops[a->index] : NOT_INDEX,
                          .until = w->now};
    k->actions[k->parts_len] = action;
    k->parts[k->parts_len++] = (struct action){.kind = a->kind, .state = ACTION_OPEN};
    bool joined = a->partner != NOT_INDEX && life->actions[a->partner].state == ACTION_PLANNED;
    if (op && joined) {
        k->actions[k->parts_len] = a->partner;
        k->parts[k->parts_len++] = (struct action){.kind = CALL_CLAIM, .state = ACTION_OPEN};
    }
    return life->asks_len++;
}

// A longer wait is made in parts.
static void set_wait(struct world *w, struct sim_ask *k)
{
    const struct sim_call *c = call_at(w, k->call);
    struct action *last = &w->life->actions[k->actions[k->parts_len - 1]];
    bool claims = last->kind == CALL_CLAIM && w->life->shards == 1;
    k->waits = claims || last->kind == CALL_AWAIT;
    if (!k->waits || c->until <= w->now) return;
    int64_t most = w->now + w->life->ask_part_ms;
    k->until = c->until < most ? c->until : most;
    last->slice = c->until > k->until;
}

static void send(struct world *w, uint32_t ask)
{
    struct sim_ask *k = &w->life->asks[ask];
    enum fate fate = draw_fate(w);
    int64_t give_up = k->until - w->now + w->life->ask_ms;
    int64_t arrives = draw_latency(w);
    trace_line(&w->trace, w->now, "  asks p%u (request %u, fate %u)", k->process, ask, fate);
    if (fate == FATE_LATE) arrives = give_up + rng_range(&w->rng, 1, 2 * SECOND);
    if (fate == FATE_RESET) give_up = rng_range(&w->rng, 1, 2 * arrives);
    if (fate == FATE_ANSWER_LOST) k->answer_lost = true;
    k->lie = draw_lie(w, ask);
    if (fate == FATE_LOST || fate == FATE_UNDONE)
        k->state = ASK_OVER;
    else
        life_after(w, arrives, LIFE_ASK_ARRIVES, ask);
    life_after(w, fate == FATE_UNDONE ? arrives : give_up, LIFE_ASK_TIMEOUT, ask);
    for (uint32_t i = 0; fate == FATE_UNDONE && i < k->parts_len; i++)
        w->life->actions[k->actions[i]].left = CALL_UNDONE;
}

bool owner_ask(struct world *w, uint32_t action)
{
    struct life *life = w->life;
    const struct action *a = &life->actions[action];
    struct sim_call *c = call_at(w, a->call);
    if (!life->owned || a->kind == CALL_RECALL) return false;
    bool large = rng_chance(&w->rng, 200), foreign = rng_chance(&w->rng, 200);
    struct route_facts facts = {.owner = state_of(w, c->process, a->shard),
                                .here = a->here,
                                .has_token = foreign,
                                .bytes = large ? ROUTE_BYTES_MAX + 1 : 0};
    if (route_decide(&facts) != ROUTE_AT_OWNER) return false;
    life->figures[FIGURE_ASKED]++;
    uint32_t ask = ask_new(w, action, life->process[c->process].owners[a->shard].owner);
    struct sim_ask *k = &life->asks[ask];
    for (uint32_t i = 0; i < k->parts_len; i++) {
        life->actions[k->actions[i]].state = ACTION_OPEN;
        life->actions[k->actions[i]].ask = ask;
        if (k->parts[i].kind != CALL_CLAIM) continue;
        c->told[k->shard] = false;
        life->announced[process_node(w, c->process, k->shard)->index] = true;
    }
    if (k->op != NOT_INDEX) {
        life->ops[k->op].submits++;
        c->went_away = true;
        check_submitted(w, &life->ops[k->op]);
    }
    set_wait(w, k);
    send(w, ask);
    return true;
}

// The caller has the end of its request: a result, or none.
static void end_for_caller(struct world *w, uint32_t ask, enum call_away left)
{
    struct sim_ask k = w->life->asks[ask];
    w->life->asks[ask].ended = true;
    struct sim_belief *b = &w->life->process[k.caller].owners[k.shard];
    if (left == CALL_MOVED) b->owner = NOT_INDEX;
    for (uint32_t i = 0; i < k.parts_len && !w->findings.broken; i++) {
        struct action *a = &w->life->actions[k.actions[i]];
        const struct action *r = &k.parts[i];
        CHECK(a->state == ACTION_OPEN && a->ask == ask);
        a->left = left;
        bool decided = r->err == ERR_OK || r->has_body;
        if (a->kind == CALL_AWAIT) decided = decided || r->err == ERR_NOT_FOUND;
        if (!left && !decided)
            a->left = r->err == ERR_UNKNOWN || r->err == ERR_CORRUPT ? CALL_DOUBTED : CALL_UNDONE;
        a->err = r->err;
        a->has_body = r->has_body;
        a->rows_len = r->rows_len;
        a->refs_len = r->refs_len;
        memcpy(a->rows, r->rows, sizeof a->rows);
        memcpy(a->refs, r->refs, sizeof a->refs);
        a->heard = r->heard;
        a->gone_len = r->gone_len;
        memcpy(a->gone, r->gone, sizeof a->gone);
        shell_ended(w, k.actions[i], true);
    }
}

void owner_left(struct world *w, const struct action *a)
{
    struct sim_call *c = call_at(w, a->call);
    CHECK(a->ask != NOT_INDEX && a->left != CALL_NOT_AWAY);
    if (a->left == CALL_DOUBTED) w->life->figures[FIGURE_DOUBTED]++;
    if (a->left == CALL_MOVED) w->life->figures[FIGURE_MOVED]++;
    if (a->kind == CALL_CLAIM && a->left == CALL_DOUBTED) c->claim_doubted = true;
    if (a->kind != CALL_SUBMIT && a->kind != CALL_SUBMIT_JOINED) return;
    struct sim_op *op = &w->life->ops[w->life->asks[a->ask].op];
    op->submits--;
    op->lefts++;
    op->doubted = op->doubted || a->left == CALL_DOUBTED;
    check_left(w, op);
}

static struct shard *shard_there(struct world *w, const struct sim_ask *k, struct node **n)
{
    *n = process_node(w, k->process, k->shard);
    CHECK((*n)->life == k->life && (*n)->up);
    return w->life->handles[(*n)->index];
}

// The answer does not reach the caller: the owner gives the locks back, unless the caller may
// repeat the request, and announces the message to another waiter.
static void give_back(struct world *w, const struct sim_ask *k)
{
    struct node *n;
    struct shard *s = shard_there(w, k, &n);
    const struct action *last = &k->parts[k->parts_len - 1];
    bool listens = call_at(w, k->call)->state.kind == CALL_LISTEN;
    if (last->kind == CALL_AWAIT && !last->err && !listens) shard_notify_next(s, node_now(n));
    if (last->kind == CALL_CLAIM && last->refs_len > 0 && !call_at(w, k->call)->named) {
        struct sim_op op = {.kind = OP_RELEASE,
                            .shard = k->shard,
                            .arrived_at = node_now(n).hi,
                            .len = last->refs_len,
                            .id = NOT_INDEX};
        memcpy(op.refs, last->refs, sizeof op.refs);
        shard_submit(s, RELEASES, op_bytes(w, &op), w->now + w->mix.patience_ms, node_now(n));
    }
    node_settle(w, n);
}

// All parts have their replies.
static void finish(struct world *w, uint32_t ask)
{
    struct sim_ask *k = &w->life->asks[ask];
    for (uint32_t i = 0; i < k->parts_len; i++)
        if (k->parts[i].state == ACTION_OPEN) return;
    const struct node *n = process_node(w, k->process, k->shard);
    if (k->op != NOT_INDEX && !k->moved)
        k->remembered = fold_has_answer_to(w, w->life->handles[n->index], &w->life->ops[k->op]);
    const struct action *last = &k->parts[k->parts_len - 1];
    bool listens = call_at(w, k->call)->state.kind == CALL_LISTEN;
    if (last->kind == CALL_AWAIT && !last->err && !k->moved && !listens)
        w->life->announced[n->index] = true;
    if (!k->answer_lost) {
        life_after(w, draw_latency(w), LIFE_ASK_ANSWERED, ask);
        return;
    }
    k->state = ASK_OVER;
    if (!k->moved && rng_chance(&w->rng, 5000)) give_back(w, k);
}

void owner_heard(struct world *w, const struct shard_reply *r)
{
    if (r->ticket == RELEASES) return;
    uint32_t ask = (uint32_t)((r->ticket - ASK_TICKETS) / 2), part = (uint32_t)(r->ticket % 2);
    CHECK(ask < w->life->asks_len);
    struct sim_ask *k = &w->life->asks[ask];
    CHECK(k->state == ASK_THERE && part < k->parts_len && k->parts[part].state == ACTION_OPEN);
    struct action *a = &k->parts[part];
    keep_reply(a, r);
    check_cancelled(w, a, process_node(w, k->process, k->shard));
    // It was cancelled too late and ends before its time: the caller waits on its own.
    bool nothing = find_end(a) == CALL_NOTHING && (a->kind == CALL_CLAIM || a->kind == CALL_AWAIT);
    if (a->withdrawn && nothing) {
        a->err = ERR_UNAVAILABLE;
        a->has_body = false;
    }
    finish(w, ask);
}

static void refuse(struct world *w, uint32_t ask, bool moved)
{
    struct sim_ask *k = &w->life->asks[ask];
    k->moved = moved;
    for (uint32_t i = 0; i < k->parts_len; i++) {
        k->parts[i].state = ACTION_REPLIED;
        k->parts[i].err = ERR_UNAVAILABLE;
    }
    finish(w, ask);
}

static void perform(struct world *w, uint32_t ask)
{
    struct node *n;
    struct sim_ask *k = &w->life->asks[ask];
    struct shard *s = shard_there(w, k, &n);
    struct interval now = node_now(n);
    struct op_claim claim = claim_of(w, k->call);
    uint64_t ticket = ASK_TICKETS + (uint64_t)ask * 2;
    int64_t deadline = w->now + patience(w);
    int64_t until = k->until > w->now ? k->until : w->now, last = until + patience(w);
    struct listen_ask asks[SIM_REFS_MAX];
    struct shard_listen what = listen_of(call_at(w, k->call), k->shard, asks);
    if (call_at(w, k->call)->state.kind == CALL_LISTEN)
        shard_listen(s, ticket, &what, until, last, now);
    else if (k->parts[0].kind == CALL_AWAIT)
        shard_await(s, ticket, claim.worker, until, last, now);
    else if (k->parts[0].kind == CALL_CLAIM)
        shard_receive(s, ticket, &claim, k->waits ? until : TIME_UNKNOWN, last, now);
    else if (k->parts_len == 1)
        shard_submit(s, ticket, op_bytes(w, &w->life->ops[k->op]), deadline, now);
    else
        shard_receive_after(s, ticket, op_bytes(w, &w->life->ops[k->op]), ticket + 1, &claim, until,
                            deadline, last, now);
    node_settle(w, n);
}

static void arrives(struct world *w, uint32_t ask)
{
    struct sim_ask *k = &w->life->asks[ask];
    const struct node *n = process_node(w, k->process, k->shard);
    if (n->up && w->now < n->paused_until) {
        life_after(w, 20, LIFE_ASK_ARRIVES, ask);
        return;
    }
    if (!n->up) { // the connection is refused
        k->state = ASK_OVER;
        if (!k->ended) end_for_caller(w, ask, CALL_UNDONE);
        return;
    }
    k->state = ASK_THERE;
    k->life = n->life;
    if (k->ended) life_after(w, draw_latency(w), LIFE_ASK_CUT, ask);
    bool owns = w->life->owner[k->shard] == k->process && k->lie != LIE_MOVED;
    if (!owns || w->life->process[k->process].closing)
        refuse(w, ask, !owns);
    else
        perform(w, ask);
}

// The caller cannot read the answer. What was announced in it is announced to another waiter soon.
static void end_unread(struct world *w, uint32_t ask)
{
    const struct sim_ask *k = &w->life->asks[ask];
    bool announced = !k->moved && k->parts[k->parts_len - 1].kind == CALL_AWAIT;
    if (announced) give_back(w, k);
    end_for_caller(w, ask, CALL_DOUBTED);
}

static void answered(struct world *w, uint32_t ask)
{
    struct sim_ask *k = &w->life->asks[ask];
    if (k->state != ASK_THERE) return; // the owner has crashed
    k->state = ASK_OVER;
    if (!k->ended && k->lie == LIE_BYTES)
        end_unread(w, ask);
    else if (!k->ended)
        end_for_caller(w, ask, k->moved ? CALL_MOVED : CALL_NOT_AWAY);
    else if (!k->moved)
        give_back(w, k);
}

// Ends what waits there.
static void cancel_waits(struct world *w, uint32_t ask)
{
    struct node *n;
    struct sim_ask *k = &w->life->asks[ask];
    if (k->state != ASK_THERE) return;
    struct shard *s = shard_there(w, k, &n);
    struct action *last = &k->parts[k->parts_len - 1];
    bool waits = last->kind == CALL_CLAIM || last->kind == CALL_AWAIT;
    uint64_t ticket = ASK_TICKETS + (uint64_t)ask * 2 + k->parts_len - 1;
    if (!waits || last->state != ACTION_OPEN) return;
    last->withdrawn = true;
    if (last->cancelled_at == 0) last->cancelled_at = w->now;
    if (!shard_cancel(s, ticket, node_now(n))) {
        node_settle(w, n); // it may have an earlier deadline
        return;
    }
    last->state = ACTION_REPLIED;
    last->err = ERR_UNAVAILABLE;
    finish(w, ask);
}

// The caller waits no longer.
static void give_up(struct world *w, uint32_t ask)
{
    const struct sim_ask *k = &w->life->asks[ask];
    if (k->ended) return;
    struct sim_belief *b = &w->life->process[k->caller].owners[k->shard];
    bool undone = w->life->actions[k->actions[0]].left == CALL_UNDONE;
    b->away_until = w->now + rng_range(&w->rng, 0, SECOND);
    if (k->state == ASK_THERE) life_after(w, draw_latency(w), LIFE_ASK_CUT, ask);
    end_for_caller(w, ask, undone ? CALL_UNDONE : CALL_DOUBTED);
}

bool owner_cancel(struct world *w, struct action *a)
{
    uint32_t ask = a->ask;
    struct sim_ask *k = &w->life->asks[ask];
    CHECK(!k->ended && a->kind != CALL_SUBMIT && a->kind != CALL_SUBMIT_JOINED);
    k->ended = true;
    a->state = ACTION_OVER;
    if (a->kind == CALL_CLAIM) call_at(w, a->call)->claim_doubted = true;
    if (k->state == ASK_THERE) life_after(w, draw_latency(w), LIFE_ASK_CUT, ask);
    if (k->parts_len == 1) return true;
    w->life->actions[k->actions[0]].left = CALL_DOUBTED; // the op may have been done
    shell_ended(w, k->actions[0], false);
    return true;
}

void owner_crashed(struct world *w, uint32_t process)
{
    struct life *life = w->life;
    for (uint32_t i = life->asks_open; i < life->asks_len; i++) {
        struct sim_ask *k = &life->asks[i];
        if (k->process == process && k->state == ASK_THERE) {
            k->state = ASK_OVER;
            if (!w->findings.broken) life_after(w, draw_latency(w), LIFE_ASK_TIMEOUT, i);
        }
        if (k->caller != process || k->ended) continue;
        k->ended = true;
        if (k->state == ASK_THERE && !w->findings.broken)
            life_after(w, draw_latency(w), LIFE_ASK_CUT, i);
    }
}

void owner_closes(struct world *w, uint32_t process)
{
    for (uint32_t i = w->life->asks_open; i < w->life->asks_len; i++)
        if (w->life->asks[i].process == process) cancel_waits(w, i);
}

bool owner_is_used(const struct world *w, uint32_t process)
{
    for (uint32_t i = w->life->asks_open; i < w->life->asks_len; i++) {
        const struct sim_ask *k = &w->life->asks[i];
        if (k->process == process && k->state == ASK_THERE) return true;
    }
    return false;
}

void owner_event(struct world *w, const struct world_event *e)
{
    switch ((int)e->kind) {
    case LIFE_ASK_ARRIVES:
        arrives(w, e->a);
        break;
    case LIFE_ASK_ANSWERED:
        answered(w, e->a);
        break;
    case LIFE_ASK_TIMEOUT:
        give_up(w, e->a);
        break;
    case LIFE_ASK_CUT:
        cancel_waits(w, e->a);
        break;
    case LIFE_OWN:
        change_owner(w);
        break;
    default:
        CHECK((int)e->kind == LIFE_LEARN);
        learn(w, e->a / SIM_SHARDS_MAX, e->a % SIM_SHARDS_MAX);
        break;
    }
}
