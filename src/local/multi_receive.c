// SPDX-License-Identifier: Apache-2.0
// One claim at a time, at most one await per shard. A callback may come on any thread, before the
// call that causes it returns, and any call to a desk may bring callbacks of others: so no desk is
// called with the quest's lock held. The handle's lock is taken before a quest's, never after.
//
//     IDLE -> STARTING -> WAITING -> CANCELLING -> IDLE      of each shard's await
//                 '----------'-------------------> IDLE
//
// A request id of the caller's must find the shard again that it claimed in, whoever asks. So such
// a quest makes a round first, which asks every shard what it remembers of the id, with a look at
// its journal's end; and another, of what is known by then, before it claims after having waited.
// Of two quests of this handle with one id the second begins when the first has ended, which it
// does without a claim if it only waits. Those of two processes start with the same shard, and so
// mostly meet there.
#include "local/multi_receive.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "os/clock.h"

#include <string.h>

enum await_state { AWAIT_IDLE, AWAIT_STARTING, AWAIT_WAITING, AWAIT_CANCELLING };

struct shard_wait {            // at one shard
    struct runner_async async; // first
    struct multi_receive *multi;
    struct shard_runner *runner;
    enum await_state state;
    uint32_t number; // of awaits started here
    bool promising;  // there was something, while a claim was under way elsewhere
};

struct recalled_id {           // one shard's, of the id
    struct runner_async async; // first
    struct multi_receive *multi;
    uint32_t shard;
};

struct multi_receive {
    struct runner_async claiming; // first
    pthread_mutex_t lock;
    struct open_queue *queue; // held: a desk may call back after the caller was told
    struct op_claim claim;
    struct bytes worker; // owned
    int64_t until;       // clock_boot_ms
    multi_receive_done *done;
    void *ctx;
    uint32_t shards;
    uint32_t at; // the shard of the claim under way
    bool claims;
    bool ended;    // done was called, or will not be
    bool unwanted; // to be cancelled, if the claim under way brings nothing
    enum err err;  // the first that an await ended with
    int holds;     // awaits, claims and rounds under way, the caller, whoever works on it

    uint32_t home;  // the shard that comes first
    bool begun;     // no other quest with its id is before it
    bool asked;     // an await was started everywhere
    bool asking;    // ... is being
    bool certain;   // a round was made and it has not waited since
    uint32_t round; // memories that were not told yet
    bool told;      // one of them had something to say:
    enum err told_err;
    uint32_t told_at;
    struct runner_answer recalled;
    struct recalled_id *memories; // one per shard; NULL: the id is not the caller's

    struct multi_receive *next,
        *successor; // others of this queue, and with this id; under the handle's lock
    struct shard_wait shard_waits[];
};

static void lock(struct multi_receive *q)
{
    (void)pthread_mutex_lock(&q->lock);
}

// Releases the lock and a hold.
static void leave(struct multi_receive *q)
{
    bool last = --q->holds == 0;
    (void)pthread_mutex_unlock(&q->lock);
    if (!last) return;
    (void)pthread_mutex_destroy(&q->lock);
    queue_let_go(&q->queue);
    runner_answer_done(&q->recalled);
    memory_free(q->memories);
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

// The one that is before it, with a hold; NULL: none.
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

// Whoever is to begin now; NULL: nobody. *waited: it was somebody's heir, and is not to begin.
static struct multi_receive *unlist(struct multi_receive *q, bool *waited)
{
    *waited = false;
    if (!q->memories) return NULL;
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
            successor = NULL; // it waits for that one
            *waited = true;
        }
        at = &(*at)->next;
    }
    (void)pthread_mutex_unlock(handle);
    return successor;
}

static void begin(struct multi_receive *q);

// With the lock and a hold; releases the lock meanwhile. One that was told already hears it.
static void cancel_awaits(struct multi_receive *q)
{
    CHECK(q->ended); // nobody starts another
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

// With the lock and a hold; releases the lock meanwhile. What was promised here and is not claimed
// is for somebody else who waits there, and nobody would tell him.
static void pass_on(struct multi_receive *q)
{
    for (uint32_t i = 0; i < q->shards; i++) {
        struct shard_wait *p = &q->shard_waits[i];
        if (!p->promising) continue;
        p->promising = false;
        (void)pthread_mutex_unlock(&q->lock);
        runner_notify_next(p->runner);
        lock(q);
    }
}

// With the lock and a hold, both of which it releases: the end, as the caller hears it.
static void finish(struct multi_receive *q, enum err err, struct runner_answer *a)
{
    q->ended = true;
    cancel_awaits(q);
    pass_on(q);
    (void)pthread_mutex_unlock(&q->lock);
    bool waited;
    struct multi_receive *successor = unlist(q, &waited);
    q->done(q->ctx, err, q->at, a);
    if (successor) begin(successor);
    lock(q);
    if (waited) q->holds--; // it was kept for the beginning
    leave(q);
}

static void go_on(struct multi_receive *q);

static void awaited(struct runner_async *l, enum err err, struct runner_answer *a)
{
    struct shard_wait *p = (struct shard_wait *)l;
    struct multi_receive *q = p->multi;
    bool nothing = err == ERR_NOT_FOUND && a->body.len == 0; // else the queue was deleted
    lock(q);
    p->state = AWAIT_IDLE;
    p->promising = err == ERR_OK;
    if (err && !nothing && !q->err) q->err = err;
    go_on(q);
}

// With the lock and a hold of its own; releases the lock meanwhile.
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
    // It may have been answered, and another been started here that no desk has yet.
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
    CHECK(!q->ended); // it cannot be cancelled while it claims
    if (err || a->deliveries_len > 0) {
        finish(q, err, a);
        return;
    }
    bool waits = !q->unwanted && clock_boot_ms() < q->until;
    if (waits) await_at(q, p); // somebody was faster
    go_on(q);
}

