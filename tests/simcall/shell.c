// SPDX-License-Identifier: Apache-2.0
// The simulated shell: it performs the effects of calls, at once or later, and reports their ends,
// at once or later. Only the effects of one call on one shard keep their order. A reply that comes
// while its call asks for effects can be reported between two of them.
#include "base/check.h"
#include "base/memory.h"
#include "check.h"

#include <inttypes.h>

static int64_t draw_delay(struct world *w)
{
    return rng_chance(&w->rng, w->life->delays) ? rng_range(&w->rng, 1, w->life->delay_ms) : 0;
}

static uint32_t action_new(struct world *w, uint32_t call, const struct call_effect *e,
                           uint32_t shard)
{
    struct life *life = w->life;
    if (life->actions_len % 256 == 0)
        life->actions =
            memory_resize(life->actions, (life->actions_len + 256) * sizeof *life->actions);
    life->actions[life->actions_len] = (struct action){.kind = e->kind,
                                                       .call = call,
                                                       .index = e->index,
                                                       .shard = shard,
                                                       .partner = NOT_INDEX,
                                                       .ask = NOT_INDEX,
                                                       .here = e->here,
                                                       .sync = e->sync};
    return life->actions_len++;
}

// Performs the action now, or plans it behind the others of its call in this shard.
static void plan(struct world *w, uint32_t action)
{
    const struct action *a = &w->life->actions[action];
    struct sim_call *c = call_at(w, a->call);
    int64_t at = w->now + draw_delay(w);
    if (at < c->due[a->shard]) at = c->due[a->shard];
    c->due[a->shard] = at;
    if (at == w->now && rng_chance(&w->rng, 8000)) {
        bool planned = false; // another action of this shard is planned for this moment
        for (uint32_t i = w->life->actions_open; i < action && !planned; i++)
            planned = w->life->actions[i].state == ACTION_PLANNED &&
                      w->life->actions[i].call == a->call && w->life->actions[i].shard == a->shard;
        if (!planned) {
            shell_perform(w, action);
            return;
        }
    }
    world_at(w, at, (enum world_event_kind)LIFE_PERFORM, action, 0);
}

static void plan_op(struct world *w, uint32_t call, const struct call_effect *e)
{
    struct sim_call *c = call_at(w, call);
    CHECK(e->index < c->ops_len);
    uint32_t shard = w->life->ops[c->ops[e->index]].shard;
    bool last = e->index + 1 == c->state.plan.ops && c->state.kind != STEP_CHANGE;
    if (last && c->state.plan.ops < c->ops_len) call_add_op(&c->state);
    uint32_t op = action_new(w, call, e, shard);
    if (e->kind == STEP_SUBMIT_JOINED) {
        uint32_t claim = action_new(w, call, &(struct call_effect){.kind = STEP_CLAIM}, 0);
        w->life->actions[op].partner = claim;
        w->life->actions[claim].partner = op;
        c->claim = claim;
    }
    plan(w, op);
}

static void withdraw(struct world *w, uint32_t call, const struct call_effect *e)
{
    struct sim_call *c = call_at(w, call);
    uint32_t action = e->kind == STEP_WITHDRAW_CLAIM ? c->claim : c->awaits[e->index];
    CHECK(action != NOT_INDEX);
    struct action *a = &w->life->actions[action];
    a->withdrawn = true;
    bool cancelled = submit_cancel(w, a, e->last);
    trace_line(&w->trace, w->now, "call %u: withdraw %s in shard %u: %s", call,
               e->kind == STEP_WITHDRAW_CLAIM ? "the claim" : "the await", e->index,
               cancelled ? "cancelled" : "too late");
    if (cancelled && e->kind == STEP_WITHDRAW_AWAIT) c->awaits[e->index] = NOT_INDEX;
    if (cancelled && e->kind == STEP_WITHDRAW_CLAIM) c->claim = NOT_INDEX;
    call_withdrawn(&c->state, e->index, cancelled);
}

static void keep_answer(struct world *w, struct sim_call *c)
{
    const struct call_result *r = &c->state.result;
    c->from = r->shard;
    if (r->from == STEP_FROM_NOTHING) return;
    uint32_t action = r->from == STEP_FROM_CLAIM    ? c->claim
                      : r->from == STEP_FROM_RECALL ? c->recalls[r->shard]
                                                    : c->awaits[r->shard];
    CHECK(action != NOT_INDEX);
    const struct action *a = &w->life->actions[action];
    CHECK((a->err != ERR_OK) == r->failed);
    c->err = a->err;
    if (a->err) return;
    c->refs_len = a->refs_len;
    for (uint32_t i = 0; i < a->refs_len; i++)
        c->refs[i] = a->refs[i];
    if (r->from == STEP_FROM_RECALL) w->life->figures[FIGURE_RECALLED]++;
}

