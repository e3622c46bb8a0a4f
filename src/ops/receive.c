// SPDX-License-Identifier: Apache-2.0
// Receive. It may carry acks. In a queue of one shard, one entry commits the acks and the claim.
// Otherwise the receive starts when the acks are answered: a receive that does not wait could run
// before the acks free their messages.
#include "base/hash.h"
#include "base/memory.h"
#include "ops/deliver.h"
#include "ops/forward.h"
#include "ops/mailbox_session.h"
#include "ops/ops.h"
#include "ops/settle.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/lock.h"
#include "protocol/call_arguments.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define WAIT_MAX_MS (INT64_C(24) * 3600 * 1000)
#define ACKS_PART   (UINT64_C(1) << 62) // a part number of the request that no other part reaches

struct receive_call {
    struct local_call call; // first
    struct op_claim claim;
    char worker[WORKER_NAME_MAX + 1];
    char *long_worker; // a name that is too long, to be refused; owned
    bool has_id;       // the caller may repeat the request id
    struct answer_budget *budget;
    struct sluice_batch *batch;
    // The acks; NULL: none.
    struct settle_plan *acks;
    struct sluice_outcome *acked; // owned, if the caller has none
};
static_assert(sizeof(struct receive_call) <= CALL_BYTES_MAX, "malloc has it at hand");

struct answer_budget *receive_budget(struct local_call *c)
{
    return ((struct receive_call *)c)->budget;
}

bool receive_repeats(const struct local_call *c)
{
    return ((const struct receive_call *)c)->has_id;
}

const struct op_claim *receive_claim(struct local_call *c)
{
    return &((struct receive_call *)c)->claim;
}

int64_t receive_left_ms(const struct local_call *c)
{
    int64_t left = c->until - clock_boot_ms();
    return left > 0 ? left : 0;
}

static enum sluice_code check_options(struct receive_call *r)
{
    const char *worker = r->long_worker ? r->long_worker : r->worker;
    if (worker_check(worker, NULL)) return worker_check(worker, call_error(&r->call));
    const struct op_claim *claim = &r->claim;
    if (claim->max <= CLAIM_COUNT_MAX && claim->lease_ms >= 0 && claim->lease_ms <= LEASE_MAX_MS)
        return SLUICE_OK;
    return refuse(call_error(&r->call), ERR_INVALID,
                  claim->max > CLAIM_COUNT_MAX ? "max" : "visibility",
                  "max must be 1 to %d and the visibility timeout at most 24 h", CLAIM_COUNT_MAX);
}

// Prepares the acks. If they cannot be in the claim's entry, their ops come first.
static bool plan_acks(struct receive_call *r, bool may_block, struct call_plan *plan, bool *blocks)
{
    struct local_call *c = &r->call;
    *blocks = false;
    if (!r->acks) return true;
    size_t good = r->acks->locks ? r->acks->len : settling_parse(r->acks, c, may_block, blocks);
    if (*blocks || !r->acks->locks) return false;
    plan->ops = good > 0;
    plan->at_once = 1;
    plan->joined = plan->shards == 1 && settling_is_one_op(r->acks);
    return true;
}

// A shard that is done here and has a message is claimed in at once. Otherwise a node would first
// ask the owners of the other shards.
static void prefer_ready(struct local_call *c, struct call_plan *plan)
{
    for (uint32_t i = 0; i < plan->shards && !plan->likely; i++) {
        uint32_t shard = (plan->first_shard + i) % plan->shards;
        if (!runner_saw(c->queue->runners[shard], RUNNER_HAS_READY) || forward_is(c, shard))
            continue;
        plan->first_shard = shard;
        plan->likely = true;
    }
}

// The shard that a receive starts with; it rotates.
static uint32_t queue_first_shard(struct open_queue *q)
{
    LOCKED(&q->engine->lock);
    return q->next_shard++ % q->row.birth.shards;
}

static enum call_built build(struct local_call *c, bool may_block, struct call_plan *plan)
{
    struct receive_call *r = (struct receive_call *)c;
    bool blocks;
    enum call_built opened = call_open_queue(c, may_block);
    if (opened != CALL_BUILT) return opened;
    if (check_options(r)) return CALL_ENDED;
    if (r->acks) opened = settling_check(r->acks, c);
    if (opened != CALL_BUILT) return opened;
    uint32_t shards = c->queue->row.birth.shards;
    *plan = (struct call_plan){.shards = shards, .named = r->has_id, .has_turn = true};
    if (!plan_acks(r, may_block, plan, &blocks)) return blocks ? CALL_BLOCKS : CALL_ENDED;
    if (!r->has_id) r->claim.max = batch_claim_max(c->queue, r->claim.max, r->budget);
    if (shards == 1) return CALL_BUILT;
    struct bytes id = bytes_of(r->claim.request.bytes, sizeof r->claim.request.bytes);
    plan->first_shard =
        r->has_id ? (uint32_t)(hash64_of(id, 0) % shards) : queue_first_shard(c->queue);
    if (r->has_id) plan->has_turn = turn_begin(c, &r->claim.request);
    prefer_ready(c, plan);
    return CALL_BUILT;
}

