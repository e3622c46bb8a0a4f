// SPDX-License-Identifier: Apache-2.0
// A receive has at most one claim under way, and at most one await per shard. A runner may call
// back on any thread, and before the call that caused it returns. Any call to a runner may run
// callbacks of other calls. So no runner is called while the receive's lock is held. The handle's
// lock is taken before a receive's lock, never after.
//
//     IDLE -> STARTING -> WAITING -> CANCELLING -> IDLE      the await of each shard
//                 '----------'-------------------> IDLE
//
// A repeated receive must get the answer of the shard where the first one claimed, in any process.
// So a receive with a caller's request id works in this order:
//
//   - It makes a round: it asks every shard for a stored answer to the id, up to the tail.
//   - If there is none, it waits for a message.
//   - After each wait it makes another round, of the entries folded so far. Then it claims.
//
// If a second receive of this handle has the same id, it begins when the first one has ended. If
// the first one only waits, it ends at once, without a claim.
//
// Two processes hash the id to the same first shard, so the second one usually finds the answer of
// the first one there. If they still claim in different shards, each caller gets a message. Later
// repeats return one of the two, always the same. The lock of the other message expires.
#include "local/multi_receive.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "os/clock.h"

#include <string.h>

enum await_state { AWAIT_IDLE, AWAIT_STARTING, AWAIT_WAITING, AWAIT_CANCELLING };

struct shard_wait {            // the await at one shard
    struct runner_async async; // first
    struct multi_receive *multi;
    struct shard_runner *runner;
    enum await_state state;
    uint32_t number;  // of awaits that were started here
    bool has_message; // the await found a message, and no claim was made here since
};

struct recalled_id {           // what one shard remembers of the request id
    struct runner_async async; // first
    struct multi_receive *multi;
    uint32_t shard;
};

struct multi_receive {
    struct runner_async claiming; // first
    pthread_mutex_t lock;
    struct open_queue *queue; // with a hold: a runner may call back after `done` was called
    struct op_claim claim;
    struct bytes worker; // owned
    int64_t until;       // clock_boot_ms
    multi_receive_done *done;
    void *ctx;
    uint32_t shards;
    uint32_t at;   // the shard of the claim under way
    bool claims;   // a claim is under way
    bool ended;    // the result is decided: no new await, claim or round
    bool unwanted; // to be ended, unless the claim under way succeeds
    // The first error of an await. Reported only if no other shard has a message before the wait
    // ends.
    enum err err;
    int holds; // awaits, claims and rounds under way, the caller, each thread that works on it

    uint32_t first_shard; // the shard that comes first
    bool begun;           // no earlier receive with its id is left
    bool awaits_started;  // an await was started in every shard
    bool awaits_starting; // await_all is starting them
    bool certain;         // a round was made, and the receive has not waited since
    uint32_t round;       // shards that have not answered the round yet
    bool has_recalled;    // a shard answered the round with a result, which is in these fields:
    enum err recalled_err;
    uint32_t recalled_at; // the shard
    struct runner_answer recalled;
    struct recalled_id *recalls; // one per shard; NULL: the caller gave no request id

    // Under the handle's lock: the next receive of the queue's bucket, and the one with the same id
    // that begins after this one.
    struct multi_receive *next, *successor;
    struct shard_wait shard_waits[];
};

static void lock(struct multi_receive *q)
{
    (void)pthread_mutex_lock(&q->lock);
}

// Releases the lock and drops a hold.
static void drop_hold(struct multi_receive *q)
{
    bool last = --q->holds == 0;
    (void)pthread_mutex_unlock(&q->lock);
    if (!last) return;
    (void)pthread_mutex_destroy(&q->lock);
    queue_let_go(&q->queue);
    runner_answer_done(&q->recalled);
    memory_free(q->recalls);
    bytes_free(q->worker);
    memory_free(q);
}

static bool has_same_id(const struct multi_receive *a, const struct multi_receive *b)
{
    return memcmp(&a->claim.request, &b->claim.request, sizeof a->claim.request) == 0;
}

static struct multi_receive **bucket_of(const struct multi_receive *q)
{
    return &q->queue->multis[q->claim.request.bytes[0] % MULTI_RECEIVE_BUCKETS];
}

