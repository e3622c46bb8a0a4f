// SPDX-License-Identifier: Apache-2.0
// Threads that each perform one blocking call at a time. They start on demand and then stay.
#include "net/http_tls_pool.h"

#include "base/memory.h"

#include <pthread.h>

struct http_tls_pool {
    struct http *http;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct http_async_call *calls; // accepted and not started
    size_t calls_len;
    size_t idle;
    size_t len;
    size_t max;
    bool stopping;
    pthread_t threads[];
};

static void *run(void *arg)
{
    struct http_tls_pool *l = arg;
    (void)pthread_mutex_lock(&l->lock);
    for (;;) {
        struct http_async_call *call = l->calls;
        if (call) {
            l->calls = call->next;
            l->calls_len--;
            (void)pthread_mutex_unlock(&l->lock);
            http_do(l->http, &call->http);
            call->done(call);
            (void)pthread_mutex_lock(&l->lock);
        } else if (l->stopping) {
            break;
        } else {
            l->idle++;
            (void)pthread_cond_wait(&l->work, &l->lock);
            l->idle--;
        }
    }
    (void)pthread_mutex_unlock(&l->lock);
    return NULL;
}

struct http_tls_pool *http_tls_pool_new(const struct http_config *config, size_t threads_max)
{
    struct http_tls_pool *l = memory_zeroed(1, sizeof *l + threads_max * sizeof *l->threads);
    struct http_config own = *config;
    own.connections_max = threads_max;
    l->http = http_new(&own);
    l->max = threads_max;
    (void)pthread_mutex_init(&l->lock, NULL);
    (void)pthread_cond_init(&l->work, NULL);
    return l;
}

void http_tls_pool_free(struct http_tls_pool *l)
{
    if (!l) return;
    (void)pthread_mutex_lock(&l->lock);
    l->stopping = true;
    (void)pthread_cond_broadcast(&l->work);
    (void)pthread_mutex_unlock(&l->lock);
    for (size_t i = 0; i < l->len; i++)
        (void)pthread_join(l->threads[i], NULL);
    http_free(l->http);
    (void)pthread_cond_destroy(&l->work);
    (void)pthread_mutex_destroy(&l->lock);
    memory_free(l);
}

bool http_tls_pool_do(struct http_tls_pool *l, struct http_async_call *call)
{
    (void)pthread_mutex_lock(&l->lock);
    bool free = l->calls_len < l->idle; // an idle thread that no accepted call waits for
    if (!free && l->len < l->max && pthread_create(&l->threads[l->len], NULL, run, l) == 0) {
        l->len++;
        free = true;
    }
    if (free) {
        call->next = l->calls;
        l->calls = call;
        l->calls_len++;
        (void)pthread_cond_signal(&l->work);
    }
    (void)pthread_mutex_unlock(&l->lock);
    return free;
}
