// SPDX-License-Identifier: Apache-2.0
// malloc that never returns NULL.
#include "base/memory.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

#define SMALL_MAX 1024

static void *must(void *p)
{
    CHECK(p && "out of memory");
    return p;
}

void *memory_new(size_t len)
{
    return must(malloc(len > 0 ? len : 1));
}

void *memory_zeroed(size_t count, size_t size)
{
    // For small blocks malloc takes a shorter way than calloc.
    if (count == 1 && size > 0 && size <= SMALL_MAX) return memset(memory_new(size), 0, size);
    return must(calloc(count > 0 ? count : 1, size > 0 ? size : 1));
}

void *memory_resize(void *old, size_t len)
{
    return must(realloc(old, len > 0 ? len : 1));
}

void memory_free(void *old)
{
    free(old);
}

char *memory_text(const char *text)
{
    if (!text) return NULL;
    size_t len = strlen(text) + 1;
    return memcpy(memory_new(len), text, len);
}
