// SPDX-License-Identifier: Apache-2.0
// Threads around a pure step function. The lock protects the step function. The driver never holds
// it during a store call. No thread is woken while the waker holds the lock. A waiter that is woken
// with its answer leaves without the lock. A waiter that is woken for a request takes the lock.
//
// A request is not reserved for the waiter that is woken for it. Until that waiter runs, any caller
// that enters takes the request. A caller that is already running thus performs the next commit,
// which hides the wake-up latency of the sleeping one.
#include "runner/driver.h"

#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/fork_guard.h"
#include "os/futex.h"
#include "runner/gather.h"
#include "runner/perform.h"
#include "runner/store_clock.h"

#include <pthread.h>
#include <string.h>

// Requests that no thread has taken yet, in order of arrival.
struct request_queue {
    struct request *rows;
    size_t len;
    size_t cap;
};

struct driver {
    struct pool_task task;        // first; its runs are the background work
    struct thread_pool *own;      // NULL: the pool is borrowed
    struct inline_policy *policy; // the pool's
    struct store *store;
    struct step_functions steps;
    struct fork_guard guard;
    struct store_clock clock;
    pthread_mutex_t lock;
    size_t inside;       // callers that entered and have not left
    struct list asleep;  // the waiters among them that sleep
    struct list to_wake; // waiters to be woken when the lock is released
    // Answered waiters that have a `then`, in order. It is called when the lock is released.
    struct list to_call;
    size_t waking;                       // woken for a request, and not back under the lock yet
    struct request_queue waited_for;     // performed by the callers that wait
    struct request_queue for_background; // performed by the pool, not on a caller's thread
    bool background_sleeps;              // the background task sleeps and was not scheduled since
    int64_t background_until;            // store time of its next run
    int64_t now_seen;                    // store time of the last answer
    bool runs_inline;                    // a caller that does not wait performs a request inline
    pthread_cond_t inline_ended;         // signalled when the inline request has ended
    bool stopping;
    // The next entry waits for callers that were just answered (gather.h). The last of them that
    // comes ends the wait. A caller that waits for its answer ends it when its time is over. If no
    // op waits, the next thread that has something to do ends it.
    struct gather_wait gather;
    struct waiter *gather_timer; // the sleeping caller that ends it
    size_t answered;             // blocking waiters, by the step that runs
};

// This thread is inside a `then`. Calls that the `then` begins run on the pool. Otherwise a chain
// of calls would grow the stack, and a pool thread could block without the pool's knowledge.
static _Thread_local bool in_callback;

enum wake_reason { WAKE_NONE, WAKE_WORK, WAKE_ANSWERED };

#define SLEEP_MAX_MS    60000
#define RUN_STEPS_MAX   32
#define OWN_THREADS_MAX 2 // the background task, and a watcher

static void asleep_add(struct driver *d, struct waiter *w)
{
    list_add_first(&d->asleep, &w->link);
    w->asleep = true;
    atomic_store(&w->word, WAKE_NONE);
}

static struct waiter *first_asleep(const struct driver *d)
{
    return LIST_FIRST(&d->asleep, struct waiter, link);
}

static void asleep_remove(struct driver *d, struct waiter *w)
{
    CHECK(w->asleep);
    if (w == d->gather_timer) d->gather_timer = NULL;
    list_remove(&d->asleep, &w->link);
    w->asleep = false;
}

// Moves w to the list of waiters to wake. The waiter continues when its word is set, after the lock
// was released, so its memory is valid until then. The last waiter added is woken first.
// assign_work adds the waiters with a request last, so their requests reach the store as early as
// possible.
static void queue_wake_up(struct driver *d, struct waiter *w, enum wake_reason why)
{
    asleep_remove(d, w);
    w->why = why;
    list_add_first(&d->to_wake, &w->link);
}

static struct waiter *waiter_take(struct list *l)
{
    struct waiter *w = LIST_FIRST(l, struct waiter, link);
    if (w) list_remove(l, &w->link);
    return w;
}

static void call_all(struct list *to_call)
{
    bool before = in_callback;
    in_callback = true;
    for (struct waiter *w; (w = waiter_take(to_call));)
        w->then(w); // w is no longer valid
    in_callback = before;
}

static void wake_all(struct list *to_wake)
{
    for (struct waiter *w; (w = waiter_take(to_wake));) {
        _Atomic uint32_t *word = &w->word;
        atomic_store(word, w->why);
        // w may be freed by now. A futex that is woken without reason checks its word again.
        futex_wake_all(word);
    }
}

struct interval driver_now(struct driver *d)
{
    int64_t now_ms;
    if (store_read_clock(d->store, &now_ms)) return (struct interval){now_ms, now_ms};
    return store_clock_now(&d->clock, clock_boot_ms());
}

