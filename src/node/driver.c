// SPDX-License-Identifier: Apache-2.0
// Threads around a pure step function. The lock protects the step function. The driver never holds
// it during a store call, nor while it wakes a thread. A waiter that is woken with its answer
// leaves without the lock. A waiter that is woken for a request finds the lock free.
//
// A request is not reserved for the waiter that is woken for it. Until that waiter runs, any caller
// that enters takes the request. A caller that is already running thus performs the next commit,
// which hides the wake-up latency of the sleeping one.
#include "node/driver.h"

#include "base/check.h"
#include "base/memory.h"
#include "node/perform.h"
#include "node/store_clock.h"
#include "os/clock.h"
#include "os/fork_guard.h"
#include "os/futex.h"

#include <pthread.h>
#include <string.h>

// Requests that no thread has taken yet, in order of arrival.
struct request_queue {
    struct request *rows;
    size_t len;
    size_t cap;
};

struct driver {
    struct pool_task member;      // first; its runs are the background work
    struct thread_pool *own;      // NULL: the pool is borrowed
    struct inline_policy *policy; // the pool's
    struct store *store;
    struct steps steps;
    struct fork_guard guard;
    struct store_clock clock;
    pthread_mutex_t lock;
    size_t inside;         // callers that entered and have not left
    struct waiter *asleep; // the waiters among them that sleep
    struct waiter *roused; // to be woken when the lock is released
    // Answered waiters that have a `then`, in order. It is called when the lock is released.
    struct waiter *told;
    struct waiter *told_last;
    size_t coming;                       // woken for a request, and not back under the lock yet
    struct request_queue waited_for;     // performed by the callers that wait
    struct request_queue for_background; // performed by the pool, not on a caller's thread
    bool background_rests;               // the background task sleeps and was not scheduled since
    int64_t background_until;            // store time of its next run
    int64_t now_seen;                    // store time of the last answer
    bool runs_inline;                    // a caller that does not wait performs a request inline
    pthread_cond_t returned;             // signalled when the inline request has ended
    bool stopping;
};

// This thread is inside a `then`. Calls that the `then` begins run on the pool. Otherwise a chain
// of calls would grow the stack, and a pool thread could block without the pool's knowledge.
static _Thread_local bool calling;

enum nap { NAP_ON, NAP_WORK, NAP_ANSWERED };

#define SLEEP_MAX_MS    60000
#define TURN_STEPS_MAX  32
#define OWN_THREADS_MAX 2 // the background task, and a watcher

static void asleep_add(struct driver *d, struct waiter *w)
{
    w->previous = NULL;
    w->next = d->asleep;
    if (d->asleep) d->asleep->previous = w;
    d->asleep = w;
    w->asleep = true;
    atomic_store(&w->word, NAP_ON);
}

// Moves w to the list of waiters to wake. The waiter continues when its word is set, after the lock
// was released, so its memory is valid until then. The last waiter added is woken first. That is a
// waiter with a request to perform, because all others wait for the store.
static void rouse(struct driver *d, struct waiter *w, enum nap why)
{
    CHECK(w->asleep);
    if (w->previous) {
        w->previous->next = w->next;
    } else {
        d->asleep = w->next;
    }
    if (w->next) w->next->previous = w->previous;
    w->asleep = false;
    w->why = why;
    w->next = d->roused;
    d->roused = w;
}

static void call_all(struct waiter *told)
{
    bool before = calling;
    calling = true;
    for (struct waiter *w = told, *next; w; w = next) {
        next = w->next;
        w->then(w); // w is no longer valid
    }
    calling = before;
}

static void wake_all(struct waiter *roused)
{
    for (struct waiter *w = roused, *next; w; w = next) {
        next = w->next;
        _Atomic uint32_t *word = &w->word;
        atomic_store(word, w->why);
        // w may be freed by now. A futex that is woken without reason checks its word again.
        futex_wake_all(word);
    }
}

