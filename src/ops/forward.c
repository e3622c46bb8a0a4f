// SPDX-License-Identifier: Apache-2.0
#include "ops/forward.h"

#include "base/memory.h"
#include "ops/awaits.h"
#include "os/clock.h"
#include "peer/link.h"
#include "protocol/shard_wire.h"
#include "queues/where.h"

#include <string.h>

// One request to the owner, for one slot or for an op and the claim behind it. Both slots point to
// it, so it is reference counted.
struct forwarded_call {
    struct link_call link; // first
    struct call_slot *slots[SHARD_PARTS_MAX];
    uint8_t len;
    uint8_t refs; // only the thread that runs the call uses it
    uint32_t shard;
    int64_t until; // clock_boot_ms: the end of the owner's part of a wait
};

static struct forwarded_call *forward_new(uint32_t shard, struct call_slot *first,
                                          struct call_slot *second)
{
    struct forwarded_call *a = NEW(struct forwarded_call);
    link_init(&a->link);
    a->shard = shard;
    a->slots[a->len++] = first;
    if (second) a->slots[a->len++] = second;
    return a;
}

// An await of a receive shares its poll with others (awaits.c).
static bool shares(const struct call_slot *slot)
{
    return slot->effect == STEP_AWAIT && slot->call->state.kind != STEP_LISTEN;
}

void forward_free(struct call_slot *slot)
{
    struct forwarded_call *a = shares(slot) ? NULL : slot->forwarded;
    slot->forwarded = NULL;
    if (!a || --a->refs > 0) return;
    link_done(&a->link);
    memory_free(a);
}

static const char *token_of(const struct local_call *c)
{
    if (c->caller) return c->caller->token;
    const char *token = c->type->token ? c->type->token(c) : NULL;
    return token ? token : links_token(c->engine->links);
}

// Where this part of the call goes. NULL: here.
static struct link_target *target_of(struct local_call *c, const struct call_effect *e,
                                     uint32_t shard, size_t bytes)
{
    struct link_target *t;
    if (!c->engine->links) return NULL;
    struct op_route_facts facts = {.owner = where_target(c->queue, shard, &t), .here = e->here};
    if (facts.owner != OP_ROUTE_OWNER_PROVEN) return NULL; // the usual case
    facts.has_token = token_of(c) != NULL;
    facts.may_have_token = link_may_have_token(t);
    facts.lacks_token = !facts.has_token && atomic_load(&c->engine->needs_token);
    facts.bytes = bytes;
    return op_route_decide(&facts) == OP_ROUTE_AT_OWNER ? t : NULL;
}

bool forward_is(struct local_call *c, uint32_t shard)
{
    struct link_target *t;
    return c->engine->links && where_target(c->queue, shard, &t) == OP_ROUTE_OWNER_PROVEN;
}

static void note(struct forwarded_call *a, enum call_return how)
{
    for (uint8_t i = 0; i < a->len; i++)
        a->slots[i]->returned = how;
}

// A result that the fold decided counts. Otherwise the cause is the store as the owner sees it, or
// a limit of the owner: this process does it.
static void take_part(struct call_slot *slot, struct shard_part *part)
{
    bool decided = part->err == ERR_OK || part->answer.body.len > 0;
    if (slot->effect == STEP_AWAIT && part->err == ERR_NOT_FOUND) decided = true; // nothing came
    slot->err = part->err;
    slot->remembered = part->remembered;
    slot->async.answer = part->answer;
    if (decided) return;
    bool certain = part->err != ERR_UNKNOWN && part->err != ERR_CORRUPT;
    slot->returned = certain ? STEP_UNDONE : STEP_DOUBTED;
}

static void take_parts(struct forwarded_call *a)
{
    struct shard_part parts[SHARD_PARTS_MAX];
    bool moved = false;
    bool good = shard_answer_read(&a->link.call.http.body_in, &moved, parts, a->len);
    for (uint8_t i = 0; good && !moved && i < a->len; i++)
        take_part(a->slots[i], &parts[i]);
    for (uint8_t i = 0; (!good || moved) && i < a->len; i++)
        kept_reply_done(&parts[i].answer);
    if (!good) note(a, STEP_DOUBTED);
    if (moved) note(a, STEP_MOVED);
}

static void came_back(struct link_call *l, enum link_end end)
{
    struct forwarded_call *a = (struct forwarded_call *)l;
    struct call_slot *slots[SHARD_PARTS_MAX];
    struct local_call *c = a->slots[0]->call;
    uint8_t len = a->len;
    memcpy(slots, a->slots, sizeof slots);
    if (end != LINK_ANSWERED) {
        note(a, end == LINK_UNDONE ? STEP_UNDONE : STEP_DOUBTED);
        where_doubt(c->queue, l->target);
    } else {
        take_parts(a);
    }
    if (slots[0]->returned == STEP_MOVED) where_moved(c->queue, a->shard);
    for (uint8_t i = 0; i < len; i++)
        call_note_slot(slots[i]);
}

// Reserves the memory of the messages before they are received.
static bool fits(struct link_call *l, size_t body_len)
{
    struct forwarded_call *a = (struct forwarded_call *)l;
    struct answer_budget *budget = receive_budget(a->slots[0]->call);
    return !budget || budget->take(budget, body_len, false);
}

