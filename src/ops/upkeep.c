// SPDX-License-Identifier: Apache-2.0
// The upkeep of a handle, on its thread pool. A task looks at the open queues and does not block.
// It starts a job for each queue that has dead letters, and for each queue without holds.
//
// A job may block for as long as the store does. So the jobs have a share of the pool, and a queue
// has one job at a time. A queue that hangs thus delays neither calls nor the upkeep of others.
//
// Every process that has a queue open moves its dead letters. A letter that is moved twice arrives
// once.
#include "ops/upkeep.h"
#include "ops/queue_create.h"

#include "base/memory.h"
#include "mailbox/owner.h"
#include "ops/mailbox_rounds.h"
#include "ops/ops.h"
#include "ops/queue_calls.h"
#include "os/clock.h"
#include "os/lock.h"
#include "queues/bodies.h"
#include "queues/owner_only.h"

#define POLL_MS       250   // for messages that die because their lock expires
#define LAST_MOVE_MS  5000  // how long closing a handle waits for dead letters
#define MOVE_AGAIN_MS 5     // the pause while letters are left
#define BOX_LOOK_MS   2000  // for mailboxes, at a node on a store that is far
#define BOX_POLL_MS   10000 // for workers that register directly, at a node
#define NO_THREAD_MS  1000  // when to try again if no thread can be created
#define OWNED_MS      2000  // a node makes sure so often that queues with consume=owner have owners
#define OWNED_NONE_MS 30000 // ... if there are such queues
#define MAILBOX_KEY   UINT64_C(0x6d61696c) // of the share: beside the queue's other job
#define OWNED_KEY     UINT64_C(1)          // of the share: one job at a time
#define THREADS_MAX   16                   // queues that are served at the same time

struct upkeep {
    struct pool_task task; // first
    struct engine *engine;
    struct pool_share *share;
    struct deleted_queues *deleted;
    struct pool_job owned_job; // of a node (queues/owner_only.h)
    _Atomic bool owned_runs;
    _Atomic int64_t owned_at; // when it runs next
};

struct outbox_state {
    uint64_t outbound; // messages in the outbox
    bool routed;       // the queue has a dead-letter queue
};

static void count_outbox(void *ctx, const struct machine *m, int64_t now)
{
    struct outbox_state *l = ctx;
    struct machine_stats stats;
    machine_stats(m, now, &stats);
    l->outbound += stats.counts[STATE_OUTBOUND];
    l->routed = l->routed || machine_config(m)->dead_letter_queue[0] != 0;
}

static enum err move(void *ctx, const char *to, struct op op)
{
    struct engine *e = ctx;
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct shard_runner *r;
    enum sluice_code code = queue_ensure(e, to, 0, NULL);
    if (!code) code = queue_get(e, to, &q, NULL);
    if (!code) code = queue_runner(q, 0, &r, NULL);
    if (code) return (enum err)code;
    LOCAL(buf, payload, JOURNAL_OP_MAX);
    LOCAL(kept_reply, answer);
    enum err err = dead_letter_copy_body(q, r, op, &payload);
    if (!err) err = runner_do(r, (struct op){op.kind, buf_bytes(&payload)}, &answer);
    if (err == ERR_NOT_FOUND) queue_stale(q); // deleted meanwhile: the next try creates it again
    return err;
}

static struct outbox_state outbox_of(struct open_queue *q)
{
    struct outbox_state all = {0};
    for (uint32_t shard = 0; shard < q->row.birth.shards; shard++) {
        struct shard_runner *r = runner_if_open(q, shard);
        if (r) runner_inspect(r, count_outbox, &all);
    }
    return all;
}

static void move_from(struct open_queue *q)
{
    struct engine *e = q->engine;
    for (uint32_t shard = 0; shard < q->row.birth.shards; shard++) {
        struct outbox_state mine = {0};
        struct shard_runner *r = runner_if_open(q, shard);
        if (r) runner_inspect(r, count_outbox, &mine);
        if (mine.outbound == 0) continue;
        // A message that died by an expired lock is in no entry yet. An entry moves the fold's time
        // on.
        if (runner_move_dead_letters(r, move, e) == 0 && runner_touch(r) == ERR_OK)
            (void)runner_move_dead_letters(r, move, e);
    }
}

// The caller holds the lock. The task exists as long as the handle refers to it.
static void schedule_at(struct engine *e, int64_t at)
{
    if (e->upkeep) task_schedule_at(e->upkeep, at);
}

static struct open_queue *queue_of(struct pool_job *job)
{
    return ((struct queue_calls *)((char *)job - offsetof(struct queue_calls, upkeep_job)))->queue;
}

