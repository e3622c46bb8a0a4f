// SPDX-License-Identifier: Apache-2.0
#include "ops/change.h"

#include "base/check.h"
#include "base/memory.h"
#include "ops/call.h"
#include "ops/named_ids.h"
#include "ops/settle.h"
#include "os/entropy.h"

struct change_call {
    struct local_call call; // first
    struct change *change;
    struct buf payload;           // of the op that was encoded last
    uint32_t made;                // ops so far
    struct sluice_error unopened; // of a shard that could not be opened when the call began
};

static enum call_built open_queue(struct change_call *m, bool may_block, bool fresh)
{
    struct local_call *c = &m->call;
    struct shard_runner *const *runners;
    struct shard_runner *r;
    if (!may_block && !c->queue) c->queue = queue_if_open(c->engine, c->name, &runners);
    if (!may_block) return c->queue && !fresh ? CALL_BUILT : CALL_BLOCKS;
    if (fresh) queue_let_go(&c->queue);
    enum sluice_code code = SLUICE_OK;
    if (!c->queue)
        code = (fresh ? queue_get_fresh : queue_get)(c->engine, c->name, &c->queue, call_error(c));
    // Without a thread that waits, this is the time to open them. The shards are independent.
    for (uint32_t i = 0; !code && c->caller && i < c->queue->row.birth.shards; i++)
        (void)!queue_work_runner(c->queue, i, &r, &m->unopened);
    return code ? CALL_ENDED : CALL_BUILT;
}

enum call_built change_open_again(struct local_call *c, bool may_block)
{
    return open_queue((struct change_call *)c, may_block, true);
}

static enum call_built build(struct local_call *c, bool may_block, struct call_plan *plan)
{
    struct change_call *m = (struct change_call *)c;
    struct change *ch = m->change;
    *plan = (struct call_plan){.ops = 1, .at_once = 1};
    if (ch->check && ch->check(ch, call_error(c))) return CALL_ENDED;
    enum call_built built = open_queue(m, may_block, false);
    return built == CALL_BUILT && ch->begin ? ch->begin(ch, c, may_block) : built;
}

static void encode(struct change_call *m)
{
    struct request_id request;
    entropy_fill(request.bytes, sizeof request.bytes);
    buf_clear(&m->payload);
    m->change->encode(m->change, &request, &m->payload);
}

static void take(struct change_call *m, const struct result *result)
{
    struct local_call *c = &m->call;
    struct change *ch = m->change;
    uint32_t shard = ch->shard, shards = c->queue->row.birth.shards;
    enum sluice_code code = ch->take(ch, result, ch->why.code);
    if (code && ch->whole && shard > 0)
        code = refuse_partly(&ch->why, code, shard, shards, "shards");
    if (code == SLUICE_NOT_FOUND || (result && result->reason == REASON_DELETED))
        queue_stale(c->queue);
    if (code) {
        *call_error(c) = ch->why;
        call_set_code(c, code);
    } else if (ch->shard < shards) {
        call_add_op(&c->state);
    }
}

static struct shard_runner *find_runner(struct change_call *m)
{
    struct shard_runner *r = NULL;
    struct change *ch = m->change;
    struct open_queue *q = m->call.queue;
    ch->why = (struct sluice_error){.code = SLUICE_OK};
    if (!m->call.caller) return queue_work_runner(q, ch->shard, &r, &ch->why) ? NULL : r;
    r = runner_if_open(q, ch->shard);
    if (!r) ch->why = m->unopened;
    return r;
}

static struct shard_runner *op(struct local_call *c, uint32_t index, struct op *out,
                               uint32_t *shard)
{
    struct change_call *m = (struct change_call *)c;
    *shard = m->change->shard;
    CHECK(*shard < c->queue->row.birth.shards && index <= m->made);
    struct shard_runner *r = find_runner(m);
    if (r && index == m->made) encode(m);
    if (index == m->made) m->made++;
    if (!r) take(m, NULL);
    *out = (struct op){m->change->kind, buf_bytes(&m->payload)};
    return r;
}

