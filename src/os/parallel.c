// SPDX-License-Identifier: Apache-2.0
// The caller's thread works too. So a call ends even if no thread is free or can be created. Jobs
// that have no thread when the work is done are withdrawn.
#include "os/parallel.h"

#include "base/memory.h"
#include "os/futex.h"

#include <stdatomic.h>

#define HELPERS_MAX  64 // threads of all calls, beside the callers' own
#define HELPERS_EACH 16 // of one key
#define WAIT_MS      60000

struct parallel_run {
    _Atomic size_t next;
    size_t count;
    void (*work)(void *ctx, size_t i);
    void *ctx;
    _Atomic uint32_t helpers; // that may still run; a futex
};

struct helper {
    struct pool_job job; // first
    struct parallel_run *run;
};

static void run_items(struct parallel_run *r)
{
    size_t i;
    while ((i = atomic_fetch_add(&r->next, 1)) < r->count)
        r->work(r->ctx, i);
}

// The run is on the stack of the caller, which may continue when `helpers` is 0. To wake a stale
// address is harmless.
static void help(struct pool_job *job)
{
    struct parallel_run *r = ((struct helper *)job)->run;
    run_items(r);
    _Atomic uint32_t *helpers = &r->helpers;
    if (atomic_fetch_sub(helpers, 1) == 1) futex_wake_all(helpers);
}

void parallel_for(struct pool_share *share, uint64_t key, size_t count,
                  void (*work)(void *ctx, size_t i), void *ctx)
{
    parallel_for_with(share, key, PARALLEL_MAX, count, work, ctx);
}

void parallel_for_with(struct pool_share *share, uint64_t key, size_t most, size_t count,
                       void (*work)(void *ctx, size_t i), void *ctx)
{
    struct parallel_run run = {.count = count, .work = work, .ctx = ctx};
    struct helper helpers[PARALLEL_MOST - 1];
    if (most > PARALLEL_MOST) most = PARALLEL_MOST;
    size_t started = 0;
    bool more = true;
    while (more && started + 1 < count && started + 1 < most) {
        helpers[started] = (struct helper){.job = {.run = help}, .run = &run};
        atomic_fetch_add(&run.helpers, 1);
        more = pool_share_run(share, key, &helpers[started].job) == ERR_OK;
        if (more) started++;
        if (!more) atomic_fetch_sub(&run.helpers, 1);
    }
    run_items(&run);
    for (size_t i = 0; i < started; i++)
        if (pool_share_withdraw(share, &helpers[i].job)) atomic_fetch_sub(&run.helpers, 1);
    uint32_t left;
    while ((left = atomic_load(&run.helpers)) > 0)
        futex_wait(&run.helpers, left, WAIT_MS);
}

struct pool_share *parallel_share_new(struct thread_pool *pool)
{
    return pool_share_new(pool, HELPERS_MAX, HELPERS_EACH);
}

struct background_job {
    struct pool_job job; // first
    void (*work)(void *ctx);
    void *ctx;
};

static void run_background(struct pool_job *job)
{
    struct background_job *b = (struct background_job *)job;
    b->work(b->ctx);
    memory_free(b);
}

bool parallel_begin(struct pool_share *share, uint64_t key, void (*work)(void *ctx), void *ctx)
{
    struct background_job *b = NEW(struct background_job);
    *b = (struct background_job){.job = {.run = run_background}, .work = work, .ctx = ctx};
    if (pool_share_run(share, key, &b->job) == ERR_OK) return true;
    memory_free(b);
    return false;
}
