// SPDX-License-Identifier: Apache-2.0
// The numbers of a slab. The free ones are a stack.
#include "base/slab.h"

#include "base/check.h"

uint32_t slab_reuse(struct slab *s)
{
    CHECK(s->free_len > 0);
    s->used++;
    return s->free[--s->free_len];
}

uint32_t slab_extend(struct slab *s, void *rows, size_t row_size)
{
    uint32_t first = s->len;
    s->len = first > 0 ? first + 1 : 2; // the first row comes with row 0
    CHECK(s->len <= s->cap);
    memset((char *)rows + first * row_size, 0, (s->len - first) * row_size);
    s->used++;
    return s->len - 1;
}

void slab_release(struct slab *s, uint32_t number)
{
    CHECK(number > 0 && number < s->len && s->used > 0);
    *ARRAY_ADD(s->free, s->free_len, s->free_cap) = number;
    s->used--;
}

void slab_done(struct slab *s)
{
    memory_free(s->free);
    *s = (struct slab){0};
}