static bool go(struct local_call *c, struct link_target *t, struct forwarded_call *a,
               int64_t wait_ms)
{
    a->link.done = came_back;
    a->until = clock_boot_ms() + wait_ms;
    for (uint8_t i = 0; i < a->len; i++) {
        kept_reply_init(&a->slots[i]->async.answer);
        a->slots[i]->forwarded = a;
        a->refs++;
    }
    if (link_send(c->engine->links, t, &a->link, c->name, token_of(c), wait_ms)) return true;
    for (uint8_t i = 0; i < a->len; i++)
        forward_free(a->slots[i]);
    return false;
}

static struct shard_ask ask_of(struct local_call *c, enum shard_ask_kind kind, uint32_t shard)
{
    struct shard_ask ask = {.kind = kind, .shard = shard};
    ask.queue = c->queue->row.id;
    return ask;
}

// A longer wait is made in parts, because a node ends each at its own limit.
static int64_t part_of(int64_t wait_ms)
{
    return wait_ms < SHARD_WAIT_MAX_MS ? wait_ms : SHARD_WAIT_MAX_MS;
}

bool forward_submit(struct local_call *c, const struct call_effect *e, uint32_t shard, struct op op,
                    struct call_slot *slot, struct call_slot *claim)
{
    struct link_target *t = target_of(c, e, shard, op.payload.len);
    if (!t) return false;
    struct forwarded_call *a = forward_new(shard, slot, claim);
    struct shard_ask ask = ask_of(c, claim ? SHARD_SUBMIT_CLAIM : SHARD_SUBMIT, shard);
    ask.op = op;
    ask.flags = c->state.plan.blocks ? SHARD_ASK_TELLS : 0;
    if (claim) {
        ask.claim = *receive_claim(c);
        ask.wait_ms = part_of(receive_left_ms(c));
        ask.flags |= receive_repeats(c) ? SHARD_ASK_REPEATS : 0;
        claim->part_ended = receive_left_ms(c) > ask.wait_ms;
        a->link.fits = fits;
    }
    shard_ask_put(&a->link.body, &ask);
    return go(c, t, a, ask.wait_ms);
}

bool forward_claim(struct local_call *c, const struct call_effect *e, int64_t wait_ms,
                   struct call_slot *slot)
{
    struct link_target *t = target_of(c, e, e->index, 0);
    if (!t) return false;
    struct forwarded_call *a = forward_new(e->index, slot, NULL);
    struct shard_ask ask = ask_of(c, SHARD_CLAIM, e->index);
    ask.claim = *receive_claim(c);
    ask.wait_ms = part_of(wait_ms);
    ask.flags |= receive_repeats(c) ? SHARD_ASK_REPEATS : 0;
    slot->part_ended = wait_ms > ask.wait_ms;
    a->link.fits = fits;
    shard_ask_put(&a->link.body, &ask);
    return go(c, t, a, ask.wait_ms);
}

bool forward_await(struct local_call *c, const struct call_effect *e, struct call_slot *slot)
{
    struct link_target *t = target_of(c, e, e->index, 0);
    if (t) awaits_begin(c, t, token_of(c), slot);
    return t != NULL;
}

bool forward_listen(struct local_call *c, const struct call_effect *e, uint32_t shard,
                    const struct shard_listen *what, struct call_slot *slot)
{
    struct link_target *t = target_of(c, e, shard, what->len * sizeof *what->asks);
    if (!t) return false;
    struct forwarded_call *a = forward_new(shard, slot, NULL);
    struct shard_ask ask = ask_of(c, SHARD_LISTEN, shard);
    ask.wait_ms = part_of(receive_left_ms(c));
    slot->part_ended = receive_left_ms(c) > ask.wait_ms;
    shard_ask_put_listen(&a->link.body, &ask, what);
    return go(c, t, a, ask.wait_ms);
}

// A wait that ends early ends for another reason: another receive with the same request id began.
bool forward_part_is_over(const struct call_slot *slot)
{
    return slot->part_ended && clock_boot_ms() >= slot->forwarded->until;
}

// Locks are no matter of a claim or an await, so only one other refusal of them is FENCED.
bool forward_is_ownerless(const struct call_slot *slot)
{
    bool receives = slot->effect == STEP_CLAIM || slot->effect == STEP_AWAIT;
    if (slot->call->state.kind == STEP_SERVED) return false; // the process that asks finds it
    return receives && !slot->returned && slot->err == ERR_FENCED && !forward_is_evicted(slot);
}

bool forward_is_evicted(const struct call_slot *slot)
{
    struct result result;
    struct bytes body = buf_bytes(&slot->async.answer.body);
    return body.len > 0 && !result_open(body, OP_CLAIM, &result) &&
           result.reason == REASON_WORKER_EVICTED;
}

// If there is no owner, a node waits on: it may become the owner. So does a receive that other
// shards can serve.
enum call_find_end forward_find_owner(struct local_call *c, struct call_slot *slot, bool over)
{
    bool several = c->state.plan.shards > 1;
    bool waits = !over && (several || atomic_load(&c->engine->self));
    where_moved(c->queue, slot->index);
    if (!slot->here) {
        slot->returned = STEP_MOVED;
        return STEP_AGAIN;
    }
    if (!waits) return STEP_FAILED;
    call_find_owners(&c->state);
    return several && slot->effect == STEP_CLAIM ? STEP_NOTHING : STEP_AGAIN;
}

bool forward_cancel(struct call_slot *slot)
{
    struct forwarded_call *a = slot->forwarded;
    if (shares(slot)) return awaits_cancel(slot);
    if (!link_cancel(&a->link)) return false;
    for (uint8_t i = 0; i < a->len; i++) { // the op of the request may have been done
        if (a->slots[i] == slot) continue;
        a->slots[i]->returned = STEP_DOUBTED;
        call_note_slot(a->slots[i]);
    }
    return true;
}
