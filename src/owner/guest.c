// SPDX-License-Identifier: Apache-2.0
#include "owner/guest.h"

#include "base/check.h"
#include "base/memory.h"
#include "local/deliver.h"
#include "local/settle.h"
#include "node/thread_pool.h"
#include "owner/notices.h"
#include "queue/result.h"

#include <stddef.h>
#include <string.h>

struct guest_part {
    struct runner_async async; // first; keeps the answer
    struct guest *guest;
    struct shard_runner *runner;
    uint32_t shard;
    enum err err;
    bool open;  // under the guest's lock
    bool found; // of an await
};

struct guest {
    struct sluice *handle;
    char name[QUEUE_NAME_MAX + 1];
    struct open_queue *queue; // with a hold; NULL until it is open
    struct shard_ask ask;
    struct answer_budget *budget;
    void (*done)(struct guest *g, void *ctx);
    void *ctx;
    struct pool_job job;
    struct guest_part *parts; // a submit, a claim, or both; one for each shard of an await
    size_t parts_len;
    bool moved;      // this node does not own the shard
    bool remembered; // as in struct shard_part
    pthread_mutex_t lock;
    size_t open; // parts under way, and 1 until all were started
    bool started;
    bool cancelled;
    bool others_ended; // ... because one shard of an await has something
};

struct guest *guest_new(struct sluice *s, const char *queue, const struct shard_ask *ask,
                        struct answer_budget *budget, void (*done)(struct guest *g, void *ctx),
                        void *ctx)
{
    struct guest *g = NEW(struct guest);
    g->handle = s;
    memcpy(g->name, queue, strlen(queue) + 1);
    g->ask = *ask;
    g->budget = budget;
    g->done = done;
    g->ctx = ctx;
    g->open = 1;
    g->parts_len = ask->kind == SHARD_AWAIT          ? ask->shards_len
                   : ask->kind == SHARD_SUBMIT_CLAIM ? 2
                                                     : 1;
    g->parts = memory_zeroed(g->parts_len, sizeof *g->parts);
    for (size_t i = 0; i < g->parts_len; i++) {
        g->parts[i].guest = g;
        g->parts[i].shard =
            ask->kind == SHARD_AWAIT ? shard_ask_await(ask, (uint32_t)i) : ask->shard;
        g->parts[i].err = ERR_NOT_FOUND;
        runner_answer_init(&g->parts[i].async.answer);
    }
    (void)pthread_mutex_init(&g->lock, NULL);
    return g;
}

void guest_free(struct guest *g)
{
    if (!g) return;
    for (size_t i = 0; i < g->parts_len; i++)
        runner_answer_done(&g->parts[i].async.answer);
    memory_free(g->parts);
    queue_let_go(&g->queue);
    (void)pthread_mutex_destroy(&g->lock);
    memory_free(g);
}

static bool is_await(const struct guest *g)
{
    return g->ask.kind == SHARD_AWAIT;
}

static bool is_listen(const struct guest *g)
{
    return g->ask.kind == SHARD_LISTEN;
}

// The claim of a guest that has one.
static struct guest_part *claim_of(struct guest *g)
{
    bool claims = g->ask.kind == SHARD_CLAIM || g->ask.kind == SHARD_SUBMIT_CLAIM;
    return claims ? &g->parts[g->parts_len - 1] : NULL;
}

size_t guest_deliveries(const struct guest *g)
{
    size_t len = 0;
    for (size_t i = 0; i < g->parts_len; i++)
        len += g->parts[i].async.answer.deliveries_len;
    return len;
}

// Opens the result of the op. Returns false if the fold gave none.
static bool op_result(const struct guest *g, struct result *out)
{
    const struct runner_answer *a = &g->parts[0].async.answer;
    bool has = g->ask.kind == SHARD_SUBMIT || g->ask.kind == SHARD_SUBMIT_CLAIM;
    return has && !g->moved && a->body.len > 0 &&
           !result_open(buf_bytes(&a->body), g->ask.op.kind, out);
}

size_t guest_sent(const struct guest *g)
{
    struct result result;
    struct send_row row;
    size_t len = 0;
    if (g->ask.op.kind != OP_SEND || !op_result(g, &result)) return 0;
    while (send_row_next(&result, &row))
        len += reason_err(row.reason) == ERR_OK;
    return len;
}

struct sluice_outcome *guest_outcomes(const struct guest *g, size_t *len)
{
    struct result result;
    struct outcome_row row;
    *len = 0;
    if (!op_is_outcome(g->ask.op.kind) || !op_result(g, &result) || result.count == 0) return NULL;
    struct sluice_outcome *out = memory_zeroed(result.count, sizeof *out);
    while (*len < result.count && outcome_row_next(&result, &row))
        outcome_fill(g->ask.op.kind, &row, &out[(*len)++]);
    return out;
}

static void check_memory(void *ctx, const struct machine *m, int64_t now)
{
    struct guest *g = ctx;
    struct op_result result;
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, SIZE_MAX);
    (void)now;
    g->remembered = machine_recall(m, &g->ask.op, &result, &text);
}

