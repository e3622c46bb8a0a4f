// SPDX-License-Identifier: Apache-2.0
#include "call/step.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "call/parts.h"

#include <stddef.h>

#define MOVES_MAX 2 // after this many, the call stays here

void call_init(struct call_state *c, enum call_kind kind)
{
    *c = (struct call_state){.kind = kind};
}

static void free_parts(struct call_state *c)
{
    memory_free(c->ops);
    memory_free(c->shards);
    c->ops = NULL;
    c->shards = NULL;
}

void call_done(struct call_state *c)
{
    CHECK(c->phase == STEP_PHASE_NEW || call_is_over(c));
    free_parts(c);
}

void call_built(struct call_state *c, const struct call_plan *plan)
{
    CHECK(c->phase == STEP_PHASE_BUILDING);
    CHECK(plan->ops == 0 || plan->at_once > 0);
    CHECK(plan->ops > 0 || c->kind >= STEP_RECEIVE);
    CHECK(c->kind == STEP_SERVED || (plan->shards > 0) == (c->kind >= STEP_RECEIVE));
    CHECK(plan->ops + plan->shards > 0 && plan->first_shard <= plan->shards);
    CHECK(!plan->likely || (c->kind == STEP_RECEIVE && plan->shards > 1));
    CHECK(!plan->all || c->kind == STEP_LISTEN);
    CHECK(!plan->joined || (plan->ops == 1 && plan->shards == 1));
    CHECK(!plan->awaits_only || (c->kind == STEP_SERVED && plan->ops == 0));
    CHECK(c->kind != STEP_SERVED || plan->shards <= 1 || plan->awaits_only);
    free_parts(c);
    c->phase = STEP_PHASE_BUILT;
    c->plan = *plan;
    c->ops_next = 0;
    c->full = false;
    c->has_turn = plan->has_turn;
    if (plan->ops > 0) c->ops = memory_zeroed(plan->ops, sizeof *c->ops);
    c->shard_next = plan->first_shard;
    bool waits = c->kind == STEP_FOLLOW || c->kind == STEP_LISTEN || plan->awaits_only;
    if (waits || (c->kind == STEP_RECEIVE && plan->shards > 1))
        c->shards = memory_zeroed(plan->shards, sizeof *c->shards);
    for (uint32_t i = 0; c->shards && i < plan->shards; i++)
        if (i == plan->first_shard || !MUTANT(CALL_AWAIT_FIRST)) c->shards[i].await = AWAIT_WANTED;
    if (plan->likely) c->shards[plan->first_shard] = (struct call_shard){.found = true};
}

void call_failed(struct call_state *c)
{
    CHECK(c->phase == STEP_PHASE_BUILDING);
    c->undone = c->kind == STEP_SERVED;
    c->phase = STEP_PHASE_ENDING;
}

void call_moved(struct call_state *c)
{
    CHECK(c->kind == STEP_SERVED);
    call_failed(c);
    c->undone = c->moved = !MUTANT(CALL_SERVED_MOVED);
}

bool call_stays_here(struct call_state *c, enum call_return how)
{
    CHECK(how != STEP_RESULT);
    if (how != STEP_MOVED || c->moves == MOVES_MAX) return true;
    c->moves++;
    c->finds = true;
    return false;
}

// A claim that no caller repeats leaves no doubt: its locks are given back, or they expire.
void call_claim_returned(struct call_state *c, uint32_t shard, enum call_return how)
{
    CHECK(c->claims && shard < c->plan.shards && !c->claim_here);
    c->claims = false;
    c->withdrawn = false;
    if (!c->shards) c->reroutes = false; // the next claim goes to the present owner
    c->claim_here = call_stays_here(c, how);
    c->in_doubt = c->in_doubt || (how == STEP_DOUBTED && c->plan.named);
    if (!c->shards) return;
    c->shards[shard].found = true;
    c->shards[shard].returned = true; // a claim in another shard could lock other messages too
}

void call_await_returned(struct call_state *c, uint32_t shard, enum call_return how)
{
    CHECK(c->shards && shard < c->plan.shards && c->awaits > 0);
    struct call_shard *p = &c->shards[shard];
    CHECK(p->await >= AWAIT_OPEN);
    bool again = c->phase == STEP_PHASE_BUILT && !c->unwanted;
    if (MUTANT(CALL_MOVED_LOST) && how == STEP_MOVED) again = false;
    p->await = again ? AWAIT_WANTED : AWAIT_NONE;
    p->here = call_stays_here(c, how);
    c->awaits--;
}

void call_found(struct call_state *c)
{
    CHECK(c->finding);
    c->finding = false;
}

