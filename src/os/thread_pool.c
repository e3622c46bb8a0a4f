// SPDX-License-Identifier: Apache-2.0
// Threads that run tasks and jobs from a queue. One awake thread is enough, because it checks the
// run queue and the timers before it sleeps. If the last awake thread begins to block, the pool
// wakes or creates another one. If no task is due yet, the timer thread, which sleeps until then,
// suffices.
//
// The pool's lock is the innermost of all. Tasks are scheduled with other locks held, but run
// without it. A thread is woken after the lock is released. Otherwise it would block at once.
#include "os/thread_pool.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/fork_guard.h"
#include "os/futex.h"
#include "os/thread.h"

#include <pthread.h>

#define SLEEP_MAX_MS 3600000
#define IDLE_MS      5000  // a thread that is idle for this long exits
#define SPARE_MAX_MS 60000 // a timer thread that sleeps longer does not become a spare one
#define SLEEPING_MAX 8     // runs that sleep in the store at the same time
#define POLL_MIN_MS  16    // between the polls of tasks that may not sleep; a power of two
#define POLL_MAX_MS  1024
#define POLLS_PER_MS 4 // of all tasks together, until the interval reaches its maximum

// Whether the pool refused the task a blocking store_wait (task_may_sleep).
enum refusal { REFUSED_NOT, REFUSED, REFUSED_EAGER, REFUSALS };

// A thread; on its own stack.
struct pool_thread {
    _Atomic uint32_t woken;   // the futex
    struct pool_thread *next; // in the list of spare threads
    int64_t until;            // when it wakes up by itself
    bool asleep;
};

struct thread_pool {
    struct fork_guard guard;
    struct inline_policy policy;
    pthread_mutex_t lock;
    pthread_cond_t ended; // a removed task's run, a share's last job, or a thread
    size_t threads_max;   // of all shares
    size_t threads;
    size_t awake;              // threads that are neither asleep nor in a run that may block
    struct pool_thread *timer; // asleep until the next task is due
    struct pool_thread *spare; // asleep, the most recent first
    _Atomic uint32_t *woken;   // the futex to wake when the lock is released
    struct heap due;           // tasks with a timer, by ref
    struct pool_task **tasks;  // by ref
    uint32_t *free_refs;
    size_t free_refs_len;
    size_t tasks_cap;
    struct run_queue queue;
    struct pool_share *own; // of the tasks that are in no other share
    size_t share_waiters;   // pool_share_free waits for the end of jobs
    size_t sleeping;
    size_t sleeping_max;
    size_t depending;
    size_t refused[REFUSALS];
    pthread_t exited; // the last thread that exited, to be joined
    bool any_exited;
    bool closing;
};

static void lock(struct thread_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
}

// Returns the futex to wake, or NULL. Its thread may have exited by then; to wake a stale address
// is harmless.
static _Atomic uint32_t *unlock_quietly(struct thread_pool *pool)
{
    _Atomic uint32_t *woken = pool->woken;
    pool->woken = NULL;
    (void)pthread_mutex_unlock(&pool->lock);
    return woken;
}

static void unlock(struct thread_pool *pool)
{
    _Atomic uint32_t *woken = unlock_quietly(pool);
    if (woken) futex_wake_all(woken);
}

static void queue_add(struct thread_pool *pool, struct pool_task *task)
{
    CHECK(!task->running);
    if (heap_has(&pool->due, task->ref)) heap_remove(&pool->due, task->ref);
    run_queue_add(task->share, 0, &task->job);
}

static void due_set(struct thread_pool *pool, struct pool_task *task, int64_t at)
{
    if (at == TASK_NEVER) return;
    if (heap_has(&pool->due, task->ref)) {
        if (heap_get(&pool->due, task->ref)->key <= at) return;
        heap_remove(&pool->due, task->ref);
    }
    heap_push(&pool->due, at, task->ref, task->ref);
}

