// SPDX-License-Identifier: Apache-2.0
// A few watchers sleep in the store and see a new entry at once. The others poll. On a store with
// low latency all poll at the same moments, which costs next to nothing. Where a poll is a request,
// each watcher polls by itself, and less and less often.
#include "runner/watcher.h"

#include "base/memory.h"
#include "os/clock.h"

#include <stdatomic.h>

#define EAGER_MS        1000 // after a new entry, more are likely for this long
#define GAP_FIRST_MS    25   // between polls on a store with high latency
#define GAP_MAX_MS      1000
#define GAP_RARELY_MS   5000
#define DEPEND_RETRY_MS 20 // when to retry after task_may_depend refused

struct watcher {
    struct pool_task task; // first
    struct watcher_calls calls;
    _Atomic int wanted; // enum watch
    bool polled;        // the first poll opens or creates the log
    int64_t gap_ms;     // high latency: the pause before the next poll
    int64_t eager_until;
};

static int64_t next_poll(struct watcher *w, int64_t moment)
{
    if (!w->calls.high_latency) return moment;
    int64_t max = atomic_load(&w->wanted) == WATCH_RARELY ? GAP_RARELY_MS : GAP_MAX_MS;
    w->gap_ms = w->gap_ms + w->gap_ms / 2;
    if (w->gap_ms < GAP_FIRST_MS) w->gap_ms = GAP_FIRST_MS;
    if (w->gap_ms > max) w->gap_ms = max;
    int64_t at = clock_boot_ms() + w->gap_ms;
    return at > moment ? at : moment;
}

static enum err watcher_poll(struct watcher *w, int64_t wait_ms)
{
    if (w->calls.high_latency || !w->polled) task_may_block(&w->task);
    w->polled = true;
    return w->calls.poll(w->calls.ctx, wait_ms);
}

static int64_t watcher_run(struct pool_task *task)
{
    struct watcher *w = (struct watcher *)task;
    if (atomic_load(&w->wanted) == WATCH_NOT) return TASK_NEVER;
    int64_t moment = task_may_sleep(task, clock_boot_ms() < w->eager_until);
    enum err err = watcher_poll(w, moment == 0 ? WATCHER_POLL_MS : 0);
    if (err == ERR_NOT_FOUND) return moment == 0 ? 0 : next_poll(w, moment);
    if (!err) {
        // If the store answers badly, a fetch waits for the runs of its driver.
        if (!task_may_depend(task)) return clock_boot_ms() + DEPEND_RETRY_MS;
        err = w->calls.fetch(w->calls.ctx);
    }
    // If the store is unreachable or the journal has halted, wait before the next poll.
    if (err) return clock_boot_ms() + WATCHER_POLL_MS;
    w->eager_until = clock_boot_ms() + EAGER_MS;
    w->gap_ms = 0;
    return 0;
}

enum err watcher_new(struct thread_pool *pool, const struct watcher_calls *calls,
                     struct watcher **out)
{
    struct watcher *w = NEW(struct watcher);
    w->calls = *calls;
    enum err err = thread_pool_add(pool, &w->task, watcher_run);
    if (err) {
        memory_free(w);
        return err;
    }
    *out = w;
    return ERR_OK;
}

void watcher_free(struct watcher *w)
{
    if (!w) return;
    atomic_store(&w->wanted, WATCH_NOT);
    task_remove(&w->task);
    memory_free(w);
}

void watcher_want(struct watcher *w, enum watch wanted)
{
    int before = atomic_exchange(&w->wanted, wanted);
    if (before == WATCH_NOT && wanted != WATCH_NOT) task_schedule(&w->task);
}
