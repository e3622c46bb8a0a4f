// SPDX-License-Identifier: Apache-2.0
// The engine: its making and its end, and the threads for parts of calls that may block: opening a
// queue, uploading and reading bodies, finding an owner. Each queue gets a share of them, so a
// queue that blocks does not hold up the others.
#include "base/digits.h"
#include "base/hash.h"
#include "base/memory.h"
#include "os/lock.h"
#include "os/parallel.h"
#include "peer/link.h"
#include "peer/peer.h"
#include "queues/queues.h"
#include "queues/waiting_workers.h"

#include <assert.h>
#include <string.h>

#define POOL_THREADS_MAX 256 // the bound for commits under way that no caller's thread performs
#define THREADS_MAX      64
#define EACH_MAX         16 // threads of one queue

struct simple_job {
    struct pool_job job; // first
    void (*run)(void *ctx);
    void *ctx;
};

void engine_store_id(const struct engine *e, char out[ENGINE_STORE_ID])
{
    static_assert(ENGINE_STORE_ID == 2 * STORE_ID_LEN + 1, "hex digits and a zero");
    *digits_put_hex(out, e->store_id, sizeof e->store_id) = 0;
}

void engine_dispatch(struct engine *e, int rollout)
{
    atomic_store(&e->dispatch.state, rollout);
}

uint64_t engine_dispatch_withheld(struct engine *e)
{
    return atomic_load(&e->dispatch.withheld);
}

bool engine_run_job(struct engine *e, const char *queue, struct pool_job *job)
{
    return !pool_share_run(e->jobs, hash64_of(bytes_str(queue), 0), job);
}

static void run_simple(struct pool_job *job)
{
    struct simple_job *j = (struct simple_job *)job;
    j->run(j->ctx);
    memory_free(j);
}

void engine_run(struct engine *e, const char *queue, void (*run)(void *ctx), void *ctx)
{
    struct simple_job *j = NEW(struct simple_job);
    *j = (struct simple_job){.job.run = run_simple, .run = run, .ctx = ctx};
    if (!engine_run_job(e, queue, &j->job)) run_simple(&j->job);
}

struct engine *engine_new_take(struct store *store, const struct engine_config *config)
{
    struct engine *e = NEW(struct engine);
    e->store = store;
    e->identity = config->identity;
    memcpy(e->store_id, config->store_id, sizeof e->store_id);
    e->timeout_ms = config->timeout_ms;
    e->pool = thread_pool_new(POOL_THREADS_MAX);
    e->parallel = parallel_share_new(e->pool);
    e->jobs = pool_share_new(e->pool, THREADS_MAX, EACH_MAX);
    (void)pthread_mutex_init(&e->lock, NULL);
    (void)pthread_cond_init(&e->let_go, NULL);
    e->peers = peers_new(e->pool);
    e->links = links_new(config->peers, e->pool);
    return e;
}

void engine_free(struct engine *e)
{
    waiting_cache_free(e->waiting_cache);
    queues_close(e);
    links_free(e->links);
    peers_free(e->peers);
    owner_self_free(atomic_load(&e->self));
    pool_share_free(e->parallel);
    thread_pool_free(e->pool);
    store_free(e->store);
    (void)pthread_cond_destroy(&e->let_go);
    (void)pthread_mutex_destroy(&e->lock);
    memory_free(e);
}

void engine_wake_locked(struct engine *e)
{
    if (e->upkeep) task_schedule(e->upkeep);
}

void engine_wake(struct engine *e)
{
    LOCKED(&e->lock);
    engine_wake_locked(e);
}

bool engine_takes_shards(struct engine *e)
{
    return atomic_load(&e->self) && (!atomic_load(&e->joins) || atomic_load(&e->cluster));
}
