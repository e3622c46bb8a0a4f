// SPDX-License-Identifier: Apache-2.0
// Threads around a pure step function. The lock protects the step function; it is never held during
// a store call, nor while somebody is woken: who is roused for his answer leaves without it, who is
// roused for work finds it free.
//
// A request is not given to the one who is roused for it: until he has come up, whoever enters
// takes it. A writer that goes on at once performs the next commit on a warm processor, and the
// sleeper's way out of bed costs nobody anything.
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
#include <time.h>

// Requests that no thread has taken yet, first come first served.
struct backlog {
    struct request *rows;
    size_t len;
    size_t cap;
};

struct driver {
    struct store *store;
    struct steps steps;
    struct fork_guard guard;
    struct store_clock clock;
    pthread_mutex_t lock;
    size_t inside;         // callers who entered and have not left
    struct waiter *asleep; // among them
    struct waiter *roused; // to be woken as soon as the lock is free
    struct waiter *told;   // answered, and no thread: to be called when it is, in order
    struct waiter *told_last;
    size_t coming;                 // roused for work, and not here yet
    struct backlog waited_for;     // whoever waits performs these
    struct backlog for_background; // a caller's thread should not spend its time on these
    pthread_t thread;
    pthread_cond_t background_woken;
    bool background_asleep;
    int64_t background_until; // when it will look at the time again
    int64_t now_seen;         // when the store last answered
    bool stopping;
};

// ---- sleeping and waking

enum nap { NAP_ON, NAP_WORK, NAP_ANSWERED };

#define SLEEP_MAX_MS 60000

static void asleep_add(struct driver *d, struct waiter *w)
{
    w->previous = NULL;
    w->next = d->asleep;
    if (d->asleep) d->asleep->previous = w;
    d->asleep = w;
    w->asleep = true;
    atomic_store(&w->word, NAP_ON);
}

// He goes on when his word is set, after the lock was released: until then his memory is good. Who
// is roused last is woken first: those with work, for everybody waits for the store.
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
    for (struct waiter *w = told, *next; w; w = next) {
        next = w->next;
        w->then(w); // and w is gone
    }
}

static void wake_all(struct waiter *roused)
{
    for (struct waiter *w = roused, *next; w; w = next) {
        next = w->next;
        _Atomic uint32_t *word = &w->word;
        atomic_store(word, w->why);
        futex_wake_all(word); // w may be gone; a futex that is woken for nothing looks again
    }
}

// ---- the step function's side, all under the lock

struct interval driver_now(struct driver *d)
{
    return store_clock_now(&d->clock, clock_boot_ms());
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
    if (!w->asleep) return; // he performs a request and will see it
    rouse(d, w, NAP_ANSWERED);
    d->inside--;
}

static void backlog_push(struct backlog *b, const struct request *r)
{
    if (b->len == b->cap) {
        b->cap = b->cap > 0 ? b->cap * 2 : 4;
        b->rows = memory_resize(b->rows, b->cap * sizeof *b->rows);
    }
    b->rows[b->len++] = *r;
}

static bool backlog_pop(struct backlog *b, struct request *out)
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
    while (d->steps.next_request(d->steps.ctx, &r))
        backlog_push(r.background ? &d->for_background : &d->waited_for, &r);
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

// What there is to do, and the thread that goes away now does not do, needs somebody who sleeps.
static void share_out(struct driver *d)
{
    for (; d->waited_for.len > d->coming && d->asleep; d->coming++)
        rouse(d, d->asleep, NAP_WORK);
    if (!d->background_asleep) return; // it looks at all of this before it sleeps again
    bool work = d->waited_for.len > d->coming || d->for_background.len > 0 || d->stopping;
    int64_t wake = d->steps.wake_at(d->steps.ctx);
    bool due = wake <= d->now_seen; // the store's clock may be found to be ahead of what it was
    if (!work && !due && wake >= d->background_until) return;
    d->background_asleep = false;
    (void)pthread_cond_signal(&d->background_woken);
}

static void lock(struct driver *d)
{
    (void)pthread_mutex_lock(&d->lock);
}

static void unlock(struct driver *d)
{
    share_out(d);
    struct waiter *roused = d->roused, *told = d->told;
    d->roused = d->told = NULL;
    (void)pthread_mutex_unlock(&d->lock);
    wake_all(roused);
    call_all(told);
}

