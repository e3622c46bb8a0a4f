// SPDX-License-Identifier: Apache-2.0
// Looks, again and again, as long as somebody wants it to: at the crew's expense.
#pragma once

#include "base/err.h"
#include "node/thread_pool.h"

// One look, which may sleep in the store for wait_ms: ERR_OK, or ERR_NOT_FOUND when there is
// nothing new. What is there is fetched by another call, which takes as long as the store does.
struct watcher_calls {
    void *ctx;
    enum err (*look)(void *ctx, int64_t wait_ms);
    enum err (*fetch)(void *ctx);
    bool high_latency; // a look takes long, and may cost money
};

#define WATCHER_LOOK_MS 200 // no look sleeps longer, which bounds how long freeing takes

enum watch {
    WATCH_NOT,
    WATCH_RARELY, // others seldom write: where looks are money they may come late
    WATCH_CLOSELY
};

struct watcher;

MUST_USE enum err watcher_new(struct thread_pool *c, const struct watcher_calls *calls,
                              struct watcher **out);
void watcher_free(struct watcher *w); // NULL is fine
void watcher_want(struct watcher *w, enum watch wanted);
