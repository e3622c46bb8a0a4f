// SPDX-License-Identifier: Apache-2.0
// base/memory.h over one block: sizes are rounded up to powers of two, and freed pieces wait in a
// list per size. The lists live in the block too. Linked before the library, these definitions take
// the place of its own.
#include "heap_region.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HEAP_REGION_LEN ((size_t)4 << 20)
#define CLASSES         24

struct piece {
    size_t class; // 2^class bytes follow the header
    struct piece *next;
};

struct heap_region {
    size_t used; // of the block, this header included
    struct piece *spare[CLASSES];
};

_Static_assert(sizeof(struct piece) % alignof(max_align_t) == 0, "what follows is aligned");

static alignas(max_align_t) unsigned char block[HEAP_REGION_LEN];

static struct heap_region *region(void)
{
    struct heap_region *a = (struct heap_region *)(void *)block;
    if (a->used == 0) a->used = (sizeof *a + 15) / 16 * 16;
    return a;
}

void *memory_new(size_t len)
{
    struct heap_region *a = region();
    size_t class = 5;
    while (((size_t)1 << class) < len)
        class ++;
    CHECK(class < CLASSES);
    struct piece *p = a->spare[class];
    if (p) {
        a->spare[class] = p->next;
    } else {
        p = (struct piece *)(void *)(block + a->used);
        a->used += sizeof *p + ((size_t)1 << class);
        CHECK(a->used <= HEAP_REGION_LEN);
        p->class = class;
    }
    p->next = NULL;
    return p + 1;
}

void *memory_zeroed(size_t count, size_t size)
{
    CHECK(size == 0 || count <= SIZE_MAX / size);
    void *new = memory_new(count * size);
    memset(new, 0, count * size);
    return new;
}

void *memory_resize(void *old, size_t len)
{
    if (!old) return memory_new(len);
    size_t room = (size_t)1 << ((struct piece *)old - 1)->class;
    if (len <= room) return old;
    void *new = memory_new(len);
    memcpy(new, old, room);
    memory_free(old);
    return new;
}

void memory_free(void *old)
{
    if (!old) return;
    struct piece *p = (struct piece *)old - 1;
    p->next = region()->spare[p->class];
    region()->spare[p->class] = p;
}

void heap_region_reset(void)
{
    memset(block, 0, sizeof(struct heap_region));
}

void heap_region_save(struct heap_region_copy *to)
{
    to->len = region()->used;
    if (to->len > to->cap) {
        to->cap = to->len * 2;
        to->bytes = realloc(to->bytes, to->cap);
        CHECK(to->bytes);
    }
    memcpy(to->bytes, block, to->len);
}

void heap_region_restore(const struct heap_region_copy *from)
{
    memcpy(block, from->bytes, from->len);
}

void heap_region_copy_done(struct heap_region_copy *c)
{
    free(c->bytes);
    *c = (struct heap_region_copy){0};
}
