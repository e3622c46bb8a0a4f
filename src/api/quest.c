// SPDX-License-Identifier: Apache-2.0
// One claim at a time, at most one await per shard. A callback may come on any thread, before the
// call that causes it returns, and any call to a desk may bring callbacks of others: so no desk is
// called with the quest's lock held.
//
//     IDLE -> STARTING -> WAITING -> CANCELLING -> IDLE      of each shard's await
//                 '----------'-------------------> IDLE
#include "api/quest.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"

#include <string.h>

enum await_state { AWAIT_IDLE, AWAIT_STARTING, AWAIT_WAITING, AWAIT_CANCELLING };

struct post {                // at one shard
    struct desk_later later; // first
    struct quest *quest;
    struct desk *desk;
    enum await_state state;
    bool promising; // there was something, while a claim was under way elsewhere
};

struct quest {
    struct desk_later claiming; // first
    pthread_mutex_t lock;
    struct op_claim claim;
    struct bytes worker; // owned
    int64_t until;       // clock_boot_ms
    quest_done *done;
    void *ctx;
    uint32_t shards;
    uint32_t at; // the shard of the claim under way
    bool claims;
    bool ended;    // done was called, or will not be
    bool unwanted; // to be cancelled, if the claim under way brings nothing
    enum err err;  // the first that an await ended with
    int holds;     // awaits and claims under way, the caller, whoever works on it
    struct post posts[];
};

// ---- lifetime

static void lock(struct quest *q)
{
    (void)pthread_mutex_lock(&q->lock);
}

// Releases the lock and a hold.
static void leave(struct quest *q)
{
    bool last = --q->holds == 0;
    (void)pthread_mutex_unlock(&q->lock);
    if (!last) return;
    (void)pthread_mutex_destroy(&q->lock);
    bytes_free(q->worker);
    memory_free(q);
}

// With the lock and a hold; releases the lock meanwhile. One that was told already hears it.
static void cancel_awaits(struct quest *q)
{
    CHECK(q->ended); // nobody starts another
    for (uint32_t i = 0; i < q->shards; i++) {
        struct post *p = &q->posts[i];
        if (p->state != AWAIT_WAITING) continue;
        p->state = AWAIT_CANCELLING;
        (void)pthread_mutex_unlock(&q->lock);
        bool cancelled = desk_cancel(p->desk, &p->later);
        lock(q);
        if (!cancelled) continue;
        p->state = AWAIT_IDLE;
        q->holds--;
    }
}

// With the lock and a hold; releases the lock meanwhile. What was promised here and is not claimed
// is for somebody else who waits there, and nobody would tell him.
static void pass_on(struct quest *q)
{
    for (uint32_t i = 0; i < q->shards; i++) {
        struct post *p = &q->posts[i];
        if (!p->promising) continue;
        p->promising = false;
        (void)pthread_mutex_unlock(&q->lock);
        desk_pass_on(p->desk);
        lock(q);
    }
}

// With the lock and a hold, both of which it releases: the end, as the caller hears it.
static void finish(struct quest *q, enum err err, struct desk_answer *a)
{
    q->ended = true;
    cancel_awaits(q);
    pass_on(q);
    (void)pthread_mutex_unlock(&q->lock);
    q->done(q->ctx, err, q->at, a);
    lock(q);
    leave(q);
}

// ---- awaiting and claiming

static void go_on(struct quest *q);

static void awaited(struct desk_later *l, enum err err, struct desk_answer *a)
{
    struct post *p = (struct post *)l;
    struct quest *q = p->quest;
    (void)a;
    lock(q);
    p->state = AWAIT_IDLE;
    p->promising = err == ERR_OK;
    if (err && err != ERR_NOT_FOUND && !q->err) q->err = err;
    go_on(q);
}