// Adds the receive to its queue's list. Returns the earlier one with the same id, with a hold;
// NULL: none.
static struct multi_receive *enlist(struct multi_receive *q)
{
    pthread_mutex_t *handle = &q->queue->handle->lock;
    (void)pthread_mutex_lock(handle);
    struct multi_receive **bucket = bucket_of(q), *same_id = *bucket;
    while (same_id && !has_same_id(same_id, q))
        same_id = same_id->next;
    q->next = *bucket;
    *bucket = q;
    if (same_id) {
        same_id->successor = q;
        lock(same_id);
        same_id->holds++;
        (void)pthread_mutex_unlock(&same_id->lock);
    }
    (void)pthread_mutex_unlock(handle);
    return same_id;
}

// Removes the receive from its queue's list. Returns the receive that must begin now; NULL: none.
// *waited: it still waited for an earlier one, and will not begin.
static struct multi_receive *unlist(struct multi_receive *q, bool *waited)
{
    *waited = false;
    if (!q->recalls) return NULL;
    pthread_mutex_t *handle = &q->queue->handle->lock;
    (void)pthread_mutex_lock(handle);
    struct multi_receive *successor = q->successor;
    for (struct multi_receive **at = bucket_of(q); *at;) {
        if (*at == q) {
            *at = q->next;
            continue;
        }
        if ((*at)->successor == q) {
            (*at)->successor = successor;
            successor = NULL; // it waits for the earlier one now
            *waited = true;
        }
        at = &(*at)->next;
    }
    (void)pthread_mutex_unlock(handle);
    return successor;
}

static void begin(struct multi_receive *q);

// Cancels the awaits. An await that is answered already still calls back. The caller has the lock
// and a hold; the lock is released meanwhile.
static void cancel_awaits(struct multi_receive *q)
{
    CHECK(q->ended); // so no thread starts another await
    for (uint32_t i = 0; i < q->shards; i++) {
        struct shard_wait *p = &q->shard_waits[i];
        if (p->state != AWAIT_WAITING) continue;
        p->state = AWAIT_CANCELLING;
        (void)pthread_mutex_unlock(&q->lock);
        bool cancelled = runner_cancel(p->runner, &p->async);
        lock(q);
        if (!cancelled) continue;
        p->state = AWAIT_IDLE;
        q->holds--;
    }
}

// Notifies another waiter of each shard that reported a message which this receive will not claim.
// The caller has the lock and a hold; the lock is released meanwhile.
static void notify_others(struct multi_receive *q)
{
    for (uint32_t i = 0; i < q->shards; i++) {
        struct shard_wait *p = &q->shard_waits[i];
        if (!p->has_message) continue;
        p->has_message = false;
        (void)pthread_mutex_unlock(&q->lock);
        runner_notify_next(p->runner);
        lock(q);
    }
}

// Ends the receive and calls `done`. The caller has the lock and a hold; it releases both.
static void finish(struct multi_receive *q, enum err err, struct runner_answer *a)
{
    q->ended = true;
    cancel_awaits(q);
    notify_others(q);
    (void)pthread_mutex_unlock(&q->lock);
    bool waited;
    struct multi_receive *successor = unlist(q, &waited);
    q->done(q->ctx, err, q->at, a);
    if (successor) begin(successor);
    lock(q);
    if (waited) q->holds--; // the hold for its beginning
    drop_hold(q);
}

static void next_step(struct multi_receive *q);

static void awaited(struct runner_async *l, enum err err, struct runner_answer *a)
{
    struct shard_wait *p = (struct shard_wait *)l;
    struct multi_receive *q = p->multi;
    bool nothing = err == ERR_NOT_FOUND && a->body.len == 0; // with a body: the queue was deleted
    lock(q);
    p->state = AWAIT_IDLE;
    p->has_message = err == ERR_OK;
    if (err && !nothing && !q->err) q->err = err;
    next_step(q);
}