// A call times out when the lower bound of the store's time passes the call's deadline. That can be
// late by the width of the interval. No store request may last past until_ms (store_set_until). If
// that limit comes first, the width is subtracted, so that the call ends before it.
int64_t driver_patience_ms(struct driver *d, int64_t ms)
{
    int64_t left = store_patience_ms(d->store, ms);
    if (left >= ms) return ms;
    struct interval now = driver_now(d);
    return left - (now.hi - now.lo);
}

static void to_call_add(struct driver *d, struct waiter *w)
{
    list_add(&d->to_call, &w->link);
    d->inside--;
}

void driver_wake(struct driver *d, struct waiter *w)
{
    w->done = true;
    if (w->then)
        to_call_add(d, w);
    else
        d->answered++;
    // An asynchronous waiter does not sleep. A blocking waiter that performs a request checks
    // `done` afterwards.
    if (!w->asleep) return;
    queue_wake_up(d, w, WAKE_ANSWERED);
    d->inside--;
}

static void requests_push(struct request_queue *q, const struct request *r)
{
    *ARRAY_ADD(q->rows, q->len, q->cap) = *r;
}

static bool requests_pop(struct request_queue *q, struct request *out)
{
    if (q->len == 0) return false;
    *out = q->rows[0];
    q->len--;
    memmove(q->rows, q->rows + 1, q->len * sizeof *q->rows);
    return true;
}

static void collect_requests(struct driver *d)
{
    struct request r;
    while (d->steps.next_request(d->steps.ctx, &r)) {
        requests_push(r.background ? &d->for_background : &d->waited_for, &r);
        inline_policy_requested(d->policy);
    }
}

static void after_step(struct driver *d)
{
    collect_requests(d);
    d->steps.deliver(d->steps.ctx);
}

