// SPDX-License-Identifier: Apache-2.0
// Memory of the engine. Running out aborts: all state is durable elsewhere, and a crash is the best
// tested path. Sizes that came from outside are compared with a named limit before they get here.
#pragma once

#include <stddef.h>

void *memory_new(size_t len); // never NULL
void *memory_zeroed(size_t count, size_t size);
void *memory_resize(void *old, size_t len);
void memory_free(void *old); // NULL is fine

#define NEW(type) ((type *)memory_zeroed(1, sizeof(type)))