// Starts an await. The caller has the lock and a hold; the lock is released meanwhile.
static void await_at(struct multi_receive *q, struct shard_wait *p)
{
    int64_t left = q->until - clock_boot_ms();
    uint32_t number = ++p->number;
    p->state = AWAIT_STARTING;
    q->holds++;
    (void)pthread_mutex_unlock(&q->lock);
    p->async.then = awaited;
    runner_await_async(p->runner, q->claim.worker, left > 0 ? left : 0, &p->async);
    lock(q);
    // The await may have been answered meanwhile, and another one may be starting here.
    bool mine = p->number == number;
    if (mine && p->state == AWAIT_STARTING) p->state = AWAIT_WAITING;
    if (q->ended) cancel_awaits(q);
}

static void claimed(struct runner_async *l, enum err err, struct runner_answer *a)
{
    struct multi_receive *q = (struct multi_receive *)l;
    lock(q);
    q->claims = false;
    struct shard_wait *p = &q->shard_waits[q->at];
    CHECK(!q->ended); // a receive is not cancelled while it claims
    if (err || a->deliveries_len > 0) {
        finish(q, err, a);
        return;
    }
    bool waits = !q->unwanted && clock_boot_ms() < q->until;
    if (waits) await_at(q, p); // another receive claimed the message first
    next_step(q);
}

static void claim_at(struct multi_receive *q, uint32_t shard)
{
    q->at = shard;
    q->claims = true;
    q->shard_waits[shard].has_message = false;
    q->holds++;
    (void)pthread_mutex_unlock(&q->lock);
    q->claiming.then = claimed;
    runner_receive_async(q->shard_waits[shard].runner, &q->claim, 0, &q->claiming);
    lock(q);
}

static bool find_message(const struct multi_receive *q, uint32_t *shard)
{
    for (uint32_t i = 0; i < q->shards; i++) {
        *shard = (q->first_shard + i) % q->shards;
        if (q->shard_waits[*shard].has_message) return true;
    }
    return false;
}

static bool any_awaits(const struct multi_receive *q)
{
    for (uint32_t i = 0; i < q->shards; i++)
        if (q->shard_waits[i].state != AWAIT_IDLE) return true;
    return false;
}

// Starts an await in every shard. If one is answered at once, the receive may claim before the next
// await starts. The caller has the lock and a hold; the lock is released meanwhile.
static void await_all(struct multi_receive *q)
{
    q->awaits_started = q->awaits_starting = true;
    for (uint32_t i = 0; i < q->shards; i++)
        q->shard_waits[i].state = AWAIT_STARTING;
    for (uint32_t i = 0; i < q->shards; i++) {
        struct shard_wait *p = &q->shard_waits[(q->first_shard + i) % q->shards];
        if (q->ended)
            p->state = AWAIT_IDLE; // an earlier await led to a claim already
        else
            await_at(q, p);
    }
    q->awaits_starting = false;
}

static uint32_t rank_of(const struct multi_receive *q, uint32_t shard)
{
    return (shard + q->shards - q->first_shard) % q->shards;
}

// Several shards may remember the id, if two processes claimed in different shards. The first shard
// in the order of the id counts. A halted shard (CORRUPT) is skipped: its locks cannot be acked.
static void recall_answered(struct runner_async *l, enum err err, struct runner_answer *a)
{
    const struct recalled_id *m = (struct recalled_id *)l;
    struct multi_receive *q = m->multi;
    lock(q);
    q->round--;
    bool found = !err && a->body.len > 0, failed = err && err != ERR_CORRUPT;
    bool better = !q->has_recalled || (found && q->recalled_err) ||
                  (found && rank_of(q, m->shard) < rank_of(q, q->recalled_at));
    if ((found || failed) && better) {
        q->has_recalled = true;
        q->recalled_err = err;
        q->recalled_at = m->shard;
        runner_answer_done(&q->recalled);
        q->recalled = *a; // taken
        runner_answer_init(a);
    }
    next_step(q);
}

// Asks every shard what it remembers of the request id. The caller has the lock and a hold; the
// lock is released meanwhile.
static void make_round(struct multi_receive *q)
{
    bool looks = !q->awaits_started;
    q->round = q->shards;
    q->holds += (int)q->shards;
    q->certain = true;
    (void)pthread_mutex_unlock(&q->lock);
    for (uint32_t i = 0; i < q->shards; i++) {
        struct recalled_id *m = &q->recalls[i];
        *m = (struct recalled_id){.async.then = recall_answered, .multi = q, .shard = i};
        runner_recall_async(q->shard_waits[i].runner, &q->claim, looks, &m->async);
    }
    lock(q);
}

