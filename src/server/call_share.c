// SPDX-License-Identifier: Apache-2.0
// The pool decides which call runs next. This file limits the calls that wait. A call gives its
// place back when it starts.
#include "server/call_share.h"

#include "base/check.h"
#include "base/memory.h"

#include <pthread.h>

struct call_share {
    struct pool_share *threads;
    pthread_mutex_t lock;
    struct clients places;
};

static void start_call(struct pool_job *job)
{
    struct call_job *j = (struct call_job *)job;
    struct call_share *c = j->share;
    (void)pthread_mutex_lock(&c->lock);
    share_give(&c->places, &j->place);
    (void)pthread_mutex_unlock(&c->lock);
    j->run(j);
}

struct call_share *call_share_new(struct thread_pool *pool, const struct call_share_config *config)
{
    struct call_share *c = NEW(struct call_share);
    c->threads = pool_share_new(pool, config->threads, config->per_client);
    c->places.max = config->waiting;
    (void)pthread_mutex_init(&c->lock, NULL);
    return c;
}

void call_share_free(struct call_share *c)
{
    if (!c) return;
    pool_share_free(c->threads);
    CHECK(c->places.len == 0);
    (void)pthread_mutex_destroy(&c->lock);
    memory_free(c);
}

static struct call_job *job_of(struct share *place)
{
    return place ? (struct call_job *)((char *)place - offsetof(struct call_job, place)) : NULL;
}

enum err call_share_run(struct call_share *c, struct call_job *j, uint64_t client)
{
    struct share *lost = NULL;
    enum err err = ERR_LIMIT;
    j->job.run = start_call;
    j->share = c;
    (void)pthread_mutex_lock(&c->lock);
    if (share_take(&c->places, &j->place, client, &lost))
        err = pool_share_run(c->threads, client, &j->job) ? ERR_UNAVAILABLE : ERR_OK;
    if (err == ERR_UNAVAILABLE) share_give(&c->places, &j->place);
    struct call_job *out = job_of(lost);
    if (out && !pool_share_withdraw(c->threads, &out->job)) out = NULL; // it has a thread already
    (void)pthread_mutex_unlock(&c->lock);
    if (out) out->refuse(out);
    return err;
}
