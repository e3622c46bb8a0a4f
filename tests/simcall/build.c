// SPDX-License-Identifier: Apache-2.0
// What a call consists of. A send packs the messages of each shard into ops. After a refusal by a
// full queue it sends the refused messages again: with the same request id if the shard does not
// remember the refusal, else with another one.
#include "base/check.h"
#include "base/memory.h"
#include "check.h"

#include <string.h>

static struct sim_op *add_op(struct world *w, uint32_t call, uint16_t kind, uint32_t shard)
{
    struct life *life = w->life;
    struct sim_call *c = call_at(w, call);
    if (life->ops_len % 256 == 0)
        life->ops = memory_resize(life->ops, (life->ops_len + 256) * sizeof *life->ops);
    CHECK(c->ops_len < SIM_OPS_MAX);
    struct sim_op *op = &life->ops[life->ops_len];
    *op = (struct sim_op){.call = call,
                          .attempt = c->attempt,
                          .index = c->ops_len,
                          .shard = shard,
                          .kind = kind,
                          .arrived_at = node_now(process_node(w, c->process, shard)).hi};
    c->ops[c->ops_len++] = life->ops_len++;
    return op;
}

static void pack_messages(struct world *w, uint32_t call)
{
    struct sim_call *c = call_at(w, call);
    for (uint32_t shard = 0; shard < w->life->shards; shard++) {
        struct sim_op *op = NULL;
        for (uint32_t i = 0; i < c->messages_len; i++) {
            if (c->messages[i].shard != shard) continue;
            if (!op || op->len == c->op_len_max) {
                op = add_op(w, call, OP_SEND, shard);
                op->id = id_new(w);
            }
            op->members[op->len++] = i;
        }
    }
}

static bool is_remembered(struct world *w, const struct sim_op *op)
{
    const struct node *n = process_node(w, w->life->calls[op->call].process, op->shard);
    if (op->at_owner) return op->remembered;
    CLEANUP(buf_done) struct buf payload;
    CLEANUP(buf_done) struct buf text;
    buf_init(&payload, 1 << 12);
    buf_init(&text, SIZE_MAX);
    send_begin(&payload, &w->life->ids[op->id].id);
    send_end(&payload, 0, 0);
    struct op_result result;
    struct op view = {OP_SEND, buf_bytes(&payload)};
    return machine_recall(shard_machine(w->life->handles[n->index]), &view, &result, &text);
}

static void pack_again(struct world *w, uint32_t call, const uint32_t *ops, uint32_t ops_len)
{
    for (uint32_t i = 0; i < ops_len; i++) {
        struct sim_op before = w->life->ops[ops[i]];
        bool any = false, all = true;
        for (uint32_t k = 0; k < before.len; k++) {
            any = any || before.full[k];
            all = all && before.full[k];
        }
        if (!any) continue;
        // An attempt at an owner may still take effect with the id, unless an entry refused it.
        bool open = before.doubted && !before.by_entry;
        bool same = all && (open || !is_remembered(w, &before));
        uint32_t id = same ? before.id : id_new(w);
        struct sim_op *op = add_op(w, call, OP_SEND, before.shard);
        op->id = id;
        op->doubted = open;
        trace_line(&w->trace, w->now, "  request %u of shard %u again, as request %u", before.id,
                   before.shard, id);
        for (uint32_t k = 0; k < before.len; k++)
            if (before.full[k]) op->members[op->len++] = before.members[k];
    }
}

static void build_send(struct world *w, uint32_t call)
{
    struct sim_call *c = call_at(w, call);
    uint32_t before[SIM_OPS_MAX], before_len = c->ops_len;
    memcpy(before, c->ops, sizeof before);
    c->ops_len = 0;
    c->attempt++;
    memset(c->last_op, 0, sizeof c->last_op);
    if (c->attempt == 1)
        pack_messages(w, call);
    else
        pack_again(w, call, before, before_len);
}

static void build_settle(struct world *w, uint32_t call)
{
    struct sim_call *c = call_at(w, call);
    for (uint32_t shard = 0; shard < w->life->shards; shard++) {
        struct sim_op *op = NULL;
        for (uint32_t i = 0; i < c->locks_len; i++) {
            if (c->locks[i].shard != shard) continue;
            if (!op) {
                op = add_op(w, call, c->settles, shard);
                op->id = id_new(w);
            }
            op->refs[op->len++] = c->locks[i].ref;
        }
    }
}

// One op on every shard, one after another.
static void build_change(struct world *w, uint32_t call)
{
    for (uint32_t shard = 0; shard < w->life->shards; shard++) {
        struct sim_op *op = add_op(w, call, OP_RESUME, shard);
        op->id = id_new(w);
    }
    call_at(w, call)->at_once = 1;
}

