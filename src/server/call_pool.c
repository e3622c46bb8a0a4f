// SPDX-License-Identifier: Apache-2.0
// Each client has a queue of its own calls. Another queue holds the clients that have a waiting
// call and fewer than per_client running ones.
#include "server/call_pool.h"

#include "base/check.h"
#include "base/memory.h"

#include <pthread.h>

struct call_pool {
    struct pool_config config;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct clients clients;
    struct client *first, *last; // queue of the clients that may run a call
    size_t queued;               // clients in that queue
    size_t busy;                 // threads that run a call
    bool stopping;
    size_t threads_len;
    pthread_t threads[];
};

static void queue_client(struct call_pool *p, struct client *one)
{
    if (one->queued || one->len == 0 || one->running == p->config.per_client) return;
    one->queued = true;
    one->next_queued = NULL;
    if (p->last)
        p->last->next_queued = one;
    else
        p->first = one;
    p->last = one;
    p->queued++;
}

static struct client *next_client(struct call_pool *p)
{
    struct client *one = p->first;
    p->first = one->next_queued;
    if (!p->first) p->last = NULL;
    one->queued = false;
    p->queued--;
    return one;
}

// Returns the next client's job. NULL: other clients took all its places meanwhile.
static struct pool_job *next_job(struct call_pool *p, struct client **whose)
{
    struct client *one = next_client(p);
    struct pool_job *j = (struct pool_job *)one->first;
    if (!j) {
        client_forget(&p->clients, one);
        return NULL;
    }
    one->running++; // before share_give, which frees a client that has nothing
    share_give(&p->clients, &j->share);
    queue_client(p, one);
    *whose = one;
    return j;
}

static void *work(void *arg);

// Finds a thread for a queued client: wakes one that sleeps, or starts one.
static void wake_thread(struct call_pool *p)
{
    (void)pthread_cond_signal(&p->work);
    bool enough = p->busy + p->queued <= p->threads_len;
    if (enough || p->stopping || p->threads_len == p->config.threads) return;
    bool started = pthread_create(&p->threads[p->threads_len], NULL, work, p) == 0;
    CHECK(started || p->threads_len > 0);
    if (started) p->threads_len++;
}

static void *work(void *arg)
{
    struct call_pool *p = arg;
    (void)pthread_mutex_lock(&p->lock);
    for (;;) {
        struct client *whose = NULL;
        while (!p->first && !p->stopping)
            (void)pthread_cond_wait(&p->work, &p->lock);
        if (!p->first) break;
        struct pool_job *j = next_job(p, &whose);
        if (!j) continue;
        p->busy++;
        if (p->first) wake_thread(p);
        (void)pthread_mutex_unlock(&p->lock);
        j->run(j);
        (void)pthread_mutex_lock(&p->lock);
        p->busy--;
        whose->running--;
        queue_client(p, whose);
        client_forget(&p->clients, whose);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct call_pool *pool_new(const struct pool_config *config)
{
    struct call_pool *p = memory_zeroed(1, sizeof *p + config->threads * sizeof *p->threads);
    p->config = *config;
    p->clients.max = config->waiting;
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->work, NULL);
    return p;
}

void pool_free(struct call_pool *p)
{
    if (!p) return;
    (void)pthread_mutex_lock(&p->lock);
    p->stopping = true;
    (void)pthread_cond_broadcast(&p->work);
    (void)pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->threads_len; i++)
        (void)pthread_join(p->threads[i], NULL);
    CHECK(p->clients.len == 0);
    (void)pthread_cond_destroy(&p->work);
    (void)pthread_mutex_destroy(&p->lock);
    memory_free(p);
}

bool pool_run(struct call_pool *p, struct pool_job *j, uint64_t client)
{
    struct share *lost = NULL;
    (void)pthread_mutex_lock(&p->lock);
    bool taken = share_take(&p->clients, &j->share, client, &lost);
    if (taken) {
        queue_client(p, j->share.client);
        wake_thread(p);
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (lost) ((struct pool_job *)lost)->refuse((struct pool_job *)lost);
    return taken;
}