// Performs r, without the lock, takes the lock and hands the response in.
static void serve(struct driver *d, const struct request *r, struct performance *p)
{
    int64_t sent = clock_boot_ms();
    struct response response = perform(d->store, r, p);
    int64_t received = clock_boot_ms();
    lock(d);
    store_clock_note(&d->clock, sent, received, response.time);
    struct interval now = driver_now(d);
    d->now_seen = now.lo;
    d->steps.respond(d->steps.ctx, &response, now);
    after_step(d);
}

// ---- waiters

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

void driver_later(struct driver *d, struct waiter *w, void (*then)(struct waiter *w))
{
    CHECK(!w->done && !w->asleep); // answers are handed out by after_step
    w->then = then;
    after_step(d);
    unlock(d);
}

void driver_forget(struct driver *d, struct waiter *w)
{
    CHECK(w->then && !w->done);
    d->inside--;
}

// Releases the lock and sleeps. True: he was roused for work and has the lock again. False: he has
// his answer, and was let out by the one who gave it.
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

static bool serve_next(struct driver *d, struct backlog *b, struct performance *p)
{
    struct request r;
    if (!backlog_pop(b, &r)) return false;
    unlock(d);
    serve(d, &r, p);
    return true;
}

void driver_wait(struct driver *d, struct waiter *w)
{
    struct performance p;
    performance_init(&p);
    after_step(d);
    bool inside = true;
    while (inside && !w->done)
        inside = serve_next(d, &d->waited_for, &p) || sleep_for_work(d, w);
    if (inside) driver_leave(d, w);
    performance_done(&p);
}

// ---- the background

// Sleeps until signalled or until the step function wants a tick.
static void background_sleep(struct driver *d, int64_t wait_ms)
{
    d->background_until = d->steps.wake_at(d->steps.ctx);
    d->background_asleep = true;
    if (wait_ms > SLEEP_MAX_MS) wait_ms = SLEEP_MAX_MS;
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += wait_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&d->background_woken, &d->lock, &until);
    d->background_asleep = false;
}

static void *background(void *arg)
{
    struct driver *d = arg;
    struct performance p;
    performance_init(&p);
    lock(d);
    for (;;) {
        if (serve_next(d, &d->for_background, &p)) continue;
        bool unattended = d->waited_for.len > d->coming;
        if (unattended && !d->asleep && serve_next(d, &d->waited_for, &p)) continue;
        if (unattended || d->roused || d->told) {
            unlock(d); // wakes and calls whom it concerns
            lock(d);
            continue;
        }
        if (d->stopping) break;
        int64_t now = driver_now(d).lo;
        int64_t wake = d->steps.wake_at(d->steps.ctx);
        if (wake <= now) {
            tick(d);
        } else {
            background_sleep(d, wake - now);
        }
    }
    unlock(d);
    performance_done(&p);
    return NULL;
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
    if (!err && !d->clock.known) err = ERR_UNAVAILABLE; // it answers, and tells no time
    return err;
}

static void cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(c, &attr);
    (void)pthread_condattr_destroy(&attr);
}

enum err driver_open(struct store *s, const struct steps *steps, struct driver **out)
{
    struct driver *d = NEW(struct driver);
    d->store = s;
    d->steps = *steps;
    fork_guard_init(&d->guard);
    (void)pthread_mutex_init(&d->lock, NULL);
    cond_init(&d->background_woken);
    enum err err = ask_time(d);
    if (!err && pthread_create(&d->thread, NULL, background, d) != 0) err = ERR_LIMIT;
    if (err) {
        fork_guard_done(&d->guard);
        memory_free(d);
        return err;
    }
    *out = d;
    return ERR_OK;
}

void driver_free(struct driver *d)
{
    if (!d) return;
    if (fork_guard_same(&d->guard)) { // a child of fork has no such thread
        lock(d);
        CHECK(d->inside == 0);
        d->stopping = true;
        unlock(d);
        (void)pthread_join(d->thread, NULL);
    }
    (void)pthread_cond_destroy(&d->background_woken);
    (void)pthread_mutex_destroy(&d->lock);
    fork_guard_done(&d->guard);
    memory_free(d->waited_for.rows);
    memory_free(d->for_background.rows);
    memory_free(d);
}