struct interval driver_now(struct driver *d)
{
    int64_t now_ms;
    if (store_tell_time(d->store, &now_ms)) return (struct interval){now_ms, now_ms};
    return store_clock_now(&d->clock, clock_boot_ms());
}

// A call times out when the lower bound of the time passes its deadline. If the clock is known only
// to within seconds, that is seconds late. The store's own deadline does not move, so the width is
// subtracted.
int64_t driver_patience_ms(struct driver *d, int64_t ms)
{
    int64_t left = store_patience_ms(d->store, ms);
    struct interval now = driver_now(d);
    return left < ms ? left - (now.hi - now.lo) : ms;
}

static void told_add(struct driver *d, struct waiter *w)
{
    w->next = NULL;
    if (d->told) {
        d->told_last->next = w;
    } else {
        d->told = w;
    }
    d->told_last = w;
    d->inside--;
}

void driver_wake(struct driver *d, struct waiter *w)
{
    w->done = true;
    if (w->then) told_add(d, w);
    if (!w->asleep) return; // it performs a request and checks done afterwards
    rouse(d, w, NAP_ANSWERED);
    d->inside--;
}

static void backlog_push(struct request_queue *b, const struct request *r)
{
    if (b->len == b->cap) {
        b->cap = b->cap > 0 ? b->cap * 2 : 4;
        b->rows = memory_resize(b->rows, b->cap * sizeof *b->rows);
    }
    b->rows[b->len++] = *r;
}

static bool backlog_pop(struct request_queue *b, struct request *out)
{
    if (b->len == 0) return false;
    *out = b->rows[0];
    b->len--;
    memmove(b->rows, b->rows + 1, b->len * sizeof *b->rows);
    return true;
}

static void collect_requests(struct driver *d)
{
    struct request r;
    while (d->steps.next_request(d->steps.ctx, &r)) {
        backlog_push(r.background ? &d->for_background : &d->waited_for, &r);
        inline_policy_requested(d->policy);
    }
}

static void after_step(struct driver *d)
{
    collect_requests(d);
    d->steps.deliver(d->steps.ctx);
}

static void tick(struct driver *d)
{
    d->steps.tick(d->steps.ctx, driver_now(d));
    after_step(d);
}

// The local time at which the store's clock shows store_ms. The wait is cut to SLEEP_MAX_MS, so
// that drift is corrected.
static int64_t local_time(struct driver *d, int64_t store_ms)
{
    int64_t now = driver_now(d).lo;
    if (store_ms <= now) return clock_boot_ms(); // store_ms may be TIME_UNKNOWN: do not subtract
    return clock_boot_ms() + (store_ms - now < SLEEP_MAX_MS ? store_ms - now : SLEEP_MAX_MS);
}

// Assigns the open work, which the leaving thread does not do, to sleeping threads. Returns the
// futex of the pool thread to wake, or NULL.
static _Atomic uint32_t *share_out(struct driver *d)
{
    for (; d->waited_for.len > d->coming && d->asleep; d->coming++)
        rouse(d, d->asleep, NAP_WORK);
    if (!d->background_rests) return NULL; // it checks all of this before it sleeps again
    bool work = d->waited_for.len > d->coming || d->for_background.len > 0;
    int64_t wake = d->steps.wake_at(d->steps.ctx);
    // An answer can reveal that the store's clock is ahead of the estimate.
    bool due = wake <= d->now_seen;
    if (work || due) {
        d->background_rests = false;
        return task_schedule_quietly(&d->member);
    }
    if (wake >= d->background_until) return NULL;
    d->background_until = wake;
    return task_schedule_at_quietly(&d->member, local_time(d, wake));
}

static void lock(struct driver *d)
{
    (void)pthread_mutex_lock(&d->lock);
}

static void unlock(struct driver *d)
{
    _Atomic uint32_t *waiting = share_out(d);
    struct waiter *roused = d->roused, *told = d->told;
    d->roused = d->told = NULL;
    (void)pthread_mutex_unlock(&d->lock);
    if (waiting) futex_wake_all(waiting);
    wake_all(roused);
    call_all(told);
}

