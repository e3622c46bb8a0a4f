// SPDX-License-Identifier: Apache-2.0
#include "local/change.h"

#include "base/check.h"
#include "base/memory.h"
#include "local/call.h"
#include "os/entropy.h"

struct change_call {
    struct local_call call; // first
    struct change *change;  // the caller's
    struct buf payload;     // of the op that was encoded last
    uint32_t encoded;       // ops so far
};

static enum call_built build(struct local_call *c, bool may_block, struct call_plan *plan)
{
    CHECK(may_block); // a thread waits for it
    *plan = (struct call_plan){.ops = 1, .at_once = 1};
    return call_open_queue(c, may_block);
}

static void encode(struct change_call *m)
{
    struct request_id request;
    entropy_fill(request.bytes, sizeof request.bytes);
    buf_clear(&m->payload);
    m->change->encode(m->change, &request, &m->payload);
    m->encoded++;
}

static struct shard_runner *op(struct local_call *c, uint32_t index, struct op *out,
                               uint32_t *shard)
{
    struct change_call *m = (struct change_call *)c;
    const struct change *ch = m->change;
    *shard = ch->shard;
    CHECK(*shard < c->queue->row.birth.shards && index <= m->encoded);
    struct shard_runner *d = call_runner(c, *shard);
    if (!d && ch->whole && ch->shard > 0)
        call_set_code(c, refuse_partly(c->error, call_code(c), ch->shard,
                                       c->queue->row.birth.shards, "shards"));
    if (d && index == m->encoded) encode(m);
    *out = (struct op){ch->kind, buf_bytes(&m->payload)};
    return d;
}

static enum call_op_end op_end(struct local_call *c, const struct call_slot *slot)
{
    (void)c;
    return slot->err == ERR_UNKNOWN ? CALL_OP_UNKNOWN : CALL_OP_DONE;
}

static void conclude(struct local_call *c, const struct call_slot *slot)
{
    struct change *ch = ((struct change_call *)c)->change;
    const struct runner_answer *a = &slot->async.answer;
    uint32_t shard = ch->shard, shards = c->queue->row.birth.shards;
    struct sluice_error why = {.code = SLUICE_OK};
    struct result result;
    bool lost = call_op_was_repeated(&c->state, slot->index) && a->body.len == 0;
    enum sluice_code code =
        refuse_op(&why, lost ? ERR_UNKNOWN : slot->err, ch->kind, a, c->queue->row.name);
    bool decided = a->body.len > 0 && !result_open(buf_bytes(&a->body), ch->kind, &result);
    code = ch->take(ch, decided ? &result : NULL, code);
    if (code && ch->whole && shard > 0) code = refuse_partly(&why, code, shard, shards, "shards");
    if (code == SLUICE_NOT_FOUND) queue_stale(c->queue);
    if (code) {
        *call_error(c) = why;
        call_set_code(c, code);
    } else if (ch->shard < shards) {
        call_add_op(&c->state);
    }
}

static const char *token(const struct local_call *c)
{
    return ((const struct change_call *)c)->change->token;
}

static void release(struct local_call *c)
{
    struct change_call *m = (struct change_call *)c;
    buf_done(&m->payload);
    memory_free(m);
}

static const struct call_type change_type = {.kind = CALL_CHANGE,
                                             .build = build,
                                             .op = op,
                                             .op_end = op_end,
                                             .conclude = conclude,
                                             .token = token,
                                             .release = release};

static enum sluice_code run(struct sluice *s, const char *queue, struct open_queue *open,
                            struct change *ch, struct sluice_error *error)
{
    struct change_call *m = NEW(struct change_call);
    m->change = ch;
    buf_init(&m->payload, JOURNAL_OP_MAX);
    call_prepare(&m->call, &change_type, s, queue, NULL);
    if (open) queue_hold(open);
    m->call.queue = open;
    return call_blocking(&m->call, error);
}

enum sluice_code change_queue(struct sluice *s, const char *queue, struct change *ch,
                              struct sluice_error *error)
{
    return run(s, queue, NULL, ch, error);
}

enum sluice_code change_open_queue(struct open_queue *q, struct change *ch,
                                   struct sluice_error *error)
{
    return run(q->handle, q->row.name, q, ch, error);
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
