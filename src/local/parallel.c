// SPDX-License-Identifier: Apache-2.0
// The threads exist for one call: starting one costs little compared with a request to a store. If
// no thread can be created, the caller's thread does all the work.
#include "local/parallel.h"

#include <pthread.h>
#include <stdatomic.h>

struct parallel_run {
    _Atomic size_t next;
    size_t count;
    void (*work)(void *ctx, size_t i);
    void *ctx;
};

static void *run_items(void *arg)
{
    struct parallel_run *c = arg;
    size_t i;
    while ((i = atomic_fetch_add(&c->next, 1)) < c->count)
        c->work(c->ctx, i);
    return NULL;
}

void parallel_for(size_t count, void (*work)(void *ctx, size_t i), void *ctx)
{
    struct parallel_run pool = {.count = count, .work = work, .ctx = ctx};
    pthread_t threads[PARALLEL_MAX - 1];
    size_t started = 0;
    while (started + 1 < count && started < PARALLEL_MAX - 1 &&
           pthread_create(&threads[started], NULL, run_items, &pool) == 0)
        started++;
    (void)run_items(&pool);
    for (size_t i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
}