static int64_t next_due(const struct thread_pool *pool)
{
    const struct heap_row *top = heap_top(&pool->due);
    return top ? top->key : TASK_NEVER;
}

static struct pool_job *next_job(struct thread_pool *pool)
{
    int64_t now = clock_boot_ms();
    while (next_due(pool) <= now)
        queue_add(pool, pool->tasks[heap_top(&pool->due)->ref]);
    return run_queue_next(&pool->queue);
}

static void *pool_thread_run(void *arg);

static bool spawn(struct thread_pool *pool)
{
    struct thread thread; // the thread that exits after it joins it
    if (thread_start(&thread, pool_thread_run, pool)) return false;
    pool->threads++;
    pool->awake++;
    return true;
}

static void pool_thread_mark_awake(struct thread_pool *pool, struct pool_thread *thread)
{
    CHECK(thread->asleep);
    if (thread == pool->timer) {
        pool->timer = NULL;
    } else {
        struct pool_thread **at = &pool->spare;
        while (*at != thread)
            at = &(*at)->next;
        *at = thread->next;
    }
    thread->asleep = false;
    pool->awake++;
}

static void pool_thread_wake(struct thread_pool *pool, struct pool_thread *thread)
{
    CHECK(!pool->woken); // at most one is woken before the unlock
    pool_thread_mark_awake(pool, thread);
    atomic_store(&thread->woken, 1);
    pool->woken = &thread->woken;
}

// Makes sure that a thread is awake when the next run is due. The thread that went to sleep last is
// woken first: its stack is in the cache, and the threads below it can exit. Returns false if a
// thread is needed and cannot be created. Then the first thread that returns runs what is due.
static bool ensure_awake(struct thread_pool *pool)
{
    if (pool->awake > 0 || pool->closing) return true;
    int64_t next = run_queue_has_next(&pool->queue) ? 0 : next_due(pool);
    if (next == TASK_NEVER || (pool->timer && pool->timer->until <= next)) return true;
    struct pool_thread *thread = pool->spare ? pool->spare : pool->timer;
    if (thread) pool_thread_wake(pool, thread);
    return thread || pool->threads >= pool->threads_max || spawn(pool);
}

static void sleep_unlocked(struct thread_pool *pool, struct pool_thread *thread)
{
    atomic_store(&thread->woken, 0);
    unlock(pool);
    int64_t ms = thread->until == TASK_NEVER ? SLEEP_MAX_MS : thread->until - clock_boot_ms();
    if (ms > 0) futex_wait(&thread->woken, 0, ms < SLEEP_MAX_MS ? ms : SLEEP_MAX_MS);
    lock(pool);
}

static void spare_add(struct thread_pool *pool, struct pool_thread *thread)
{
    thread->next = pool->spare;
    pool->spare = thread;
}

// Another thread becomes the timer thread. A thread that would sleep for long is woken, so that it
// can exit when it is idle.
static void timer_replace(struct thread_pool *pool, struct pool_thread *by, int64_t now)
{
    struct pool_thread *before = pool->timer;
    if (before && before->until - now > SPARE_MAX_MS) {
        pool_thread_wake(pool, before);
    } else if (before) {
        spare_add(pool, before);
    }
    pool->timer = by;
}

// Sleeps as the timer thread if there is none, or if the present one sleeps too long. Returns false
// if the thread was spare and idle for IDLE_MS: it exits.
static bool pool_thread_sleep(struct thread_pool *pool, struct pool_thread *thread)
{
    int64_t next = next_due(pool), start = clock_boot_ms();
    bool is_timer = !pool->timer || pool->timer->until > next;
    thread->until = is_timer ? next : start + IDLE_MS;
    if (is_timer) {
        timer_replace(pool, thread, start);
    } else {
        spare_add(pool, thread);
    }
    thread->asleep = true;
    pool->awake--;
    sleep_unlocked(pool, thread);
    if (!thread->asleep) return true;
    bool spare = thread != pool->timer;
    pool_thread_mark_awake(pool, thread);
    return !spare || clock_boot_ms() < start + IDLE_MS;
}