// A process that has another send waiting for space sends behind it.
static bool is_behind(struct world *w, const struct sim_call *c)
{
    for (uint32_t i = 0; i < w->life->calls_len; i++) {
        const struct sim_call *other = call_at(w, i);
        bool same = other->process == c->process && other != c && !other->lost;
        if (same && other->paused) return true;
    }
    return false;
}

// The last call of this process with the same id ends, unless it has a result soon.
static bool takes_turn(struct world *w, struct sim_call *c)
{
    struct sim_call *before = NULL;
    for (uint32_t i = 0; i < w->life->calls_len; i++) {
        struct sim_call *other = call_at(w, i);
        bool same = other->named && other->id == c->id && other->process == c->process;
        if (!same || other == c || other->lost || !other->built || other->decided) continue;
        if (!before || other->built > before->built) before = other;
    }
    if (before) shell_cancel(w, call_of(w, before));
    return !before;
}

void build_call(struct world *w, uint32_t call)
{
    struct sim_call *c = call_at(w, call);
    bool gone = c->attempt > 0 && rng_chance(&w->rng, w->life->build_fails / 4);
    if (gone) c->build_fails = true; // as if the queue were deleted meanwhile
    if (c->build_fails) {
        c->err = ERR_INVALID;
        call_failed(&c->state);
        return;
    }
    if (c->state.kind == STEP_SEND)
        build_send(w, call);
    else if (c->state.kind == STEP_CHANGE)
        build_change(w, call);
    else if (c->state.kind != STEP_READ && c->state.kind < STEP_FOLLOW)
        build_settle(w, call);
    struct call_plan plan = {.ops = c->ops_len, .at_once = c->at_once};
    if (c->state.kind == STEP_SEND) {
        plan.blocks = w->life->config.backpressure == BACKPRESSURE_BLOCK;
        plan.behind = plan.blocks && c->attempt == 1 && is_behind(w, c);
    }
    if (c->state.kind == STEP_READ || c->state.kind == STEP_FOLLOW) {
        plan.shards = w->life->shards;
        plan.first_shard = c->state.kind == STEP_FOLLOW ? c->first_shard : 0;
    }
    if (c->state.kind == STEP_LISTEN) plan.shards = c->parts_len;
    if (c->state.kind == STEP_RECEIVE) {
        c->built = ++w->life->builds;
        plan.shards = w->life->shards;
        plan.first_shard = c->first_shard;
        plan.named = c->named;
        plan.likely = plan.shards > 1 && rng_chance(&w->rng, 4000);
        plan.joined = plan.ops == 1 && plan.shards == 1;
        c->has_turn = !c->named || plan.shards == 1 || takes_turn(w, c);
        plan.has_turn = c->has_turn;
    }
    if ((c->adds_ops || c->state.kind == STEP_CHANGE) && plan.ops > 1) plan.ops = 1;
    call_built(&c->state, &plan);
}

enum call_op_end op_end(const struct sim_op *op, const struct action *a)
{
    if (a->err == ERR_UNKNOWN) return STEP_OP_UNKNOWN;
    bool full = op->kind == OP_SEND && a->err == ERR_LIMIT;
    for (uint32_t i = 0; i < a->rows_len; i++)
        full = full || (op->kind == OP_SEND && a->rows[i] == REASON_FULL);
    return full ? STEP_OP_FULL : STEP_OP_DONE;
}

static void conclude_send(struct world *w, struct sim_op *op, const struct action *a)
{
    struct sim_call *c = call_at(w, op->call);
    for (uint32_t i = 0; i < op->len; i++) {
        struct sim_message *m = &c->messages[op->members[i]];
        m->answered = true;
        m->err = a->err;
        if (a->has_body && a->rows_len > 0) m->err = reason_err(a->rows[i]);
        op->full[i] = m->err == ERR_LIMIT;
    }
}

void op_concluded(struct world *w, struct sim_op *op, const struct action *a)
{
    struct sim_id *id = &w->life->ids[op->id];
    op->over = true;
    op->err = a->err;
    op->by_entry = a->rows_len > 0;
    bool repeated = call_op_was_repeated(&w->life->calls[op->call].state, op->index);
    CHECK(op->doubted || repeated == (op->submits > 1));
    // The first one may be applied. A send says so when it is answered.
    if (repeated && op->kind != OP_SEND && !a->has_body) op->err = ERR_UNKNOWN;
    if (op->kind == OP_SEND) conclude_send(w, op, a);
    id->answered = true;
    id->err = repeated && !a->has_body ? err_repeated(op->err) : op->err;
    id->has_body = a->has_body;
}
