// SPDX-License-Identifier: Apache-2.0
// Each call is answered once, when all its ops are. An answer says what the history has. UNKNOWN is
// answered only if an entry with the op was sent to the store, and a settle was tried twice then. A
// A read looks at every shard once, in order, and sees what was committed before it began. A
// receive ends without messages only if its wait is over or it is not wanted, and holds no lock.
#include "check.h"

#include <inttypes.h>

void check_submitted(struct world *w, const struct sim_op *op)
{
    uint32_t open = 0;
    const struct sim_call *c = call_at(w, op->call);
    for (uint32_t i = 0; i < c->ops_len; i++) {
        const struct sim_op *o = &w->life->ops[c->ops[i]];
        open += o->submits > 0 && !o->over;
    }
    uint32_t most = op->kind == OP_SEND ? 1 : 2;
    for (uint32_t i = 0; c->state.kind == STEP_CHANGE && i < op->index; i++) {
        const struct sim_op *before = &w->life->ops[c->ops[i]];
        if (!before->over || before->err)
            findings_add(&w->findings, "ops", "call %u submits its op %u before op %u is done",
                         op->call, op->index, i);
    }
    if (op->submits > most || op->over)
        findings_add(&w->findings, "ops", "call %u submits its op %u again", op->call, op->index);
    if (open > c->at_once)
        findings_add(&w->findings, "ops", "call %u has %u ops under way, of %u allowed", op->call,
                     open, c->at_once);
}

void check_left(struct world *w, const struct sim_op *op)
{
    if (op->lefts > 3)
        findings_add(&w->findings, "ops", "call %u: op %u went to an owner %u times", op->call,
                     op->index, op->lefts);
}

void check_op_over(struct world *w, const struct sim_op *op)
{
    const struct sim_id *id = &w->life->ids[op->id];
    if (op->err == ERR_UNKNOWN && !id->flown && !op->doubted)
        findings_add(&w->findings, "unknown", "call %u: op %u is unknown and was never sent",
                     op->call, op->index);
    if (op->err == ERR_UNKNOWN && op->kind != OP_SEND && op->submits < 2 && !op->doubted)
        findings_add(&w->findings, "unknown", "call %u: op %u is unknown and was not repeated",
                     op->call, op->index);
}

static void check_ops(struct world *w, const struct sim_call *c)
{
    for (uint32_t i = 0; i < c->ops_len; i++)
        if (!w->life->ops[c->ops[i]].over)
            findings_add(&w->findings, "answer", "call %u is answered before its op %u",
                         call_of(w, c), i);
}

static void check_send(struct world *w, const struct sim_call *c)
{
    bool blocks = w->life->config.backpressure == BACKPRESSURE_BLOCK;
    bool over = w->now >= c->until || w->life->process[c->process].closing;
    for (uint32_t i = 0; i < c->messages_len; i++) {
        if (!c->messages[i].answered)
            findings_add(&w->findings, "answer", "call %u is answered without its message %u",
                         call_of(w, c), i);
        if (c->messages[i].err == ERR_LIMIT && blocks && !over)
            findings_add(&w->findings, "answer", "call %u does not wait for space", call_of(w, c));
    }
}

// Whether another call made this receive end: in a queue of one shard, the shard does.
static bool has_successor(struct world *w, const struct sim_call *c)
{
    for (uint32_t i = 0; i < w->life->calls_len; i++) {
        const struct sim_call *o = call_at(w, i);
        bool together = o->process == c->process || w->life->owned; // in one shard
        bool same = o != c && o->named && o->id == c->id && together && o->built;
        if (c->named && same) return true;
    }
    return false;
}