// The queue can have a job again before its letters are counted. A message that dies later wakes
// the task, and a message that died before is counted.
static void run_move(struct pool_job *job)
{
    struct open_queue *q = queue_of(job);
    struct engine *e = q->engine;
    move_from(q);
    (void)pthread_mutex_lock(&e->lock);
    q->calls->upkeep_runs = false;
    (void)pthread_mutex_unlock(&e->lock);
    bool more = outbox_of(q).outbound > 0;
    (void)pthread_mutex_lock(&e->lock);
    if (more) schedule_at(e, clock_boot_ms() + MOVE_AGAIN_MS);
    (void)pthread_mutex_unlock(&e->lock);
    queue_let_go(&q);
}

static void run_close(struct pool_job *job)
{
    queue_close(queue_of(job));
}

static enum err start_job(struct upkeep *u, struct open_queue *q, void (*run)(struct pool_job *job))
{
    q->calls->upkeep_job = (struct pool_job){.run = run};
    return pool_share_run(u->share, queue_key(q), &q->calls->upkeep_job);
}

// Returns false if no thread can be created.
static bool start_move(struct upkeep *u, struct open_queue *q)
{
    struct engine *e = u->engine;
    (void)pthread_mutex_lock(&e->lock);
    bool starts = !q->calls->upkeep_runs;
    if (starts) q->holds++; // the job's
    q->calls->upkeep_runs = true;
    (void)pthread_mutex_unlock(&e->lock);
    if (!starts || start_job(u, q, run_move) == ERR_OK) return true;
    LOCKED(&e->lock);
    q->calls->upkeep_runs = false;
    q->holds--; // not the last one: the caller has a hold
    return false;
}

static struct open_queue *mailbox_queue_of(struct pool_job *job)
{
    return ((struct queue_calls *)((char *)job - offsetof(struct queue_calls, mailbox_job)))->queue;
}

static void end_mailbox_job(struct open_queue *q, int64_t next)
{
    struct engine *e = q->engine;
    (void)pthread_mutex_lock(&e->lock);
    q->calls->mailbox_runs = false;
    q->calls->mailbox_at = next;
    schedule_at(e, next);
    (void)pthread_mutex_unlock(&e->lock);
    queue_let_go(&q);
}

static void run_mailboxes(struct pool_job *job)
{
    struct open_queue *q = mailbox_queue_of(job);
    int64_t begun = clock_boot_ms();
    mailbox_rounds_run(q);
    end_mailbox_job(q, begun + MAILBOX_ROUND_MS);
}

static void run_mailbox_poll(struct pool_job *job)
{
    struct open_queue *q = mailbox_queue_of(job);
    mailbox_rounds_poll(q);
    end_mailbox_job(q, clock_boot_ms() + BOX_POLL_MS);
}

// Marks the job as running if it is due. *at: when to look again. *active: rounds, not only a poll.
static bool take_mailbox_job(struct open_queue *q, enum mailbox_need need, bool *active,
                             int64_t *at)
{
    struct engine *e = q->engine;
    int64_t now = clock_boot_ms();
    bool starts = false;
    *at = need == MAILBOX_NEEDS_NOTHING ? TASK_NEVER : now + BOX_LOOK_MS;
    LOCKED(&e->lock);
    if (!q->calls->mailbox_runs) { // else its end schedules the task
        *active = need == MAILBOX_NEEDS_ROUNDS || q->calls->mailbox_rounds;
        // The first round does not wait for the next poll.
        bool due = q->calls->mailbox_at <= now || q->calls->mailbox_at > now + MAILBOX_ROUND_MS;
        starts = *active ? due : need == MAILBOX_NEEDS_POLL && q->calls->mailbox_at <= now;
        if (*active && !starts) *at = q->calls->mailbox_at;
    }
    if (starts) q->holds++; // the job's
    if (starts) q->calls->mailbox_runs = true;
    return starts;
}

// Starts a round for the mailboxes of a queue if one is due. Returns when to look again.
static int64_t serve_mailboxes(struct upkeep *u, struct open_queue *q)
{
    struct engine *e = u->engine;
    bool active;
    int64_t at;
    if (!take_mailbox_job(q, mailbox_rounds_need(q), &active, &at)) return at;
    q->calls->mailbox_job = (struct pool_job){.run = active ? run_mailboxes : run_mailbox_poll};
    if (pool_share_run(u->share, queue_key(q) ^ MAILBOX_KEY, &q->calls->mailbox_job) == ERR_OK)
        return at;
    (void)pthread_mutex_lock(&e->lock);
    q->calls->mailbox_runs = false;
    q->holds--; // not the last one: the caller has a hold
    (void)pthread_mutex_unlock(&e->lock);
    return clock_boot_ms() + NO_THREAD_MS;
}

