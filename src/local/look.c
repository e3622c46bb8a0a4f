// SPDX-License-Identifier: Apache-2.0
#include "local/look.h"

#include "base/check.h"
#include "base/memory.h"
#include "local/call.h"

struct look_call {
    struct local_call call; // first
    struct look *look;      // the caller's
};

static enum call_built build(struct local_call *c, bool may_block, struct call_plan *plan)
{
    struct look *l = ((struct look_call *)c)->look;
    CHECK(may_block); // a thread waits for it
    if (call_open_queue(c, may_block) == CALL_ENDED) return CALL_ENDED;
    enum sluice_code code = l->begin ? l->begin(l, c->queue, call_error(c)) : SLUICE_OK;
    if (code) call_set_code(c, code);
    *plan = (struct call_plan){.shards = c->queue->row.birth.shards, .first_shard = l->first};
    CHECK(code || plan->first_shard < plan->shards);
    return code ? CALL_ENDED : CALL_BUILT;
}

static bool look(struct local_call *c, uint32_t shard)
{
    struct look *l = ((struct look_call *)c)->look;
    struct sluice_error why = {.code = SLUICE_OK};
    struct shard_runner *d;
    bool enough = l->first_only;
    enum sluice_code code = queue_synced_runner(c->queue, shard, &d, &why);
    if (code == SLUICE_NOT_FOUND && l->any_state) return false;
    if (!code && l->inspect) runner_inspect(d, l->inspect, l);
    if (!code && l->shard) code = l->shard(l, c->queue, shard, d, &enough, &why);
    if (!code) return enough;
    *call_error(c) = why;
    call_set_code(c, code);
    return true;
}

static void release(struct local_call *c)
{
    memory_free(c);
}

static const struct call_type look_type = {
    .kind = CALL_READ, .build = build, .look = look, .release = release};

static enum sluice_code run(struct sluice *s, const char *queue, struct open_queue *open,
                            struct look *l, struct sluice_error *error)
{
    struct look_call *m = NEW(struct look_call);
    m->look = l;
    call_prepare(&m->call, &look_type, s, queue, NULL);
    if (open) queue_hold(open);
    m->call.queue = open;
    return call_blocking(&m->call, error);
}

enum sluice_code look_at_queue(struct sluice *s, const char *queue, struct look *l,
                               struct sluice_error *error)
{
    return run(s, queue, NULL, l, error);
}

enum sluice_code look_at_open_queue(struct open_queue *q, struct look *l,
                                    struct sluice_error *error)
{
    return run(q->handle, q->row.name, q, l, error);
}