void call_find_owners(struct call_state *c)
{
    CHECK(c->moves <= MOVES_MAX);
    if (c->phase == STEP_PHASE_BUILT) c->finds = true;
}

void call_reroute(struct call_state *c)
{
    bool waits = c->kind == STEP_RECEIVE || c->kind == STEP_LISTEN;
    if (waits && c->phase == STEP_PHASE_BUILT) c->reroutes = true;
}

void call_resumed(struct call_state *c, bool last)
{
    CHECK(c->phase == STEP_PHASE_PAUSED);
    c->plan.behind = false;
    c->last = last;
    if (!c->full)
        c->phase = STEP_PHASE_BUILT; // it waited behind others, and was not tried yet
    else
        c->phase = last ? STEP_PHASE_ENDING : STEP_PHASE_NEW;
}

static void decide(struct call_state *c, enum call_source from, bool failed, uint32_t shard)
{
    CHECK(c->phase == STEP_PHASE_BUILT && !c->claims && c->recalls == 0);
    c->result = (struct call_result){from, failed, shard};
    c->undone = c->kind == STEP_SERVED && c->unwanted && from == STEP_FROM_NOTHING;
    c->phase = STEP_PHASE_DECIDED;
}

void call_awaited(struct call_state *c, uint32_t shard, enum call_find_end end)
{
    CHECK(c->shards && shard < c->plan.shards && c->awaits > 0);
    struct call_shard *p = &c->shards[shard];
    CHECK(p->await >= AWAIT_OPEN);
    // An await that is withdrawn too late may end at once.
    bool early = end == STEP_NOTHING && p->await == AWAIT_WITHDRAWN;
    bool again = (end == STEP_AGAIN || early) && c->phase == STEP_PHASE_BUILT && !c->unwanted;
    p->await = again ? AWAIT_WANTED : AWAIT_NONE;
    p->found = end == STEP_FOUND;
    p->here = false;
    c->awaits--;
    if (end != STEP_FAILED || c->failed) return;
    c->failed = true;
    c->failed_at = shard;
}

void call_claimed(struct call_state *c, uint32_t shard, enum call_find_end end, bool over)
{
    CHECK(c->claims && shard < c->plan.shards);
    c->claims = false;
    if (MUTANT(CALL_CLAIM_DROPPED) && c->unwanted) end = STEP_NOTHING;
    // A claim that is withdrawn too late ends soon. It was withdrawn to be made at another node.
    bool early = end == STEP_NOTHING && c->withdrawn && c->reroutes;
    c->withdrawn = c->claim_here = false;
    if (!c->shards) c->reroutes = false;
    if ((end == STEP_AGAIN || early) && !over && !c->unwanted) {
        CHECK(!c->shards);
        return;
    }
    if (end == STEP_FOUND || end == STEP_FAILED)
        decide(c, STEP_FROM_CLAIM, end == STEP_FAILED, shard);
    else if (!c->shards)
        decide(c, STEP_FROM_NOTHING, false, shard);
    else if (!over && !MUTANT(CALL_RACE_ENDS)) // another receive claimed the message first
        c->shards[shard].await = AWAIT_WANTED;
}

// The place of a shard in the order in which this receive prefers them.
static uint32_t rank_of(const struct call_state *c, uint32_t shard)
{
    CHECK(shard < c->plan.shards);
    return (shard + c->plan.shards - c->plan.first_shard) % c->plan.shards;
}

void call_recalled(struct call_state *c, uint32_t shard, enum call_find_end end)
{
    CHECK(c->in_round && c->recalls > 0 && shard < c->plan.shards);
    c->recalls--;
    bool found = end == STEP_FOUND;
    bool better = !c->has_recalled || (found && c->recall_failed) ||
                  (found && rank_of(c, shard) < rank_of(c, c->recalled_at));
    if (MUTANT(CALL_RECALL_ANY)) better = true;
    if (end == STEP_NOTHING || !better) return;
    c->has_recalled = true;
    c->recall_failed = !found;
    c->recalled_at = shard;
}

void call_withdrawn(struct call_state *c, uint32_t shard, bool cancelled)
{
    CHECK(shard < c->plan.shards);
    if (!cancelled) return;
    bool again = c->reroutes && !c->unwanted && c->phase == STEP_PHASE_BUILT;
    if (MUTANT(CALL_REROUTE_ENDS)) again = false;
    if (!c->shards) {
        CHECK(c->claims);
        c->claims = c->withdrawn = c->claim_here = c->reroutes = false;
        if (!again) decide(c, STEP_FROM_NOTHING, false, shard);
        return;
    }
    struct call_shard *p = &c->shards[shard];
    CHECK(p->await > AWAIT_OPEN && c->awaits > 0);
    p->await = again ? AWAIT_WANTED : AWAIT_NONE;
    p->here = false;
    c->awaits--;
}