static enum err first_error(struct world *w, const struct sim_call *c)
{
    enum err err = ERR_OK;
    for (uint32_t i = 0; !err && i < c->messages_len; i++)
        err = c->messages[i].err;
    for (uint32_t i = 0; !err && i < c->ops_len; i++)
        err = w->life->ops[c->ops[i]].err;
    return err;
}

// The next call with the same id in this process can begin.
static void pass_turn(struct world *w, const struct sim_call *c)
{
    for (uint32_t i = 0; i < w->life->calls_len; i++) {
        const struct sim_call *other = call_at(w, i);
        bool same = c->named && other->named && other->id == c->id && other->process == c->process;
        if (same && other->built && !other->has_turn) life_after(w, draw_delay(w), LIFE_TURN, i);
    }
}

static void answer(struct world *w, uint32_t call)
{
    struct sim_call *c = call_at(w, call);
    c->answers++;
    if (call_is_wait(c) && !c->build_fails) keep_answer(w, c);
    for (uint32_t i = 0; c->state.in_doubt && i < c->messages_len; i++)
        c->messages[i].err = err_repeated(c->messages[i].err);
    bool ops = c->state.kind < STEP_RECEIVE;
    if (ops && !c->build_fails) c->err = first_error(w, c);
    if (c->state.in_doubt) c->err = err_repeated(c->err);
    if (c->err == ERR_UNKNOWN) w->life->figures[FIGURE_UNKNOWN]++;
    trace_line(&w->trace, w->now, "call %u is answered: %s, %u messages", call, err_name(c->err),
               c->refs_len);
    check_answered(w, c);
    c->decided = true;
    pass_turn(w, c);
    client_answered(w, call);
}

static void do_effect(struct world *w, uint32_t call, const struct call_effect *e)
{
    struct sim_call *c = call_at(w, call);
    uint32_t action;
    switch (e->kind) {
    case STEP_SUBMIT:
    case STEP_SUBMIT_JOINED:
        plan_op(w, call, e);
        break;
    case STEP_CLAIM:
        check_has_turn(w, c);
        check_claim_starts(w, c);
        check_claim_again(w, c, e->index);
        c->claim_left = NOT_INDEX;
        c->claim = action_new(w, call, e, e->index);
        plan(w, c->claim);
        break;
    case STEP_LOOK:
        plan(w, action_new(w, call, e, e->index));
        break;
    case STEP_AWAIT:
        if (c->state.kind == STEP_RECEIVE) check_has_turn(w, c);
        c->awaits[e->index] =
            action_new(w, call, e, c->state.kind == STEP_LISTEN ? c->parts[e->index] : e->index);
        plan(w, c->awaits[e->index]);
        break;
    case STEP_RECALL:
        check_has_turn(w, c);
        c->recalls[e->index] = action_new(w, call, e, e->index);
        c->recalls_open++;
        plan(w, c->recalls[e->index]);
        break;
    case STEP_WITHDRAW_AWAIT:
    case STEP_WITHDRAW_CLAIM:
        withdraw(w, call, e);
        break;
    case STEP_ANSWER:
        answer(w, call);
        break;
    case STEP_PAUSE:
        c->paused = true;
        w->life->figures[FIGURE_PAUSED]++;
        life_after(w, rng_range(&w->rng, 1, 200), LIFE_RESUME, call);
        break;
    case STEP_FIND:
        life_after(w, draw_delay(w), LIFE_FOUND, call);
        break;
    case STEP_BUILD:
    case STEP_DELIVER:
    case STEP_NOTIFY:
        action = action_new(w, call, e, e->kind == STEP_BUILD ? 0 : e->index);
        plan(w, action);
        break;
    }
}

// It waits for messages and for nothing else.
static bool only_waits(const struct world *w, const struct sim_call *c)
{
    bool waits = false;
    for (uint32_t i = 0; i < w->life->shards; i++) {
        if (c->told[i]) return false;
        bool open =
            c->awaits[i] != NOT_INDEX && w->life->actions[c->awaits[i]].state != ACTION_OVER;
        waits = waits || open;
    }
    return waits && !c->state.finding && c->recalls_open == 0 && c->state.ops_open == 0 &&
           (c->claim == NOT_INDEX || w->life->actions[c->claim].state == ACTION_OVER);
}

static void report(struct world *w, struct action *a);
static void note_found(struct world *w, struct sim_call *c);