static enum call_op_end op_end(struct local_call *c, const struct call_slot *slot)
{
    (void)c;
    return slot->err == ERR_UNKNOWN ? STEP_OP_UNKNOWN : STEP_OP_DONE;
}

static void conclude(struct local_call *c, const struct call_slot *slot)
{
    struct change *ch = ((struct change_call *)c)->change;
    const struct kept_reply *a = &slot->async.answer;
    struct result result;
    bool lost = call_op_was_repeated(&c->state, slot->index) && a->body.len == 0;
    ch->why = (struct sluice_error){.code = SLUICE_OK};
    (void)refuse_op(&ch->why, lost ? ERR_UNKNOWN : slot->err, ch->kind, a, c->queue->row.name);
    bool decided = a->body.len > 0 && !result_open(buf_bytes(&a->body), ch->kind, &result);
    take((struct change_call *)c, decided ? &result : NULL);
}

static const char *token(const struct local_call *c)
{
    return ((const struct change_call *)c)->change->token;
}

static void ended(struct local_call *c)
{
    struct change *ch = ((struct change_call *)c)->change;
    if (ch->end) ch->end(ch, c);
}

static void release(struct local_call *c)
{
    struct change_call *m = (struct change_call *)c;
    if (m->change->release) m->change->release(m->change);
    if (m->change->owned) memory_free(m->change);
    buf_done(&m->payload);
    memory_free(m);
}

static const struct call_type change_type = {.kind = STEP_CHANGE,
                                             .build = build,
                                             .op = op,
                                             .op_end = op_end,
                                             .conclude = conclude,
                                             .token = token,
                                             .ended = ended,
                                             .release = release};

static struct local_call *change_new(struct engine *e, const char *queue, struct change *ch,
                                     struct async_call *a)
{
    struct change_call *m = NEW(struct change_call);
    m->change = ch;
    buf_init(&m->payload, JOURNAL_OP_MAX);
    call_prepare(&m->call, &change_type, e, queue, a);
    return &m->call;
}

enum sluice_code change_queue(const struct request_origin *as, const char *queue, struct change *ch,
                              struct sluice_error *error)
{
    ch->token = as->token;
    return call_run(change_new(as->engine, queue, ch, as->async), error);
}

enum sluice_code change_open_queue(struct open_queue *q, struct change *ch,
                                   struct sluice_error *error)
{
    struct local_call *c = change_new(q->engine, q->row.name, ch, NULL);
    queue_hold(q);
    c->queue = q;
    return call_blocking(c, error);
}

enum sluice_code change_next_shard(struct change *ch, const struct result *result,
                                   enum sluice_code code)
{
    (void)result;
    ch->shard++;
    return code;
}

void change_plain(const struct change *ch, const struct request_id *request, struct buf *out)
{
    (void)ch;
    plain_encode(out, &(struct op_plain){.request = *request});
}

static void change_rows_end(struct change *ch, struct local_call *c)
{
    struct change_rows *r = (struct change_rows *)ch;
    enum sluice_code code = call_code(c);
    for (size_t i = 0; code && i < r->len; i++)
        outcome_refuse(&r->outcomes[i], code, "");
    if (!code && r->first.code) *call_error(c) = r->first;
}

void change_rows_init(struct change_rows *r, const struct request_origin *as,
                      const struct by_shard_type *type, size_t len, struct sluice_outcome *outcomes)
{
    r->change.end = change_rows_end;
    r->change.owned = true;
    r->len = len;
    r->whole = request_or_new(as->request);
    r->own = outcomes ? NULL : memory_zeroed(len + 1, sizeof *outcomes);
    r->outcomes = outcomes ? outcomes : r->own;
    by_shard_init(&r->split, type, r, len);
}

enum call_built change_rows_begin(struct change_rows *r, struct local_call *c)
{
    r->queue = c->queue;
    by_shard_begin(&r->split);
    r->change.shard = by_shard_next(&r->split);
    return r->change.shard == NO_SHARD ? CALL_ENDED : CALL_BUILT;
}

void change_rows_done(struct change_rows *r)
{
    by_shard_done(&r->split);
    memory_free(r->own);
}