static void refusal_clear(struct thread_pool *pool, struct pool_task *task)
{
    pool->refused[task->refused]--;
    task->refused = REFUSED_NOT;
    pool->refused[REFUSED_NOT]++;
}

static void run_begin(struct thread_pool *pool, struct pool_task *task)
{
    refusal_clear(pool, task);
    task->running = true;
    task->rescheduled = task->may_block = task->may_sleep = task->may_depend = false;
    task->asked_at = TASK_NEVER;
}

static void run_end(struct thread_pool *pool, struct pool_task *task, int64_t due)
{
    task->running = false;
    if (task->may_block) pool->awake++;
    if (task->may_sleep) pool->sleeping--;
    if (task->may_depend) pool->depending--;
    if (task->removing) {
        // The task is no longer valid when the lock is released.
        (void)pthread_cond_broadcast(&pool->ended);
        return;
    }
    if (task->asked_at < due) due = task->asked_at;
    if (task->rescheduled) {
        queue_add(pool, task);
    } else {
        due_set(pool, task, due);
    }
}

static void run_task(struct thread_pool *pool, struct pool_task *task)
{
    struct pool_key *key = task->job.key;
    run_begin(pool, task);
    unlock(pool);
    int64_t due = task->run(task);
    lock(pool);
    run_queue_ended(key);
    run_end(pool, task, due);
}

// The job may be freed when it has run, and its share when the lock is released.
static void run_job(struct thread_pool *pool, struct pool_job *job)
{
    struct pool_key *key = job->key;
    struct pool_share *share = run_key_share(key);
    pool->awake--;
    (void)ensure_awake(pool);
    unlock(pool);
    job->run(job);
    lock(pool);
    pool->awake++;
    run_queue_ended(key);
    bool last = pool->share_waiters > 0 && run_share_is_empty(share);
    if (last) (void)pthread_cond_broadcast(&pool->ended);
}

static void *pool_thread_run(void *arg)
{
    struct thread_pool *pool = arg;
    struct pool_thread thread = {.asleep = false};
    lock(pool);
    bool stays = true;
    while (stays && !pool->closing) {
        struct pool_job *job = next_job(pool);
        if (job && job->recurring) {
            run_task(pool, (struct pool_task *)job);
        } else if (job) {
            run_job(pool, job);
        } else {
            stays = pool_thread_sleep(pool, &thread);
        }
    }
    pool->awake--;
    pool->threads--;
    bool joins = pool->any_exited; // each thread joins the one that exited before it
    pthread_t before = pool->exited;
    pool->exited = pthread_self();
    pool->any_exited = true;
    (void)pthread_cond_broadcast(&pool->ended);
    unlock(pool);
    if (joins) (void)pthread_join(before, NULL);
    return NULL;
}

static struct thread_pool *pool_of(const struct pool_share *share)
{
    struct run_queue *queue = run_share_queue(share);
    return (struct thread_pool *)((char *)queue - offsetof(struct thread_pool, queue));
}

struct pool_share *pool_share_new(struct thread_pool *pool, size_t max, size_t each)
{
    lock(pool);
    struct pool_share *share = run_share_new(&pool->queue, max, each);
    pool->threads_max += max;
    unlock(pool);
    return share;
}

void pool_share_free(struct pool_share *share)
{
    struct thread_pool *pool = share ? pool_of(share) : NULL;
    if (!pool || !fork_guard_same(&pool->guard)) return; // a child of fork has no such threads
    lock(pool);
    pool->share_waiters++;
    while (!run_share_is_empty(share))
        (void)pthread_cond_wait(&pool->ended, &pool->lock);
    pool->share_waiters--;
    pool->threads_max -= run_share_max(share);
    run_share_free(share);
    unlock(pool);
}