static void own(struct local_call *c)
{
    struct receive_call *r = (struct receive_call *)c;
    if (r->acks) settling_own(r->acks);
}

static struct shard_runner *op(struct local_call *c, uint32_t index, struct op *out,
                               uint32_t *shard)
{
    return settling_op(((struct receive_call *)c)->acks, c, index, out, shard);
}

static enum call_op_end op_end(struct local_call *c, const struct call_slot *slot)
{
    (void)c;
    return settling_op_end(slot->err);
}

static void conclude(struct local_call *c, const struct call_slot *slot)
{
    settling_conclude(((struct receive_call *)c)->acks, c, slot, false);
}

enum call_find_end receive_found(const struct call_slot *slot)
{
    const struct kept_reply *a = &slot->async.answer;
    switch (slot->effect) {
    case STEP_AWAIT: // NOT_FOUND with a body: the queue was deleted
        if (slot->err == ERR_NOT_FOUND && a->body.len == 0) return STEP_NOTHING;
        return slot->err ? STEP_FAILED : STEP_FOUND;
    case STEP_RECALL: // a halted shard is skipped: its locks cannot be acked
        if (!slot->err) return a->body.len > 0 ? STEP_FOUND : STEP_NOTHING;
        return slot->err == ERR_CORRUPT ? STEP_NOTHING : STEP_FAILED;
    default:
        if (slot->err) return STEP_FAILED;
        return a->deliveries_len > 0 ? STEP_FOUND : STEP_NOTHING;
    }
}

static struct call_slot *result_slot(struct local_call *c)
{
    static const enum call_effect_kind effects[] = {[STEP_FROM_CLAIM] = STEP_CLAIM,
                                                    [STEP_FROM_RECALL] = STEP_RECALL,
                                                    [STEP_FROM_AWAIT] = STEP_AWAIT};
    const struct call_result *result = &c->state.result;
    if (result->from == STEP_FROM_NOTHING) return NULL;
    return call_slot_of(c, effects[result->from], result->shard);
}

// The journal, or this process for it, refused the claim: it was certainly not applied.
static void refuse_no_owner(struct local_call *c, uint32_t shard)
{
    struct sluice_error *error = call_error(c);
    (void)refuse(error, ERR_UNAVAILABLE, "",
                 "queue %s: only the owner of a shard hands out its messages (consume=owner), and "
                 "no node that owns shard %u answers; start a node (sluice serve), or set "
                 "consume=any",
                 c->queue->row.name, shard);
    if (error) (void)snprintf(error->reason, sizeof error->reason, NO_OWNER);
}

static void refuse_claim(struct local_call *c, const struct call_slot *slot)
{
    if (slot->err == ERR_FENCED && !forward_is_evicted(slot)) {
        refuse_no_owner(c, slot->index);
        return;
    }
    enum sluice_code code =
        refuse_op(call_error(c), slot->err, OP_CLAIM, &slot->async.answer, c->queue->row.name);
    if (code != SLUICE_NOT_FOUND) return;
    queue_stale(c->queue);
    call_forget_error(c);
    (void)refuse_reason(call_error(c), REASON_DELETED, c->queue->row.name);
}

// Makes the batch. False: that would block.
static bool receive_deliver(struct local_call *c, bool may_block)
{
    struct receive_call *r = (struct receive_call *)c;
    struct call_slot *slot = result_slot(c);
    struct kept_reply *a = slot ? &slot->async.answer : NULL;
    if (slot && slot->err) {
        refuse_claim(c, slot);
        return true;
    }
    if (!slot || a->deliveries_len == 0) return true;
    struct shard_runner *runner = call_runner(c, slot->index);
    bool old = r->has_id || c->claim_repeated;
    if (old && !slot->forwarded) deliver_drop_stale(runner, a); // an owner has done it
    if (!may_block && batch_delivery_blocks(c->queue, a->deliveries, a->deliveries_len, r->budget))
        return false;
    struct delivery_target h = {.queue = c->queue,
                                .shard = slot->index,
                                .runner = runner,
                                .named = r->has_id,
                                .budget = r->budget};
    if (a->deliveries_len > 0) {
        enum sluice_code code = deliver_batch(&h, a, &r->batch, call_error(c));
        if (code) call_set_code(c, code);
    }
    return true;
}