// Another thread reports an event of the call, or its client gives up.
static void between_effects(struct world *w, uint32_t call)
{
    struct sim_call *c = call_at(w, call);
    if (!rng_chance(&w->rng, w->life->between)) return;
    if (rng_chance(&w->rng, w->life->cancels / 4)) shell_cancel(w, call);
    for (uint32_t i = w->life->actions_open; i < w->life->actions_len; i++) {
        struct action *a = &w->life->actions[i];
        if (a->call != call || a->state != ACTION_REPLIED) continue;
        report(w, a);
        break;
    }
    CHECK(c->pumping);
}

void shell_pump(struct world *w, uint32_t call)
{
    struct sim_call *c = call_at(w, call);
    struct call_effect e;
    CHECK(!c->lost && !c->pumping);
    c->pumping = true;
    while (!w->findings.broken && call_next(&c->state, &e)) {
        do_effect(w, call, &e);
        if (!w->findings.broken) between_effects(w, call);
    }
    c->pumping = false;
    if (only_waits(w, c)) c->waited = true;
}

static void take_events(struct world *w, struct sim_call *c)
{
    const struct call_result *r = &c->state.result;
    if (r->from != STEP_FROM_AWAIT || r->failed) return;
    struct shard *s = w->life->handles[process_node(w, c->process, r->shard)->index];
    c->taken = shard_events(s)->len;
    w->life->figures[FIGURE_EVENTS] += c->taken;
    shard_events_taken(s);
}

static void perform_here(struct world *w, struct action *a)
{
    struct sim_call *c = call_at(w, a->call);
    struct node *n;
    a->state = ACTION_OVER;
    switch (a->kind) {
    case STEP_BUILD:
        build_call(w, a->call);
        break;
    case STEP_DELIVER:
        c->decided = true;
        pass_turn(w, c);
        if (c->state.kind == STEP_FOLLOW) take_events(w, c);
        call_delivered(&c->state);
        break;
    case STEP_NOTIFY:
        n = process_node(w, c->process, a->shard);
        trace_line(&w->trace, w->now, "call %u: notify the next waiter of shard %u", a->call,
                   a->shard);
        c->told[a->shard] = false;
        w->life->figures[FIGURE_NOTIFIED]++;
        shard_notify_next(w->life->handles[n->index], node_now(n));
        node_settle(w, n);
        break;
    default:
        CHECK(false);
    }
}

void shell_perform(struct world *w, uint32_t action)
{
    struct action *a = &w->life->actions[action];
    const struct sim_call *c = call_at(w, a->call);
    uint32_t call = a->call;
    if (c->lost || a->state != ACTION_PLANNED) return; // it was withdrawn
    bool here = a->kind == STEP_BUILD || a->kind == STEP_DELIVER || a->kind == STEP_NOTIFY;
    if (here)
        perform_here(w, a);
    else
        submit_action(w, action);
    if (here && !c->pumping && !w->findings.broken) shell_pump(w, call);
}

void keep_reply(struct action *a, const struct shard_reply *r)
{
    struct result result;
    struct send_row row;
    a->state = ACTION_REPLIED;
    a->err = r->err;
    a->has_body = r->body.len > 0;
    bool op = a->kind == STEP_SUBMIT || a->kind == STEP_SUBMIT_JOINED;
    if (op && a->has_body && !result_open(r->body, OP_SEND, &result)) {
        for (uint32_t i = 0; i < SIM_REFS_MAX; i++)
            a->rows[i] = result.reason;
        while (a->rows_len < SIM_REFS_MAX && send_row_next(&result, &row))
            a->rows[a->rows_len++] = row.reason;
    }
    CHECK(r->deliveries_len <= SIM_REFS_MAX);
    for (size_t i = 0; i < r->deliveries_len; i++)
        a->refs[a->refs_len++] = (struct lock_ref){.seq = r->deliveries[i].grant.seq,
                                                   .token = r->deliveries[i].grant.token};
    a->heard = r->signals_len > 0;
    for (size_t i = 0; i < r->signals_len; i++)
        if (a->kind == STEP_AWAIT && r->signals[i].reason != REASON_NONE)
            a->gone[a->gone_len++] = r->signals[i].index;
}

void shell_heard(struct world *w, const struct node *n, const struct shard_reply *r)
{
    if (r->ticket >= ASK_TICKETS) {
        served_reply(w, r);
        return;
    }
    struct action *a = &w->life->actions[r->ticket - 1];
    CHECK(r->ticket <= w->life->actions_len && a->state == ACTION_OPEN);
    CHECK(!call_at(w, a->call)->lost);
    keep_reply(a, r);
    check_reply(w, a);
    check_cancelled(w, a, n);
    shell_ended(w, (uint32_t)r->ticket - 1, true);
}

