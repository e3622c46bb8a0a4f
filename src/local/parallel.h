// SPDX-License-Identifier: Apache-2.0
// A handful of threads for work that mostly waits for the store.
#pragma once

#include <stddef.h>

#define TOGETHER_MAX 8

// Calls work(ctx, i) for every i under count, several at a time, on any thread; returns when all
// are done. One alone is called on the spot.
void together(size_t count, void (*work)(void *ctx, size_t i), void *ctx);
