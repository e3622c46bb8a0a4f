// SPDX-License-Identifier: Apache-2.0
// Polls for new entries, on the threads of a pool, as long as its runner wants it to.
#pragma once

#include "base/err.h"
#include "os/thread_pool.h"

// `poll` polls once and may sleep in the store for wait_ms. It returns ERR_OK, or ERR_NOT_FOUND if
// there is nothing new. `fetch` then reads what is new, and takes as long as the store does.
struct watcher_calls {
    void *ctx;
    enum err (*poll)(void *ctx, int64_t wait_ms);
    enum err (*fetch)(void *ctx);
    bool high_latency; // a poll takes long, and may cost money
};

// The longest sleep of a poll; it bounds the time that watcher_free takes.
#define WATCHER_POLL_MS 200

enum watch {
    WATCH_NOT,
    // Other processes seldom write. Where a poll costs money, polls may be late.
    WATCH_RARELY,
    WATCH_CLOSELY
};

struct watcher;

MUST_USE enum err watcher_new(struct thread_pool *pool, const struct watcher_calls *calls,
                              struct watcher **out);
void watcher_free(struct watcher *w); // NULL is allowed
void watcher_want(struct watcher *w, enum watch wanted);