void call_looked(struct call_state *c, bool enough)
{
    CHECK(c->looks && c->shard_next > 0 && c->shard_next <= c->plan.shards);
    c->looks = false;
    if (enough) c->shard_next = c->plan.shards;
}

void call_delivered(struct call_state *c)
{
    CHECK(c->phase == STEP_PHASE_DELIVERING);
    c->phase = STEP_PHASE_ENDING;
}

void call_has_turn(struct call_state *c)
{
    c->has_turn = true;
}

void call_cancel(struct call_state *c)
{
    if (c->kind >= STEP_RECEIVE && !MUTANT(CALL_CANCEL_OFF)) c->unwanted = true;
}

bool call_emit(struct call_effect *out, enum call_effect_kind kind, uint32_t index)
{
    *out = (struct call_effect){.kind = kind, .index = index};
    return true;
}

static bool find(const struct call_state *c, bool wanted, uint32_t *shard)
{
    CHECK(c->shards && c->plan.shards > 0);
    for (uint32_t i = 0; i < c->plan.shards; i++) {
        *shard = (c->plan.first_shard + i) % c->plan.shards;
        const struct call_shard *p = &c->shards[*shard];
        if (wanted ? p->await == AWAIT_WANTED : p->found) return true;
    }
    return false;
}

static bool claim(struct call_state *c, struct call_effect *out, uint32_t shard)
{
    CHECK(!c->claims);
    c->claims = true;
    if (c->shards) c->shards[shard].found = c->shards[shard].returned = false;
    call_emit(out, STEP_CLAIM, shard);
    out->here = c->claim_here || c->kind == STEP_SERVED;
    return true;
}

static bool ask_next(struct call_state *c, struct call_effect *out)
{
    CHECK(c->in_round && c->shard_next < c->plan.shards);
    call_emit(out, STEP_RECALL, c->shard_next++);
    out->sync = !c->started;
    c->recalls++;
    return true;
}

static bool await_next(struct call_state *c, struct call_effect *out, uint32_t shard)
{
    CHECK(c->shards[shard].await == AWAIT_WANTED && c->awaits < c->plan.shards);
    c->started = true;
    c->shards[shard].await = AWAIT_OPEN;
    c->awaits++;
    call_emit(out, STEP_AWAIT, shard);
    out->here = c->shards[shard].here || c->kind == STEP_SERVED;
    return true;
}

static bool withdraw(struct call_effect *out, enum call_effect_kind kind, uint32_t index, bool last)
{
    CHECK(kind == STEP_WITHDRAW_AWAIT || kind == STEP_WITHDRAW_CLAIM);
    call_emit(out, kind, index);
    out->last = last;
    return true;
}

static bool next_withdrawal(struct call_state *c, struct call_effect *out)
{
    CHECK(c->shards && c->reroutes);
    for (uint32_t i = 0; i < c->plan.shards; i++) {
        if (c->shards[i].await != AWAIT_OPEN) continue;
        c->shards[i].await = AWAIT_WITHDRAWN;
        return withdraw(out, STEP_WITHDRAW_AWAIT, i, false);
    }
    c->reroutes = false;
    return false;
}

// A receive of several shards, with its turn and without a claim or a round under way.
static bool next_find(struct call_state *c, struct call_effect *out)
{
    CHECK(!c->claims && !c->in_round);
    uint32_t found_at = 0, wanted_at = 0;
    if (c->reroutes && next_withdrawal(c, out)) return true;
    bool found = find(c, false, &found_at), wanted = find(c, true, &wanted_at);
    if (!found && !wanted && c->awaits > 0) {
        c->certain = MUTANT(CALL_ROUND_ONCE) && c->certain; // it waits
        return false;
    }
    if (c->plan.named && !c->certain && !MUTANT(CALL_ROUND_OFF)) {
        c->in_round = true;
        c->shard_next = 0;
        return ask_next(c, out);
    }
    for (uint32_t i = 0; found && i < c->plan.shards; i++)
        if (c->shards[i].returned) found_at = i;
    if (found) return claim(c, out, found_at);
    if (wanted) return await_next(c, out, wanted_at);
    decide(c, c->failed ? STEP_FROM_AWAIT : STEP_FROM_NOTHING, c->failed, c->failed_at);
    return call_next(c, out);
}

