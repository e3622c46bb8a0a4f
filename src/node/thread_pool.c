// SPDX-License-Identifier: Apache-2.0
// Threads that run tasks from a queue. While one thread is awake, no other needs to be: before it
// sleeps, it checks the queue and the clock. When it enters a run that may block, another thread
// takes over. That thread is awake, or it sleeps until the next task is due: the timer thread.
//
// The pool's lock is the innermost of all. Tasks are scheduled with other locks held, but run
// without it. No thread is woken under the lock, because it would block on it at once.
#include "node/thread_pool.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/fork_guard.h"
#include "os/futex.h"

#include <pthread.h>
#include <signal.h>

#define SLEEP_MAX_MS  60000
#define IDLE_MS       5000 // a thread that is idle for this long exits
#define LINGERING_MAX 8    // runs that sleep in the store at the same time
#define PACE_MIN_MS   16   // between the polls of tasks that may not sleep; a power of two
#define PACE_MAX_MS   1024
#define LOOKS_PER_MS  4 // of all tasks together, until the interval reaches its maximum

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
    pthread_cond_t left; // a removed task's last run has ended, or a thread has exited
    size_t threads_max;
    size_t threads;
    size_t awake;               // threads that are neither asleep nor in a run that may block
    struct pool_thread *timer;  // asleep until the next task is due
    struct pool_thread *spare;  // asleep, the most recent first
    _Atomic uint32_t *woken;    // the futex to wake when the lock is released
    struct heap due;            // tasks with a timer, by ref
    struct pool_task **members; // by ref
    uint32_t *vacant;           // free refs
    size_t vacant_len;
    size_t members_cap;
    struct pool_task *line; // the run queue, in order of arrival
    struct pool_task *line_last;
    size_t lingering;
    size_t lingering_max;
    size_t leaning;
    size_t refused[REFUSALS];
    pthread_t gone; // the last thread that exited, to be joined
    bool any_gone;
    bool closing;
};

static void lock(struct thread_pool *c)
{
    (void)pthread_mutex_lock(&c->lock);
}

// Returns the futex to wake, or NULL. Its thread may have exited by then; to wake a stale address
// is harmless.
static _Atomic uint32_t *unlock_quietly(struct thread_pool *c)
{
    _Atomic uint32_t *woken = c->woken;
    c->woken = NULL;
    (void)pthread_mutex_unlock(&c->lock);
    return woken;
}

static void unlock(struct thread_pool *c)
{
    _Atomic uint32_t *woken = unlock_quietly(c);
    if (woken) futex_wake_all(woken);
}

static void line_add(struct thread_pool *c, struct pool_task *m)
{
    CHECK(!m->in_line && !m->inside);
    if (heap_has(&c->due, m->ref)) heap_remove(&c->due, m->ref);
    m->in_line = true;
    m->next = NULL;
    if (c->line) {
        c->line_last->next = m;
    } else {
        c->line = m;
    }
    c->line_last = m;
}

static void line_remove(struct thread_pool *c, struct pool_task *m)
{
    struct pool_task *before = NULL, *at = c->line;
    for (; at != m; at = at->next)
        before = at;
    if (before) {
        before->next = m->next;
    } else {
        c->line = m->next;
    }
    if (c->line_last == m) c->line_last = before;
    m->in_line = false;
}

static void due_set(struct thread_pool *c, struct pool_task *m, int64_t at)
{
    if (at == TASK_NEVER) return;
    if (heap_has(&c->due, m->ref)) {
        if (heap_get(&c->due, m->ref)->key <= at) return;
        heap_remove(&c->due, m->ref);
    }
    heap_push(&c->due, at, m->ref, m->ref);
}

static int64_t next_due(const struct thread_pool *c)
{
    const struct heap_row *top = heap_top(&c->due);
    return top ? top->key : TASK_NEVER;
}

static struct pool_task *next_member(struct thread_pool *c)
{
    int64_t now = clock_boot_ms();
    while (next_due(c) <= now)
        line_add(c, c->members[heap_top(&c->due)->ref]);
    struct pool_task *m = c->line;
    if (m) line_remove(c, m);
    return m;
}

static void *pool_thread_run(void *arg);

static bool spawn(struct thread_pool *c)
{
    sigset_t all, before;
    pthread_t thread;
    if (c->threads == c->threads_max) return false;
    (void)sigfillset(&all); // signals are for the program's own threads
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    bool made = pthread_create(&thread, NULL, pool_thread_run, c) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!made) return false;
    c->threads++;
    c->awake++;
    return true;
}

static void pool_thread_rise(struct thread_pool *c, struct pool_thread *h)
{
    CHECK(h->asleep);
    if (h == c->timer) {
        c->timer = NULL;
    } else {
        struct pool_thread **at = &c->spare;
        while (*at != h)
            at = &(*at)->next;
        *at = h->next;
    }
    h->asleep = false;
    c->awake++;
}

static void pool_thread_wake(struct thread_pool *c, struct pool_thread *h)
{
    CHECK(!c->woken); // while one thread is awake, no other needs to be
    pool_thread_rise(c, h);
    atomic_store(&h->woken, 1);
    c->woken = &h->woken;
}

