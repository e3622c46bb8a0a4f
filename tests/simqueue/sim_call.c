// SPDX-License-Identifier: Apache-2.0
// Calls and their answers. A client in doubt about its request sends it again with the same request
// id, through any handle, but not after the queue may have forgotten the id.
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "check.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#define LAST_USE   (2 * MINUTE) // the queue remembers a request id for ten minutes
#define TRIES_SOME 10
#define CALLS_SIZE (SIM_CALLS_MAX * sizeof(struct sim_call))

// A world uses a small part of the table. With MALLOC_PERTURB_, which meson sets, free() would
// write to all of it. That took two fifths of the processor time.
void sim_calls_init(struct world *w)
{
    w->life->calls =
        mmap(NULL, CALLS_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(w->life->calls != MAP_FAILED);
}

uint32_t sim_call_new(struct world *w, enum sim_call_what what, uint16_t kind, uint32_t lane)
{
    struct life *life = w->life;
    CHECK(life->sim_calls_len < SIM_CALLS_MAX);
    uint32_t place = life->sim_calls_len++;
    struct sim_call *a = &life->calls[place];
    *a = (struct sim_call){
        .what = what, .kind = kind, .lane = lane, .worker = NO_INDEX, .first_at = w->now};
    uint64_t chance = rng_next(&w->rng);
    memcpy(a->request.bytes, &chance, sizeof chance);
    memcpy(a->request.bytes + sizeof chance, &place, sizeof place);
    memcpy(a->seed, a->request.bytes, sizeof a->seed);
    a->seed[15] = 1;
    return place;
}

void sim_calls_done(struct world *w)
{
    for (uint32_t i = 0; i < w->life->sim_calls_len; i++) {
        bytes_free(w->life->calls[i].payload);
        bytes_free(w->life->calls[i].told);
    }
    int failed = munmap(w->life->calls, CALLS_SIZE);
    CHECK(!failed);
}

uint32_t sim_call_index(const struct world *w, const struct sim_call *a)
{
    return (uint32_t)(a - w->life->calls);
}

struct sim_call *sim_call_by_request(struct world *w, const struct request_id *id)
{
    uint32_t place;
    memcpy(&place, id->bytes + sizeof(uint64_t), sizeof place);
    if (place >= w->life->sim_calls_len) return NULL;
    struct sim_call *a = &w->life->calls[place];
    return memcmp(a->request.bytes, id->bytes, sizeof id->bytes) == 0 ? a : NULL;
}

struct trial *sim_call_trial(struct sim_call *a, uint32_t pen)
{
    for (uint32_t i = 0; i < a->trials_len; i++)
        if (a->trials[i].pen == pen) return &a->trials[i];
    return NULL;
}

void sim_call_put_outcome(struct world *w, const struct sim_call *a, const struct node *n,
                          struct buf *out)
{
    CLEANUP(buf_done) struct buf refs;
    buf_init(&refs, (size_t)HELD_LOCKS_MAX * LOCK_REF_BYTES);
    for (uint32_t i = 0; i < a->refs_len; i++)
        lock_ref_put(&refs, &a->refs[i]);
    char reason[32];
    (void)snprintf(reason, sizeof reason, "because of %u", sim_call_index(w, a));
    struct op_outcome op = {.request = a->request,
                            .queue = w->life->lanes[a->lane].id,
                            .shard = w->life->lanes[a->lane].shard,
                            .arrived_at = node_now(n).hi,
                            .wait_ms = a->wait_ms,
                            .reason = bytes_str(a->kind == OP_FAIL ? reason : ""),
                            .count = a->refs_len,
                            .refs = buf_bytes(&refs)};
    CLEANUP(buf_done) struct buf extras;
    buf_init(&extras, 4096);
    op.extras = signals_extras(w, a, &extras);
    bool sibling = a->foreign && a->seed[0] % 2; // another queue's, or another shard's
    if (a->foreign && !sibling) op.queue.bytes[0] ^= 1;
    if (sibling) op.shard ^= 1;
    outcome_encode(out, &op);
}

struct op_claim sim_call_claim(const struct world *w, const struct sim_call *a)
{
    struct op_claim claim = {.request = a->request,
                             .worker = bytes_str(w->life->workers[a->worker].name),
                             .max = a->max,
                             .lease_ms = a->lease_ms};
    memcpy(claim.seed, a->seed, sizeof claim.seed);
    return claim;
}

static void submit_op(struct world *w, const struct sim_call *a, struct node *n, int64_t deadline)
{
    struct buf *out = &w->life->scratch;
    buf_clear(out);
    struct op_claim claim;
    if (a->payload.len > 0) {
        buf_put(out, a->payload);
    } else if (a->kind == OP_TAKE) {
        claim = sim_call_claim(w, a);
        claim_encode(out, &claim);
    } else if (a->kind == OP_SIGNAL_SETTLE) {
        signals_put_settle(w, a, n, out);
    } else {
        sim_call_put_outcome(w, a, n, out);
    }
    struct op op = {.kind = a->kind, .payload = buf_bytes(out)};
    shard_submit(w->life->handles[n->index].shard, sim_call_index(w, a) + 1, op, deadline,
                 node_now(n));
}

static void submit_own(struct world *w, struct sim_call *a, struct node *n, int64_t deadline)
{
    uint32_t place = sim_call_index(w, a);
    struct journal_owner owner = {
        .coord = "coordination...", .token = a->token, .address = bytes_of(&place, sizeof place)};
    shard_own(w->life->handles[n->index].shard, place + 1, a->expected, &owner, deadline,
              node_now(n));
}

int64_t sim_call_patience(struct world *w)
{
    bool hasty = w->phase == WORLD_FAULTY && rng_chance(&w->rng, 500);
    return hasty ? rng_range(&w->rng, 0, 50) : rng_range(&w->rng, 500, w->mix.patience_ms);
}

static void listen_to(struct world *w, const struct sim_call *a, struct node *n)
{
    struct listen_ask asks[HELD_LOCKS_MAX];
    for (uint32_t i = 0; i < a->refs_len; i++)
        asks[i] = (struct listen_ask){.ref = a->refs[i]};
    shard_listen(w->life->handles[n->index].shard, sim_call_index(w, a) + 1,
                 &(struct shard_listen){.asks = asks, .len = a->refs_len}, w->now + a->wait_ms,
                 a->deadline, node_now(n));
}

static void send_off(struct world *w, struct sim_call *a, struct node *n)
{
    struct shard *s = w->life->handles[n->index].shard;
    uint64_t ticket = sim_call_index(w, a) + 1;
    int64_t deadline = w->now + sim_call_patience(w);
    bool waits =
        a->what == SIM_CALL_RECEIVE || a->what == SIM_CALL_AWAIT || a->what == SIM_CALL_LISTEN;
    a->deadline = waits ? deadline + a->wait_ms : deadline;
    struct op_claim claim;
    switch (a->what) {
    case SIM_CALL_OP:
    case SIM_CALL_ARRIVE:
        submit_op(w, a, n, deadline);
        break;
    case SIM_CALL_RECEIVE:
        claim = sim_call_claim(w, a);
        shard_receive(s, ticket, &claim, w->now + a->wait_ms, a->deadline, node_now(n));
        break;
    case SIM_CALL_SYNC:
        shard_sync(s, ticket, deadline, node_now(n));
        break;
    case SIM_CALL_OWN:
        submit_own(w, a, n, deadline);
        break;
    case SIM_CALL_FETCH:
        shard_fetch(s, ticket, &a->place, 1, deadline, node_now(n));
        break;
    case SIM_CALL_AWAIT:
        shard_await(s, ticket, bytes_str("watcher"), w->now + a->wait_ms, a->deadline, node_now(n));
        break;
    case SIM_CALL_LISTEN:
        listen_to(w, a, n);
        break;
    case SIM_CALL_RECALL:
        claim = sim_call_claim(w, &w->life->calls[a->of]);
        shard_recall(s, ticket, &claim, true, deadline, node_now(n));
        break;
    }
}

void sim_call_begins(struct world *w, uint32_t ask, struct node *n)
{
    struct sim_call *a = &w->life->calls[ask];
    uint32_t pen = w->life->handles[n->index].pen;
    struct trial *t = sim_call_trial(a, pen);
    if (!t) {
        CHECK(a->trials_len < TRIES_MAX);
        t = &a->trials[a->trials_len++];
        *t = (struct trial){.pen = pen};
    }
    t->count++;
    a->tries++;
    a->open = true;
    a->node = n->index;
    a->life = n->life;
    a->tail_then = w->life->lanes[a->lane].reference.len;
    a->slot_then = journal_slot(n->journal);
    trace_line(&w->trace, w->now, "n%u.%u: ask %u what %d kind %u try %u of %s", n->index, n->life,
               ask, (int)a->what, a->kind, a->tries,
               a->worker == NO_INDEX ? "a client" : w->life->workers[a->worker].name);
}

void sim_call_submit_to(struct world *w, uint32_t ask, struct node *n)
{
    sim_call_begins(w, ask, n);
    send_off(w, &w->life->calls[ask], n);
    node_settle(w, n);
}

void call_async(struct world *w, uint32_t ask)
{
    world_at(w, w->now + rng_range(&w->rng, 10, 3 * SECOND), EVENT_RETRY, ask, 0);
}

bool sim_call_submit(struct world *w, uint32_t ask)
{
    const struct sim_call *a = &w->life->calls[ask];
    bool only = w->life->lanes[a->lane].reference.config.consume == CONSUME_OWNER;
    bool claims = op_is_claim(a->kind);
    struct node *n = only && claims && rng_chance(&w->life->consume, life_drains(w) ? 9000 : 6000)
                         ? node_owner(w, a->lane)
                         : node_pick(w, a->lane);
    if (n) {
        sim_call_submit_to(w, ask, n);
    } else {
        call_async(w, ask);
    }
    return n != NULL;
}

static void close_ask(struct world *w, uint32_t ask, const struct shard_reply *r)
{
    struct sim_call *a = &w->life->calls[ask];
    a->closed = true;
    if (r) check_conclusion(w, ask, r);
    if (life_is_crowd(w) && a->kind == OP_SEND) crowd_begin(w);
    if (a->worker != NO_INDEX) worker_heard(w, ask, r, true);
}

bool sim_call_gives_up(const struct world *w, const struct sim_call *a)
{
    bool tired = !life_is_crowd(w) && a->tries >= TRIES_SOME;
    return w->now > a->first_at + LAST_USE || tired || a->trials_len == TRIES_MAX;
}

void sim_call_await(struct world *w, struct node *n)
{
    uint32_t ask = sim_call_new(w, SIM_CALL_AWAIT, 0, w->life->handles[n->index].lane);
    w->life->calls[ask].wait_ms = rng_range(&w->rng, 0, 4 * SECOND);
    sim_call_submit_to(w, ask, n);
}

// Through some other handle: before a receive goes to another shard, this one is asked what it
// gave.
static void recall(struct world *w, uint32_t receive)
{
    struct node *n = node_pick(w, w->life->calls[receive].lane);
    if (!n) return;
    uint32_t ask = sim_call_new(w, SIM_CALL_RECALL, 0, w->life->calls[receive].lane);
    w->life->calls[ask].of = receive;
    sim_call_submit_to(w, ask, n);
}

void sim_call_again(struct world *w, uint32_t ask)
{
    struct sim_call *a = &w->life->calls[ask];
    bool recalls = a->what == SIM_CALL_RECEIVE && a->tries > 0 && !a->closed && !life_is_crowd(w);
    if (recalls && rng_chance(&w->rng, 3000)) recall(w, ask);
    if (w->findings.broken) return;
    if (a->partner) {
        joined_again(w, ask);
        return;
    }
    if (a->open || a->closed) return;
    if (sim_call_gives_up(w, a)) {
        close_ask(w, ask, NULL);
    } else {
        (void)sim_call_submit(w, ask);
    }
}

// Not a refusal that may have no entry, while an earlier attempt may still take effect.
static bool is_decided(const struct sim_call *a, const struct shard_reply *r)
{
    bool claims = op_is_claim(a->kind);
    bool ownerless = claims && r->body.len > 0 && r->body.data[0] == REASON_NOT_OWNER;
    bool open = ownerless || err_repeated(r->err) == ERR_UNKNOWN;
    return !a->in_doubt || !open || MUTANT(REFUSAL_DECIDES);
}

static bool is_final(const struct sim_call *a, const struct shard_reply *r)
{
    if (a->what == SIM_CALL_OP) return r->body.len > 0 && is_decided(a, r);
    if (a->what == SIM_CALL_RECEIVE) return r->body.len > 0 || r->err == ERR_OK;
    return true;
}

void sim_call_heard(struct world *w, struct node *n, const struct shard_reply *r)
{
    idle_act(&n->idle);
    uint32_t ask = (uint32_t)r->ticket - 1;
    CHECK(ask < w->life->sim_calls_len);
    struct sim_call *a = &w->life->calls[ask];
    trace_line(&w->trace, w->now, "n%u.%u: ask %u: %s %s, %zu messages", n->index, n->life, ask,
               err_name(r->err), r->body.len > 0 ? reason_name((enum reason)r->body.data[0]) : "-",
               r->deliveries_len);
    check_answer(w, n, ask, r);
    a->open = false;
    a->in_doubt = a->in_doubt || r->err == ERR_UNKNOWN;
    if (w->findings.broken) return;
    if (a->what == SIM_CALL_AWAIT && r->err == ERR_OK) w->life->handles[n->index].passes_on = true;
    if (a->what == SIM_CALL_LISTEN) signals_heard(w, ask, r);
    if (a->what == SIM_CALL_ARRIVE) {
        carrier_heard(w, ask, r);
    } else if (a->partner) {
        joined_heard(w, ask, r, is_final(a, r));
    } else if (!is_final(a, r)) {
        call_async(w, ask);
    } else if (a->kind == OP_SEND && w->phase == WORLD_FAULTY && rng_chance(&w->rng, 500)) {
        call_async(w, ask); // it forgot that it was told
    } else {
        close_ask(w, ask, r);
    }
}

void sim_call_orphans(struct world *w, const struct node *n)
{
    if (w->findings.broken) return;
    for (uint32_t i = 0; i < w->life->sim_calls_len; i++) {
        struct sim_call *a = &w->life->calls[i];
        if (!a->open || a->node != n->index || a->life != n->life) continue;
        a->open = false;
        a->in_doubt = true;
        if (a->what == SIM_CALL_ARRIVE) {
            carrier_lost(w, i);
        } else if (a->partner) {
            joined_orphan(w, i);
        } else if (a->what == SIM_CALL_OP || a->what == SIM_CALL_RECEIVE) {
            call_async(w, i);
        } else {
            close_ask(w, i, NULL);
        }
    }
}