static void close_left(struct upkeep *u)
{
    struct open_queue *q = queues_take_left(u->engine);
    while (q) {
        struct open_queue *next = q->next;
        if (start_job(u, q, run_close)) {
            task_may_block(&u->task);
            queue_close(q);
        }
        q = next;
    }
}

static void run_owned(struct pool_job *job)
{
    struct upkeep *u = (struct upkeep *)((char *)job - offsetof(struct upkeep, owned_job));
    size_t queues = owner_only_round(u->engine);
    atomic_store(&u->owned_at, clock_boot_ms() + (queues > 0 ? OWNED_MS : OWNED_NONE_MS));
    atomic_store(&u->owned_runs, false);
    task_schedule_at(&u->task, atomic_load(&u->owned_at));
}

// Returns when to look again.
static int64_t keep_owned(struct upkeep *u)
{
    if (!engine_takes_shards(u->engine)) return TASK_NEVER;
    int64_t now = clock_boot_ms(), at = atomic_load(&u->owned_at);
    if (now < at) return at;
    if (atomic_exchange(&u->owned_runs, true)) return TASK_NEVER; // its end schedules the task
    u->owned_job = (struct pool_job){.run = run_owned};
    if (pool_share_run(u->share, OWNED_KEY, &u->owned_job) == ERR_OK) return TASK_NEVER;
    atomic_store(&u->owned_runs, false);
    return now + NO_THREAD_MS;
}

static int64_t look_at_queues(struct pool_task *task)
{
    struct upkeep *u = (struct upkeep *)task;
    struct open_queue **queues;
    int64_t wait_ms = TASK_NEVER, mailbox_at = TASK_NEVER;
    close_left(u);
    size_t len = queues_hold(u->engine, &queues);
    for (size_t i = 0; i < len; i++) {
        struct outbox_state outbox = outbox_of(queues[i]);
        if (outbox.routed && wait_ms > POLL_MS) wait_ms = POLL_MS;
        if (outbox.outbound > 0 && !start_move(u, queues[i]) && wait_ms > NO_THREAD_MS)
            wait_ms = NO_THREAD_MS;
        int64_t at = serve_mailboxes(u, queues[i]);
        if (at < mailbox_at) mailbox_at = at;
    }
    queues_let_go(queues, len);
    int64_t owned_at = keep_owned(u);
    int64_t at = wait_ms == TASK_NEVER ? TASK_NEVER : clock_boot_ms() + wait_ms;
    if (mailbox_at < at) at = mailbox_at;
    return owned_at < at ? owned_at : at;
}

static void upkeep_free(struct upkeep *u)
{
    deleted_queues_free(u->deleted);
    pool_share_free(u->share);
    memory_free(u);
}

enum err upkeep_start(struct engine *e)
{
    struct upkeep *u = NEW(struct upkeep);
    u->engine = e;
    u->share = pool_share_new(e->pool, THREADS_MAX, 1);
    u->deleted = deleted_queues_new(e, u->share);
    enum err err = u->deleted ? thread_pool_add(e->pool, &u->task, look_at_queues) : ERR_LIMIT;
    if (err) {
        upkeep_free(u);
        return err;
    }
    LOCKED(&e->lock);
    e->ops->upkeep = u;
    e->upkeep = &u->task;
    return ERR_OK;
}

struct deleted_queues *upkeep_deleted_queues(struct engine *e)
{
    return e->ops->upkeep->deleted;
}

// One round over all open queues, on the caller's thread. Returns the letters that are left.
static uint64_t move_all(struct engine *e, int64_t until)
{
    struct open_queue **queues;
    uint64_t left = 0;
    size_t len = queues_hold(e, &queues);
    for (size_t i = 0; i < len; i++) {
        if (clock_boot_ms() < until) move_from(queues[i]);
        left += outbox_of(queues[i]).outbound;
    }
    queues_let_go(queues, len);
    return left;
}

void upkeep_stop(struct engine *e)
{
    (void)pthread_mutex_lock(&e->lock);
    struct upkeep *u = e->ops->upkeep;
    e->ops->upkeep = NULL;
    e->upkeep = NULL;
    e->closing = true;
    (void)pthread_mutex_unlock(&e->lock);
    if (u) {
        task_remove(&u->task);
        upkeep_free(u);
    }
    int64_t until = clock_boot_ms() + LAST_MOVE_MS;
    while (move_all(e, until) > 0 && clock_boot_ms() < until)
        clock_sleep(MOVE_AGAIN_MS);
}