void shell_ended(struct world *w, uint32_t action, bool now)
{
    struct action *a = &w->life->actions[action];
    int64_t delay = draw_delay(w);
    a->state = ACTION_REPLIED;
    if (now && call_at(w, a->call)->pumping && delay == 0 && rng_chance(&w->rng, 7000))
        report(w, a);
    else
        world_at(w, w->now + delay, (enum world_event_kind)LIFE_REPORT, action, 0);
}

void shell_found(struct world *w, uint32_t call)
{
    struct sim_call *c = call_at(w, call);
    if (c->lost) return;
    owner_find(w, c->process);
    call_found(&c->state);
    shell_pump(w, call);
}

void shell_reroute(struct world *w, uint32_t process)
{
    for (uint32_t i = w->life->calls_open; i < w->life->calls_len && !w->findings.broken; i++) {
        struct sim_call *c = call_at(w, i);
        bool listens = c->state.kind == STEP_LISTEN && !c->answers && !c->unwanted_at;
        if (c->process != process || c->lost || !(call_waits(c) || listens)) continue;
        w->life->figures[FIGURE_REROUTED]++;
        note_found(w, c);
        call_reroute(&c->state);
        shell_pump(w, i);
    }
}

enum call_find_end find_end(const struct action *a)
{
    bool nothing = !a->err && a->refs_len == 0;
    if (a->kind == STEP_AWAIT) nothing = a->err == ERR_NOT_FOUND && !a->has_body;
    if (a->kind == STEP_RECALL) nothing = a->err ? a->err == ERR_CORRUPT : !a->has_body;
    return nothing ? STEP_NOTHING : a->err ? STEP_FAILED : STEP_FOUND;
}

static void report_op(struct world *w, struct sim_call *c, const struct action *a)
{
    struct sim_op *op = &w->life->ops[c->ops[a->index]];
    op->at_owner = a->ask != NOT_INDEX;
    op->remembered = op->at_owner && w->life->asks[a->ask].remembered;
    if (!call_op_ended(&c->state, a->index, op_end(op, a))) return;
    op_concluded(w, op, a);
    check_op_over(w, op);
    if (c->state.kind != STEP_CHANGE || w->findings.broken) return;
    if (op->err)
        c->ops_len = op->index + 1; // an error ends the change
    else if (c->state.plan.ops < c->ops_len)
        call_add_op(&c->state);
}

// The wait of the receive ends: from here on it must know what the folds of its process know.
static void note_found(struct world *w, struct sim_call *c)
{
    bool waited = c->waited;
    c->waited = false;
    for (uint32_t i = 0; waited && c->named && i < w->life->shards; i++) {
        struct shard *s = w->life->handles[process_node(w, c->process, i)->index];
        if (fold_has_answer(w, s, c->id)) c->had_answer = true;
    }
}

// The owner gave no result.
static void report_left(struct world *w, struct sim_call *c, const struct action *a)
{
    owner_left(w, a);
    if (a->kind == STEP_AWAIT) {
        c->awaits[a->index] = NOT_INDEX;
        note_found(w, c);
        call_await_returned(&c->state, a->index, a->left);
    } else if (a->kind == STEP_CLAIM) {
        c->told[a->shard] = w->life->shards > 1; // it claims again
        c->claim_left = a->shard;
        call_claim_returned(&c->state, a->shard, a->left);
    } else {
        call_op_returned(&c->state, a->index, a->left);
    }
}

// The end of a claim or await. The owner's part of the wait may be over.
static enum call_find_end wait_end(struct world *w, const struct sim_call *c,
                                   const struct action *a)
{
    enum call_find_end end = find_end(a);
    return end == STEP_NOTHING && a->slice && w->now < c->until ? STEP_AGAIN : end;
}

static void report_await(struct world *w, struct sim_call *c, const struct action *a)
{
    enum call_find_end end = wait_end(w, c, a);
    bool receives = c->state.kind == STEP_RECEIVE;
    if (end == STEP_NOTHING || (end == STEP_FOUND && receives)) c->awaits[a->index] = NOT_INDEX;
    if (end == STEP_AGAIN) c->awaits[a->index] = NOT_INDEX;
    if (receives) c->told[a->shard] = end == STEP_FOUND;
    bool early = end == STEP_NOTHING && a->withdrawn; // it is made again
    if (receives && (end == STEP_FOUND || end == STEP_AGAIN || early)) note_found(w, c);
    if (c->state.kind == STEP_LISTEN && end == STEP_FOUND) check_heard(w, a);
    call_awaited(&c->state, a->index, end);
}