// Performs r without the lock, then takes the lock and passes the response to the step function.
static void serve(struct driver *d, const struct request *r, struct performance *p)
{
    int64_t sent = clock_boot_ms();
    struct response response = perform(d->store, r, p);
    int64_t received = clock_boot_ms();
    lock(d);
    inline_policy_answered(d->policy, received - sent);
    store_clock_note(&d->clock, sent, received, response.time);
    struct interval now = driver_now(d);
    d->now_seen = now.lo;
    d->steps.respond(d->steps.ctx, &response, now);
    after_step(d);
}

enum err driver_enter(struct driver *d, struct waiter *w)
{
    if (!fork_guard_same(&d->guard)) return ERR_INVALID;
    *w = (struct waiter){0};
    lock(d);
    d->inside++;
    return ERR_OK;
}

void driver_leave(struct driver *d, struct waiter *w)
{
    CHECK(!w->asleep);
    d->inside--;
    after_step(d);
    unlock(d);
}

// Performs one request on the caller's thread. The pool does the work that follows from it.
static void perform_alone(struct driver *d)
{
    struct request r;
    struct performance p;
    bool popped = backlog_pop(&d->waited_for, &r);
    CHECK(popped && !d->runs_inline);
    d->runs_inline = true;
    unlock(d);
    performance_init(&p);
    serve(d, &r, &p);
    performance_done(&p);
    d->runs_inline = false;
    inline_policy_ended(d->policy);
    if (d->stopping) (void)pthread_cond_signal(&d->returned);
}

void driver_async(struct driver *d, struct waiter *w, void (*then)(struct waiter *w))
{
    CHECK(!w->done && !w->asleep); // answers are delivered by after_step
    w->then = then;
    inline_policy_arrived(d->policy);
    after_step(d);
    bool near = d->waited_for.len == 1 && !calling && !store_is_high_latency(d->store);
    if (near && inline_policy_may_run(d->policy)) perform_alone(d);
    unlock(d);
}

void driver_async_too(struct driver *d, struct waiter *w, void (*then)(struct waiter *w))
{
    *w = (struct waiter){.then = then};
    d->inside++;
}

void driver_forget(struct driver *d, struct waiter *w)
{
    CHECK(w->then && !w->done);
    d->inside--;
}

// Releases the lock and sleeps. Returns true if w was woken for a request; the lock is held again.
// Returns false if w has its answer; driver_wake has already counted it out.
static bool sleep_for_work(struct driver *d, struct waiter *w)
{
    asleep_add(d, w);
    unlock(d);
    enum nap why;
    while ((why = atomic_load(&w->word)) == NAP_ON)
        futex_wait(&w->word, NAP_ON, SLEEP_MAX_MS);
    if (why == NAP_ANSWERED) return false;
    lock(d);
    d->coming--;
    return true;
}

// m: the pool task that runs this; NULL: a caller's own thread.
static bool serve_next(struct driver *d, struct request_queue *b, struct performance *p,
                       struct pool_task *m)
{
    struct request r;
    if (!backlog_pop(b, &r)) return false;
    unlock(d);
    if (m) task_may_block(m);
    serve(d, &r, p);
    return true;
}

void driver_wait(struct driver *d, struct waiter *w)
{
    struct performance p;
    performance_init(&p);
    inline_policy_arrived(d->policy);
    after_step(d);
    bool inside = true;
    while (inside && !w->done)
        inside = serve_next(d, &d->waited_for, &p, NULL) || sleep_for_work(d, w);
    if (inside) driver_leave(d, w);
    performance_done(&p);
}