// Only a caller that asks for signals can read them, and only in the last part.
static void drop_signals(struct guest *g)
{
    for (size_t i = 0; i < g->parts_len; i++) {
        struct runner_answer *a = &g->parts[i].async.answer;
        if ((g->ask.signals || is_listen(g)) && i + 1 == g->parts_len) continue;
        memory_free(a->signals);
        a->signals = NULL;
    }
}

// The last part has ended. If there is no memory for the messages, the caller claims them itself,
// with the same request id.
static void finish(struct guest *g)
{
    struct guest_part *claim = claim_of(g), *op = &g->parts[0];
    if (is_listen(g)) claim = op;
    drop_signals(g);
    if (!g->moved && claim && claim->runner) {
        struct runner_answer *a = &claim->async.answer;
        deliver_drop_stale(claim->runner, a); // the request id may be a repeated one
        size_t bytes = shard_answer_weight(a);
        if (bytes > 0 && g->budget && !g->budget->take(g->budget, bytes, false)) {
            runner_answer_done(a);
            runner_answer_init(a);
            claim->err = ERR_UNKNOWN;
        }
    }
    if (!g->moved && g->ask.tells && op->runner) runner_inspect(op->runner, check_memory, g);
    if (!g->moved && g->ask.op.kind == OP_FAIL) upkeep_wake(g->handle);
    for (size_t i = 0; i < g->parts_len; i++)
        if (g->parts[i].found) notices_add(g->handle->notices, g->queue, g->parts[i].shard);
    g->done(g, g->ctx);
}

static void drop_open(struct guest *g)
{
    (void)pthread_mutex_lock(&g->lock);
    bool over = --g->open == 0;
    (void)pthread_mutex_unlock(&g->lock);
    if (over) finish(g);
}

// Ends what waits. The parts that cannot be cancelled answer soon.
static void cancel_waits(struct guest *g)
{
    for (size_t i = 0; i < g->parts_len; i++) {
        struct guest_part *p = &g->parts[i];
        bool waits = is_await(g) || is_listen(g) || p == claim_of(g);
        (void)pthread_mutex_lock(&g->lock);
        bool open = p->open && waits;
        (void)pthread_mutex_unlock(&g->lock);
        if (!open || !runner_cancel(p->runner, &p->async)) continue;
        (void)pthread_mutex_lock(&g->lock);
        p->open = false;
        p->err = g->others_ended ? ERR_NOT_FOUND : ERR_UNAVAILABLE; // the caller waits on its own
        (void)pthread_mutex_unlock(&g->lock);
        runner_answer_init(&p->async.answer);
        drop_open(g);
    }
}

static void part_ended(struct runner_async *l, enum err err, struct runner_answer *a)
{
    struct guest_part *p = (struct guest_part *)l;
    struct guest *g = p->guest;
    (void)pthread_mutex_lock(&g->lock);
    p->open = false;
    p->err = err;
    p->found = is_await(g) && err == ERR_OK;
    l->answer = *a; // taken
    runner_answer_init(a);
    bool ends = is_await(g) && !g->cancelled && err != ERR_NOT_FOUND;
    g->others_ended = g->others_ended || ends;
    bool others = ends && g->started; // otherwise the thread that starts them does it
    // It was too late to cancel the wait, which ended without a message: the caller waits on its
    // own.
    bool waits = is_await(g) || is_listen(g)
                     ? err == ERR_NOT_FOUND && l->answer.body.len == 0
                     : p == claim_of(g) && err == ERR_OK && l->answer.deliveries_len == 0;
    if (g->cancelled && !g->others_ended && waits) p->err = ERR_UNAVAILABLE;
    g->cancelled = g->cancelled || ends;
    if (others) g->open++; // while the others are cancelled
    (void)pthread_mutex_unlock(&g->lock);
    if (others) cancel_waits(g);
    if (others) drop_open(g);
    drop_open(g);
}

static void start_part(struct guest *g, struct guest_part *p)
{
    (void)pthread_mutex_lock(&g->lock);
    p->open = true;
    p->async.then = part_ended;
    g->open++;
    (void)pthread_mutex_unlock(&g->lock);
}

static void start_listen(struct guest *g, struct guest_part *p)
{
    const struct shard_ask *ask = &g->ask;
    struct listen_ask *asks = memory_zeroed(ask->tokens_len, sizeof *asks);
    for (uint32_t i = 0; i < ask->tokens_len; i++)
        asks[i] = shard_ask_token(ask, i);
    struct shard_listen what = {.asks = asks,
                                .len = ask->tokens_len,
                                .signal = ask->signal,
                                .seq = ask->seq,
                                .as_owner = true};
    runner_listen_async(p->runner, &what, ask->wait_ms, &p->async);
    memory_free(asks);
}