static const char *end_name(const struct action *a)
{
    static const char *const names[] = {[STEP_UNDONE] = "undone at the owner",
                                        [STEP_DOUBTED] = "in doubt at the owner",
                                        [STEP_MOVED] = "moved"};
    return a->left ? names[a->left] : err_name(a->err);
}

static void report(struct world *w, struct action *a)
{
    struct sim_call *c = call_at(w, a->call);
    CHECK(a->state == ACTION_REPLIED);
    a->state = ACTION_OVER;
    trace_line(&w->trace, w->now, "call %u hears: %s %u in shard %u: %s, %u messages", a->call,
               a->kind == STEP_CLAIM    ? "claim"
               : a->kind == STEP_AWAIT  ? "await"
               : a->kind == STEP_RECALL ? "recall"
               : a->kind == STEP_LOOK   ? "look"
                                        : "op",
               a->index, a->shard, end_name(a), a->refs_len);
    if (a->left) {
        report_left(w, c, a);
        return;
    }
    switch (a->kind) {
    case STEP_SUBMIT:
    case STEP_SUBMIT_JOINED:
        report_op(w, c, a);
        break;
    case STEP_CLAIM:
        call_claimed(&c->state, a->shard, wait_end(w, c, a), w->now >= c->until);
        break;
    case STEP_AWAIT:
        report_await(w, c, a);
        break;
    case STEP_LOOK:
        check_looked(w, c, a);
        c->looked++;
        c->err = a->err;
        call_looked(&c->state, a->err || c->looked == c->looks_max);
        break;
    case STEP_RECALL:
        c->recalls_open--;
        call_recalled(&c->state, a->shard, find_end(a));
        break;
    default:
        CHECK(false);
    }
}

void shell_report(struct world *w, uint32_t action)
{
    struct action *a = &w->life->actions[action];
    uint32_t call = a->call;
    if (call_at(w, call)->lost || a->state != ACTION_REPLIED) return;
    report(w, a);
    if (!w->findings.broken) shell_pump(w, call);
}

void shell_resume(struct world *w, uint32_t call)
{
    struct sim_call *c = call_at(w, call);
    if (c->lost || !c->paused) return;
    bool last = w->now >= c->until || w->life->process[c->process].closing;
    c->paused = false;
    trace_line(&w->trace, w->now, "call %u goes on%s", call, last ? " for the last time" : "");
    call_resumed(&c->state, last);
    shell_pump(w, call);
}

void shell_cancel(struct world *w, uint32_t call)
{
    struct sim_call *c = call_at(w, call);
    if (c->lost || c->state.kind < STEP_RECEIVE || call_is_over(&c->state)) return;
    if (!c->unwanted_at) w->life->figures[FIGURE_CANCELLED]++;
    if (!c->unwanted_at) c->unwanted_at = w->now;
    trace_line(&w->trace, w->now, "call %u is cancelled", call);
    call_cancel(&c->state);
    if (!c->pumping) shell_pump(w, call);
}

void shell_take_turn(struct world *w, uint32_t call)
{
    struct sim_call *c = call_at(w, call);
    if (c->lost || c->has_turn || !c->built) return;
    for (uint32_t i = 0; i < w->life->calls_len; i++) {
        const struct sim_call *other = call_at(w, i);
        bool same = other->named && other->id == c->id && other->process == c->process;
        if (same && !other->lost && other->built && other->built < c->built && !other->decided)
            return;
    }
    c->has_turn = true;
    trace_line(&w->trace, w->now, "call %u has its turn", call);
    call_has_turn(&c->state);
    shell_pump(w, call);
}

void call_drop(struct call_state *c)
{
    memory_free(c->ops);
    memory_free(c->shards);
    c->ops = NULL;
    c->shards = NULL;
}

void shell_lost(struct world *w, uint32_t process)
{
    owner_crashed(w, process);
    for (uint32_t i = w->life->actions_open; i < w->life->actions_len; i++)
        if (call_at(w, w->life->actions[i].call)->process == process)
            w->life->actions[i].state = ACTION_OVER;
    for (uint32_t i = 0; i < w->life->calls_len; i++) {
        struct sim_call *c = call_at(w, i);
        if (c->process != process || c->lost || call_is_over(&c->state)) continue;
        c->lost = true;
        call_drop(&c->state);
    }
}

void shell_done(struct world *w)
{
    for (uint32_t i = 0; i < w->life->calls_len; i++) {
        struct sim_call *c = call_at(w, i);
        if (!c->lost) call_done(&c->state);
    }
}