// Makes sure that a thread is awake when the next run is due. The thread that went to sleep last is
// woken first: its stack is in the cache, and the threads below it can exit.
static void cover(struct thread_pool *c)
{
    if (c->awake > 0 || c->closing) return;
    int64_t next = c->line ? 0 : next_due(c);
    if (next == TASK_NEVER || (c->timer && c->timer->until <= next)) return;
    struct pool_thread *h = c->spare ? c->spare : c->timer;
    if (h) {
        pool_thread_wake(c, h);
    } else {
        (void)spawn(c); // if it fails, the first thread that returns runs the task
    }
}

// Releases the lock while it sleeps.
static void doze(struct thread_pool *c, struct pool_thread *h)
{
    atomic_store(&h->woken, 0);
    unlock(c);
    int64_t ms = h->until == TASK_NEVER ? SLEEP_MAX_MS : h->until - clock_boot_ms();
    if (ms > 0) futex_wait(&h->woken, 0, ms < SLEEP_MAX_MS ? ms : SLEEP_MAX_MS);
    lock(c);
}

static void spare_add(struct thread_pool *c, struct pool_thread *h)
{
    h->next = c->spare;
    c->spare = h;
}

// Sleeps as the timer thread if there is none, or if the present one sleeps too long. Returns false
// if the thread was spare and idle for IDLE_MS: it exits.
static bool pool_thread_sleep(struct thread_pool *c, struct pool_thread *h)
{
    int64_t next = next_due(c), start = clock_boot_ms();
    bool keeps = !c->timer || c->timer->until > next;
    h->until = keeps ? next : start + IDLE_MS;
    if (keeps && c->timer) spare_add(c, c->timer);
    if (keeps) {
        c->timer = h;
    } else {
        spare_add(c, h);
    }
    h->asleep = true;
    c->awake--;
    doze(c, h);
    if (!h->asleep) return true;
    bool spare = h != c->timer;
    pool_thread_rise(c, h);
    return !spare || clock_boot_ms() < start + IDLE_MS;
}

static void refusal_forget(struct thread_pool *c, struct pool_task *m)
{
    c->refused[m->refused]--;
    m->refused = REFUSED_NOT;
    c->refused[REFUSED_NOT]++;
}

static void turn_begin(struct thread_pool *c, struct pool_task *m)
{
    refusal_forget(c, m);
    m->inside = true;
    m->kicked = m->slow = m->lingers = m->leans = false;
    m->asked = TASK_NEVER;
}

static void turn_end(struct thread_pool *c, struct pool_task *m, int64_t due)
{
    m->inside = false;
    if (m->slow) c->awake++;
    if (m->lingers) c->lingering--;
    if (m->leans) c->leaning--;
    if (m->leaving) {
        (void)pthread_cond_broadcast(&c->left); // m is no longer valid when the lock is released
        return;
    }
    if (m->asked < due) due = m->asked;
    if (m->kicked) {
        line_add(c, m);
    } else {
        due_set(c, m, due);
    }
}

static void give_turn(struct thread_pool *c, struct pool_task *m)
{
    turn_begin(c, m);
    unlock(c);
    int64_t due = m->run(m);
    lock(c);
    turn_end(c, m, due);
}

static void *pool_thread_run(void *arg)
{
    struct thread_pool *c = arg;
    struct pool_thread h = {.asleep = false};
    lock(c);
    bool stays = true;
    while (stays && !c->closing) {
        struct pool_task *m = next_member(c);
        if (m) {
            give_turn(c, m);
        } else {
            stays = pool_thread_sleep(c, &h);
        }
    }
    c->awake--;
    c->threads--;
    bool joins = c->any_gone; // each thread joins the one that exited before it
    pthread_t before = c->gone;
    c->gone = pthread_self();
    c->any_gone = true;
    (void)pthread_cond_broadcast(&c->left);
    unlock(c);
    if (joins) (void)pthread_join(before, NULL);
    return NULL;
}

static uint32_t ref_new(struct thread_pool *c)
{
    if (c->vacant_len == 0) {
        size_t cap = c->members_cap ? 2 * c->members_cap : 4;
        c->members = memory_resize(c->members, cap * sizeof(struct pool_task *));
        c->vacant = memory_resize(c->vacant, cap * sizeof *c->vacant);
        for (size_t ref = cap; ref > c->members_cap; ref--)
            c->vacant[c->vacant_len++] = (uint32_t)(ref - 1);
        c->members_cap = cap;
    }
    return c->vacant[--c->vacant_len];
}

enum err thread_pool_add(struct thread_pool *c, struct pool_task *m,
                         int64_t (*run)(struct pool_task *m))
{
    lock(c);
    bool manned = c->threads > 0 || spawn(c);
    if (manned) {
        *m = (struct pool_task){.pool = c, .run = run, .ref = ref_new(c)};
        c->members[m->ref] = m;
        c->refused[REFUSED_NOT]++;
    }
    unlock(c);
    return manned ? ERR_OK : ERR_LIMIT;
}

