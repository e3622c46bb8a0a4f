// SPDX-License-Identifier: Apache-2.0
// Shards with an owner: another process of the world, whose shard does what is asked of it. A
// request can be refused, lost or late. Its answer can be lost. The owner can crash, close or be
// replaced meanwhile. What a process knows of the owner can be old. This is the side of the caller,
// in the product ops/forward.c and ops/awaits.c. served.c is the owner's.
#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "check.h"
#include "cluster/op_route.h"

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

static enum op_route_owner state_of(const struct world *w, uint32_t process, uint32_t shard)
{
    const struct sim_belief *b = &w->life->process[process].owners[shard];
    if (!w->life->owned || b->owner == NOT_INDEX) return OP_ROUTE_OWNER_NONE;
    if (b->owner == process) return OP_ROUTE_OWNER_SELF;
    return w->now < b->away_until ? OP_ROUTE_OWNER_AWAY : OP_ROUTE_OWNER_PROVEN;
}

bool owner_is_away(struct world *w, uint32_t process, uint32_t shard)
{
    return state_of(w, process, shard) == OP_ROUTE_OWNER_PROVEN;
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

static void add_part(struct world *w, uint32_t ask, uint32_t action, enum call_effect_kind kind)
{
    struct sim_ask *k = &w->life->asks[ask];
    CHECK(k->parts_len < SIM_SHARDS_MAX);
    k->actions[k->parts_len] = action;
    k->parts[k->parts_len++] =
        (struct action){.kind = kind, .call = k->call, .shard = w->life->actions[action].shard};
}

static uint32_t ask_new(struct world *w, uint32_t action, uint32_t process)
{
    struct life *life = w->life;
    const struct action *a = &life->actions[action];
    const struct sim_call *c = call_at(w, a->call);
    bool op = a->kind == STEP_SUBMIT || a->kind == STEP_SUBMIT_JOINED;
    if (life->asks_len % 256 == 0)
        life->asks = memory_resize(life->asks, (life->asks_len + 256) * sizeof *life->asks);
    uint32_t ask = life->asks_len++;
    life->asks[ask] = (struct sim_ask){.caller = c->process,
                                       .process = process,
                                       .call = a->call,
                                       .op = op ? c->ops[a->index] : NOT_INDEX,
                                       .until = w->now};
    add_part(w, ask, action, a->kind);
    bool joined = a->partner != NOT_INDEX && life->actions[a->partner].state == ACTION_PLANNED;
    if (op && joined) add_part(w, ask, a->partner, STEP_CLAIM);
    return ask;
}

// A longer wait is made in parts.
static void set_wait(struct world *w, struct sim_ask *k)
{
    const struct sim_call *c = call_at(w, k->call);
    struct action *last = &w->life->actions[k->actions[k->parts_len - 1]];
    bool claims = last->kind == STEP_CLAIM && w->life->shards == 1;
    k->waits = claims || last->kind == STEP_AWAIT;
    if (!k->waits || c->until <= w->now) return;
    int64_t most = w->now + w->life->ask_part_ms;
    k->until = c->until < most ? c->until : most;
    last->slice = c->until > k->until;
}

static void send(struct world *w, uint32_t ask)
{
    struct sim_ask *k = &w->life->asks[ask];
    enum fate fate = draw_fate(w);
    k->opening = false;
    int64_t give_up = k->until - w->now + w->life->ask_ms;
    int64_t arrives = draw_latency(w);
    trace_line(&w->trace, w->now, "  asks p%u (request %u, fate %u)", k->process, ask, fate);
    if (fate == FATE_LATE) arrives = give_up + rng_range(&w->rng, 1, 2 * SECOND);
    if (fate == FATE_RESET) give_up = rng_range(&w->rng, 1, 2 * arrives);
    if (fate == FATE_ANSWER_LOST) k->answer_lost = true;
    k->lie = draw_lie(w, ask);
    k->lies_moved = k->lie == LIE_MOVED;
    if (fate == FATE_LOST || fate == FATE_UNDONE)
        k->state = ASK_OVER;
    else
        life_after(w, arrives, LIFE_ASK_ARRIVES, ask);
    life_after(w, fate == FATE_UNDONE ? arrives : give_up, LIFE_ASK_TIMEOUT, ask);
    for (uint32_t i = 0; fate == FATE_UNDONE && i < k->parts_len; i++)
        if (k->actions[i] != NOT_INDEX) w->life->actions[k->actions[i]].left = STEP_UNDONE;
}

// An await joins a request that is about to be sent to the same owner.
static bool join(struct world *w, uint32_t action, uint32_t process)
{
    struct life *life = w->life;
    struct action *a = &life->actions[action];
    for (uint32_t i = life->asks_open; i < life->asks_len; i++) {
        struct sim_ask *k = &life->asks[i];
        if (!k->opening || k->call != a->call || k->process != process) continue;
        add_part(w, i, action, a->kind);
        a->state = ACTION_OPEN;
        a->ask = i;
        a->slice = call_at(w, a->call)->until > k->until;
        return true;
    }
    return false;
}

bool owner_ask(struct world *w, uint32_t action)
{
    struct life *life = w->life;
    const struct action *a = &life->actions[action];
    struct sim_call *c = call_at(w, a->call);
    if (!life->owned || a->kind == STEP_RECALL) return false;
    bool large = rng_chance(&w->rng, 200), foreign = rng_chance(&w->rng, 200);
    struct op_route_facts facts = {.owner = state_of(w, c->process, a->shard),
                                   .here = a->here,
                                   .has_token = foreign,
                                   .bytes = large ? OP_ROUTE_BYTES_MAX + 1 : 0};
    if (op_route_decide(&facts) != OP_ROUTE_AT_OWNER) return false;
    life->figures[FIGURE_ASKED]++;
    uint32_t process = life->process[c->process].owners[a->shard].owner;
    // A receive that does not wait must know of each shard whether it has something now.
    bool polls = a->kind == STEP_AWAIT && c->state.kind == STEP_RECEIVE && c->until > w->now;
    if (polls && join(w, action, process)) return true;
    uint32_t ask = ask_new(w, action, process);
    struct sim_ask *k = &life->asks[ask];
    for (uint32_t i = 0; i < k->parts_len; i++) {
        life->actions[k->actions[i]].state = ACTION_OPEN;
        life->actions[k->actions[i]].ask = ask;
        if (k->parts[i].kind != STEP_CLAIM) continue;
        c->told[a->shard] = false;
        life->claimed[process_node(w, c->process, a->shard)->index] = true;
    }
    if (k->op != NOT_INDEX) {
        life->ops[k->op].submits++;
        c->went_away = true;
        check_submitted(w, &life->ops[k->op]);
    }
    set_wait(w, k);
    k->opening = polls && rng_chance(&w->rng, 7000);
    if (k->opening)
        life_after(w, rng_range(&w->rng, 0, 5), LIFE_ASK_SEND, ask);
    else
        send(w, ask);
    return true;
}

// A part of the request has a result at the owner, or none.
static void end_part(struct world *w, uint32_t ask, uint32_t part, enum call_return left)
{
    const struct sim_ask *k = &w->life->asks[ask];
    struct action *a = &w->life->actions[k->actions[part]];
    const struct action *r = &k->parts[part];
    CHECK(a->state == ACTION_OPEN && a->ask == ask);
    a->left = left;
    bool decided = r->err == ERR_OK || r->has_body;
    if (a->kind == STEP_AWAIT) decided = decided || r->err == ERR_NOT_FOUND;
    if (!left && !decided)
        a->left = r->err == ERR_UNKNOWN || r->err == ERR_CORRUPT ? STEP_DOUBTED : STEP_UNDONE;
    if (k->parts_len > 1 && a->kind == STEP_AWAIT) a->slice = true; // another shard ended the wait
    a->err = r->err;
    a->has_body = r->has_body;
    a->rows_len = r->rows_len;
    a->refs_len = r->refs_len;
    memcpy(a->rows, r->rows, sizeof a->rows);
    memcpy(a->refs, r->refs, sizeof a->refs);
    a->heard = r->heard;
    a->gone_len = r->gone_len;
    memcpy(a->gone, r->gone, sizeof a->gone);
    a->state = ACTION_REPLIED;
}

// The caller has the end of its request.
static void end_for_caller(struct world *w, uint32_t ask, enum call_return left)
{
    struct sim_ask *k = &w->life->asks[ask];
    uint32_t parts = k->parts_len;
    k->ended = true;
    for (uint32_t i = 0; left == STEP_MOVED && i < parts; i++)
        w->life->process[k->caller].owners[k->parts[i].shard].owner = NOT_INDEX;
    for (uint32_t i = 0; i < parts; i++)
        if (k->actions[i] != NOT_INDEX) end_part(w, ask, i, left);
    for (uint32_t i = 0; i < parts && !w->findings.broken; i++) {
        uint32_t action = w->life->asks[ask].actions[i];
        bool replied = action != NOT_INDEX && w->life->actions[action].state == ACTION_REPLIED;
        if (replied) shell_ended(w, action, true);
    }
}

void owner_left(struct world *w, const struct action *a)
{
    struct sim_call *c = call_at(w, a->call);
    CHECK(a->ask != NOT_INDEX && a->left != STEP_RESULT);
    if (a->left == STEP_DOUBTED) w->life->figures[FIGURE_DOUBTED]++;
    if (a->left == STEP_MOVED) w->life->figures[FIGURE_MOVED]++;
    if (a->kind == STEP_CLAIM && a->left == STEP_DOUBTED) c->claim_doubted = true;
    if (a->kind != STEP_SUBMIT && a->kind != STEP_SUBMIT_JOINED) return;
    struct sim_op *op = &w->life->ops[w->life->asks[a->ask].op];
    op->submits--;
    op->lefts++;
    op->doubted = op->doubted || a->left == STEP_DOUBTED;
    check_left(w, op);
}

void owner_answers(struct world *w, uint32_t ask)
{
    struct sim_ask *k = &w->life->asks[ask];
    if (!k->answer_lost) {
        life_after(w, draw_latency(w), LIFE_ASK_ANSWERED, ask);
        return;
    }
    k->state = ASK_OVER;
    if (rng_chance(&w->rng, 5000)) served_lost(w, ask);
}

static void arrives(struct world *w, uint32_t ask)
{
    struct sim_ask *k = &w->life->asks[ask];
    const struct node *n = process_node(w, k->process, k->parts[0].shard);
    if (n->up && w->now < n->paused_until) {
        life_after(w, 20, LIFE_ASK_ARRIVES, ask);
        return;
    }
    if (!n->up) { // the connection is refused
        k->state = ASK_OVER;
        if (!k->ended) end_for_caller(w, ask, STEP_UNDONE);
        return;
    }
    k->state = ASK_THERE;
    k->life = n->life;
    if (k->ended) life_after(w, draw_latency(w), LIFE_ASK_CUT, ask);
    served_arrives(w, ask);
}

// The caller cannot read the answer. What was announced in it is announced to another waiter soon.
static void end_unread(struct world *w, uint32_t ask)
{
    if (w->life->asks[ask].parts[0].kind == STEP_AWAIT) served_lost(w, ask);
    end_for_caller(w, ask, STEP_DOUBTED);
}

static void answered(struct world *w, uint32_t ask)
{
    struct sim_ask *k = &w->life->asks[ask];
    if (k->state != ASK_THERE) return; // the owner has crashed
    k->state = ASK_OVER;
    if (!k->ended && k->lie == LIE_BYTES)
        end_unread(w, ask);
    else if (!k->ended)
        end_for_caller(w, ask, k->served.moved ? STEP_MOVED : STEP_RESULT);
    else
        served_lost(w, ask);
}

// The caller waits no longer.
static void give_up(struct world *w, uint32_t ask)
{
    const struct sim_ask *k = &w->life->asks[ask];
    if (k->ended) return;
    int64_t away_until = w->now + rng_range(&w->rng, 0, SECOND);
    bool undone = false;
    for (uint32_t i = 0; i < k->parts_len; i++) {
        w->life->process[k->caller].owners[k->parts[i].shard].away_until = away_until;
        uint32_t action = k->actions[i];
        undone = undone || (action != NOT_INDEX && w->life->actions[action].left == STEP_UNDONE);
    }
    if (k->state == ASK_THERE) life_after(w, draw_latency(w), LIFE_ASK_CUT, ask);
    end_for_caller(w, ask, undone ? STEP_UNDONE : STEP_DOUBTED);
}

static void drop_opening(struct sim_ask *k)
{
    k->opening = false;
    k->state = ASK_OVER;
}

bool owner_cancel(struct world *w, struct action *a)
{
    uint32_t ask = a->ask;
    struct sim_ask *k = &w->life->asks[ask];
    CHECK(!k->ended && a->kind != STEP_SUBMIT && a->kind != STEP_SUBMIT_JOINED);
    bool others = false; // awaits that share the request
    for (uint32_t i = 0; i < k->parts_len; i++) {
        if (k->actions[i] == NOT_INDEX) continue;
        if (&w->life->actions[k->actions[i]] == a && a->kind == STEP_AWAIT)
            k->actions[i] = NOT_INDEX;
        else
            others = others || k->parts[i].kind == STEP_AWAIT;
    }
    a->state = ACTION_OVER;
    if (others) return true;
    k->ended = true;
    if (k->opening) drop_opening(k);
    if (a->kind == STEP_CLAIM) call_at(w, a->call)->claim_doubted = true;
    if (k->state == ASK_THERE) life_after(w, draw_latency(w), LIFE_ASK_CUT, ask);
    if (a->kind == STEP_AWAIT || k->parts_len == 1) return true;
    w->life->actions[k->actions[0]].left = STEP_DOUBTED; // the op may have been done
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
            served_drop(k);
            if (!w->findings.broken) life_after(w, draw_latency(w), LIFE_ASK_TIMEOUT, i);
        }
        if (k->caller != process || k->ended) continue;
        k->ended = true;
        if (k->opening) drop_opening(k);
        if (k->state == ASK_THERE && !w->findings.broken)
            life_after(w, draw_latency(w), LIFE_ASK_CUT, i);
    }
}

void owner_event(struct world *w, const struct world_event *e)
{
    switch ((int)e->kind) {
    case LIFE_ASK_SEND:
        if (w->life->asks[e->a].opening) send(w, e->a);
        break;
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
        served_cancel(w, e->a);
        break;
    case LIFE_ANNOUNCEMENT:
        served_announce(w, e);
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
