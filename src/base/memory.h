// SPDX-License-Identifier: Apache-2.0
// The engine's memory. Running out of memory aborts: all state is durable in the store, and a crash
// is the best tested path. The caller compares a size from outside with a named limit first.
#pragma once

#include <stddef.h>

void *memory_new(size_t len); // never NULL
void *memory_zeroed(size_t count, size_t size);
void *memory_resize(void *old, size_t len);
void memory_free(void *old);         // accepts NULL
char *memory_text(const char *text); // a copy; NULL for NULL

static inline void memory_let_go(void *at) // for CLEANUP of a pointer: `at` is its address
{
    memory_free(*(void **)at);
}

#define NEW(type) ((type *)memory_zeroed(1, sizeof(type)))
