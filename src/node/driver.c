// SPDX-License-Identifier: Apache-2.0
// Threads around a pure step function. The lock protects the step function; it is never held during
// a store call.
#include "node/driver.h"

#include "base/check.h"
#include "base/memory.h"
#include "node/perform.h"
#include "node/store_clock.h"
#include "os/clock.h"
#include "os/fork_guard.h"

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
    struct waiter *waiters;
    struct backlog waited_for;     // whoever waits performs these
    struct backlog for_background; // a caller's thread should not spend its time on these
    pthread_t thread;
    pthread_cond_t background_woken;
    bool stopping;
};

// ---- the step function's side, all under the lock

struct interval driver_now(struct driver *d)
{
    return store_clock_now(&d->clock, clock_boot_ms());
}

void driver_wake(struct driver *d, struct waiter *w)
{
    (void)d;
    w->done = true;
    if (w->asleep) (void)pthread_cond_signal(&w->woken);
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

static struct waiter *somebody_asleep(const struct driver *d)
{
    struct waiter *w = d->waiters;
    while (w && !(w->asleep && !w->done))
        w = w->next;
    return w;
}

static void after_step(struct driver *d)
{
    collect_requests(d);
    d->steps.deliver(d->steps.ctx);
}

// Called by a thread that will not go on: what there is to do needs somebody else to do it.
static void hand_over(struct driver *d)
{
    struct waiter *helper = d->waited_for.len > 0 ? somebody_asleep(d) : NULL;
    if (helper) (void)pthread_cond_signal(&helper->woken);
    bool unattended = d->waited_for.len > 0 && !helper;
    bool ticks = !d->waiters && d->steps.wake_at(d->steps.ctx) != TIME_NEVER;
    if (d->for_background.len > 0 || unattended || ticks)
        (void)pthread_cond_signal(&d->background_woken);
}

static void tick(struct driver *d)
{
    d->steps.tick(d->steps.ctx, driver_now(d));
    after_step(d);
}

// Performs r without the lock and hands the response in.
static void serve(struct driver *d, struct request r, struct performance *p)
{
    (void)pthread_mutex_unlock(&d->lock);
    int64_t sent = clock_boot_ms();
    struct response response = perform(d->store, &r, p);
    int64_t received = clock_boot_ms();
    (void)pthread_mutex_lock(&d->lock);
    store_clock_note(&d->clock, sent, received, response.time);
    d->steps.respond(d->steps.ctx, &response, driver_now(d));
    after_step(d);
}

static bool serve_next(struct driver *d, struct backlog *b, struct performance *p)
{
    struct request r;
    if (!backlog_pop(b, &r)) return false;
    serve(d, r, p);
    return true;
}

// Sleeps until signalled or until the step function wants a tick. True: it is time to tick.
#define SLEEP_MAX_MS 60000

static bool sleep_until_wake(struct driver *d, pthread_cond_t *cond)
{
    int64_t wake = d->steps.wake_at(d->steps.ctx);
    int64_t now = driver_now(d).lo;
    if (wake <= now) return true;
    int64_t wait_ms = wake - now < SLEEP_MAX_MS ? wake - now : SLEEP_MAX_MS;
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += wait_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(cond, &d->lock, &until);
    return d->steps.wake_at(d->steps.ctx) <= driver_now(d).lo;
}

// ---- waiters

static void cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(c, &attr);
    (void)pthread_condattr_destroy(&attr);
}

enum err driver_enter(struct driver *d, struct waiter *w)
{
    if (!fork_guard_same(&d->guard)) return ERR_INVALID;
    *w = (struct waiter){0};
    cond_init(&w->woken);
    (void)pthread_mutex_lock(&d->lock);
    w->next = d->waiters;
    d->waiters = w;
    return ERR_OK;
}

void driver_leave(struct driver *d, struct waiter *w)
{
    struct waiter **at = &d->waiters;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    collect_requests(d);
    hand_over(d);
    (void)pthread_mutex_unlock(&d->lock);
    (void)pthread_cond_destroy(&w->woken);
}

void driver_wait(struct driver *d, struct waiter *w)
{
    struct performance p;
    performance_init(&p);
    after_step(d);
    while (!w->done) {
        if (serve_next(d, &d->waited_for, &p)) continue;
        w->asleep = true;
        bool due = sleep_until_wake(d, &w->woken);
        w->asleep = false;
        if (due && !w->done) tick(d);
    }
    driver_leave(d, w);
    performance_done(&p);
}

// ---- the background

static void *background(void *arg)
{
    struct driver *d = arg;
    struct performance p;
    performance_init(&p);
    (void)pthread_mutex_lock(&d->lock);
    for (;;) {
        if (serve_next(d, &d->for_background, &p)) continue;
        if (!somebody_asleep(d) && serve_next(d, &d->waited_for, &p)) continue;
        if (d->stopping) break;
        hand_over(d);
        if (sleep_until_wake(d, &d->background_woken)) tick(d);
    }
    (void)pthread_mutex_unlock(&d->lock);
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
    if (!err) store_clock_note(&d->clock, sent, clock_boot_ms(), response.time);
    performance_done(&p);
    return err;
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
        (void)pthread_mutex_lock(&d->lock);
        CHECK(!d->waiters);
        d->stopping = true;
        (void)pthread_cond_signal(&d->background_woken);
        (void)pthread_mutex_unlock(&d->lock);
        (void)pthread_join(d->thread, NULL);
    }
    (void)pthread_cond_destroy(&d->background_woken);
    (void)pthread_mutex_destroy(&d->lock);
    fork_guard_done(&d->guard);
    memory_free(d->waited_for.rows);
    memory_free(d->for_background.rows);
    memory_free(d);
}