enum err pool_share_run(struct pool_share *share, uint64_t key, struct pool_job *job)
{
    struct thread_pool *pool = pool_of(share);
    lock(pool);
    run_queue_add(share, key, job);
    bool has_thread = ensure_awake(pool);
    if (!has_thread) run_queue_remove(job);
    unlock(pool);
    return has_thread ? ERR_OK : ERR_LIMIT;
}

bool pool_share_withdraw(struct pool_share *share, struct pool_job *job)
{
    struct thread_pool *pool = pool_of(share);
    lock(pool);
    bool waits = job->queued;
    if (waits) run_queue_remove(job);
    unlock(pool);
    return waits;
}

static uint32_t ref_new(struct thread_pool *pool)
{
    if (pool->free_refs_len == 0) {
        size_t cap = pool->tasks_cap ? 2 * pool->tasks_cap : 4;
        pool->tasks = memory_resize(pool->tasks, cap * sizeof(struct pool_task *));
        pool->free_refs = memory_resize(pool->free_refs, cap * sizeof *pool->free_refs);
        for (size_t ref = cap; ref > pool->tasks_cap; ref--)
            pool->free_refs[pool->free_refs_len++] = (uint32_t)(ref - 1);
        pool->tasks_cap = cap;
    }
    return pool->free_refs[--pool->free_refs_len];
}

enum err pool_share_add(struct pool_share *share, struct pool_task *task,
                        int64_t (*run)(struct pool_task *task))
{
    struct thread_pool *pool = pool_of(share);
    lock(pool);
    bool has_thread = pool->threads > 0 || spawn(pool);
    if (has_thread) {
        *task = (struct pool_task){.job = {.recurring = true},
                                   .pool = pool,
                                   .share = share,
                                   .run = run,
                                   .ref = ref_new(pool)};
        pool->tasks[task->ref] = task;
        pool->refused[REFUSED_NOT]++;
    }
    unlock(pool);
    return has_thread ? ERR_OK : ERR_LIMIT;
}

enum err thread_pool_add(struct thread_pool *pool, struct pool_task *task,
                         int64_t (*run)(struct pool_task *task))
{
    return pool_share_add(pool->own, task, run);
}

void task_remove(struct pool_task *task)
{
    struct thread_pool *pool = task->pool;
    if (!fork_guard_same(&pool->guard)) return; // a child of fork has no such threads
    lock(pool);
    task->removing = true;
    while (task->running)
        (void)pthread_cond_wait(&pool->ended, &pool->lock);
    if (task->job.queued) run_queue_remove(&task->job);
    if (heap_has(&pool->due, task->ref)) heap_remove(&pool->due, task->ref);
    pool->refused[task->refused]--;
    pool->tasks[task->ref] = NULL;
    pool->free_refs[pool->free_refs_len++] = task->ref;
    unlock(pool);
}

_Atomic uint32_t *task_schedule_quietly(struct pool_task *task)
{
    struct thread_pool *pool = task->pool;
    lock(pool);
    if (task->running) {
        task->rescheduled = true;
    } else if (!task->job.queued && !task->removing) {
        queue_add(pool, task);
        (void)ensure_awake(pool);
    }
    return unlock_quietly(pool);
}

void task_schedule(struct pool_task *task)
{
    _Atomic uint32_t *woken = task_schedule_quietly(task);
    if (woken) futex_wake_all(woken);
}

_Atomic uint32_t *task_schedule_at_quietly(struct pool_task *task, int64_t boot_ms)
{
    struct thread_pool *pool = task->pool;
    lock(pool);
    if (task->running) {
        if (boot_ms < task->asked_at) task->asked_at = boot_ms;
    } else if (!task->job.queued && !task->removing) {
        due_set(pool, task, boot_ms);
        (void)ensure_awake(pool);
    }
    return unlock_quietly(pool);
}

void task_schedule_at(struct pool_task *task, int64_t boot_ms)
{
    _Atomic uint32_t *woken = task_schedule_at_quietly(task, boot_ms);
    if (woken) futex_wake_all(woken);
}