// Performs one item of background work. Returns false if there is none.
static bool background_step(struct driver *d, struct performance *p, struct pool_task *m)
{
    if (serve_next(d, &d->for_background, p, m)) return true;
    bool unattended = d->waited_for.len > d->coming;
    if (unattended && !d->asleep && serve_next(d, &d->waited_for, p, m)) return true;
    if (unattended || d->roused || d->told) {
        unlock(d); // wakes and calls the waiters
        lock(d);
        return true;
    }
    if (d->stopping || d->steps.wake_at(d->steps.ctx) > driver_now(d).lo) return false;
    tick(d);
    return true;
}

// A run ends when there is nothing to do, or after TURN_STEPS_MAX steps, because other tasks wait.
static int64_t background(struct pool_task *m)
{
    struct driver *d = (struct driver *)m;
    struct performance p;
    performance_init(&p);
    lock(d);
    d->background_rests = false;
    int64_t due = 0;
    size_t steps = 0;
    while (steps < TURN_STEPS_MAX && background_step(d, &p, m))
        steps++;
    if (steps < TURN_STEPS_MAX) {
        d->background_rests = true;
        d->background_until = d->steps.wake_at(d->steps.ctx);
        due = local_time(d, d->background_until);
    }
    unlock(d);
    performance_done(&p);
    return due;
}

static enum err ask_time(struct driver *d)
{
    struct performance p;
    performance_init(&p);
    struct request r = {.kind = REQUEST_GET, .key = "format"};
    int64_t sent = clock_boot_ms();
    struct response response = perform(d->store, &r, &p);
    enum err err = response.err == ERR_NOT_FOUND ? ERR_OK : response.err;
    store_clock_note(&d->clock, sent, clock_boot_ms(), response.time);
    performance_done(&p);
    if (!err && !d->clock.known) err = ERR_UNAVAILABLE; // it answers, but without a time
    return err;
}

static enum err start(struct driver *d, struct thread_pool *pool)
{
    enum err err = ask_time(d);
    if (err) return err;
    if (!pool) pool = d->own = thread_pool_new(OWN_THREADS_MAX);
    d->policy = thread_pool_inline_policy(pool);
    return thread_pool_add(pool, &d->member, background);
}

static void release(struct driver *d)
{
    if (fork_guard_same(&d->guard)) {
        size_t dropped = d->waited_for.len + d->for_background.len;
        if (d->policy) inline_policy_dropped(d->policy, (uint32_t)dropped);
        (void)pthread_cond_destroy(&d->returned);
        (void)pthread_mutex_destroy(&d->lock);
    }
    thread_pool_free(d->own);
    fork_guard_done(&d->guard);
    memory_free(d->waited_for.rows);
    memory_free(d->for_background.rows);
    memory_free(d);
}

enum err driver_open(struct store *s, struct thread_pool *pool, const struct steps *steps,
                     struct driver **out)
{
    struct driver *d = NEW(struct driver);
    d->store = s;
    d->steps = *steps;
    fork_guard_init(&d->guard);
    (void)pthread_mutex_init(&d->lock, NULL);
    (void)pthread_cond_init(&d->returned, NULL);
    d->background_rests = true;
    d->background_until = TIME_NEVER;
    enum err err = start(d, pool);
    if (err) {
        release(d);
        return err;
    }
    *out = d;
    return ERR_OK;
}

struct thread_pool *driver_pool(struct driver *d)
{
    return d->member.pool;
}

// Performs the rest of the background work on this thread, because the pool may be busy with other
// tasks.
static void finish(struct driver *d)
{
    struct performance p;
    lock(d);
    CHECK(d->inside == 0);
    d->stopping = true;
    while (d->runs_inline)
        (void)pthread_cond_wait(&d->returned, &d->lock);
    unlock(d);
    task_remove(&d->member);
    performance_init(&p);
    lock(d);
    d->background_rests = false;
    while (background_step(d, &p, NULL)) {
    }
    unlock(d);
    performance_done(&p);
}

void driver_free(struct driver *d)
{
    if (!d) return;
    if (fork_guard_same(&d->guard)) finish(d); // a child of fork has no such threads
    release(d);
}