// With the lock and a hold of its own; releases the lock meanwhile.
static void await_at(struct quest *q, struct post *p)
{
    int64_t left = q->until - clock_boot_ms();
    p->state = AWAIT_STARTING;
    q->holds++;
    (void)pthread_mutex_unlock(&q->lock);
    p->later.then = awaited;
    desk_await_later(p->desk, q->claim.worker, left > 0 ? left : 0, &p->later);
    lock(q);
    if (p->state == AWAIT_STARTING) p->state = AWAIT_WAITING;
    if (q->ended) cancel_awaits(q);
}

static void claimed(struct desk_later *l, enum err err, struct desk_answer *a)
{
    struct quest *q = (struct quest *)l;
    lock(q);
    q->claims = false;
    struct post *p = &q->posts[q->at];
    CHECK(!q->ended); // it cannot be cancelled while it claims
    if (err || a->deliveries_len > 0) {
        finish(q, err, a);
        return;
    }
    bool waits = !q->unwanted && clock_boot_ms() < q->until;
    if (waits) await_at(q, p); // somebody was faster
    go_on(q);
}

static void claim_at(struct quest *q, uint32_t shard)
{
    q->at = shard;
    q->claims = true;
    q->posts[shard].promising = false;
    q->holds++;
    (void)pthread_mutex_unlock(&q->lock);
    q->claiming.then = claimed;
    desk_receive_later(q->posts[shard].desk, &q->claim, 0, &q->claiming);
    lock(q);
}

static bool find_promising(const struct quest *q, uint32_t *shard)
{
    for (uint32_t i = 0; i < q->shards; i++) {
        *shard = i;
        if (q->posts[i].promising) return true;
    }
    return false;
}

static bool any_awaits(const struct quest *q)
{
    for (uint32_t i = 0; i < q->shards; i++)
        if (q->posts[i].state != AWAIT_IDLE) return true;
    return false;
}

// With the lock and a hold, both of which it releases: what comes next.
static void go_on(struct quest *q)
{
    uint32_t shard;
    if (q->ended) {
        pass_on(q);
        leave(q);
    } else if (q->claims) {
        leave(q);
    } else if (!q->unwanted && find_promising(q, &shard)) {
        claim_at(q, shard);
        leave(q);
    } else if (!q->unwanted && any_awaits(q)) {
        leave(q);
    } else {
        struct desk_answer none;
        desk_answer_init(&none);
        finish(q, q->err, &none);
        desk_answer_done(&none);
    }
}

// ---- the calls

struct quest *quest_begin(struct open_queue *queue, struct desk *const *desks,
                          const struct op_claim *claim, int64_t wait_ms, quest_done *done,
                          void *ctx)
{
    uint32_t shards = queue->row.birth.shards, turn = queue_turn(queue);
    struct quest *q = memory_zeroed(1, sizeof *q + shards * sizeof *q->posts);
    (void)pthread_mutex_init(&q->lock, NULL);
    q->worker = bytes_copy(claim->worker);
    q->claim = *claim;
    q->claim.worker = q->worker;
    q->until = clock_boot_ms() + wait_ms;
    q->done = done;
    q->ctx = ctx;
    q->shards = shards;
    q->holds = 2; // the caller's, and ours until all are asked
    lock(q);
    for (uint32_t i = 0; i < shards; i++)
        q->posts[i] = (struct post){.quest = q, .desk = desks[i], .state = AWAIT_STARTING};
    for (uint32_t i = 0; i < shards; i++) {
        struct post *p = &q->posts[(turn + i) % shards];
        if (q->ended)
            p->state = AWAIT_IDLE; // something was found already
        else
            await_at(q, p);
    }
    go_on(q);
    return q;
}

bool quest_cancel(struct quest *q)
{
    lock(q);
    if (q->ended || q->claims) {
        q->unwanted = true;
        (void)pthread_mutex_unlock(&q->lock);
        return false;
    }
    q->ended = true;
    cancel_awaits(q);
    pass_on(q);
    leave(q);
    return true;
}

void quest_release(struct quest *q)
{
    lock(q);
    leave(q);
}
