// SPDX-License-Identifier: Apache-2.0
// A binary heap with an index of positions.
#include "base/heap.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

void heap_init(struct heap *h)
{
    *h = (struct heap){0};
}

void heap_done(struct heap *h)
{
    memory_free(h->rows);
    memory_free(h->at);
    *h = (struct heap){0};
}

static bool before(const struct heap_row *a, const struct heap_row *b)
{
    return a->key != b->key ? a->key < b->key : a->tie < b->tie;
}

static void set(struct heap *h, size_t at, struct heap_row row)
{
    h->rows[at] = row;
    h->at[row.ref] = (uint32_t)(at + 1);
}

static void sift_up(struct heap *h, size_t at, struct heap_row row)
{
    while (at > 0) {
        size_t parent = (at - 1) / 2;
        if (!before(&row, &h->rows[parent])) break;
        set(h, at, h->rows[parent]);
        at = parent;
    }
    set(h, at, row);
}

static void sift_down(struct heap *h, size_t at, struct heap_row row)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= h->len) break;
        if (child + 1 < h->len && before(&h->rows[child + 1], &h->rows[child])) child++;
        if (!before(&h->rows[child], &row)) break;
        set(h, at, h->rows[child]);
        at = child;
    }
    set(h, at, row);
}

static void at_reserve(struct heap *h, uint32_t ref)
{
    if (ref < h->at_cap) return;
    size_t cap = h->at_cap < 64 ? 64 : h->at_cap;
    while (cap <= ref)
        cap *= 2;
    h->at = memory_resize(h->at, cap * sizeof *h->at);
    memset(h->at + h->at_cap, 0, (cap - h->at_cap) * sizeof *h->at);
    h->at_cap = cap;
}

void heap_push(struct heap *h, int64_t key, uint64_t tie, uint32_t ref)
{
    at_reserve(h, ref);
    CHECK(h->at[ref] == 0);
    if (h->len == h->cap) {
        h->cap = h->cap < 16 ? 16 : h->cap * 2;
        h->rows = memory_resize(h->rows, h->cap * sizeof *h->rows);
    }
    sift_up(h, h->len++, (struct heap_row){key, tie, ref});
}

void heap_remove(struct heap *h, uint32_t ref)
{
    CHECK(heap_has(h, ref));
    size_t at = h->at[ref] - 1;
    h->at[ref] = 0;
    struct heap_row last = h->rows[--h->len];
    if (last.ref == ref) return;
    if (at > 0 && before(&last, &h->rows[(at - 1) / 2])) {
        sift_up(h, at, last);
    } else {
        sift_down(h, at, last);
    }
}

bool heap_has(const struct heap *h, uint32_t ref)
{
    return ref < h->at_cap && h->at[ref] != 0;
}

const struct heap_row *heap_top(const struct heap *h)
{
    return h->len > 0 ? &h->rows[0] : NULL;
}

const struct heap_row *heap_get(const struct heap *h, uint32_t ref)
{
    CHECK(heap_has(h, ref));
    return &h->rows[h->at[ref] - 1];
}
