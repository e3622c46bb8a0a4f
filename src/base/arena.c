// SPDX-License-Identifier: Apache-2.0
// A block of its own for each request, in a chain. So a sanitizer sees every write past an end.
#include "base/arena.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdint.h>
#include <string.h>

struct arena_block {
    struct arena_block *next;
    max_align_t content[];
};

void arena_done(struct arena *a)
{
    while (a->blocks) {
        struct arena_block *b = a->blocks;
        a->blocks = b->next;
        memory_free(b);
    }
}

void *arena_new(struct arena *a, size_t len)
{
    CHECK(len <= SIZE_MAX - sizeof(struct arena_block));
    struct arena_block *b = memory_new(sizeof *b + len);
    b->next = a->blocks;
    a->blocks = b;
    return b->content;
}

void *arena_copy(struct arena *a, const void *from, size_t len)
{
    CHECK(len < SIZE_MAX);
    char *copy = arena_new(a, len + 1);
    if (len > 0) memcpy(copy, from, len);
    copy[len] = '\0';
    return copy;
}

char *arena_text(struct arena *a, const char *text)
{
    return text ? arena_copy(a, text, strlen(text)) : NULL;
}