static void claim_at(struct multi_receive *q, uint32_t shard)
{
    q->at = shard;
    q->claims = true;
    q->shard_waits[shard].promising = false;
    q->holds++;
    (void)pthread_mutex_unlock(&q->lock);
    q->claiming.then = claimed;
    runner_receive_async(q->shard_waits[shard].runner, &q->claim, 0, &q->claiming);
    lock(q);
}

static bool find_promising(const struct multi_receive *q, uint32_t *shard)
{
    for (uint32_t i = 0; i < q->shards; i++) {
        *shard = (q->home + i) % q->shards;
        if (q->shard_waits[*shard].promising) return true;
    }
    return false;
}

static bool any_awaits(const struct multi_receive *q)
{
    for (uint32_t i = 0; i < q->shards; i++)
        if (q->shard_waits[i].state != AWAIT_IDLE) return true;
    return false;
}

// With the lock and a hold; releases the lock meanwhile. An await that is answered at once may
// claim before the next one is started.
static void ask_all(struct multi_receive *q)
{
    q->asked = q->asking = true;
    for (uint32_t i = 0; i < q->shards; i++)
        q->shard_waits[i].state = AWAIT_STARTING;
    for (uint32_t i = 0; i < q->shards; i++) {
        struct shard_wait *p = &q->shard_waits[(q->home + i) % q->shards];
        if (q->ended)
            p->state = AWAIT_IDLE; // something was found already
        else
            await_at(q, p);
    }
    q->asking = false;
}

static uint32_t rank_of(const struct multi_receive *q, uint32_t shard)
{
    return (shard + q->shards - q->home) % q->shards;
}

// Several may, when processes did not meet: the first in the id's own order counts. A shard that
// has halted answers nothing; what it gave cannot be settled either.
static void remembered(struct runner_async *l, enum err err, struct runner_answer *a)
{
    const struct recalled_id *m = (struct recalled_id *)l;
    struct multi_receive *q = m->multi;
    lock(q);
    q->round--;
    bool found = !err && a->body.len > 0, failed = err && err != ERR_CORRUPT;
    bool better = !q->told || (found && q->told_err) ||
                  (found && rank_of(q, m->shard) < rank_of(q, q->told_at));
    if ((found || failed) && better) {
        q->told = true;
        q->told_err = err;
        q->told_at = m->shard;
        runner_answer_done(&q->recalled);
        q->recalled = *a; // taken
        runner_answer_init(a);
    }
    go_on(q);
}

// With the lock and a hold; releases the lock meanwhile.
static void make_round(struct multi_receive *q)
{
    bool looks = !q->asked;
    q->round = q->shards;
    q->holds += (int)q->shards;
    q->certain = true;
    (void)pthread_mutex_unlock(&q->lock);
    for (uint32_t i = 0; i < q->shards; i++) {
        struct recalled_id *m = &q->memories[i];
        *m = (struct recalled_id){.async.then = remembered, .multi = q, .shard = i};
        runner_recall_async(q->shard_waits[i].runner, &q->claim, looks, &m->async);
    }
    lock(q);
}

// With the lock and a hold. True: a round is made, or there is nothing more to be done.
static bool pauses(struct multi_receive *q)
{
    uint32_t shard;
    bool waits = q->asked && !find_promising(q, &shard) && any_awaits(q);
    if (!q->begun && !q->unwanted) return true;
    if (q->claims || q->round > 0) return true;
    if (q->unwanted || q->told) return false;
    if (waits) {
        q->certain = q->certain && q->asking;
        return true;
    }
    if (!q->memories || q->certain) return false;
    make_round(q);
    return true;
}

// With the lock and a hold, both of which it releases.
static void go_on(struct multi_receive *q)
{
    uint32_t shard;
    if (q->ended) {
        pass_on(q);
        leave(q);
    } else if (pauses(q)) {
        leave(q);
    } else if (q->told) {
        q->at = q->told_at;
        finish(q, q->told_err, &q->recalled);
    } else if (!q->unwanted && !q->asked) {
        ask_all(q);
        go_on(q);
    } else if (!q->unwanted && find_promising(q, &shard)) {
        claim_at(q, shard);
        leave(q);
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
    go_on(q); // with the hold that was kept for this
}

static uint32_t home_of(struct open_queue *queue, const struct op_claim *claim, bool named)
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
    q->home = home_of(queue, claim, named);
    q->holds = 2; // the caller's, and ours until it has begun
    runner_answer_init(&q->recalled);
    for (uint32_t i = 0; i < shards; i++)
        q->shard_waits[i] = (struct shard_wait){.multi = q, .runner = runners[i]};
    if (named) q->memories = memory_zeroed(shards, sizeof *q->memories);
    struct multi_receive *before = named ? enlist(q) : NULL;
    if (!before) {
        begin(q);
        return q;
    }
    lock(before);
    before->unwanted = true;
    go_on(before);
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
    pass_on(q);
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
    leave(q);
}
