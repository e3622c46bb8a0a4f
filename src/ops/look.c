// SPDX-License-Identifier: Apache-2.0
#include "ops/look.h"

#include "base/check.h"
#include "base/memory.h"

struct look_call {
    struct local_call call; // first
    struct look *look;
};

// A read takes no shard, so it does not look for owners.
static enum call_built open_queue(struct local_call *c, bool may_block)
{
    if (!c->queue) c->queue = queue_if_known(c->engine, c->name);
    struct shard_runner *r = c->queue ? runner_if_open(c->queue, 0) : NULL;
    if (r && !runner_saw(r, RUNNER_DELETED)) return CALL_BUILT;
    if (!may_block) return CALL_BLOCKS;
    queue_let_go(&c->queue);
    return queue_get(c->engine, c->name, &c->queue, call_error(c)) ? CALL_ENDED : CALL_BUILT;
}

static enum call_built build(struct local_call *c, bool may_block, struct call_plan *plan)
{
    struct look *l = ((struct look_call *)c)->look;
    if (l->check && l->check(l, call_error(c))) return CALL_ENDED;
    enum call_built built = c->caller ? open_queue(c, may_block) : call_open_queue(c, may_block);
    if (built != CALL_BUILT) return built;
    l->queue = c->queue;
    enum sluice_code code = l->begin ? l->begin(l, c->queue, call_error(c)) : SLUICE_OK;
    if (code) call_set_code(c, code);
    *plan = (struct call_plan){.shards = c->queue->row.birth.shards, .first_shard = l->first};
    CHECK(code || plan->first_shard < plan->shards);
    return code ? CALL_ENDED : CALL_BUILT;
}

static bool look(struct local_call *c, uint32_t shard, const struct call_slot *synced)
{
    struct look *l = ((struct look_call *)c)->look;
    struct sluice_error why = {.code = SLUICE_OK};
    struct shard_runner *r = runner_if_open(c->queue, shard);
    enum sluice_code code = synced ? queue_synced(c->queue, r, synced->err, &why)
                                   : queue_synced_runner(c->queue, shard, &r, &why);
    if (code == SLUICE_NOT_FOUND && l->any_state) return false;
    l->at = shard;
    l->runner = r;
    l->enough = l->first_only;
    if (!code && l->inspect) runner_inspect(r, l->inspect, l);
    if (!code && l->shard) code = l->shard(l, &why);
    if (!code) return l->enough;
    *call_error(c) = why;
    call_set_code(c, code);
    return true;
}

static bool look_blocks(const struct local_call *c)
{
    return ((const struct look_call *)c)->look->shard;
}

static void ended(struct local_call *c)
{
    struct look *l = ((struct look_call *)c)->look;
    if (l->end) l->end(l, c);
}

static void release(struct local_call *c)
{
    struct look *l = ((struct look_call *)c)->look;
    if (l->release) l->release(l);
    if (l->owned) memory_free(l);
    memory_free(c);
}

static const struct call_type look_type = {.kind = STEP_READ,
                                           .build = build,
                                           .look = look,
                                           .look_blocks = look_blocks,
                                           .ended = ended,
                                           .release = release};

static struct local_call *look_new(struct engine *e, const char *queue, struct look *l,
                                   struct async_call *a)
{
    struct look_call *m = NEW(struct look_call);
    m->look = l;
    call_prepare(&m->call, &look_type, e, queue, a);
    return &m->call;
}

enum sluice_code look_at_queue(const struct request_origin *as, const char *queue, struct look *l,
                               struct sluice_error *error)
{
    return call_run(look_new(as->engine, queue, l, as->async), error);
}

enum sluice_code look_at_open_queue(struct open_queue *q, struct look *l,
                                    struct sluice_error *error)
{
    struct local_call *c = look_new(q->engine, q->row.name, l, NULL);
    queue_hold(q);
    c->queue = q;
    return call_blocking(c, error);
}
