// SPDX-License-Identifier: Apache-2.0
// Looking costs a request where requests are money, so the thread sleeps unless it is wanted.
#include "node/watcher.h"

#include "base/memory.h"

#include <pthread.h>
#include <time.h>

struct watcher {
    watcher_look *look;
    void *ctx;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool wanted;
    bool stopping;
};

// A store that is away, or a journal that halted, is not asked again at once.
static void rest(struct watcher *w)
{
    struct timespec end;
    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += (long)WATCHER_LOOK_MS * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&w->woken, &w->lock, &end);
}

static void *watch(void *arg)
{
    struct watcher *w = arg;
    (void)pthread_mutex_lock(&w->lock);
    while (!w->stopping) {
        if (!w->wanted) {
            (void)pthread_cond_wait(&w->woken, &w->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&w->lock);
        enum err err = w->look(w->ctx);
        (void)pthread_mutex_lock(&w->lock);
        if (err && !w->stopping) rest(w);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

enum err watcher_new(watcher_look *look, void *ctx, struct watcher **out)
{
    struct watcher *w = NEW(struct watcher);
    w->look = look;
    w->ctx = ctx;
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->woken, NULL);
    if (pthread_create(&w->thread, NULL, watch, w) != 0) {
        memory_free(w);
        return ERR_LIMIT;
    }
    *out = w;
    return ERR_OK;
}

void watcher_free(struct watcher *w)
{
    if (!w) return;
    (void)pthread_mutex_lock(&w->lock);
    w->stopping = true;
    (void)pthread_cond_signal(&w->woken);
    (void)pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    (void)pthread_mutex_destroy(&w->lock);
    (void)pthread_cond_destroy(&w->woken);
    memory_free(w);
}

void watcher_want(struct watcher *w, bool wanted)
{
    (void)pthread_mutex_lock(&w->lock);
    w->wanted = wanted;
    if (wanted) (void)pthread_cond_signal(&w->woken);
    (void)pthread_mutex_unlock(&w->lock);
}