static void check_empty(struct world *w, const struct sim_call *c)
{
    bool may = c->unwanted_at || w->now >= c->until;
    if (!may && w->life->shards == 1) may = has_successor(w, c);
    for (uint32_t i = 0; w->now >= c->until && !c->unwanted_at && i < w->life->shards; i++) {
        const struct sim_shard *s = &w->life->lanes[i];
        if (truth_has_message(s) && s->empty_commit < c->began_commit && !has_successor(w, c))
            findings_add(&w->findings, "answer",
                         "call %u ends without messages, and shard %u had some all the time",
                         call_of(w, c), i);
    }
    if (!may)
        findings_add(&w->findings, "answer",
                     "call %u ends without messages %" PRId64 " ms before its time", call_of(w, c),
                     c->until - w->now);
}

static void check_messages(struct world *w, const struct sim_call *c)
{
    const struct sim_claim *made = &w->life->ids[c->id].claims[c->from];
    bool same = made->made && made->len == c->refs_len;
    for (uint32_t i = 0; same && i < c->refs_len; i++)
        same = made->refs[i].seq == c->refs[i].seq &&
               hash128_equal(made->refs[i].token, c->refs[i].token);
    if (!same)
        findings_add(&w->findings, "answer", "call %u gets messages that it has not locked",
                     call_of(w, c));
}

// A claim of the process that still waits for its turn in the journal may take effect too.
static bool may_claim(struct world *w, const struct sim_call *c)
{
    if (w->life->ids[c->id].flown) return true;
    for (uint32_t i = 0; i < w->life->actions_len; i++) {
        const struct action *a = &w->life->actions[i];
        const struct sim_call *o = call_at(w, a->call);
        bool open = a->state == ACTION_OPEN && a->kind == STEP_CLAIM && !o->lost;
        if (open && o->id == c->id && o->process == c->process) return true;
    }
    for (uint32_t i = 0; i < w->life->asks_len; i++) {
        const struct sim_ask *k = &w->life->asks[i];
        bool claims = k->parts[k->parts_len - 1].kind == STEP_CLAIM;
        if (k->process == c->process && claims && call_at(w, k->call)->id == c->id) return true;
    }
    return false;
}

void check_reply(struct world *w, const struct action *a)
{
    bool claims = a->kind == STEP_CLAIM || a->kind == STEP_RECALL;
    bool may = claims && may_claim(w, call_at(w, a->call));
    bool op = a->kind == STEP_SUBMIT || a->kind == STEP_SUBMIT_JOINED;
    if (a->err == ERR_UNKNOWN && !may && !op)
        findings_add(&w->findings, "unknown", "call %u is unknown, and no claim was sent", a->call);
}

static void check_receive(struct world *w, const struct sim_call *c)
{
    if (c->err) return;
    if (c->refs_len == 0)
        check_empty(w, c);
    else
        check_messages(w, c);
    check_repeated(w, c);
}

static void check_awaits(struct world *w, const struct sim_call *c)
{
    for (uint32_t i = 0; i < w->life->shards; i++) {
        if (c->awaits[i] == NOT_INDEX) continue;
        const struct action *a = &w->life->actions[c->awaits[i]];
        if (a->state != ACTION_OVER && !a->withdrawn)
            findings_add(&w->findings, "left", "call %u is answered and still waits in shard %u",
                         call_of(w, c), i);
    }
}

void check_looked(struct world *w, const struct sim_call *c, const struct action *a)
{
    struct shard *s = w->life->handles[process_node(w, c->process, a->shard)->index];
    if (a->index != c->looked)
        findings_add(&w->findings, "read", "call %u looks at shard %u after %u others",
                     call_of(w, c), a->index, c->looked);
    if (!a->err && journal_slot(shard_journal(s)) < c->began_len[a->shard])
        findings_add(&w->findings, "read",
                     "call %u reads shard %u at slot %" PRIu64 ", and it began at %" PRIu64,
                     call_of(w, c), a->shard, journal_slot(shard_journal(s)),
                     c->began_len[a->shard]);
}

static void check_read(struct world *w, const struct sim_call *c)
{
    if (!c->err && !c->unwanted_at && c->looked != c->looks_max)
        findings_add(&w->findings, "read", "call %u has looked at %u of %u shards", call_of(w, c),
                     c->looked, c->looks_max);
}

