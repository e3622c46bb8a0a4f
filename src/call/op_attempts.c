// SPDX-License-Identifier: Apache-2.0
// The ops of a call: how many are under way at once, and which are submitted again.
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "call/parts.h"

void call_add_op(struct call_state *c)
{
    CHECK(c->phase == STEP_PHASE_BUILT && c->plan.ops > 0 && !c->plan.joined);
    c->ops = memory_resize(c->ops, (c->plan.ops + 1) * sizeof *c->ops);
    c->ops[c->plan.ops++] = (struct call_op){.state = OP_NEW};
}

// The op that is submitted at place i.
static uint32_t op_at(const struct call_state *c, uint32_t i)
{
    CHECK(i < c->plan.ops);
    return MUTANT(CALL_OPS_SWAPPED) && (i | 1) < c->plan.ops ? i ^ 1 : i;
}

// Only a settle is repeated by the library: its caller may have no request id to repeat it with.
// The process that a served call is for repeats it itself.
bool call_op_ended(struct call_state *c, uint32_t op, enum call_op_end end)
{
    op = op_at(c, op);
    CHECK(op < c->ops_next && c->ops[op].state == OP_OPEN && c->ops_open > 0);
    struct call_op *o = &c->ops[op];
    c->ops_open--;
    bool once = c->kind == STEP_SEND || c->kind == STEP_SERVED || MUTANT(CALL_UNKNOWN_ONCE);
    bool again = end == STEP_OP_UNKNOWN && !once && !o->repeated;
    o->state = again ? OP_AGAIN : OP_OVER;
    o->repeated = o->repeated || again;
    c->ops_again += again;
    c->full = c->full || end == STEP_OP_FULL;
    return !again;
}

bool call_op_was_repeated(const struct call_state *c, uint32_t op)
{
    CHECK(op < c->ops_next);
    return c->ops[op].repeated || c->ops[op].in_doubt;
}

void call_op_returned(struct call_state *c, uint32_t op, enum call_return how)
{
    op = op_at(c, op);
    CHECK(op < c->ops_next && c->ops[op].state == OP_OPEN && c->ops_open > 0);
    struct call_op *o = &c->ops[op];
    CHECK(!o->here);
    c->ops_open--;
    c->ops_again++;
    o->state = OP_AGAIN;
    o->here = call_stays_here(c, how);
    o->in_doubt = o->in_doubt || (how == STEP_DOUBTED && !MUTANT(CALL_DOUBT_LOST));
    c->in_doubt = c->in_doubt || o->in_doubt;
}

static bool submit(struct call_state *c, struct call_effect *out, uint32_t op)
{
    CHECK(op < c->ops_next);
    CHECK(c->ops[op].state == OP_NEW || c->ops[op].state == OP_AGAIN);
    bool joined = c->plan.joined && !c->ops[op].repeated && !c->unwanted && !c->claims &&
                  c->phase == STEP_PHASE_BUILT;
    c->ops[op].state = OP_OPEN;
    c->ops_open++;
    if (joined) c->claims = true;
    call_emit(out, joined ? STEP_SUBMIT_JOINED : STEP_SUBMIT, op_at(c, op));
    out->here = c->ops[op].here || (joined && c->claim_here) || c->kind == STEP_SERVED;
    return true;
}

bool call_next_op(struct call_state *c, struct call_effect *out)
{
    CHECK(c->ops_next <= c->plan.ops && c->ops_again <= c->ops_next);
    for (uint32_t i = 0; c->ops_again > 0 && i < c->ops_next; i++) {
        if (c->ops[i].state != OP_AGAIN) continue;
        c->ops_again--;
        return submit(c, out, i);
    }
    if (c->ops_next == c->plan.ops || c->ops_open >= c->plan.at_once) return false;
    return submit(c, out, c->ops_next++);
}

bool call_ops_are_over(const struct call_state *c)
{
    CHECK(c->ops_open + c->ops_again <= c->ops_next);
    return c->ops_next == c->plan.ops && c->ops_open == 0 && c->ops_again == 0;
}