static bool next_in_round(struct call_state *c, struct call_effect *out)
{
    CHECK(c->in_round && c->recalls <= c->shard_next);
    if (c->shard_next < c->plan.shards) return ask_next(c, out);
    if (c->recalls > 0) return false;
    c->in_round = false;
    c->certain = true;
    return call_next(c, out);
}

// A claim is under way, which waits if there is one shard.
static bool next_claiming(struct call_state *c, struct call_effect *out)
{
    CHECK(c->claims);
    bool due = c->unwanted ? !c->cancelled : c->reroutes && !c->withdrawn;
    if (c->shards || !due) return false;
    c->withdrawn = true;
    c->cancelled = c->unwanted;
    return withdraw(out, STEP_WITHDRAW_CLAIM, 0, c->unwanted);
}

// A receive whose acks are done, or go with its claim.
static bool next_receive(struct call_state *c, struct call_effect *out)
{
    CHECK(c->kind == STEP_RECEIVE && c->phase == STEP_PHASE_BUILT);
    if (c->claims) return next_claiming(c, out);
    if (!c->has_turn && !c->unwanted && !MUTANT(CALL_TURN_OFF)) return false;
    if (c->in_round) return next_in_round(c, out);
    if (c->unwanted || c->has_recalled) {
        bool recalled = c->has_recalled && !c->unwanted;
        decide(c, recalled ? STEP_FROM_RECALL : STEP_FROM_NOTHING, recalled && c->recall_failed,
               c->recalled_at);
        return call_next(c, out);
    }
    return c->shards ? next_find(c, out) : claim(c, out, 0);
}

static bool next_look(struct call_state *c, struct call_effect *out)
{
    if (c->looks) return false;
    if (c->unwanted || c->shard_next == c->plan.shards) {
        c->phase = STEP_PHASE_ENDING;
        return call_next(c, out);
    }
    if (MUTANT(CALL_LOOK_SKIPS) && c->shard_next + 1 < c->plan.shards) c->shard_next++;
    c->looks = true;
    call_emit(out, STEP_LOOK, c->shard_next++);
    out->sync = !MUTANT(CALL_LOOK_STALE);
    return true;
}

static bool next_follow(struct call_state *c, struct call_effect *out)
{
    uint32_t shard = 0;
    if (!c->unwanted && find(c, false, &shard)) {
        decide(c, STEP_FROM_AWAIT, false, shard);
        return call_next(c, out);
    }
    if (!c->unwanted && !c->failed && find(c, true, &shard)) return await_next(c, out, shard);
    if (!c->unwanted && !c->failed && c->awaits > 0) return false;
    bool failed = c->failed && !c->unwanted;
    decide(c, failed ? STEP_FROM_AWAIT : STEP_FROM_NOTHING, failed, c->failed_at);
    return call_next(c, out);
}

// A part that fails does not keep the others from their signals: the failure is told at the end.
static bool next_listen(struct call_state *c, struct call_effect *out)
{
    CHECK(c->kind == STEP_LISTEN && c->phase == STEP_PHASE_BUILT);
    uint32_t found_at = 0, wanted_at = 0;
    if (c->reroutes && !c->unwanted && next_withdrawal(c, out)) return true;
    bool found = find(c, false, &found_at);
    if (!c->unwanted && !(found && !c->plan.all)) {
        if (find(c, true, &wanted_at)) return await_next(c, out, wanted_at);
        if (c->awaits > 0) return false;
    }
    bool tells = found && !c->unwanted, failed = c->failed && !found && !c->unwanted;
    decide(c, tells || failed ? STEP_FROM_AWAIT : STEP_FROM_NOTHING, failed,
           failed ? c->failed_at : found_at);
    return call_next(c, out);
}

// A served call whose op is done, or goes with its claim. All awaits begin, even if the first one
// finds something: the answer names every shard that has something now.
static bool next_served(struct call_state *c, struct call_effect *out)
{
    CHECK(c->kind == STEP_SERVED && c->phase == STEP_PHASE_BUILT);
    uint32_t found_at = 0, wanted_at = 0;
    if (c->claims) return next_claiming(c, out);
    if (!c->unwanted && !c->shards) return claim(c, out, 0);
    if (!c->unwanted && find(c, true, &wanted_at)) return await_next(c, out, wanted_at);
    bool found = c->shards && find(c, false, &found_at), failed = c->failed && !found;
    if (!c->unwanted && !found && !failed && c->awaits > 0) return false;
    decide(c, found || failed ? STEP_FROM_AWAIT : STEP_FROM_NOTHING, failed,
           failed ? c->failed_at : found_at);
    return call_next(c, out);
}

