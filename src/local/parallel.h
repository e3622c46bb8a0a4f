// SPDX-License-Identifier: Apache-2.0
// Work of one call that mostly waits for the store, on several threads.
#pragma once

#include "local/inside.h"

#define PARALLEL_MAX 8

// Calls work(ctx, i) for every i < count: on the caller's thread, and on threads of the handle's
// pool that are free, at most PARALLEL_MAX at a time. Returns when all calls have returned. A
// single one runs on the caller's thread. The calls of one key, for example a queue, have a bounded
// share of these threads.
void parallel_for(struct sluice *s, uint64_t key, size_t count, void (*work)(void *ctx, size_t i),
                  void *ctx);
// The same with at most `most` threads, up to PARALLEL_MOST.
#define PARALLEL_MOST 17
void parallel_for_with(struct sluice *s, uint64_t key, size_t most, size_t count,
                       void (*work)(void *ctx, size_t i), void *ctx);
// The share of the pool for this work. The handle has its pool already.
void parallel_start(struct sluice *s);
// Runs work(ctx) in the background. parallel_stop waits for its end. Returns false if there is no
// thread: the work does not run then.
bool parallel_begin(struct sluice *s, uint64_t key, void (*work)(void *ctx), void *ctx);
void parallel_stop(struct sluice *s); // before the pool is freed