// Whether there is nothing to do until a callback. It starts a round if one is needed. The caller
// has the lock and a hold.
static bool must_wait(struct multi_receive *q)
{
    uint32_t shard;
    bool waits = q->awaits_started && !find_message(q, &shard) && any_awaits(q);
    if (!q->begun && !q->unwanted) return true;
    if (q->claims || q->round > 0) return true;
    if (q->unwanted || q->has_recalled) return false;
    if (waits) {
        q->certain = q->certain && q->awaits_starting;
        return true;
    }
    if (!q->recalls || q->certain) return false;
    make_round(q);
    return true;
}

// Takes the next step of the receive. The caller has the lock and a hold; it releases both.
static void next_step(struct multi_receive *q)
{
    uint32_t shard;
    if (q->ended) {
        notify_others(q);
        drop_hold(q);
    } else if (must_wait(q)) {
        drop_hold(q);
    } else if (q->has_recalled) {
        q->at = q->recalled_at;
        finish(q, q->recalled_err, &q->recalled);
    } else if (!q->unwanted && !q->awaits_started) {
        await_all(q);
        next_step(q);
    } else if (!q->unwanted && find_message(q, &shard)) {
        claim_at(q, shard);
        drop_hold(q);
    } else {
        struct runner_answer none;
        runner_answer_init(&none);
        finish(q, q->err, &none);
        runner_answer_done(&none);
    }
}

static void begin(struct multi_receive *q)
{
    lock(q);
    q->begun = true;
    next_step(q); // with the hold that multi_receive_begin took for it
}

static uint32_t first_shard_of(struct open_queue *queue, const struct op_claim *claim, bool named)
{
    if (!named) return queue_first_shard(queue);
    return (uint32_t)(hash64_of(bytes_of(claim->request.bytes, sizeof claim->request.bytes), 0) %
                      queue->row.birth.shards);
}

struct multi_receive *multi_receive_begin(struct open_queue *queue,
                                          struct shard_runner *const *runners,
                                          const struct op_claim *claim, bool named, int64_t wait_ms,
                                          multi_receive_done *done, void *ctx)
{
    uint32_t shards = queue->row.birth.shards;
    struct multi_receive *q = memory_zeroed(1, sizeof *q + shards * sizeof *q->shard_waits);
    (void)pthread_mutex_init(&q->lock, NULL);
    queue_hold(queue);
    q->queue = queue;
    q->worker = bytes_copy(claim->worker);
    q->claim = *claim;
    q->claim.worker = q->worker;
    q->until = clock_boot_ms() + wait_ms;
    q->done = done;
    q->ctx = ctx;
    q->shards = shards;
    q->first_shard = first_shard_of(queue, claim, named);
    q->holds = 2; // the caller's, and the one for begin
    runner_answer_init(&q->recalled);
    for (uint32_t i = 0; i < shards; i++)
        q->shard_waits[i] = (struct shard_wait){.multi = q, .runner = runners[i]};
    if (named) q->recalls = memory_zeroed(shards, sizeof *q->recalls);
    struct multi_receive *before = named ? enlist(q) : NULL;
    if (!before) {
        begin(q);
        return q;
    }
    lock(before);
    before->unwanted = true;
    next_step(before);
    return q;
}

bool multi_receive_cancel(struct multi_receive *q)
{
    lock(q);
    if (q->ended || q->claims || q->round > 0) {
        q->unwanted = true;
        (void)pthread_mutex_unlock(&q->lock);
        return false;
    }
    q->ended = true;
    cancel_awaits(q);
    notify_others(q);
    (void)pthread_mutex_unlock(&q->lock);
    bool waited;
    struct multi_receive *successor = unlist(q, &waited);
    if (successor) begin(successor);
    lock(q);
    if (waited) q->holds--;
    (void)pthread_mutex_unlock(&q->lock);
    return true;
}

void multi_receive_release(struct multi_receive *q)
{
    lock(q);
    drop_hold(q);
}