static bool next_built(struct call_state *c, struct call_effect *out)
{
    if (c->kind == STEP_READ) return next_look(c, out);
    if (c->kind == STEP_FOLLOW) return next_follow(c, out);
    if (c->finds && !c->finding) {
        c->finds = false;
        c->finding = true;
        return call_emit(out, STEP_FIND, 0);
    }
    if (c->finding) return false;
    if (c->kind == STEP_LISTEN) return next_listen(c, out);
    if (c->plan.behind) {
        c->phase = STEP_PHASE_PAUSED;
        return call_emit(out, STEP_PAUSE, 0);
    }
    if (call_next_op(c, out)) return true;
    if (c->kind == STEP_RECEIVE && (call_ops_are_over(c) || c->claims)) return next_receive(c, out);
    bool waits = c->kind == STEP_SERVED && c->plan.shards > 0;
    if (waits && (call_ops_are_over(c) || c->claims)) return next_served(c, out);
    if (!call_ops_are_over(c)) return false;
    bool pauses = c->full && c->plan.blocks && !c->last && !MUTANT(CALL_PAUSE_OFF);
    c->phase = pauses ? STEP_PHASE_PAUSED : STEP_PHASE_ENDING;
    return pauses ? call_emit(out, STEP_PAUSE, 0) : call_next(c, out);
}

// What an await found is for this caller alone: another waiter must hear of it too.
static bool notifies(const struct call_state *c)
{
    if (c->kind == STEP_SERVED) return !c->plan.shared && !MUTANT(CALL_SERVED_NOTIFY_OFF);
    return c->kind == STEP_RECEIVE && !MUTANT(CALL_NOTIFY_OFF);
}

// The awaits that are left of a call, and the messages that they announced to it.
static bool next_left(struct call_state *c, struct call_effect *out)
{
    CHECK(c->phase >= STEP_PHASE_DECIDED && !c->claims);
    bool stays = c->kind == STEP_SERVED ? MUTANT(CALL_SERVED_LEFT) : MUTANT(CALL_AWAIT_LEFT);
    for (uint32_t i = 0; c->shards && i < c->plan.shards; i++) {
        struct call_shard *p = &c->shards[i];
        bool open = p->await == AWAIT_OPEN || p->await == AWAIT_WITHDRAWN;
        if (open && !stays) {
            p->await = AWAIT_CANCELLED;
            return withdraw(out, STEP_WITHDRAW_AWAIT, i, true);
        }
        if (p->found) {
            p->found = false;
            if (notifies(c)) return call_emit(out, STEP_NOTIFY, i);
        }
    }
    return false;
}

bool call_next(struct call_state *c, struct call_effect *out)
{
    if (c->phase >= STEP_PHASE_DECIDED && next_left(c, out)) return true;
    switch (c->phase) {
    case STEP_PHASE_NEW:
        c->phase = STEP_PHASE_BUILDING;
        return call_emit(out, STEP_BUILD, 0);
    case STEP_PHASE_BUILT:
        return next_built(c, out);
    case STEP_PHASE_DECIDED:
        if (c->kind == STEP_SERVED && c->awaits > 0) return false;
        c->phase = c->kind == STEP_SERVED ? STEP_PHASE_ENDING : STEP_PHASE_DELIVERING;
        if (c->kind == STEP_SERVED) return call_next(c, out);
        return call_emit(out, STEP_DELIVER, c->result.shard);
    case STEP_PHASE_DELIVERING:
        return call_next_op(c, out); // the acks that went with the claim may have to be repeated
    case STEP_PHASE_ENDING:
        if (call_next_op(c, out)) return true;
        if (c->kind >= STEP_RECEIVE && c->ops && !call_ops_are_over(c) &&
            !MUTANT(CALL_ANSWER_EARLY))
            return false;
        if (MUTANT(CALL_ANSWER_TWICE) && c->kind == STEP_RECEIVE && !c->last) {
            c->last = true;
            return call_emit(out, STEP_ANSWER, c->result.shard);
        }
        c->phase = STEP_PHASE_ANSWERED;
        return call_emit(out, STEP_ANSWER, c->result.shard);
    case STEP_PHASE_BUILDING:
    case STEP_PHASE_PAUSED:
    case STEP_PHASE_ANSWERED:
        return false;
    }
    CHECK(false);
}

bool call_is_over(const struct call_state *c)
{
    if (c->phase != STEP_PHASE_ANSWERED || c->awaits > 0 || c->finding) return false;
    for (uint32_t i = 0; c->shards && i < c->plan.shards; i++)
        if (c->shards[i].found) return false;
    return true;
}
