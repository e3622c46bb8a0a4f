// SPDX-License-Identifier: Apache-2.0
// A few watchers sleep in the store and hear at once of what happens. The others look without
// waiting: all at the same moments where that costs next to nothing, each by itself and less and
// less often where a look is a request.
#include "node/watcher.h"

#include "base/memory.h"
#include "os/clock.h"

#include <stdatomic.h>

#define EAGER_MS      1000 // there was something: there will be more
#define GAP_FIRST_MS  25   // between looks from afar
#define GAP_MAX_MS    1000
#define GAP_RARELY_MS 5000
#define LEAN_AGAIN_MS 20

struct watcher {
    struct pool_task member; // first
    struct watcher_calls calls;
    _Atomic int wanted; // enum watch
    bool looked;        // the first look opens, or makes, what is looked at
    int64_t gap_ms;     // from afar: before the next look
    int64_t eager_until;
};

static int64_t next_look(struct watcher *w, int64_t moment)
{
    if (!w->calls.high_latency) return moment;
    int64_t max = atomic_load(&w->wanted) == WATCH_RARELY ? GAP_RARELY_MS : GAP_MAX_MS;
    w->gap_ms = w->gap_ms + w->gap_ms / 2;
    if (w->gap_ms < GAP_FIRST_MS) w->gap_ms = GAP_FIRST_MS;
    if (w->gap_ms > max) w->gap_ms = max;
    int64_t at = clock_boot_ms() + w->gap_ms;
    return at > moment ? at : moment;
}

static enum err look(struct watcher *w, int64_t wait_ms)
{
    if (w->calls.high_latency || !w->looked) task_may_block(&w->member);
    w->looked = true;
    return w->calls.look(w->calls.ctx, wait_ms);
}

static int64_t run(struct pool_task *m)
{
    struct watcher *w = (struct watcher *)m;
    if (atomic_load(&w->wanted) == WATCH_NOT) return TASK_NEVER;
    int64_t moment = task_may_sleep(m, clock_boot_ms() < w->eager_until);
    enum err err = look(w, moment == 0 ? WATCHER_LOOK_MS : 0);
    if (err == ERR_NOT_FOUND) return moment == 0 ? 0 : next_look(w, moment);
    if (!err) {
        // A fetch waits for its driver's turns when the store does not answer well.
        if (!task_may_depend(m)) return clock_boot_ms() + LEAN_AGAIN_MS;
        err = w->calls.fetch(w->calls.ctx);
    }
    // A store that is away, or a journal that halted, is not asked again at once.
    if (err) return clock_boot_ms() + WATCHER_LOOK_MS;
    w->eager_until = clock_boot_ms() + EAGER_MS;
    w->gap_ms = 0;
    return 0;
}

enum err watcher_new(struct thread_pool *c, const struct watcher_calls *calls, struct watcher **out)
{
    struct watcher *w = NEW(struct watcher);
    w->calls = *calls;
    enum err err = thread_pool_add(c, &w->member, run);
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
    task_remove(&w->member);
    memory_free(w);
}

void watcher_want(struct watcher *w, enum watch wanted)
{
    int before = atomic_exchange(&w->wanted, wanted);
    if (before == WATCH_NOT && wanted != WATCH_NOT) task_schedule(&w->member);
}