static void mark_may_block(struct thread_pool *pool, struct pool_task *task)
{
    CHECK(task->running);
    if (task->may_block) return;
    task->may_block = true;
    pool->awake--;
    (void)ensure_awake(pool);
}

void task_may_block(struct pool_task *task)
{
    struct thread_pool *pool = task->pool;
    if (task->may_block) return; // only the run itself changes it
    lock(pool);
    mark_may_block(pool, task);
    unlock(pool);
}

bool task_may_depend(struct pool_task *task)
{
    struct thread_pool *pool = task->pool;
    lock(pool);
    CHECK(!task->may_depend);
    task->may_depend = pool->depending < run_share_max(pool->own) / 2;
    if (task->may_depend) {
        pool->depending++;
        mark_may_block(pool, task);
    }
    unlock(pool);
    return task->may_depend;
}

// The poll times of a longer interval are also poll times of every shorter one.
static int64_t next_poll_at(size_t polling)
{
    int64_t interval = POLL_MIN_MS;
    while (interval < POLL_MAX_MS && (int64_t)polling > interval * POLLS_PER_MS)
        interval *= 2;
    return (clock_boot_ms() / interval + 1) * interval;
}

int64_t task_may_sleep(struct pool_task *task, bool eager)
{
    struct thread_pool *pool = task->pool;
    int64_t again = 0;
    lock(pool);
    CHECK(!task->may_sleep && task->refused == REFUSED_NOT);
    if (pool->sleeping < pool->sleeping_max && (eager || pool->refused[REFUSED_EAGER] == 0)) {
        task->may_sleep = true;
        pool->sleeping++;
        mark_may_block(pool, task);
    } else {
        pool->refused[REFUSED_NOT]--;
        task->refused = eager ? REFUSED_EAGER : REFUSED;
        pool->refused[task->refused]++;
        again = next_poll_at(pool->refused[REFUSED_EAGER] + (eager ? 0 : pool->refused[REFUSED]));
    }
    unlock(pool);
    return again;
}

struct thread_pool *thread_pool_new(size_t threads_max)
{
    CHECK(threads_max > 0);
    struct thread_pool *pool = NEW(struct thread_pool);
    pool->threads_max = threads_max;
    pool->sleeping_max = threads_max / 4 < SLEEPING_MAX ? threads_max / 4 : SLEEPING_MAX;
    if (pool->sleeping_max == 0) pool->sleeping_max = 1;
    fork_guard_init(&pool->guard);
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->ended, NULL);
    heap_init(&pool->due);
    pool->own = run_share_new(&pool->queue, threads_max, threads_max);
    return pool;
}

struct inline_policy *thread_pool_inline_policy(struct thread_pool *pool)
{
    return &pool->policy;
}

static void stop_threads(struct thread_pool *pool)
{
    lock(pool);
    CHECK(pool->free_refs_len == pool->tasks_cap);
    pool->closing = true;
    while (pool->timer || pool->spare) {
        pool_thread_wake(pool, pool->timer ? pool->timer : pool->spare);
        unlock(pool);
        lock(pool);
    }
    while (pool->threads > 0)
        (void)pthread_cond_wait(&pool->ended, &pool->lock);
    unlock(pool);
    if (pool->any_exited) (void)pthread_join(pool->exited, NULL);
    run_share_free(pool->own);
    CHECK(!pool->queue.shares.first);
    (void)pthread_cond_destroy(&pool->ended);
    (void)pthread_mutex_destroy(&pool->lock);
}

void thread_pool_free(struct thread_pool *pool)
{
    if (!pool) return;
    if (fork_guard_same(&pool->guard)) stop_threads(pool); // a child of fork has no such threads
    fork_guard_done(&pool->guard);
    heap_done(&pool->due);
    memory_free(pool->tasks);
    memory_free(pool->free_refs);
    memory_free(pool);
}