void task_remove(struct pool_task *m)
{
    struct thread_pool *c = m->pool;
    if (!fork_guard_same(&c->guard)) return; // a child of fork has no such threads
    lock(c);
    m->leaving = true;
    while (m->inside)
        (void)pthread_cond_wait(&c->left, &c->lock);
    if (m->in_line) line_remove(c, m);
    if (heap_has(&c->due, m->ref)) heap_remove(&c->due, m->ref);
    c->refused[m->refused]--;
    c->members[m->ref] = NULL;
    c->vacant[c->vacant_len++] = m->ref;
    unlock(c);
}

_Atomic uint32_t *task_schedule_quietly(struct pool_task *m)
{
    struct thread_pool *c = m->pool;
    lock(c);
    if (m->inside) {
        m->kicked = true;
    } else if (!m->in_line && !m->leaving) {
        line_add(c, m);
        cover(c);
    }
    return unlock_quietly(c);
}

void task_schedule(struct pool_task *m)
{
    _Atomic uint32_t *woken = task_schedule_quietly(m);
    if (woken) futex_wake_all(woken);
}

_Atomic uint32_t *task_schedule_at_quietly(struct pool_task *m, int64_t boot_ms)
{
    struct thread_pool *c = m->pool;
    lock(c);
    if (m->inside) {
        if (boot_ms < m->asked) m->asked = boot_ms;
    } else if (!m->in_line && !m->leaving) {
        due_set(c, m, boot_ms);
        cover(c);
    }
    return unlock_quietly(c);
}

void task_schedule_at(struct pool_task *m, int64_t boot_ms)
{
    _Atomic uint32_t *woken = task_schedule_at_quietly(m, boot_ms);
    if (woken) futex_wake_all(woken);
}

static void go_slow(struct thread_pool *c, struct pool_task *m)
{
    CHECK(m->inside);
    if (m->slow) return;
    m->slow = true;
    c->awake--;
    cover(c);
}

void task_may_block(struct pool_task *m)
{
    struct thread_pool *c = m->pool;
    if (m->slow) return; // only the run itself changes it
    lock(c);
    go_slow(c, m);
    unlock(c);
}

bool task_may_depend(struct pool_task *m)
{
    struct thread_pool *c = m->pool;
    lock(c);
    CHECK(!m->leans);
    m->leans = c->leaning < c->threads_max / 2;
    if (m->leans) {
        c->leaning++;
        go_slow(c, m);
    }
    unlock(c);
    return m->leans;
}

// The poll times of a longer interval are also poll times of every shorter one.
static int64_t next_moment(size_t looking)
{
    int64_t pace = PACE_MIN_MS;
    while (pace < PACE_MAX_MS && (int64_t)looking > pace * LOOKS_PER_MS)
        pace *= 2;
    return (clock_boot_ms() / pace + 1) * pace;
}

int64_t task_may_sleep(struct pool_task *m, bool eager)
{
    struct thread_pool *c = m->pool;
    int64_t again = 0;
    lock(c);
    CHECK(!m->lingers && m->refused == REFUSED_NOT);
    if (c->lingering < c->lingering_max && (eager || c->refused[REFUSED_EAGER] == 0)) {
        m->lingers = true;
        c->lingering++;
        go_slow(c, m);
    } else {
        c->refused[REFUSED_NOT]--;
        m->refused = eager ? REFUSED_EAGER : REFUSED;
        c->refused[m->refused]++;
        again = next_moment(c->refused[REFUSED_EAGER] + (eager ? 0 : c->refused[REFUSED]));
    }
    unlock(c);
    return again;
}

struct thread_pool *thread_pool_new(size_t threads_max)
{
    CHECK(threads_max > 0);
    struct thread_pool *c = NEW(struct thread_pool);
    c->threads_max = threads_max;
    c->lingering_max = threads_max / 4 < LINGERING_MAX ? threads_max / 4 : LINGERING_MAX;
    if (c->lingering_max == 0) c->lingering_max = 1;
    fork_guard_init(&c->guard);
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->left, NULL);
    heap_init(&c->due);
    return c;
}

struct inline_policy *thread_pool_inline_policy(struct thread_pool *c)
{
    return &c->policy;
}

static void dismiss(struct thread_pool *c)
{
    lock(c);
    CHECK(c->vacant_len == c->members_cap);
    c->closing = true;
    while (c->timer || c->spare) {
        pool_thread_wake(c, c->timer ? c->timer : c->spare);
        unlock(c);
        lock(c);
    }
    while (c->threads > 0)
        (void)pthread_cond_wait(&c->left, &c->lock);
    unlock(c);
    if (c->any_gone) (void)pthread_join(c->gone, NULL);
    (void)pthread_cond_destroy(&c->left);
    (void)pthread_mutex_destroy(&c->lock);
}

void thread_pool_free(struct thread_pool *c)
{
    if (!c) return;
    if (fork_guard_same(&c->guard)) dismiss(c); // a child of fork has no such threads
    fork_guard_done(&c->guard);
    heap_done(&c->due);
    memory_free(c->members);
    memory_free(c->vacant);
    memory_free(c);
}
