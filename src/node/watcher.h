// SPDX-License-Identifier: Apache-2.0
// A thread that looks, again and again, as long as somebody wants it to.
#pragma once

#include "base/err.h"

#include <stdbool.h>

struct watcher;

// One look; it may sleep in the store for WATCHER_LOOK_MS, which bounds how long freeing takes.
// After an error there is a pause.
#define WATCHER_LOOK_MS 200
typedef enum err watcher_look(void *ctx);

MUST_USE enum err watcher_new(watcher_look *look, void *ctx, struct watcher **out);
void watcher_free(struct watcher *w); // NULL is fine
void watcher_want(struct watcher *w, bool wanted);