static struct sluice_batch *take_batch(struct receive_call *r)
{
    struct sluice_batch *batch = r->batch;
    r->batch = NULL;
    return batch || call_code(&r->call) ? batch : batch_take(batch_new(0));
}

static void answer(struct local_call *c, struct async_answer *out)
{
    struct receive_call *r = (struct receive_call *)c;
    const struct call_slot *slot = result_slot(c);
    out->batch = take_batch(r);
    out->batch_forwarded = slot && slot->forwarded;
    if (!r->acks) return;
    out->outcomes = r->acked;
    out->len = r->acks->len;
    acks_fill(r->acked, out->len, call_code(c));
}

static void release(struct local_call *c)
{
    struct receive_call *r = (struct receive_call *)c;
    if (r->acks) settling_done(r->acks);
    memory_free(r->acks);
    memory_free(r->acked);
    memory_free(r->long_worker);
    sluice_batch_free(r->batch);
    memory_free(r);
}

static const struct call_type receive_type = {.kind = STEP_RECEIVE,
                                              .build = build,
                                              .own = own,
                                              .op = op,
                                              .op_end = op_end,
                                              .conclude = conclude,
                                              .deliver = receive_deliver,
                                              .answer = answer,
                                              .release = release};

// The acks get an id that is derived from the receive's.
static void add_acks(struct receive_call *r, const struct sluice_receive *o, bool async)
{
    struct sluice_request id;
    if (o->request) {
        struct request_id part = request_part(o->request->bytes, ACKS_PART);
        memcpy(id.bytes, part.bytes, sizeof id.bytes);
    }
    struct settle what = {.kind = SETTLE_ACK,
                          .tokens = o->acks,
                          .len = o->acks_len,
                          .acks = o->results,
                          .request = o->request ? &id : NULL};
    if (async) r->acked = memory_zeroed(o->acks_len, sizeof *r->acked);
    r->acks = NEW(struct settle_plan);
    settling_init(r->acks, &what, async ? r->acked : o->acked);
}

static struct receive_call *receive_new(struct engine *e, const char *queue,
                                        const struct sluice_receive *o, struct async_call *caller)
{
    static const struct sluice_receive none = {0};
    struct receive_call *r = NEW(struct receive_call);
    if (!o) o = &none;
    int64_t wait = o->wait_ms <= 0 ? 0 : o->wait_ms < WAIT_MAX_MS ? o->wait_ms : WAIT_MAX_MS;
    call_prepare(&r->call, &receive_type, e, queue, caller);
    r->call.until = clock_boot_ms() + wait;
    if (!o->worker)
        worker_default(r->worker);
    else if (strlen(o->worker) < sizeof r->worker)
        memcpy(r->worker, o->worker, strlen(o->worker));
    else
        r->long_worker = memory_text(o->worker);
    r->claim = (struct op_claim){.worker = bytes_str(r->worker),
                                 .max = o->max > 0 ? o->max : 1,
                                 .lease_ms = o->visibility_ms};
    entropy_fill(r->claim.seed, sizeof r->claim.seed);
    r->has_id = o->request != NULL;
    if (caller) r->budget = caller->budget;
    if (r->has_id)
        memcpy(r->claim.request.bytes, o->request->bytes, sizeof o->request->bytes);
    else
        entropy_fill(r->claim.request.bytes, sizeof r->claim.request.bytes);
    if (o->acks_len > 0) add_acks(r, o, caller);
    return r;
}

void async_receive(struct engine *e, const char *queue, const struct sluice_receive *options,
                   struct async_call *a)
{
    call_start(&receive_new(e, queue, options, a)->call);
}

enum sluice_code ops_receive(struct engine *e, const char *queue,
                             const struct sluice_receive *options, struct sluice_batch **out,
                             struct sluice_error *error)
{
    enum sluice_code code;
    if (mailbox_receive(e, queue, options, out, error, &code)) return code;
    struct receive_call *r = receive_new(e, queue, options, NULL);
    atomic_fetch_add(&r->call.refs, 1); // for the batch
    code = call_blocking(&r->call, error);
    *out = code ? NULL : take_batch(r);
    if (!code) mailbox_note_claimed(e, queue, options ? options->worker : NULL, *out);
    call_release(&r->call);
    return code;
}
