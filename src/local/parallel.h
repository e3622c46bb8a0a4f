// SPDX-License-Identifier: Apache-2.0
// A few threads for work that mostly waits for the store.
#pragma once

#include <stddef.h>

#define PARALLEL_MAX 8

// Calls work(ctx, i) for every i < count, on any thread, at most PARALLEL_MAX at a time. Returns
// when all calls have returned. A single one runs on the caller's thread.
void parallel_for(size_t count, void (*work)(void *ctx, size_t i), void *ctx);