static void check_follow(struct world *w, const struct sim_call *c)
{
    bool found = c->state.result.from == STEP_FROM_AWAIT && !c->state.result.failed;
    if (found != (c->taken > 0))
        findings_add(&w->findings, "follow", "call %u is answered with %zu events", call_of(w, c),
                     c->taken);
    if (!found && !c->err && !c->unwanted_at && w->now < c->until)
        findings_add(&w->findings, "follow", "call %u ends without events before its time",
                     call_of(w, c));
}

static void check_listen(struct world *w, const struct sim_call *c)
{
    bool found = c->state.result.from == STEP_FROM_AWAIT && !c->state.result.failed;
    if (!found && !c->err && !c->unwanted_at && w->now < c->until)
        findings_add(&w->findings, "listen", "call %u ends with nothing before its time",
                     call_of(w, c));
}

void check_answered(struct world *w, struct sim_call *c)
{
    if (c->answers > 1)
        findings_add(&w->findings, "answer", "call %u is answered twice", call_of(w, c));
    if (c->build_fails) return;
    check_ops(w, c);
    check_awaits(w, c);
    if (c->state.kind == STEP_SEND) check_send(w, c);
    if (c->state.kind == STEP_READ) check_read(w, c);
    if (c->state.kind == STEP_FOLLOW) check_follow(w, c);
    if (c->state.kind == STEP_LISTEN) check_listen(w, c);
    if (c->state.kind == STEP_RECEIVE) check_receive(w, c);
}

static void check_id(struct world *w, const struct sim_op *op)
{
    const struct sim_id *id = &w->life->ids[op->id];
    if (!id->answered) return;
    bool done = id->in_shard[op->shard];
    enum err err = id->err; // a call in doubt answers UNKNOWN
    if (call_at(w, op->call)->state.in_doubt) err = err_repeated(err);
    if (id->err == ERR_OK && !done)
        findings_add(&w->findings, "history", "call %u: op %u is done, but not in the history",
                     op->call, op->index);
    if (err && err != ERR_UNKNOWN && !id->has_body && done)
        findings_add(&w->findings, "history", "call %u: op %u failed (%s), but is in the history",
                     op->call, op->index, err_name(id->err));
}

static void check_sent(struct world *w, const struct sim_call *c, uint32_t i)
{
    const struct sim_message *m = &c->messages[i];
    bool wrong = m->accepted > 1;
    if (!c->lost && m->answered && m->err != ERR_UNKNOWN)
        wrong = m->accepted != (m->err == ERR_OK ? 1 : 0);
    if (wrong)
        findings_add(&w->findings, "history", "call %u: message %u (%s) is there %u times",
                     call_of(w, c), i, err_name(m->err), m->accepted);
}

// A lock of this call: its claim is in the history, and the caller did not get the messages.
static void check_lock(struct world *w, const struct sim_call *c)
{
    // An owner gives the locks back, or they expire.
    bool nothing =
        !c->lost && !c->claim_doubted && (c->err ? c->err != ERR_UNKNOWN : c->refs_len == 0);
    if (c->state.kind != STEP_RECEIVE || !nothing) return;
    for (uint32_t i = 0; i < w->life->shards; i++) {
        const struct sim_claim *made = &w->life->ids[c->id].claims[i];
        if (made->made && made->call == call_of(w, c))
            findings_add(&w->findings, "lock",
                         "call %u got no messages (%s) and holds %u locks in shard %u",
                         call_of(w, c), err_name(c->err), made->len, i);
    }
}

void check_history(struct world *w)
{
    for (uint32_t i = 0; i < w->life->ops_len; i++)
        if (!call_at(w, w->life->ops[i].call)->lost) check_id(w, &w->life->ops[i]);
    for (uint32_t i = 0; i < w->life->calls_len; i++) {
        const struct sim_call *c = call_at(w, i);
        for (uint32_t k = 0; k < c->messages_len; k++)
            check_sent(w, c, k);
        check_lock(w, c);
    }
}
