// SPDX-License-Identifier: Apache-2.0
// The threads for parts of calls that may block: opening a queue, uploading and reading bodies,
// finding an owner. Each queue gets a share of them, so a queue that blocks does not hold up the
// others.
#include "base/digits.h"
#include "base/hash.h"
#include "base/memory.h"
#include "local/async.h"
#include "local/inside.h"
#include "node/thread_pool.h"

#include <assert.h>

#define THREADS_MAX 64
#define EACH_MAX    16 // threads of one queue

struct simple_job {
    struct pool_job job; // first
    void (*run)(void *ctx);
    void *ctx;
};

void async_store_id(const struct sluice *s, char out[ASYNC_STORE_ID])
{
    static_assert(ASYNC_STORE_ID == 2 * STORE_ID_LEN + 1, "hex digits and a zero");
    *digits_put_hex(out, s->store_id, sizeof s->store_id) = 0;
}

struct thread_pool *async_thread_pool(struct sluice *s)
{
    return s->pool;
}

void async_dispatch(struct sluice *s, int rollout)
{
    atomic_store(&s->dispatch.state, rollout);
}

uint64_t async_dispatch_withheld(struct sluice *s)
{
    return atomic_load(&s->dispatch.withheld);
}

bool async_run_job(struct sluice *s, const char *queue, struct pool_job *job)
{
    return !pool_share_run(s->jobs, hash64_of(bytes_str(queue), 0), job);
}

static void run_simple(struct pool_job *job)
{
    struct simple_job *j = (struct simple_job *)job;
    j->run(j->ctx);
    memory_free(j);
}

void async_run(struct sluice *s, const char *queue, void (*run)(void *ctx), void *ctx)
{
    struct simple_job *j = NEW(struct simple_job);
    *j = (struct simple_job){.job.run = run_simple, .run = run, .ctx = ctx};
    if (!async_run_job(s, queue, &j->job)) run_simple(&j->job);
}

enum err async_start(struct sluice *s)
{
    s->jobs = pool_share_new(s->pool, THREADS_MAX, EACH_MAX);
    return lines_new(s, &s->lines);
}

void async_stop(struct sluice *s)
{
    lines_stop(s->lines);
    pool_share_free(s->jobs);
    lines_free(s->lines);
}