// The next entry waits no longer. Its request follows.
static void end_gather(struct driver *d)
{
    gather_end(&d->gather);
    d->steps.release(d->steps.ctx, driver_now(d));
    after_step(d);
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
static _Atomic uint32_t *assign_work(struct driver *d)
{
    bool gathers = d->gather.on && journal_queued(d->steps.journal) > 0;
    bool untimed = gathers && !d->gather_timer && d->waking == 0;
    if (untimed && !d->asleep.first) end_gather(d); // no caller sleeps that could end it
    if (untimed && d->asleep.first && d->gather.on) {
        queue_wake_up(d, first_asleep(d), WAKE_WORK);
        d->waking++;
    }
    for (; d->waited_for.len > d->waking && d->asleep.first; d->waking++)
        queue_wake_up(d, first_asleep(d), WAKE_WORK);
    if (!d->background_sleeps) return NULL; // it checks all of this before it sleeps again
    bool work = d->waited_for.len > d->waking || d->for_background.len > 0;
    int64_t wake = d->steps.wake_at(d->steps.ctx);
    // An answer can reveal that the store's clock is ahead of the estimate.
    bool due = wake <= d->now_seen && !d->gather.on;
    if (d->gather.on && wake <= d->now_seen) wake = d->now_seen + 1; // the entry waits, not a timer
    if (work || due) {
        d->background_sleeps = false;
        return task_schedule_quietly(&d->task);
    }
    if (wake >= d->background_until || (d->gather.on && gathers)) return NULL;
    d->background_until = wake;
    return task_schedule_at_quietly(&d->task, local_time(d, wake));
}

static void lock(struct driver *d)
{
    (void)pthread_mutex_lock(&d->lock);
}

static void unlock(struct driver *d)
{
    _Atomic uint32_t *waiting = assign_work(d);
    struct list to_wake = {0}, to_call = {0};
    list_move(&to_wake, &d->to_wake);
    list_move(&to_call, &d->to_call);
    (void)pthread_mutex_unlock(&d->lock);
    if (waiting) futex_wake_all(waiting);
    wake_all(&to_wake);
    call_all(&to_call);
}

static bool may_gather(struct driver *d, int64_t took_ns)
{
    if (d->gather.on) return false;
    return gather_put(&d->gather, took_ns) && d->inside > 1;
}

// The step function is held, and has answered callers. The next entry waits for those that sleep,
// unless it would have the ops of one caller only. The others are called before the next entry is
// made: that takes a while, and the entry has what arrives meanwhile.
static void answer_and_release(struct driver *d, bool gathers)
{
    size_t queued = journal_queued(d->steps.journal);
    if (gathers && d->answered > 0 && d->answered + queued > 1 &&
        (queued == 0 || d->asleep.first)) {
        gather_begin(&d->gather, d->answered, clock_boot_ns());
        return;
    }
    if (d->to_call.first) {
        unlock(d);
        lock(d);
    }
    d->steps.release(d->steps.ctx, driver_now(d));
    after_step(d);
}

// Performs r without the lock, then takes the lock and passes the response to the step function.
static void serve(struct driver *d, const struct request *r, struct perform_buffer *p)
{
    int64_t sent = clock_boot_ms(), sent_ns = clock_boot_ns();
    struct response response = perform(d->store, r, p);
    int64_t received = clock_boot_ms(), took_ns = clock_boot_ns() - sent_ns;
    lock(d);
    inline_policy_answered(d->policy, received - sent);
    store_clock_note(&d->clock, sent, received, response.time);
    struct interval now = driver_now(d);
    d->now_seen = now.lo;
    bool held = r->kind == REQUEST_APPEND && d->steps.journal && !store_is_high_latency(d->store);
    bool gathers = held && may_gather(d, took_ns) && !response.err;
    if (held) journal_hold(d->steps.journal);
    d->answered = 0;
    d->steps.respond(d->steps.ctx, &response, now);
    after_step(d);
    if (held) answer_and_release(d, gathers);
}

enum err driver_enter(struct driver *d, struct waiter *w)
{
    if (!fork_guard_same(&d->guard)) return ERR_INVALID;
    *w = (struct waiter){0};
    lock(d);
    d->inside++;
    return ERR_OK;
}

enum err driver_time(struct driver *d, struct interval *out)
{
    if (!fork_guard_same(&d->guard)) return ERR_INVALID;
    lock(d);
    *out = driver_now(d);
    (void)pthread_mutex_unlock(&d->lock); // no step was made, so there is no work to assign
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
static void perform_inline(struct driver *d)
{
    struct request r;
    struct perform_buffer p;
    bool popped = requests_pop(&d->waited_for, &r);
    CHECK(popped && !d->runs_inline);
    d->runs_inline = true;
    unlock(d);
    perform_buffer_init(&p);
    serve(d, &r, &p);
    perform_buffer_done(&p);
    d->runs_inline = false;
    inline_policy_ended(d->policy);
    if (d->stopping) (void)pthread_cond_signal(&d->inline_ended);
}

void driver_async(struct driver *d, struct waiter *w, void (*then)(struct waiter *w))
{
    CHECK(!w->done && !w->asleep); // answers are delivered by after_step
    w->then = then;
    inline_policy_arrived(d->policy);
    if (d->gather.on) end_gather(d);
    after_step(d);
    bool may_run_inline =
        d->waited_for.len == 1 && !in_callback && !store_is_high_latency(d->store);
    if (may_run_inline && inline_policy_may_run(d->policy)) perform_inline(d);
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

// Sleeps until the word is set. Returns true if w was woken for a request; the lock is held again.
// Returns false if w has its answer; driver_wake has already counted it out.
static bool sleep_on_word(struct driver *d, struct waiter *w)
{
    enum wake_reason why;
    while ((why = atomic_load(&w->word)) == WAKE_NONE)
        futex_wait(&w->word, WAKE_NONE, SLEEP_MAX_MS);
    if (why == WAKE_ANSWERED) return false;
    lock(d);
    d->waking--;
    return true;
}

// Releases the lock and sleeps. The result is that of sleep_on_word.
static bool sleep_until_woken(struct driver *d, struct waiter *w)
{
    asleep_add(d, w);
    unlock(d);
    return sleep_on_word(d, w);
}

// Sleeps until the next entry has waited long enough for callers. The result is that of
// sleep_on_word.
static bool sleep_until_gathered(struct driver *d, struct waiter *w)
{
    int64_t left = d->gather.until_ns - clock_boot_ns();
    CHECK(d->gather.on && !d->gather_timer);
    if (left > 0) {
        asleep_add(d, w);
        d->gather_timer = w;
        unlock(d);
        if (atomic_load(&w->word) == WAKE_NONE) futex_wait_ns(&w->word, WAKE_NONE, left);
        if (atomic_load(&w->word) != WAKE_NONE) return sleep_on_word(d, w);
        lock(d);
        if (!w->asleep) { // another thread is about to set the word
            unlock(d);
            return sleep_on_word(d, w);
        }
        asleep_remove(d, w);
    }
    if (d->gather.on && clock_boot_ns() >= d->gather.until_ns) end_gather(d);
    return true;
}

// task: the pool task that runs this; NULL: a caller's own thread.
static bool serve_next(struct driver *d, struct request_queue *q, struct perform_buffer *p,
                       struct pool_task *task)
{
    struct request r;
    if (!requests_pop(q, &r)) return false;
    unlock(d);
    if (task) task_may_block(task);
    serve(d, &r, p);
    return true;
}

void driver_wait(struct driver *d, struct waiter *w)
{
    LOCAL(perform_buffer, p);
    inline_policy_arrived(d->policy);
    if (gather_arrived(&d->gather)) end_gather(d);
    after_step(d);
    bool inside = true;
    while (inside && !w->done) {
        if (serve_next(d, &d->waited_for, &p, NULL)) continue;
        bool times = d->gather.on && !d->gather_timer;
        inside = times ? sleep_until_gathered(d, w) : sleep_until_woken(d, w);
    }
    if (inside) driver_leave(d, w);
}

// Performs one item of background work. Returns false if there is none.
static bool background_step(struct driver *d, struct perform_buffer *p, struct pool_task *task)
{
    if (serve_next(d, &d->for_background, p, task)) return true;
    bool unattended = d->waited_for.len > d->waking;
    if (unattended && !d->asleep.first && serve_next(d, &d->waited_for, p, task)) return true;
    if (unattended || d->to_wake.first || d->to_call.first) {
        unlock(d); // wakes and calls the waiters
        lock(d);
        return true;
    }
    if (d->gather.on && clock_boot_ns() >= d->gather.until_ns) end_gather(d);
    if (d->stopping || d->gather.on) return false;
    if (d->steps.wake_at(d->steps.ctx) > driver_now(d).lo) return false;
    tick(d);
    return true;
}

// A run ends when there is nothing to do, or after RUN_STEPS_MAX steps, because other tasks wait.
static int64_t background(struct pool_task *task)
{
    struct driver *d = (struct driver *)task;
    LOCAL(perform_buffer, p);
    lock(d);
    d->background_sleeps = false;
    int64_t due = 0;
    size_t steps = 0;
    while (steps < RUN_STEPS_MAX && background_step(d, &p, task))
        steps++;
    if (steps < RUN_STEPS_MAX) {
        d->background_sleeps = true;
        d->background_until = d->gather.on ? driver_now(d).lo + 1 : d->steps.wake_at(d->steps.ctx);
        due = local_time(d, d->background_until);
    }
    unlock(d);
    return due;
}

static enum err read_store_time(struct driver *d)
{
    struct perform_buffer p;
    perform_buffer_init(&p);
    struct request r = {.kind = REQUEST_GET, .key = "format"};
    int64_t sent = clock_boot_ms();
    struct response response = perform(d->store, &r, &p);
    enum err err = response.err == ERR_NOT_FOUND ? ERR_OK : response.err;
    store_clock_note(&d->clock, sent, clock_boot_ms(), response.time);
    perform_buffer_done(&p);
    if (!err && !d->clock.known) err = ERR_UNAVAILABLE; // it answers, but without a time
    return err;
}

static enum err start(struct driver *d, struct thread_pool *pool)
{
    enum err err = read_store_time(d);
    if (err) return err;
    if (!pool) pool = d->own = thread_pool_new(OWN_THREADS_MAX);
    d->policy = thread_pool_inline_policy(pool);
    return thread_pool_add(pool, &d->task, background);
}

static void release(struct driver *d)
{
    if (fork_guard_same(&d->guard)) {
        size_t dropped = d->waited_for.len + d->for_background.len;
        if (d->policy) inline_policy_dropped(d->policy, (uint32_t)dropped);
        (void)pthread_cond_destroy(&d->inline_ended);
        (void)pthread_mutex_destroy(&d->lock);
    }
    thread_pool_free(d->own);
    fork_guard_done(&d->guard);
    memory_free(d->waited_for.rows);
    memory_free(d->for_background.rows);
    memory_free(d);
}

enum err driver_open(struct store *s, struct thread_pool *pool, const struct step_functions *steps,
                     struct driver **out)
{
    struct driver *d = NEW(struct driver);
    d->store = s;
    d->steps = *steps;
    fork_guard_init(&d->guard);
    (void)pthread_mutex_init(&d->lock, NULL);
    (void)pthread_cond_init(&d->inline_ended, NULL);
    d->background_sleeps = true;
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
    return d->task.pool;
}

// Performs the rest of the background work on this thread, because the pool may be busy with other
// tasks.
static void finish(struct driver *d)
{
    lock(d);
    CHECK(d->inside == 0);
    d->stopping = true;
    while (d->runs_inline)
        (void)pthread_cond_wait(&d->inline_ended, &d->lock);
    if (d->gather.on) end_gather(d);
    unlock(d);
    task_remove(&d->task);
    LOCAL(perform_buffer, p);
    lock(d);
    d->background_sleeps = false;
    while (background_step(d, &p, NULL)) {
    }
    unlock(d);
}

void driver_free(struct driver *d)
{
    if (!d) return;
    if (fork_guard_same(&d->guard)) finish(d); // a child of fork has no such threads
    release(d);
}
