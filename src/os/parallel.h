// SPDX-License-Identifier: Apache-2.0
// Work of one call that mostly waits for the store, on several threads.
#pragma once

#include "os/thread_pool.h"

#define PARALLEL_MAX 8

// Calls work(ctx, i) for every i < count: on the caller's thread, and on threads of the
// share that are free, at most PARALLEL_MAX at a time. Returns when all calls have returned. A
// single one runs on the caller's thread. The calls of one key, for example a queue, have a bounded
// share of these threads.
void parallel_for(struct pool_share *share, uint64_t key, size_t count,
                  void (*work)(void *ctx, size_t i), void *ctx);
// The same with at most `most` threads, up to PARALLEL_MOST.
#define PARALLEL_MOST 17
void parallel_for_with(struct pool_share *share, uint64_t key, size_t most, size_t count,
                       void (*work)(void *ctx, size_t i), void *ctx);
// The share of a pool for such work. pool_share_free waits for what parallel_begin began.
struct pool_share *parallel_share_new(struct thread_pool *pool);
// Runs work(ctx) in the background. Returns false if there is no thread: the work does not run
// then.
bool parallel_begin(struct pool_share *share, uint64_t key, void (*work)(void *ctx), void *ctx);
