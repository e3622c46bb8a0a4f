// SPDX-License-Identifier: Apache-2.0
// Threads and a list of what waits for one.
#include "server/pool.h"

#include "base/check.h"
#include "base/memory.h"

#include <pthread.h>

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct pool_job *first, *last;
    size_t waiting;
    size_t waiting_max;
    bool stopping;
    size_t threads_len;
    pthread_t threads[];
};

static void *work(void *arg)
{
    struct pool *p = arg;
    (void)pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->first && !p->stopping)
            (void)pthread_cond_wait(&p->work, &p->lock);
        struct pool_job *j = p->first;
        if (!j) break;
        p->first = j->next;
        if (!p->first) p->last = NULL;
        p->waiting--;
        (void)pthread_mutex_unlock(&p->lock);
        j->run(j);
        (void)pthread_mutex_lock(&p->lock);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct pool *pool_new(size_t threads, size_t waiting_max)
{
    struct pool *p = memory_zeroed(1, sizeof *p + threads * sizeof *p->threads);
    p->waiting_max = waiting_max;
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->work, NULL);
    for (; p->threads_len < threads; p->threads_len++)
        CHECK(pthread_create(&p->threads[p->threads_len], NULL, work, p) == 0);
    return p;
}

void pool_free(struct pool *p)
{
    if (!p) return;
    (void)pthread_mutex_lock(&p->lock);
    p->stopping = true;
    (void)pthread_cond_broadcast(&p->work);
    (void)pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->threads_len; i++)
        (void)pthread_join(p->threads[i], NULL);
    (void)pthread_cond_destroy(&p->work);
    (void)pthread_mutex_destroy(&p->lock);
    memory_free(p);
}

bool pool_run(struct pool *p, struct pool_job *j)
{
    (void)pthread_mutex_lock(&p->lock);
    bool taken = p->waiting < p->waiting_max;
    if (taken) {
        j->next = NULL;
        if (p->last)
            p->last->next = j;
        else
            p->first = j;
        p->last = j;
        p->waiting++;
        (void)pthread_cond_signal(&p->work);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return taken;
}