static void start_parts(struct guest *g)
{
    const struct shard_ask *ask = &g->ask;
    for (size_t i = 0; i < g->parts_len; i++)
        start_part(g, &g->parts[i]);
    struct guest_part *p = g->parts;
    if (ask->kind == SHARD_SUBMIT)
        runner_do_async(p->runner, ask->op, &p->async);
    else if (ask->kind == SHARD_CLAIM)
        runner_receive_async(p->runner, &ask->claim, ask->wait_ms, &p->async);
    else if (ask->kind == SHARD_SUBMIT_CLAIM)
        runner_receive_after_async(p->runner, ask->op, &p->async, &ask->claim, ask->wait_ms,
                                   &p[1].async);
    else if (ask->kind == SHARD_LISTEN)
        start_listen(g, p);
    else
        for (size_t i = 0; i < g->parts_len; i++)
            runner_await_async(p[i].runner, ask->worker, ask->wait_ms, &p[i].async);
}

// Returns whether this node owns all shards that are asked for.
static bool owns(struct guest *g)
{
    struct runner_owner o;
    if (memcmp(g->queue->row.id.bytes, g->ask.queue.bytes, sizeof g->ask.queue.bytes) != 0)
        return false;
    for (size_t i = 0; i < g->parts_len; i++) {
        struct guest_part *p = &g->parts[i];
        if (p->shard >= g->queue->row.birth.shards) return false;
        p->runner = runner_if_open(g->queue, p->shard);
        if (!p->runner) return false;
        runner_owner(p->runner, &o);
        if (!o.mine) return false;
    }
    return true;
}

static void start(struct guest *g)
{
    g->moved = !g->queue || !owns(g);
    if (!g->moved) start_parts(g);
    (void)pthread_mutex_lock(&g->lock);
    bool cancelled = g->cancelled;
    g->started = true;
    (void)pthread_mutex_unlock(&g->lock);
    if (!g->moved && cancelled) cancel_waits(g);
    drop_open(g);
}

static void open_and_start(struct pool_job *job)
{
    struct guest *g = (struct guest *)((char *)job - offsetof(struct guest, job));
    struct shard_runner *d;
    bool open = !queue_get(g->handle, g->name, &g->queue, NULL);
    for (size_t i = 0; open && i < g->parts_len; i++)
        open = g->parts[i].shard < g->queue->row.birth.shards &&
               !queue_work_runner(g->queue, g->parts[i].shard, &d, NULL);
    start(g);
}

void guest_start(struct guest *g)
{
    struct shard_runner *const *runners;
    g->queue = queue_if_open(g->handle, g->name, &runners);
    g->job = (struct pool_job){.run = open_and_start};
    if (g->queue || !async_run_job(g->handle, g->name, &g->job)) start(g);
}

void guest_cancel(struct guest *g)
{
    (void)pthread_mutex_lock(&g->lock);
    bool cancels = !g->cancelled && g->started && g->open > 0;
    g->cancelled = true;
    if (cancels) g->open++;
    (void)pthread_mutex_unlock(&g->lock);
    if (!cancels) return;
    cancel_waits(g);
    drop_open(g);
}

void guest_answer(struct guest *g, struct buf *out)
{
    if (!is_await(g)) {
        shard_answer_begin(out, g->moved, g->moved ? 0 : (uint8_t)g->parts_len);
        for (size_t i = 0; !g->moved && i < g->parts_len; i++)
            shard_answer_put(out, g->parts[i].err, i == 0 && g->remembered,
                             &g->parts[i].async.answer);
        return;
    }
    struct shard_awaited *rows = memory_zeroed(g->parts_len, sizeof *rows);
    size_t len = 0;
    for (size_t i = 0; !g->moved && i < g->parts_len; i++)
        if (g->parts[i].err != ERR_NOT_FOUND || g->parts[i].async.answer.body.len > 0)
            rows[len++] = (struct shard_awaited){g->parts[i].shard, g->parts[i].err};
    shard_awaited_put(out, g->moved, rows, len);
    memory_free(rows);
}

struct give_back {
    struct open_queue *queue; // with a hold
    struct lock_name *locks;
    size_t len;
};

static void give_back(void *ctx)
{
    struct give_back *b = ctx;
    settle_locks(b->queue, OP_RELEASE, "", b->locks, b->len);
    queue_let_go(&b->queue);
    memory_free(b->locks);
    memory_free(b);
}

static void release_locks(struct guest *g, const struct guest_part *p)
{
    const struct runner_answer *a = &p->async.answer;
    struct give_back *b = NEW(struct give_back);
    b->queue = g->queue;
    b->locks = memory_zeroed(a->deliveries_len, sizeof *b->locks);
    for (size_t i = 0; i < a->deliveries_len; i++) {
        const struct grant *grant = &a->deliveries[i].grant;
        b->locks[b->len++] = (struct lock_name){.shard = p->shard,
                                                .ref = {.seq = grant->seq, .token = grant->token}};
    }
    queue_hold(g->queue);
    async_run(g->handle, g->name, give_back, b);
}

void guest_lost(struct guest *g)
{
    struct guest_part *claim = claim_of(g);
    if (claim && claim->async.answer.deliveries_len > 0 && !g->ask.repeats) release_locks(g, claim);
    for (size_t i = 0; is_await(g) && i < g->parts_len; i++)
        if (g->parts[i].found) runner_notify_next(g->parts[i].runner);
}
